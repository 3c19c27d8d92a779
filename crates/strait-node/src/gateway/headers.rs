//! Header compression at a port: compressor and decompressor of each neighbour, and what is agreed
//! with it.

use alloc::vec::Vec;

use strait_core::stats::{Agreement, PortStats};
use strait_core::{NeighbourId, Packet};
use strait_link::rohc::{Cids, Peer, Received, Settings};
use strait_wire::hello::{self, Hello};

use super::agree::{Offer, Terms};
use crate::config::{Compression, LinkProfile, PortConfig};

/// The highest number of a context.
const CIDS_MAX: u8 = 15;

/// How much longer than its packet what goes in its place may be.
pub(crate) const GROWTH_OCTETS_MAX: usize = Settings::GROWTH_OCTETS_MAX + hello::OCTETS;

/// One neighbour.
#[derive(Debug)]
struct Other {
    terms: Terms,
    /// Both ends of header compression, where this end does it.
    peer: Option<Peer>,
}

impl Other {
    /// Header compression as far as it is agreed.
    fn peer(&mut self) -> Option<&mut Peer> {
        let agreed = self.terms.compresses();
        self.peer.as_mut().filter(|_| agreed)
    }
}

/// Header compression with each neighbour of a port; none on a plain link.
#[derive(Debug, Default)]
pub(super) struct Headers {
    others: Vec<Other>,
    agreement: Agreement,
    /// The packet restored last; its buffer is kept for the next.
    restored: Vec<u8>,
}

impl Headers {
    /// As the port is configured. `incarnation` is another number after each start.
    pub(super) fn new(config: &PortConfig, neighbours: usize, incarnation: u32) -> Self {
        let compresses = config.compression == Compression::Rohc;
        let own = Offer {
            compresses,
            cids_max: CIDS_MAX,
            mtu: u16::try_from(config.mtu.0).unwrap_or(u16::MAX),
        };
        let other = |_| Other {
            terms: Terms::new(own, incarnation),
            peer: compresses.then(|| peer(CIDS_MAX)),
        };
        Self {
            others: match config.profile {
                LinkProfile::Plain => Vec::new(),
                _ => (0..neighbours).map(other).collect(),
            },
            ..Self::default()
        }
    }

    /// Forgets every context: the medium was away, and the other end may be a new one.
    pub(super) fn reset(&mut self) {
        self.agreement = Agreement::None;
        for other in &mut self.others {
            other.terms.reset();
            other.peer.iter_mut().for_each(Peer::reset);
        }
    }

    /// What goes in the place of `packet`, which is about to begin on `stream`, to `to`.
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
        if !other.terms.owes() && !other.terms.compresses() {
            return None;
        }
        let mut carried = Vec::with_capacity(packet.octets() + GROWTH_OCTETS_MAX);
        other.terms.put(&mut carried);
        let Some(peer) = other.peer() else {
            carried.extend_from_slice(packet.bytes());
            return Some(carried);
        };
        let hello_octets = carried.len();
        compress(peer, &mut carried);
        stats.plain_octets += packet.octets() as u64;
        stats.compressed_octets += (carried.len() - hello_octets) as u64;
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
        let carried = match Hello::parse(carried) {
            Some((hello, rest)) => {
                self.agreement = hear(other, hello);
                if rest.is_empty() {
                    return true;
                }
                rest
            }
            None => carried,
        };
        let Some(peer) = other.peer() else {
            // What neither version of IP begins with is compressed.
            let compressed = carried
                .first()
                .is_some_and(|first| !matches!(first >> 4, 4 | 6));
            if compressed {
                other.terms.object();
            } else {
                tell(carried);
            }
            return !compressed;
        };
        self.restored.clear();
        match peer.decompress(carried, &mut self.restored) {
            Ok(Received::Packet) => tell(&self.restored),
            Ok(Received::Nothing) => {}
            Err(_) => return false,
        }
        true
    }

    /// What was agreed last.
    pub(super) const fn agreement(&self) -> Agreement {
        self.agreement
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

    /// Hello and feedback for `to`, as a packet of their own.
    pub(super) fn feedback(&mut self, to: NeighbourId) -> Option<Vec<u8>> {
        let mut note = Vec::new();
        let other = self.others.get_mut(to.index())?;
        other.terms.put(&mut note);
        if let Some(peer) = other.peer() {
            peer.put_feedback(&mut note);
        }
        (!note.is_empty()).then_some(note)
    }
}

fn peer(cids_max: u8) -> Peer {
    Peer::new(Settings::new(Cids::Small(cids_max)))
}

/// Takes in a hello: contexts of another incarnation, or of other terms, are gone.
fn hear(other: &mut Other, hello: Hello) -> Agreement {
    let terms = |other: &Other| (other.terms.compresses(), other.terms.cids_max());
    let before = terms(other);
    let news = other.terms.hear(hello);
    let after = terms(other);
    if let Some(own) = &mut other.peer {
        if before != after {
            *own = peer(after.1);
        }
        if news.restarted {
            own.forget_received();
        }
        if news.deaf {
            own.forget_sent();
        }
        own.agree(other.terms.far_timestamps());
    }
    news.agreement
}
