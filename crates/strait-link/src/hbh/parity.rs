//! Parity frames: what is lost of a few packets is made again from the others, in less than a
//! round trip.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::{ClassId, Duration, Instant, Packet};
use strait_wire::hbh::{DataHeader, Parity, ParitySum};
use strait_wire::segment::SegmentCheck;

/// Packets of a class that were sent and of which a parity frame is to tell.
#[derive(Debug)]
struct Group {
    class: ClassId,
    tag: u8,
    first: u16,
    others: u32,
    count: u16,
    sum: ParitySum,
    /// When the last packet left, and how long after the one before it.
    last: Instant,
    spacing: Duration,
    /// When all of them are too old.
    expires: Instant,
    /// Its frame is to go.
    due: bool,
}

/// The groups of a sender, at most one a class.
#[derive(Debug)]
pub(crate) struct Groups {
    check: SegmentCheck,
    groups: Vec<Group>,
}

impl Groups {
    /// A pause as long ends a group: what is lost of a few packets can't wait for those that come
    /// later. As long as three packets of a usual call are apart.
    const PAUSE: Duration = Duration::from_millis(60);
    /// Where packets are further apart, twice their distance does; but not more than that.
    const PAUSE_MAX: Duration = Duration::from_millis(300);

    pub(crate) const fn new(check: SegmentCheck) -> Self {
        Self {
            check,
            groups: Vec::new(),
        }
    }

    /// Adds a packet that leaves now, for the first time, with what stands for it in its frame. A
    /// group is due with `most` of them.
    pub(crate) fn add(
        &mut self,
        now: Instant,
        packet: &Packet,
        most: u16,
        header: &DataHeader,
        line: &[u8],
    ) {
        let class = packet.class;
        let place = self.groups.iter().position(|group| group.class == class);
        let place = place.unwrap_or_else(|| {
            self.groups.push(Group::new(class));
            self.groups.len() - 1
        });
        let Some(group) = self.groups.get_mut(place) else {
            return;
        };
        let behind = header.seq.wrapping_sub(group.first);
        let joins = (1..=Parity::SPAN_MAX).contains(&behind) && group.tag == header.tag;
        if group.count > 0 && !joins {
            group.clear();
        }
        if group.count == 0 {
            (group.first, group.tag) = (header.seq, header.tag);
        } else {
            group.others |= 1 << (behind - 1);
        }
        group.count += 1;
        group.sum.add(self.check, &[&header.rest(), line]);
        group.expires = group.expires.max(packet.expires);
        group.spacing = now.since(group.last);
        group.last = now;
        group.due |= group.count >= most;
    }

    /// The newest number that was sent: groups that the next one couldn't join are due.
    pub(crate) fn pass(&mut self, seq: u16) {
        for group in &mut self.groups {
            let behind = seq.wrapping_sub(group.first);
            group.due |= group.count > 0 && behind >= Parity::SPAN_MAX;
        }
    }

    /// Whether a packet's group is still to be told of: then nobody can tell that it is missing.
    pub(crate) fn has(&self, seq: u16) -> bool {
        let mut groups = self.groups.iter();
        groups.any(|group| group.count > 0 && group.numbers().any(|number| number == seq))
    }

    /// When a pause ends a group, or one is too old.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        let open = self.groups.iter().filter(|it| it.count > 0);
        let wakes = open.map(|group| {
            let ends = if group.due {
                group.expires
            } else {
                group.ends()
            };
            ends.min(group.expires)
        });
        wakes.min().filter(|at| *at < Instant::NEVER)
    }

    /// Ends the groups whose pause is over, and forgets those that are too old.
    pub(crate) fn advance(&mut self, now: Instant) {
        for group in self.groups.iter_mut().filter(|group| group.count > 0) {
            group.due |= group.ends() <= now;
            if group.expires <= now {
                group.clear();
            }
        }
    }

    /// Classes of which a frame is to go.
    pub(crate) fn classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        let due = self.groups.iter().filter(|group| group.due);
        due.map(|group| group.class)
    }

    /// The octets of the frame of a class that is to go.
    pub(crate) fn octets(&self, class: ClassId) -> Option<u32> {
        let group = self.due(class)?;
        Some(group.sum.octets().len() as u32)
    }

    fn due(&self, class: ClassId) -> Option<&Group> {
        let mut groups = self.groups.iter();
        groups.find(|group| group.due && group.class == class)
    }

    /// The frame of a class that goes with this serial.
    pub(crate) fn parity(&self, class: ClassId, serial: u16) -> Option<Parity<'_>> {
        self.due(class).map(|group| group.parity(serial))
    }

    /// That frame has gone.
    pub(crate) fn sent(&mut self, class: ClassId) {
        let groups = self.groups.iter_mut();
        groups
            .filter(|group| group.class == class)
            .for_each(Group::clear);
    }

    /// Numbers begin anew.
    pub(crate) fn clear(&mut self) {
        self.groups.clear();
    }
}

