//! Access to the medium: which station may begin when.
//!
//! Whatever the rule, a station listens before it begins, and one that owes an answer gives it at
//! once. The rules differ in the other waits.

mod rule;
mod share;

use alloc::vec::Vec;

use strait_core::chance::Stream;
use strait_core::node::{Notice, PortState};
use strait_core::{Duration, Instant};

pub use self::rule::{Access, Csma, Order, Slots};
use self::share::Share;
use super::settings::Settings;
use super::transmission::EOT_MAX;
use crate::address::Address;
use crate::rate::MET_MAX;

/// By turns, times that an answer takes to begin among which others draw.
const TURNS_DRAWN: u32 = 4;

/// By turns, halves of that time among which an unanswered station draws.
const SILENCE_DRAWN: u32 = 3;

/// With slots of stations, the most doublings of the rounds among which is drawn: 18 s for two
/// stations and slots of 3 s.
const ROUNDS_DOUBLED_MAX: u32 = 2;
/// How often the times for an answer are doubled among which is drawn after a silence; and of two
/// stations, the least that is drawn in the end, and among how many. That is about as often on
/// average, with no gap that is much longer than others.
const DOUBLED_MAX: u32 = 4;
const PAIR_DRAWN: (u32, u64) = (3, 4);

/// The station on the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The medium isn't there.
    Down,
    /// None; this one may begin.
    Free,
    /// None; this one may begin at this moment.
    Quiet(Instant),
    /// This station was; an answer begins before this moment, or is lost.
    Awaiting(Instant),
    /// Another, to this moment at the latest.
    Hearing(Instant),
    /// This station.
    Keyed,
}

/// The outcome of a phase whose moment has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// No answer began: [`MediaAccess::keep_quiet`] computes the wait.
    Unanswered,
    /// A modem lost the end of the received transmission.
    Unended,
    /// This station may begin.
    Free,
}

/// How a transmission of this station begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    /// It has only the owed acknowledgements.
    pub(super) brief: bool,
    /// It answers the last received one.
    pub(super) answers: bool,
    /// How long after it an answer begins.
    pub(super) answer_time: Duration,
}

/// A finished transmission of this station.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) to: Address,
    /// It had data without ARQ,
    pub(super) plain: bool,
    /// and nothing else.
    pub(super) only_plain: bool,
    /// Its peer may have something to say.
    pub(super) speaks: bool,
    /// It acknowledged.
    pub(super) answers: bool,
    pub(super) wants_answer: bool,
    /// From the end of its last block to its octets at the others.
    pub(super) latency: Duration,
}

/// The receiver of another's transmission, when it is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    /// It addressed this station.
    pub(super) to_us: bool,
    /// The peer that waits for an answer.
    pub(super) owed: Option<usize>,
}

/// A peer that didn't answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Missed {
    /// So many times in a row.
    pub(super) unanswered: u32,
    /// It isn't there, as far as is known.
    pub(super) absent: bool,
}

/// Decides when a station may begin, by the earlier transmissions on the air.
#[derive(Debug)]
pub(super) struct MediaAccess {
    rule: Access,
    own: Address,
    /// All other stations that are known.
    stations: Vec<Address>,
    guard: Duration,
    answer_margin: Duration,
    turn_max: Duration,
    now: Instant,
    phase: Phase,
    /// From the end of a block to its octets at the others.
    latency: Duration,
    /// When the others notice this station's beginning and end.
    notice: Notice,
    /// How much longer than this station's the longest block is by which another may answer.
    slower_block: Duration,
    /// From key-up to the first octet on the air, as it was last.
    lead: Duration,
    /// When this station was last free to begin.
    free_since: Instant,
    /// When the air has been silent for so long since then that no station has data.
    silent_at: Instant,
    /// When the received or sent transmission began.
    on_since: Instant,
    /// The end of a transmission of this station without ARQ, if no station was heard since.
    plain_end: Option<Instant>,
    /// The peer that addressed this station last and waits for an answer.
    owed: Option<usize>,
    share: Share,
    chance: Stream,
    /// Draws the silences that it waits for.
    silences: Stream,
}

