//! A station: its modem's transmitter, what reaches its receiver, and what it has been told.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::vec::Vec;
use core::iter;

use strait_core::chance::Stream;
use strait_core::id::Neighbours;
use strait_core::node::{Notice, PortState, Room, Turn};
use strait_core::time::{Duration, Instant};
use strait_core::waveform::Mode;

use super::config::{KeyedBy, Modem};
use super::{Power, Reach};
use crate::{LossCause, Side};

/// What a station counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StationStats {
    /// Times that it keyed up.
    pub turns: u64,
    /// Blocks that it sent.
    pub blocks: u64,
    /// Octets of planned blocks that nobody wrote and that went as zeros, at the end of a turn and
    /// because they came late.
    pub filled_octets: u64,
    /// Octets that came when there was no room for them.
    pub refused_octets: u64,
    /// Transmissions of others that it heard and that met another one, or its own.
    pub collisions: u64,
}

/// A transmission under way.
#[derive(Clone, Debug)]
struct Keyed {
    keying: u64,
    at: Instant,
    /// When its power comes on, and then whether it has.
    power_at: Instant,
    power: bool,
    /// When its first block begins.
    data: Instant,
    mode: Mode,
    /// Its planned length, unless it lasts as long as octets come.
    blocks: Option<u32>,
    /// Octets so far, those of blocks that have begun and `waiting` ones.
    octets: u64,
    waiting: VecDeque<u8>,
    /// Blocks that have begun.
    begun: u32,
    /// No more octets come.
    closed: bool,
}

/// Another station's transmission, as it reaches this one.
#[derive(Clone, Copy, Debug)]
struct Reception {
    power: bool,
    decode: Duration,
    /// From when on it isn't understood.
    lost: Option<(Instant, LossCause)>,
}

/// When a transmission that has just been keyed is on the air.
pub(super) struct KeyedUp {
    pub(super) power: Instant,
    pub(super) data: Instant,
}

/// A transmission that was cut off.
pub(super) struct Cut {
    pub(super) keying: u64,
    /// Its power was on.
    pub(super) power: bool,
    /// After this, nothing of it is under way any more: the block that it ended in, and decoding.
    pub(super) over: Duration,
}

/// A block that has begun.
pub(super) struct Begun {
    pub(super) octets: Vec<u8>,
    pub(super) ends: Instant,
    /// Its place in line time.
    pub(super) first_bit: u64,
    pub(super) decode: Duration,
    pub(super) mode: Mode,
    /// When the power goes off, if no other block follows.
    pub(super) over: Option<Instant>,
}

/// A station.
#[derive(Clone, Debug)]
pub(super) struct Station {
    modem: Modem,
    paths: Vec<(usize, Side)>,
    reach: Reach,
    keyed: Option<Keyed>,
    receptions: BTreeMap<u64, Reception>,
    /// The waveform of the one that began last.
    heard: Option<Mode>,
    /// Decoding of the transmission that ended last.
    tail: Duration,
    /// Whether there is power, and how often that changed.
    sensed: (bool, u64),
    carrier: bool,
    /// Keyed by data: it begins no turn before.
    not_before: Instant,
    waits: Stream,
    pub(super) stats: StationStats,
}

impl Station {
    /// How long a node may take to write the blocks before the start.
    const GATHERING: Duration = Duration::from_millis(10);

    pub(super) fn new(modem: Modem, name: &str, seed: u64) -> Self {
        Self {
            modem,
            paths: Vec::new(),
            reach: Reach::default(),
            keyed: None,
            receptions: BTreeMap::new(),
            heard: None,
            tail: Duration::ZERO,
            sensed: (false, 0),
            carrier: false,
            not_before: Instant::ZERO,
            waits: Stream::new(seed, &format!("channel.{name}.waits")),
            stats: StationStats::default(),
        }
    }

    pub(super) fn join(&mut self, path: usize, side: Side, delay: Duration) {
        self.paths.push((path, side));
        self.reach.others += 1;
        self.reach.delay = self.reach.delay.max(delay);
    }

    /// Its paths, and which end of each it is.
    pub(super) fn paths(&self) -> &[(usize, Side)] {
        &self.paths
    }

    pub(super) const fn heard(&self) -> Option<Mode> {
        self.heard
    }

    pub(super) const fn carrier(&self) -> bool {
        self.carrier
    }

