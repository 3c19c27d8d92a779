//! Payloads made shorter: what goes in the place of a packet, compressed by DEFLATE (RFC 1951)
//! behind a dictionary that both ends have.
//!
//! Each packet is compressed for itself, so that a lost one spoils no other, and what a compressor
//! can learn from packets before comes from the [`Dictionary`] instead: headers of HTTP, mail and
//! SIP, marks of HTML, XML and JSON, names of DNS, common words. A packet that doesn't get shorter
//! goes as it is, and costs nothing on the line. Flows that don't are left alone for a while: what
//! is encrypted, or compressed already, isn't tried again each time.

mod flows;

use alloc::boxed::Box;
use alloc::vec::Vec;

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use strait_wire::check::Crc32Sum;
use strait_wire::ip::PacketInfo;

use flows::Flows;

/// The first octet of what is compressed: no IP packet begins so, and no ROHC packet but segments
/// of such, which nobody sends (RFC 5795 section 5.2).
pub const MARK: u8 = 0xff;

/// Shorter than this, hardly anything gets shorter.
const OCTETS_MIN: usize = 40;

/// The compressor's effort, of 10: more takes longer and gains nothing on single packets.
const LEVEL: i32 = 9;

/// DEFLATE without a header, as zlib counts its windows.
const RAW_WINDOW: i32 = -15;

/// What both ends know before the first packet, at most 32 KiB; what is most common stands last.
#[derive(Clone, Debug)]
pub struct Dictionary(Vec<u8>);

impl Dictionary {
    /// The most octets that a site's own part may have: with the built-in one, what DEFLATE can
    /// reach back to from the first octet of a packet.
    pub const OWN_OCTETS_MAX: usize = 24_000;

    /// The dictionary of this version.
    #[must_use]
    pub fn built_in() -> Self {
        Self::with(&[])
    }

    /// The same with what a site's own applications say behind it, up to
    /// [`Self::OWN_OCTETS_MAX`]; what comes after that is left out.
    #[must_use]
    pub fn with(own: &[u8]) -> Self {
        let own = &own[..own.len().min(Self::OWN_OCTETS_MAX)];
        Self([NAMES, include_bytes!("dictionary.txt"), own].concat())
    }

    /// The dictionary itself.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        &self.0
    }

    /// CRC-32/ISO-HDLC over it: ends with other dictionaries don't understand each other.
    #[must_use]
    pub fn digest(&self) -> u32 {
        Crc32Sum::new().update(&self.0).finish()
    }
}

/// Pieces of questions and answers of DNS (RFC 1035 section 4.1).
const NAMES: &[u8] = b"\x04_tcp\x05local\0\0\x0c\0\x01\x07in-addr\x04arpa\0\0\x0c\0\x01\x03ip6\x04arpa\0\
    \x03net\0\0\x1c\0\x01\x03org\0\0\x1c\0\x01\x03com\0\0\x1c\0\x01\x01\0\0\x01\0\0\0\0\0\x01\x03www\
    \x81\x80\0\x01\0\x01\0\0\0\x01\x04mail\x03net\0\0\x01\0\x01\x03org\0\0\x01\0\x01\x03com\0\0\x01\0\x01\
    \0\0\x29\x04\xd0\0\0\0\0\0\0\xc0\x0c\0\x05\0\x01\0\0\xc0\x0c\0\x1c\0\x01\0\0\x01\x2c\0\x10\
    \xc0\x0c\0\x01\0\x01\0\0\x0e\x10\0\x04";

/// What has become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// It goes compressed.
    Shorter,
    /// It goes as it is: it didn't get shorter, or its flow hasn't for some time.
    Raw,
    /// It goes as it is: it is too short to be tried.
    Short,
}

/// Makes packets shorter. It holds about 700 KB: the compressor's window and tables behind the
/// dictionary, and a copy that a packet uses up.
#[derive(Debug)]
pub struct Deflater {
    primed: Primed,
    flows: Flows,
}

