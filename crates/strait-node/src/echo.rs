//! A service that sends back what it gets, over TCP and UDP (RFC 862): the example of a part of a
//! node that has streams, sockets and stored values of its own.
//!
//! It owns what it asks for: the gateway gives it an [`Owner`], and hands it whatever happens to
//! things with that owner. It declares its sockets once, and the driver goes on trying to have
//! them.
//!
//! **Credit** couples both directions of a stream: for each octet that may be written, one may be
//! read. So whatever came can go back, no more than the stream's [`Held`] is here at a time, and a
//! client that doesn't read isn't read from.
//!
//! **Ends** are echoed, too: behind the client's last octets goes the end of ours.
//!
//! **Clients** that aren't allowed are refused before they have a connection: with `ask`, the
//! service hears of each first.
//!
//! **TLS**: with `tls`, each stream is secured before anything goes back on it: as soon as it has
//! opened, or with `starttls` behind the client's word. Whatever came in the clear behind that word
//! may be somebody else's, and ends the stream.
//!
//! **Storage**: with `store`, octets are put on stable storage, fetched when their time has come,
//! and deleted. What can't be stored ends its stream.
//!
//! **Work** for another thread: what is stored is compressed, behind the digest of what it was;
//! what is fetched has to have that again.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::node::{
    Bind, DatagramMeta, Held, Listen, Owner, SocketId, SocketOp, StoreError, StoreOp, StreamEvent,
    StreamId, StreamOp, Ticket,
};
use strait_core::stats::EchoStats;
use strait_core::stream_ledger::ResetCause;
use strait_core::tls::{TlsFault, TlsRole};
use strait_core::work::{DIGEST_OCTETS, Work, WorkError};
use strait_core::{Duration, Effect, Input, Instant};

use crate::Prefix;
use crate::config::{EchoConfig, EchoRefusal};

/// The numbers of its sockets.
const STREAMS: u32 = 0;
const DATAGRAMS: u32 = 1;

/// How long a client waits for the service's word, which comes at once.
const ANSWER: Duration = Duration::from_secs(5);

/// With `hold`, at least so much may wait on a stream.
const HELD_MIN: u32 = 4096;

/// Octets of datagrams that wait: as many as an ordinary socket's buffer takes.
const DATAGRAM_OCTETS_MAX: usize = 208 * 1024;

/// Its values in the storage begin like this; a number follows.
const KEY: &[u8] = b"echo/";

/// Errors of streams whose octets can't be stored.
const INPUT_OUTPUT: i32 = 5;
const NO_SPACE: i32 = 28;
const NO_BUFFERS: i32 = 105;

/// Pieces of a stream that wait one by one; what comes then waits together.
const PIECES_MAX: usize = 64;

/// Where octets that came are. Stored is their digest, and behind it what they were compressed to.
#[derive(Debug)]
enum Place {
    Here(Vec<u8>),
    /// On the way to the storage: the digest is being made.
    Digesting(Vec<u8>),
    /// The same: they are being compressed.
    Packing(Vec<u8>),
    /// In the storage, with so many octets, or about to be.
    Stored {
        key: u64,
        octets: usize,
    },
    /// Asked back from there: what has come so far.
    Loading {
        key: u64,
        octets: usize,
        bytes: Vec<u8>,
    },
    /// Being decompressed, to have this digest.
    Unpacking {
        key: u64,
        digest: Vec<u8>,
    },
    /// Their digest is being made again.
    Checking {
        key: u64,
        digest: Vec<u8>,
        bytes: Vec<u8>,
    },
}

/// What came at once, and when it goes back.
#[derive(Debug)]
struct Piece {
    due: Instant,
    octets: usize,
    /// The ticket without which nothing can be done with it.
    awaits: Option<u64>,
    place: Place,
}

impl Piece {
    /// When something is to be done with it.
    fn wake(&self) -> Option<Instant> {
        self.awaits.is_none().then_some(self.due)
    }