impl MediaAccess {
    /// Of a station that is off; `chance` draws its waits, `silences` its waits for silence.
    pub(super) fn new(
        settings: &Settings,
        peers: &[Address],
        [chance, silences]: [Stream; 2],
    ) -> Self {
        let stations = peers.iter().filter(|address| !address.is_group());
        Self {
            rule: settings.access,
            own: settings.own,
            stations: stations.copied().collect(),
            guard: settings.guard,
            answer_margin: settings.answer_margin,
            turn_max: settings.turn_max,
            now: Instant::ZERO,
            phase: Phase::Down,
            latency: Duration::ZERO,
            notice: Notice::NONE,
            slower_block: Duration::ZERO,
            lead: Duration::ZERO,
            free_since: Instant::ZERO,
            silent_at: Instant::ZERO,
            on_since: Instant::ZERO,
            plain_end: None,
            owed: None,
            share: Share::default(),
            chance,
            silences,
        }
    }

    pub(super) const fn now(&self) -> Instant {
        self.now
    }

    pub(super) const fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn is_free(&self) -> bool {
        self.phase == Phase::Free
    }

    /// When this station was last free to begin.
    pub(super) const fn free_since(&self) -> Instant {
        self.free_since
    }

    /// When the air has been silent for so long since then that no station has data.
    pub(super) const fn silent_at(&self) -> Instant {
        self.silent_at
    }

    /// When the received or sent transmission began.
    pub(super) const fn on_since(&self) -> Instant {
        self.on_since
    }

    #[cfg(test)]
    pub(super) const fn configure(&mut self, settings: &Settings) {
        (self.guard, self.turn_max) = (settings.guard, settings.turn_max);
        self.answer_margin = settings.answer_margin;
    }

    /// No deferrable message is sent before a moment.
    #[cfg(test)]
    pub(super) const fn wait_for_silence(&mut self, until: Instant) {
        self.silent_at = until;
    }

    /// From key-up to the first octet on the air.
    #[cfg(test)]
    pub(super) const fn lead(&self) -> Duration {
        self.lead
    }

    /// When all know of the end of the last transmission.
    #[cfg(test)]
    pub(super) const fn ended(&self) -> Instant {
        self.share.ended
    }

    /// The peer that addressed this station last and waits for an answer.
    pub(super) const fn owed(&self) -> Option<usize> {
        self.owed
    }

    /// A peer's place is another's from now on.
    pub(super) fn forget(&mut self, peer: usize) {
        self.owed.take_if(|owed| *owed == peer);
    }

    /// When the phase ends without an event.
    pub(super) const fn wake(&self) -> Option<Instant> {
        match self.phase {
            Phase::Quiet(at) | Phase::Awaiting(at) | Phase::Hearing(at) => Some(at),
            Phase::Down | Phase::Free | Phase::Keyed => None,
        }
    }

    /// The medium is there.
    pub(super) fn set_up(&mut self, now: Instant, state: &PortState, slower_block: Duration) {
        self.now = now;
        (self.latency, self.slower_block) = (state.latency, slower_block);
        self.notice = state.notice;
        if self.phase == Phase::Down {
            self.phase = Phase::Free;
        }
    }

    /// The medium is gone.
    pub(super) const fn set_down(&mut self) {
        (self.latency, self.slower_block) = (Duration::ZERO, Duration::ZERO);
        self.notice = Notice::NONE;
        (self.phase, self.owed) = (Phase::Down, None);
    }

    /// The steps due at this moment, one after the other.
    pub(super) fn advance(&mut self, now: Instant) -> Option<Due> {
        self.now = self.now.max(now);
        match self.phase {
            Phase::Awaiting(until) if until <= now => {
                self.phase = Phase::Quiet(now);
                Some(Due::Unanswered)
            }
            Phase::Hearing(until) if until <= now => Some(Due::Unended),
            Phase::Quiet(at) if at <= now => {
                (self.phase, self.free_since) = (Phase::Free, now);
                self.silent_at = now + self.silence();
                Some(Due::Free)
            }
            _ => None,
        }
    }

