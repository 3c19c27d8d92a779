//! How a station changes its data rate, alone or by agreement, and what is said of it.

use alloc::vec::Vec;

use strait_core::node::{FrameMeta, PortState};
use strait_core::rate::LineRate;
use strait_core::stats::HfRate;
use strait_core::waveform::{Mode, Waveform};
use strait_core::{Duration, Instant, Room};

use super::Station;
use super::turn::{EOT_MAX, OnAir};
use crate::address::field_octets;
use crate::d_pdu::{Body, SYNC};
use crate::eow::{
    BOTH_FIXED, CAN_ADAPT, CODED_RATES, Eow, HAS_110A, HAS_HIGH_RATES, INTERLEAVER_FIXED, Purpose,
    RATE_FIXED, Response, high_rate, high_rate_of, rate_code,
};
use crate::management::{Message, News};
use crate::rate::{Adapt, Changes, Rate, Reason};

/// Octets of a management D_PDU, beside addresses and message.
const MANAGEMENT: usize = SYNC.len() + 4 + 2 + 2;

/// A segment lasts no longer than this where the rate changes: a fade ends it, and one that rises
/// finds it on its way.
const SEGMENT_TIME: Duration = Duration::from_secs(5);

/// An answer without data may last as long as this, by a slower and safer rate.
const SHORT: Duration = Duration::from_millis(700);

/// After a change of the rate, the next transmission is so much shorter than the longest.
const CAUTION: u32 = 8;

/// The rate of what is sent to a peer, and what is known for it.
#[derive(Clone, Debug)]
pub(super) struct Towards {
    pub(super) rate: Rate,
    /// The place of the ladder that is in use: behind the one wanted while there is no agreement.
    place: usize,
    agreement: Agreement,
    /// The place by which data went last.
    used: usize,
    /// The place by which data went of which nothing was heard, before the rate fell for it.
    missed: Option<usize>,
    /// The same if that may have met others, and the rate didn't fall.
    met: Option<usize>,
    /// The rate of what it sent last, where the modem tells.
    pub(super) heard_bit_s: Option<u32>,
    /// To be used once the other station has heard that both directions may change.
    granted: Option<usize>,
    /// The other station doesn't change its rate.
    fixed: bool,
    /// Of what it sent last.
    pub(super) snr_centi_db: Option<i16>,
}

/// Where a change stands that needs the other station's consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agreement {
    None,
    /// Asked for a place.
    Asked(usize),
    /// It may be; our acknowledgement goes by the old rate.
    Accepted(usize),
    /// Changed, from an older place, and said so: to a station of ours, which finds the rate by the
    /// preamble.
    Confirming(usize),
    /// Changed, from an older place. Another station confirms that it hears the new rate (C.6.4.2
    /// (32)), and was asked for that so often again.
    Changed(usize, u8),
}

/// Times that a confirmation is asked for by another acknowledgement (C.6.4.2 (11)).
const CONFIRMATIONS_AGAIN: u8 = 3;

impl Towards {
    pub(super) const fn new(place: usize) -> Self {
        Self {
            rate: Rate::new(place),
            place,
            agreement: Agreement::None,
            used: place,
            missed: None,
            met: None,
            heard_bit_s: None,
            granted: None,
            fixed: false,
            snr_centi_db: None,
        }
    }

    /// Whether a change was agreed to and isn't confirmed yet: nothing else goes.
    pub(super) const fn is_changing(&self) -> bool {
        matches!(
            self.agreement,
            Agreement::Accepted(_) | Agreement::Changed(..)
        )
    }

    /// The least caution: while the rate changes, a part of the longest transmission is enough.
    pub(super) const fn least_caution(&self) -> u32 {
        if self.rate.finds_back() {
            CAUTION
        } else if self.rate.is_calm() {
            1
        } else {
            CAUTION / 2
        }
    }
}

/// The rate and blocks of a transmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) rate: LineRate,
    pub(super) block: Duration,
    /// If it isn't the medium's own.
    pub(super) mode: Option<Mode>,
}

impl Pace {
    const fn own(state: PortState) -> Self {
        Self {
            rate: state.tx_rate,
            block: state.block,
            mode: None,
        }
    }

    const fn of(waveform: Waveform) -> Self {
        Self {
            rate: waveform.mode.line_rate(),
            block: waveform.mode.block(),
            mode: Some(waveform.mode),
        }
    }

