//! Who may begin when: what a station waits after the end of a transmission, its own or another's.
//!
//! Whatever the rule, a station listens before it begins, and who owes an answer gives it at once.
//! The rules differ in what all else waits.

use strait_core::{Duration, Instant};

use super::turn::OnAir;
use super::{Address, Station};
use crate::rate::MET_MAX;

/// How stations share the air.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// By the end of each transmission: who was spoken to begins at once, with whatever it has.
    /// Made for two.
    #[default]
    Turns,
    /// By slots of each station, counted from the end of the last transmission.
    Slots(Slots),
    /// By slots or times that are drawn after each transmission. Made for many.
    Csma(Csma),
}

/// By turns, times that an answer takes to begin among which others draw.
const TURNS_DRAWN: u32 = 4;

/// By turns, halves of that time among which who wasn't answered draws.
const SILENCE_DRAWN: u32 = 3;

/// With slots of stations, the most doublings of the rounds among which is drawn: 18 s for two
/// stations and slots of 3 s.
const ROUNDS_DOUBLED_MAX: u32 = 2;

impl Access {
    /// The slots of stations, if it is these.
    #[must_use]
    pub const fn slots(self) -> Option<Slots> {
        match self {
            Self::Slots(slots) => Some(slots),
            Self::Turns | Self::Csma(_) => None,
        }
    }
}

/// Turns by slots, as stations in use have them: who owes an answer gives it at once, all else
/// waits for the station's own slot after the end of the last transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// The length of a slot.
    pub length: Duration,
    /// This station's number: it begins after so many slots and one.
    pub number: u32,
    /// The shortest transmission.
    pub turn_min: Duration,
    /// Octets that the modem is given ahead of time: what comes while a transmission lasts must be
    /// behind them.
    pub committed_octets: usize,
    /// How long what arrived takes to who it is for, where programs of their own hand it on.
    pub delivery: Duration,
}

impl Slots {
    fn wait(self) -> Duration {
        self.length * self.number.saturating_add(1)
    }
}

/// Listen before transmit for a net of many (Annexes J and K of STANAG 5066). The first slot after
/// a transmission is for its answer; then each station that has something to say waits some slots
/// more, and begins if nobody has by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Csma {
    /// What a station waits.
    pub order: Order,
    /// The length of a slot: from one station's decision to begin to when all others hear its
    /// power. It is never shorter than what the station's own modem takes to the first octet.
    pub slot: Duration,
    /// Slots among which is drawn when all is well.
    pub slots: u32,
    /// The most of them: their number is doubled by each collision.
    pub slots_max: u32,
    /// Two that answer each other with data let others in after this time.
    pub exchange: Duration,
}

/// What a station waits before it begins, from the end of the answer's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Whole slots, drawn anew each time.
    Chance,
    /// A time, drawn anew each time from as many slots.
    Jitter,
    /// The slots of those whose turn is before its own: stations have turns by their addresses,
    /// beginning behind who spoke last.
    Address,
}

/// What a station knows of how crowded the air is, and of who has it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// How often the number of slots, or of rounds of them, is doubled.
    crowding: u32,
    /// Whether a D_PDU of the transmission that we heard last was understood; none was heard since
    /// our own if absent.
    pub(super) understood: Option<bool>,
    /// Who had the air last, if that is known: who answers doesn't take it.
    last: Option<Address>,
    /// From whom to whom the last transmission went, if it was more than data without ARQ: nobody
    /// answers that.
    way: Option<(Address, Address)>,
    /// What is heard began in the slot for an answer to the one before.
    answers: bool,
    /// Who had the air isn't known: so many weren't understood, each an answer to the one before.
    unknown: u32,
    /// The peer with whom answers go to and fro, and since when.
    exchange: Option<(usize, Instant)>,
    /// By turns: since when each transmission was ours or for us, and the next came at once.
    held: Option<Instant>,
    /// With slots of stations: since when every turn that nobody waited for was ours.
    begun: Option<Instant>,
    /// With slots of stations: that was long, and the slots of all others go before ours until our
    /// next turn, or this moment.
    lets_in: Option<Instant>,
    /// When all know of the end of the last transmission, ours or another's.
    pub(super) ended: Instant,
}

