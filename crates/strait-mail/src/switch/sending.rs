//! A message that is being given to a connection, and its pieces in fewer octets.

use alloc::vec::Vec;

use strait_core::work::Work;

use super::lanes::LaneId;
use crate::client::Offers;
use crate::message::Cuts;
use crate::pack::{self, Before};

/// A piece has so many times as many octets as go on the line, at most: what the next ones get
/// shorter by isn't known.
const REACH_MAX: u64 = 4;
/// Pieces that aren't tried, behind ones that got no shorter.
const RESTS_MAX: u32 = 32;

/// A piece of a text that is being read: by which connection, of which message, from where on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) lane: LaneId,
    pub(super) stream: u64,
    pub(super) id: u64,
    pub(super) offset: u64,
}

/// A message that is being given to a connection.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) id: u64,
    /// Octets of its text that have been read.
    pub(super) offset: u64,
    /// What goes before it.
    pub(super) prefix: Vec<u8>,
    /// What of it isn't sent.
    pub(super) cuts: Cuts,
    /// Its value goes in a field: whoever takes it is no switch of ours.
    pub(super) tunnel: bool,
    /// A piece is being read.
    pub(super) reading: bool,
    /// It rests for a higher one.
    pub(super) paused: bool,
    pub(super) packer: Packer,
}

/// A message's pieces in fewer octets.
#[derive(Debug, Default)]
pub(super) struct Packer {
    pub(super) before: Before,
    /// The piece that is being packed.
    pub(super) piece: Option<Piece>,
    /// Octets of pieces that got shorter, and of what went of them.
    pub(super) packed: (u64, u64),
    /// So many pieces go as they are, behind such that got no shorter; and how many the next time.
    pub(super) rests: u32,
    pub(super) rest: u32,
}

#[derive(Debug)]
pub(super) struct Piece {
    pub(super) octets: Vec<u8>,
    pub(super) folded: Vec<u8>,
    pub(super) last: bool,
}

impl Packer {
    /// How many octets are read for a piece of so many on the line.
    pub(super) fn reach(&self, octets: u64) -> u64 {
        let (text, line) = self.packed;
        let more = octets.saturating_mul(text) / line.max(1);
        more.clamp(octets, octets.saturating_mul(REACH_MAX))
    }

    /// A piece got no shorter.
    pub(super) fn give_up(&mut self) {
        self.rest = (self.rest * 2).clamp(1, RESTS_MAX);
        self.rests = self.rest;
    }
}

impl Sending {
    /// Whether its next piece is tried in fewer octets.
    pub(super) const fn packs(&self, offers: Offers) -> bool {
        offers.packed && !self.tunnel && self.packer.rests == 0
    }

    /// Has a piece packed.
    pub(super) fn pack(&mut self, octets: Vec<u8>, last: bool, dictionary: &[u8]) -> Work {
        self.reading = true;
        let folded = pack::fold(&octets);
        let work = Work::Compress {
            octets: folded.clone(),
            behind: self.packer.before.behind(dictionary),
        };
        self.packer.piece = Some(Piece {
            octets,
            folded,
            last,
        });
        work
    }
}

/// A piece up to the last line that ends in it, unless that is in its first half: lines of base64
/// are whole so.
pub(super) fn whole_lines(octets: &[u8]) -> &[u8] {
    let end = octets.iter().rposition(|it| *it == b'\n');
    let end = end.map_or(octets.len(), |it| it + 1);
    if end * 2 > octets.len() {
        &octets[..end]
    } else {
        octets
    }
}
