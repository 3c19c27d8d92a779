//! What gateways said of themselves, in files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use strait_core::time::Duration;
use strait_node::journal::{MAGIC, replay_told};
use strait_status::Snapshot;

use crate::exit::BadInput;

/// Between two snapshots of a journal's gateway.
const STEP: Duration = Duration::from_secs(1);

/// Tells each snapshot of a file: those that `strait status --json` wrote, or what the gateway of a
/// journal would have said each second.
pub(super) fn each_of(path: &Path, mut tell: impl FnMut(Snapshot)) -> anyhow::Result<()> {
    let bad = |error: &dyn std::fmt::Display| BadInput(format!("{}: {error}", path.display()));
    if !is_journal(path)? {
        let no_status = |error| bad(&format_args!("no status: {error}"));
        for snapshot in strait_web::snapshots(path).map_err(no_status)? {
            tell(snapshot.map_err(no_status)?);
        }
        return Ok(());
    }
    let journal = super::replay::read(path)?;
    let report = replay_told(&journal, STEP, |name, now, node| {
        tell(Snapshot::new(name, now, node.stats(), &node.flows()));
    });
    let report = report.map_err(|error| bad(&error))?;
    if let Some(difference) = report.difference {
        tracing::warn!(file = %path.display(), "shown until the repeated run differs: {difference}");
    }
    Ok(())
}

/// Whether it begins as one.
pub(super) fn is_journal(path: &Path) -> anyhow::Result<bool> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut head = Vec::new();
    file.take(MAGIC.len() as u64)
        .read_to_end(&mut head)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(head == MAGIC)
}