    /// Another is heard to begin; whether that is of interest.
    pub(super) fn hear_begin(&mut self, now: Instant) -> bool {
        if matches!(self.phase, Phase::Down | Phase::Keyed) {
            return false;
        }
        // A modem may lose the end.
        self.phase = Phase::Hearing(now + EOT_MAX + self.answer_time());
        self.on_since = now;
        self.note_silence(now);
        let answers = self.share.ended <= now && self.is_in_answer_slot(now);
        (self.share.understood, self.share.answers) = (Some(false), answers);
        true
    }

    /// A D_PDU of the received transmission was understood, data without ARQ if it is `plain`.
    pub(super) fn hear(&mut self, from: Address, to: Address, plain: bool) {
        self.share.note(from, to, plain);
    }

    /// This station begins a transmission to a peer, whose first octet leaves after `lead`.
    pub(super) fn begin(&mut self, now: Instant, lead: Duration, to: usize) -> Begun {
        self.lead = lead;
        self.note_silence(now);
        let brief = self.is_brief(now, to);
        (self.phase, self.on_since) = (Phase::Keyed, now);
        let answers = self.owed.take() == Some(to);
        Begun {
            brief,
            answers,
            answer_time: self.answer_time(),
        }
    }

    /// A transmission begins. If all could have begun before it, no station had the air.
    fn note_silence(&mut self, begins: Instant) {
        if begins.since(self.share.ended) >= self.round() {
            self.share.held = None;
        }
    }

    /// This station's transmission has left. `others` says whether there are more stations than its
    /// peer.
    pub(super) fn end(&mut self, now: Instant, ended: &Ended, others: bool) {
        let again = ended.plain && self.plain_end.is_some();
        self.plain_end = ended.plain.then_some(now);
        self.share.note_turn(self.own, ended.to, ended.only_plain);
        self.share.note_own(self.own, self.on_since);
        let known = ended.latency.max(self.notice.end);
        (self.share.ended, self.share.understood) = (now + known, None);
        self.phase = if ended.wants_answer {
            Phase::Awaiting(now + self.answer_time())
        } else {
            Phase::Quiet(now + self.rest(ended, again, others))
        };
    }

    /// No station begins for so long.
    pub(super) fn keep_quiet(&mut self, now: Instant, wait: Duration) {
        self.phase = Phase::Quiet(now + wait);
    }

    /// How long the air stays silent after a transmission of this station before any that is no
    /// answer begins. With slots of stations, a sender without ARQ leaves the others their slots
    /// first, as it gets no answer; once one of them has sent, its own slot comes (see
    /// [`MediaAccess::wait_after_hearing`]). Without slots, the peer that was answered may have
    /// more to say, and isn't heard at once.
    ///
    /// By turns of two, its transmission without ARQ is followed by enough silence for the other
    /// side to begin: otherwise the other's data would collide with the next transmission, or wait
    /// until there is none.
    ///
    /// A sender without ARQ isn't told of collisions, either. If it sends `again`, and heard no
    /// station since, it comes later by chance, so that two don't stay in step.
    fn rest(&mut self, ended: &Ended, again: bool, others: bool) -> Duration {
        self.share.exchange = None;
        let later = if again {
            self.chance.below(2) as u32
        } else {
            0
        };
        match self.rule {
            Access::Slots(slots) if ended.plain => {
                let wait = self.own_slot(slots, self.share.crowding, others);
                wait + slots.length * self.nodes() * 2
            }
            Access::Slots(slots) => self.own_slot(slots, self.share.crowding, others),
            Access::Csma(csma) => self.contend(csma) + self.slot(csma) * later,
            Access::Turns if self.lets_in(self.now) => self.draw_turn(),
            Access::Turns if ended.answers || later > 0 => self.answer_time(),
            Access::Turns if ended.plain && ended.speaks && self.nodes() == 1 => {
                self.answer_time().saturating_sub(self.answer_margin)
            }
            Access::Turns => self.guard,
        }
    }

