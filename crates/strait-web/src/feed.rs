//! Where snapshots come from: status sockets of running gateways, and files.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use strait_live::status;
use strait_status::Snapshot;

use crate::hub::Hub;
use crate::recording::Recording;

/// Between two snapshots of a gateway.
const PERIOD: Duration = Duration::from_secs(1);

/// Listens to the gateway behind `socket`, the node number `n`, as long as this process runs.
pub(crate) fn follow(hub: Arc<Hub>, n: usize, socket: PathBuf) -> io::Result<()> {
    let path = socket.clone();
    status::follow(socket, PERIOD, move |told| {
        match told {
            Ok(snapshot) => hub.heard(n, snapshot),
            Err(why) => hub.lost(n, &path, &why),
        }
        true
    })
}

/// The snapshots that `strait status --json` wrote, once or again and again.
///
/// # Errors
/// The file can't be read, or there is something else in it.
pub fn snapshots(path: &Path) -> io::Result<impl Iterator<Item = io::Result<Snapshot>>> {
    let file = BufReader::new(File::open(path)?);
    let all = serde_json::Deserializer::from_reader(file).into_iter::<Snapshot>();
    Ok(all.map(|it| it.map_err(io::Error::from)))
}

/// Takes what `strait status --json` wrote, once or again and again, as the node number `n`.
///
/// # Errors
/// The file can't be read, or there is something else in it.
pub fn read(path: &Path, n: usize, recording: &mut Recording) -> io::Result<()> {
    for snapshot in snapshots(path)? {
        let snapshot = snapshot?;
        recording.add(n, snapshot.uptime_s, &snapshot);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Clock;

    #[test]
    fn a_file_of_snapshots_is_a_recording() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.jsonl");
        let text = "{\"node\":\"a\",\"uptime_s\":1}\n{\"node\":\"a\",\"uptime_s\":2}\n";
        std::fs::write(&path, text).expect("written");
        let mut recording = Recording::new(Clock::Run);
        read(&path, 0, &mut recording).expect("read");
        assert_eq!(recording.text().lines().count(), 3);
        std::fs::write(&path, "{\"node\":\"a\"}\nnonsense").expect("written");
        let error = read(&path, 0, &mut recording).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }
}
