//! What packets and transfers contain: octets that look random, so that nothing on the way can
//! compress them or take one for another, and that the receiver can check.

use strait_core::chance::Stream;
use strait_wire::rtp::RtpHeader;

/// An endless sequence of octets, given by seed and name, with random access.
#[derive(Clone, Debug)]
pub struct Content {
    stream: Stream,
    /// Instead of what the stream gives: where in [`TEXT`] it begins.
    text_from: Option<u64>,
}

/// A page of English text with headings, lists and tables, in HTML: two pages of what this project
/// says of itself.
const TEXT: &[u8] = include_bytes!("page.html");

impl Content {
    /// The content of the traffic `name`.
    pub fn new(seed: u64, name: &str) -> Self {
        Self {
            stream: Stream::new(seed, &format!("content.{name}")),
            text_from: None,
        }
    }

    /// Text, the same over and over, from a place that follows from seed and name.
    pub fn text(seed: u64, name: &str) -> Self {
        let mut content = Self::new(seed, name);
        content.text_from = Some(content.stream.at(0) % TEXT.len() as u64);
        content
    }

    /// Eight octets, from the position of eight times `index` on.
    fn word(&mut self, index: u64) -> [u8; 8] {
        match self.text_from {
            None => self.stream.at(index).to_le_bytes(),
            Some(from) => {
                let from = u128::from(from) + u128::from(index) * 8;
                let at = (from % TEXT.len() as u128) as usize;
                std::array::from_fn(|octet| TEXT[(at + octet) % TEXT.len()])
            }
        }
    }

    /// Calls `each` with the octets from position `at` on, `count` of them, in runs of at most 8.
    fn runs(&mut self, mut at: u64, count: usize, mut each: impl FnMut(&[u8])) {
        let mut left = count;
        while left > 0 {
            let word = self.word(at / 8);
            let run = &word[(at % 8) as usize..];
            let run = &run[..run.len().min(left)];
            each(run);
            at += run.len() as u64;
            left -= run.len();
        }
    }

    /// Appends `count` octets from position `at` on.
    pub fn append(&mut self, at: u64, count: usize, out: &mut Vec<u8>) {
        self.runs(at, count, |run| out.extend_from_slice(run));
    }

    /// How many of `octets` differ from those from position `at` on.
    pub fn count_wrong(&mut self, at: u64, octets: &[u8]) -> u64 {
        let (mut wrong, mut rest) = (0, octets);
        self.runs(at, octets.len(), |run| {
            let (now, later) = rest.split_at(run.len());
            rest = later;
            // Whole words are compared as such, without a call for each.
            let same = match (now.first_chunk::<8>(), run.first_chunk::<8>()) {
                (Some(now), Some(run)) => now == run,
                _ => now == run,
            };
            if !same {
                wrong += now.iter().zip(run).filter(|(is, was)| is != was).count() as u64;
            }
        });
        wrong
    }
}

/// Writes an RTP packet (RFC 3550 section 5.1) with `payload_octets` of content: a dynamic payload
/// type with a clock of 8000 Hz, as low-rate vocoders have. `sent_at_ns` is the time since the
/// call began.
pub fn voice_packet(
    content: &mut Content,
    sequence: u64,
    sent_at_ns: u64,
    payload_octets: u32,
    out: &mut Vec<u8>,
) {
    let timestamp = (u128::from(sent_at_ns) * 8000 / 1_000_000_000) as u32;
    let header = RtpHeader {
        payload_type: 96,
        marker: sequence == 0,
        sequence: sequence as u16,
        timestamp,
        ssrc: content.stream.at(u64::MAX / 8) as u32,
    };
    out.clear();
    header.emit(out);
    content.append(
        place(sequence, payload_octets),
        payload_octets as usize,
        out,
    );
}

/// Writes a plain datagram of `payload_octets`, of which the first four are its number modulo
/// 2^32.
pub fn datagram_payload(
    content: &mut Content,
    sequence: u64,
    payload_octets: u32,
    out: &mut Vec<u8>,
) {
    out.clear();
    out.extend_from_slice(&(sequence as u32).to_be_bytes());
    let rest = payload_octets.saturating_sub(4);
    content.append(place(sequence, rest), rest as usize, out);
}

/// The number of a plain datagram, modulo 2^32.
pub fn datagram_sequence(payload: &[u8]) -> Option<u32> {
    payload
        .first_chunk()
        .map(|octets| u32::from_be_bytes(*octets))
}

/// Writes what follows the IP header of a packet of ESP (RFC 4303 section 2): the index of its
/// security association, its number, of which the first is 1, and `payload_octets` of content in
/// place of what is encrypted and the check of its integrity.
pub fn esp_payload(
    content: &mut Content,
    (index, sequence): (u32, u64),
    payload_octets: u32,
    out: &mut Vec<u8>,
) {
    out.clear();
    out.extend_from_slice(&index.to_be_bytes());
    out.extend_from_slice(&(sequence as u32).wrapping_add(1).to_be_bytes());
    let at = place(sequence, payload_octets);
    content.append(at, payload_octets as usize, out);
}

