//! Which calls a line takes: as many as it can carry, and none that would spoil the others.

use strait_core::flow::{FlowKey, Standing};
use strait_core::rate::LineRate;
use strait_core::stats::FlowStats;
use strait_core::{Duration, Instant, Packet};
use strait_wire::ip::udp_payload;
use strait_wire::rtp::{self, RtpHeader};

use super::talk::{Guess, lost};
use super::{Entry, Flows};
use crate::config::AdmissionConfig;

/// How a call's packet may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// As the policy says.
    First,
    /// Behind calls: it isn't known yet what it needs, and others may not be harmed.
    Behind,
    /// Not at all: the line can't carry it beside the others.
    Refused,
}

/// What calls have to fit into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// What all calls together may take of the line.
    share: f64,
    /// What of all that they say may find no room.
    loss: f64,
    line: LineRate,
    /// The line's rate while only the neighbour gets something for whom the packet is.
    own: LineRate,
    /// How many times as long as its octets take at that rate a packet takes of a shared channel.
    air: f64,
    /// How long a silent call keeps its place.
    hold: Duration,
    /// Octets that headers leave of a call's, and what the link puts around.
    compresses: bool,
}

/// A pause after which a refused call is asked for anew: its caller has hung up, or tries again.
const PAUSE: Duration = Duration::from_secs(2);

/// How much more than when it was admitted a call may need before that is asked again.
const GROWTH: (u64, u64) = (5, 4);

/// A pause of so many periods, and of so much time, is a silence: others may talk meanwhile.
const SILENCE: (u32, Duration) = (3, Duration::from_secs(1));

/// Packets after which the mean of a flow that keeps no period is believed, and the time that they
/// must have taken: a burst at the start says little.
const IRREGULAR: (u64, Duration) = (8, Duration::from_secs(1));

/// How long an admitted call may need more than it may have before it is refused: packets of a
/// tunnel differ.
const OVER: Duration = Duration::from_secs(2);

/// Packets on the line after which their mean is believed more than what headers say: the first
/// have their headers whole.
const SETTLED: u32 = 32;

/// Octets of a packet on the line beside what its headers carry, with compressed headers and
/// without.
const AROUND: (u32, u32) = (8, 5);

const fn octets_each_second(rate: LineRate) -> u64 {
    rate.octets_in(Duration::from_secs(1))
}

impl Terms {
    pub(crate) const fn new(config: &AdmissionConfig, line: LineRate, compresses: bool) -> Self {
        Self {
            share: config.share.0,
            loss: config.loss.0,
            line,
            own: line,
            air: 1.0,
            hold: config.hold.0,
            compresses,
        }
    }

    /// The same for a neighbour whose own rate is another one than the line's.
    pub(crate) const fn towards(self, rate: LineRate) -> Self {
        Self { own: rate, ..self }
    }

    /// The same where a packet takes so many times its octets' time.
    pub(crate) const fn in_air(self, air: f64) -> Self {
        Self { air, ..self }
    }

    /// What a call to the neighbour takes of the line, as octets each second at the line's rate.
    pub(super) fn on_line(&self, octets_s: u64) -> u64 {
        let octets_s = (octets_s as f64 * self.air) as u64;
        let [line, own] = [self.line, self.own].map(octets_each_second);
        if own == line {
            return octets_s;
        }
        let octets = u128::from(octets_s) * u128::from(line);
        let octets = octets.div_ceil(u128::from(own.max(1)));
        u64::try_from(octets).unwrap_or(u64::MAX)
    }

    /// Octets each second that the line carries.
    pub(super) const fn line_octets_s(&self) -> u64 {
        octets_each_second(self.line)
    }

    /// Octets each second for all calls.
    fn octets_s(&self) -> u64 {
        (self.line_octets_s() as f64 * self.share) as u64
    }

    /// How long a silent call keeps its place.
    pub(super) const fn hold(&self) -> Duration {
        self.hold
    }

