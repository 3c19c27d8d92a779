//! The journal on disk: what `strait replay` reads.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use strait_core::id::PortId;
use strait_core::node::{Boot, Input, Room, TxMeta};
use strait_core::time::{Duration, Instant};
use strait_node::NodeConfig;
use strait_node::config::JournalConfig;
use strait_node::journal::{JournalSettings, JournalWriter};
use strait_status::JournalStatus;

use super::own_file;
use crate::error::{Doing, Error};
use crate::node_loop::Recorder;
use crate::node_loop::service::{Service, View};

/// The longest that a record waits for its way to the file: so much is lost at most when the
/// gateway is killed.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Octets that are written out without waiting any longer.
const BUFFER_OCTETS: usize = 64 * 1024;

/// Writes a node's journal to a file that only its owner may read, for it holds what users said.
///
/// A file that can't be written any more ends the journal with a warning; the gateway goes on.
/// When the last of this and its [`JournalFlusher`] goes, the journal is closed.
#[derive(Clone, Debug)]
pub struct JournalFile(Rc<RefCell<Journal>>);

/// Writes out what a quiet node leaves in a journal's buffer.
#[derive(Debug)]
pub struct JournalFlusher(Rc<RefCell<Journal>>);

#[derive(Debug)]
struct Journal {
    path: PathBuf,
    /// How many of earlier runs stay.
    keep: u8,
    /// It has its name. Until then it is written beside it, and goes with a start that fails.
    placed: bool,
    /// `None` after the journal's end.
    file: Option<File>,
    /// Why it ended.
    ended: Option<String>,
    writer: JournalWriter,
    buffer: Vec<u8>,
    /// When the buffer is to be written out, if there is anything in it.
    due: Option<Instant>,
    /// Time of the last record.
    last: Instant,
}

impl JournalFile {
    /// Begins the journal of a node that is about to boot, beside that of the last run.
    ///
    /// # Errors
    /// The file can't be made or written, something else than a file is there, another gateway
    /// writes it, or the configuration can't be written as text.
    pub fn create(config: &JournalConfig, node: &NodeConfig, boot: &Boot) -> Result<Self, Error> {
        let path = Path::new(&config.file);
        let doing = || format!("begin journal `{}`", path.display());
        let text = node.without_secrets().to_text();
        let text = text.map_err(|why| Error::invalid(doing(), why))?;
        let file = refuse_running(path).and_then(|()| own_file::create(&unplaced(path)));
        let file = file.and_then(|file| file.try_lock().map_err(io::Error::from).map(|()| file));
        let file = file.doing(doing).map_err(own_file::with_remedy)?;
        let settings = JournalSettings {
            octets_max: config.octets_max.0,
            mask_payloads: config.mask_payloads,
        };
        let mut buffer = Vec::new();
        let writer = JournalWriter::new(settings, &text, boot, &mut buffer);
        let mut journal = Journal {
            path: path.to_path_buf(),
            keep: config.keep,
            placed: false,
            file: Some(file),
            ended: None,
            writer,
            buffer,
            due: None,
            last: Instant::ZERO,
        };
        journal.write_out().doing(doing)?;
        Ok(Self(Rc::new(RefCell::new(journal))))
    }

    /// Gives it its name: the gateway has started. Earlier ones are kept beside it.
    ///
    /// # Errors
    /// The system's.
    pub fn place(&self) -> Result<(), Error> {
        let mut journal = self.0.borrow_mut();
        let path = &journal.path;
        let placed = put_aside(path, journal.keep).and_then(|()| fs::rename(unplaced(path), path));
        let placed = placed.doing(|| format!("put journal `{}` in its place", path.display()));
        placed.map_err(own_file::with_remedy)?;
        journal.placed = true;
        Ok(())
    }

    /// The service that writes the journal out when the node is quiet.
    pub fn flusher(&self) -> JournalFlusher {
        JournalFlusher(Rc::clone(&self.0))
    }
}

/// Where a journal is until its gateway has started.
fn unplaced(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".new");
    name.into()
}

