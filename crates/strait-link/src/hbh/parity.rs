//! Parity frames: what is lost of a few packets is made again from the others, in less than a
//! round trip.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::{ClassId, Duration, Instant, Packet};
use strait_wire::hbh::{DataHeader, Lifetime, Parity, ParitySum};
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

    /// The octets of the longest packet, as it stood in its frame, of which the frame of a class
    /// tells that is to go. What stands around it isn't more than around any packet.
    pub(crate) fn octets(&self, class: ClassId) -> Option<u32> {
        let group = self.due(class)?;
        let around = 2 + self.check.octets() + DataHeader::REST_OCTETS;
        Some(group.sum.octets().len().saturating_sub(around) as u32)
    }

    /// A packet has left at this moment.
    pub(crate) fn left(&mut self, seq: u16, ended: Instant) {
        let mut groups = self.groups.iter_mut();
        if let Some(group) = groups.find(|group| group.newest() == Some(seq)) {
            group.last = ended;
        }
    }

    /// A packet is sent again, perhaps in another form: what is told of it would fit no more.
    pub(crate) fn forget(&mut self, seq: u16) {
        let groups = self.groups.iter_mut();
        let mut told = groups.filter(|group| group.count > 0);
        if let Some(group) = told.find(|group| group.numbers().any(|number| number == seq)) {
            group.clear();
        }
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

    /// The number of the last packet.
    fn newest(&self) -> Option<u16> {
        self.numbers().last().filter(|_| self.count > 0)
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

/// What came lately with tags of which parity frames come.
///
/// None is kept before the first parity frame with its tag, so links without them pay nothing.
#[derive(Debug)]
pub(crate) struct Recent {
    check: SegmentCheck,
    tags: u8,
    /// In the order in which they came.
    parts: VecDeque<Part>,
}

/// What stood behind number and serial of a packet.
#[derive(Debug, Default)]
struct Part {
    seq: u16,
    came: Instant,
    octets: Vec<u8>,
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
    pub(crate) fn note(&mut self, now: Instant, header: &DataHeader, line: &[u8]) {
        // Of an older one the number may be another packet's by now.
        self.parts.retain(|part| {
            let distance = header.seq.wrapping_sub(part.seq) as i16;
            distance.unsigned_abs() <= Self::DISTANCE_MAX
        });
        if self.tags >> (header.tag & 7) & 1 == 0 {
            return;
        }
        let spare = (self.parts.len() >= Self::PARTS).then(|| self.parts.pop_front());
        let mut part = spare.flatten().unwrap_or_default();
        (part.seq, part.came) = (header.seq, now);
        part.octets.clear();
        part.octets.extend_from_slice(&header.rest());
        part.octets.extend_from_slice(line);
        self.parts.push_back(part);
    }

    /// The header of the one packet of a group that is missing, as if it left now, and what stood
    /// for it.
    pub(crate) fn missing(
        &mut self,
        now: Instant,
        parity: &Parity<'_>,
    ) -> Option<(DataHeader, Vec<u8>)> {
        self.tags |= 1 << (parity.tag & 7);
        let part = |seq: u16| self.parts.iter().find(|part| part.seq == seq);
        let mut missing = parity.numbers().filter(|seq| part(*seq).is_none());
        let (Some(seq), None) = (missing.next(), missing.next()) else {
            return None;
        };
        let parts = || parity.numbers().filter_map(part);
        let mut sum = ParitySum::of(parity);
        parts().for_each(|part| sum.add(self.check, &[&part.octets]));
        let octets = sum.single(self.check)?;
        let mut header = DataHeader::with_rest(seq, parity.serial, octets)?;
        // It left behind the packet before it: so long it has been on its way, or a little less.
        let ahead = |part: &&Part| (seq.wrapping_sub(part.seq) as i16) > 0;
        let near = parts().filter(ahead).last().or_else(|| parts().next());
        let since = near.map_or(Duration::ZERO, |part| now.since(part.came));
        if let Some(left) = header.lifetime.left() {
            header.lifetime = Lifetime::of(left.saturating_sub(since));
        }
        let line = octets.get(DataHeader::REST_OCTETS..)?.to_vec();
        Some((header, line)).filter(|_| header.tag == parity.tag)
    }

    /// Numbers begin anew.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
    }
}
