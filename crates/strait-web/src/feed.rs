//! Where snapshots come from: status sockets of running gateways, and files.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use strait_live::status;
use strait_status::Snapshot;

use crate::hub::Hub;

/// Between two snapshots of a gateway.
const PERIOD: Duration = Duration::from_secs(1);

/// Listens to the gateway behind `socket`, the node number `n`, as long as this process runs.
pub(crate) fn follow(hub: Arc<Hub>, n: usize, socket: PathBuf) -> io::Result<()> {
    let path = socket.clone();
    status::follow(socket, PERIOD, move |told| {
        match told {
            Ok(snapshot) => hub.heard(n, &snapshot),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_snapshots_is_read_one_by_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.jsonl");
        let text = "{\"node\":\"a\",\"uptime_s\":1}\n{\"node\":\"a\",\"uptime_s\":2}\nnonsense";
        std::fs::write(&path, text).expect("written");
        let mut all = snapshots(&path).expect("read");
        let times: Vec<f64> = (0..2)
            .map(|_| all.next().unwrap().unwrap().uptime_s)
            .collect();
        assert_eq!(times, [1.0, 2.0]);
        let error = all.next().unwrap().unwrap_err().to_string();
        assert!(error.contains("line 3"), "{error}");
    }
}
