//! The rate towards one peer: changed alone or by agreement, and the messages about it.

use alloc::vec::Vec;

use strait_core::stats::HfRate;
use strait_core::{Duration, Instant};

use super::calls::Calls;
use super::context::Context;
use super::ladder::Ladder;
use super::transfer::Transfer;
use crate::eow::{
    BOTH_FIXED, CAN_ADAPT, CODED_RATES, Eow, INTERLEAVER_FIXED, Purpose, RATE_FIXED, Response,
    high_rate, high_rate_of, rate_code,
};
use crate::link::Link;
use crate::management::{Due, Management, Message, News};
use crate::quality::{Quality, Told};
use crate::rate::{Adapt, Rate, Reason};

/// Behind a transmission that was lost for the most part, a change of the rate, or on an unknown
/// channel, the next one is so much shorter than the longest.
const CAUTION: u32 = 8;

/// A transmission to a peer that is known to hear this station isn't shorter than so many times its
/// answer's time, if there is as much to send: behind a long interleaver more than half of the air
/// would be silent.
const WORTH: u32 = 4;

/// Times that a confirmation is asked for by another acknowledgement (C.6.4.2 (11)).
const CONFIRMATIONS_AGAIN: u8 = 3;

/// Where a change stands that needs the other station's consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agreement {
    None,
    /// Asked for a place.
    Asked(usize),
    /// It may be; this station's acknowledgement goes by the old rate.
    Accepted(usize),
    /// Changed, from an older place, and reported: to a station of `strait`, which finds the rate
    /// by the preamble.
    Confirming(usize),
    /// Changed, from an older place. Another station confirms that it hears the new rate (C.6.4.2
    /// (32)), and was asked for that so often again.
    Changed(usize, u8),
}

/// The order wire of a management D_PDU beside its message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    /// The message counts.
    pub(super) valid: bool,
    /// An answer.
    pub(super) ack: bool,
    /// Distinguishes repeats from new ones.
    pub(super) frame: u8,
}

/// A transmission that nothing was heard of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// So many times in a row.
    pub(super) unanswered: u32,
    /// It may have met others.
    pub(super) met: bool,
}

/// Chooses the rate towards one peer.
#[derive(Debug)]
pub(super) struct RateControl {
    rate: Rate,
    /// The place of the ladder that is in use: behind the one wanted while there is no agreement.
    place: usize,
    /// The part of the longest transmission that is risked: one of so many.
    caution: u32,
    agreement: Agreement,
    /// The place by which data went last.
    used: usize,
    /// The place by which data went of which nothing was heard, before the rate fell for it.
    missed: Option<usize>,
    /// The same if that may have met others, and the rate didn't fall.
    met: Option<usize>,
    /// The rate of its last transmission, if the modem reports it.
    heard_bit_s: Option<u32>,
    /// To be used once the other station has heard that both directions may change.
    granted: Option<usize>,
    /// The other station doesn't change its rate.
    fixed: bool,
    /// Of its last transmission.
    snr_centi_db: Option<i16>,
    /// Its report.
    management: Management,
}