    /// A station's wait after another's transmission, whose last octets it has. The station
    /// addressed answers at once; the others leave it the time to begin. With slots of stations,
    /// one that came in its slot after this station's transmission without ARQ doesn't delay this
    /// station: slots count from the transmission that began their round.
    pub(super) fn wait_after_hearing(
        &mut self,
        now: Instant,
        heard: Heard,
        others: bool,
    ) -> Duration {
        let own_end = self.plain_end.take();
        self.owed = heard.owed;
        self.share.ended = self.share.ended.max(now);
        self.note_exchange(heard.owed);
        match self.rule {
            Access::Turns if heard.to_us => {
                self.share.held.get_or_insert(self.on_since);
                match heard.owed.is_none() && self.lets_in(now) {
                    true => self.draw_turn(),
                    false => self.guard,
                }
            }
            _ if heard.owed.is_some() => self.guard,
            Access::Turns => self.draw_turn(),
            Access::Slots(slots) => {
                if self.share.understood == Some(true) {
                    self.share.crowding = self.share.crowding.saturating_sub(1);
                }
                let wait = self.own_slot(slots, self.share.crowding, others);
                own_end
                    .map(|end| end + wait)
                    .filter(|slot| self.on_since <= *slot)
                    .map_or(wait, |slot| slot.since(now).max(self.guard))
            }
            Access::Csma(csma) => {
                if self.share.understood == Some(true) {
                    self.share.crowding = self.share.crowding.saturating_sub(1);
                } else {
                    self.share.crowd(csma);
                    self.share.note_garbled();
                }
                self.contend(csma)
            }
        }
    }

    /// A station's wait after a peer didn't answer it, whether it heard others instead or none. Two
    /// stations that began at the same time must not do so again: they draw a wait, the longer the
    /// longer they hear nothing; with slots of stations, once these haven't helped.
    pub(super) fn wait_with(&mut self, missed: Missed, others: bool) -> Duration {
        self.share.exchange = None;
        let unanswered = missed.unanswered.max(1);
        let met = !missed.absent;
        let crowding = self.share.crowding;
        let wait = match self.rule {
            Access::Slots(slots) => {
                self.share.crowding = (crowding + u32::from(met)).min(ROUNDS_DOUBLED_MAX);
                let crowding = crowding.max(unanswered - 1).min(ROUNDS_DOUBLED_MAX);
                let wait = self.own_slot(slots, crowding, others);
                self.rest_of(self.slot_round(slots), wait)
            }
            // While others were in the way, the order helps. A fade takes its time.
            Access::Csma(csma) => {
                // A detected collision counts alone.
                if self.share.understood != Some(false) && met {
                    self.share.crowd(csma);
                }
                if self.share.understood.is_none() {
                    self.share.lose_track();
                }
                let wait = self.contend_among(csma, self.share.crowding.max(unanswered));
                self.back_off(unanswered.saturating_sub(MET_MAX)) + self.rest_of_turn(csma, wait)
            }
            Access::Turns => self.back_off(unanswered),
        };
        wait.max(self.guard)
    }

    /// A station's wait, shared by all others, after a missing answer.
    pub(super) fn rest_after_silence(&mut self, others: bool) -> Duration {
        let wait = match self.rule {
            Access::Slots(slots) => {
                let wait = self.own_slot(slots, 0, others);
                self.rest_of(self.slot_round(slots), wait)
            }
            Access::Csma(csma) => {
                let wait = self.contend(csma);
                self.rest_of_turn(csma, wait)
            }
            // Two stations that collided may both have data for a third. Half the time for an
            // answer shows whether another has begun.
            Access::Turns if self.nodes() > 1 => {
                self.answer_time() / 2 * self.chance.below(SILENCE_DRAWN.into()) as u32
            }
            Access::Turns => self.guard,
        };
        wait.max(self.guard)
    }

    /// The first moment from then on that is a slot of this station, counted from the end of the
    /// last transmission.
    pub(super) fn slot_from(&self, at: Instant) -> Instant {
        let (first, round) = match self.rule {
            Access::Turns => return at,
            Access::Slots(slots) => (slots.wait(), self.slot_round(slots)),
            Access::Csma(csma) => match csma.order {
                Order::Jitter => return at,
                Order::Chance => (self.slot(csma), self.slot(csma)),
                Order::Address => (self.slot(csma) * (1 + self.places_before()), self.round()),
            },
        };
        let first = self.share.ended + first;
        let rounds = at.since(first).as_nanos().div_ceil(round.as_nanos().max(1));
        first + round * u32::try_from(rounds).unwrap_or(u32::MAX)
    }

