//! What goes in the place of packets at a port: compressor and decompressor of each neighbour, and
//! what is agreed with it.

use alloc::vec::Vec;

use strait_core::stats::{Agreement, PortStats};
use strait_core::{Instant, NeighbourId, Packet};
use strait_link::rohc::{Beyond, Cids, Peer, Provision, Received, Settings};
use strait_wire::hello::{self, Checks, Hello, KnownFlows};
use strait_wire::ip::is_packet;

use super::agree::{Agreed, Offer, Terms};
use crate::config::{Checksums, Compression, ContextConfig, LinkProfile, PortConfig};

/// The highest number of a context.
const CIDS_MAX: u8 = 15;

/// Ahead of a compressed packet that could be taken for one that isn't: ROHC's padding
/// (RFC 5795 section 5.2).
const PADDING: u8 = 0xe0;

/// How much longer than its packet what goes in its place may be.
pub(crate) const GROWTH_OCTETS_MAX: usize = Settings::GROWTH_OCTETS_MAX;

/// The most octets of a note: a hello, or one element of feedback.
pub(super) const NOTE_OCTETS_MAX: usize = if hello::OCTETS_MAX > 16 {
    hello::OCTETS_MAX
} else {
    16
};

/// One neighbour.
#[derive(Debug)]
struct Other {
    terms: Terms,
    /// Both ends of header compression, where this end does it.
    peer: Option<Peer>,
}

impl Other {
    /// Takes in a hello: contexts of another incarnation, or of other terms, are gone.
    fn hear(&mut self, hello: Hello, provisions: &[Provision]) -> Agreement {
        let terms = |terms: &Terms| (terms.decompresses(), terms.cids_max());
        let before = terms(&self.terms);
        let news = self.terms.hear(hello);
        let after = terms(&self.terms);
        if let Some(own) = &mut self.peer {
            if before != after {
                *own = peer(after.1);
            }
            if news.restarted {
                own.reset();
            }
        }
        self.settle(provisions);
        news.agreement
    }

    /// Goes beyond the standard as far as is agreed.
    fn settle(&mut self, provisions: &[Provision]) {
        let further = self.terms.further();
        let known = |known: bool| if known { provisions } else { &[] };
        let beyond = Beyond {
            far_timestamps: further.far_timestamps,
            checksums_rebuilt: further.checksums_rebuilt,
            provisions: known(further.sent_known).into(),
        };
        if let Some(own) = &mut self.peer {
            own.agree(&beyond, known(further.received_known));
        }
    }
}

/// What goes in the place of packets to each neighbour of a port; packets themselves on a plain
/// link.
#[derive(Debug, Default)]
pub(super) struct Headers {
    others: Vec<Other>,
    /// Flows that this end knows beforehand.
    provisions: Vec<Provision>,
    agreement: Agreement,
    /// Hellos have come since somebody asked.
    heard: bool,
    /// The packet restored last; its buffer is kept for the next.
    restored: Vec<u8>,
}

impl Headers {
    /// As the port is configured. `real_time` are the streams of real-time packets; `incarnation`
    /// is another number after each start.
    pub(super) fn new(
        config: &PortConfig,
        neighbours: usize,
        real_time: u8,
        incarnation: u32,
    ) -> Self {
        if config.profile == LinkProfile::Plain {
            return Self::default();
        }
        let provisions = config.context.iter().map(ContextConfig::provision);
        let provisions: Vec<Provision> = provisions.collect();
        let own = offer(config, real_time, Provision::digest(&provisions));
        let other = |_| Other {
            terms: Terms::new(own, incarnation),
            peer: own.compresses.then(|| peer(CIDS_MAX)),
        };
        let mut others: Vec<Other> = (0..neighbours).map(other).collect();
        for other in &mut others {
            other.settle(&provisions);
        }
        Self {
            agreement: first_of(&others),
            others,
            provisions,
            ..Self::default()
        }
    }

    /// Forgets every context: the medium was away, and the other end may be a new one.
    pub(super) fn reset(&mut self) {
        for other in &mut self.others {
            other.terms.reset();
            other.peer.iter_mut().for_each(Peer::reset);
            other.settle(&self.provisions);
        }
        self.agreement = first_of(&self.others);
        self.heard = true;
    }

    /// What goes in the place of `packet`, which is about to begin on `stream`, to `to`; the packet
    /// itself without an answer.
    pub(super) fn carry(
        &mut self,
        to: NeighbourId,
        stream: usize,
        packet: &Packet,
        stats: &mut PortStats,
    ) -> Option<Vec<u8>> {
        self.put(to, packet, stats, |peer, carried| {
            peer.compress(stream as u8, packet.bytes(), carried);
        })
    }

    /// The same without feedback, which would make a packet longer that has to be on time.
    pub(super) fn carry_alone(
        &mut self,
        to: NeighbourId,
        stream: usize,
        packet: &Packet,
        stats: &mut PortStats,
    ) -> Option<Vec<u8>> {
        self.put(to, packet, stats, |peer, carried| {
            peer.compress_alone(stream as u8, packet.bytes(), carried);
        })
    }