    pub(super) fn state(&self) -> PortState {
        let mode = self.modem.waveform.mode;
        let octets = mode.octets_in(self.modem.blocks_max(mode));
        PortState {
            tx_rate: mode.line_rate(),
            rx_rate: mode.line_rate(),
            frame_octets_max: u32::try_from(octets).unwrap_or(u32::MAX),
            block: mode.block(),
            latency: self.reach.delay + self.modem.decode(mode),
            notice: self.notice(),
        }
    }

    pub(super) fn room(&self, now: Instant) -> Result<Room, Option<Instant>> {
        match &self.keyed {
            Some(keyed) => self.room_in_turn(now, keyed),
            None => self.room_to_begin(now),
        }
    }

    fn room_to_begin(&self, now: Instant) -> Result<Room, Option<Instant>> {
        let starts = now + self.modem.turnaround + self.modem.preamble;
        let mode = self.modem.waveform.mode;
        let octets = match self.modem.keyed_by {
            KeyedBy::Node => mode.octets_in(self.modem.blocks_max(mode)),
            KeyedBy::Data if self.carrier => return Err(None),
            KeyedBy::Data if now < self.not_before => return Err(Some(self.not_before)),
            // Enough to key up by. The others are taken when their block is near.
            KeyedBy::Data => 1,
        };
        Ok(Room {
            octets,
            starts,
            until: None,
            to: Neighbours::ALL,
        })
    }

    fn room_in_turn(&self, now: Instant, keyed: &Keyed) -> Result<Room, Option<Instant>> {
        let at = |bits: u64| keyed.data + keyed.mode.time_of_bits(bits);
        let block_bits = u64::from(keyed.mode.block_bits);
        let taken = self.taken(now, keyed);
        let block = taken * 8 / block_bits;
        let limit = self.limit(keyed);
        if keyed.closed || taken >= limit {
            return Err(None);
        }
        let load = at(block * block_bits) - self.modem.lead;
        if now < load && block >= self.blocks_before_start(keyed) {
            return Err(Some(load));
        }
        let end = match keyed.blocks {
            Some(_) => limit,
            None => limit.min((block + 1) * block_bits / 8),
        };
        let octets = end.saturating_sub(taken).max(1) as usize;
        let until = keyed
            .blocks
            .map(|blocks| at(u64::from(blocks) * block_bits));
        Ok(Room {
            octets,
            starts: at(taken * 8),
            until,
            to: Neighbours::ALL,
        })
    }

    /// Blocks of a turn that its modem has before it starts.
    fn blocks_before_start(&self, keyed: &Keyed) -> u64 {
        let blocks = keyed.blocks.unwrap_or(0);
        blocks.min(self.modem.start_blocks).into()
    }

    /// Octets of a turn that are settled: what nobody wrote of the blocks before the start goes as
    /// zeros.
    fn taken(&self, now: Instant, keyed: &Keyed) -> u64 {
        if now < keyed.data.min(keyed.at + Self::GATHERING) {
            return keyed.octets;
        }
        let bits = self.blocks_before_start(keyed) * u64::from(keyed.mode.block_bits);
        keyed.octets.max(bits / 8)
    }

    /// Octets that a turn has room for.
    fn limit(&self, keyed: &Keyed) -> u64 {
        let blocks = keyed
            .blocks
            .unwrap_or_else(|| self.modem.blocks_max(keyed.mode));
        keyed.mode.octets_in(blocks) as u64
    }

    /// Takes octets. Says when they are on the air, if they key the transmitter.
    pub(super) fn send(
        &mut self,
        now: Instant,
        turn: Option<Turn>,
        octets: &[u8],
        keying: u64,
    ) -> Option<KeyedUp> {
        let begins = self.keyed.is_none();
        if begins {
            self.key_up(now, turn, octets.len(), keying)?;
        }
        let mut keyed = self.keyed.take()?;
        let missing = self.taken(now, &keyed) - keyed.octets;
        keyed.waiting.extend(iter::repeat_n(0, missing as usize));
        keyed.octets += missing;
        self.stats.filled_octets += missing;
        let again = !begins && turn.is_some_and(|turn| turn.key_up);
        let closed = keyed.closed && !begins;
        let room = match again || closed {
            true => 0,
            false => self.limit(&keyed).saturating_sub(keyed.octets),
        };
        let taken = octets
            .len()
            .min(usize::try_from(room).unwrap_or(usize::MAX));
        keyed.waiting.extend(&octets[..taken]);
        keyed.octets += taken as u64;
        keyed.closed |= !again && turn.is_some_and(|turn| turn.last);
        self.stats.refused_octets += (octets.len() - taken) as u64;
        let up = KeyedUp {
            power: keyed.power_at,
            data: keyed.data,
        };
        self.keyed = Some(keyed);
        begins.then_some(up)
    }