/// The message for a rate: in its order wire if it has a code, else beside it.
fn request(adapt: &Adapt, place: usize) -> Message {
    let rate_bit_s = adapt.rate(place);
    if let Some(rate) = rate_code(rate_bit_s) {
        return Message::of(Eow::Rate {
            rate,
            interleaver: adapt.interleaver,
            purpose: Purpose::Request,
        });
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
    Message::of(Eow::Response { response, reason })
}

/// Why a waveform on so many channels isn't available here, if so.
const fn lacks(adapt: Option<&Adapt>, waveform: u8, channels: u8) -> Option<u8> {
    match (adapt, channels) {
        (Some(adapt), 1) if adapt.waveform == waveform => None,
        (Some(adapt), _) if adapt.waveform == waveform => Some(INTERLEAVER_FIXED),
        _ => Some(RATE_FIXED),
    }
}

impl RateControl {
    pub(super) const fn new() -> Self {
        Self::at(0, 1, Management::new())
    }

    const fn at(place: usize, caution: u32, management: Management) -> Self {
        Self {
            rate: Rate::new(place),
            place,
            caution,
            agreement: Agreement::None,
            used: place,
            missed: None,
            met: None,
            heard_bit_s: None,
            granted: None,
            fixed: false,
            snr_centi_db: None,
            management,
        }
    }

    /// Begins with the medium's own rate.
    pub(super) fn begin(&mut self, ladder: &Ladder) {
        if ladder.adapt().is_some() {
            let management = core::mem::take(&mut self.management);
            *self = Self::at(ladder.own_place(), CAUTION, management);
        }
    }

    /// The place of the ladder that is in use.
    pub(super) const fn place(&self) -> usize {
        self.place
    }

    /// The rate of its last transmission, if the modem reports it.
    pub(super) const fn heard_bit_s(&self) -> Option<u32> {
        self.heard_bit_s
    }

    /// How much of the longest transmission is risked: little, without evidence that it is heard,
    /// otherwise enough to be worth an answer, which takes its time.
    pub(super) fn risked(
        &self,
        calling: bool,
        turn_max: Duration,
        answer_time: Duration,
    ) -> Duration {
        match (calling, self.caution) {
            (true, caution) => turn_max / caution.max(CAUTION),
            _ if self.rate.is_probed() => answer_time,
            (false, caution) => (turn_max / caution).max(answer_time * WORTH),
        }
    }

    #[cfg(test)]
    pub(super) const fn management(&mut self) -> &mut Management {
        &mut self.management
    }

    /// So many transmissions in a row may have met others.
    pub(super) const fn met_max(&self) -> u32 {
        self.rate.met_max()
    }

    /// Whether a message is under way or waits, or a change was agreed to and isn't confirmed yet:
    /// no data goes.
    pub(super) fn is_busy(&self) -> bool {
        self.is_talking() || self.is_changing()
    }

    /// Whether a message is under way or waits.
    pub(super) fn is_talking(&self) -> bool {
        self.management.is_open()
    }

    /// Whether that is an answer.
    pub(super) fn is_answering(&self) -> bool {
        self.management.answers()
    }

    /// Whether a message or an acknowledgement is to be sent.
    pub(super) fn has_to_say(&self) -> bool {
        self.management.has_to_say()
    }

    /// Whether a change was agreed to and isn't confirmed yet.
    pub(super) const fn is_changing(&self) -> bool {
        matches!(
            self.agreement,
            Agreement::Accepted(_) | Agreement::Changed(..)
        )
    }

    /// How it is reported, if rates change.
    pub(super) fn view(&self, ladder: &Ladder) -> Option<HfRate> {
        let adapt = ladder.adapt()?;
        let changes = self.rate.changes();
        Some(HfRate {
            bit_s: ladder.pace(self.place).bit_s(),
            up: changes.up,
            down: changes.down,
            silent: changes.silent,
            reason: self.rate.reason().text(),
            advised_bit_s: self.rate.advice().map(|at| u64::from(adapt.rate(at))),
            heard_bit_s: self.heard_bit_s,
            snr_centi_db: self.snr_centi_db,
        })
    }

    /// The order wire of a D_PDU for the peer.
    pub(super) fn order(&self, ladder: &Ladder) -> u16 {
        let advice = || {
            let adapt = ladder.adapt().filter(|it| it.advice)?;
            let snr_centi_db = self.snr_centi_db?;
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

    /// A link is made.
    pub(super) fn renumber(&mut self) {
        self.management.renumber();
    }

    /// The medium is gone.
    pub(super) fn clear(&mut self) {
        self.management.clear();
    }

    /// A transmission begins, without a wait for a peer.
    pub(super) fn repeat_message(&mut self) {
        self.management.repeat();
    }

    /// Data goes by the rate of a place.
    pub(super) const fn note_used(&mut self, place: usize) {
        self.used = place;
    }

    /// A transmission of the peer is over, of a mean signal-to-noise ratio.
    pub(super) fn hear_snr(&mut self, mean_centi_db: i32) {
        // Half of the former value: one transmission may have had a fade alone.
        let before = self.snr_centi_db.map_or(mean_centi_db, i32::from);
        self.snr_centi_db = Some(((before + mean_centi_db) / 2) as i16);
    }

    /// A transmission of the peer is over, by a rate that the modem may tell, and perhaps `to_us`.
    pub(super) fn hear_rate<T>(
        &mut self,
        heard_bit_s: Option<u32>,
        to_us: bool,
        cx: &Beside<'_>,
        transfer: &mut Transfer<T>,
    ) {
        self.heard_bit_s = heard_bit_s;
        if let (Some(adapt), Some(heard), true) = (cx.ladder.adapt(), heard_bit_s, to_us) {
            self.rate.hear_at(adapt, adapt.place(heard));
            if !adapt.agree {
                self.want(cx, transfer);
            }
        }
    }

    /// Reads the order wire of a D_PDU that is no management message.
    pub(super) fn hear_order(&mut self, ladder: &Ladder, eow: u16) {
        let Some(adapt) = ladder.adapt() else {
            return;
        };
        match Eow::parse(eow) {
            Eow::Rate { rate, purpose, .. } if adapt.advice && !purpose.asks() => {
                let advised = CODED_RATES.get(usize::from(rate)).copied();
                // The highest code stands for all above.
                let top = usize::from(rate) + 1 == CODED_RATES.len();
                let place = advised.filter(|_| !top).map(|rate| adapt.place(rate));
                self.rate
                    .advise(place.or_else(|| top.then_some(usize::MAX)));
            }
            Eow::Capability(bits) => self.fixed = bits & CAN_ADAPT == 0,
            _ => {}
        }
    }

    /// Takes a management D_PDU; whether its message is a new one.
    pub(super) fn hear_message<T>(
        &mut self,
        eow: u16,
        marks: Marks,
        more: &[u8],
        cx: &Beside<'_>,
        transfer: &mut Transfer<T>,
    ) -> bool {
        // A requesting station may have heard no answer to its data.
        if marks.valid && asks(&Eow::parse(eow)) && cx.link.is_made() {
            transfer.owe_ack();
        }
        if marks.ack
            && let Some(news) = self.management.acknowledge(marks.frame, marks.valid)
        {
            self.take_news(&news, marks.valid, cx, transfer);
        }
        if !marks.valid || !self.management.hear(marks.frame) {
            return false;
        }
        let adapt = cx.ladder.adapt();
        match Eow::parse(eow) {
            Eow::Rate {
                rate,
                purpose,
                interleaver,
            } if purpose.asks() => {
                let rate_bit_s = CODED_RATES.get(usize::from(rate)).copied();
                // Their own interleaver is found by the preamble, like the rate; this station's is
                // fixed.
                let both = (purpose == Purpose::RequestBoth).then_some(interleaver);
                self.answer_request(adapt, rate_bit_s, both);
            }
            Eow::HighRate { waveform, channels } => match lacks(adapt, waveform, channels) {
                Some(reason) => self.answer(Response::Refuse, reason),
                None => self.answer_request(adapt, high_rate_of(more), None),
            },
            Eow::Response { response, .. } => self.take_response(response, cx, transfer),
            Eow::Rate { .. } | Eow::Capability(_) => self.hear_order(cx.ladder, eow),
            Eow::Unrecognised { .. } => self.take_refusal(cx.now),
            Eow::None => {}
            Eow::Other(kind, _) => {
                self.management
                    .say(Message::of(Eow::Unrecognised { kind }), true);
            }
        }
        true
    }

    fn answer(&mut self, says: Response, reason: u8) {
        self.granted = None;
        self.management.say(response(says, reason), true);
    }

    /// The peer wants to send by a rate, or both to, by an interleaver with this code.
    fn answer_request(&mut self, adapt: Option<&Adapt>, rate_bit_s: Option<u32>, both: Option<u8>) {
        let Some((adapt, rate_bit_s)) = adapt.zip(rate_bit_s) else {
            return self.answer(Response::Refuse, RATE_FIXED);
        };
        let place = adapt.place(rate_bit_s);
        let same_rate = adapt.rate(place) == rate_bit_s;
        let same_interleaver = both == Some(adapt.interleaver);
        let reason = match (same_rate, same_interleaver) {
            (true, true) => {
                self.answer(Response::Accept, 0);
                self.granted = Some(place);
                return;
            }
            // This station's own may stay: receivers find the rate of a transmission alone.
            _ if both.is_none() => return self.answer(Response::Accept, 0),
            (false, true) => RATE_FIXED,
            (true, false) => INTERLEAVER_FIXED,
            (false, false) => BOTH_FIXED,
        };
        self.answer(Response::Refuse, reason);
    }

    /// This station's request was heard and not understood: the other station doesn't support it.
    fn take_refusal(&mut self, now: Instant) {
        self.management.withdraw(asks);
        if matches!(self.agreement, Agreement::Asked(_)) {
            self.fixed = true;
            self.stay(now);
        }
    }

    fn take_response<T>(&mut self, says: Response, cx: &Beside<'_>, transfer: &mut Transfer<T>) {
        if says != Response::Cancel {
            self.management.withdraw(asks);
        }
        match (self.agreement, says) {
            (Agreement::Asked(place), Response::Accept) => {
                self.agreement = Agreement::Accepted(place);
            }
            (Agreement::Asked(_), Response::Refuse) => {
                if !cx.link.is_long() {
                    self.management.say(response(Response::Cancel, 0), true);
                }
                self.take_refusal(cx.now);
            }
            (Agreement::Changed(..), Response::Confirm) => self.agreement = Agreement::None,
            (_, Response::Cancel) => {
                self.granted = None;
                cx.show_that_it_is_over(transfer);
            }
            _ => {}
        }
    }

    /// Takes the outcome of a message; an acknowledgement may have arrived with another message.
    fn take_news<T>(
        &mut self,
        news: &News,
        with_message: bool,
        cx: &Beside<'_>,
        transfer: &mut Transfer<T>,
    ) {
        match (news, self.agreement) {
            (News::Acknowledged(Eow::Response { .. }), Agreement::Confirming(_)) => {
                self.agreement = Agreement::None;
            }
            (News::Acknowledged(Eow::Response { response: says, .. }), _) => match says {
                Response::Accept if !with_message => self.confirm(cx.link, transfer),
                Response::Confirm => cx.show_that_it_is_over(transfer),
                _ => {}
            },
            (News::GivenUp(_), Agreement::Confirming(before)) => {
                self.place = before;
                self.stay(cx.now);
            }
            (News::GivenUp(eow), Agreement::Asked(_)) if asks(eow) => self.stay(cx.now),
            _ => {}
        }
    }

    /// The other station knows that it may change: this one does too, if both directions change,
    /// and reports it.
    fn confirm<T>(&mut self, link: &Link, transfer: &mut Transfer<T>) {
        if let Some(place) = self.granted.take() {
            self.rate.set(place, Reason::Asked);
            self.place = place;
            transfer.quality.forget(false);
        }
        if !link.is_long() {
            self.management.say(response(Response::Confirm, 0), true);
        }
    }

    /// There is no agreement: the rate stays unchanged.
    fn stay(&mut self, now: Instant) {
        self.agreement = Agreement::None;
        self.rate.set(self.place, Reason::Failed);
        self.rate.wait(now);
    }

    /// A transmission of this station is over: all data for the old rate has left.
    pub(super) fn end_transmission<T>(&mut self, link: &Link, transfer: &mut Transfer<T>) {
        if let Agreement::Accepted(place) = self.agreement {
            let before = self.place;
            self.change_to(place, transfer);
            if link.is_long() {
                self.agreement = Agreement::Confirming(before);
                self.management.say(response(Response::Confirm, 0), true);
            } else {
                self.agreement = Agreement::Changed(before, 0);
            }
        }
    }

    /// An answer ended, or didn't come: an unacknowledged message of this station is repeated,
    /// `repeats` times at most. Whether a confirmation was awaited, too.
    pub(super) fn miss_message<T>(
        &mut self,
        repeats: u32,
        cx: &Beside<'_>,
        transfer: &mut Transfer<T>,
    ) -> bool {
        if let Some(news) = self.management.miss(repeats) {
            self.take_news(&news, false, cx, transfer);
        }
        self.miss_confirmation(cx.now)
    }

    /// Whether a confirmation was awaited: its change is acknowledged once more, or not made after
    /// all.
    fn miss_confirmation(&mut self, now: Instant) -> bool {
        let Agreement::Changed(before, again) = &mut self.agreement else {
            return false;
        };
        if *again < CONFIRMATIONS_AGAIN {
            *again += 1;
            self.management.acknowledge_again();
        } else {
            self.place = *before;
            self.stay(now);
        }
        true
    }

    /// An answer was heard, which reported frames of this station.
    pub(super) fn hear_answer<T>(
        &mut self,
        told: Told,
        cx: &Beside<'_>,
        transfer: &mut Transfer<T>,
    ) {
        // A channel that got much worse is to be learnt about soon.
        self.caution = match told {
            Told { frames: 0, .. } => self.caution,
            Told { frames, lost } if lost * 2 > frames => CAUTION,
            _ => (self.caution / 2).max(self.least_caution(cx.ladder)),
        };
        let Some(adapt) = cx.ladder.adapt() else {
            return;
        };
        self.rate.answers_take(cx.answer_time);
        self.rate.carries(cx.payload(self.used, &transfer.quality));
        self.rate.hear(cx.least(transfer));
        let follows = !(self.fixed && adapt.agree);
        let late = transfer.send.take_late();
        if late.frames > 0 {
            let (missed, met) = (self.missed.take(), self.met.take());
            if let Some(missed) = missed {
                self.rate.hear_late(cx.now, adapt, missed, late);
            } else if let Some(met) = met.filter(|_| follows) {
                self.rate.hear_met(cx.now, adapt, met, late);
            }
        }
        if told.frames > 0 && follows {
            self.rate.learn(cx.now, adapt, self.used, told);
        }
        self.want(cx, transfer);
    }

    /// The least caution: while the rate changes, a part of the longest transmission is enough.
    const fn least_caution(&self, ladder: &Ladder) -> u32 {
        match ladder.adapt() {
            None => 1,
            Some(_) => self.caution_by_rate(),
        }
    }

    const fn caution_by_rate(&self) -> u32 {
        match () {
            () if self.rate.finds_back() => CAUTION,
            () if self.rate.is_calm() => 1,
            () => CAUTION / 2,
        }
    }

    /// No answer was heard, and no confirmation is waited for: the rate falls, agreed or not,
    /// unless others were in the way.
    pub(super) fn miss<T>(
        &mut self,
        silence: Silence,
        cx: &Beside<'_>,
        transfer: &mut Transfer<T>,
    ) {
        let Some(adapt) = cx.ladder.adapt() else {
            return;
        };
        if silence.met {
            if silence.unanswered == 1 && cx.link.is_made() {
                // Later reports of it aren't by the answer to the two frames that ask.
                self.met = Some(self.used);
                transfer.ask_for_what_came();
            }
            return;
        }
        if self.agreement != Agreement::None && self.is_talking() {
            // The agreement is repeated some times more.
            return;
        }
        self.rate.miss(cx.now, adapt, cx.least(transfer));
        // Unreported frames say nothing of the coming rate: two frames ask for an acknowledgement.
        transfer.send.take_late();
        transfer.ask_for_what_came();
        let first = self.met.take().unwrap_or(self.used);
        self.missed.get_or_insert(first);
        let place = self.rate.at();
        self.agreement = Agreement::None;
        if self.rate.silent() >= 2 {
            self.management.withdraw(asks);
            if cx.link.is_made() {
                // A question by the lower rate is short: it finds out whether that is heard.
                self.management.say(request(adapt, place), false);
            }
        }
        transfer
            .send
            .set_again_max(self.segment_octets_max(cx.ladder, cx.around));
        self.change_to(place, transfer);
    }

    /// The longest segment with which the rate may fall as low as it should.
    pub(super) fn segment_octets_max(&self, ladder: &Ladder, around: usize) -> usize {
        match self.rate.wanted() < self.rate.at() {
            true => ladder.octets_at(self.rate.wanted(), around).max(1),
            false => usize::MAX,
        }
    }

    /// Changes to the intended rate, or requests it. Segments that are too long if the rate falls
    /// are replaced by shorter ones, once they are reported lost.
    fn want<T>(&mut self, cx: &Beside<'_>, transfer: &mut Transfer<T>) {
        transfer
            .send
            .set_again_max(self.segment_octets_max(cx.ladder, cx.around));
        let Some(adapt) = cx.ladder.adapt() else {
            return;
        };
        let wanted = self.rate.at();
        if wanted == self.place {
            return;
        }
        if !adapt.agree {
            return self.change_to(wanted, transfer);
        }
        if self.agreement == Agreement::None {
            self.agreement = Agreement::Asked(wanted);
            self.management.say(request(adapt, wanted), false);
        }
    }

    fn change_to<T>(&mut self, place: usize, transfer: &mut Transfer<T>) {
        if self.place != place {
            transfer.quality.forget(place > self.place);
            if place < self.place {
                transfer.send.forget_tries();
            }
            self.caution = match self.rate.reason() {
                Reason::Failed => self.caution_by_rate(),
                _ => CAUTION,
            };
            self.place = place;
        }
    }

    /// Octets of messages that are to be sent, `around` for each D_PDU.
    pub(super) fn octets(&self, around: usize) -> usize {
        self.management.octets(around)
    }

    /// The message to be sent next: acknowledgements first.
    pub(super) fn next(&mut self) -> Option<Due> {
        self.management.next()
    }
}

/// The other inputs of the rate towards a peer.
#[derive(Debug)]
pub(super) struct Beside<'a> {
    now: Instant,
    ladder: &'a Ladder,
    link: &'a Link,
    /// How long after a transmission an answer begins.
    answer_time: Duration,
    /// Octets around a segment of data.
    around: usize,
}

impl<'a> Beside<'a> {
    pub(super) fn of<T>(cx: &Context<'a, T>, calls: &'a Calls, around: usize) -> Self {
        Self {
            now: cx.now,
            ladder: cx.ladder,
            link: calls.link(),
            answer_time: cx.access.answer_time(),
            around,
        }
    }

    /// The share of payload in frames by a rate, with the best segments.
    fn payload(&self, place: usize, quality: &Quality) -> f64 {
        let most = self.ladder.segment_octets(place, self.around);
        let segment = quality.segment_octets(self.around, most) as f64;
        segment / (segment + self.around as f64)
    }

    /// The lowest place by whose rate all that has been cut fits into a transmission.
    fn least<T>(&self, transfer: &Transfer<T>) -> usize {
        self.ladder.least(transfer.longest(0), self.around)
    }

    /// A dialogue that the other station began is over: a station without data shows it by an
    /// acknowledgement (C.6.4.2 (31), (34)).
    fn show_that_it_is_over<T>(&self, transfer: &mut Transfer<T>) {
        if self.link.is_made() && !self.link.is_long() {
            transfer.owe_ack();
        }
    }
}

#[cfg(test)]
#[path = "rate_control_tests.rs"]
mod tests;