impl Share {
    /// A D_PDU of the transmission that we hear was understood, data without ARQ if it is `plain`.
    pub(super) fn note(&mut self, from: Address, to: Address, plain: bool) {
        if self.understood.replace(true) != Some(true) {
            let lost_track = self.last.is_none() && self.answers;
            self.note_turn(from, to, plain);
            let unknown = core::mem::take(&mut self.unknown);
            if lost_track && unknown % 2 == 1 && !to.is_group() {
                // It answers what began the exchange, or an answer to an answer to that.
                self.last = Some(to);
            }
        } else if !plain {
            self.way = Some((from, to));
        }
    }

    /// A transmission went from one to another.
    pub(super) fn note_turn(&mut self, from: Address, to: Address, plain: bool) {
        let way = core::mem::replace(&mut self.way, (!plain).then_some((from, to)));
        if way != Some((to, from)) || self.last.is_none() {
            self.last = Some(from);
        }
    }

    /// A transmission of this station, `own`, is over that began `since`.
    pub(super) fn note_own(&mut self, own: Address, since: Instant) {
        if self.last == Some(own) {
            self.begun.get_or_insert(since);
            self.lets_in = None;
        }
    }

    /// A transmission of which nothing was understood is over. Two that are nearer to each other
    /// than to us may be too fast for us; if it was an answer, who has the air is the same.
    fn note_garbled(&mut self) {
        match self.way {
            Some((from, to)) if self.answers => self.way = Some((to, from)),
            _ => {
                let before = if self.answers { self.unknown } else { 0 };
                self.lose_track();
                self.unknown = before + 1;
            }
        }
    }

    /// What was on the air isn't known.
    const fn lose_track(&mut self) {
        (self.last, self.way, self.unknown) = (None, None, 0);
    }

    /// The next attempt is among twice as many slots.
    fn crowd(&mut self, csma: Csma) {
        self.crowding += u32::from(slots_drawn(csma, self.crowding) < csma.slots_max);
    }
}

/// Slots to draw from, doubled so often.
fn slots_drawn(csma: Csma, crowding: u32) -> u32 {
    let slots = u64::from(csma.slots.max(1)) << crowding.min(31);
    let most = u64::from(csma.slots_max.max(1));
    slots.min(most) as u32
}

impl<T> Station<T> {
    /// How long the air stays silent after a transmission of ours before anything begins that is no
    /// answer. With slots of stations, who sends without ARQ lets the others have theirs first:
    /// nobody answers him; once one of them has spoken, his own slot comes (see
    /// [`Station::wait_after_hearing`]). Without slots, the peer that was answered may have more to
    /// say, and isn't heard at once.
    ///
    /// Nobody tells who sends without ARQ that he met another one, either. Who does so `again`, and
    /// heard nobody since, comes later by chance, lest two go on in step.
    pub(super) fn rest(&mut self, on_air: &OnAir, again: bool) -> Duration {
        self.share.exchange = None;
        let later = if again {
            self.chance.below(2) as u32
        } else {
            0
        };
        match self.settings.access {
            Access::Slots(slots) if on_air.plain => {
                let wait = self.own_slot(slots, self.share.crowding);
                wait + slots.length * self.nodes() * 2
            }
            Access::Slots(slots) => self.own_slot(slots, self.share.crowding),
            Access::Csma(csma) => self.contend(csma) + self.slot(csma) * later,
            Access::Turns if self.lets_in(self.now) => self.draw_turn(),
            Access::Turns if on_air.answers || later > 0 => self.answer_time(),
            Access::Turns => self.settings.guard,
        }
    }

