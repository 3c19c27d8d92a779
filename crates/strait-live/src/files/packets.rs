//! A line for each packet that ended in a gateway: where its time went.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::Receiver;

use serde::{Deserialize, Serialize};
use strait_core::delay::DelayPart;
use strait_core::fate::FateRecord;
use strait_core::time::{Duration, Instant};
use strait_status::fate_name;

use super::own_file;
use crate::clock::Clock;
use crate::clock::monotonic;
use crate::error::{Doing, Error};
use crate::node_loop::taps::Taps;

/// A packet's stay in a gateway, as a line of JSON. Times are of the kernel's monotonic clock, so
/// those of all gateways of a host are of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketLine {
    /// The same at each gateway on its path, and another for another packet; in hexadecimal.
    pub packet: String,
    /// When the gateway had it whole.
    pub began_ns: u64,
    /// When its last octet had left, by the line's rate.
    pub ended_ns: u64,
    /// Of the IP packet.
    pub octets: u32,
    /// Position of its class in the policy.
    pub class: u8,
    /// `delivered`, `forwarded` and so on; for a dropped packet, the cause.
    pub fate: String,
    /// On the line, by its rate.
    pub line_ns: u64,
}

impl PacketLine {
    fn new(record: &FateRecord, origin: Duration) -> Self {
        let absolute_ns = |at: Instant| (at + origin).as_nanos();
        Self {
            packet: format!("{:016x}", record.digest),
            began_ns: absolute_ns(record.began),
            ended_ns: absolute_ns(record.ended),
            octets: record.octets,
            class: record.class.0,
            fate: fate_name(record.fate).to_owned(),
            line_ns: record.parts.part_ns(DelayPart::Line),
        }
    }
}

/// Lines of a file, about 200 MB: it is for looking at minutes, not for days.
const LINES_MAX: u64 = 1_000_000;

/// Writes packets to a new file, by a thread of its own: a slow disk holds nobody up. A file that
/// can't be written any more, or is full, ends with a warning; the gateway goes on.
pub(crate) fn start(clock: Clock, path: &Path, taps: &mut Taps) -> Result<(), Error> {
    let doing = || format!("write {}", path.display());
    let file = own_file::create(path).doing(doing);
    let mut file = BufWriter::new(file.map_err(own_file::with_remedy)?);
    let origin = monotonic().since(clock.now());
    let named = path.to_owned();
    let write = move |records: Receiver<FateRecord>| {
        for (lines, record) in (1..).zip(records) {
            let line = serde_json::to_string(&PacketLine::new(&record, origin));
            let written = writeln!(file, "{}", line.unwrap_or_default());
            if written.is_err() || lines == LINES_MAX {
                tracing::warn!(file = %named.display(), lines, "no more packets are written");
                return;
            }
        }
    };
    taps.attach_thread("packets", write).doing(doing)
}

/// The lines of such a file; one that a killed gateway left torn is left out.
pub fn read(path: &Path) -> Vec<PacketLine> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::delay::DelayParts;
    use strait_core::fate::{DropCause, Fate};
    use strait_core::id::{ClassId, PortId};

    #[test]
    fn packets_are_read_as_they_were_written_and_a_torn_line_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packets");
        let clock = Clock::start();
        let mut taps = Taps::default();
        start(clock, &path, &mut taps).unwrap();
        let mut record = FateRecord {
            digest: 0xabc,
            began: Instant::from_millis(10),
            ended: Instant::from_millis(49),
            octets: 91,
            class: ClassId(2),
            fate: Fate::Dropped(DropCause::Aged),
            own: false,
            marked: false,
            parts: DelayParts::default(),
        };
        record.parts.add(DelayPart::Class, 1_000_000);
        record.parts.add(DelayPart::Line, 38_000_000);
        taps.show(&record);
        record.fate = Fate::Delivered(PortId::HOST);
        taps.show(&record);
        drop(taps);
        let whole = read(&path);
        assert_eq!(whole.len(), 2);
        assert_eq!(whole[0].packet, "0000000000000abc");
        assert_eq!(whole[0].fate, "aged");
        assert_eq!(whole[1].line_ns, 38_000_000);
        assert_eq!(whole[0].ended_ns - whole[0].began_ns, 39_000_000);
        let now_ns = monotonic().as_nanos();
        assert!(whole[0].began_ns.abs_diff(now_ns) < 60_000_000_000);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 5]).unwrap();
        assert_eq!(read(&path), whole[..1]);
    }

    #[test]
    fn only_the_owner_may_read_them() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packets");
        start(Clock::start(), &path, &mut Taps::default()).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let error = start(Clock::start(), &link, &mut Taps::default())
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("a symbolic link is there"), "{error}");
    }

    #[test]
    fn a_file_that_cannot_be_made_is_named() {
        let error = start(
            Clock::start(),
            Path::new("/nonexistent/p"),
            &mut Taps::default(),
        )
        .err()
        .unwrap();
        assert!(error.to_string().contains("/nonexistent/p"), "{error}");
    }
}
