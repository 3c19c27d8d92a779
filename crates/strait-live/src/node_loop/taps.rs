//! Who looks on as packets end. Each tap has a queue of its own: one that is slow loses its own
//! records, which are counted, and holds nobody up.

use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use strait_core::fate::FateRecord;

/// Taps at once; each costs the loop a copy of every record.
const TAPS_MAX: usize = 8;

/// Records that may wait in an ordinary tap: a megabyte, some seconds of a busy gateway.
const WAITING_MAX: usize = 8192;

/// The taps of a node.
#[derive(Default)]
pub struct Taps(Vec<Tap>);

struct Tap {
    name: String,
    /// Absent once it ends.
    send: Option<SyncSender<FateRecord>>,
    reader: Option<JoinHandle<()>>,
    records: u64,
    dropped: u64,
}

impl Taps {
    /// A new tap, in which at most `waiting_max` records wait; `None` if there are too many. It
    /// ends with its reader.
    pub fn attach(&mut self, name: &str, waiting_max: usize) -> Option<Receiver<FateRecord>> {
        if self.0.len() == TAPS_MAX {
            return None;
        }
        let (send, receive) = sync_channel(waiting_max);
        self.0.push(Tap {
            name: name.to_owned(),
            send: Some(send),
            reader: None,
            records: 0,
            dropped: 0,
        });
        Some(receive)
    }

    /// The same with a thread that reads; when the taps end, they wait until it has.
    ///
    /// # Errors
    /// There are too many, or the system has no more threads.
    pub fn attach_thread(
        &mut self,
        name: &str,
        read: impl FnOnce(Receiver<FateRecord>) + Send + 'static,
    ) -> io::Result<()> {
        let records = self.attach(name, WAITING_MAX);
        let records = records.ok_or_else(|| io::Error::other("too many observers already"))?;
        let thread = thread::Builder::new().name(name.to_owned());
        let reader = thread.spawn(move || read(records))?;
        if let Some(tap) = self.0.last_mut() {
            tap.reader = Some(reader);
        }
        Ok(())
    }

    /// Shows a packet's end to all. Never waits.
    pub fn show(&mut self, record: &FateRecord) {
        self.0.retain_mut(|tap| tap.show(record));
    }

    /// How each of them is.
    pub fn statuses(&self) -> Vec<strait_status::Tap> {
        let taps = self.0.iter();
        let status = |tap: &Tap| strait_status::Tap::new((&tap.name, tap.records, tap.dropped));
        taps.map(status).collect()
    }
}

impl Tap {
    /// False once nobody reads it any more.
    fn show(&mut self, record: &FateRecord) -> bool {
        let sent = self.send.as_ref().map(|send| send.try_send(*record));
        match sent {
            Some(Ok(())) => self.records += 1,
            Some(Err(TrySendError::Full(_))) => {
                if self.dropped == 0 {
                    tracing::warn!(tap = self.name, "an observer is slow: records are lost");
                }
                self.dropped += 1;
            }
            Some(Err(TrySendError::Disconnected(_))) | None => return false,
        }
        true
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.send = None;
        // A thread that panicked has said so.
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

impl fmt::Debug for Taps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|tap| &tap.name);
        f.debug_list().entries(names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::delay::DelayParts;
    use strait_core::fate::Fate;
    use strait_core::id::{ClassId, PortId};
    use strait_core::time::Instant;

    fn record(digest: u64) -> FateRecord {
        FateRecord {
            digest,
            began: Instant::ZERO,
            ended: Instant::ZERO,
            octets: 20,
            class: ClassId(0),
            fate: Fate::Delivered(PortId::HOST),
            own: false,
            marked: false,
            parts: DelayParts::default(),
        }
    }

    #[test]
    fn a_tap_that_never_reads_loses_its_own_records_and_no_other() {
        let mut taps = Taps::default();
        let idle = taps.attach("idle", 10).unwrap();
        let quick = taps.attach("quick", 10).unwrap();
        for digest in 0..1000 {
            taps.show(&record(digest));
            assert_eq!(quick.recv().unwrap().digest, digest);
        }
        let [idle_is, quick_is] = &taps.statuses()[..] else {
            panic!("{taps:?}");
        };
        assert_eq!((idle_is.records, idle_is.dropped), (10, 990));
        assert_eq!((quick_is.records, quick_is.dropped), (1000, 0));
        // What waits are the first ones; from then on it goes on.
        assert_eq!(idle.try_iter().count(), 10);
        taps.show(&record(7));
        assert_eq!(idle.recv().unwrap().digest, 7);
    }

    #[test]
    fn what_was_shown_is_read_before_the_taps_end() {
        let (send, seen) = sync_channel(100);
        let mut taps = Taps::default();
        let read = move |records: Receiver<FateRecord>| {
            records.iter().for_each(|it| send.send(it.digest).unwrap());
        };
        taps.attach_thread("file", read).unwrap();
        (0..100).for_each(|digest| taps.show(&record(digest)));
        drop(taps);
        assert_eq!(seen.try_iter().count(), 100);
    }

    #[test]
    fn a_tap_ends_with_its_reader_and_there_are_not_many() {
        let mut taps = Taps::default();
        let all: Vec<_> = (0..TAPS_MAX)
            .map(|_| taps.attach("a", 1).unwrap())
            .collect();
        assert!(taps.attach("b", 1).is_none());
        drop(all);
        taps.show(&record(1));
        assert!(taps.statuses().is_empty());
        assert!(taps.attach("b", 1).is_some());
    }
}