    /// By addresses, a wait counts from the end of the last transmission.
    fn rest_of_turn(&self, csma: Csma, wait: Duration) -> Duration {
        match csma.order {
            Order::Address => self.rest_of(self.round(), wait),
            Order::Chance | Order::Jitter => wait,
        }
    }

    /// To the station's own slot, in one of so many rounds: two may have one number.
    fn own_slot(&mut self, slots: Slots, crowding: u32, others: bool) -> Duration {
        let rounds = 1u64 << crowding;
        let round = self.chance.below(rounds) as u32 + u32::from(self.lets_in_slots(others));
        slots.wait() + self.slot_round(slots) * round
    }

    /// Whether the slots of all others go before this station's. One whose slot is before theirs
    /// would never let them in: once it has had every turn for as long as the longest transmission,
    /// each of them may be as long.
    fn lets_in_slots(&mut self, others: bool) -> bool {
        let (now, turn_max) = (self.now, self.turn_max);
        let begun = self.share.begun;
        if self.share.last != Some(self.own) {
            self.share.begun = None;
        } else if others && begun.is_some_and(|at| now.since(at) >= turn_max) {
            self.share.begun = None;
            self.share.lets_in = Some(now + turn_max * self.nodes());
        }
        self.share.lets_in.is_some_and(|until| now < until)
    }

    /// A slot of each station, if their numbers follow each other.
    fn slot_round(&self, slots: Slots) -> Duration {
        slots.length * (self.nodes() + 1)
    }

    /// The rest of a wait, or of one for a later round. After a collision, the station that ended
    /// first counts from the other's detected end. The other counts from there, too, not from the
    /// detection of the missing answer: its slot would be that of the first.
    fn rest_of(&self, round: Duration, wait: Duration) -> Duration {
        let passed = match self.share.understood {
            Some(_) => Duration::ZERO,
            None => self.now.since(self.share.ended),
        };
        let late = passed.saturating_sub(wait).as_nanos();
        let rounds = late.div_ceil(round.as_nanos().max(1));
        let wait = wait + round * u32::try_from(rounds).unwrap_or(u32::MAX);
        wait.saturating_sub(passed)
    }

    /// Whether a transmission that begins at this moment does so before the slot for an answer is
    /// over, like the answer, and like one that collided with the transmission before: all others
    /// begin later.
    fn is_in_answer_slot(&self, begins: Instant) -> bool {
        let Access::Csma(csma) = self.rule else {
            return false;
        };
        begins <= self.share.ended + self.guard + self.slot(csma)
    }

    /// Whether any of the last received transmission was understood.
    pub(super) fn is_understood(&self) -> bool {
        self.share.understood == Some(true)
    }

    /// Whether the last received transmission began when the answer to the one before was due, and
    /// some of it was understood.
    pub(super) fn is_understood_answer(&self) -> bool {
        self.share.answers && self.is_understood()
    }

    /// Whether an unanswered transmission may have collided, and says nothing of the channel.
    pub(super) const fn others_may_meet(&self) -> bool {
        matches!(self.rule, Access::Csma(_))
    }

    /// Whether an undecodable transmission came in the answer's slot: that collided with this
    /// station's, or another's collided with the answer. A later one is another station's turn,
    /// perhaps by a rate that is too fast for this path.
    pub(super) fn heard_a_collision(&self) -> bool {
        self.share.understood == Some(false) && self.is_in_answer_slot(self.on_since)
    }

    /// A drawn time that grows with each unanswered turn. Of two stations, no other waits for the
    /// air, and each one's data waits for the next question.
    fn back_off(&mut self, times: u32) -> Duration {
        let (least, slots) = match times {
            _ if self.nodes() > 1 => (0, 1 << times.min(DOUBLED_MAX)),
            0..=2 => (0, 1 << times),
            _ => PAIR_DRAWN,
        };
        self.answer_time() * (least + self.chance.below(slots) as u32)
    }

