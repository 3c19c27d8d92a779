//! The sending end.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use strait_core::Instant;

use super::{Numbering, OutOfSync};
use crate::d_pdu::{DATA_OVERHEAD, Data, Segment};
use crate::quality::{Late, Quality};

/// Times that a frame of twice the best length is sent before its C_PDU is cut anew; at four times
/// the best length one is enough, and for one that keeps the rate from falling.
const TRIES_BEFORE_CUTTING_ANEW: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be sent again: it was reported lost.
    Due,
    /// To be repeated if there is room, as it wasn't acknowledged.
    Untold,
    /// Sent, and nothing heard of it yet.
    Sent,
    Acked,
}

impl State {
    /// Whether it is to be sent again.
    const fn is_due(self) -> bool {
        matches!(self, Self::Due | Self::Untold)
    }
}

/// The C_PDU of frames whose own is given up, or cut anew.
const NOBODYS: u64 = u64::MAX;

#[derive(Debug)]
struct Frame {
    unit: u64,
    start: bool,
    end: bool,
    /// The piece of the C_PDU.
    from: usize,
    to: usize,
    state: State,
    tries: u8,
    /// Its C_PDU is given up.
    dropped: bool,
    /// Its C_PDU goes before repeats of others.
    urgent: bool,
}

/// A C_PDU under way.
#[derive(Debug)]
struct Unit<T> {
    octets: Vec<u8>,
    in_order: bool,
    /// It goes before repeats of others.
    urgent: bool,
    ticket: T,
    /// Octets cut into frames.
    cut: usize,
    /// Octets of each of its frames but the last.
    segment: usize,
    /// Frames that aren't acknowledged.
    open: u32,
    /// When its first octet left.
    began: Instant,
    /// When all of it had left for the first time, if it has.
    sent: Option<Instant>,
    /// When the last octet of it left.
    left: Instant,
}

/// The state of completely sent C_PDUs when the sending end begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// They may have arrived.
    Doubtful,
    /// The other end took nothing.
    Untaken,
}

/// A C_PDU that is over.
#[derive(Debug, PartialEq, Eq)]
pub struct Done<T> {
    /// The caller's value for it.
    pub ticket: T,
    /// The other end has it.
    pub acked: bool,
    /// When its first octet left.
    pub began: Instant,
    /// When all of it had left once.
    pub sent: Instant,
    /// When the last octet of it left, repeats included.
    pub left: Instant,
}

impl<T> Done<T> {
    /// A C_PDU that was given up before anything of it left.
    pub(super) const fn unsent(ticket: T) -> Self {
        Self {
            ticket,
            acked: false,
            began: Instant::ZERO,
            sent: Instant::ZERO,
            left: Instant::ZERO,
        }
    }
}

impl<T> Done<Option<T>> {
    /// The same, if it has an owner.
    pub(super) fn owned(self) -> Option<Done<T>> {
        Some(Done {
            ticket: self.ticket?,
            acked: self.acked,
            began: self.began,
            sent: self.sent,
            left: self.left,
        })
    }
}

/// Cuts C_PDUs into frames and repeats those that got lost.
#[derive(Debug)]
pub struct Sender<T> {
    numbering: Numbering,
    /// The longest segment.
    segment_max: usize,
    /// The longest segment that is sent again.
    again_max: usize,
    /// The number of the first frame.
    lower: u16,
    frames: VecDeque<Frame>,
    units: BTreeMap<u64, Unit<T>>,
    next_unit: u64,
    /// The C_PDU that is being segmented, or is to be segmented anew first.
    cutting: VecDeque<u64>,
    done: VecDeque<Done<T>>,
    /// Frames to be sent again.
    due: usize,
    /// After a turn that nothing was heard of: so many frames more, to be heard at all.
    probes: Option<u8>,
    /// The place up to which this turn's spare room has been filled.
    filled: usize,
    repeated: u64,
    late: Late,
}