    /// Bits a second.
    pub(super) fn bit_s(&self) -> u64 {
        match self.mode {
            Some(mode) => u64::from(mode.rate_bit_s),
            None => self.rate.octets_in(Duration::from_secs(1)) * 8,
        }
    }

    /// Octets in some blocks.
    pub(super) fn octets_in(&self, blocks: u32) -> usize {
        match self.mode {
            Some(mode) => mode.octets_in(blocks),
            None => {
                let octets = self.rate.octets_in(self.block * blocks);
                usize::try_from(octets).unwrap_or(usize::MAX)
            }
        }
    }

    /// Blocks that hold so many octets.
    pub(super) fn blocks_for(&self, octets: usize) -> u32 {
        if let Some(mode) = self.mode {
            return mode.blocks_for(octets);
        }
        let block_ns = self.block.as_nanos().max(1);
        let needed = self.rate.time_for(octets as u64).as_nanos();
        u32::try_from(needed.div_ceil(block_ns)).unwrap_or(u32::MAX)
    }

    /// How long some blocks last.
    pub(super) fn time_of(&self, blocks: u32) -> Duration {
        match self.mode {
            Some(mode) => mode.time_of_bits(u64::from(mode.block_bits) * u64::from(blocks)),
            None => self.block * blocks,
        }
    }
}

/// The message for a rate: in its order wire if it has a code, else beside it.
fn request(adapt: &Adapt, place: usize) -> Message {
    let rate_bit_s = adapt.rate(place);
    if let Some(rate) = rate_code(rate_bit_s) {
        let eow = Eow::Rate {
            rate,
            interleaver: adapt.interleaver,
            purpose: Purpose::Request,
        };
        let more = Vec::new();
        return Message { eow, more };
    }
    let block = adapt.ladder.get(place).map(|it| it.mode.block());
    let hundredths = block.map_or(0, |block| block.as_nanos() / 10_000_000);
    let eow = Eow::HighRate {
        waveform: adapt.waveform,
        channels: 1,
    };
    let more = Vec::from(high_rate(rate_bit_s, hundredths as u16));
    Message { eow, more }
}

fn asks(eow: &Eow) -> bool {
    matches!(eow, Eow::Rate { .. } | Eow::HighRate { .. })
}

fn response(response: Response, reason: u8) -> Message {
    let eow = Eow::Response { response, reason };
    let more = Vec::new();
    Message { eow, more }
}

impl<T> Station<T> {
    /// All begin with the medium's own rate.
    pub(super) fn begin_rates(&mut self, state: PortState) {
        (0..self.peers.len()).for_each(|number| self.begin_rate(number, state));
    }

    pub(super) fn begin_rate(&mut self, number: usize, state: PortState) {
        let Some(adapt) = &self.settings.adapt else {
            return;
        };
        let bit_s = Pace::own(state).bit_s();
        let place = adapt.place(u32::try_from(bit_s).unwrap_or(u32::MAX));
        let peer = &mut self.peers[number];
        peer.towards = Towards::new(place);
        peer.caution = CAUTION;
    }

    /// By which rate data goes to a peer.
    pub(super) fn pace(&self, number: usize) -> Pace {
        self.pace_at(self.peers[number].towards.place)
    }

    fn pace_at(&self, place: usize) -> Pace {
        let none = LineRate::new(0, 8);
        let own = self.state.map_or(
            Pace {
                rate: none,
                block: Duration::ZERO,
                mode: None,
            },
            Pace::own,
        );
        let ladder = self.settings.adapt.as_ref().map(|adapt| &adapt.ladder);
        let waveform = ladder.and_then(|ladder| ladder.get(place));
        waveform.map_or(own, |waveform| Pace::of(*waveform))
    }

