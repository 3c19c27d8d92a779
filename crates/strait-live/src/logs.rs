//! Logs that hold nobody up: each kind of message has a limit, and a thread of its own writes them.
//!
//! What a forged frame makes a gateway say may come a million times a second, and what reads its
//! stderr may have stopped.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use strait_core::time::{Duration, Instant};

use crate::clock::Clock;

/// Messages of one kind that are written at once, after a while without any.
const BURST: u32 = 10;
/// After them, one in so long; and how often what was left out is told.
const EACH: Duration = Duration::from_secs(10);
/// Kinds that are told apart: a program has fewer places that say something.
const KINDS_MAX: usize = 256;
/// Messages that wait to be written.
const WAITING_MAX: usize = 1024;
/// How long an ending program waits for those: a reader that still reads is done by then.
const PATIENCE: Duration = Duration::from_millis(200);

/// Counts messages by kind, and says which are one too many.
#[derive(Debug, Default)]
pub struct Limits {
    kinds: BTreeMap<String, Kind>,
}

#[derive(Debug)]
struct Kind {
    name: String,
    /// When as many as ever may come at once.
    rested_at: Instant,
    left_out: u64,
    /// Since when messages were left out.
    since: Instant,
}

impl Limits {
    /// Whether a message of a kind may be written now. `name` is what people know the kind by.
    pub fn allows(&mut self, now: Instant, kind: &str, name: impl FnOnce() -> String) -> bool {
        if !self.kinds.contains_key(kind) {
            if self.kinds.len() >= KINDS_MAX {
                return false;
            }
            let new = Kind {
                name: name(),
                rested_at: now,
                left_out: 0,
                since: now,
            };
            self.kinds.insert(kind.into(), new);
        }
        let Some(kind) = self.kinds.get_mut(kind) else {
            return false;
        };
        let rested_at = kind.rested_at.max(now) + EACH;
        if rested_at.since(now) <= EACH * BURST {
            kind.rested_at = rested_at;
            return true;
        }
        if kind.left_out == 0 {
            kind.since = now;
        }
        kind.left_out += 1;
        false
    }

    /// Which messages were left out since `age` ago or longer: the kind's name, how many, and in
    /// how long.
    pub fn left_out(&mut self, now: Instant, age: Duration) -> Vec<(String, u64, Duration)> {
        let mut told = Vec::new();
        for kind in self.kinds.values_mut() {
            let span = now.since(kind.since);
            if kind.left_out > 0 && span >= age {
                told.push((kind.name.clone(), std::mem::take(&mut kind.left_out), span));
            }
        }
        told
    }
}

/// Where a program's log messages go. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Logs {
    clock: Clock,
    limits: Arc<Mutex<Limits>>,
    lines: SyncSender<Line>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Line {
    Text(Vec<u8>),
    /// Everything before is written when this is answered.
    End(SyncSender<()>),
}

/// When this goes, what was said is written, unless nobody reads it.
#[derive(Debug)]
pub struct LogsEnd {
    clock: Clock,
    lines: SyncSender<Line>,
}

impl Logs {
    /// Begins to write to `sink`, on a thread of its own.
    pub fn begin(sink: impl Write + Send + 'static) -> (Self, LogsEnd) {
        let (lines, todo) = sync_channel(WAITING_MAX);
        let logs = Self {
            clock: Clock::start(),
            limits: Arc::default(),
            lines: lines.clone(),
            lost: Arc::default(),
        };
        let writer = Writer {
            clock: logs.clock,
            limits: Arc::clone(&logs.limits),
            lost: Arc::clone(&logs.lost),
            sink,
        };
        // Without a thread there are no logs, which is no reason to do nothing.
        let _ = thread::Builder::new()
            .name("logs".into())
            .spawn(move || writer.run(&todo));
        let clock = logs.clock;
        (logs, LogsEnd { clock, lines })
    }

    /// Writes a line of no kind.
    pub fn say(&self, line: &str) {
        self.put(format!("{line}\n").into_bytes());
    }