    fn put(
        &mut self,
        to: NeighbourId,
        packet: &Packet,
        stats: &mut PortStats,
        compress: impl FnOnce(&mut Peer, &mut Vec<u8>),
    ) -> Option<Vec<u8>> {
        let other = self.others.get_mut(to.index())?;
        other.terms.begin();
        let peer = other.peer.as_mut().filter(|_| other.terms.compresses())?;
        let mut carried = Vec::with_capacity(packet.octets() + GROWTH_OCTETS_MAX);
        compress(peer, &mut carried);
        if is_packet(&carried) {
            carried.insert(0, PADDING);
        }
        stats.plain_octets += packet.octets() as u64;
        stats.compressed_octets += carried.len() as u64;
        Some(carried)
    }

    /// Tells the packet that `carried`, which came from `from`, stands for. Says whether all went
    /// well; hellos and feedback alone stand for none.
    pub(super) fn restore(
        &mut self,
        from: NeighbourId,
        carried: &[u8],
        tell: impl FnOnce(&[u8]),
    ) -> bool {
        let Some(other) = self.others.get_mut(from.index()) else {
            tell(carried);
            return true;
        };
        // Whatever is agreed: an end that has just started doesn't know of it yet.
        if is_packet(carried) {
            tell(carried);
            return true;
        }
        if carried.first() == Some(&hello::MARK) {
            let Some(hello) = Hello::parse(carried) else {
                return false;
            };
            self.agreement = other.hear(hello, &self.provisions);
            self.heard = true;
            return true;
        }
        let Some(peer) = other.peer.as_mut().filter(|_| other.terms.decompresses()) else {
            other.terms.object();
            return false;
        };
        self.restored.clear();
        match peer.decompress(carried, &mut self.restored) {
            Ok(Received::Packet) => tell(&self.restored),
            Ok(Received::Nothing) => {}
            Err(_) => return false,
        }
        true
    }

    /// What came from `from` can't be read, perhaps as something else is agreed there.
    pub(super) fn object(&mut self, from: NeighbourId) {
        if let Some(other) = self.others.get_mut(from.index()) {
            other.terms.object();
        }
    }

    /// What came from `from` is spoilt; see [`Terms::wonder`].
    pub(super) fn wonder(&mut self, now: Instant, from: NeighbourId) {
        if let Some(other) = self.others.get_mut(from.index()) {
            other.terms.wonder(now);
        }
    }

    /// What was agreed last.
    pub(super) const fn agreement(&self) -> Agreement {
        self.agreement
    }

    /// Whether anything may be agreed otherwise since this was asked before.
    pub(super) const fn take_heard(&mut self) -> bool {
        core::mem::replace(&mut self.heard, false)
    }

    /// The checks to use with a neighbour, where they are agreed.
    pub(super) fn agreed(&self, with: NeighbourId) -> Option<Agreed> {
        let other = self.others.get(with.index())?;
        Some(other.terms.agreed())
    }

    /// The largest packet that every neighbour takes, if it is less than `mtu`.
    pub(super) fn mtu(&self, mtu: usize) -> usize {
        let told = self.others.iter().filter_map(|other| other.terms.mtu());
        told.map(usize::from).fold(mtu, usize::min)
    }

    /// A neighbour that waits for a hello or for feedback.
    pub(super) fn owed(&self) -> Option<NeighbourId> {
        let owes = |other: &Other| {
            let feedback = other.peer.as_ref().is_some_and(Peer::owes_feedback);
            other.terms.owes() || feedback && other.terms.compresses()
        };
        let number = self.others.iter().position(owes)?;
        Some(NeighbourId(number as u16))
    }

    /// Whether a hello goes to `to` before the next packet begins.
    pub(super) fn is_ahead(&self, now: Instant, to: NeighbourId) -> bool {
        let other = self.others.get(to.index());
        other.is_some_and(|other| other.terms.is_ahead(now))
    }

    /// A hello or feedback for `to`, in the place of a packet.
    pub(super) fn note(&mut self, now: Instant, to: NeighbourId) -> Option<Vec<u8>> {
        let mut note = Vec::new();
        let other = self.others.get_mut(to.index())?;
        if other.terms.owes() || other.terms.is_ahead(now) {
            other.terms.put(now, &mut note);
        } else if other.terms.compresses() {
            other.peer.as_mut()?.put_feedback(&mut note);
        }
        (!note.is_empty()).then_some(note)
    }
}

/// What this end offers by its configuration.
fn offer(config: &PortConfig, real_time: u8, known: u32) -> Offer {
    let compresses = config.compression == Compression::Rohc;
    let others_short = config.check == Some(16);
    let urgent = config.urgent_check().is_some();
    Offer {
        compresses,
        cids_max: CIDS_MAX,
        mtu: u16::try_from(config.mtu.0).unwrap_or(u16::MAX),
        checks: Checks {
            real_time_short: config.check_urgent != Some(32),
            others_short,
            urgent,
            real_time_streams: real_time,
        },
        checksums_rebuilt: config.checksums == Checksums::Rebuild,
        known: KnownFlows {
            sent: known,
            received: known,
        },
        asks: compresses || others_short || config.check_urgent.is_some() || urgent,
        way_back: config.way_back,
    }
}

fn first_of(others: &[Other]) -> Agreement {
    let first = others.first();
    first.map_or(Agreement::None, |other| other.terms.agreement())
}

fn peer(cids_max: u8) -> Peer {
    Peer::new(Settings::new(Cids::Small(cids_max)))
}
