//! The octets before and after a transfer's content. Numbers are big-endian.

use serde::{Deserialize, Serialize};

use super::record::Facts;
use super::timeline::{Bin, Timeline};

/// First octets of request and greeting; the last is the version.
const MAGIC: [u8; 4] = *b"stM1";
/// First octets of a report.
const MAGIC_REPORT: [u8; 4] = *b"stR1";

/// Which way the content goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the client, which connects, to the server.
    Up,
    /// From the server to the client.
    Down,
}

impl Direction {
    /// The word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// The octets are not of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other end doesn't speak the protocol of the measurement")]
pub struct Garbled;

/// Gives a number's octets out of a message whose length was checked.
fn u32_at(octets: &[u8], at: usize) -> u32 {
    let field = octets.get(at..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |field| u32::from_be_bytes(*field))
}

fn u64_at(octets: &[u8], at: usize) -> u64 {
    let field = octets.get(at..).and_then(|rest| rest.first_chunk());
    field.map_or(0, |field| u64::from_be_bytes(*field))
}

/// The name of a congestion control: so long at most with Linux (`TCP_CA_NAME_MAX` without the
/// final zero), and nothing that could confuse a terminal or a path.
fn is_name(octets: &[u8]) -> bool {
    let allowed = |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'_' | b'-');
    octets.len() <= Request::NAME_MAX && octets.iter().all(allowed)
}

fn name(octets: &[u8]) -> Result<String, Garbled> {
    if !is_name(octets) {
        return Err(Garbled);
    }
    Ok(String::from_utf8_lossy(octets).into_owned())
}

/// False as soon as what has arrived can't become a message that begins with `magic`.
fn begins(octets: &[u8], magic: [u8; 4]) -> bool {
    octets.iter().zip(magic).all(|(is, wanted)| *is == wanted)
}

/// What a client asks for, 20 octets and a name:
///
/// ```text
///  0  "stM1"
///  4  direction: 0 up, 1 down
///  5  code point that the server sends with
///  6  length of the name, 0 … 15
///  7  0
///  8  octets of content, not 0
/// 12  seed of the content
/// 16  length of the progress intervals in ms, not 0
/// 20  name of the congestion control that the server sends with
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which way.
    pub direction: Direction,
    /// Octets of content, at least one.
    pub octets: u32,
    /// Seed of the content.
    pub seed: u32,
    /// Code point of what both ends send.
    pub dscp: u8,
    /// Length of the progress intervals in milliseconds, at least one.
    pub interval_ms: u32,
    /// Congestion control of the sending end; its system's own choice if empty.
    pub congestion: String,
}

impl Request {
    /// Longest name of a congestion control.
    pub const NAME_MAX: usize = 15;
    /// Octets before the name.
    const FIXED: usize = 20;

    /// Whether a congestion control may be called so.
    pub fn is_name(name: &str) -> bool {
        is_name(name.as_bytes())
    }

    /// Appends the request.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let name = &self.congestion.as_bytes()[..self.congestion.len().min(Self::NAME_MAX)];
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[u8::from(self.direction == Direction::Down)]);
        out.extend_from_slice(&[self.dscp, name.len() as u8, 0]);
        out.extend_from_slice(&self.octets.to_be_bytes());
        out.extend_from_slice(&self.seed.to_be_bytes());
        out.extend_from_slice(&self.interval_ms.to_be_bytes());
        out.extend_from_slice(name);
    }

    /// Reads a request and says how many octets it has; `None` if more must come.
    ///
    /// # Errors
    /// [`Garbled`] as soon as no further octets can make it a request.
    pub fn parse(octets: &[u8]) -> Result<Option<(Self, usize)>, Garbled> {
        if !begins(octets, MAGIC) {
            return Err(Garbled);
        }
        let Some((head, rest)) = octets.split_at_checked(Self::FIXED) else {
            return Ok(None);
        };
        let direction = match head[4] {
            0 => Direction::Up,
            1 => Direction::Down,
            _ => return Err(Garbled),
        };
        let length = usize::from(head[6]);
        let request = Self {
            direction,
            octets: u32_at(head, 8),
            seed: u32_at(head, 12),
            dscp: head[5],
            interval_ms: u32_at(head, 16),
            congestion: String::new(),
        };
        let wrong = length > Self::NAME_MAX || head[7] != 0 || request.dscp > 63;
        if wrong || request.octets == 0 || request.interval_ms == 0 {
            return Err(Garbled);
        }
        let Some(letters) = rest.get(..length) else {
            return Ok(None);
        };
        let congestion = name(letters)?;
        let request = Self {
            congestion,
            ..request
        };
        Ok(Some((request, Self::FIXED + length)))
    }
}

/// Whether a server does what it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It does.
    #[error("admitted")]
    Admitted,
    /// It has as many clients as it may.
    #[error("the server has too many clients")]
    Busy,
    /// It doesn't transfer so much.
    #[error("the server allows no transfer of this size")]
    TooLarge,
    /// Its system doesn't have or allow the congestion control.
    #[error("the server's system doesn't have or allow this congestion control")]
    NoSuchCongestion,
}

impl Verdict {
    const ALL: [Self; 4] = [
        Self::Admitted,
        Self::Busy,
        Self::TooLarge,
        Self::NoSuchCongestion,
    ];
}