    fn key_up(
        &mut self,
        now: Instant,
        turn: Option<Turn>,
        octets: usize,
        keying: u64,
    ) -> Option<()> {
        let own = self.modem.waveform.mode;
        let asked = turn.and_then(|turn| turn.mode);
        let mode = asked
            .filter(|mode| mode.block_bits > 0 && mode.rate_bit_s > 0)
            .unwrap_or(own);
        let planned = match (turn, self.modem.keyed_by) {
            (Some(turn), _) => (turn.blocks > 0).then_some(turn.blocks),
            (None, KeyedBy::Node) => Some(mode.blocks_for(octets)),
            (None, KeyedBy::Data) if octets == 0 => return None,
            (None, KeyedBy::Data) => None,
        };
        let power_at = now + self.modem.turnaround;
        self.keyed = Some(Keyed {
            keying,
            at: now,
            power_at,
            power: false,
            data: power_at + self.modem.preamble,
            mode,
            blocks: planned.map(|blocks| blocks.clamp(1, self.modem.blocks_max(mode))),
            octets: 0,
            waiting: VecDeque::new(),
            begun: 0,
            closed: turn.is_none() && planned.is_some(),
        });
        self.stats.turns += 1;
        // Its radio doesn't listen any more.
        self.spoil_all(now);
        Some(())
    }

    /// The power comes on.
    pub(super) fn power_on(&mut self, keying: u64) -> Option<Power> {
        let keyed = self.keyed.as_mut().filter(|keyed| keyed.keying == keying)?;
        keyed.power = true;
        let (data, mode) = (keyed.data, keyed.mode);
        let decode = self.modem.decode(mode);
        Some(Power { data, decode, mode })
    }

    /// Fixes what the next block carries.
    pub(super) fn begin_block(&mut self, keying: u64) -> Option<Begun> {
        let blocks_max = self.modem.blocks_max(self.keyed.as_ref()?.mode);
        let keyed = self.keyed.as_mut().filter(|keyed| keyed.keying == keying)?;
        let (mode, block) = (keyed.mode, keyed.begun);
        let first = mode.octets_in(block);
        let count = mode.octets_in(block + 1) - first;
        let there = count.min(keyed.waiting.len());
        let mut octets: Vec<u8> = keyed.waiting.drain(..there).collect();
        let at = |bits: u64| keyed.data + mode.time_of_bits(bits);
        let block_bits = u64::from(mode.block_bits);
        keyed.begun += 1;
        let last = match keyed.blocks {
            Some(blocks) => keyed.begun >= blocks,
            None => {
                let all = keyed.closed && keyed.waiting.is_empty();
                there < count || keyed.begun >= blocks_max || all
            }
        };
        let missing = count - there;
        // A receiver that finds the mark of the end leaves out what follows.
        let marked = keyed.closed && self.modem.end_bits > 0;
        if keyed.blocks.is_some() && missing > 0 {
            self.stats.filled_octets += missing as u64;
            if !marked {
                keyed.octets = keyed.octets.max((first + count) as u64);
                octets.resize(count, 0);
            }
        }
        let empty = keyed.blocks.is_none() && there == 0;
        self.stats.blocks += u64::from(!empty);
        let over = last.then(|| {
            keyed.closed = true;
            let sent = u64::from(keyed.begun - u32::from(empty)) * block_bits;
            let told = keyed.octets * 8 + u64::from(self.modem.end_bits);
            at(sent.max(told.div_ceil(block_bits) * block_bits))
        });
        let line_bits = u128::from(keyed.data.as_nanos()) * u128::from(mode.rate_bit_s);
        Some(Begun {
            octets,
            ends: at(u64::from(block + 1) * block_bits),
            first_bit: (line_bits / 1_000_000_000) as u64 + first as u64 * 8,
            decode: self.modem.decode(mode),
            mode,
            over,
        })
    }

