//! Writing a journal.

use alloc::vec::Vec;

use strait_core::node::Boot;
use strait_core::{Input, Instant, PortId, Room, TxMeta};

use super::codec::{Put, frame, framed_octets};
use super::{EndCause, FLAG_MASKED, MAGIC, PROGRAM, VERSION, input, kind};

/// How a journal is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalSettings {
    /// Size at which the journal ends, in octets. The header and the ending record are written in
    /// any case.
    pub octets_max: u64,
    /// Write lengths in place of what users said to each other.
    pub mask_payloads: bool,
}

/// Appends to a journal in the caller's hands, which may write it out and empty it at any time.
#[derive(Debug)]
pub struct JournalWriter {
    settings: JournalSettings,
    written: u64,
    /// Time of the record before.
    last: Instant,
    ended: bool,
    body: Vec<u8>,
}

/// The longest record that ends a journal.
const ENDED_OCTETS_MAX: u64 = framed_octets(1 + 10 + 1) as u64;

impl JournalWriter {
    /// Begins a journal of a node with this configuration, the text of
    /// [`NodeConfig::to_text`](crate::NodeConfig::to_text).
    pub fn new(settings: JournalSettings, config: &str, boot: &Boot, out: &mut Vec<u8>) -> Self {
        let before = out.len();
        out.extend_from_slice(&MAGIC);
        out.push(VERSION);
        let mut body = Vec::new();
        put_header(&mut body, settings.mask_payloads, config, boot);
        frame(&body, out);
        Self {
            settings,
            written: (out.len() - before) as u64,
            last: Instant::ZERO,
            ended: false,
            body,
        }
    }

    /// The journal has ended: nothing more is appended.
    pub const fn is_ended(&self) -> bool {
        self.ended
    }

    /// Octets so far.
    pub const fn written_octets(&self) -> u64 {
        self.written
    }

    /// The node is given `input`.
    pub fn input(&mut self, now: Instant, input: &Input<'_>, out: &mut Vec<u8>) {
        self.record(now, input::kind_of(input), out, |put, _| {
            input::put(put, input);
        });
    }

    /// The node was pulled with `room` and gave `octets`.
    pub fn pulled(
        &mut self,
        now: Instant,
        port: PortId,
        room: Room,
        meta: &TxMeta,
        octets: &[u8],
        out: &mut Vec<u8>,
    ) {
        self.record(now, input::kind_of_pull(room), out, |put, now| {
            input::put_pull(put, now, port, room, meta);
            put.payload(octets);
        });
    }

    /// Ends the journal: its node stops.
    pub fn close(&mut self, now: Instant, out: &mut Vec<u8>) {
        if !self.ended {
            self.end(now, EndCause::Closed, out);
        }
    }

    fn record(
        &mut self,
        now: Instant,
        kind: u8,
        out: &mut Vec<u8>,
        content: impl FnOnce(&mut Put<'_>, Instant),
    ) {
        if self.ended {
            return;
        }
        // Time never goes back; if a driver's did, the order of the records is what counts.
        let now = now.max(self.last);
        self.begin(now, kind);
        let mut put = Put {
            out: &mut self.body,
            masked: self.settings.mask_payloads,
        };
        content(&mut put, now);
        let octets = framed_octets(self.body.len()) as u64;
        if self.written + octets + ENDED_OCTETS_MAX > self.settings.octets_max {
            return self.end(now, EndCause::Limit, out);
        }
        self.append(now, out);
    }

    fn end(&mut self, now: Instant, cause: EndCause, out: &mut Vec<u8>) {
        let now = now.max(self.last);
        self.begin(now, kind::ENDED);
        self.body.push(match cause {
            EndCause::Closed => 0,
            EndCause::Limit => 1,
        });
        self.append(now, out);
        self.ended = true;
    }

    fn begin(&mut self, now: Instant, kind: u8) {
        self.body.clear();
        self.body.push(kind);
        let mut put = Put {
            out: &mut self.body,
            masked: false,
        };
        put.number(now.as_nanos() - self.last.as_nanos());
    }

    fn append(&mut self, now: Instant, out: &mut Vec<u8>) {
        frame(&self.body, out);
        self.written += framed_octets(self.body.len()) as u64;
        self.last = now;
    }
}

fn put_header(body: &mut Vec<u8>, masked: bool, config: &str, boot: &Boot) {
    let mut put = Put { out: body, masked };
    put.octets(PROGRAM.as_bytes());
    put.octet(if masked { FLAG_MASKED } else { 0 });
    put.octets(config.as_bytes());
    put.number(u64::from(boot.incarnation));
    put.number(boot.entropy);
    put.flag(boot.wall.is_some());
    if let Some(wall) = boot.wall {
        put.number(wall.0);
    }
    put.number(boot.stored.len() as u64);
    for (key, octets) in &boot.stored {
        put.payload(key);
        put.number(*octets);
    }
}