    /// Its number in the storage.
    const fn key(&self) -> Option<u64> {
        match self.place {
            Place::Here(_) | Place::Digesting(_) | Place::Packing(_) => None,
            Place::Stored { key, .. }
            | Place::Loading { key, .. }
            | Place::Unpacking { key, .. }
            | Place::Checking { key, .. } => Some(key),
        }
    }

    const fn is_on_its_way(&self) -> bool {
        matches!(self.place, Place::Digesting(_) | Place::Packing(_))
    }
}

/// How far a connection is that is to be secured.
#[derive(Debug, Default, PartialEq, Eq)]
enum Safety {
    /// As far as it is to be.
    #[default]
    Enough,
    /// In the clear, until the client asks for more: what it has said so far.
    Clear(Vec<u8>),
    /// TLS begins.
    Beginning,
    Secured,
}

/// A connection.
#[derive(Debug, Default)]
struct Stream {
    safety: Safety,
    pieces: VecDeque<Piece>,
    /// What is to be stored and isn't a piece yet.
    fresh: Vec<u8>,
    fresh_due: Instant,
    /// The client sends no more; ours ends behind what waits.
    ending: bool,
}

impl Stream {
    /// Octets that wait.
    fn held(&self) -> u64 {
        let pieces = self.pieces.iter().map(|piece| piece.octets as u64);
        pieces.sum::<u64>() + self.fresh.len() as u64
    }
}

#[derive(Debug)]
struct Datagram {
    due: Instant,
    meta: DatagramMeta,
    bytes: Vec<u8>,
}

/// The service.
#[derive(Debug)]
pub(crate) struct Echo {
    owner: Owner,
    delay: Duration,
    /// Octets wait on stable storage.
    stores: bool,
    hold: Option<Duration>,
    held: Held,
    /// Clients get answers with their own code point.
    mirrors: bool,
    /// Whose clients may connect, everybody's if empty, and what others hear.
    allow: Vec<Prefix>,
    refuse: EchoRefusal,
    /// The profile of TLS that connections are secured by, if they are.
    tls: Option<String>,
    /// Not before the client asks.
    starttls: bool,
    streams: BTreeMap<StreamId, Stream>,
    datagrams: VecDeque<Datagram>,
    datagram_octets: usize,
    effects: VecDeque<Effect>,
    /// Tickets so far.
    tickets: u64,
    stats: EchoStats,
}

impl Echo {
    /// A service that finds `keys` in the storage: what an earlier one left behind is deleted.
    pub(crate) fn new<'a>(
        owner: Owner,
        config: &EchoConfig,
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> Self {
        let zero = |time: Option<strait_core::units::Time>| time.map_or(Duration::ZERO, |it| it.0);
        let mut echo = Self {
            owner,
            delay: zero(config.delay),
            stores: config.store,
            hold: config.hold.map(|time| time.0),
            held: Held::ORDINARY,
            mirrors: config.dscp.is_none(),
            allow: config.allow.clone(),
            refuse: config.refuse.unwrap_or_default(),
            tls: config.tls.clone(),
            starttls: config.starttls,
            streams: BTreeMap::new(),
            datagrams: VecDeque::new(),
            datagram_octets: 0,
            effects: VecDeque::new(),
            tickets: 0,
            stats: EchoStats::default(),
        };
        let left: Vec<StoreOp> = keys
            .filter(|key| key.starts_with(KEY))
            .map(|key| StoreOp::Delete(key.to_vec()))
            .collect();
        if !left.is_empty() {
            let ticket = echo.next_ticket();
            echo.store(ticket, left);
        }
        echo.declare(config);
        echo
    }

