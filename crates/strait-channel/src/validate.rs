//! What a link file must say, and what its keys exclude.

use strait_core::keys::KeyError;
use strait_core::time::Duration;
use strait_core::units::Share;

use crate::Side;
use crate::cell::CellConfig;
use crate::config::{Change, Direction, LinkConfig, LinkKind};

impl LinkConfig {
    /// Checks what the types of the keys can't say. A link file has been when it is read.
    ///
    /// # Errors
    /// The first key that is missing, excluded by others or out of range, with its remedy.
    pub fn validate(&self) -> Result<(), KeyError> {
        self.refuse_misplaced()?;
        match &self.kind {
            LinkKind::Hf(hf) => hf.validate(self)?,
            LinkKind::Cell(cell) => cell.validate()?,
            LinkKind::Serial(_) | LinkKind::Frames => {}
        }
        if let (LinkKind::Cell(_), Some(_)) = (&self.kind, &self.reverse) {
            return Err(KeyError::new(
                "reverse",
                "all stations of a cell send alike",
            ));
        }
        for from in Side::BOTH {
            let way = self.direction(from);
            let checked = self.way(&way);
            checked.map_err(|error| match from {
                Side::A => error,
                Side::B => error.within("reverse"),
            })?;
        }
        Ok(())
    }

    fn way(&self, way: &Direction) -> Result<(), KeyError> {
        match &self.kind {
            LinkKind::Serial(_) => serial(way)?,
            LinkKind::Frames => frames(way)?,
            LinkKind::Hf(_) => hf(way)?,
            LinkKind::Cell(it) => cell(it, way)?,
        }
        probabilities(way)?;
        schedule(&self.kind, way)
    }
}

pub(crate) const fn require(
    key: &'static str,
    possible: bool,
    why: &'static str,
) -> Result<(), KeyError> {
    match possible {
        true => Ok(()),
        false => Err(KeyError::new(key, why)),
    }
}

fn serial(way: &Direction) -> Result<(), KeyError> {
    let speed = "needed: the line's speed, like baud = 9600";
    require("baud", way.baud.is_some_and(|baud| baud > 0), speed)
}

fn frames(way: &Direction) -> Result<(), KeyError> {
    let speed = "needed: the link's speed, like rate = \"64 kbit/s\"";
    require("rate", way.rate.is_some(), speed)?;
    let one = way.loss.is_none() || way.burst_loss.is_none();
    require("burst_loss", one, "choose either `loss` or `[burst_loss]`")?;
    let held = way.reorder.is_none() || way.reorder_delay.is_some();
    let remedy = "needed: the delay of these frames, like reorder_delay = \"100 ms\"";
    require("reorder_delay", held, remedy)?;
    let share = way.reorder_delay.is_none() || way.reorder.is_some();
    let remedy = "write the share of frames as well, like reorder = \"1 %\"";
    require("reorder_delay", share, remedy)?;
    let size = way.frame_octets_max != Some(0);
    require("frame_octets_max", size, "it must be at least 1")
}

fn cell(config: &CellConfig, way: &Direction) -> Result<(), KeyError> {
    let speed = "needed: the rate of frames for one station, like rate = \"11 Mbit/s\"";
    require("rate", way.rate.is_some_and(|rate| rate.0 >= 1000), speed)?;
    let size = way.frame_octets_max != Some(0);
    require("frame_octets_max", size, "it must be at least 1")?;
    require(
        "change",
        way.change.is_none(),
        "a cell keeps its rate: remove it",
    )?;
    let octets = way.frame_octets_max.unwrap_or(LinkConfig::FRAME_OCTETS_MAX);
    let fits = config.fits(way.rate.map(|rate| rate.0), octets as usize);
    let why =
        "the longest frame (`frame_octets_max`) and its acknowledgement don't fit, without `guard`";
    require("cell.tdma.slot", fits, why)
}

fn hf(way: &Direction) -> Result<(), KeyError> {
    let one = way.snr.is_none() || way.bit_errors.is_none();
    require("snr", one, "choose either `bit_errors` or `snr`")?;
    let turns = "stations choose their rates turn by turn: remove it";
    require("change", way.change.is_none(), turns)
}

fn probabilities(way: &Direction) -> Result<(), KeyError> {
    // Text is checked as it is read; this is for configurations made by code.
    let range = "it must be between 0 and 1";
    let share = |name, share: Option<Share>| {
        let possible = share.is_none_or(|share| (0.0..=1.0).contains(&share.0));
        require(name, possible, range)
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
        require("burst_loss.leave", burst.leave.0 > 0.0, remedy)?;
    }
    require("queue", way.queue != Some(0), "it must be at least 1")
}

fn schedule(kind: &LinkKind, way: &Direction) -> Result<(), KeyError> {
    let mut free = Duration::ZERO;
    for outage in way.outage.iter().flatten() {
        let order = "outages must be in order, without overlap";
        require("outage.at", outage.at.0 >= free, order)?;
        let lasts = outage.lasts.0 > Duration::ZERO;
        require("outage.lasts", lasts, "it must be above 0")?;
        free = outage.at.0.saturating_add(outage.lasts.0);
    }
    let mut last = Duration::ZERO;
    for change in way.change.iter().flatten() {
        let order = "changes must be in order, after the link's beginning";
        require("change.at", change.at.0 > last, order)?;
        last = change.at.0;
        speed(kind, change)?;
    }
    Ok(())
}

fn speed(kind: &LinkKind, change: &Change) -> Result<(), KeyError> {
    let (own, other, given) = match kind {
        LinkKind::Serial(_) => (
            "change.baud",
            "change.rate",
            (change.baud, change.rate.is_some()),
        ),
        LinkKind::Frames | LinkKind::Hf(_) | LinkKind::Cell(_) => {
            let rate = change.rate.map(|rate| rate.0.max(1));
            ("change.rate", "change.baud", (rate, change.baud.is_some()))
        }
    };
    let (speed, stray) = given;
    require(
        other,
        !stray,
        "a serial line changes its `baud`, others their `rate`",
    )?;
    let needed = "needed: the new speed, like baud = 4800 or rate = \"32 kbit/s\"";
    require(own, speed.is_some(), needed)?;
    require(
        own,
        speed != Some(0),
        "it must be at least 1; use `[[outage]]`",
    )
}