/// An error if a gateway that runs writes the journal at `path`.
fn refuse_running(path: &Path) -> io::Result<()> {
    match own_file::open(path) {
        Ok(file) => file.try_lock().map_err(io::Error::from),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes place for a new journal: the one at `path` becomes `path.1`, that one `path.2` and so on;
/// the last one goes.
fn put_aside(path: &Path, keep: u8) -> io::Result<()> {
    // An empty one says nothing about a crash.
    if !own_file::check(path)? || fs::metadata(path)?.len() == 0 {
        return Ok(());
    }
    for number in (0..keep).rev() {
        let from = earlier(path, number);
        if own_file::check(&from)? {
            fs::rename(from, earlier(path, number + 1))?;
        }
    }
    Ok(())
}

/// The journal of so many runs ago.
fn earlier(path: &Path, number: u8) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    if number > 0 {
        name.push(format!(".{number}"));
    }
    name.into()
}

impl Journal {
    fn record(&mut self, now: Instant, append: impl FnOnce(&mut JournalWriter, &mut Vec<u8>)) {
        if self.file.is_none() {
            return;
        }
        append(&mut self.writer, &mut self.buffer);
        self.last = now;
        let due = *self.due.get_or_insert(now + FLUSH_EVERY);
        let ended = self.writer.is_ended();
        if ended || due <= now || self.buffer.len() >= BUFFER_OCTETS {
            self.flush();
        }
        if ended && self.file.take().is_some() {
            let octets = self.writer.written_octets();
            self.ended = Some(String::from("it has its full size"));
            tracing::warn!(path = %self.path.display(), octets, "the journal has its full size");
        }
    }

    fn flush(&mut self) {
        if let Err(error) = self.write_out() {
            self.file = None;
            self.ended = Some(error.to_string());
            tracing::warn!(path = %self.path.display(), %error, "the journal ends here");
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.due = None;
        let result = match &mut self.file {
            Some(file) => file.write_all(&self.buffer),
            None => Ok(()),
        };
        self.buffer.clear();
        result
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if !self.placed {
            let _ = fs::remove_file(unplaced(&self.path));
        } else if self.file.is_some() {
            self.writer.close(self.last, &mut self.buffer);
            self.flush();
        }
    }
}

impl Recorder for JournalFile {
    fn status(&self) -> Option<JournalStatus> {
        let journal = self.0.borrow();
        Some(JournalStatus {
            file: journal.path.display().to_string(),
            octets: journal.writer.written_octets(),
            ended: journal.ended.clone(),
        })
    }

    fn input(&mut self, now: Instant, input: &Input<'_>) {
        let append = |writer: &mut JournalWriter, out: &mut Vec<u8>| writer.input(now, input, out);
        self.0.borrow_mut().record(now, append);
    }

    fn pulled(&mut self, now: Instant, port: PortId, room: Room, meta: &TxMeta, octets: &[u8]) {
        let append = |writer: &mut JournalWriter, out: &mut Vec<u8>| {
            writer.pulled(now, port, room, meta, octets, out);
        };
        self.0.borrow_mut().record(now, append);
    }
}

impl Service for JournalFlusher {
    fn interests(&self) -> Vec<(BorrowedFd<'_>, bool)> {
        Vec::new()
    }

    fn serve(&mut self, view: &View<'_>) {
        let mut journal = self.0.borrow_mut();
        if journal.due.is_some_and(|due| due <= view.now) {
            journal.flush();
        }
    }

    fn wake(&self) -> Option<Instant> {
        self.0.borrow().due
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use strait_core::id::Neighbours;

    use super::*;
    use crate::node_loop::service::{Rates, Timers};
    use strait_core::NeighbourId;
    use strait_core::node::{NodeFactory, Notice, PortEvent, PortState};
    use strait_core::rate::LineRate;
    use strait_core::stats::Stats;
    use strait_core::units::Octets;
    use strait_node::GatewayFactory;
    use strait_node::journal::{JournalEnd, JournalReader, replay};

    const NODE: &str = r#"
name = "a"
[host]
[[port]]
name = "line"
kind = "serial"
baud = 9600
"#;

    /// An ICMP echo request of 28 octets.
    const PACKET: [u8; 28] = [
        0x45, 0, 0, 28, 0, 1, 0, 0, 64, 1, 0x66, 0xda, 10, 1, 0, 2, 10, 2, 0, 2, 8, 0, 0xf7, 0xfd,
        0, 1, 0, 1,
    ];

    fn node() -> NodeConfig {
        strait_node::config_text::parse("test.toml", NODE).unwrap()
    }

    fn config(path: &Path, octets_max: u64) -> JournalConfig {
        JournalConfig {
            file: path.to_str().unwrap().into(),
            keep: 2,
            octets_max: Octets(octets_max),
            mask_payloads: false,
        }
    }

    fn begin(path: &Path, octets_max: u64) -> JournalFile {
        let file = create(path, octets_max).unwrap();
        file.place().unwrap();
        file
    }

    fn create(path: &Path, octets_max: u64) -> Result<JournalFile, Error> {
        JournalFile::create(&config(path, octets_max), &node(), &Boot::default())
    }

    fn view(now: Instant, stats: &Stats) -> View<'_> {
        static BESIDE: std::sync::LazyLock<(Rates, Timers)> =
            std::sync::LazyLock::new(Default::default);
        View {
            now,
            stats,
            flows: &[],
            names: &Vec::new,
            mail: &strait_core::mail::MailView::default,
            ports: &[],
            rates: &BESIDE.0,
            timers: &BESIDE.1,
            taps: &[],
            recorder: None,
        }
    }

    /// Records in the file, and how it ends.
    fn read(path: &Path) -> (usize, JournalEnd) {
        let octets = fs::read(path).unwrap();
        let mut reader = JournalReader::new(&octets).unwrap();
        (reader.by_ref().count(), reader.end().unwrap())
    }

    #[test]
    fn records_reach_the_file_within_a_second_and_when_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let mut file = begin(&path, 1_000_000);
        let mut flusher = file.flusher();
        let stats = Stats::default();
        assert_eq!(read(&path), (0, JournalEnd::Open));
        assert_eq!(flusher.wake(), None);
        let start = Instant::from_secs(5);
        file.input(start, &Input::Timeout);
        let due = start + FLUSH_EVERY;
        assert_eq!(flusher.wake(), Some(due));
        flusher.serve(&view(Instant::from_nanos(due.as_nanos() - 1), &stats));
        assert_eq!(read(&path).0, 0);
        flusher.serve(&view(due, &stats));
        assert_eq!((read(&path), flusher.wake()), ((1, JournalEnd::Open), None));
        // A record that comes late takes those before it along.
        file.input(Instant::from_secs(10), &Input::Timeout);
        file.input(Instant::from_secs(11), &Input::Timeout);
        assert_eq!(read(&path).0, 3);
        file.input(Instant::from_secs(11), &Input::Timeout);
        drop(file);
        assert_eq!(read(&path).0, 3);
        drop(flusher);
        assert_eq!(read(&path), (4, JournalEnd::Closed));
    }

    #[test]
    fn a_start_keeps_the_journals_of_earlier_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let inputs = |number: u8| {
            let octets = fs::read(earlier(&path, number));
            octets.map_or(0, |octets| JournalReader::new(&octets).unwrap().count())
        };
        for run in 1..=4 {
            let mut file = begin(&path, 1_000_000);
            for _ in 0..run {
                file.input(Instant::ZERO, &Input::Timeout);
            }
        }
        assert_eq!([0, 1, 2, 3].map(inputs), [4, 3, 2, 0]);
        // Without any kept, and from something else than a file.
        let none = JournalConfig {
            keep: 0,
            ..config(&path, 1000)
        };
        let last = JournalFile::create(&none, &node(), &Boot::default()).unwrap();
        last.place().unwrap();
        drop(last);
        assert_eq!([0, 1, 2].map(inputs), [0, 3, 2]);
    }

    #[test]
    fn a_start_that_fails_leaves_earlier_journals_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let running = begin(&path, 1_000_000);
        // A second start by mistake, while the first runs.
        assert!(create(&path, 1000).is_err());
        drop(running);
        let crashed = fs::read(&path).unwrap();
        for _ in 0..5 {
            drop(create(&path, 1000).unwrap());
        }
        assert_eq!(fs::read(&path).unwrap(), crashed);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn a_pipe_or_a_device_is_no_place_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        for path in [&pipe, &link, Path::new("/dev/full")] {
            let config = config(path, 1000);
            let error = JournalFile::create(&config, &node(), &Boot::default());
            let error = error.unwrap_err().to_string();
            assert!(
                error.contains("is there (the gateway writes only to its own files"),
                "{error}"
            );
        }
    }

    #[test]
    fn only_the_owner_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        drop(begin(&path, 1_000_000));
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(read(&path), (0, JournalEnd::Closed));
    }

    #[test]
    fn it_ends_at_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let mut file = begin(&path, 600);
        for ns in 0..500 {
            file.input(Instant::from_nanos(ns), &Input::Timeout);
        }
        let status = file.status().unwrap();
        assert_eq!(status.ended.as_deref(), Some("it has its full size"));
        drop(file);
        assert_eq!(read(&path).1, JournalEnd::Limit);
        assert!(fs::metadata(&path).unwrap().len() <= 600);
    }

    #[test]
    fn a_full_disk_ends_it_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let mut file = begin(&path, 1_000_000);
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        file.0.borrow_mut().file = Some(full.unwrap());
        assert_eq!(file.status().unwrap().ended, None);
        file.input(Instant::ZERO, &Input::Timeout);
        file.input(Instant::from_secs(1), &Input::Timeout);
        assert!(file.0.borrow().file.is_none());
        let why = file.status().unwrap().ended.unwrap();
        assert!(why.starts_with("No space left on device"), "{why}");
        file.input(Instant::from_secs(3), &Input::Timeout);
        assert_eq!(file.flusher().wake(), None);
        assert!(file.0.borrow().buffer.is_empty());
    }

    #[test]
    fn a_file_that_cannot_be_made_is_an_error_that_names_it() {
        let config = config(Path::new("/nonexistent/a.journal"), 1000);
        let error = JournalFile::create(&config, &node(), &Boot::default()).unwrap_err();
        assert!(
            error.to_string().contains("/nonexistent/a.journal"),
            "{error}"
        );
    }

    #[test]
    fn a_recorded_run_is_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let mut file = begin(&path, 1_000_000);
        let mut node = GatewayFactory::new(node()).unwrap().boot(Boot::default());
        let rate = LineRate::new(9600, 10);
        let state = PortState {
            tx_rate: rate,
            rx_rate: rate,
            frame_octets_max: 1500,
            block: Duration::ZERO,
            latency: Duration::ZERO,
            notice: Notice::NONE,
        };
        let up = Input::Port {
            port: PortId(1),
            event: PortEvent::Up(state),
        };
        let frame = Input::Frame {
            port: PortId::HOST,
            from: NeighbourId::PEER,
            bytes: &PACKET,
            meta: strait_core::node::FrameMeta::default(),
        };
        for input in [up, frame] {
            file.input(Instant::ZERO, &input);
            node.handle(Instant::ZERO, input);
        }
        let mut pulls = 0;
        let room = Room {
            octets: 9,
            starts: Instant::ZERO,
            until: None,
            to: Neighbours::ALL,
        };
        let mut out = Vec::new();
        while let Some(meta) = node.poll_transmit(Instant::ZERO, PortId(1), room, &mut out) {
            file.pulled(Instant::ZERO, PortId(1), room, &meta, &out);
            out.clear();
            pulls += 1;
        }
        drop(file);
        let report = replay(&fs::read(&path).unwrap()).unwrap();
        assert_eq!((report.inputs, report.pulls), (2, pulls));
        assert!(report.octets > PACKET.len() as u64);
        assert_eq!(
            (report.difference, report.end),
            (None, Some(JournalEnd::Closed))
        );
    }
}
