//! A transmission of this station: its length, its contents so far, and the place of the next
//! D_PDU.

use alloc::vec::Vec;

use strait_core::node::Turn;
use strait_core::{Duration, Instant, Room};

use super::ladder::Pace;
use crate::address::{Address, field_octets};
use crate::c_pdu::CPdu;
use crate::d_pdu::{Body, DPdu, SYNC};

/// The unit of the time in each D_PDU after which the transmission ends.
pub(super) const EOT_UNIT: Duration = Duration::from_millis(500);

/// The longest time that it can tell.
pub(super) const EOT_MAX: Duration = Duration::from_millis(127_500);

/// Octets of a D_PDU with neither addresses nor anything of its own.
pub(super) const EMPTY: usize = SYNC.len() + 4 + 2;

/// A transmission of this station.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transmission {
    peer: usize,
    /// The place of its rate, if rates change, and its consequences.
    place: usize,
    pace: Pace,
    blocks: u32,
    starts: Instant,
    ends: Instant,
    /// Octets that waited when it began and haven't been offered.
    planned: usize,
    /// Nothing was pulled yet.
    begins: bool,
    pub(super) wants_answer: bool,
    /// It acknowledges.
    pub(super) answers: bool,
    /// It has data without ARQ.
    pub(super) plain: bool,
    /// It has something beside data.
    pub(super) word: bool,
    /// It has no data.
    brief: bool,
    pub(super) again_from: Instant,
    /// Acknowledgements have gone out up to so many places above the lower edge.
    pub(super) acked: Option<usize>,
    /// The link message, to repeat it if there is room.
    pub(super) said: Option<(CPdu<'static>, u16)>,
    /// Times that the acknowledgement may be repeated if there is room: without it, all its frames
    /// are sent again.
    pub(super) acks_again: u8,
}

/// The inputs for planning a transmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) peer: usize,
    pub(super) place: usize,
    pub(super) pace: Pace,
    pub(super) starts: Instant,
    /// Octets that it is to have, if they fit,
    pub(super) octets: usize,
    /// and those of its longest D_PDU, which does fit.
    pub(super) longest: usize,
    /// Octets that wait for it.
    pub(super) waiting: usize,
    pub(super) brief: bool,
    /// From when on it may say the same again.
    pub(super) again_from: Instant,
    pub(super) shortest: Duration,
    /// The longest that is risked,
    pub(super) risked: Duration,
    /// and that there is.
    pub(super) turn_max: Duration,
}

impl Transmission {
    pub(super) fn new(plan: &Plan) -> Self {
        let pace = plan.pace;
        let risked = pace.whole_blocks(plan.risked);
        let most = risked.max(pace.blocks_for(plan.longest));
        let most = most.clamp(1, pace.whole_blocks(plan.turn_max).max(1));
        let least = pace.blocks_in(plan.shortest).clamp(1, most);
        let blocks = pace.blocks_for(plan.octets).clamp(least, most);
        Self {
            peer: plan.peer,
            place: plan.place,
            pace,
            blocks,
            starts: plan.starts,
            ends: plan.starts + pace.time_of(blocks),
            planned: if plan.brief { 0 } else { plan.waiting },
            begins: true,
            wants_answer: false,
            answers: false,
            plain: false,
            word: false,
            brief: plan.brief,
            again_from: plan.again_from,
            acked: None,
            said: None,
            acks_again: 0,
        }
    }

    pub(super) const fn peer(&self) -> usize {
        self.peer
    }

    /// The place of its rate.
    pub(super) const fn place(&self) -> usize {
        self.place
    }

    /// Whether it has no data.
    pub(super) const fn is_brief(&self) -> bool {
        self.brief
    }

    /// Whether it has data without ARQ and nothing else.
    pub(super) const fn is_only_plain(&self) -> bool {
        self.plain && !self.word && !self.wants_answer
    }

    #[cfg(test)]
    pub(super) const fn ends(&self) -> Instant {
        self.ends
    }

    /// Octets of the data that waited at its beginning were offered.
    pub(super) const fn take(&mut self, octets: usize) {
        self.planned = self.planned.saturating_sub(octets);
    }

    /// Whether data that arrives at this moment still joins it, if the modem gets octets `ahead` of
    /// time.
    pub(super) fn is_open(&self, now: Instant, ahead: Option<Duration>) -> bool {
        let in_time = |ahead| self.planned > 0 || now.max(self.starts) + ahead < self.ends;
        ahead.map_or(!self.brief, in_time)
    }