/// A compressor that has seen the dictionary.
struct Primed(Box<CompressorOxide>);

impl core::fmt::Debug for Primed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Primed")
    }
}

impl Deflater {
    /// A compressor behind `dictionary` that knows of no flow.
    #[must_use]
    pub fn new(dictionary: &Dictionary) -> Self {
        let flags = create_comp_flags_from_zip_params(LEVEL, RAW_WINDOW, 0);
        let mut primed = Box::new(CompressorOxide::new(flags));
        // What this gives stands for the dictionary, which the other end has.
        let mut unsent = alloc::vec![0; 2 * dictionary.0.len() + 64];
        compress(&mut primed, &dictionary.0, &mut unsent, TDEFLFlush::Sync);
        Self {
            primed: Primed(primed),
            flows: Flows::default(),
        }
    }

    /// Puts what goes in the place of `carried` into `line`, if that is shorter; `packet` is what
    /// `carried` stands for.
    pub fn deflate(&mut self, packet: &PacketInfo, carried: &[u8], line: &mut Vec<u8>) -> Payload {
        if carried.len() < OCTETS_MIN {
            return Payload::Short;
        }
        let mut flow = self.flows.of(packet);
        if !flow.is_tried() {
            return Payload::Raw;
        }
        let shorter = !flows::looks_random(carried) && squeeze(&self.primed.0, carried, line);
        flow.tell(shorter);
        if shorter {
            Payload::Shorter
        } else {
            Payload::Raw
        }
    }
}

/// Puts mark and compressed octets into `line`; `false` if they aren't fewer.
fn squeeze(primed: &CompressorOxide, carried: &[u8], line: &mut Vec<u8>) -> bool {
    let mut compressor = primed.clone();
    line.clear();
    line.resize(carried.len() - 1, MARK);
    let (status, _, octets) =
        compress(&mut compressor, carried, &mut line[1..], TDEFLFlush::Finish);
    line.truncate(1 + octets);
    status == TDEFLStatus::Done
}

/// What was compressed can't be read: it is damaged, or no sender made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("compressed payload unreadable")]
pub struct Unreadable;

/// Reads what a [`Deflater`] with the same dictionary made. It holds the dictionary and one packet.
#[derive(Debug)]
pub struct Inflater {
    state: State,
    /// The dictionary, and room for a packet.
    window: Vec<u8>,
    dictionary_octets: usize,
}

struct State(Box<DecompressorOxide>);

impl core::fmt::Debug for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("State")
    }
}

impl Inflater {
    /// A decompressor behind `dictionary`, of packets of up to `octets_max`.
    #[must_use]
    pub fn new(dictionary: &Dictionary, octets_max: usize) -> Self {
        let dictionary_octets = dictionary.0.len();
        let mut window = dictionary.0.clone();
        window.resize(dictionary_octets + octets_max, 0);
        Self {
            state: State(Box::default()),
            window,
            dictionary_octets,
        }
    }

    /// What `line`, which begins with [`MARK`], stands for. Any octets are judged, with at most
    /// `octets_max` of result.
    ///
    /// # Errors
    ///
    /// No mark, no DEFLATE stream that ends with `line`, or more octets than that.
    pub fn inflate(&mut self, line: &[u8]) -> Result<&[u8], Unreadable> {
        let [MARK, compressed @ ..] = line else {
            return Err(Unreadable);
        };
        self.state.0.init();
        let (status, taken, octets) = decompress(
            &mut self.state.0,
            compressed,
            &mut self.window,
            self.dictionary_octets,
            TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
        );
        if status != TINFLStatus::Done || taken != compressed.len() {
            return Err(Unreadable);
        }
        Ok(&self.window[self.dictionary_octets..][..octets])
    }
}

#[cfg(test)]
#[path = "payload_tests.rs"]
mod tests;