impl Group {
    fn new(class: ClassId) -> Self {
        Self {
            class,
            tag: 0,
            first: 0,
            others: 0,
            count: 0,
            sum: ParitySum::default(),
            last: Instant::ZERO,
            spacing: Duration::ZERO,
            expires: Instant::ZERO,
            due: false,
        }
    }

    fn clear(&mut self) {
        (self.count, self.others, self.due) = (0, 0, false);
        self.expires = Instant::ZERO;
        self.sum.clear();
    }

    fn parity(&self, serial: u16) -> Parity<'_> {
        Parity {
            tag: self.tag,
            first: self.first,
            others: self.others,
            serial,
            sum: self.sum.octets(),
        }
    }

    fn numbers(&self) -> impl Iterator<Item = u16> + use<> {
        self.parity(0).numbers()
    }

    fn ends(&self) -> Instant {
        let pause = self.spacing * 2;
        let pause = if self.spacing > Groups::PAUSE_MAX {
            Groups::PAUSE
        } else {
            pause.max(Groups::PAUSE)
        };
        self.last + pause.min(Groups::PAUSE_MAX)
    }
}

/// What came lately with tags of which parity frames come: what stood behind numbers and serials.
///
/// None is kept before the first parity frame with its tag, so links without them pay nothing.
#[derive(Debug)]
pub(crate) struct Recent {
    check: SegmentCheck,
    tags: u8,
    /// In the order in which they came.
    parts: VecDeque<(u16, Vec<u8>)>,
}

impl Recent {
    /// As many as a parity frame may tell of.
    const PARTS: usize = Parity::SPAN_MAX as usize + 1;
    /// Numbers between which no parity frame tells of both, whatever overtook what.
    const DISTANCE_MAX: u16 = 1000;

    pub(crate) const fn new(check: SegmentCheck) -> Self {
        Self {
            check,
            tags: 0,
            parts: VecDeque::new(),
        }
    }

    /// Takes note of a packet that came.
    pub(crate) fn note(&mut self, header: &DataHeader, line: &[u8]) {
        if self.tags >> (header.tag & 7) & 1 == 0 {
            return;
        }
        // Of an older one the number may be another packet's by now.
        let old = |seq: &u16| {
            let distance = header.seq.wrapping_sub(*seq) as i16;
            distance.unsigned_abs() > Self::DISTANCE_MAX
        };
        while self.parts.front().is_some_and(|(seq, _)| old(seq)) {
            self.parts.pop_front();
        }
        let spare = (self.parts.len() >= Self::PARTS).then(|| self.parts.pop_front());
        let (_, mut part) = spare.flatten().unwrap_or_default();
        part.clear();
        part.extend_from_slice(&header.rest());
        part.extend_from_slice(line);
        self.parts.push_back((header.seq, part));
    }

    /// What stood in the one frame of a group that is missing, and its packet's number.
    pub(crate) fn missing(&mut self, parity: &Parity<'_>) -> Option<(u16, Vec<u8>)> {
        self.tags |= 1 << (parity.tag & 7);
        let part = |seq: u16| self.parts.iter().find(|(number, _)| *number == seq);
        let mut missing = parity.numbers().filter(|seq| part(*seq).is_none());
        let (Some(seq), None) = (missing.next(), missing.next()) else {
            return None;
        };
        let mut sum = ParitySum::of(parity);
        for (_, part) in parity.numbers().filter_map(part) {
            sum.add(self.check, &[part]);
        }
        sum.single(self.check).map(|part| (seq, part.to_vec()))
    }

    /// Numbers begin anew.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
    }
}
