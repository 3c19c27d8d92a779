//! Another's transmission while it is heard.

use strait_core::node::FrameMeta;

use crate::stream::Finder;

/// The knowledge of the received transmission.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    finder: Finder,
    who: Who,
    /// Signal-to-noise ratios of its blocks: their sum in hundredths of a decibel, and how many.
    snr: (i32, i32),
    /// Its rate, if the modem reports it.
    bit_s: Option<u32>,
}

/// The sender of a transmission.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Who {
    /// The peer that makes it.
    pub(super) speaker: Option<usize>,
    /// The peer that addresses this station in it.
    pub(super) spoke: Option<usize>,
}

/// A transmission that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Over {
    pub(super) who: Who,
    /// Its mean signal-to-noise ratio, in hundredths of a decibel.
    pub(super) snr_centi_db: Option<i32>,
    pub(super) bit_s: Option<u32>,
}

impl Hearing {
    /// One begins.
    pub(super) fn begin(&mut self) {
        (self.finder, self.who) = (Finder::default(), Who::default());
    }

    /// The reader of its D_PDUs, until [`Hearing::go_on`].
    pub(super) fn finder(&mut self) -> Finder {
        core::mem::take(&mut self.finder)
    }

    pub(super) fn go_on(&mut self, finder: Finder) {
        self.finder = finder;
    }

    /// The modem's knowledge of the next octets.
    pub(super) fn measure(&mut self, meta: FrameMeta) {
        if let Some(snr_centi_db) = meta.snr_centi_db {
            let (sum, count) = &mut self.snr;
            *sum = sum.saturating_add(i32::from(snr_centi_db));
            *count += 1;
        }
        self.bit_s = meta.rate_bit_s.or(self.bit_s);
    }

    /// The peer at a place sends it, unless another does.
    pub(super) fn note_speaker(&mut self, place: Option<usize>) {
        self.who.speaker = self.who.speaker.or(place);
    }

    /// The peer at a place addresses this station.
    pub(super) const fn note_spoke(&mut self, place: usize) {
        self.who.spoke = Some(place);
    }

    /// A place is another's from now on.
    pub(super) fn forget(&mut self, place: usize) {
        for number in [&mut self.who.speaker, &mut self.who.spoke] {
            number.take_if(|number| *number == place);
        }
    }

    /// It is over.
    pub(super) fn end(&mut self) -> Over {
        let (sum, count) = core::mem::take(&mut self.snr);
        Over {
            who: core::mem::take(&mut self.who),
            snr_centi_db: sum.checked_div(count),
            bit_s: self.bit_s.take(),
        }
    }
}