    /// The place and the pace of a transmission of so many octets to a peer: the slowest, and so
    /// the safest, by which it isn't longer than by the peer's own; without data it may last a
    /// little longer.
    pub(super) fn safest(&self, number: usize, octets: usize, data: bool) -> (usize, Pace) {
        let place = self.peers[number].towards.place;
        let own = self.pace_at(place);
        let Some(adapt) = &self.settings.adapt else {
            return (place, own);
        };
        let lasts = |pace: &Pace| pace.time_of(pace.blocks_for(octets).max(1)) + pace.block;
        let (mut fastest, mut most) = (place, lasts(&own));
        if !data {
            // An answer goes no faster than what it answers: both have the same path.
            let heard = self.peers[number].towards.heard_bit_s;
            fastest = heard.map_or(place, |heard| adapt.place(heard));
            most = lasts(&self.pace_at(fastest)).max(SHORT * 2);
        }
        let slower = (0..fastest).map(|place| (place, self.pace_at(place)));
        let mut fitting = slower.filter(|(_, pace)| lasts(pace) <= most);
        let fastest = || (fastest, self.pace_at(fastest));
        fitting.next().unwrap_or_else(fastest)
    }

    /// The lowest place by whose rate all that has been cut for a peer fits into a transmission: by
    /// a lower one it would never go.
    fn least(&self, number: usize) -> usize {
        let peer = &self.peers[number];
        let longest = peer.send.longest(0).max(peer.expedited.longest(0));
        let ladder = self.settings.adapt.iter().flat_map(|adapt| &adapt.ladder);
        let mut places = 0..ladder.count();
        let fits = |place: &usize| longest <= self.segment_octets_at(number, *place);
        places.find(fits).unwrap_or_default()
    }

    /// The longest segment for a peer that fits into a transmission by the rate of a place.
    fn segment_octets_at(&self, number: usize, place: usize) -> usize {
        let pace = self.pace_at(place);
        let turn_max = self.settings.turn_max.min(EOT_MAX);
        let blocks = turn_max.as_nanos() / pace.block.as_nanos().max(1);
        let blocks = blocks.max(1);
        let octets = pace.octets_in(u32::try_from(blocks).unwrap_or(u32::MAX));
        octets.saturating_sub(self.around(number))
    }

    /// How much longer than the medium's own the longest block is that another may answer by.
    pub(super) fn slower_block(&self) -> Duration {
        let ladder = self.settings.adapt.iter().flat_map(|adapt| &adapt.ladder);
        let longest = ladder.map(|it| it.mode.block()).max().unwrap_or_default();
        longest.saturating_sub(self.state.map_or(longest, |state| state.block))
    }

    /// From the end of a transmission's last block, by the rate of a place, to its octets at the
    /// others.
    pub(super) fn latency_at(&self, place: usize) -> Duration {
        let own = self.state.map_or(Duration::ZERO, |state| state.block);
        (self.latency() + self.pace_at(place).block).saturating_sub(own)
    }

    /// The longest segment that the peer's rate allows.
    pub(super) fn segment_octets_max(&self, number: usize) -> usize {
        let most = self.settings.segment_octets_max;
        if self.settings.adapt.is_none() {
            return most;
        }
        let octets = self.pace(number).rate.octets_in(SEGMENT_TIME);
        most.min(usize::try_from(octets).unwrap_or(usize::MAX))
    }

    /// What the modem knows of the octets that it gives next.
    pub fn measure(&mut self, meta: FrameMeta) {
        if let Some(snr_centi_db) = meta.snr_centi_db {
            let (sum, count) = &mut self.snr;
            *sum = sum.saturating_add(i32::from(snr_centi_db));
            *count += 1;
        }
        self.heard_bit_s = meta.rate_bit_s.or(self.heard_bit_s);
    }

    /// The transmission that we heard is over: whose it was.
    pub(super) fn end_measuring(&mut self, speaker: Option<usize>) {
        let (sum, count) = core::mem::take(&mut self.snr);
        let heard_bit_s = self.heard_bit_s.take();
        let Some(number) = speaker else {
            return;
        };
        let towards = &mut self.peers[number].towards;
        towards.heard_bit_s = heard_bit_s;
        if let (Some(adapt), Some(heard)) = (&self.settings.adapt, heard_bit_s)
            && self.spoke == speaker
        {
            towards.rate.hear_at(adapt, adapt.place(heard));
            if !adapt.agree {
                self.want_rate(number);
            }
        }
        let towards = &mut self.peers[number].towards;
        let Some(mean) = sum.checked_div(count) else {
            return;
        };
        // Half of what was before: one transmission may have had a fade for itself.
        let before = towards.snr_centi_db.map_or(mean, i32::from);
        towards.snr_centi_db = Some(((before + mean) / 2) as i16);
    }

