//! A peer: the machines that speak with it, put together.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::stats::{HfCounts, HfLink};
use strait_core::time::nanos;
use strait_core::{Duration, Instant, Room};

use super::access::{Begun, MediaAccess, Missed};
use super::calls::{Anew, Calls, Judged, Patience, Terms, Unanswered, Word};
use super::contact::Contact;
use super::context::Context;
use super::hearing::Over;
use super::ladder::Ladder;
use super::rate_control::{Beside, Marks, RateControl, Silence};
use super::settings::Settings;
use super::transfer::{AfterReset, Transfer};
use super::transmission::{EMPTY, EOT_MAX, Ends, Plan};
use super::{Outcome, Waiting};
use crate::address::Address;
use crate::arq::Numbering;
use crate::c_pdu::{CPdu, Ours};
use crate::d_pdu::{
    Body, DATA_OVERHEAD, DPdu, Data, Fault, Kind, NON_ARQ_OVERHEAD, Reset, Warning,
};
use crate::eow::Eow;
use crate::link::State;

/// A link of two stations of `strait` isn't considered lost before there was no answer for so long.
const HOLDS: Duration = Duration::from_secs(120);

/// Another station, and all that goes to and from it.
#[derive(Debug)]
pub struct Peer<T> {
    number: usize,
    address: Address,
    own: Address,
    /// It isn't listed, and there is something for it: it keeps its place.
    pub(super) wanted: bool,
    pub(super) calls: Calls,
    pub(super) transfer: Transfer<T>,
    pub(super) contact: Contact,
    pub(super) rate: RateControl,
    warning: Option<Warning>,
    /// How long this station's turns may be, by its last statement.
    pub(super) turn_told: Option<Duration>,
    /// Time on the air: this station's for it, and its own.
    sent: Duration,
    heard: Duration,
}

impl<T> Peer<T> {
    /// For strangers, not `listed`, the meaning of bits that Edition 3 reserves isn't known.
    pub(super) fn new(number: usize, address: Address, listed: bool, settings: &Settings) -> Self {
        let plain = settings.edition_3.contains(&address);
        let long = settings.long_numbers && !plain && listed;
        let given = settings.without_calls.contains(&address);
        let numbering = Numbering::short(settings.window);
        Self {
            number,
            address,
            own: settings.own,
            wanted: false,
            calls: Calls::new(settings, long, given),
            transfer: Transfer::new(numbering, settings.segment_octets_max),
            contact: Contact::default(),
            rate: RateControl::new(),
            warning: None,
            turn_told: None,
            sent: Duration::ZERO,
            heard: Duration::ZERO,
        }
    }

    /// Its address.
    pub(super) const fn address(&self) -> Address {
        self.address
    }

    /// Whether its address is that of a group.
    #[must_use]
    pub const fn is_group(&self) -> bool {
        self.address.is_group()
    }

    /// Whether there is a link with it.
    #[must_use]
    pub const fn is_linked(&self) -> bool {
        self.calls.link().is_kept()
    }

    /// Whether there is one that isn't exclusive.
    #[must_use]
    pub const fn is_linked_softly(&self) -> bool {
        self.is_linked() && !self.calls.link().has_exclusive()
    }

    /// Whether there is one, and it answered when it last was to.
    #[must_use]
    pub const fn is_answered(&self) -> bool {
        self.calls.link().is_made() && self.contact.unanswered() == 0
    }

