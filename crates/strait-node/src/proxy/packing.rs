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

/// Octets of commands of SMTP that are before a piece of a text, at most.
const COMMANDS_OCTETS: usize = 512;

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

    /// The same of the message switch, whose texts are packed already: its commands are compressed.
    pub(super) fn pack_mail(
        &mut self,
        stream: &mut Directions,
        pays: bool,
        octets: &[u8],
    ) -> Vec<u8> {
        let (commands, text) = octets.split_at(text_at(octets));
        let mut packed = self.pack(stream, pays, commands);
        let text_packed = stream.packer.plain(text);
        self.octets += text.len() as u64;
        self.octets_line += text_packed.len() as u64;
        packed.extend(text_packed);
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

/// Where a piece of a text begins behind commands of SMTP. It is a guess, which only costs octets
/// where it is wrong.
fn text_at(octets: &[u8]) -> usize {
    let head = &octets[..octets.len().min(COMMANDS_OCTETS)];
    let piece = head.windows(5).position(|it| it == b"BDAT ");
    let end = piece.map(|at| {
        head[at..]
            .iter()
            .position(|it| *it == b'\n')
            .map(|it| at + it + 1)
    });
    match end {
        Some(end) => end.unwrap_or(octets.len()),
        None if octets.len() < COMMANDS_OCTETS => octets.len(),
        None => 0,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_a_text_and_come_whole() {
        let commands = "MAIL FROM:<ops@a.example> MT-PRIORITY=4\r\nRCPT TO:<ops@b.example>\r\n";
        let text: Vec<u8> = (0..700_u32).map(|n| (n * 7919 % 251) as u8).collect();
        let head = [commands.as_bytes(), b"XBDAT 700 LAST\r\n"].concat();
        let whole = [&head[..], &text].concat();
        for (octets, at) in [
            (&whole[..], head.len()),
            (commands.as_bytes(), commands.len()),
            (&text[..], 0),
            (b"XBDAT 7", 7),
            (b"", 0),
        ] {
            assert_eq!(text_at(octets), at, "{octets:?}");
        }
        let mut packing = Packing::new(true, 1);
        let (mut near, mut far) = (Directions::default(), Directions::default());
        let mut lengths = Vec::new();
        for _ in 0..3 {
            let packed = packing.pack_mail(&mut near, true, &whole);
            lengths.push(packed.len() - text.len());
            far.feed(&packed);
            let mut came = Vec::new();
            while !far.is_read() {
                came.extend(packing.unpack(&mut far, 0, 4096).unwrap());
            }
            assert_eq!(came, whole);
        }
        assert!(lengths[0] < head.len() && lengths[2] < 24, "{lengths:?}");
    }
}
