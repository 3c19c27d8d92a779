//! One direction of a line.

use alloc::boxed::Box;

use strait_core::chance::Stream;
use strait_core::framing::Framing;
use strait_core::rate::{Burst, LineRate};
use strait_core::time::{Duration, Instant, nanos};

use crate::config::LinkConfig;
use crate::hit::Hit;
use crate::impair::{BitErrors, Chance, Loss, Source};
use crate::schedule::Schedule;
use crate::stats::ChannelStats;
use crate::{LossCause, Side, Transmission};

/// What a serial line takes at once: this much line time, and one octet at least.
const QUANTUM: Duration = Duration::from_micros(20);

/// What a synchronous line carries while nothing is sent: it marks time with ones.
const FILL: u8 = 0xff;

/// The shortest pause that is filled: modems have buffers, so that a host that is a little late
/// doesn't tear its frames.
const FILL_AFTER: Duration = Duration::from_millis(50);

/// One direction: its transmitter, and what happens to what it sends.
///
/// Random streams are large, and most lines have none. They lie elsewhere, so that what each frame
/// meets is close together, from the beginning of a line of the processor's cache on.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Way {
    /// When the last octet has left.
    free: Instant,
    frame_octets_max: u32,
    /// `None` for frames.
    framing: Option<Framing>,
    burst: Burst,
    /// The last arrival that keeps its place.
    latest: Instant,
    delay: Duration,
    jitter: Option<Box<(u64, Stream)>>,
    loss: Loss,
    duplicate: Option<Box<Chance>>,
    reorder: Option<Box<(Chance, Duration)>>,
    bits: Option<Box<BitErrors>>,
    /// The bit time of the line after the last bit sent.
    slot: u64,
    schedule: Schedule,
    pub(crate) stats: ChannelStats,
}

impl Way {
    pub(crate) fn new(config: &LinkConfig, from: Side, name: &str, seed: u64) -> Self {
        let keys = config.direction(from);
        let source = Source {
            seed,
            link: name,
            way: match from {
                Side::A => "ab",
                Side::B => "ba",
            },
        };
        let framing = config.kind.framing();
        let schedule = Schedule::new(config, &keys);
        let length = |time: Option<strait_core::units::Time>| time.map_or(Duration::ZERO, |t| t.0);
        let jitter_ns = nanos(length(keys.jitter));
        let held = length(keys.reorder_delay);
        Self {
            framing,
            frame_octets_max: match framing {
                Some(_) => u32::MAX,
                None => keys
                    .frame_octets_max
                    .unwrap_or(LinkConfig::FRAME_OCTETS_MAX),
            },
            burst: Burst::new(schedule.rate(Instant::ZERO), Instant::ZERO),
            schedule,
            free: Instant::ZERO,
            slot: 0,
            delay: length(keys.delay),
            jitter: (jitter_ns > 0).then(|| Box::new((jitter_ns, source.stream("jitter")))),
            loss: Loss::new(&keys, &source),
            duplicate: Chance::new(keys.duplicate, &source, "duplicate").map(Box::new),
            reorder: Chance::new(keys.reorder, &source, "reorder")
                .map(|chance| Box::new((chance, held))),
            bits: BitErrors::new(keys.bit_errors, &source).map(Box::new),
            latest: Instant::ZERO,
            stats: ChannelStats::default(),
        }
    }

    /// Ends everything that is left to chance.
    pub(crate) fn heal(&mut self) {
        self.jitter = None;
        self.loss = Loss::Never;
        self.duplicate = None;
        self.reorder = None;
        self.bits = None;
    }

    /// When the transmitter is done.
    pub(crate) const fn free(&self) -> Instant {
        self.free
    }

    /// One-way propagation.
    pub(crate) const fn delay(&self) -> Duration {
        self.delay
    }

    pub(crate) const fn frame_octets_max(&self) -> u32 {
        self.frame_octets_max
    }

    /// The longest time to arrival of what isn't held back.
    pub(crate) fn latency(&self) -> Duration {
        let jitter = self.jitter.as_ref().map_or(0, |jitter| jitter.0);
        self.delay.saturating_add(Duration::from_nanos(jitter))
    }

    pub(crate) fn rate(&self, now: Instant) -> LineRate {
        self.schedule.rate(now)
    }

    pub(crate) fn next_change(&self, now: Instant) -> Option<Instant> {
        self.schedule.next_change(now)
    }

    /// Octets that the idle transmitter takes at `now`.
    pub(crate) fn quantum(&self, now: Instant) -> usize {
        if self.framing.is_none() {
            return self.frame_octets_max as usize;
        }
        self.rate(now).octets_in(QUANTUM).max(1) as usize
    }