    /// Whether rates change.
    pub(super) const fn adapts(&self) -> bool {
        self.settings.adapt.is_some()
    }

    /// How the rate towards a peer is chosen, if it changes.
    pub(super) fn rate_view(&self, number: usize) -> Option<HfRate> {
        let adapt = self.settings.adapt.as_ref()?;
        let towards = &self.peers[number].towards;
        let Changes { up, down, silent } = towards.rate.changes;
        Some(HfRate {
            bit_s: self.pace(number).bit_s(),
            up,
            down,
            silent,
            reason: towards.rate.reason.text(),
            advised_bit_s: towards.rate.advice.map(|at| u64::from(adapt.rate(at))),
            heard_bit_s: towards.heard_bit_s,
            snr_centi_db: towards.snr_centi_db,
        })
    }

    /// What a D_PDU for a peer says on its order wire.
    pub(super) fn order(&self, number: usize) -> u16 {
        let advice = || {
            let adapt = self.settings.adapt.as_ref().filter(|it| it.advice)?;
            let snr_centi_db = self.peers[number].towards.snr_centi_db?;
            let rate_bit_s = adapt.rate(adapt.place_for(i32::from(snr_centi_db)));
            let code = CODED_RATES.iter().rposition(|rate| *rate <= rate_bit_s)?;
            Some(Eow::Rate {
                rate: code as u8,
                interleaver: adapt.interleaver,
                purpose: Purpose::Advice,
            })
        };
        advice().unwrap_or_default().bits()
    }

    /// What a D_PDU about a link says there: what the station can do.
    pub(super) fn capability(&self) -> u16 {
        let Some(adapt) = &self.settings.adapt else {
            return 0;
        };
        let mut bits = CAN_ADAPT;
        if adapt.waveform == 0 {
            bits |= HAS_110A;
        }
        let high = |it: &Waveform| it.mode.rate_bit_s > 2400;
        if adapt.ladder.iter().any(high) {
            bits |= HAS_HIGH_RATES;
        }
        Eow::Capability(bits).bits()
    }

    /// Takes what stands on the order wire of a D_PDU that is no management message.
    pub(super) fn take_order(&mut self, number: usize, eow: u16) {
        let Some(adapt) = &self.settings.adapt else {
            return;
        };
        let towards = &mut self.peers[number].towards;
        match Eow::parse(eow) {
            Eow::Rate { rate, purpose, .. } if adapt.advice && !purpose.asks() => {
                let advised = CODED_RATES.get(usize::from(rate)).copied();
                // The highest code stands for all above.
                let top = usize::from(rate) + 1 == CODED_RATES.len();
                let place = advised.filter(|_| !top).map(|rate| adapt.place(rate));
                towards.rate.advice = place.or_else(|| top.then_some(usize::MAX));
            }
            Eow::Capability(bits) => towards.fixed = bits & CAN_ADAPT == 0,
            _ => {}
        }
    }

    /// Takes a management D_PDU.
    pub(super) fn take_management(
        &mut self,
        number: usize,
        eow: u16,
        (valid, ack, frame): (bool, bool, u8),
        more: &[u8],
    ) {
        let peer = &mut self.peers[number];
        peer.answered = true;
        // Who asks may have heard no answer to its data.
        peer.owes_ack |= valid && asks(&Eow::parse(eow)) && peer.link.is_made();
        if ack && let Some(news) = peer.management.acknowledge(frame, valid) {
            self.take_news(number, &news, valid);
        }
        if !valid || !self.peers[number].management.hear(frame) {
            return;
        }
        self.stats.messages_in += 1;
        match Eow::parse(eow) {
            Eow::Rate {
                rate,
                purpose,
                interleaver,
            } if purpose.asks() => {
                let rate_bit_s = CODED_RATES.get(usize::from(rate)).copied();
                // Their own interleaver is found by the preamble, as the rate is; ours is fixed.
                let both = (purpose == Purpose::RequestBoth).then_some(interleaver);
                self.answer_request(number, rate_bit_s, both);
            }
            Eow::HighRate { waveform, channels } => match self.lacks(waveform, channels) {
                Some(reason) => self.answer(number, Response::Refuse, reason),
                None => self.answer_request(number, high_rate_of(more), None),
            },
            Eow::Response { response, .. } => self.take_response(number, response),
            Eow::Rate { .. } | Eow::Capability(_) => self.take_order(number, eow),
            Eow::Unrecognised { .. } => self.take_refusal(number),
            Eow::None => {}
            Eow::Other(kind, _) => {
                let eow = Eow::Unrecognised { kind };
                let more = Vec::new();
                let management = &mut self.peers[number].management;
                management.say(Message { eow, more }, true);
            }
        }
    }