    /// What a station waits after another's transmission, whose last octets it has. Who was spoken
    /// to answers at once; others leave him the time to begin. With slots of stations, one that
    /// came in its slot after ours without ARQ doesn't put ours off: slots count from the
    /// transmission that began their round.
    pub(super) fn wait_after_hearing(&mut self, now: Instant, owed: Option<usize>) -> Duration {
        let own_end = self.plain_end.take();
        self.share.ended = self.share.ended.max(now);
        self.note_exchange(owed);
        match (self.settings.access, self.spoke) {
            (Access::Turns, Some(_)) => {
                self.share.held.get_or_insert(self.on_since);
                match owed.is_none() && self.lets_in(now) {
                    true => self.draw_turn(),
                    false => self.settings.guard,
                }
            }
            (_, _) if owed.is_some() => self.settings.guard,
            (Access::Turns, None) => self.draw_turn(),
            (Access::Slots(slots), _) => {
                if self.share.understood == Some(true) {
                    self.share.crowding = self.share.crowding.saturating_sub(1);
                }
                let wait = self.own_slot(slots, self.share.crowding);
                own_end
                    .map(|end| end + wait)
                    .filter(|slot| self.on_since <= *slot)
                    .map_or(wait, |slot| slot.since(now).max(self.settings.guard))
            }
            (Access::Csma(csma), _) => {
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

    /// What a station waits with a peer that didn't answer it, whether it heard others instead or
    /// nobody. Two stations that began at the same time must not do so
    /// again: they wait by chance, the more the longer nothing is heard; with slots of their own,
    /// once these haven't helped.
    pub(super) fn wait_with(&mut self, number: usize) -> Duration {
        self.share.exchange = None;
        let unanswered = self.peers[number].unanswered.max(1);
        let met = !self.is_absent(number);
        let crowding = self.share.crowding;
        let wait = match self.settings.access {
            Access::Slots(slots) => {
                self.share.crowding = (crowding + u32::from(met)).min(ROUNDS_DOUBLED_MAX);
                let crowding = crowding.max(unanswered - 1).min(ROUNDS_DOUBLED_MAX);
                let wait = self.own_slot(slots, crowding);
                self.rest_of(self.slot_round(slots), wait)
            }
            // While others were in the way, the order helps. A fade takes its time.
            Access::Csma(csma) => {
                // A collision that was heard counts by itself.
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
        wait.max(self.settings.guard)
    }

    /// What a station waits with all others when an answer didn't come.
    pub(super) fn rest_after_silence(&mut self) -> Duration {
        let wait = match self.settings.access {
            Access::Slots(slots) => {
                let wait = self.own_slot(slots, 0);
                self.rest_of(self.slot_round(slots), wait)
            }
            Access::Csma(csma) => {
                let wait = self.contend(csma);
                self.rest_of_turn(csma, wait)
            }
            // Two that met may both have something for a third. Half the time for an answer tells
            // whether another has begun.
            Access::Turns if self.nodes() > 1 => {
                self.answer_time() / 2 * self.chance.below(SILENCE_DRAWN.into()) as u32
            }
            Access::Turns => self.settings.guard,
        };
        wait.max(self.settings.guard)
    }

    /// The first moment from then on that is a slot of this station, counted from the end of the
    /// last transmission.
    pub(super) fn slot_from(&self, at: Instant) -> Instant {
        let (first, round) = match self.settings.access {
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
    fn own_slot(&mut self, slots: Slots, crowding: u32) -> Duration {
        let rounds = 1u64 << crowding;
        let round = self.chance.below(rounds) as u32 + u32::from(self.lets_in_slots());
        slots.wait() + self.slot_round(slots) * round
    }

    /// Whether the slots of all others go before this station's. One whose slot is before theirs
    /// would never let them in: once it has had every turn for as long as the longest transmission,
    /// each of them may be as long.
    fn lets_in_slots(&mut self) -> bool {
        let (now, turn_max) = (self.now, self.settings.turn_max);
        let begun = self.share.begun;
        if self.share.last != Some(self.settings.own) {
            self.share.begun = None;
        } else if self.has_others() && begun.is_some_and(|at| now.since(at) >= turn_max) {
            self.share.begun = None;
            self.share.lets_in = Some(now + turn_max * self.nodes());
        }
        self.share.lets_in.is_some_and(|until| now < until)
    }

    /// Whether more stations than one are there, as far as is known.
    fn has_others(&self) -> bool {
        let there = |number: &usize| !self.is_group(*number) && !self.is_absent(*number);
        (0..self.peers()).filter(there).count() > 1
    }

    /// A slot of each station, if their numbers follow each other.
    fn slot_round(&self, slots: Slots) -> Duration {
        slots.length * (self.nodes() + 1)
    }

    /// What is left of a wait, or of one for a later round. Of two that met, who ended first counts
    /// from what it hears of the other's end. The other counts from there, too, not from when it
    /// knows that no answer comes: its slot would be that of the first.
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

    /// Another is heard to begin.
    pub(super) fn note_begin(&mut self, now: Instant) {
        self.note_silence(now);
        let answers = self.share.ended <= now && self.is_in_answer_slot(now);
        (self.share.understood, self.share.answers) = (Some(false), answers);
    }

    /// A transmission begins. If all could have begun before it, nobody had the air.
    pub(super) fn note_silence(&mut self, begins: Instant) {
        if begins.since(self.share.ended) >= self.round() {
            self.share.held = None;
        }
    }

    /// Whether what begins at this moment does so before the slot for an answer is over, as the
    /// answer does, and what met the transmission before: all others begin later.
    fn is_in_answer_slot(&self, begins: Instant) -> bool {
        let Access::Csma(csma) = self.settings.access else {
            return false;
        };
        begins <= self.share.ended + self.settings.guard + self.slot(csma)
    }

    /// Whether what was heard last began when the answer to the transmission before was due, and
    /// some of it was understood.
    pub(super) fn is_understood_answer(&self) -> bool {
        self.share.answers && self.share.understood == Some(true)
    }

    /// Whether what a peer didn't answer, so many times in a row, may have met others, and says
    /// nothing of the channel. If something came in the answer's slot that nobody could understand,
    /// that met ours, or another's met the answer; but not so often that a link would be lost for
    /// it. What comes later is somebody's turn, perhaps by a rate that is too fast for us.
    pub(super) fn met(&self, number: usize, unanswered: u32) -> bool {
        let garbled = self.share.understood == Some(false) && self.is_in_answer_slot(self.on_since);
        let most = match garbled {
            true => self.settings.unanswered_max,
            false => self.peers[number].towards.rate.met_max(),
        };
        matches!(self.settings.access, Access::Csma(_)) && unanswered <= most
    }

    /// A time by chance that is longer the more often nothing was heard.
    fn back_off(&mut self, times: u32) -> Duration {
        let slots = 1u64 << times.min(4);
        self.answer_time() * self.chance.below(slots) as u32
    }

    /// How long the air is silent if nobody has anything to say: what can wait for that, does.
    /// Among how many slots others draw, after collisions that nobody else noticed, isn't known.
    /// Back-offs by turns aren't in it: all would wait five times as long for what a few seldom do,
    /// and who is met by a break that came first repeats what it said.
    pub(super) fn round(&self) -> Duration {
        match self.settings.access {
            Access::Csma(csma) if csma.order == Order::Address => {
                self.slot(csma) * (self.nodes() + 1)
            }
            Access::Csma(csma) => self.slot(csma) * csma.slots_max,
            // Who isn't spoken to draws, and is heard once it has begun. Of two, each is spoken to.
            Access::Turns if self.nodes() > 1 => self.answer_time() * (TURNS_DRAWN + 1),
            Access::Turns => Duration::ZERO,
            Access::Slots(slots) => self.slot_round(slots),
        }
    }

    /// How long this station waits for a silence in which it says what can wait. Where waits are
    /// drawn, all know of the same silence, and those that have something of the kind would begin
    /// at once.
    pub(super) fn silence(&mut self) -> Duration {
        let among = match self.settings.access {
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
        match self.settings.access {
            Access::Slots(_) => 2,
            Access::Csma(csma) if matches!(csma.order, Order::Address) => 2,
            Access::Csma(_) | Access::Turns => 4,
        }
    }

    /// A slot is as long as it takes to hear that another has begun.
    fn slot(&self, csma: Csma) -> Duration {
        csma.slot.max(self.lead + self.settings.guard)
    }

    /// The slot for an answer, and what this station waits behind it. All count from the same
    /// moment: the others know of an end of ours only when they have decoded it, and of two that
    /// met, each hears the other's end.
    fn contend(&mut self, csma: Csma) -> Duration {
        self.contend_among(csma, self.share.crowding)
    }

    /// The same among so many times doubled slots.
    fn contend_among(&mut self, csma: Csma, crowding: u32) -> Duration {
        let known = self.share.ended.since(self.now);
        let slot = self.slot(csma);
        let slots = slots_drawn(csma, crowding);
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

    /// How many other stations it knows.
    pub(super) fn nodes(&self) -> u32 {
        let nodes = self.listed().iter().filter(|peer| !peer.address.is_group());
        nodes.count() as u32
    }

    /// How many stations have their turn before this one.
    fn places_before(&self) -> u32 {
        let own = self.settings.own;
        let stations = || self.listed().iter().map(|peer| peer.address);
        let stations = || stations().filter(|address| !address.is_group());
        let below = |address: Address| {
            let all = stations().chain([own]);
            all.filter(|other| *other < address).count()
        };
        let count = stations().count() + 1;
        let first = match self.share.last {
            Some(last) => below(last) + usize::from(stations().chain([own]).any(|it| it == last)),
            None => 0,
        };
        let before = (below(own) + count - first % count) % count;
        u32::try_from(before).unwrap_or(u32::MAX)
    }

    /// Notes with whom answers go to and fro.
    fn note_exchange(&mut self, owed: Option<usize>) {
        let known = self.share.exchange;
        self.share.exchange = owed.map(|number| match known {
            Some((with, since)) if with == number => (number, since),
            _ => (number, self.on_since),
        });
    }

    /// By turns, what a station waits that wasn't spoken to, or lets others in.
    fn draw_turn(&mut self) -> Duration {
        self.share.held = None;
        self.answer_time() * (1 + self.chance.below(TURNS_DRAWN.into()) as u32)
    }

    /// Whether this station and those that it answers, one or one behind the other, have had the
    /// air for themselves for so long, by turns, that others get in now.
    fn lets_in(&self, now: Instant) -> bool {
        let held = self.share.held;
        let long = held.is_some_and(|since| now.since(since) >= self.settings.turn_max);
        long && self.nodes() > 1 && self.settings.access == Access::Turns
    }

    /// Whether a transmission to a peer that begins now is to say what it owes and nothing else:
    /// two that have more and more for each other would never let others in.
    pub(super) fn is_brief(&mut self, now: Instant, to: usize) -> bool {
        if self.to_answer == Some(to) && self.lets_in(now) {
            return true;
        }
        let most = match self.settings.access {
            Access::Csma(csma) => Some(csma.exchange),
            Access::Slots(_) if self.nodes() > 1 => Some(self.settings.turn_max),
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

    /// Whether what comes now still joins a transmission.
    pub(super) fn is_open(&self, on_air: &OnAir) -> bool {
        let (Some(slots), Some(state)) = (self.settings.access.slots(), self.state) else {
            return !on_air.brief;
        };
        let ahead = state.tx_rate.time_for(slots.committed_octets as u64);
        on_air.planned > 0 || self.now.max(on_air.starts) + ahead < on_air.ends
    }

    /// How long after the end of our transmission an answer is heard to begin: theirs is as slow as
    /// ours.
    pub(super) fn answer_time(&self) -> Duration {
        let slower = self.slower_block() * 2;
        let ways = self.latency() * 2 + self.lead * 2;
        ways + slower + self.settings.guard + self.settings.answer_margin
    }

    /// The longest wait for a turn where nobody meets anybody, and nobody else has anything to say.
    pub(super) fn longest_wait(&self) -> Duration {
        match self.settings.access {
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

    /// How long that may take while others use the air. By addresses a caller's turn for one of
    /// its peers comes when each has had one for each: an exchange, the transmission in which that
    /// ends, its answer, and the slots until the next. Where waits are drawn, a turn is whose slot
    /// is first alone: one of 16 is with 0.47 among two and 0.17 among five, so that fewer than one
    /// caller of a hundred needs more than four such rounds. By turns of three, those that have let
    /// others in and who waits draw one of four each, which is first alone with 0.22: of one round,
    /// a fifth of all callers needs more, of four fewer than a hundredth.
    pub(super) fn patience_at_most(&self) -> Duration {
        let (exchange, turns) = match self.settings.access {
            Access::Csma(csma) if csma.order == Order::Address => (csma.exchange, 1),
            Access::Csma(csma) => (csma.exchange, 4),
            Access::Turns if self.nodes() > 1 => (self.settings.turn_max, 4),
            Access::Turns | Access::Slots(_) => (self.settings.turn_max, 1),
        };
        let turn = exchange + self.settings.turn_max + self.answer_time() + self.round();
        let ways = self.nodes() * (self.nodes() + 1);
        self.patience() + turn * turns * ways
    }

    /// From the end of a block to its octets at the others.
    pub(super) fn latency(&self) -> Duration {
        self.state.map_or(Duration::ZERO, |state| state.latency)
    }
}
