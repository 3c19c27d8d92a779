//! Putting packets together again that came in fragments, as a host does.

use std::collections::BTreeMap;

use strait_core::{Duration, Instant};
use strait_wire::ip::{Fragment, FragmentOf, join};

/// How long a packet may take to come whole: RFC 8200 section 4.5.
const PATIENCE: Duration = Duration::from_secs(60);
/// Packets of which parts wait at once, the oldest of which goes first.
const WAITING_MAX: usize = 64;

/// Packets of which parts have come.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    waiting: BTreeMap<FragmentOf, Parts>,
}

/// What has come of a packet.
#[derive(Debug)]
struct Parts {
    /// When the first of it came.
    since: Instant,
    /// The packet with the beginning.
    first: Option<Vec<u8>>,
    /// Octets of the whole, by their place.
    pieces: BTreeMap<usize, Vec<u8>>,
    /// Octets of the whole behind its headers, once the last part has come.
    octets: Option<usize>,
}

impl Fragments {
    /// Takes a part; the packet if it was the last that was missing.
    ///
    /// Parts that overlap end all that has come of the packet, as RFC 5722 asks for; the same part
    /// twice does no harm.
    pub(super) fn take(
        &mut self,
        now: Instant,
        fragment: &Fragment,
        bytes: &[u8],
    ) -> Option<Vec<u8>> {
        self.waiting
            .retain(|_, parts| now.since(parts.since) < PATIENCE);
        if self.waiting.len() >= WAITING_MAX && !self.waiting.contains_key(&fragment.of) {
            let oldest = self.waiting.iter().min_by_key(|(_, parts)| parts.since);
            let oldest = *oldest?.0;
            self.waiting.remove(&oldest);
        }
        let parts = self.waiting.entry(fragment.of).or_insert_with(|| Parts {
            since: now,
            first: None,
            pieces: BTreeMap::new(),
            octets: None,
        });
        if !parts.add(fragment, bytes) {
            self.waiting.remove(&fragment.of);
            return None;
        }
        let data = parts.whole()?;
        let parts = self.waiting.remove(&fragment.of)?;
        join(&parts.first?, &data)
    }
}

impl Parts {
    /// Adds a part; false if it contradicts another.
    fn add(&mut self, fragment: &Fragment, bytes: &[u8]) -> bool {
        let data = &bytes[fragment.data.clone()];
        let end = fragment.offset + data.len();
        if self
            .pieces
            .get(&fragment.offset)
            .is_some_and(|piece| piece == data)
        {
            return true;
        }
        let before = self.pieces.range(..end).next_back();
        if before.is_some_and(|(at, piece)| at + piece.len() > fragment.offset) {
            return false;
        }
        if self
            .octets
            .is_some_and(|octets| end > octets || !fragment.more)
        {
            return false;
        }
        if !fragment.more {
            self.octets = Some(end);
        }
        if fragment.offset == 0 {
            self.first = Some(bytes.to_vec());
        }
        self.pieces.insert(fragment.offset, data.to_vec());
        true
    }

    /// Its octets, if none is missing.
    fn whole(&self) -> Option<Vec<u8>> {
        let octets: usize = self.pieces.values().map(Vec::len).sum();
        (self.octets == Some(octets)).then(|| self.pieces.values().flatten().copied().collect())
    }
}
