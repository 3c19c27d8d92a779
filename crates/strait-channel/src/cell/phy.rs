//! How long what stations send is on the air, and when stations that have slots may send it.

use alloc::vec::Vec;

use strait_core::rate::LineRate;
use strait_core::time::{Duration, Instant, nanos};

use super::config::{CellConfig, Tdma, Waveform};

/// Octets around a packet: the frame's header and check, and LLC with SNAP.
pub(super) const FRAME_OCTETS: u64 = 24 + 4 + 8;
/// Octets of an acknowledgement, and of a permission to send (CTS).
pub(super) const ACK_OCTETS: u64 = 14;
/// Octets of a question whether a frame may be sent (RTS).
pub(super) const RTS_OCTETS: u64 = 20;

/// Lengths of time that all share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) slot: Duration,
    pub(super) sifs: Duration,
    pub(super) difs: Duration,
    pub(super) eifs: Duration,
    /// How long a sender waits for an answer to begin.
    pub(super) patience: Duration,
}

/// What all stations send by.
#[derive(Clone, Debug)]
pub(super) struct Phy {
    waveform: Waveform,
    preamble: Duration,
    /// Of frames for one station, the highest if there are several.
    pub(super) rate: LineRate,
    pub(super) basic: LineRate,
    pub(super) times: Times,
    window_min: u32,
    /// Octets of the shortest frame for one station that is asked for before.
    rts: Option<u64>,
    turns: Option<Turns>,
}

impl Phy {
    /// A cell with this rate.
    pub(super) fn of(config: &CellConfig, bit_s: Option<u64>) -> Self {
        let [slot, sifs, preamble] = config.times();
        let basic = LineRate::new(config.basic().0, 8);
        let difs = sifs + 2 * slot;
        let mut phy = Self {
            waveform: config.waveform,
            preamble,
            rate: bit_s.map_or(basic, |bit_s| LineRate::new(bit_s, 8)),
            basic,
            times: Times {
                slot,
                sifs,
                difs,
                eifs: sifs + difs,
                patience: sifs + slot + preamble,
            },
            window_min: config.window_min(),
            rts: config.rts.map(|least| least.0),
            turns: config.tdma.as_ref().map(|it| Turns::of(it, config)),
        };
        phy.times.eifs += phy.lasts(ACK_OCTETS, basic);
        phy
    }

    /// How long so many octets are on the air, headers included.
    fn lasts(&self, octets: u64, rate: LineRate) -> Duration {
        let Some((symbol, around, behind)) = self.waveform.table().symbol else {
            return self.preamble + rate.time_for(octets);
        };
        let bits = u128::from(rate.bit_s()) * symbol.as_nanos() / 1_000_000_000;
        let symbols = u128::from(8 * octets + around).div_ceil(bits.max(1));
        self.preamble + symbol * symbols as u32 + behind
    }

    /// How long a frame is on the air.
    pub(super) fn airtime(&self, octets: usize, rate: LineRate) -> Duration {
        self.lasts(octets as u64 + FRAME_OCTETS, rate)
    }

    /// The rate of what a frame of this rate is answered by, or asked for: the highest mandatory
    /// one that isn't above it.
    pub(super) fn control_rate(&self, rate: LineRate) -> LineRate {
        let most = match self.waveform.table().control_bit_s {
            [] => rate.bit_s().min(2 * self.basic.bit_s()),
            all => {
                let fit = all.iter().filter(|it| **it <= rate.bit_s());
                fit.max().map_or_else(|| rate.bit_s(), |it| *it)
            }
        };
        LineRate::new(most, 8)
    }

    /// An acknowledgement of a frame of this rate, or a permission for one.
    pub(super) fn ack(&self, rate: LineRate) -> Duration {
        self.lasts(ACK_OCTETS, self.control_rate(rate))
    }

    pub(super) fn rts(&self, rate: LineRate) -> Duration {
        self.lasts(RTS_OCTETS, self.control_rate(rate))
    }

    /// Whether the sender of a frame for one station asks before.
    pub(super) fn asks(&self, octets: usize) -> bool {
        self.rts.is_some_and(|least| octets as u64 >= least)
    }

    /// From the beginning of a frame to the end of its acknowledgement, where it has one.
    pub(super) fn exchange(&self, octets: usize, all: bool) -> Duration {
        if all {
            return self.airtime(octets, self.basic);
        }
        self.airtime(octets, self.rate) + self.times.sifs + self.ack(self.rate)
    }

    /// What a lone station carries in frames of this length.
    pub(super) fn usual_rate(&self, octets: usize, station: usize) -> LineRate {
        let exchange = self.exchange(octets, false);
        let (frames, time) = match &self.turns {
            Some(turns) => turns.frames(station, exchange + self.times.sifs),
            None => {
                let draw = self.times.slot * self.window_min / 2;
                let asked = match self.asks(octets) {
                    true => self.rts(self.rate) + self.ack(self.rate) + 2 * self.times.sifs,
                    false => Duration::ZERO,
                };
                (1, asked + self.times.difs + draw + exchange)
            }
        };
        let bits = octets as u128 * 8 * 1_000_000_000 * u128::from(frames);
        LineRate::new((bits / u128::from(nanos(time).max(1))) as u64, 8)
    }

    /// Whether frames of this length fit into slots.
    pub(super) fn fits(&self, octets: usize) -> bool {
        let longest = [true, false].map(|all| self.exchange(octets, all));
        let turns = self.turns.as_ref();
        turns.is_none_or(|turns| longest.into_iter().all(|it| it <= turns.usable))
    }

    pub(super) fn turns(&self) -> Option<&Turns> {
        self.turns.as_ref()
    }
}

/// Whose slot is when.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    slot: Duration,
    /// Of a slot.
    usable: Duration,
    order: Vec<usize>,
}

impl Turns {
    fn of(tdma: &Tdma, config: &CellConfig) -> Self {
        let order = match tdma.order.is_empty() {
            true => (0..config.places.len()).collect(),
            false => tdma.order.clone(),
        };
        Self {
            slot: tdma.slot.0,
            usable: tdma.slot.0.saturating_sub(tdma.guard.0),
            order,
        }
    }

    /// When a station may next begin what takes so long.
    pub(super) fn next(&self, station: usize, from: Instant, lasts: Duration) -> Instant {
        let slot_ns = nanos(self.slot).max(1);
        let first = from.as_nanos() / slot_ns;
        let slots = first..=first.saturating_add(self.order.len() as u64);
        let begins = slots.filter_map(|number| {
            let whose = self
                .order
                .get((number % self.order.len() as u64) as usize)?;
            let begin = Instant::from_nanos(number.saturating_mul(slot_ns));
            let at = begin.max(from);
            (*whose == station && at + lasts <= begin + self.usable).then_some(at)
        });
        begins.into_iter().next().unwrap_or(Instant::NEVER)
    }

    /// Frames of a length of time that a station sends in a round, and how long that is.
    fn frames(&self, station: usize, lasts: Duration) -> (u64, Duration) {
        let own = self.order.iter().filter(|it| **it == station).count() as u64;
        let each = nanos(self.usable) / nanos(lasts).max(1);
        (own * each, self.slot * self.order.len() as u32)
    }
}