/// The server's answer, 32 octets:
///
/// ```text
///  0  "stM1"
///  4  verdict: 0 admitted, 1 busy, 2 too large, 3 no such congestion control
///  5  0 0 0
///  8  which clock
/// 16  when the request had arrived, in ns of that clock
/// 24  when this answer was given
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Whether the transfer takes place.
    pub verdict: Verdict,
    /// Which clock: two ends with the same number share one. 0 is nobody's.
    pub clock: u64,
    /// When the request had arrived, in nanoseconds.
    pub received_ns: u64,
    /// When it was answered.
    pub answered_ns: u64,
}

impl Greeting {
    /// Octets of a greeting.
    pub const OCTETS: usize = 32;

    /// Appends the greeting.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[self.verdict as u8, 0, 0, 0]);
        for number in [self.clock, self.received_ns, self.answered_ns] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }

    /// Reads a greeting; `None` if more must come.
    ///
    /// # Errors
    /// [`Garbled`] as soon as no further octets can make it a greeting.
    pub fn parse(octets: &[u8]) -> Result<Option<Self>, Garbled> {
        if !begins(octets, MAGIC) {
            return Err(Garbled);
        }
        let Some(octets) = octets.get(..Self::OCTETS) else {
            return Ok(None);
        };
        let verdict = Verdict::ALL.get(usize::from(octets[4])).ok_or(Garbled)?;
        if octets[5..8] != [0; 3] {
            return Err(Garbled);
        }
        Ok(Some(Self {
            verdict: *verdict,
            clock: u64_at(octets, 8),
            received_ns: u64_at(octets, 16),
            answered_ns: u64_at(octets, 24),
        }))
    }
}

/// What the server saw, 64 octets, a name, and 8 octets for each interval:
///
/// ```text
///  0  "stR1"
///  4  length of the name, 0 … 15
///  5  0 0 0
///  8  intervals, at most 4096
/// 12  octets of content that were wrong
/// 16  up: when the last octet of content had arrived; down: when the server's TCP had taken it
/// 24  when the first interval begins
/// 32  length of an interval in ns, not 0
/// 40  segments that the server's TCP has sent
/// 48  those of them that were repetitions
/// 56  its smoothed round-trip time in ns; all ones if it has none
/// 64  name of its congestion control
///     for each interval: octets arrived (up) or taken (down); when the last of them, in us from
///     the interval's beginning
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Octets of content that were not what was sent.
    pub wrong: u32,
    /// Up: when the last octet of content had arrived; down: when the server's TCP had taken it.
    pub last_ns: u64,
    /// Up: content arrived; down: content taken by the server's TCP.
    pub progress: Timeline,
    /// What the server's system knows of the connection.
    pub facts: Facts,
}

impl Report {
    const FIXED: usize = 64;
    const BIN: usize = 8;
    /// Octets of the longest report.
    pub const OCTETS_MAX: usize = Self::FIXED + Request::NAME_MAX + Timeline::BINS_MAX * Self::BIN;

    /// Appends the report.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let letters = self.facts.congestion.as_bytes();
        let letters = if is_name(letters) { letters } else { b"" };
        let bins = &self.progress.bins[..self.progress.bins.len().min(Timeline::BINS_MAX)];
        out.extend_from_slice(&MAGIC_REPORT);
        out.extend_from_slice(&[letters.len() as u8, 0, 0, 0]);
        out.extend_from_slice(&(bins.len() as u32).to_be_bytes());
        out.extend_from_slice(&self.wrong.to_be_bytes());
        let numbers = [
            self.last_ns,
            self.progress.origin_ns,
            self.progress.interval_ns,
            self.facts.segments_out,
            self.facts.retransmissions,
            self.facts.rtt_ns.unwrap_or(u64::MAX),
        ];
        for number in numbers {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(letters);
        for bin in bins {
            out.extend_from_slice(&bin.octets.to_be_bytes());
            out.extend_from_slice(&bin.last_us.to_be_bytes());
        }
    }

    /// Reads a report; `None` if more must come.
    ///
    /// # Errors
    /// [`Garbled`] as soon as no further octets can make it a report.
    pub fn parse(octets: &[u8]) -> Result<Option<Self>, Garbled> {
        if !begins(octets, MAGIC_REPORT) {
            return Err(Garbled);
        }
        let Some((head, rest)) = octets.split_at_checked(Self::FIXED) else {
            return Ok(None);
        };
        let (length, count) = (usize::from(head[4]), u32_at(head, 8) as usize);
        let interval_ns = u64_at(head, 32);
        let wrong = length > Request::NAME_MAX || head[5..8] != [0; 3] || interval_ns == 0;
        if wrong || count > Timeline::BINS_MAX {
            return Err(Garbled);
        }
        let Some(rest) = rest.get(..length + count * Self::BIN) else {
            return Ok(None);
        };
        let (letters, bins) = rest.split_at(length);
        let bins = bins.chunks_exact(Self::BIN).map(|bin| Bin {
            octets: u32_at(bin, 0),
            last_us: u32_at(bin, 4),
        });
        Ok(Some(Self {
            wrong: u32_at(head, 12),
            last_ns: u64_at(head, 16),
            progress: Timeline {
                origin_ns: u64_at(head, 24),
                interval_ns,
                bins: bins.collect(),
            },
            facts: Facts {
                congestion: name(letters)?,
                segments_out: u64_at(head, 40),
                retransmissions: u64_at(head, 48),
                rtt_ns: Some(u64_at(head, 56)).filter(|rtt_ns| *rtt_ns != u64::MAX),
            },
        }))
    }
}
