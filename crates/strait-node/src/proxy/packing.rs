//! Which streams are compressed on the line, and what that takes.

use alloc::vec::Vec;

use strait_link::payload;
use strait_proxy::codec::Malformed;
use strait_proxy::pack::{Dictionary, Packer, Unpacker};

/// Directions that are compressed at a time: each takes some 300 KiB. Others go as they are.
pub(super) const PACKED_MAX: usize = 64;
/// Those of a partner that are read at a time: each takes some 50 KiB.
const UNPACKED_MAX: usize = 64;
/// Octets that are read from the session at a time.
pub(super) const READ_OCTETS: usize = 2048;

/// What TLS clients begin with, without what each draws by chance.
const HELLOS: &[u8] = include_bytes!("hellos.bin");

/// What all streams of a proxy share.
#[derive(Debug)]
pub(super) struct Packing {
    dictionary: Dictionary,
    /// Nothing is compressed here, whatever partners do.
    enabled: bool,
    packed: usize,
    /// By partner.
    unpacked: Vec<usize>,
    /// Octets of streams, and those that went for them.
    pub(super) octets: u64,
    pub(super) octets_line: u64,
}

/// Both directions of a stream.
#[derive(Debug, Default)]
pub(super) struct Directions {
    packer: Packer,
    unpacker: Unpacker,
}

impl Packing {
    pub(super) fn new(enabled: bool, partners: usize) -> Self {
        let known = payload::Dictionary::built_in();
        Self {
            dictionary: Dictionary::new(&[known.octets(), HELLOS].concat()),
            enabled,
            packed: 0,
            unpacked: alloc::vec![0; partners],
            octets: 0,
            octets_line: 0,
        }
    }

    /// What goes to a partner for octets of a stream. `pays`: the line is so slow that it pays.
    pub(super) fn pack(&mut self, stream: &mut Directions, pays: bool, octets: &[u8]) -> Vec<u8> {
        let packer = &mut stream.packer;
        let had = packer.has_history();
        let may = self.enabled && (had || pays && self.packed < PACKED_MAX);
        let packed = packer.pack(Some(&self.dictionary).filter(|_| may), octets);
        self.packed += usize::from(packer.has_history() && !had);
        self.octets += octets.len() as u64;
        self.octets_line += packed.len() as u64;
        packed
    }

    /// Nothing more goes.
    pub(super) fn end(&mut self, stream: &mut Directions) {
        self.packed -= usize::from(stream.packer.has_history());
        stream.packer.forget();
    }

    /// The next octets of what came by a partner, at most so many.
    pub(super) fn unpack(
        &mut self,
        stream: &mut Directions,
        partner: usize,
        octets_max: usize,
    ) -> Result<Vec<u8>, Malformed> {
        let (unpacker, unpacked) = (&mut stream.unpacker, &mut self.unpacked[partner]);
        let had = unpacker.has_history();
        let may = had || *unpacked < UNPACKED_MAX;
        let octets = unpacker.take(Some(&self.dictionary).filter(|_| may), octets_max);
        *unpacked += usize::from(unpacker.has_history() && !had);
        octets
    }

    /// A stream is no more.
    pub(super) fn forget(&mut self, mut stream: Directions, partner: usize) {
        self.end(&mut stream);
        self.unpacked[partner] -= usize::from(stream.unpacker.has_history());
    }

    /// Asserts that limits hold.
    pub(super) fn check(&self) {
        let unpacked = self.unpacked.iter().max();
        assert!(self.packed <= PACKED_MAX, "too many are compressed");
        assert!(unpacked <= Some(&UNPACKED_MAX), "too many are read");
    }
}

impl Directions {
    pub(super) fn feed(&mut self, octets: &[u8]) {
        self.unpacker.feed(octets);
    }

    /// Whether what goes is compressed.
    pub(super) const fn is_packed(&self) -> bool {
        self.packer.has_history()
    }

    /// Whether all that came has been read.
    pub(super) fn is_read(&self) -> bool {
        self.unpacker.is_empty()
    }

    /// Whether what comes may end here.
    pub(super) fn is_whole(&self) -> bool {
        self.unpacker.is_whole()
    }
}