impl<T> Sender<T> {
    /// An end that has sent nothing, with segments of at most `segment_max` octets.
    #[must_use]
    pub const fn new(numbering: Numbering, segment_max: usize) -> Self {
        Self {
            numbering,
            segment_max: if segment_max == 0 { 1 } else { segment_max },
            again_max: usize::MAX,
            lower: 0,
            frames: VecDeque::new(),
            units: BTreeMap::new(),
            next_unit: 0,
            cutting: VecDeque::new(),
            done: VecDeque::new(),
            due: 0,
            probes: None,
            filled: 0,
            repeated: 0,
            late: Late { frames: 0, came: 0 },
        }
    }

    /// The lowest number not acknowledged.
    #[must_use]
    pub const fn lower(&self) -> u16 {
        self.lower
    }

    /// Frames sent again so far.
    #[must_use]
    pub const fn repeated(&self) -> u64 {
        self.repeated
    }

    /// C_PDUs under way.
    #[must_use]
    pub fn held(&self) -> usize {
        self.units.len()
    }

    /// Frames from the lowest that isn't acknowledged to the last sent.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.frames.len()
    }

    /// The most frames under way.
    #[must_use]
    pub const fn window(&self) -> u32 {
        self.numbering.window()
    }

    /// Whether a new C_PDU would be cut now.
    #[must_use]
    pub fn takes(&self) -> bool {
        self.cutting.is_empty() && self.is_open() && self.probes.is_none()
    }

    fn is_open(&self) -> bool {
        self.frames.len() < self.numbering.window() as usize
    }

    /// Whether something is to be sent, without a new C_PDU.
    #[must_use]
    pub fn has_more(&self) -> bool {
        match self.probes {
            Some(left) => left > 0 && !self.frames.is_empty(),
            None => self.due > 0 || !self.cutting.is_empty() && self.is_open(),
        }
    }

    /// The longest segment that may go next, if new ones have about `segment` octets.
    #[must_use]
    pub fn longest(&self, segment: usize) -> usize {
        let open = |frame: &&Frame| frame.state != State::Acked;
        let again = self.frames.iter().filter(open);
        let again = again.map(|frame| frame.to - frame.from);
        let begun = self.cutting.iter().filter_map(|unit| self.units.get(unit));
        let begun = begun.filter(|unit| unit.cut > 0).map(|unit| unit.segment);
        // Even lengths may be half as much again.
        let new = (segment + segment / 2).min(self.segment_max);
        again.chain(begun).fold(new, usize::max)
    }

    /// The octets of [`Self::has_more`], `around` for each frame, in frames of `segment` octets;
    /// and how many frames the window takes beside.
    #[must_use]
    pub fn backlog(&self, segment: usize, around: usize) -> (usize, usize) {
        if let Some(left) = self.probes {
            let places = (1..=left).filter_map(|left| self.probe_place(left));
            let frames = places.map(|place| &self.frames[place]);
            let octets = frames.map(|frame| frame.to - frame.from + around);
            return (octets.sum(), 0);
        }
        let due = self.frames.iter().filter(|frame| frame.state.is_due());
        let due: usize = due.map(|frame| frame.to - frame.from + around).sum();
        let mut free = self.numbering.window() as usize - self.frames.len();
        let mut octets = due;
        for unit in self.cutting.iter().filter_map(|unit| self.units.get(unit)) {
            let left = unit.octets.len() - unit.cut;
            let segment = self.segment_of(unit, segment).max(1);
            let frames = left.div_ceil(segment).min(free);
            octets += left.min(frames * segment) + frames * around;
            free -= frames;
        }
        (octets, free)
    }

    /// Takes a C_PDU, to be cut when there is room for it; an urgent one goes before repeats of
    /// others. The caller asked [`Self::takes`].
    pub fn offer(&mut self, octets: Vec<u8>, in_order: bool, urgent: bool, ticket: T) {
        let unit = Unit {
            octets,
            in_order,
            urgent,
            ticket,
            cut: 0,
            segment: 0,
            open: 0,
            began: Instant::ZERO,
            sent: None,
            left: Instant::ZERO,
        };
        self.units.insert(self.next_unit, unit);
        self.cutting.push_back(self.next_unit);
        self.next_unit += 1;
    }

    /// Data reported lost from now on, with longer segments, is segmented anew.
    pub const fn set_again_max(&mut self, octets: usize) {
        self.again_max = octets;
    }

    /// A new turn begins: spare room may be filled with any of its frames.
    pub fn begin_turn(&mut self) {
        self.filled = 0;
    }

    /// The next frame, with at most `room` octets of segment; new ones have about `segment`.
    /// `begins` is when it begins to leave, `ends` says when so many octets have left.
    pub fn next(
        &mut self,
        room: usize,
        segment: usize,
        begins: Instant,
        ends: impl Fn(usize) -> Instant,
    ) -> Option<Data<'_>> {
        let place = match self.probes {
            Some(0) => return None,
            Some(left) => {
                let place = self.probe_place(left)?;
                let frame = &self.frames[place];
                (frame.to - frame.from <= room).then_some(())?;
                self.probes = Some(left - 1);
                place
            }
            None => match self.due_place(room, self.cuts_first()) {
                Some(place) => place,
                // The next answer covers frames that this one didn't: new frames go before.
                None => match self.cut(room, segment, begins) {
                    Some(place) => place,
                    None => self.untold_place(room)?,
                },
            },
        };
        Some(self.send(place, ends))
    }

    /// A frame of this turn once more, where there is room left and nothing else to send.
    pub fn fill(&mut self, room: usize, ends: impl Fn(usize) -> Instant) -> Option<Data<'_>> {
        let from = self.filled;
        let fits = |(_, frame): &(usize, &Frame)| {
            frame.state == State::Sent && frame.to - frame.from <= room
        };
        let mut frames = self.frames.iter().enumerate().skip(from);
        let (place, _) = frames.find(fits)?;
        self.filled = place + 1;
        Some(self.send(place, ends))
    }

    /// Where the frame stands that goes with so many probes left: the first that isn't
    /// acknowledged, and the last.
    fn probe_place(&self, left: u8) -> Option<usize> {
        let open = |frame: &Frame| frame.state != State::Acked;
        if left > 1 {
            self.frames.iter().position(open)
        } else {
            self.frames.iter().rposition(open)
        }
    }

    /// Whether the C_PDU being segmented precedes repeats of other C_PDUs that aren't urgent.
    fn cuts_first(&self) -> bool {
        let front = self.cutting.front().and_then(|unit| self.units.get(unit));
        self.is_open() && front.is_some_and(|unit| unit.urgent)
    }

    /// Where the first frame stands that is due and fits, of urgent ones or of all.
    fn due_place(&self, room: usize, urgent: bool) -> Option<usize> {
        if self.due == 0 {
            return None;
        }
        self.frames.iter().position(|frame| {
            let fits = frame.to - frame.from <= room && (frame.urgent || !urgent);
            frame.state == State::Due && fits
        })
    }

    /// The position of the first unreported frame that fits.
    fn untold_place(&self, room: usize) -> Option<usize> {
        if self.due == 0 {
            return None;
        }
        self.frames
            .iter()
            .position(|frame| frame.state == State::Untold && frame.to - frame.from <= room)
    }

    fn send(&mut self, place: usize, ends: impl Fn(usize) -> Instant) -> Data<'_> {
        let last = self.frames.len() - 1;
        let number = self.numbering.add(self.lower, place as u32);
        let frame = &mut self.frames[place];
        self.due -= usize::from(frame.state.is_due());
        self.repeated += u64::from(frame.tries > 0);
        frame.state = State::Sent;
        frame.tries = frame.tries.saturating_add(1);
        let mut in_order = false;
        let octets: &[u8] = match self.units.get_mut(&frame.unit) {
            Some(unit) if !frame.dropped => {
                unit.left = unit.left.max(ends(frame.to - frame.from));
                if frame.end && unit.sent.is_none() {
                    unit.sent = Some(unit.left);
                }
                in_order = unit.in_order;
                &unit.octets[frame.from..frame.to]
            }
            _ => &[],
        };
        Data {
            start: frame.start,
            end: frame.end,
            in_order,
            dropped: frame.dropped,
            upper: place == last,
            lower: place == 0,
            number,
            segment: Segment::whole(octets),
        }
    }

    /// How long the frames of a C_PDU are, but for its last, if new ones have about `segment`. All
    /// have an even length: a short one at the end costs as much around it as others. A little more
    /// than the best length is as good as a little less.
    fn segment_of(&self, unit: &Unit<T>, segment: usize) -> usize {
        if unit.cut > 0 {
            return unit.segment;
        }
        let (octets, segment) = (unit.octets.len(), segment.max(1));
        let least = octets.div_ceil(self.segment_max).max(1);
        let frames = ((octets + segment / 2) / segment).max(least);
        octets.div_ceil(frames)
    }

    /// Cuts the next frame and says where it is.
    fn cut(&mut self, room: usize, segment: usize, begins: Instant) -> Option<usize> {
        if !self.is_open() {
            return None;
        }
        let number = *self.cutting.front()?;
        let segment = self.segment_of(self.units.get(&number)?, segment);
        let unit = self.units.get_mut(&number)?;
        if unit.cut == 0 {
            unit.segment = segment;
            unit.began = begins;
        }
        let left = unit.octets.len() - unit.cut;
        let mut octets = unit.segment.min(left);
        if octets > room {
            // Edition 3 lets only the last segment of a C_PDU be shorter than others.
            if !self.numbering.is_long() || room < unit.segment / 4 || room < 16 {
                return None;
            }
            octets = room;
        }
        let frame = Frame {
            unit: number,
            start: unit.cut == 0,
            end: octets == left,
            from: unit.cut,
            to: unit.cut + octets,
            state: State::Sent,
            tries: 0,
            dropped: false,
            urgent: unit.urgent,
        };
        unit.cut += octets;
        unit.open += 1;
        if frame.end {
            self.cutting.pop_front();
        }
        self.frames.push_back(frame);
        Some(self.frames.len() - 1)
    }

    /// Learns that everything below `lower` was received, and of frames above it by `received`:
    /// whether the frame so many places above `lower` was, if known. Sent frames that weren't
    /// received are due again, and `quality` learns of both.
    ///
    /// # Errors
    /// If `lower` isn't a number that is under way or the next one, or an unsent frame is reported
    /// as received (C.6.3.2.2).
    pub fn acknowledge(
        &mut self,
        lower: u16,
        received: impl Fn(usize) -> Option<bool>,
        segment_best: usize,
        quality: &mut Quality,
    ) -> Result<(), OutOfSync> {
        let below = self.numbering.ahead(self.lower, lower) as usize;
        let Some(above) = self.frames.len().checked_sub(below) else {
            return Err(OutOfSync);
        };
        let mut beyond = above.max(1)..self.numbering.receive_window() as usize;
        if beyond.any(|above| received(above) == Some(true)) {
            return Err(OutOfSync);
        }
        self.probes = None;
        // Segments are that short for the time that they take.
        let around = DATA_OVERHEAD + 2;
        let slow = segment_best * 3 / 2 < quality.segment_octets(around, self.segment_max);
        let mut too_long_for = Vec::new();
        for place in 0..self.frames.len() {
            let told = match place.checked_sub(below) {
                None => Some(true),
                Some(0) => Some(false),
                Some(above) => received(above),
            };
            let Some(came) = told else { continue };
            let frame = &mut self.frames[place];
            let octets = frame.to - frame.from;
            if frame.state == State::Acked {
                continue;
            }
            if frame.state == State::Sent {
                quality.learn(octets + DATA_OVERHEAD + 2, came);
            } else {
                let untold = u32::from(frame.state == State::Untold);
                self.late.frames += untold;
                self.late.came += untold * u32::from(came);
                self.due -= usize::from(came);
            }
            if came {
                frame.state = State::Acked;
                let unit = frame.unit;
                self.close_frame(unit);
                continue;
            }
            self.due += usize::from(frame.state == State::Sent);
            frame.state = State::Due;
            let times = octets / segment_best.max(1);
            let often = frame.tries >= TRIES_BEFORE_CUTTING_ANEW;
            let takes_long = octets > self.again_max || slow && times >= 4;
            let too_long = takes_long || times >= 4 || times >= 2 && often;
            // Of C_PDUs in order, later ones may be there already.
            let in_order = |unit: &Unit<T>| unit.in_order;
            if too_long && !frame.dropped && !self.units.get(&frame.unit).is_some_and(in_order) {
                too_long_for.push((frame.unit, place, takes_long));
            }
        }
        too_long_for.dedup_by_key(|it| (it.0, it.2));
        for (unit, place, takes_long) in too_long_for {
            if takes_long || self.is_cheaper_anew(place, segment_best, quality) {
                self.cut_anew(unit);
            }
        }
        while let Some(Frame {
            state: State::Acked,
            ..
        }) = self.frames.front()
        {
            self.frames.pop_front();
            self.lower = self.numbering.add(self.lower, 1);
        }
        Ok(())
    }

    /// The other end has reported all: sent frames without an acknowledgement are due again.
    pub fn end_answer(&mut self) {
        self.probes = None;
        for frame in &mut self.frames {
            if frame.state == State::Sent {
                frame.state = State::Untold;
                self.due += 1;
            }
        }
    }

    /// The waveform is a slower one: frames that got lost by the last one may come by this one.
    pub fn forget_tries(&mut self) {
        let tried = self.frames.iter_mut().filter(|it| it.tries > 1);
        tried.for_each(|frame| frame.tries = 1);
    }

    /// Frames reported since the last call, and not by the answer to their turn.
    pub fn take_late(&mut self) -> Late {
        core::mem::take(&mut self.late)
    }

    /// Counts a frame of a C_PDU as received.
    fn close_frame(&mut self, number: u64) {
        let Some(unit) = self.units.get_mut(&number) else {
            return;
        };
        unit.open = unit.open.saturating_sub(1);
        if unit.open > 0 || unit.cut < unit.octets.len() {
            return;
        }
        if let Some(unit) = self.units.remove(&number) {
            self.done.push_back(unit.done(true));
        }
    }

    /// Gives up the C_PDUs whose tickets are `such`: the other end is informed, in place of their
    /// frames, of those that began to leave.
    pub fn give_up(&mut self, such: impl Fn(&T) -> bool) {
        let those = self.units.iter().filter(|(_, unit)| such(&unit.ticket));
        let those: Vec<u64> = those.map(|(number, _)| *number).collect();
        for number in those {
            if let Some(unit) = self.drop_frames(number) {
                self.done.push_back(unit.done(false));
            }
        }
    }

    /// Takes a C_PDU out; frames of it that were sent say that they are given up from now on.
    fn drop_frames(&mut self, number: u64) -> Option<Unit<T>> {
        let unit = self.units.remove(&number)?;
        for frame in self.frames.iter_mut().filter(|frame| frame.unit == number) {
            frame.dropped = true;
            (frame.unit, frame.from, frame.to) = (NOBODYS, 0, 0);
        }
        self.cutting.retain(|cutting| *cutting != number);
        Some(unit)
    }

    /// Whether the C_PDU of the frame at `place` would arrive after fewer octets if all of it went
    /// again, in segments of so many octets, than if only its missing frames did. A frame that was
    /// lost so often isn't likely to come, whatever is expected.
    fn is_cheaper_anew(&self, place: usize, segment: usize, quality: &Quality) -> bool {
        let number = self.frames[place].unit;
        let Some(unit) = self.units.get(&number) else {
            return false;
        };
        let around = DATA_OVERHEAD + 2;
        let sent = |octets: usize, tries: u8| {
            let comes = 1.0 / (f64::from(tries) + 1.0);
            (octets + around) as f64 / quality.comes(octets + around).min(comes)
        };
        let each =
            |octets: usize, segment: usize| octets as f64 / segment as f64 * sent(segment, 0);
        // No other frame comes between those of one C_PDU: an answer costs no search of the window.
        let of_unit = |it: &&Frame| it.unit == number;
        let before = self.frames.range(..place).rev().take_while(of_unit);
        let all = before.chain(self.frames.range(place..).take_while(of_unit));
        let lacking = all.filter(|it| it.state != State::Acked);
        let again: f64 = lacking.map(|it| sent(it.to - it.from, it.tries)).sum();
        let rest = each(unit.octets.len() - unit.cut, unit.segment.max(1));
        each(unit.octets.len(), segment.max(1)) < again + rest
    }

    /// Gives up the frames of a C_PDU that the other end hasn't completely received, and cuts it
    /// into shorter ones: on a channel that got worse, long ones would never arrive. It keeps its
    /// place before later ones: a receiver that restores order waits for the first.
    fn cut_anew(&mut self, number: u64) {
        let Some(mut unit) = self.drop_frames(number) else {
            return;
        };
        (unit.cut, unit.open, unit.sent) = (0, 0, None);
        self.units.insert(number, unit);
        // No other frame comes between those of one C_PDU.
        let begun = self.cutting.front().and_then(|front| self.units.get(front));
        let first = usize::from(begun.is_some_and(|unit| unit.cut > 0));
        let mut waiting = self.cutting.iter().enumerate().skip(first);
        let place = waiting.find(|(_, other)| **other > number);
        let place = place.map_or(self.cutting.len(), |(place, _)| place);
        self.cutting.insert(place, number);
    }

    /// The other end got this end's lower edge, and has forgotten frames above it: all of them are
    /// repeated; for a finished C_PDU, that it is given up.
    pub fn resync(&mut self) {
        self.probes = None;
        for frame in &mut self.frames {
            match self.units.get_mut(&frame.unit) {
                Some(unit) => unit.open += u32::from(frame.state == State::Acked),
                None => {
                    frame.dropped = true;
                    (frame.from, frame.to) = (0, 0);
                }
            }
            frame.state = State::Due;
        }
        self.due = self.frames.len();
    }

    /// A turn passed of which nothing was heard: the next one sends as little as gives an answer.
    pub fn probe(&mut self) {
        if !self.frames.is_empty() {
            self.probes = Some(2);
        }
    }

    /// The next C_PDU that is over.
    pub fn poll(&mut self) -> Option<Done<T>> {
        self.done.pop_front()
    }

    /// The other end accepted nothing from `since` on: C_PDUs sent completely only then haven't
    /// arrived.
    pub fn not_taken(&mut self, since: Instant) {
        for unit in self.units.values_mut() {
            unit.sent = unit.sent.filter(|sent| *sent < since);
        }
    }

    /// Begins anew with `numbering`. C_PDUs that had `left` completely are over without an
    /// acknowledgement if they may have arrived; the others can't have, and are sent again.
    pub fn restart(&mut self, numbering: Numbering, left: Left) {
        let units = core::mem::take(&mut self.units);
        self.clear(numbering);
        for (number, mut unit) in units {
            if unit.sent.is_some() && left == Left::Doubtful {
                self.done.push_back(unit.done(false));
                continue;
            }
            (unit.cut, unit.open, unit.sent) = (0, 0, None);
            self.cutting.push_back(number);
            self.units.insert(number, unit);
        }
    }

    /// Begins anew with nothing: all that was under way is over.
    pub fn abandon(&mut self) {
        let units = core::mem::take(&mut self.units);
        self.clear(self.numbering);
        self.done
            .extend(units.into_values().map(|unit| unit.done(false)));
    }

    fn clear(&mut self, numbering: Numbering) {
        self.numbering = numbering;
        self.lower = 0;
        self.frames.clear();
        self.cutting.clear();
        (self.due, self.probes, self.filled) = (0, None, 0);
    }
}

impl<T> Sender<Option<T>> {
    /// Marks C_PDUs whose tickets are `such` as over, and continues with them. Whether there were
    /// any.
    pub(super) fn disown(&mut self, such: impl Fn(&T) -> bool) -> bool {
        let before = self.done.len();
        for unit in self.units.values_mut() {
            let ticket = unit.ticket.take_if(|ticket| such(ticket));
            self.done.extend(ticket.map(|ticket| Done {
                ticket: Some(ticket),
                acked: false,
                began: unit.began,
                sent: unit.sent.unwrap_or(unit.left),
                left: unit.left,
            }));
        }
        self.done.len() > before
    }
}

impl<T> Unit<T> {
    fn done(self, acked: bool) -> Done<T> {
        Done {
            ticket: self.ticket,
            acked,
            began: self.began,
            sent: self.sent.unwrap_or(self.left),
            left: self.left,
        }
    }
}