    /// The room for the next D_PDU.
    pub(super) fn room(&self, room: Room) -> Room {
        let mut room = room;
        if self.begins {
            let all = self.pace.octets_in(self.blocks);
            room.octets = match self.pace.mode {
                // The room is that by the medium's own.
                Some(_) => all,
                None => room.octets.min(all),
            };
        }
        room
    }

    /// Nothing has left yet.
    pub(super) const fn begins(&self) -> bool {
        self.begins
    }

    /// The medium's description of it, with so many octets left.
    pub(super) fn turn(&mut self, octets_left: usize) -> Turn {
        Turn {
            key_up: core::mem::take(&mut self.begins),
            // Less than that is no D_PDU.
            last: octets_left < EMPTY + 2,
            ..self.idle_turn()
        }
    }

    /// The same, if it has no further octets.
    pub(super) const fn idle_turn(&self) -> Turn {
        Turn {
            key_up: false,
            blocks: self.blocks,
            last: false,
            mode: self.pace.mode,
        }
    }

    /// Where its next D_PDU is to stand, with an order wire.
    pub(super) fn space<'a>(
        &self,
        ends: Ends,
        eow: u16,
        room: Room,
        out: &'a mut Vec<u8>,
    ) -> Space<'a> {
        Space {
            ends,
            eow,
            eot: eot(room.starts, self.ends),
            room,
            pace: self.pace,
            out,
        }
    }
}

/// Receiver and sender of a D_PDU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) to: Address,
    pub(super) from: Address,
}

impl Ends {
    /// Octets of the address field.
    pub(super) fn field(self) -> usize {
        field_octets(self.to, self.from)
    }
}

/// Where the next D_PDU of a transmission is to stand.
#[derive(Debug)]
pub(super) struct Space<'a> {
    ends: Ends,
    eow: u16,
    eot: u8,
    room: Room,
    pace: Pace,
    out: &'a mut Vec<u8>,
}

impl Space<'_> {
    pub(super) const fn to(&self) -> Address {
        self.ends.to
    }

    /// Octets of the address field.
    pub(super) fn field(&self) -> usize {
        self.ends.field()
    }

    /// Octets that there is room for.
    pub(super) const fn octets(&self) -> usize {
        self.room.octets
    }

    /// Whether so many fit, and the address field with them.
    pub(super) fn fits(&self, octets: usize) -> bool {
        octets + self.field() <= self.room.octets
    }

    /// Half seconds to the transmission's end.
    pub(super) const fn eot(&self) -> u8 {
        self.eot
    }

    /// When its first octet leaves.
    pub(super) const fn starts(&self) -> Instant {
        self.room.starts
    }

    pub(super) const fn block(&self) -> Duration {
        self.pace.block
    }

    /// When it may be heard at the latest: data that begins a block, with the block's end.
    pub(super) fn heard(&self) -> Instant {
        self.room.starts + self.pace.block
    }

    /// When the transmission is over for its receivers, by its own statement.
    pub(super) fn over(&self) -> Instant {
        self.heard() + EOT_UNIT * (u32::from(self.eot) + 1)
    }

    /// How long octets take.
    pub(super) fn time_for(&self, octets: usize) -> Duration {
        self.pace.rate.time_for(octets as u64)
    }

    /// When so many octets of segment have left, with so many around them.
    pub(super) fn ends(&self, around: usize) -> impl Fn(usize) -> Instant + use<> {
        let (rate, starts) = (self.pace.rate, self.room.starts);
        move |octets| starts + rate.time_for((octets + around) as u64)
    }

    /// The order wire of each D_PDU.
    pub(super) const fn order(&self) -> u16 {
        self.eow
    }

    /// Lets it say something else.
    pub(super) const fn set_order(&mut self, eow: u16) {
        self.eow = eow;
    }

    /// Appends a D_PDU.
    pub(super) fn put(&mut self, body: Body<'_>) {
        let d_pdu = DPdu {
            eow: self.eow,
            eot: self.eot,
            to: self.ends.to,
            from: self.ends.from,
            body,
        };
        d_pdu.put(self.out);
    }

    /// Appends one with another order wire.
    pub(super) fn put_with(&mut self, eow: u16, body: Body<'_>) {
        let usual = core::mem::replace(&mut self.eow, eow);
        self.put(body);
        self.eow = usual;
    }
}

/// Half seconds from `starts` to `ends`, rounded up.
fn eot(starts: Instant, ends: Instant) -> u8 {
    u8::try_from(half_seconds(ends.since(starts))).unwrap_or(u8::MAX)
}

/// Half seconds in a time, rounded up.
pub(super) fn half_seconds(time: Duration) -> u16 {
    let halves = time.as_nanos().div_ceil(EOT_UNIT.as_nanos());
    u16::try_from(halves).unwrap_or(u16::MAX)
}