    /// Why a waveform on so many channels isn't ours, if it isn't.
    fn lacks(&self, waveform: u8, channels: u8) -> Option<u8> {
        let own = self.settings.adapt.as_ref().map(|adapt| adapt.waveform);
        match (own == Some(waveform), channels) {
            (false, _) => Some(RATE_FIXED),
            (true, 1) => None,
            (true, _) => Some(INTERLEAVER_FIXED),
        }
    }

    fn answer(&mut self, number: usize, says: Response, reason: u8) {
        let peer = &mut self.peers[number];
        peer.towards.granted = None;
        peer.management.say(response(says, reason), true);
    }

    /// The peer wants to send by a rate, or both to, by an interleaver with this code.
    fn answer_request(&mut self, number: usize, rate_bit_s: Option<u32>, both: Option<u8>) {
        let adapt = self.settings.adapt.as_ref();
        let Some((adapt, rate_bit_s)) = adapt.zip(rate_bit_s) else {
            return self.answer(number, Response::Refuse, RATE_FIXED);
        };
        let place = adapt.place(rate_bit_s);
        let same_rate = adapt.rate(place) == rate_bit_s;
        let same_interleaver = both == Some(adapt.interleaver);
        let reason = match (same_rate, same_interleaver) {
            (true, true) => {
                self.answer(number, Response::Accept, 0);
                self.peers[number].towards.granted = Some(place);
                return;
            }
            // Our own may stay: receivers find the rate of what they hear by themselves.
            _ if both.is_none() => return self.answer(number, Response::Accept, 0),
            (false, true) => RATE_FIXED,
            (true, false) => INTERLEAVER_FIXED,
            (false, false) => BOTH_FIXED,
        };
        self.answer(number, Response::Refuse, reason);
    }

    /// What we asked for was heard and not understood: the other station doesn't do that.
    fn take_refusal(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        peer.management.withdraw(asks);
        if matches!(peer.towards.agreement, Agreement::Asked(_)) {
            peer.towards.fixed = true;
            self.stay(number);
        }
    }

    fn take_response(&mut self, number: usize, says: Response) {
        let peer = &mut self.peers[number];
        if says != Response::Cancel {
            peer.management.withdraw(asks);
        }
        match (peer.towards.agreement, says) {
            (Agreement::Asked(place), Response::Accept) => {
                peer.towards.agreement = Agreement::Accepted(place);
            }
            (Agreement::Asked(_), Response::Refuse) => {
                if !peer.link.is_long() {
                    peer.management.say(response(Response::Cancel, 0), true);
                }
                self.take_refusal(number);
            }
            (Agreement::Changed(..), Response::Confirm) => {
                peer.towards.agreement = Agreement::None;
            }
            (_, Response::Cancel) => {
                peer.towards.granted = None;
                self.show_that_it_is_over(number);
            }
            _ => {}
        }
    }

    /// A dialogue that the other station began is over: who has no data says so by an
    /// acknowledgement (C.6.4.2 (31), (34)).
    fn show_that_it_is_over(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        peer.owes_ack |= peer.link.is_made() && !peer.link.is_long();
    }

    /// Takes what became of a message; an acknowledgement may have come with another message.
    fn take_news(&mut self, number: usize, news: &News, with_message: bool) {
        let agreement = self.peers[number].towards.agreement;
        match (news, agreement) {
            (News::Acknowledged(Eow::Response { .. }), Agreement::Confirming(_)) => {
                self.peers[number].towards.agreement = Agreement::None;
            }
            (News::Acknowledged(Eow::Response { response: says, .. }), _) => match says {
                Response::Accept if !with_message => self.confirm(number),
                Response::Confirm => self.show_that_it_is_over(number),
                _ => {}
            },
            (News::GivenUp(_), Agreement::Confirming(before)) => {
                self.peers[number].towards.place = before;
                self.stay(number);
            }
            (News::GivenUp(eow), Agreement::Asked(_)) if asks(eow) => self.stay(number),
            _ => {}
        }
    }