    fn declare(&mut self, config: &EchoConfig) {
        let listen = |address| Listen {
            dscp: config.dscp.map_or(0, strait_qos::Dscp::number),
            held: self.held,
            asks: config.ask.then_some(ANSWER),
            ..Listen::at(address)
        };
        let bind = |address| Bind {
            address,
            group: None,
            transparent: false,
        };
        let sockets = [
            (
                STREAMS,
                config.listen.map(|it| SocketOp::Listen(listen(it))),
            ),
            (
                DATAGRAMS,
                config.datagrams.map(|it| SocketOp::Bind(bind(it))),
            ),
        ];
        for (n, op) in sockets {
            let owner = self.owner;
            let id = SocketId { owner, n };
            self.effects.extend(op.map(|op| Effect::Socket { id, op }));
        }
    }

    pub(crate) const fn stats(&self) -> &EchoStats {
        &self.stats
    }

    /// The slowest link's rate, in bit/s, is now this; `None` if no link is up.
    pub(crate) fn set_rate(&mut self, bit_s: Option<u64>) {
        let Some((hold, bit_s)) = self.hold.zip(bit_s) else {
            return;
        };
        let held = Held::by_time(bit_s, hold, HELD_MIN);
        if held == self.held {
            return;
        }
        self.held = held;
        for id in self.streams.keys().copied().collect::<Vec<_>>() {
            self.operate(id, StreamOp::Hold(held));
        }
    }

    /// Something happened to something of its own.
    pub(crate) fn hear(&mut self, now: Instant, input: &Input<'_>) {
        match *input {
            Input::Stream { id, event } => self.hear_stream(now, id, event),
            Input::Datagram { meta, bytes, .. } => self.hear_datagram(now, meta, bytes),
            Input::Stored { ticket, result } => self.hear_stored(ticket, result),
            Input::Loaded { ticket, result } => self.hear_loaded(ticket, result),
            Input::Worked { ticket, result } => self.hear_worked(ticket, result),
            // Who can't come yet comes later.
            _ => {}
        }
        self.send_due(now);
    }

    /// Sends back what is due.
    pub(crate) fn send_due(&mut self, now: Instant) {
        for id in self.streams.keys().copied().collect::<Vec<_>>() {
            self.advance(now, id);
        }
        while let Some(datagram) = self.datagrams.pop_front_if(|it| it.due <= now) {
            self.datagram_octets -= datagram.bytes.len();
            self.stats.datagrams += 1;
            let socket = SocketId {
                owner: self.owner,
                n: DATAGRAMS,
            };
            self.effects.push_back(Effect::Datagram {
                socket,
                meta: datagram.meta,
                bytes: datagram.bytes,
            });
        }
    }

    pub(crate) fn wake(&self) -> Option<Instant> {
        let pieces = self.streams.values().filter_map(|it| it.pieces.front());
        let datagram = self.datagrams.front().map(|it| it.due);
        pieces.filter_map(Piece::wake).chain(datagram).min()
    }