/// Index and number, modulo 2^32 and from 0 on, of such a packet.
pub fn esp_numbers(payload: &[u8]) -> Option<(u32, u32)> {
    let number = |at: usize| Some(u32::from_be_bytes(*payload.get(at..)?.first_chunk()?));
    Some((number(0)?, number(4)?.wrapping_sub(1)))
}

/// How many octets of such a packet differ from what was sent under its number.
pub fn esp_wrong(content: &mut Content, sequence: u64, payload: &[u8]) -> u64 {
    let body = payload.get(8..).unwrap_or_default();
    content.count_wrong(place(sequence, body.len() as u32), body)
}

/// Where the content of a packet begins: right after the last one's, in whole words.
pub const fn place(sequence: u64, octets: u32) -> u64 {
    let words = (octets as u64).div_ceil(8);
    (sequence % (u64::MAX / 8 / (words + 1))) * words * 8
}

/// The full number of a packet of which only `bits` bits came along: the one nearest to `next`,
/// the number after the highest so far (RFC 3550 appendix A.1 does the same with cycles).
pub const fn widen(next: u64, low: u64, bits: u32) -> u64 {
    let span = 1u64 << bits;
    let ahead = low.wrapping_sub(next) & (span - 1);
    if ahead >= span / 2 && next + ahead >= span {
        next + ahead - span
    } else {
        next + ahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_the_same_at_any_cut() {
        let mut content = Content::new(1, "file");
        let mut whole = Vec::new();
        content.append(3, 1000, &mut whole);
        let mut pieces = Vec::new();
        for (at, count) in [(3, 5), (8, 0), (8, 1), (9, 494), (503, 500)] {
            content.append(at, count, &mut pieces);
        }
        assert_eq!(whole, pieces);
        assert_eq!(content.count_wrong(3, &whole), 0);
        whole[17] ^= 1;
        whole[999] ^= 0x80;
        assert_eq!(content.count_wrong(3, &whole), 2);
        assert!(Content::new(2, "file").count_wrong(3, &whole) > 900);
    }

    #[test]
    fn text_is_text_at_any_cut_and_repeats() {
        let mut content = Content::text(1, "file");
        let mut whole = Vec::new();
        content.append(0, 2 * TEXT.len(), &mut whole);
        assert!(
            whole
                .windows(9)
                .any(|piece| piece == b"</html>\n<" || piece == b"</p>\n<h2>")
        );
        assert_eq!(whole[..TEXT.len()], whole[TEXT.len()..]);
        let mut piece = Vec::new();
        content.append(1003, 77, &mut piece);
        assert_eq!(piece, whole[1003..1080]);
        assert_eq!(content.count_wrong(1003, &piece), 0);
    }

    #[test]
    fn packets_have_their_length_and_number() {
        let mut content = Content::new(1, "voice");
        let mut out = Vec::new();
        voice_packet(&mut content, 65_537, 200_000_000, 31, &mut out);
        let (header, payload) = RtpHeader::parse(&out).unwrap();
        assert_eq!(
            (header.sequence, header.timestamp, payload.len()),
            (1, 1600, 31)
        );
        assert!(!header.marker && out.len() == 43);
        datagram_payload(&mut content, 7, 4, &mut out);
        assert_eq!(out, [0, 0, 0, 7]);
        assert_eq!(datagram_sequence(&out), Some(7));
        assert_eq!(datagram_sequence(&out[..3]), None);
    }

    #[test]
    fn packets_of_ipsec_are_numbered_from_one_and_their_content_is_known() {
        let mut content = Content::new(1, "tunnel");
        let mut out = Vec::new();
        esp_payload(&mut content, (0x1234, 6), 20, &mut out);
        assert_eq!(out[..8], [0, 0, 0x12, 0x34, 0, 0, 0, 7]);
        assert_eq!((out.len(), esp_numbers(&out)), (28, Some((0x1234, 6))));
        assert_eq!(esp_wrong(&mut content, 6, &out), 0);
        out[27] ^= 1;
        assert_eq!(esp_wrong(&mut content, 6, &out), 1);
        assert_eq!(esp_numbers(&out[..7]), None);
        assert_eq!(esp_numbers(&[0; 8]), Some((0, u32::MAX)));
    }

    #[test]
    fn numbers_grow_beyond_their_field() {
        assert_eq!(widen(0, 0, 16), 0);
        assert_eq!(widen(0, 5, 16), 5);
        assert_eq!(widen(65_536, 0, 16), 65_536);
        assert_eq!(widen(65_536, 65_535, 16), 65_535);
        assert_eq!(widen(65_530, 3, 16), 65_539);
        // Nothing lies before the first packet.
        assert_eq!(widen(1, 65_535, 16), 65_535);
    }

    proptest::proptest! {
        #[test]
        fn a_number_near_the_next_is_found(next in 0u64..1 << 40, off in -32_768i64..32_768) {
            if let Some(number) = next.checked_add_signed(off) {
                assert_eq!(widen(next, number & 0xffff, 16), number);
            }
        }
    }
}