    /// The other station knows that it may change: so do we, if both directions change, and say
    /// that it is done.
    fn confirm(&mut self, number: usize) {
        let peer = &mut self.peers[number];
        if let Some(place) = peer.towards.granted.take() {
            peer.towards.rate.set(place, Reason::Asked);
            peer.towards.place = place;
            peer.quality.forget(false);
        }
        if !peer.link.is_long() {
            peer.management.say(response(Response::Confirm, 0), true);
        }
    }

    /// There is no agreement: the rate stays what it is.
    fn stay(&mut self, number: usize) {
        let towards = &mut self.peers[number].towards;
        towards.agreement = Agreement::None;
        towards.rate.set(towards.place, Reason::Failed);
        towards.rate.wait(self.now);
    }

    /// A transmission of ours is over: what had to go by the old rate has gone.
    pub(super) fn follow_agreement(&mut self, number: usize) {
        let towards = &self.peers[number].towards;
        if let Agreement::Accepted(place) = towards.agreement {
            let before = towards.place;
            self.change_to(number, place);
            let peer = &mut self.peers[number];
            if peer.link.is_long() {
                peer.towards.agreement = Agreement::Confirming(before);
                peer.management.say(response(Response::Confirm, 0), true);
            } else {
                peer.towards.agreement = Agreement::Changed(before, 0);
            }
        }
    }

    /// An answer ended, or didn't come: a message of ours that it didn't acknowledge goes again.
    /// Whether a confirmation was waited for, too.
    pub(super) fn miss_message(&mut self, number: usize) -> bool {
        let repeats = self.settings.message_repeats;
        if let Some(news) = self.peers[number].management.miss(repeats) {
            self.take_news(number, &news, false);
        }
        self.miss_confirmation(number)
    }

    /// An answer was heard; `news` are frames of ours that were told of and lost ones.
    pub(super) fn learn_rate(&mut self, now: Instant, number: usize, news: (u32, u32)) {
        let least = self.least(number);
        let Some(adapt) = &self.settings.adapt else {
            return;
        };
        let peer = &mut self.peers[number];
        peer.towards.rate.hear();
        peer.towards.rate.least = least;
        let follows = !(peer.towards.fixed && adapt.agree);
        let late = peer.send.take_late();
        if late.0 > 0 {
            let Towards {
                rate, missed, met, ..
            } = &mut peer.towards;
            let (missed, met) = (missed.take(), met.take());
            if let Some(missed) = missed {
                rate.hear_late(now, missed, late);
            } else if let Some(met) = met.filter(|_| follows) {
                rate.hear_met(now, adapt, met, late);
            }
        }
        if news.0 > 0 && follows {
            let used = peer.towards.used;
            peer.towards.rate.learn(now, adapt, used, news);
        }
        self.want_rate(number);
    }

    /// Turns without an answer after which a link is taken for lost: where the rate falls, a fade
    /// is more likely.
    pub(super) const fn unanswered_max(&self) -> u32 {
        let patience = if self.adapts() { 2 } else { 1 };
        self.settings.unanswered_max.saturating_mul(patience)
    }

    /// No answer was heard: the rate falls, agreed or not, unless others were in the way.
    pub(super) fn miss_rate(&mut self, now: Instant, number: usize, unanswered: u32) {
        if self.miss_message(number) {
            return;
        }
        let met = self.met(number, unanswered);
        let least = self.least(number);
        let Some(adapt) = &self.settings.adapt else {
            return;
        };
        let peer = &mut self.peers[number];
        let towards = &mut peer.towards;
        if met {
            if unanswered == 1 && peer.link.is_made() {
                // What is told of it later isn't told by the answer to the two frames that ask.
                towards.met = Some(towards.used);
                peer.send.end_answer();
                peer.send.probe();
            }
            return;
        }
        if towards.agreement != Agreement::None && peer.management.is_open() {
            // What is being agreed on is said some times more.
            return;
        }
        towards.rate.least = least;
        towards.rate.miss(now, adapt);
        // What nobody told of says nothing of the rate to come: two frames ask for what came.
        peer.send.take_late();
        peer.send.end_answer();
        peer.send.probe();
        let first = peer.towards.met.take().unwrap_or(peer.towards.used);
        peer.towards.missed.get_or_insert(first);
        let place = peer.towards.rate.at();
        let silent = peer.towards.rate.silent();
        peer.towards.agreement = Agreement::None;
        if silent >= 2 {
            peer.management.withdraw(asks);
            if peer.link.is_made() {
                // What is asked by the lower rate is short: it finds out whether that is heard.
                peer.management.say(request(adapt, place), false);
            }
        }
        self.cut_for_rate(number);
        self.change_to(number, place);
    }