    /// Whether it didn't answer calls, and isn't called for a while.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        self.calls.is_silent()
    }

    /// Whether it refused calls, and isn't called for a while.
    #[must_use]
    pub const fn is_refused(&self) -> bool {
        self.calls.is_refused()
    }

    /// Whether it is a station of `strait`, by its last call or answer.
    #[must_use]
    pub const fn is_ours(&self) -> bool {
        self.calls.is_ours()
    }

    /// The state of the link with it, and its cost.
    pub(super) fn view(&self, ladder: &Ladder) -> HfLink {
        let link = self.calls.link();
        HfLink {
            linked: link.is_made(),
            long: link.is_long(),
            under_way: self.transfer.send.under_way() as u64,
            window: self.transfer.send.window().into(),
            segment_octets: self.segment_octets(ladder) as u64,
            lost: self.transfer.quality.lost(),
            sent_ns: nanos(self.sent),
            heard_ns: nanos(self.heard),
            rate: self.rate.view(ladder),
        }
    }

    /// Time of its transmissions.
    pub(super) const fn heard(&self) -> Duration {
        self.heard
    }

    /// It is another one from now on, which is only answered.
    pub(super) const fn set_address(&mut self, address: Address) {
        self.address = address;
    }

    /// Whether none of this station's data would be lost with a stranger's place.
    pub(super) fn gives_place(
        &self,
        on_air: Option<usize>,
        outcomes: &VecDeque<Outcome<T>>,
    ) -> bool {
        let idle = self.transfer.held() == 0 && !self.transfer.has_plain();
        let told = outcomes.iter().all(|outcome| outcome.to != self.number);
        idle && told && on_air != Some(self.number) && !self.wanted
    }

    /// Sender and receiver of D_PDUs.
    pub(super) const fn ends(&self) -> Ends {
        Ends {
            to: self.address,
            from: self.own,
        }
    }

    /// Octets around a segment of data.
    pub(super) fn around(&self) -> usize {
        DATA_OVERHEAD + self.ends().field() + usize::from(self.calls.link().is_long())
    }

    /// The best segment: of those that fit a transmission.
    pub(super) fn segment_octets(&self, ladder: &Ladder) -> usize {
        let around = self.around();
        let most = ladder.segment_octets(self.rate.place(), around);
        let most = most.min(self.rate.segment_octets_max(ladder, around));
        self.transfer.quality.segment_octets(around, most)
    }

    /// Whether data with ARQ may go to it.
    pub(super) fn may_send(&self) -> bool {
        let free = !self.transfer.is_resetting() && !self.rate.is_busy();
        self.calls.link().carries() && free
    }

    /// Whether it isn't there, as far as is known.
    pub(super) const fn is_absent(&self) -> bool {
        self.contact.is_absent(self.calls.link().is_made())
    }

    /// Whether others go before it: it isn't there, and had a turn not long ago.
    pub(super) fn gives_way(&self, access: &MediaAccess) -> bool {
        self.is_absent() && access.now() < self.contact.gives_way_until(access.answer_time())
    }

    /// Whether it is to wait before it is served: it isn't called, or didn't answer.
    pub(super) const fn waits(&self) -> bool {
        self.calls.is_paused() || self.contact.rests_until().is_some()
    }

    /// Whether data with ARQ may be offered, or would make the station call it.
    pub(super) fn takes_arq(&self, access: &MediaAccess) -> bool {
        let link = self.calls.link();
        match link.state() {
            _ if link.wants_call(access.now()) => access.is_free(),
            State::Made { .. } | State::Calling { .. } => self.may_send(),
            State::Idle | State::Breaking { .. } => false,
        }
    }

    /// Whether it waits for an answer.
    pub(super) fn owes(&self) -> bool {
        let link = self.calls.link();
        self.transfer.has_to_answer(link.is_made())
            || link.has_to_say()
            || self.rate.has_to_say()
            || self.warning.is_some()
    }

    /// Whether there is a message to it, beside its owner's offers; only that it isn't served, if
    /// it isn't.
    pub(super) fn has_to_say(&self, now: Instant, served: bool) -> bool {
        let link = self.calls.link();
        if self.contact.rests_until().is_some() {
            return false;
        }
        if !served {
            return link.has_to_say();
        }
        let waits = || self.transfer.held() > 0 && link.wants_call(now) && !self.calls.is_paused();
        self.owes()
            || self.rate.is_talking() && !self.contact.is_asked()
            || self.transfer.has_plain()
            || self.may_send() && self.transfer.has_more()
            || waits()
    }

    /// Whether client data would go to it, of which so much waits beside.
    pub(super) fn has_data(&self, waiting: Waiting) -> bool {
        let more = self.may_send() && self.transfer.has_more();
        let data = waiting.octets > 0 || self.transfer.has_plain() || more;
        data && !self.rate.is_talking()
    }

    /// Octets of the messages beside data.
    pub(super) fn owed_octets(&self) -> usize {
        let (link, field) = (self.calls.link(), self.ends().field());
        let says = link.says_octets();
        let says = says.map_or(0, |octets| NON_ARQ_OVERHEAD + field + octets);
        let warning = usize::from(self.warning.is_some()) * (EMPTY + field + 3);
        let owed = self
            .transfer
            .owed_octets(field, link.is_made(), link.is_long());
        self.rate.octets(EMPTY + 2 + field) + says + warning + owed
    }

    /// Octets of data, those that were offered and those that wait.
    pub(super) fn data_octets(
        &self,
        waiting: Waiting,
        segment: usize,
        segment_octets_max: usize,
    ) -> usize {
        let (link, field, around) = (self.calls.link(), self.ends().field(), self.around());
        if self.rate.is_talking() {
            return 0;
        }
        let may_send = self.may_send();
        if may_send && self.transfer.expedited.has_more() {
            return self.transfer.expedited.backlog(segment, around);
        }
        // As they will be cut: each into even pieces of about the best length.
        let mean = waiting.octets / waiting.count.max(1);
        let least = mean.div_ceil(segment_octets_max.max(1));
        let pieces = ((mean + segment / 2) / segment).max(least).max(1);
        let split = |around: usize| waiting.octets + waiting.count * pieces * around;
        let mut octets = self.transfer.plain_octets(segment, field);
        if may_send {
            let (backlog, frames) = self.transfer.send.backlog(segment, around);
            let piece = mean.div_ceil(pieces);
            octets += backlog + split(around).min(frames * (piece + around));
        } else if !link.is_made() && !link.has_to_say() {
            octets += split(NON_ARQ_OVERHEAD + field);
        }
        octets
    }

    /// Begins a transmission for it.
    pub(super) fn begin_turn(
        &mut self,
        now: Instant,
        settings: &Settings,
        ladder: &Ladder,
        begun: Begun,
        room: Room,
        waiting: Waiting,
    ) -> Plan {
        if !self.contact.is_asked() {
            self.rate.repeat_message();
        }
        let segment = self.segment_octets(ladder);
        let data = !begun.brief && self.has_data(waiting);
        let mut octets = self.owed_octets();
        if !begun.brief {
            octets += self.data_octets(waiting, segment, settings.segment_octets_max);
        }
        let answers = (!data).then(|| self.rate.heard_bit_s());
        let place = ladder.safest(self.rate.place(), octets, answers);
        let pace = ladder.pace(place);
        if pace.mode.is_none() {
            octets = octets.min(room.octets);
        }
        // A peer without evidence that it hears this station gets no long transmission.
        let calling = self.calls.link().is_calling();
        let turn_max = settings.turn_max.min(EOT_MAX);
        let risked = self.rate.risked(calling, turn_max, begun.answer_time);
        let risked = risked.min(ladder.turn());
        let slots = settings.access.slots();
        self.transfer.send.begin_turn();
        if !(begun.answers && begun.brief) {
            self.contact.begin_turn(now);
        }
        Plan {
            peer: self.number,
            place,
            pace,
            starts: room.starts,
            octets,
            longest: self.transfer.longest(segment) + self.around(),
            waiting: waiting.octets,
            brief: begun.brief,
            again_from: now + settings.gathers,
            shortest: slots.map_or(Duration::ZERO, |it| it.turn_min),
            risked,
            turn_max,
        }
    }

    /// A transmission of this station for it, of so long, is over.
    pub(super) fn end_transmission(&mut self, lasted: Duration) {
        self.sent += lasted;
        self.rate
            .end_transmission(self.calls.link(), &mut self.transfer);
    }

    /// One of its own is over.
    pub(super) fn end_speaking(&mut self, cx: &Context<'_, T>, over: &Over, lasted: Duration) {
        self.heard += lasted;
        let to_us = over.who.spoke == Some(self.number);
        let beside = Beside::of(cx, &self.calls, self.around());
        self.rate
            .hear_rate(over.bit_s, to_us, &beside, &mut self.transfer);
        if let Some(mean) = over.snr_centi_db {
            self.rate.hear_snr(mean);
        }
    }

    /// The acknowledgement for it.
    pub(super) const fn take_warning(&mut self) -> Option<Warning> {
        self.warning.take()
    }

    /// A D_PDU of this kind was wrong.
    pub(super) fn warn(&mut self, received: Kind, fault: Fault) {
        self.warning.get_or_insert(Warning { received, fault });
    }

    /// A call or an acceptance has the effect of a warning that there is no link, and makes one:
    /// behind it, the warning would end it.
    fn forget_warning(&mut self) {
        self.warning
            .take_if(|warning| warning.fault == Fault::NotConnected);
    }

    /// The medium is gone, and with it the link; data under way is over.
    pub(super) fn set_down(&mut self, cx: &mut Context<'_, T>) {
        self.transfer.abandon();
        self.contact.end_waiting();
        self.warning = None;
        self.rate.clear();
        let anew = self.calls.hang_up();
        self.apply(cx, anew);
    }

    /// Lets ends of the transfer begin anew: completely sent data may have arrived and is over, the
    /// rest is sent by the next link.
    fn apply(&mut self, cx: &mut Context<'_, T>, anew: Anew) {
        let numbering = match anew.long {
            true => Numbering::long(),
            false => Numbering::short(cx.settings.window),
        };
        if anew.send.is_some() && anew.receive {
            self.contact.note();
            self.contact.rest(None);
        }
        if let Some(left) = anew.send {
            self.transfer.restart_sending(numbering, left);
            cx.collect(self.number, &mut self.transfer);
        }
        if anew.receive {
            self.transfer.restart_receiving(numbering);
            self.calls.receive_anew();
            self.deliver(cx);
        }
    }

    /// Delivers complete data.
    pub(super) fn deliver(&mut self, cx: &mut Context<'_, T>) {
        while let Some(c_pdu) = self.transfer.receive.poll() {
            self.hand_on(cx, c_pdu, false);
        }
    }

    /// A C_PDU arrived with ARQ.
    pub(super) fn hand_on(&mut self, cx: &mut Context<'_, T>, c_pdu: Vec<u8>, expedited: bool) {
        if CPdu::parse(&c_pdu).is_some_and(|c_pdu| c_pdu.asks_hard_link()) {
            self.calls.claim();
        }
        cx.inbox.take_whole(cx.now, self.ends(), c_pdu, expedited);
    }

    /// A link is made: messages and resets are numbered anew.
    fn begin_numbers(&mut self) {
        self.rate.renumber();
        self.transfer.renumber();
    }

    /// Calls it, again if need be.
    pub(super) fn call(&mut self, cx: &mut Context<'_, T>) {
        let terms = Terms {
            exclusive: cx.exclusive == Some(self.number),
            there: !self.contact.is_silent(),
            may_meet: cx.access.others_may_meet(),
        };
        self.forget_warning();
        let anew = self.calls.call(terms, cx.identity);
        self.apply(cx, anew);
    }

    /// Sees that there is a link; `true` if there is one that data can go by now.
    pub(super) fn link(&mut self, cx: &mut Context<'_, T>) -> bool {
        let heard = self.calls.link().is_there();
        self.take_given(cx);
        self.transfer.even_out(heard, cx.counts);
        let wanted = self.calls.link().wants_call(cx.now);
        if !wanted && !self.calls.renew(cx, self.transfer.held()) {
            return self.calls.link().carries() && !self.transfer.is_resetting();
        }
        // A caller hasn't used its link in time: one of `strait` is asked for it, unless the link
        // is to be another one.
        if cx.exclusive == Some(self.number) || !self.calls.ask_caller(cx.identity) {
            self.call(cx);
        }
        false
    }

    /// Takes the link for made, if something else makes it.
    pub(super) fn take_given(&mut self, cx: &mut Context<'_, T>) {
        if cx.exclusive.is_none() && self.calls.give(cx.now) {
            self.apply(cx, Anew::both(false));
            self.begin_numbers();
            self.transfer.note_uneven();
            cx.counts.links_made += 1;
        }
    }

    /// A link is considered lost.
    pub(super) fn lose_link(&mut self, cx: &mut Context<'_, T>) {
        cx.counts.links_lost += 1;
        self.forget_link(cx);
    }

    /// A link is over without its other end's consent.
    pub(super) fn forget_link(&mut self, cx: &mut Context<'_, T>) {
        let anew = self.calls.forget();
        self.apply(cx, anew);
    }

    /// Its call is refused.
    pub(super) fn refuse(&mut self, cx: &mut Context<'_, T>, reason: u8) {
        if let Some(anew) = self.calls.refuse(reason) {
            self.apply(cx, anew);
        }
    }

    /// A link message of it.
    pub(super) fn hear_control(&mut self, cx: &mut Context<'_, T>, says: CPdu<'_>) {
        self.contact.hear_answer();
        match says {
            CPdu::Request { exclusive, ours } => return self.hear_call(cx, exclusive, ours),
            CPdu::Accepted { ours } if self.calls.link().called() => {
                return self.hear_acceptance(cx, ours);
            }
            _ => {}
        }
        let in_use = self.transfer.send.under_way() > 0;
        let (since, answer_time) = (cx.access.on_since(), cx.access.answer_time());
        let word = self
            .calls
            .hear_word(cx.now, says, since, in_use, answer_time);
        match word {
            Word::Nothing | Word::Refused(None) => {}
            Word::Acknowledge => self.transfer.owe_ack(),
            Word::GoOn => {
                self.transfer.owe_ack();
                self.transfer.send.end_answer();
            }
            Word::Disown => {
                if self.calls.link().is_there() {
                    self.lose_link(cx);
                }
                self.calls.disown();
            }
            Word::Refused(Some(anew)) | Word::Over(anew) => self.apply(cx, anew),
        }
    }

    fn hear_call(&mut self, cx: &mut Context<'_, T>, exclusive: bool, ours: Option<Ours>) {
        let call = match self.calls.judge(exclusive, ours, cx.identity) {
            Judged::Accept(call) => call,
            Judged::CallBack if self.calls.link().has_to_say() => return,
            Judged::CallBack => return self.call(cx),
        };
        self.apply(cx, call.anew);
        let patience = Patience {
            data: cx.access.answer_time() * 2 + cx.access.longest_wait(),
            call: cx.access.patience(),
            at_most: cx.access.patience_at_most(),
        };
        self.contact.note();
        self.begin_numbers();
        self.forget_warning();
        self.calls.accept(cx.now, &call, &patience);
        cx.counts.links_made += u64::from(call.is_new);
    }

    fn hear_acceptance(&mut self, cx: &mut Context<'_, T>, ours: Option<Ours>) {
        let expediting = self.transfer.expedited.is_open();
        let Some(answer) = self.calls.hear_acceptance(ours, expediting) else {
            return self.lose_link(cx);
        };
        self.apply(cx, answer.anew);
        self.contact.note();
        self.begin_numbers();
        self.calls.make(cx.now, &answer);
        cx.counts.links_made += 1;
    }

    /// A turn wasn't answered. It is `kept` from that where another began first.
    pub(super) fn miss_answer(&mut self, cx: &mut Context<'_, T>, kept: bool) {
        // Where the rate falls, a fade is more likely.
        let patience = if cx.ladder.adapt().is_some() { 2 } else { 1 };
        let unanswered_max = cx.settings.unanswered_max.saturating_mul(patience);
        cx.counts.unanswered += 1;
        let unanswered = self.contact.miss(cx.now, kept);
        self.transfer.expedited.miss_answer();
        // Data under way would be in doubt. Of two stations of `strait`, no other waits for the
        // air, and one that has forgotten the link says so at once.
        let alone = cx.access.nodes() <= 1 && self.calls.link().is_long();
        let holds = alone && self.contact.missed_for(cx.now) < HOLDS;
        let lost = self.contact.is_lost(unanswered_max) && !holds;
        let (silence, nodes) = (cx.access.round(), cx.access.nodes());
        match self.calls.miss_answer(cx.now, lost, silence, nodes) {
            Unanswered::Nothing => {}
            Unanswered::GiveUp => {
                self.contact.give_up();
                cx.counts.links_lost += 1;
            }
            Unanswered::CallAgain => self.call(cx),
            Unanswered::Forget => self.forget_link(cx),
            Unanswered::Lose => {
                self.contact.give_up();
                self.lose_link(cx);
            }
            Unanswered::Probe => self.transfer.send.probe(),
        }
        let beside = Beside::of(cx, &self.calls, self.around());
        let repeats = cx.settings.message_repeats;
        if !self.rate.miss_message(repeats, &beside, &mut self.transfer) {
            let met = self.may_have_met(cx, unanswered);
            let silence = Silence { unanswered, met };
            self.rate.miss(silence, &beside, &mut self.transfer);
        }
    }

    /// Whether unanswered transmissions, so many in a row, may have collided, and say nothing of
    /// the channel; but not so often that a link would be lost for it.
    fn may_have_met(&self, cx: &Context<'_, T>, unanswered: u32) -> bool {
        let most = match cx.access.heard_a_collision() {
            true => cx.settings.unanswered_max,
            false => self.rate.met_max(),
        };
        cx.access.others_may_meet() && unanswered <= most
    }

    /// The wait after it hasn't answered. Messages to an absent station wait the longer the more
    /// often it kept silent; no other station waits for that.
    pub(super) fn wait_after_silence(
        &mut self,
        now: Instant,
        access: &mut MediaAccess,
        others: bool,
    ) -> Duration {
        let missed = Missed {
            unanswered: self.contact.unanswered(),
            absent: self.is_absent(),
        };
        let wait = access.wait_with(missed, others);
        if !missed.absent {
            return wait;
        }
        self.contact.rest(Some(now + wait));
        access.rest_after_silence(others)
    }

    /// Lets it continue if it has rested: with slots, in one of this station.
    pub(super) fn end_rest(&mut self, now: Instant, access: &MediaAccess) {
        let until = self.contact.rests_until().filter(|until| *until <= now);
        let Some(until) = until else { return };
        let slot = access.slot_from(until);
        let again = access.is_free() && slot > now;
        self.contact.rest(again.then_some(slot));
    }

    /// When its link is broken, if nothing more is sent by it.
    pub(super) fn breaks_at(&self, access: &MediaAccess, idle: Duration) -> Option<Instant> {
        let (link, silent) = (self.calls.link(), access.silent_at());
        if let Some((again, passed)) = link.again_at() {
            // Other stations' transmissions in between take nothing of the other end's chance to
            // continue; but that is over once so many turns of this station have come.
            return Some(match link.is_long() {
                true => again,
                false if passed >= access.turns_for_all() => access.free_since(),
                false => again.max(silent),
            });
        }
        // Data that its owner has for it, and could offer only then, goes first: it is requested at
        // the moment at which the station learns that it is free, however late that is. In a slot,
        // a break that began later would collide with the next station's.
        let offered = access.free_since() + Duration::from_nanos(1);
        let idle = link.idle_at(idle).filter(|_| !self.calls.keeps_link());
        let idle = idle?.max(offered);
        // An exclusive link isn't held open by the others' transmissions.
        match link.is_exclusive() {
            true => Some(idle),
            false => Some(idle.max(silent)),
        }
    }

    /// Whether it is to be broken by this moment.
    pub(super) fn is_to_be_broken(&self, access: &MediaAccess, idle: Duration) -> bool {
        let unused = !self.calls.link().is_made() || self.transfer.held() == 0;
        let breaks_at = || self.breaks_at(access, idle);
        unused && breaks_at().is_some_and(|at| at <= access.now())
    }

    /// A transmission ended that was heard, and with it the time for its answer.
    pub(super) fn end_answer(&mut self, cx: &mut Context<'_, T>, spoke: bool, kept: bool) -> bool {
        self.calls.end_hearing();
        // Others may have come in between, or it takes its time: late, it has answered, too.
        let question = self.contact.take_question();
        let asked = question.was_asked();
        // A sender to this station is present, whether it has heard this station's message or not.
        let spoke = asked && spoke && self.rate.is_talking();
        // A call that was heard for a part isn't answered yet.
        let answered = question.was_answered() || spoke;
        if answered && !self.calls.link().waits() {
            let around = self.around();
            if asked {
                let beside = Beside::of(cx, &self.calls, around);
                let repeats = cx.settings.message_repeats;
                self.rate.miss_message(repeats, &beside, &mut self.transfer);
            }
            self.contact.note();
            let told = self.transfer.end_answer();
            let beside = Beside::of(cx, &self.calls, around);
            self.rate.hear_answer(told, &beside, &mut self.transfer);
            return false;
        }
        if asked {
            self.miss_answer(cx, kept);
        }
        asked
    }

    /// Takes a D_PDU to this station, or to a group of it if it isn't `to_us`.
    pub(super) fn hear(&mut self, cx: &mut Context<'_, T>, d_pdu: &DPdu<'_>, to_us: bool) {
        let kind = d_pdu.body.kind();
        if to_us {
            self.contact.hear();
            self.calls.hear();
            if kind != Kind::Management {
                self.rate.hear_order(cx.ladder, d_pdu.eow);
                let told = Eow::parse(d_pdu.eow).turn_max();
                // An acknowledgement without a statement ends the earlier one, and so does a link
                // message: a restarted station may require nothing, and have advice to give.
                let ended = match &d_pdu.body {
                    Body::LongAck(_) => d_pdu.eow == 0,
                    Body::NonArq(piece) => piece.control().is_some(),
                    _ => false,
                };
                if self.calls.knows_ours() && (told.is_some() || ended) {
                    self.turn_told = told;
                }
            }
        }
        if self.calls.is_deaf() && kind.needs_link() {
            return;
        }
        match &d_pdu.body {
            _ if !to_us => {}
            // Data without ARQ isn't of this peer alone.
            Body::NonArq(_) => {}
            Body::Data(data, ack) => {
                if self.is_connected(cx, kind, false) {
                    if let Some(ack) = ack {
                        self.hear_ack(cx, |it, best, met, counts| {
                            it.hear_ack(*ack, best, met, counts);
                        });
                    }
                    self.hear_data(cx, data);
                }
            }
            Body::Ack(ack) => {
                if self.is_connected(cx, kind, false) {
                    self.hear_ack(cx, |it, best, met, counts| {
                        it.hear_ack(*ack, best, met, counts);
                    });
                }
            }
            Body::LongData(_) | Body::LongAck(_) if !self.calls.knows_ours() => {
                self.warn(kind, Fault::Unrecognised);
            }
            Body::LongData(data) => {
                if self.is_connected(cx, kind, true) {
                    self.calls.use_long();
                    self.hear_data(cx, data);
                }
            }
            Body::LongAck(ack) => {
                if self.is_connected(cx, kind, true) {
                    self.calls.use_long();
                    self.hear_ack(cx, |it, best, met, counts| {
                        it.hear_long_ack(*ack, best, met, counts);
                    });
                }
            }
            Body::Reset(reset) => {
                if self.is_connected(cx, kind, self.calls.link().is_long()) {
                    self.hear_reset(cx, *reset);
                }
            }
            Body::Warning(warning) => self.hear_warning(cx, *warning),
            Body::ExpeditedData {
                start,
                end,
                c_pdu,
                number,
                segment,
            } => {
                let data = Data {
                    start: *start,
                    end: *end,
                    in_order: false,
                    dropped: false,
                    upper: false,
                    lower: false,
                    number: u16::from(*number),
                    segment: *segment,
                };
                if self.is_linked_with(cx, kind)
                    && let Some(whole) = self.transfer.expedited.take(*c_pdu, &data)
                {
                    self.hand_on(cx, whole, true);
                }
            }
            Body::ExpeditedAck(ack) => {
                if self.is_linked_with(cx, kind) {
                    let best = self.segment_octets(cx.ladder);
                    self.contact.hear_answer();
                    self.transfer.hear_expedited_ack(*ack, best);
                    cx.collect(self.number, &mut self.transfer);
                }
            }
            Body::Management {
                valid,
                ack,
                frame,
                message,
                ..
            } => {
                self.contact.hear_answer();
                let marks = Marks {
                    valid: *valid,
                    ack: *ack,
                    frame: *frame,
                };
                let beside = Beside::of(cx, &self.calls, self.around());
                let (rate, transfer) = (&mut self.rate, &mut self.transfer);
                let new = rate.hear_message(d_pdu.eow, marks, message, &beside, transfer);
                cx.counts.messages_in += u64::from(new);
            }
            // One that should be known makes no sense; a warning is never answered.
            Body::Unknown(Kind::Warning) => {}
            Body::Unknown(_) if kind.is_of_edition_3() => self.warn(kind, Fault::Invalid),
            Body::Unknown(_) => self.warn(kind, Fault::Unrecognised),
        }
    }

    /// Whether there is a link, with long numbers or not; without one the other end is informed.
    fn is_connected(&mut self, cx: &mut Context<'_, T>, kind: Kind, long: bool) -> bool {
        if self.calls.link().is_long() == long {
            return self.is_linked_with(cx, kind);
        }
        // It may have another link than the one that was asked for in its name, and that is over
        // once it hears so.
        self.calls.doubt(cx.now);
        self.warn_of_no_link(kind);
        false
    }

    /// The same whatever its numbers are.
    fn is_linked_with(&mut self, cx: &mut Context<'_, T>, kind: Kind) -> bool {
        self.take_given(cx);
        if self.calls.link().is_there() {
            self.calls.confirm(cx.now);
            self.contact.hear_use();
            return true;
        }
        self.warn_of_no_link(kind);
        false
    }

    fn warn_of_no_link(&mut self, kind: Kind) {
        // A called station learns of that anyway, and a caller whose answer is under way knows.
        let link = self.calls.link();
        if !link.has_to_say() && !link.is_calling() {
            self.warn(kind, Fault::NotConnected);
        }
    }

    fn hear_data(&mut self, cx: &mut Context<'_, T>, data: &Data<'_>) {
        self.transfer.hear_data(data, cx.counts);
        self.deliver(cx);
    }

    /// Takes an acknowledgement of frames.
    fn hear_ack(
        &mut self,
        cx: &mut Context<'_, T>,
        take: impl FnOnce(&mut Transfer<T>, usize, bool, &mut HfCounts),
    ) {
        let best = self.segment_octets(cx.ladder);
        self.contact.hear_answer();
        // In a net, an unanswered turn collided, and says nothing of the channel.
        let met = cx.access.others_may_meet() && self.contact.unanswered() > 0;
        take(&mut self.transfer, best, met, cx.counts);
        cx.collect(self.number, &mut self.transfer);
    }

    fn hear_reset(&mut self, cx: &mut Context<'_, T>, reset: Reset) {
        let long = self.calls.link().is_long();
        let after = if reset.ack {
            self.contact.hear_answer();
            self.transfer.hear_reset_ack(reset.frame, long)
        } else {
            self.transfer.hear_reset(reset, long, cx.counts)
        };
        match after {
            AfterReset::Anew => {
                self.calls.begin_anew();
                self.apply(cx, Anew::both(long));
            }
            AfterReset::GoesOn => self.deliver(cx),
        }
    }

    fn hear_warning(&mut self, cx: &mut Context<'_, T>, warning: Warning) {
        cx.counts.warnings_in += 1;
        self.contact.hear_answer();
        let (link, received) = (self.calls.link(), warning.received);
        match warning.fault {
            // It has forgotten the link, or never had it; unless it got a D_PDU that this link
            // doesn't carry, forged in this station's name.
            Fault::NotConnected if received.goes_by(link.is_long()) && link.is_made() => {
                // A user of such a link repeats the data that the warning answers (B.3 (3.1)).
                if link.is_given() && received.has_data() {
                    self.transfer.not_taken(self.contact.turn_at());
                }
                self.lose_link(cx);
            }
            Fault::Unrecognised if received.is_long() && link.is_long() => {
                self.calls.deny_long(cx.now);
                self.lose_link(cx);
            }
            _ => {}
        }
    }
}