    /// How long the air is silent if no station has data: deferrable data waits for that. The
    /// number of slots among which others draw after collisions that only they noticed isn't known.
    /// Back-offs by turns aren't included: all would wait five times as long for a rare case, and a
    /// station that collides with an early break repeats its transmission.
    pub(super) fn round(&self) -> Duration {
        match self.rule {
            Access::Csma(csma) if csma.order == Order::Address => {
                self.slot(csma) * (self.nodes() + 1)
            }
            Access::Csma(csma) => self.slot(csma) * csma.slots_max,
            // A station that isn't addressed draws, and is heard once it has begun. Of two, each is
            // addressed.
            Access::Turns if self.nodes() > 1 => self.answer_time() * (TURNS_DRAWN + 1),
            Access::Turns => Duration::ZERO,
            Access::Slots(slots) => self.slot_round(slots),
        }
    }

    /// How long this station waits for a silence for deferrable messages. If waits are drawn, all
    /// know of the same silence, and those that have such messages would begin at once.
    pub(super) fn silence(&mut self) -> Duration {
        let among = match self.rule {
            Access::Csma(csma) if csma.order != Order::Address => self.slot(csma) * csma.slots,
            Access::Turns if self.nodes() > 1 => self.answer_time() * TURNS_DRAWN,
            Access::Csma(_) | Access::Slots(_) | Access::Turns => Duration::ZERO,
        };
        let among = u64::try_from(among.as_nanos()).unwrap_or(u64::MAX);
        self.round() + Duration::from_nanos(self.silences.below(among.max(1)))
    }

    /// Turns of this station behind which each of the others has had one: where they are drawn, all
    /// but one of 16 times.
    pub(super) const fn turns_for_all(&self) -> u32 {
        match self.rule {
            Access::Slots(_) => 2,
            Access::Csma(csma) if matches!(csma.order, Order::Address) => 2,
            Access::Csma(_) | Access::Turns => 4,
        }
    }

    /// A slot is as long as it takes to hear that another has begun, and to decide by that.
    fn slot(&self, csma: Csma) -> Duration {
        csma.slot.max(self.lead.max(self.notice.begin) + self.guard)
    }

    /// The slot for an answer, and this station's wait behind it. All count from the same moment:
    /// the others know of this station's end only when they have decoded it, and after a collision,
    /// each hears the other's end.
    fn contend(&mut self, csma: Csma) -> Duration {
        self.contend_among(csma, self.share.crowding)
    }

    /// The same among so many times doubled slots.
    fn contend_among(&mut self, csma: Csma, crowding: u32) -> Duration {
        let known = self.share.ended.since(self.now);
        let slot = self.slot(csma);
        let slots = csma.slots_drawn(crowding);
        let drawn = match csma.order {
            Order::Chance => slot * self.chance.below(slots.into()) as u32,
            Order::Jitter => {
                let all = u64::try_from((slot * slots).as_nanos()).unwrap_or(u64::MAX);
                Duration::from_nanos(self.chance.below(all.max(1)))
            }
            Order::Address => slot * self.places_before(),
        };
        known + slot + drawn
    }

    /// How many other stations are known.
    pub(super) const fn nodes(&self) -> u32 {
        self.stations.len() as u32
    }

    /// How many stations have their turn before this one.
    fn places_before(&self) -> u32 {
        let all = || self.stations.iter().copied().chain([self.own]);
        let below = |address: Address| all().filter(|other| *other < address).count();
        let count = self.stations.len() + 1;
        let first = match self.share.last {
            Some(last) => below(last) + usize::from(all().any(|it| it == last)),
            None => 0,
        };
        let before = (below(self.own) + count - first % count) % count;
        u32::try_from(before).unwrap_or(u32::MAX)
    }

    /// Notes the peer with which answers alternate.
    fn note_exchange(&mut self, owed: Option<usize>) {
        let known = self.share.exchange;
        self.share.exchange = owed.map(|number| match known {
            Some((with, since)) if with == number => (number, since),
            _ => (number, self.on_since),
        });
    }

    /// By turns, the wait of a station that wasn't addressed, or lets others in.
    fn draw_turn(&mut self) -> Duration {
        self.share.held = None;
        self.answer_time() * (1 + self.chance.below(TURNS_DRAWN.into()) as u32)
    }

