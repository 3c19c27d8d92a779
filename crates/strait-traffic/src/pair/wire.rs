//! The datagrams of a measurement. Numbers are big-endian.
//!
//! ```text
//!  0  "sP"
//!  2  kind: 1 probe, 2 question, 3 report
//!  3  packets of the group, 2 … 64
//!  4  session, chosen by the prober
//!  8  number of the group
//! 10  probe: place in the group, from 0; else 0
//! 11  0
//! ```
//!
//! A probe goes on with octets that look random. A report has 8 octets for each packet: when it
//! came, in ns from the first one on, all ones if it hasn't come. A question has as many, zero, so
//! that its answer is no longer than what asked for it.

/// Octets of each datagram's head.
pub const HEAD_OCTETS: usize = 12;
/// Packets of the longest train.
pub const PACKETS_MAX: u8 = 64;

const MAGIC: [u8; 2] = *b"sP";
const PROBE: u8 = 1;
const QUESTION: u8 = 2;
const REPORT: u8 = 3;
/// In a report: hasn't come.
const MISSING: u64 = u64::MAX;

/// The octets are not of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the datagram is none of a packet pair measurement")]
pub struct Garbled;

/// What all datagrams of a group have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Head {
    /// Which measurement.
    pub session: u32,
    /// Which group of it.
    pub group: u16,
    /// Packets of the group.
    pub packets: u8,
}

/// When the packets of a group came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which group.
    pub head: Head,
    /// In ns from the first that came; `None` for what hasn't come.
    pub arrived_ns: Vec<Option<u64>>,
}

/// A datagram as far as anyone looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// A packet of a group, and its place.
    Probe(Head, u8),
    /// What has come of this group?
    Question(Head),
    /// The answer, or told unasked when all has come.
    Report(Report),
}

impl Head {
    fn emit(self, kind: u8, index: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[kind, self.packets]);
        out.extend_from_slice(&self.session.to_be_bytes());
        out.extend_from_slice(&self.group.to_be_bytes());
        out.extend_from_slice(&[index, 0]);
    }

    /// Octets of a report about this group.
    const fn report_octets(self) -> usize {
        HEAD_OCTETS + 8 * self.packets as usize
    }
}

impl Datagram {
    /// Appends the datagram; a probe without what fills it.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Probe(head, index) => head.emit(PROBE, *index, out),
            Self::Question(head) => {
                let begin = out.len();
                head.emit(QUESTION, 0, out);
                out.resize(begin + head.report_octets(), 0);
            }
            Self::Report(report) => {
                let begin = out.len();
                report.head.emit(REPORT, 0, out);
                for arrived in &report.arrived_ns {
                    out.extend_from_slice(&arrived.unwrap_or(MISSING).to_be_bytes());
                }
                out.resize(begin + report.head.report_octets(), 0xff);
            }
        }
    }

    /// Reads a datagram.
    ///
    /// # Errors
    /// [`Garbled`] if it is none, or too short.
    pub fn parse(octets: &[u8]) -> Result<Self, Garbled> {
        let (head, rest) = octets.split_first_chunk::<HEAD_OCTETS>().ok_or(Garbled)?;
        let [m0, m1, kind, packets, s0, s1, s2, s3, g0, g1, index, zero] = *head;
        let head = Head {
            session: u32::from_be_bytes([s0, s1, s2, s3]),
            group: u16::from_be_bytes([g0, g1]),
            packets,
        };
        let known = [m0, m1] == MAGIC && zero == 0 && (2..=PACKETS_MAX).contains(&packets);
        let index_fits = match kind {
            PROBE => index < packets,
            _ => index == 0,
        };
        if !known || !index_fits {
            return Err(Garbled);
        }
        let whole = octets.len() == head.report_octets();
        match kind {
            PROBE => Ok(Self::Probe(head, index)),
            QUESTION if whole => Ok(Self::Question(head)),
            REPORT if whole => {
                let (times, _) = rest.as_chunks::<8>();
                let times = times.iter().map(|time| u64::from_be_bytes(*time));
                let arrived_ns = times.map(|ns| (ns != MISSING).then_some(ns)).collect();
                Ok(Self::Report(Report { head, arrived_ns }))
            }
            _ => Err(Garbled),
        }
    }
}
