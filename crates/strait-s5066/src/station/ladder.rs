//! The rates between which a station may choose, and the medium's own: how long octets take.

use strait_core::Duration;
use strait_core::node::PortState;
use strait_core::rate::LineRate;
use strait_core::waveform::{Mode, Waveform};

use super::settings::Settings;
use super::transmission::EOT_MAX;
use crate::eow::{CAN_ADAPT, Eow, HAS_110A, HAS_HIGH_RATES};
use crate::rate::Adapt;

/// A segment lasts no longer than this where the rate changes: a fade ends it, and one that rises
/// finds it on its way.
const SEGMENT_TIME: Duration = Duration::from_secs(5);

/// An answer without data may last as long as this, by a slower and safer rate.
const SHORT: Duration = Duration::from_millis(700);

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
            None => whole_octets(self.rate, self.block * blocks),
        }
    }

    /// Blocks that hold so many octets.
    pub(super) fn blocks_for(&self, octets: usize) -> u32 {
        if let Some(mode) = self.mode {
            return mode.blocks_for(octets);
        }
        self.blocks_in(self.rate.time_for(octets as u64))
    }

    /// Blocks that last as long as a time, at least.
    pub(super) fn blocks_in(&self, time: Duration) -> u32 {
        let blocks = time.as_nanos().div_ceil(self.block.as_nanos().max(1));
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    /// Blocks that fit into a time.
    pub(super) fn whole_blocks(&self, time: Duration) -> u32 {
        let blocks = time.as_nanos() / self.block.as_nanos().max(1);
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    /// How long some blocks last.
    pub(super) fn time_of(&self, blocks: u32) -> Duration {
        match self.mode {
            Some(mode) => mode.time_of_bits(u64::from(mode.block_bits) * u64::from(blocks)),
            None => self.block * blocks,
        }
    }
}

fn whole_octets(rate: LineRate, time: Duration) -> usize {
    usize::try_from(rate.octets_in(time)).unwrap_or(usize::MAX)
}

/// The rates of a station, by their places.
#[derive(Debug)]
pub(super) struct Ladder {
    adapt: Option<Adapt>,
    /// The medium's own, while it is there.
    own: Option<PortState>,
    turn_max: Duration,
    /// The longest turn that others ask for.
    turn_told: Option<Duration>,
    segment_octets_max: usize,
}

impl Ladder {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            adapt: settings.adapt.clone(),
            own: None,
            turn_max: settings.turn_max,
            turn_told: None,
            segment_octets_max: settings.segment_octets_max,
        }
    }

    /// The medium is there, or gone.
    pub(super) const fn set_medium(&mut self, own: Option<PortState>) {
        self.own = own;
    }

    /// Others ask for turns of so long at most, or ask for nothing.
    pub(super) const fn tell_turn(&mut self, most: Option<Duration>) {
        self.turn_told = most;
    }

    /// The longest turn, by the station's own settings and by others' requests.
    pub(super) fn turn(&self) -> Duration {
        let told = self.turn_told.unwrap_or(self.turn_max);
        told.min(self.turn_max)
    }

    #[cfg(test)]
    pub(super) const fn configure(&mut self, settings: &Settings) {
        self.turn_max = settings.turn_max;
    }

    #[cfg(test)]
    pub(super) const fn medium(&self) -> Option<PortState> {
        self.own
    }

    /// How rates change, if they do.
    pub(super) const fn adapt(&self) -> Option<&Adapt> {
        self.adapt.as_ref()
    }

    fn waveforms(&self) -> impl Iterator<Item = &Waveform> {
        self.adapt.iter().flat_map(|adapt| &adapt.ladder)
    }

    /// The medium's own rate.
    fn own_pace(&self) -> Pace {
        let none = Pace {
            rate: LineRate::new(0, 8),
            block: Duration::ZERO,
            mode: None,
        };
        self.own.map_or(none, Pace::own)
    }

    /// The place of the medium's own rate.
    pub(super) fn own_place(&self) -> usize {
        let bit_s = u32::try_from(self.own_pace().bit_s()).unwrap_or(u32::MAX);
        self.adapt().map_or(0, |adapt| adapt.place(bit_s))
    }

    /// The rate of a place; the medium's own where rates don't change.
    pub(super) fn pace(&self, place: usize) -> Pace {
        let waveform = self.waveforms().nth(place);
        waveform.map_or_else(|| self.own_pace(), |waveform| Pace::of(*waveform))
    }

    /// How long octets take that the modem is given ahead of time.
    pub(super) fn time_ahead(&self, octets: usize) -> Duration {
        let own = self.own;
        own.map_or(Duration::ZERO, |own| own.tx_rate.time_for(octets as u64))
    }

    /// The place of a transmission of so many octets: the slowest, and therefore the safest, by
    /// which it isn't longer than by the place in use. One without data may last a little longer,
    /// and goes no faster than the transmission that it answers, if that is known: both have the
    /// same path.
    pub(super) fn safest(
        &self,
        place: usize,
        octets: usize,
        answers: Option<Option<u32>>,
    ) -> usize {
        let Some(adapt) = self.adapt() else {
            return place;
        };
        let lasts = |pace: &Pace| pace.time_of(pace.blocks_for(octets).max(1)) + pace.block;
        let (mut fastest, mut most) = (place, lasts(&self.pace(place)));
        if let Some(heard_bit_s) = answers {
            fastest = heard_bit_s.map_or(place, |heard| adapt.place(heard));
            most = (lasts(&self.pace(fastest)) * 8 / 5).max(SHORT * 2);
        }
        let mut slower = 0..fastest;
        let fits = |place: &usize| lasts(&self.pace(*place)) <= most;
        slower.find(fits).unwrap_or(fastest)
    }

    /// The lowest place by whose rate a segment with so many octets around it fits into a
    /// transmission: by a lower one it would never go.
    pub(super) fn least(&self, segment: usize, around: usize) -> usize {
        let mut places = 0..self.waveforms().count();
        let fits = |place: &usize| segment <= self.octets_at(*place, around);
        places.find(fits).unwrap_or_default()
    }

    /// The longest segment that fits into a transmission by the rate of a place.
    pub(super) fn octets_at(&self, place: usize, around: usize) -> usize {
        let pace = self.pace(place);
        let blocks = pace.whole_blocks(self.turn_max.min(EOT_MAX)).max(1);
        pace.octets_in(blocks).saturating_sub(around)
    }

    /// The longest segment that goes by the rate of a place.
    pub(super) fn segment_octets(&self, place: usize, around: usize) -> usize {
        let pace = self.pace(place);
        let fits = whole_octets(pace.rate, self.turn().saturating_sub(pace.block));
        let most = fits.saturating_sub(around).max(1);
        let most = most.min(self.segment_octets_max);
        match self.adapt {
            Some(_) => most.min(whole_octets(pace.rate, SEGMENT_TIME)),
            None => most,
        }
    }

    /// How much longer than the medium's own the longest block is that another may answer by.
    pub(super) fn slower_block(&self) -> Duration {
        let longest = self.waveforms().map(|it| it.mode.block()).max();
        let longest = longest.unwrap_or_default();
        longest.saturating_sub(self.own.map_or(longest, |own| own.block))
    }

    /// From the end of a block to its octets at the others.
    pub(super) fn latency(&self) -> Duration {
        self.own.map_or(Duration::ZERO, |own| own.latency)
    }

    /// From the end of a transmission's last block, by the rate of a place, to its octets at the
    /// others.
    pub(super) fn latency_at(&self, place: usize) -> Duration {
        let own = self.own.map_or(Duration::ZERO, |own| own.block);
        (self.latency() + self.pace(place).block).saturating_sub(own)
    }

    /// The order wire of a link's D_PDU.
    pub(super) fn capability(&self) -> u16 {
        let Some(adapt) = &self.adapt else {
            return 0;
        };
        let mut bits = CAN_ADAPT;
        if adapt.waveform == 0 {
            bits |= HAS_110A;
        }
        if self.waveforms().any(|it| it.mode.rate_bit_s > 2400) {
            bits |= HAS_HIGH_RATES;
        }
        Eow::Capability(bits).bits()
    }
}
