//! What a link file must say, and what its keys exclude.

use core::fmt;

use strait_core::time::Duration;
use strait_core::units::Share;

use crate::Side;
use crate::config::{Direction, LinkConfig, LinkKind};

/// Why a link file describes no medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// A key is missing.
    #[error("`{key}` is missing: {remedy}")]
    Missing {
        /// Which.
        key: Key,
        /// What to write.
        remedy: &'static str,
    },
    /// A key stands beside others that exclude it.
    #[error("`{key}` does not belong here: {remedy}")]
    Excluded {
        /// Which.
        key: Key,
        /// What to write instead.
        remedy: &'static str,
    },
    /// A value is out of range.
    #[error("`{key}` has no possible value: {remedy}")]
    Value {
        /// Which.
        key: Key,
        /// What it may be.
        remedy: &'static str,
    },
}

/// A key of the link file, with its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Whether it stands in, or was overridden by, `[reverse]`.
    pub reverse: bool,
    /// Its name.
    pub name: &'static str,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = if self.reverse { "reverse." } else { "" };
        write!(f, "{table}{}", self.name)
    }
}

impl LinkConfig {
    /// Checks what the types of the keys can't say.
    ///
    /// # Errors
    /// The first key that is missing, excluded by others or out of range, with its remedy.
    pub fn validate(&self) -> Result<(), LinkError> {
        self.validate_medium()?;
        for from in Side::BOTH {
            let at = Place {
                reverse: from == Side::B,
            };
            let way = self.direction(from);
            match self.kind {
                LinkKind::Serial => at.serial(&way)?,
                LinkKind::Frames => at.frames(&way)?,
                LinkKind::Hf => at.hf(&way)?,
            }
            let noise = "it is for kind = \"hf\"";
            at.exclude("snr", way.snr.is_some() && self.kind != LinkKind::Hf, noise)?;
            at.probabilities(&way)?;
            at.schedule(self.kind, &way)?;
        }
        Ok(())
    }

    /// Keys of the medium as a whole.
    fn validate_medium(&self) -> Result<(), LinkError> {
        let at = Place { reverse: false };
        match (self.kind, self.framing) {
            (LinkKind::Serial, None) => {
                return at.missing("framing", "write framing = \"8N1\"");
            }
            (LinkKind::Frames | LinkKind::Hf, Some(_)) => {
                return at.excluded("framing", "only kind = \"serial\" has start and stop bits");
            }
            _ => {}
        }
        if !self.half_duplex {
            let remedy = "it is for half_duplex = true";
            at.exclude("turnaround", self.turnaround.is_some(), remedy)?;
            at.exclude("turn_max", self.turn_max.is_some(), remedy)?;
        }
        match (self.kind, &self.hf) {
            (LinkKind::Hf, None) => at.missing("hf", "write the table [hf], which may be empty"),
            (LinkKind::Hf, Some(hf)) => {
                let remedy = "an HF channel is always half duplex; see `hf.turnaround`";
                at.exclude("half_duplex", self.half_duplex, remedy)?;
                hf.validate(self)
            }
            (_, Some(_)) => at.excluded("hf", "it is for kind = \"hf\""),
            (_, None) => Ok(()),
        }
    }
}

/// The direction whose keys are looked at.
#[derive(Clone, Copy)]
struct Place {
    reverse: bool,
}

impl Place {
    pub(crate) const fn key(self, name: &'static str) -> Key {
        let reverse = self.reverse;
        Key { reverse, name }
    }

    const fn missing(self, name: &'static str, remedy: &'static str) -> Result<(), LinkError> {
        let key = self.key(name);
        Err(LinkError::Missing { key, remedy })
    }

    const fn excluded(self, name: &'static str, remedy: &'static str) -> Result<(), LinkError> {
        let key = self.key(name);
        Err(LinkError::Excluded { key, remedy })
    }

    const fn exclude(
        self,
        name: &'static str,
        present: bool,
        remedy: &'static str,
    ) -> Result<(), LinkError> {
        if present {
            self.excluded(name, remedy)
        } else {
            Ok(())
        }
    }

    const fn require(
        self,
        name: &'static str,
        possible: bool,
        remedy: &'static str,
    ) -> Result<(), LinkError> {
        if possible {
            return Ok(());
        }
        let key = self.key(name);
        Err(LinkError::Value { key, remedy })
    }

    fn serial(self, way: &Direction) -> Result<(), LinkError> {
        match way.baud {
            None => return self.missing("baud", "write the line's speed, like baud = 9600"),
            Some(baud) => self.require("baud", baud > 0, "it must be at least 1")?,
        }
        let rate = "a serial line has its speed in `baud`";
        self.exclude("rate", way.rate.is_some(), rate)?;
        let stream = "a serial line keeps the order and spacing of its octets; \
                      kind = \"frames\" has this key";
        self.exclude("frame_octets_max", way.frame_octets_max.is_some(), stream)?;
        self.exclude("jitter", way.jitter.is_some(), stream)?;
        self.exclude("duplicate", way.duplicate.is_some(), stream)?;
        self.exclude("reorder", way.reorder.is_some(), stream)?;
        self.exclude("reorder_delay", way.reorder_delay.is_some(), stream)?;
        let loss = "a serial line has no frames to lose; use `bit_errors` or `[[outage]]`";
        self.exclude("loss", way.loss.is_some(), loss)?;
        self.exclude("burst_loss", way.burst_loss.is_some(), loss)
    }