    fn put(&self, text: Vec<u8>) {
        if let Err(TrySendError::Full(_)) = self.lines.try_send(Line::Text(text)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a message of a kind may be said now; see [`Limits::allows`].
    pub fn allows(&self, kind: &str, name: impl FnOnce() -> String) -> bool {
        let now = self.clock.now();
        // The thread that writes holds it for a moment; nobody waits for that.
        if let Ok(mut limits) = self.limits.try_lock() {
            return limits.allows(now, kind, name);
        }
        self.lost.fetch_add(1, Ordering::Relaxed);
        false
    }
}

impl Write for Logs {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        self.put(octets.into());
        Ok(octets.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for LogsEnd {
    fn drop(&mut self) {
        let (done, written) = sync_channel(1);
        let until = self.clock.now() + PATIENCE;
        let mut end = Line::End(done);
        while let Err(TrySendError::Full(back)) = self.lines.try_send(end) {
            if self.clock.now() >= until {
                return;
            }
            end = back;
            thread::sleep(PATIENCE / 100);
        }
        let left = until.since(self.clock.now());
        let _ = written.recv_timeout(left);
    }
}

struct Writer<W> {
    clock: Clock,
    limits: Arc<Mutex<Limits>>,
    lost: Arc<AtomicU64>,
    sink: W,
}

impl<W: Write> Writer<W> {
    fn run(mut self, todo: &Receiver<Line>) {
        loop {
            match todo.recv_timeout(EACH / 10) {
                // A sink that is gone is no reason to stop.
                Ok(Line::Text(text)) => drop(self.sink.write_all(&text)),
                Ok(Line::End(done)) => {
                    self.tell_lost();
                    self.tell_left_out(Duration::ZERO);
                    let _ = done.try_send(());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.tell_lost();
            self.tell_left_out(EACH);
        }
    }

    fn say(&mut self, text: &str) {
        let _ = self.sink.write_all(format!("{text}\n").as_bytes());
    }

    /// Says how many messages found no place while the sink was slow.
    fn tell_lost(&mut self) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            self.say(&format!(
                "{lost} log messages lost: they weren't read in time"
            ));
        }
    }

    fn tell_left_out(&mut self, age: Duration) {
        let now = self.clock.now();
        let left_out = self
            .limits
            .lock()
            .map(|mut limits| limits.left_out(now, age));
        for (kind, count, span) in left_out.unwrap_or_default() {
            let seconds = span.as_secs().max(1);
            self.say(&format!("{count} more of «{kind}» in the last {seconds} s"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_kind_has_its_burst_and_then_one_in_ten_seconds() {
        let mut limits = Limits::default();
        let start = Instant::from_secs(100);
        let storm = |limits: &mut Limits, now, kind: &str| {
            let all = 0..1000;
            all.filter(|_| limits.allows(now, kind, || kind.to_uppercase()))
                .count()
        };
        assert_eq!(storm(&mut limits, start, "link"), 10);
        // Others are told all the same.
        assert_eq!(storm(&mut limits, start, "port up"), 10);
        let next = start + EACH;
        let before = Instant::from_nanos(next.as_nanos() - 1);
        assert_eq!(storm(&mut limits, before, "link"), 0);
        assert_eq!(limits.left_out(before, EACH), []);
        let told = [("LINK", 1990), ("PORT UP", 990)];
        let told = told.map(|(kind, count)| (kind.to_owned(), count, EACH));
        assert_eq!(limits.left_out(next, EACH), told);
        assert_eq!(limits.left_out(next + EACH, EACH), []);
        assert_eq!(storm(&mut limits, next, "link"), 1);
        // After a rest a burst again.
        assert_eq!(storm(&mut limits, next + EACH * 10, "link"), 10);
    }

    #[test]
    fn kinds_are_bounded() {
        let mut limits = Limits::default();
        for number in 0..10_000 {
            limits.allows(Instant::ZERO, &number.to_string(), String::new);
        }
        assert_eq!(limits.kinds.len(), KINDS_MAX);
    }

    /// A sink that takes a message when it is let.
    struct Held {
        let_go: Receiver<()>,
        text: std::sync::mpsc::Sender<String>,
    }

    impl Write for Held {
        fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
            let _ = self.let_go.recv();
            let _ = self.text.send(String::from_utf8_lossy(octets).into());
            Ok(octets.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_sink_that_takes_nothing_holds_nobody_up() {
        let (go, let_go) = channel();
        let (text, written) = channel();
        let (mut logs, end) = Logs::begin(Held { let_go, text });
        for number in 0..5000 {
            let message = format!("message {number}\n");
            assert!(logs.write_all(message.as_bytes()).is_ok());
        }
        let lost = logs.lost.load(Ordering::Relaxed);
        let waits = WAITING_MAX as u64;
        assert!((5000 - waits - 1..=5000 - waits).contains(&lost), "{lost}");
        // Nor does an end of the program wait longer than its patience.
        drop(end);
        // When it is read again, what was lost is told.
        drop((go, logs));
        let all: Vec<String> = written.iter().collect();
        assert_eq!(all[0], "message 0\n");
        assert!(all.iter().any(|line| line.contains("log messages lost")));
    }

    #[test]
    fn what_was_said_is_written_at_the_end() {
        let (go, let_go) = channel();
        let (text, written) = channel();
        drop(go);
        let (mut logs, end) = Logs::begin(Held { let_go, text });
        for number in 0..100 {
            let message = format!("message {number}\n");
            assert!(logs.write_all(message.as_bytes()).is_ok());
        }
        for _ in 0..12 {
            logs.allows("kind", || "a kind".into());
        }
        let limits = Arc::clone(&logs.limits);
        let held = limits.lock().unwrap();
        assert!(!logs.allows("kind", String::new));
        drop(held);
        drop(end);
        let told: Vec<String> = written.try_iter().collect();
        assert_eq!(told.len(), 102);
        // The thread that writes may have held the limits while one more was said.
        let number = |of: &str| {
            let mut lines = told.iter().filter(|it| it.contains(of));
            let number = lines.next().and_then(|it| it.split(' ').next());
            number.and_then(|it| it.parse::<u32>().ok()).unwrap_or(0)
        };
        let (lost, left_out) = (number("log messages lost"), number("more of «a kind»"));
        assert_eq!((lost + left_out, lost >= 1, left_out >= 1), (3, true, true));
    }

    #[test]
    fn the_end_waits_for_a_full_row_to_be_written() {
        let (go, let_go) = channel();
        let (text, written) = channel();
        let (mut logs, end) = Logs::begin(Held { let_go, text });
        for _ in 0..WAITING_MAX + 2 {
            assert!(logs.write_all(b"message\n").is_ok());
        }
        let lost = logs.lost.load(Ordering::Relaxed);
        drop(go);
        drop(end);
        let told = (WAITING_MAX + 2) as u64 - lost;
        let messages = written.try_iter().filter(|text| text == "message\n");
        assert_eq!(messages.count() as u64, told);
    }
}