    /// The power goes off; returns how long it was on, and how long its blocks take to decode.
    pub(super) fn power_off(&mut self, now: Instant, keying: u64) -> Option<(Duration, Duration)> {
        let keyed = self.keyed.take_if(|keyed| keyed.keying == keying)?;
        let slot = self.notice().begin;
        let slots = self.reach.others + self.waits.below(self.reach.others + 1);
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        let decode = self.modem.decode(keyed.mode);
        let told = self.modem.carrier_detect.max(decode);
        self.not_before = now + told + slot.saturating_mul(slots);
        Some((now.since(keyed.power_at), decode))
    }

    /// Ends what is under way.
    pub(super) fn cut(&mut self) -> Option<Cut> {
        let keyed = self.keyed.take()?;
        Some(Cut {
            keying: keyed.keying,
            power: keyed.power,
            over: keyed.mode.block() + self.modem.decode(keyed.mode),
        })
    }

    /// When the others notice what this station does.
    fn notice(&self) -> Notice {
        Notice::of(
            self.modem.turnaround,
            self.modem.carrier_detect,
            self.reach.delay,
        )
    }

    /// Another station's power reaches this one.
    pub(super) fn rises(
        &mut self,
        now: Instant,
        keying: u64,
        power: Power,
        lost: Option<LossCause>,
    ) {
        self.heard = Some(power.mode);
        let met = self.keyed.is_some() || self.powers() > 0;
        if met {
            self.stats.collisions += 1;
            self.spoil_all(now);
        }
        let lost = met.then_some(LossCause::Collision).or(lost);
        let reception = Reception {
            power: true,
            decode: power.decode,
            lost: lost.map(|cause| (now, cause)),
        };
        self.receptions.insert(keying, reception);
    }

    /// It is gone.
    pub(super) fn falls(&mut self, keying: u64) {
        if let Some(reception) = self.receptions.get_mut(&keying) {
            reception.power = false;
            self.tail = reception.decode;
        }
    }

    /// Nothing more of it is under way.
    pub(super) fn forget(&mut self, keying: u64) {
        self.receptions.remove(&keying);
    }

    /// One transmission isn't understood from a moment on.
    pub(super) fn spoil(&mut self, keying: u64, from: Instant, cause: LossCause) {
        if let Some(reception) = self.receptions.get_mut(&keying)
            && reception.lost.is_none_or(|(at, _)| from < at)
        {
            reception.lost = Some((from, cause));
        }
    }

    /// None of those whose power is here is understood any more.
    fn spoil_all(&mut self, now: Instant) {
        let here = self
            .receptions
            .values_mut()
            .filter(|reception| reception.power);
        for reception in here {
            if reception.lost.is_none() {
                self.stats.collisions += 1;
                reception.lost = Some((now, LossCause::Collision));
            }
        }
    }

    /// Why a block that was there at `ends` wasn't understood.
    pub(super) fn lost(&self, keying: u64, ends: Instant) -> Option<LossCause> {
        let reception = self.receptions.get(&keying)?;
        let (at, cause) = reception.lost?;
        (at < ends).then_some(cause)
    }

    fn powers(&self) -> usize {
        self.receptions
            .values()
            .filter(|reception| reception.power)
            .count()
    }

    /// Looks whether there is power. If that has changed, says after what time the modem notices,
    /// and the number of the change. It says that power is gone once the last octets are out.
    pub(super) fn sense(&mut self) -> Option<(Duration, u64)> {
        let power = self.keyed.is_none() && self.powers() > 0;
        if power == self.sensed.0 {
            return None;
        }
        self.sensed = (power, self.sensed.1 + 1);
        let detect = self.modem.carrier_detect;
        let after = if power { detect } else { detect.max(self.tail) };
        Some((after, self.sensed.1))
    }

    /// The modem notices power or silence that has lasted since the change with this number.
    pub(super) fn detect(&mut self, now: Instant, change: u64) -> Option<bool> {
        let (power, last) = self.sensed;
        if change != last || power == self.carrier {
            return None;
        }
        self.carrier = power;
        if !power && self.keyed.is_none() {
            let slots = self.waits.below(self.reach.others);
            let slots = u32::try_from(slots).unwrap_or(u32::MAX);
            let wait = self.notice().begin.saturating_mul(slots);
            self.not_before = self.not_before.max(now + wait);
        }
        Some(power)
    }
}
