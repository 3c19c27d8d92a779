//! Named places at which a test may kill the process, as a power cut would: between what a message
//! switch asks of its host and what comes of it.
//!
//! Only by request: [`VARIABLE`] names one when `strait run` starts, and otherwise each place costs
//! a look at an empty cell.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use strait_core::node::{Input, Side, StoreOp, StreamEvent, StreamId, StreamOp};
use strait_node::{MAIL, MailStep};

use crate::error::{Doing, Error};

/// The environment variable: a place, or `PLACE:N` for the Nth time that it is passed.
pub const VARIABLE: &str = "STRAIT_KILL_AT";

/// How far a batch has come in storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing of it is written.
    Asked,
    /// Its first value is written, and nothing is stable.
    Half,
    /// It is stable, and who asked for it doesn't know.
    Stable,
}

/// A place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailPoint {
    /// A batch of a message switch's, in storage.
    Store(MailStep, Stage),
    /// The kernel has a reply to a client.
    ClientTold,
    /// The kernel has octets for a next hop.
    HopTold,
    /// A next hop has said something, and nothing came of it.
    HopSaid,
    /// A mailbox's file is written where nobody looks.
    FileWritten,
    /// It lies where programs look, and its name isn't stable.
    FileMoved,
    /// It is stable, and the switch doesn't know.
    FileStable,
}

impl FailPoint {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let others = [
            Self::ClientTold,
            Self::HopTold,
            Self::HopSaid,
            Self::FileWritten,
            Self::FileMoved,
            Self::FileStable,
        ];
        let stages = |step| {
            // One value has no half.
            let halved = !matches!(step, MailStep::Piece | MailStep::Changed);
            let all = [Stage::Asked, Stage::Half, Stage::Stable].into_iter();
            let all = all.filter(move |it| halved || *it != Stage::Half);
            all.map(move |stage| Self::Store(step, stage))
        };
        let stores = MailStep::ALL.into_iter().flat_map(stages);
        stores.chain(others).collect()
    }

    /// Its name.
    pub fn name(self) -> String {
        match self {
            Self::Store(step, stage) => {
                let stage = match stage {
                    Stage::Asked => "asked",
                    Stage::Half => "half",
                    Stage::Stable => "stable",
                };
                format!("{}-{stage}", step.name())
            }
            Self::ClientTold => "client-told".into(),
            Self::HopTold => "hop-told".into(),
            Self::HopSaid => "hop-said".into(),
            Self::FileWritten => "file-written".into(),
            Self::FileMoved => "file-moved".into(),
            Self::FileStable => "file-stable".into(),
        }
    }

    /// What [`VARIABLE`] says: a place, and how often it is passed before.
    fn parse(text: &str) -> Option<(Self, u64)> {
        let (name, times) = text.split_once(':').unwrap_or((text, "1"));
        let point = Self::all().into_iter().find(|it| it.name() == name)?;
        Some((point, times.parse::<u64>().ok()?.checked_sub(1)?))
    }
}

struct Armed {
    point: FailPoint,
    left: AtomicU64,
}

static ARMED: OnceLock<Armed> = OnceLock::new();

/// Reads [`VARIABLE`]; the process is killed at that place from now on.
///
/// # Errors
/// It names none.
pub fn arm() -> Result<(), Error> {
    let Some(text) = std::env::var_os(VARIABLE) else {
        return Ok(());
    };
    let known = || {
        let names: Vec<String> = FailPoint::all().into_iter().map(FailPoint::name).collect();
        std::io::Error::other(format!("it is none of {}", names.join(", ")))
    };
    let parsed = text.to_str().and_then(FailPoint::parse).ok_or_else(known);
    let (point, before) = parsed.doing(|| format!("read {VARIABLE}"))?;
    tracing::warn!(?point, before, "this process is killed there, for a test");
    let left = AtomicU64::new(before);
    let _ = ARMED.set(Armed { point, left });
    Ok(())
}

/// Passes a place.
pub(crate) fn pass(point: FailPoint) {
    let here = ARMED.get().filter(|armed| armed.point == point);
    if let Some(armed) = here
        && armed
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            })
            .is_err()
    {
        let _ = kill(Pid::this(), Signal::SIGKILL);
    }
}

/// Passes a stage of a batch.
pub(crate) fn pass_store(batch: &[StoreOp], stage: Stage) {
    if ARMED.get().is_some()
        && let Some(step) = MailStep::of(batch)
    {
        pass(FailPoint::Store(step, stage));
    }
}

/// Passes what the switch has said.
pub(crate) fn pass_told(id: StreamId, sends: bool) {
    if sends && id.owner == MAIL {
        pass(match id.side {
            Side::Client => FailPoint::ClientTold,
            Side::Node => FailPoint::HopTold,
        });
    }
}

/// Passes what the switch is to hear.
pub(crate) fn pass_said(input: &Input<'_>) {
    if let Input::Stream {
        id,
        event: StreamEvent::Data(_),
    } = input
        && (id.owner, id.side) == (MAIL, Side::Node)
    {
        pass(FailPoint::HopSaid);
    }
}

/// Whether an operation gives octets to a stream.
pub(crate) const fn sends(op: &StreamOp) -> bool {
    matches!(op, StreamOp::Send(_))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_place_has_a_name_of_its_own() {
        let all = FailPoint::all();
        let names: BTreeSet<String> = all.iter().map(|it| it.name()).collect();
        assert_eq!(names.len(), all.len());
        for point in all {
            let name = point.name();
            assert_eq!(FailPoint::parse(&name), Some((point, 0)));
            assert_eq!(FailPoint::parse(&format!("{name}:3")), Some((point, 2)));
            assert_eq!(FailPoint::parse(&format!("{name}:0")), None);
        }
        assert_eq!(FailPoint::parse("piece-half"), None);
    }
}