    fn frames(self, way: &Direction) -> Result<(), LinkError> {
        if way.rate.is_none() {
            return self.missing("rate", "write the link's speed, like rate = \"64 kbit/s\"");
        }
        let baud = "a link for frames has its speed in `rate`";
        self.exclude("baud", way.baud.is_some(), baud)?;
        let both = "choose either `loss` or `[burst_loss]`";
        let two = way.loss.is_some() && way.burst_loss.is_some();
        self.exclude("burst_loss", two, both)?;
        if way.reorder.is_some() && way.reorder_delay.is_none() {
            let remedy = "write how long frames are held back, like reorder_delay = \"100 ms\"";
            return self.missing("reorder_delay", remedy);
        }
        let alone = way.reorder_delay.is_some() && way.reorder.is_none();
        let remedy = "write the share of frames as well, like reorder = \"1 %\"";
        self.exclude("reorder_delay", alone, remedy)?;
        let size = way.frame_octets_max != Some(0);
        self.require("frame_octets_max", size, "it must be at least 1")
    }

    fn hf(self, way: &Direction) -> Result<(), LinkError> {
        let rate = "an HF channel has its speed in `rate`";
        self.exclude("baud", way.baud.is_some(), rate)?;
        let blocks = "an HF channel carries blocks of octets; kind = \"frames\" has this key";
        self.exclude("frame_octets_max", way.frame_octets_max.is_some(), blocks)?;
        self.exclude("jitter", way.jitter.is_some(), blocks)?;
        self.exclude("queue", way.queue.is_some(), blocks)?;
        self.exclude("duplicate", way.duplicate.is_some(), blocks)?;
        self.exclude("reorder", way.reorder.is_some(), blocks)?;
        self.exclude("reorder_delay", way.reorder_delay.is_some(), blocks)?;
        self.exclude("loss", way.loss.is_some(), blocks)?;
        self.exclude("burst_loss", way.burst_loss.is_some(), blocks)?;
        let both = "choose either `bit_errors` or `snr`";
        self.exclude("snr", way.snr.is_some() && way.bit_errors.is_some(), both)?;
        let turn = "stations choose their rates turn by turn";
        self.exclude("change", way.change.is_some(), turn)
    }

    fn probabilities(self, way: &Direction) -> Result<(), LinkError> {
        // Text is checked as it is read; this is for configurations made by code.
        let range = "it must be between 0 and 1";
        let share = |name, share: Option<Share>| {
            let possible = share.is_none_or(|share| (0.0..=1.0).contains(&share.0));
            self.require(name, possible, range)
        };
        share("bit_errors", way.bit_errors)?;
        share("loss", way.loss)?;
        share("duplicate", way.duplicate)?;
        share("reorder", way.reorder)?;
        if let Some(burst) = way.burst_loss {
            share("burst_loss.enter", Some(burst.enter))?;
            share("burst_loss.leave", Some(burst.leave))?;
            share("burst_loss.loss_good", Some(burst.loss_good))?;
            share("burst_loss.loss_bad", Some(burst.loss_bad))?;
            let remedy = "it must be above 0, or the link never leaves the bad state";
            self.require("burst_loss.leave", burst.leave.0 > 0.0, remedy)?;
        }
        self.require("queue", way.queue != Some(0), "it must be at least 1")
    }

    fn schedule(self, kind: LinkKind, way: &Direction) -> Result<(), LinkError> {
        let mut free = Duration::ZERO;
        for outage in way.outage.iter().flatten() {
            let order = "outages stand in order and don't overlap";
            self.require("outage.at", outage.at.0 >= free, order)?;
            let lasts = outage.lasts.0 > Duration::ZERO;
            self.require("outage.lasts", lasts, "it must be above 0")?;
            free = outage.at.0.saturating_add(outage.lasts.0);
        }
        let mut last = Duration::ZERO;
        for change in way.change.iter().flatten() {
            let order = "changes stand in order, after the link's beginning";
            self.require("change.at", change.at.0 > last, order)?;
            last = change.at.0;
            self.change(kind, change)?;
        }
        Ok(())
    }

    fn change(self, kind: LinkKind, change: &crate::config::Change) -> Result<(), LinkError> {
        match (kind, change.baud, change.rate) {
            (LinkKind::Serial, Some(0), None) => self.require(
                "change.baud",
                false,
                "it must be at least 1; use `[[outage]]`",
            ),
            (LinkKind::Serial, Some(_), None)
            | (LinkKind::Frames | LinkKind::Hf, None, Some(_)) => Ok(()),
            (LinkKind::Serial, _, Some(_)) => {
                self.excluded("change.rate", "a serial line changes its `baud`")
            }
            (LinkKind::Serial, None, None) => {
                self.missing("change.baud", "write the new speed, like baud = 4800")
            }
            (LinkKind::Frames | LinkKind::Hf, Some(_), _) => {
                self.excluded("change.baud", "a link for frames changes its `rate`")
            }
            (LinkKind::Frames | LinkKind::Hf, None, None) => {
                let remedy = "write the new speed, like rate = \"32 kbit/s\"";
                self.missing("change.rate", remedy)
            }
        }
    }
}