    /// Sends `octets`, the first of which leaves at `starts`, not before [`Way::free`].
    pub(crate) fn send(&mut self, starts: Instant, octets: &mut [u8]) -> Transmission {
        let rested = self.stats.frames == 0 || starts.since(self.free) >= FILL_AFTER;
        let (frame, first_slot) = (self.stats.frames, self.place(starts, octets.len()));
        let ends = self.burst.push(starts, octets.len() as u64);
        self.free = ends;
        self.stats.frames += 1;
        self.stats.octets += octets.len() as u64;
        self.stats.busy_ns += nanos(ends.since(starts));
        let mut sent = Transmission {
            starts,
            ends,
            arrival: None,
            duplicate: None,
            lost: self.loss(frame, starts, ends),
            corrupted_bits: 0,
            fill: (rested && self.framing == Some(Framing::Sync)).then_some(FILL),
        };
        if let Some(cause) = sent.lost {
            self.stats.count_loss(cause, octets.len() as u64);
            return sent;
        }
        sent.corrupted_bits = self.corrupt(first_slot, octets);
        let arrival = self.arrival(frame, ends);
        sent.arrival = Some(arrival);
        if self
            .duplicate
            .as_mut()
            .is_some_and(|chance| chance.happens(frame))
        {
            self.stats.duplicated += 1;
            sent.duplicate = Some(arrival);
        }
        sent
    }

    /// Takes over a rate that has changed, and tells the bit time of the line at which a
    /// transmission begins. Back to back, bit times are counted, not computed from rounded times:
    /// then the pieces in which octets are sent make no difference.
    fn place(&mut self, starts: Instant, octets: usize) -> u64 {
        let rate = self.schedule.rate(starts);
        let goes_on = starts == self.free && rate == self.burst.rate();
        self.burst.set_rate(rate);
        if self.bits.is_none() {
            return 0;
        }
        if !goes_on {
            self.slot = self.schedule.slot(starts);
        }
        let first = self.slot;
        let bits = octets as u64 * u64::from(rate.bits_per_octet());
        self.slot = first.saturating_add(bits);
        first
    }

    fn loss(&mut self, frame: u64, starts: Instant, ends: Instant) -> Option<LossCause> {
        // The chain of states moves with each frame, also one that an outage swallows.
        let chance = self.loss.draw(frame);
        let out = self.schedule.out(starts, ends);
        if out { Some(LossCause::Outage) } else { chance }
    }

    fn arrival(&mut self, frame: u64, ends: Instant) -> Instant {
        let mut arrival = ends + self.delay;
        if let Some((jitter_ns, stream)) = self.jitter.as_deref_mut() {
            // The high half of the product: uniform in 0 … jitter, both included.
            let extra = u128::from(stream.at(frame)) * (u128::from(*jitter_ns) + 1);
            arrival += Duration::from_nanos((extra >> 64) as u64);
        }
        if let Some((chance, held)) = self.reorder.as_deref_mut()
            && chance.happens(frame)
        {
            self.stats.reordered += 1;
            return arrival.max(self.latest) + *held;
        }
        self.latest = self.latest.max(arrival);
        self.latest
    }

    /// Inverts the bits of the line that are in error and counts them.
    ///
    /// On a serial line a hit on a start or stop bit garbles the octet: all its bits are inverted.
    /// (A receiver that lost its place on the line reads something else; what it reads depends on
    /// its neighbours, that it is wrong doesn't.) A hit on a parity bit changes nothing: receivers
    /// as operating systems set them up don't check parity. Bits above the data bits don't pass.
    fn corrupt(&mut self, first_slot: u64, octets: &mut [u8]) -> u32 {
        let mask = match self.framing {
            Some(framing) => (0xffu16 >> (8 - framing.data_bits())) as u8,
            None => 0xff,
        };
        if mask != 0xff {
            octets.iter_mut().for_each(|octet| *octet &= mask);
        }
        let Some(errors) = &mut self.bits else {
            return 0;
        };
        let bits_per_octet = u64::from(self.burst.rate().bits_per_octet());
        let (mut from, mut count, mut garbled) = (first_slot, 0u32, None);
        while let Some(slot) = errors.first(from, self.slot) {
            from = slot + 1;
            count += 1;
            let index = ((slot - first_slot) / bits_per_octet) as usize;
            let place = ((slot - first_slot) % bits_per_octet) as u8;
            let Some(octet) = octets.get_mut(index) else {
                break;
            };
            match self
                .framing
                .map_or(Hit::Data(7 - place % 8), |framing| Hit::on(framing, place))
            {
                Hit::Data(bit) => *octet ^= 1 << bit,
                Hit::Parity => {}
                Hit::Frame if garbled == Some(index) => {}
                Hit::Frame => {
                    *octet ^= mask;
                    garbled = Some(index);
                }
            }
        }
        if count > 0 {
            self.stats.corrupted_frames += 1;
            self.stats.corrupted_bits += u64::from(count);
        }
        count
    }
}