    /// Whether this station and those that it answers, one or one behind the other, have had the
    /// air for themselves for so long, by turns, that others get in now.
    fn lets_in(&self, now: Instant) -> bool {
        let held = self.share.held;
        let long = held.is_some_and(|since| now.since(since) >= self.turn_max);
        long && self.nodes() > 1 && self.rule == Access::Turns
    }

    /// Whether a transmission to a peer that begins now is to have only the owed acknowledgements:
    /// two stations with ever more data for each other would never let others in.
    fn is_brief(&mut self, now: Instant, to: usize) -> bool {
        if self.owed == Some(to) && self.lets_in(now) {
            return true;
        }
        let most = match self.rule {
            Access::Csma(csma) => Some(csma.exchange),
            Access::Slots(_) if self.nodes() > 1 => Some(self.turn_max),
            Access::Slots(_) | Access::Turns => None,
        };
        match (most, self.share.exchange) {
            (Some(most), Some((with, since))) if with == to => now.since(since) >= most,
            _ => {
                self.share.exchange = Some((to, now));
                false
            }
        }
    }

    /// How long after the end of this station's transmission an answer is heard to begin: the
    /// others are as slow as this station.
    pub(super) fn answer_time(&self) -> Duration {
        let slower = self.slower_block * 2;
        let ways = self.latency * 2 + self.lead * 2;
        ways + slower + self.guard + self.answer_margin
    }

    /// How long each other station's turn may be, so that data just too late for this station's
    /// answer, which lasts `answer`, arrives within a time: behind that, others' turns, waits and
    /// turnarounds, and a transmission of this station that lasts `message`. If no turn can meet
    /// that time, half of it is theirs, so that shorter messages are in time, and a turn is as long
    /// as all its costs: half of the air is for data.
    pub(super) fn others_turn(
        &self,
        wait_max: Duration,
        [message, answer]: [Duration; 2],
    ) -> Duration {
        let way = self.lead + self.latency;
        let around = way * 2 + self.guard;
        let others = self.nodes().max(1);
        let missed = way + self.guard + answer;
        let left = wait_max.saturating_sub(missed + message + self.longest_wait());
        (left / others)
            .saturating_sub(around)
            .max(wait_max / (2 * others))
            .max(around + answer)
    }

    /// The longest wait for a turn without collisions and without other stations' data.
    pub(super) fn longest_wait(&self) -> Duration {
        match self.rule {
            Access::Turns => Duration::ZERO,
            // It may let others in once.
            Access::Slots(slots) => self.slot_round(slots) * 2,
            Access::Csma(csma) => match csma.order {
                Order::Address => self.round(),
                Order::Chance | Order::Jitter => self.slot(csma) * (1 + csma.slots),
            },
        }
    }

    /// How long a caller may take to send its data, or to call again: it waits for its turn.
    pub(super) fn patience(&self) -> Duration {
        self.answer_time() * 4 + self.round()
    }

    /// How long that may take while others use the air. By addresses a caller's turn for one of its
    /// peers comes when each has had one for each: an exchange, the transmission in which that
    /// ends, its answer, and the slots until the next. If waits are drawn, the station whose slot
    /// is first alone has the turn: one of 16 is with 0.47 among two and 0.17 among five, so that
    /// fewer than one caller of a hundred needs more than four such rounds. By turns of three,
    /// those that have let others in and those that wait draw one of four each, which is first
    /// alone with 0.22: of one round, a fifth of all callers needs more, of four fewer than a
    /// hundredth.
    pub(super) fn patience_at_most(&self) -> Duration {
        let (exchange, turns) = match self.rule {
            Access::Csma(csma) if csma.order == Order::Address => (csma.exchange, 1),
            Access::Csma(csma) => (csma.exchange, 4),
            Access::Turns if self.nodes() > 1 => (self.turn_max, 4),
            Access::Turns | Access::Slots(_) => (self.turn_max, 1),
        };
        let turn = exchange + self.turn_max + self.answer_time() + self.round();
        let ways = self.nodes() * (self.nodes() + 1);
        self.patience() + turn * turns * ways
    }
}

#[cfg(test)]
mod tests;
