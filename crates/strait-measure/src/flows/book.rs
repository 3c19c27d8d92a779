//! What happens is noted here: in MGEN's log, and for the summary.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write as _};
use std::net::SocketAddr;

use strait_core::time::Duration;
use strait_live::clock::wall_ns;
use strait_live::error::{Doing, Error};
use strait_traffic::mgen::{Entry, Line, Protocol, Recv, Send, micros_of_day};
use strait_traffic::{Arrival, arrivals_report, widen};
use strait_wire::mgen::{FLAG_CONTINUES, FLAG_END, Message, MgenError, SentAt};

use super::{Outcome, Sent};

/// Senders and flows that are told apart. Beyond them messages are counted only: somebody else's
/// traffic may come from anywhere.
const TRACKS_MAX: usize = 4096;
/// Messages of which times are kept, 10 million: a day at 115 a second. Beyond them messages are
/// counted only.
const MARKS_MAX: usize = 10_000_000;
/// The version whose logs and messages ours are like.
const VERSION: &str = "5.02b";

/// A flow that arrives here.
#[derive(Default)]
struct Track {
    arrivals: Vec<Arrival>,
    /// The number after the highest so far.
    next: u64,
}

/// The notes of a run.
pub(super) struct Book {
    log: Option<BufWriter<Box<dyn io::Write>>>,
    /// Why the log can't be written any more.
    broken: Option<io::Error>,
    utc_offset_s: i64,
    tracks: BTreeMap<(u32, SocketAddr), Track>,
    marks: usize,
    late_ns: Vec<u32>,
    outcome: Outcome,
}

impl Book {
    pub(super) fn new(log: Option<Box<dyn io::Write>>, utc_offset_s: i64) -> Self {
        Self {
            log: log.map(BufWriter::new),
            broken: None,
            utc_offset_s,
            tracks: BTreeMap::new(),
            marks: 0,
            late_ns: Vec::new(),
            outcome: Outcome::default(),
        }
    }

    pub(super) fn begin(&mut self) -> Result<(), Error> {
        self.write(Entry::Start(VERSION.into()));
        self.flush()
    }

    /// The end of the log, and what came of the run.
    pub(super) fn finish(mut self) -> Result<Outcome, Error> {
        self.write(Entry::Stop);
        self.flush()?;
        let mut outcome = self.outcome;
        for ((flow, src), track) in self.tracks {
            let name = format!("{flow} from {}/{}", src.ip(), src.port());
            outcome
                .received
                .push(arrivals_report(name, &track.arrivals));
        }
        self.late_ns.sort_unstable();
        let late = &self.late_ns;
        if let Some(worst) = late.last() {
            let s = |ns: u32| f64::from(ns) / 1e9;
            outcome.late_s = Some([
                s(late[(late.len() - 1) / 2]),
                s(late[(late.len() - 1) * 99 / 100]),
                s(*worst),
            ]);
        }
        Ok(outcome)
    }

    /// Writes what waits before a longer pause, so that who follows the log sees it.
    pub(super) fn flush_if_idle(&mut self, pause: Duration) -> Result<(), Error> {
        if pause >= Duration::from_millis(50) {
            return self.flush();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        let flushed = self.log.as_mut().map_or(Ok(()), |log| log.flush());
        let broken = self.broken.take();
        broken.map_or(flushed, Err).doing(|| "write the log")
    }

    /// A line of the log, now.
    pub(super) fn write(&mut self, entry: Entry) {
        self.write_at(wall_ns(), entry);
    }

    fn write_at(&mut self, at_ns: u64, entry: Entry) {
        let at_us = self.clock_us(at_ns);
        if let Some(log) = &mut self.log
            && let Err(error) = writeln!(log, "{}", Line { at_us, entry })
        {
            (self.broken, self.log) = (Some(error), None);
        }
    }

    fn clock_us(&self, at_ns: u64) -> u64 {
        micros_of_day(at_ns.saturating_add_signed(self.utc_offset_s * 1_000_000_000))
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.outcome.counters.entry(what).or_default() += 1;
    }

    pub(super) fn note(&mut self, text: String) {
        if !self.outcome.notes.contains(&text) {
            self.outcome.notes.push(text);
        }
    }

    pub(super) fn not_sent(&mut self, flow: u32) {
        self.outcome.sent.entry(flow).or_default().not_sent += 1;
    }

    pub(super) fn late(&mut self, late: Duration) {
        if self.late_ns.len() < MARKS_MAX {
            self.late_ns
                .push(u32::try_from(late.as_nanos()).unwrap_or(u32::MAX));
        }
    }

    pub(super) fn sent(&mut self, at_ns: u64, send: Send) {
        let own: &mut Sent = self.outcome.sent.entry(send.flow).or_default();
        own.messages += 1;
        own.octets += send.octets;
        let first = own.span_ns.map_or(at_ns, |(first, _)| first);
        own.span_ns = Some((first, at_ns));
        self.write_at(at_ns, Entry::Send(send));
    }

    /// A message, or a piece of one; `whole` are the octets of the message if this is its end.
    pub(super) fn received(
        &mut self,
        protocol: Protocol,
        src: SocketAddr,
        message: &Message<'_>,
        octets: u64,
        whole: Option<(u64, SentAt)>,
    ) {
        let at_ns = wall_ns();
        let entry = Entry::Recv(Recv {
            protocol,
            flow: message.flow,
            sequence: message.sequence,
            src,
            dst: message.dst,
            sent_us: self.clock_us(message.sent.as_ns()),
            octets,
            host: message.host,
            position: message.position,
            data: message.data.to_vec(),
            flags: message.flags & (FLAG_CONTINUES | FLAG_END),
        });
        if self.log.is_some() {
            self.write_at(at_ns, entry);
        }
        if let Some((octets, sent)) = whole {
            self.arrived(
                src,
                message,
                Arrival {
                    sequence: 0,
                    sent_ns: sent.as_ns(),
                    at_ns,
                    octets: octets as u32,
                },
            );
        }
    }

    fn arrived(&mut self, src: SocketAddr, message: &Message<'_>, arrival: Arrival) {
        let key = (message.flow, src);
        let known = self.tracks.contains_key(&key) || self.tracks.len() < TRACKS_MAX;
        if !known || self.marks >= MARKS_MAX {
            return self.count("unlogged");
        }
        self.marks += 1;
        let track = self.tracks.entry(key).or_default();
        let low = u64::from(message.sequence);
        let sequence = if track.arrivals.is_empty() {
            low
        } else {
            widen(track.next, low, 32)
        };
        track.next = track.next.max(sequence + 1);
        track.arrivals.push(Arrival {
            sequence,
            ..arrival
        });
    }

    pub(super) fn unusable(&mut self, error: MgenError, src: SocketAddr) {
        let kind = match error {
            MgenError::Length => "length",
            MgenError::Version => "version",
            MgenError::Checksum => "checksum",
            MgenError::Destination => "dstAddr",
        };
        *self.outcome.errors.entry(kind).or_default() += 1;
        self.write(Entry::Rerr(kind.into(), src));
    }
}