    pub(crate) fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    fn hear_stream(&mut self, now: Instant, id: StreamId, event: StreamEvent<'_>) {
        if let StreamEvent::Asked { src, .. } = event {
            return self.judge(id, src.ip());
        }
        if let StreamEvent::Opened { dscp, .. } = event {
            self.stats.streams.opened += 1;
            self.streams.insert(id, Stream::default());
            if self.mirrors && dscp != 0 {
                self.operate(id, StreamOp::Mark(dscp));
            }
            if self.held != Held::ORDINARY {
                self.operate(id, StreamOp::Hold(self.held));
            }
            if self.starttls {
                self.set_safety(id, Safety::Clear(Vec::new()));
            } else {
                self.secure(id);
            }
        }
        if !self.streams.contains_key(&id) {
            return;
        }
        match event {
            StreamEvent::Asked { .. } | StreamEvent::Opened { .. } => {}
            StreamEvent::Secured { .. } => {
                self.stats.tls.secured += 1;
                self.set_safety(id, Safety::Secured);
            }
            StreamEvent::Data(bytes) => self.hear_octets(now, id, bytes),
            StreamEvent::Writable(octets) => self.operate(id, StreamOp::Credit(octets)),
            StreamEvent::Fin => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.ending = true;
                }
            }
            StreamEvent::Reset(number) => match TlsFault::of(number) {
                Some(fault) => self.fail(id, fault),
                None => self.reset(id, ResetCause::Peer),
            },
        }
    }

    fn set_safety(&mut self, id: StreamId, safety: Safety) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.safety = safety;
        }
    }

    /// Has TLS begin on a stream, if it is to.
    fn secure(&mut self, id: StreamId) {
        let Some(profile) = self.tls.clone() else {
            return;
        };
        self.set_safety(id, Safety::Beginning);
        let role = TlsRole::Server;
        self.operate(id, StreamOp::StartTls { profile, role });
    }

    fn hear_octets(&mut self, now: Instant, id: StreamId, bytes: &[u8]) {
        match self.streams.get_mut(&id).map(|stream| &mut stream.safety) {
            None => {}
            Some(Safety::Enough | Safety::Secured) => self.take(now, id, bytes),
            Some(Safety::Clear(said)) => {
                said.extend_from_slice(bytes);
                let asks = EchoConfig::STARTTLS;
                if said == asks {
                    let answer = EchoConfig::STARTTLS_ANSWER.to_vec();
                    self.operate(id, StreamOp::Send(answer));
                    self.secure(id);
                } else if !asks.starts_with(said) {
                    self.refuse_clear(id);
                }
            }
            Some(Safety::Beginning) => self.refuse_clear(id),
        }
    }

    /// Ends a stream that has octets in the clear where none may be.
    fn refuse_clear(&mut self, id: StreamId) {
        self.operate(id, StreamOp::Reset(TlsFault::Clear.number()));
        self.fail(id, TlsFault::Clear);
    }

    /// A stream isn't secured, or not any longer.
    fn fail(&mut self, id: StreamId, fault: TlsFault) {
        self.stats.tls.fail(fault);
        self.reset(id, ResetCause::Tls);
    }

    /// Says who may have a connection.
    fn judge(&mut self, id: StreamId, client: IpAddr) {
        let open = self.allow.is_empty();
        if open || self.allow.iter().any(|it| it.contains(client)) {
            return self.operate(id, StreamOp::Accept);
        }
        self.stats.refused += 1;
        self.operate(id, StreamOp::Refuse(self.refuse.how()));
    }

    fn take(&mut self, now: Instant, id: StreamId, bytes: &[u8]) {
        let due = now + self.delay;
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        self.stats.streams.taken += bytes.len() as u64;
        if self.stores {
            stream.fresh.extend_from_slice(bytes);
            stream.fresh_due = due;
            return self.pack(id);
        }
        let joins = stream.pieces.len() >= PIECES_MAX;
        if let Some(last) = stream.pieces.back_mut().filter(|_| joins)
            && let Place::Here(waiting) = &mut last.place
        {
            waiting.extend_from_slice(bytes);
            (last.octets, last.due) = (waiting.len(), due);
            return;
        }
        stream.pieces.push_back(Piece {
            due,
            octets: bytes.len(),
            awaits: None,
            place: Place::Here(bytes.to_vec()),
        });
    }

    /// Sends what came on its way to the storage, behind what came before.
    fn pack(&mut self, id: StreamId) {
        let next = self.next_ticket();
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let busy = stream.pieces.back().is_some_and(Piece::is_on_its_way);
        if busy || stream.fresh.is_empty() || stream.pieces.len() >= PIECES_MAX {
            return;
        }
        let bytes = core::mem::take(&mut stream.fresh);
        stream.pieces.push_back(Piece {
            due: stream.fresh_due,
            octets: bytes.len(),
            awaits: Some(next.n),
            place: Place::Digesting(bytes.clone()),
        });
        self.work(next, Work::Digest(bytes));
    }

    /// Moves a stream on: sends, or fetches, its first pieces, and ends it behind the last.
    fn advance(&mut self, now: Instant, id: StreamId) {
        while let Some(stream) = self.streams.get_mut(&id) {
            let Some(piece) = stream.pieces.front_mut() else {
                if stream.ending && stream.fresh.is_empty() {
                    self.operate(id, StreamOp::Fin);
                    self.stats.streams.ended += 1;
                    self.forget(id);
                }
                return;
            };
            if piece.wake().is_none_or(|due| due > now) {
                return;
            }
            let Place::Here(bytes) = &mut piece.place else {
                return self.fetch(id);
            };
            let bytes = core::mem::take(bytes);
            stream.pieces.pop_front();
            self.stats.streams.delivered += bytes.len() as u64;
            self.operate(id, StreamOp::Send(bytes));
            self.pack(id);
        }
    }

    /// Asks for a stream's first piece, or for the next chunk of it.
    fn fetch(&mut self, id: StreamId) {
        let ticket = self.next_ticket();
        let stream = self.streams.get_mut(&id);
        let Some(piece) = stream.and_then(|stream| stream.pieces.front_mut()) else {
            return;
        };
        if let Place::Stored { key, octets } = piece.place {
            let bytes = Vec::new();
            piece.place = Place::Loading { key, octets, bytes };
        }
        let Place::Loading { key, octets, bytes } = &piece.place else {
            return;
        };
        piece.awaits = Some(ticket.n);
        self.effects.push_back(Effect::Load {
            ticket,
            key: name(*key),
            offset: bytes.len() as u64,
            octets: u32::try_from(octets - bytes.len()).unwrap_or(u32::MAX),
        });
    }

    fn hear_stored(&mut self, ticket: Ticket, result: Result<(), StoreError>) {
        let Some((id, piece)) = self.awaiting(ticket) else {
            return;
        };
        match result {
            Ok(()) => piece.awaits = None,
            Err(error) => self.give_up(id, error),
        }
    }

    fn hear_loaded(&mut self, ticket: Ticket, result: Result<Option<&[u8]>, StoreError>) {
        let next = self.next_ticket();
        let Some((id, piece)) = self.awaiting(ticket) else {
            return;
        };
        let Place::Loading { key, octets, bytes } = &mut piece.place else {
            return;
        };
        match result {
            Ok(Some(chunk @ [_, ..])) => bytes.extend_from_slice(chunk),
            // Nobody else takes it away.
            Ok(_) => return self.give_up(id, StoreError::Failed),
            Err(error) => return self.give_up(id, error),
        }
        if bytes.len() < *octets {
            return self.fetch(id);
        }
        let key = *key;
        let mut digest = core::mem::take(bytes);
        let frame = digest.split_off(DIGEST_OCTETS.min(digest.len()));
        piece.place = Place::Unpacking { key, digest };
        piece.awaits = Some(next.n);
        let work = Work::Decompress {
            octets: frame,
            octets_max: u32::try_from(piece.octets).unwrap_or(u32::MAX),
            behind: Vec::new(),
        };
        self.work(next, work);
    }

    fn hear_worked(&mut self, ticket: Ticket, result: Result<&[u8], WorkError>) {
        let next = self.next_ticket();
        let Some((id, piece)) = self.awaiting(ticket) else {
            return;
        };
        let given = match result {
            Ok(octets) => octets.to_vec(),
            Err(WorkError::Busy) => return self.give_up(id, StoreError::Busy),
            // What was put there isn't what comes from there.
            Err(_) => return self.give_up(id, StoreError::Failed),
        };
        piece.awaits = Some(next.n);
        match core::mem::replace(&mut piece.place, Place::Here(Vec::new())) {
            Place::Digesting(bytes) => {
                piece.place = Place::Packing(given);
                let work = Work::Compress {
                    octets: bytes,
                    behind: Vec::new(),
                };
                self.work(next, work);
            }
            Place::Packing(digest) => {
                let value = [digest, given].concat();
                let (key, octets) = (next.n, value.len());
                piece.place = Place::Stored { key, octets };
                self.stats.stored += octets as u64;
                self.store(next, alloc::vec![StoreOp::Put(name(key), value)]);
                self.pack(id);
            }
            Place::Unpacking { key, digest } => {
                let bytes = given.clone();
                piece.place = Place::Checking { key, digest, bytes };
                self.work(next, Work::Digest(given));
            }
            Place::Checking { key, digest, bytes } if digest == given => {
                piece.place = Place::Here(bytes);
                piece.awaits = None;
                self.store(next, alloc::vec![StoreOp::Delete(name(key))]);
            }
            place => {
                // Still there, to be deleted.
                piece.place = place;
                self.give_up(id, StoreError::Failed);
            }
        }
    }

    /// The piece that waits for a ticket.
    fn awaiting(&mut self, ticket: Ticket) -> Option<(StreamId, &mut Piece)> {
        self.streams.iter_mut().find_map(|(id, stream)| {
            let mut pieces = stream.pieces.iter_mut();
            let piece = pieces.find(|piece| piece.awaits == Some(ticket.n))?;
            Some((*id, piece))
        })
    }

    /// Ends a stream whose octets are lost.
    fn give_up(&mut self, id: StreamId, error: StoreError) {
        let (number, cause) = match error {
            StoreError::Full => (NO_SPACE, ResetCause::StorageFull),
            StoreError::Busy => (NO_BUFFERS, ResetCause::StorageBusy),
            StoreError::Absent | StoreError::Failed => (INPUT_OUTPUT, ResetCause::StorageFailed),
        };
        self.operate(id, StreamOp::Reset(number));
        self.reset(id, cause);
    }

    /// A stream is over before its time, with what it holds.
    fn reset(&mut self, id: StreamId, cause: ResetCause) {
        let held = self.streams.get(&id).map_or(0, Stream::held);
        self.stats.streams.reset(cause, held);
        self.forget(id);
    }

    /// Asserts that each octet taken is delivered, held, or lost by a reset.
    pub(crate) fn check(&self) {
        let held = self.streams.values().map(Stream::held).sum();
        let books = &self.stats.streams;
        let right = books.balanced(self.streams.len() as u64, held);
        assert!(
            right,
            "octets of streams are lost, or twice: {books:?}, {held} held"
        );
    }

    /// A stream is over: nothing of it stays in the storage.
    fn forget(&mut self, id: StreamId) {
        let Some(stream) = self.streams.remove(&id) else {
            return;
        };
        let keys = stream.pieces.iter().filter_map(Piece::key);
        let deletes: Vec<StoreOp> = keys.map(|key| StoreOp::Delete(name(key))).collect();
        if !deletes.is_empty() {
            let ticket = self.next_ticket();
            self.store(ticket, deletes);
        }
    }

    fn hear_datagram(&mut self, now: Instant, meta: DatagramMeta, bytes: &[u8]) {
        // Two echoes would never end.
        let is_echo = meta.src.port() == meta.dst.port();
        let octets = self.datagram_octets + bytes.len();
        if is_echo || octets > DATAGRAM_OCTETS_MAX {
            self.stats.datagrams_dropped += 1;
            return;
        }
        self.datagram_octets = octets;
        self.datagrams.push_back(Datagram {
            due: now + self.delay,
            meta: DatagramMeta {
                src: meta.dst,
                dst: meta.src,
                ..meta
            },
            bytes: bytes.to_vec(),
        });
    }

    fn operate(&mut self, id: StreamId, op: StreamOp) {
        self.effects.push_back(Effect::Stream { id, op });
    }

    fn store(&mut self, ticket: Ticket, batch: Vec<StoreOp>) {
        self.effects.push_back(Effect::Store { ticket, batch });
    }

    fn work(&mut self, ticket: Ticket, work: Work) {
        self.effects.push_back(Effect::Work { ticket, work });
    }

    const fn next_ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket {
            owner: self.owner,
            n: self.tickets,
        }
    }
}

/// What a piece is stored under.
fn name(key: u64) -> Vec<u8> {
    [KEY, format!("{key:020}").as_bytes()].concat()
}

#[cfg(test)]
#[path = "echo_tests.rs"]
mod tests;