    /// Octets of a packet on the line, once headers are learned.
    pub(super) fn octets(&self, packet: &Packet) -> u32 {
        let plain = packet.info().octets;
        let payload = self.compresses.then(|| udp_payload(packet.bytes()));
        let Some((_, payload)) = payload.flatten() else {
            return plain + AROUND.1;
        };
        let is_rtp = RtpHeader::parse(payload).is_ok();
        let headers = if is_rtp { rtp::HEADER_OCTETS } else { 0 };
        payload.len().saturating_sub(headers) as u32 + AROUND.0
    }
}

impl Entry {
    /// Octets each second that the call needs on the line, once that is known. `told_bit_s` is what
    /// its rule says.
    fn needs(&self, now: Instant, told_bit_s: Option<u64>) -> Option<u64> {
        if let Some(rate) = told_bit_s {
            return Some(rate.div_ceil(8));
        }
        let mean = self.size.line_8.map_or(u32::MAX, |octets_8| octets_8 / 8);
        let octets = if self.size.carried < SETTLED {
            mean.min(self.estimate)
        } else {
            mean
        };
        let span = now.since(self.began);
        let ns = match self.pace.period() {
            Some(period) if self.pace.is_kept() => period.as_nanos(),
            _ if self.packets > IRREGULAR.0 && span >= IRREGULAR.1 => {
                span.as_nanos() / u128::from(self.packets - 1)
            }
            _ => return None,
        };
        let octets_s = u128::from(octets) * 1_000_000_000 / ns.max(1);
        Some(u64::try_from(octets_s).unwrap_or(u64::MAX))
    }

    /// Whether it is silent. What keeps no period has its pauses in the mean that it needs.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        let period = self.pace.period();
        let pause = period.map(|period| SILENCE.1.max(period * SILENCE.0));
        pause.is_some_and(|pause| now.since(self.seen) >= pause)
    }

    /// The most octets that a packet takes whose headers are learned.
    pub(super) fn short(&self) -> u32 {
        (u64::from(self.estimate) * GROWTH.0 / GROWTH.1) as u32
    }

    /// Whether its headers have been learned, or aren't going to be.
    const fn is_short(&self) -> bool {
        self.size.learned || self.size.carried >= SETTLED
    }

    /// What the line keeps for the call.
    fn keeps(&self, now: Instant, hold: Duration) -> Option<u64> {
        match self.standing {
            Standing::Admitted { octets_s } if now.since(self.seen) < hold => Some(octets_s),
            _ => None,
        }
    }
}

