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
/// A gateway answers at once, or is stopped by a debugger.
const PATIENCE: Duration = Duration::from_secs(5);
/// Before a gateway that wasn't there is asked again.
const PAUSE: Duration = Duration::from_secs(2);

/// Listens to the gateway behind `socket`, the node number `n`, as long as this process runs.
pub(crate) fn follow(hub: Arc<Hub>, n: usize, socket: PathBuf) -> io::Result<()> {
    let name = format!("feed {n}");
    let thread = std::thread::Builder::new().name(name);
    thread.spawn(move || {
        loop {
            let why = listen(&hub, n, &socket);
            hub.lost(n, &socket, &why);
            std::thread::sleep(PAUSE);
        }
    })?;
    Ok(())
}

/// Until the gateway is silent; says why.
fn listen(hub: &Hub, n: usize, socket: &Path) -> String {
    let mut stream = match status::stream(socket, PERIOD, PATIENCE) {
        Ok(stream) => stream,
        Err(error) => return error.to_string(),
    };
    loop {
        match stream.next_snapshot() {
            Ok(Some((snapshot, _))) => hub.heard(n, snapshot),
            Ok(None) => return "the gateway ended".into(),
            Err(error) => return error.to_string(),
        }
    }
}

/// Takes what `strait status --json` wrote, once or again and again, as the node number `n`.
///
/// # Errors
/// The file can't be read, or there is something else in it.
pub fn read(path: &Path, n: usize, recording: &mut Recording) -> io::Result<()> {
    let file = BufReader::new(File::open(path)?);
    for snapshot in serde_json::Deserializer::from_reader(file).into_iter::<Snapshot>() {
        let snapshot = snapshot?;
        recording.add(n, snapshot.uptime_s, &snapshot, &[]);
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