    /// Whether a confirmation was waited for: what it confirms is acknowledged once more, or not
    /// changed after all.
    fn miss_confirmation(&mut self, number: usize) -> bool {
        let peer = &mut self.peers[number];
        let Agreement::Changed(before, again) = &mut peer.towards.agreement else {
            return false;
        };
        if *again < CONFIRMATIONS_AGAIN {
            *again += 1;
            peer.management.acknowledge_again();
        } else {
            peer.towards.place = *before;
            self.stay(number);
        }
        true
    }

    /// What is too long for the rate to fall goes in shorter segments, once it is told to be lost.
    fn cut_for_rate(&mut self, number: usize) {
        let octets = self.rate_allows(number);
        self.peers[number].send.set_again_max(octets);
    }

    /// The longest segment for a peer with which its rate may fall as low as it should.
    pub(super) fn rate_allows(&self, number: usize) -> usize {
        let rate = &self.peers[number].towards.rate;
        match rate.wanted() < rate.at() {
            true => self.segment_octets_at(number, rate.wanted()).max(1),
            false => usize::MAX,
        }
    }

    /// Changes to the rate that is wanted, or asks for it.
    fn want_rate(&mut self, number: usize) {
        self.cut_for_rate(number);
        let Some(adapt) = &self.settings.adapt else {
            return;
        };
        let peer = &mut self.peers[number];
        let (wanted, place) = (peer.towards.rate.at(), peer.towards.place);
        if wanted == place {
            return;
        }
        if !adapt.agree {
            return self.change_to(number, wanted);
        }
        if peer.towards.agreement == Agreement::None {
            peer.towards.agreement = Agreement::Asked(wanted);
            peer.management.say(request(adapt, wanted), false);
        }
    }

    fn change_to(&mut self, number: usize, place: usize) {
        let peer = &mut self.peers[number];
        if peer.towards.place == place {
            return;
        }
        peer.quality.forget(place > peer.towards.place);
        peer.towards.place = place;
        peer.caution = CAUTION;
    }

    /// Octets of management that are to be sent to a peer.
    pub(super) fn management_octets(&self, number: usize) -> usize {
        let peer = &self.peers[number];
        let field = field_octets(peer.address, self.settings.own);
        peer.management.octets(MANAGEMENT + field)
    }

    /// Writes what management has to say: it goes before all else.
    pub(super) fn write_management(
        &mut self,
        on_air: &mut OnAir,
        room: Room,
        eot: u8,
        out: &mut Vec<u8>,
    ) -> bool {
        let number = on_air.peer;
        if self.management_octets(number) > room.octets {
            return false;
        }
        let peer = &mut self.peers[number];
        let Some(due) = peer.management.next() else {
            return false;
        };
        let message = due.message.as_ref();
        // Who is answered may have more to say.
        on_air.answers |= message.is_none();
        self.stats.messages_out += u64::from(message.is_some());
        if message.is_some() || peer.towards.is_changing() {
            on_air.wants_answer = true;
            (peer.awaited, peer.answered) = (true, false);
        }
        let more = message.map_or(&[][..], |message| &message.more);
        let body = Body::Management {
            extended: !more.is_empty(),
            valid: message.is_some(),
            ack: message.is_none(),
            frame: due.frame,
            message: more,
        };
        let eow = message.map_or(0, |message| message.eow.bits());
        self.put(number, (eow, eot), body, out);
        true
    }

    /// Notes by which place data goes.
    pub(super) fn note_used(&mut self, on_air: &OnAir) {
        self.peers[on_air.peer].towards.used = on_air.place;
    }
}

#[cfg(test)]
#[path = "adapt_tests.rs"]
mod tests;