impl Flows {
    /// A packet of a call is about to be queued: takes note of it, and says how it may go.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        packet: &Packet,
        told_bit_s: Option<u64>,
        terms: &Terms,
        stats: &mut FlowStats,
    ) -> Pass {
        let key = FlowKey::of(packet.info());
        let estimate = terms.octets(packet);
        let fresh = |entry: &Entry| {
            let pause = match entry.standing {
                Standing::Refused => PAUSE,
                _ => terms.hold,
            };
            now.since(entry.seen) >= pause
        };
        match self.calls.touch(&key) {
            Some(entry) if fresh(entry) => *entry = Entry::begin(now, packet),
            Some(entry) => {
                entry.see(now, packet);
                match entry.pace.arrive(now) {
                    Some(it) => stats.gaps.count(it.predicted, it.actual, it.error()),
                    None => stats.gaps.unforeseen += 1,
                }
            }
            None => {
                stats.gaps.unforeseen += 1;
                let may_go = |entry: &Entry| entry.keeps(now, terms.hold).is_none();
                match self.calls.insert(key, Entry::begin(now, packet), may_go) {
                    Ok(displaced) => stats.displaced += displaced,
                    Err(_) => return Pass::Refused,
                }
                stats.known = self.known();
            }
        }
        let Some(entry) = self.calls.at_key(&key) else {
            return Pass::Refused;
        };
        entry.estimate = estimate;
        let (before, needs) = (
            entry.standing,
            entry.needs(now, told_bit_s).map(|it| terms.on_line(it)),
        );
        let is_short = !terms.compresses || entry.is_short();
        let mut over_since = entry.over_since;
        let after = match self.judge(now, &key, before, needs, terms) {
            Standing::Refused if before.is_admitted() => {
                let since = *over_since.get_or_insert(now);
                if now.since(since) < OVER {
                    before
                } else {
                    Standing::Refused
                }
            }
            // Whole headers are more than the line keeps for it.
            Standing::Admitted { .. }
                if !before.is_admitted() && !is_short && self.disturbs(now, &key, terms) =>
            {
                Standing::Measured
            }
            after => {
                over_since = None;
                after
            }
        };
        if let Some(entry) = self.calls.at_key(&key) {
            (entry.standing, entry.over_since) = (after, over_since);
        }
        stats.admitted += u64::from(after.is_admitted() && !before.is_admitted());
        stats.refused += u64::from(after == Standing::Refused && before != Standing::Refused);
        match after {
            Standing::Admitted { .. } => Pass::First,
            Standing::Refused => Pass::Refused,
            Standing::Measured if self.disturbs(now, &key, terms) => Pass::Behind,
            Standing::Measured => Pass::First,
        }
    }

    /// How a call stands that needs so much.
    fn judge(
        &self,
        now: Instant,
        key: &FlowKey,
        before: Standing,
        needs: Option<u64>,
        terms: &Terms,
    ) -> Standing {
        let Some(octets_s) = needs else {
            return before;
        };
        if let Standing::Admitted { octets_s: kept } = before
            && octets_s <= kept
        {
            return before;
        }
        if self.fits(now, key, octets_s, terms) {
            return Standing::Admitted { octets_s };
        }
        match before {
            Standing::Admitted { octets_s: kept }
                if octets_s.saturating_mul(GROWTH.1) <= kept.saturating_mul(GROWTH.0) =>
            {
                before
            }
            _ => Standing::Refused,
        }
    }

    /// Whether the line has room for a call that needs so much: now, and on average beside all that
    /// others may say. One that was admitted and grows has to fit beside all that these may need.
    fn fits(&self, now: Instant, key: &FlowKey, octets_s: u64, terms: &Terms) -> bool {
        let line = terms.line_octets_s();
        let kept = self.kept(now, key, terms.hold);
        if kept.saturating_add(octets_s) <= terms.octets_s() {
            return true;
        }
        if kept == 0 {
            // Who is alone harms no call.
            return octets_s <= line;
        }
        let own = self.calls.iter().find(|(other, _)| *other == key);
        let Some((_, own)) = own.filter(|(_, own)| !own.standing.is_admitted()) else {
            return false;
        };
        let talking = self.others(now, key, terms.hold);
        let talking = talking.filter(|(_, other)| !other.is_silent(now));
        let talking = talking.fold(octets_s, |sum, (needs, _)| sum.saturating_add(needs));
        if talking > line {
            return false;
        }
        let uses = |guess: Guess| {
            let all = self.others(now, key, terms.hold).chain([(octets_s, own)]);
            all.map(move |(needs, call)| (needs, call.talk.share(now.since(call.began), guess)))
        };
        let means = uses(Guess::MOST).map(|(needs, share)| needs as f64 * share);
        means.sum::<f64>() <= terms.octets_s() as f64
            && lost(uses(Guess::LIKELY), line) <= terms.loss
    }

    /// All other calls that have a place, with what they need while they talk.
    fn others<'a>(
        &'a self,
        now: Instant,
        but: &'a FlowKey,
        hold: Duration,
    ) -> impl Iterator<Item = (u64, &'a Entry)> {
        let others = self.calls.iter().filter(move |(key, _)| *key != but);
        others.filter_map(move |(_, entry)| Some((entry.keeps(now, hold)?, entry)))
    }

    /// Whether a call's first packets, longer than later ones, would delay another call whose own
    /// are over: calls that begin together wait for each other.
    fn disturbs(&self, now: Instant, key: &FlowKey, terms: &Terms) -> bool {
        let mut others = self.calls.iter().filter(|(other, _)| *other != key);
        others.any(|(_, entry)| {
            let is_over = !terms.compresses || entry.is_short();
            is_over && entry.keeps(now, terms.hold).is_some()
        })
    }

    /// What the line keeps for all other calls.
    fn kept(&self, now: Instant, but: &FlowKey, hold: Duration) -> u64 {
        let needs = self.others(now, but, hold).map(|(needs, _)| needs);
        needs.fold(0, u64::saturating_add)
    }
}
