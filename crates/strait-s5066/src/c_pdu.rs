//! C_PDUs: the units of channel access and data transfer (Annex B).

use alloc::vec::Vec;

use crate::s_pdu::HARD_LINK;

/// Extensions of `strait` beside the standard, by bits that Edition 3 reserves: nodes have long
/// numbers, and client data may go with a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ours {
    /// The called node's incarnation: different after each start. An acceptance states it; a
    /// request with data names the incarnation that the data is for.
    pub life: Option<u16>,
    /// The number under which the sender's frames go from here on, if some have left before the
    /// answer or may do so.
    pub epoch: Option<u16>,
}

/// A C_PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CPdu<'a> {
    /// Client data: an S_PDU follows.
    Data(&'a [u8]),
    /// A link is asked for.
    Request {
        /// No other station is to be served meanwhile.
        exclusive: bool,
        /// The caller is a node of `strait`.
        ours: Option<Ours>,
    },
    /// It is made.
    Accepted {
        /// Both are nodes of `strait`.
        ours: Option<Ours>,
    },
    /// It isn't, for a reason.
    Rejected(u8),
    /// A link ends, for a reason.
    Break(u8),
    /// It has ended.
    BreakConfirm,
}

/// The reason of a [`CPdu::Break`] or [`CPdu::Rejected`] that has no other.
pub const UNKNOWN_REASON: u8 = 0;

/// The reason of a [`CPdu::Rejected`]: the node has no links at all.
pub const BROADCAST_ONLY: u8 = 1;

/// The reason of a [`CPdu::Break`] that nothing is left to send.
pub const NO_MORE_DATA: u8 = 4;

/// The reason of a [`CPdu::Rejected`]: an exclusive link is in use.
pub const EXCLUSIVE_LINK: u8 = 3;

/// The reserved bits of a node of `strait`. One bit alone is more likely to be another node's.
const OURS: u8 = 0b1110;

/// Octets of the longest C_PDU of channel access.
pub const CONTROL_OCTETS_MAX: usize = 5;

impl Ours {
    fn parse(rest: &[u8]) -> Self {
        let word = |at: usize| Some(u16::from_be_bytes(*rest.get(at..)?.first_chunk()?));
        Self {
            life: word(0),
            epoch: word(2),
        }
    }
}

impl<'a> CPdu<'a> {
    /// Reads a C_PDU; `None` if it is empty or of an unknown type. Octets behind the first one of
    /// other nodes' C_PDUs of channel access are ignored.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (first, rest) = bytes.split_first()?;
        let ours = (first & 0b1110 == OURS).then(|| Ours::parse(rest));
        Some(match first >> 4 {
            0 => Self::Data(rest),
            1 => Self::Request {
                exclusive: first & 1 != 0,
                ours,
            },
            2 => Self::Accepted { ours },
            3 => Self::Rejected(first & 15),
            4 => Self::Break(first & 15),
            5 => Self::BreakConfirm,
            _ => return None,
        })
    }

    /// The first octet: of a C_PDU of channel access all, except for the extensions of `strait`;
    /// for data, the one ahead of the S_PDU.
    #[must_use]
    pub fn octet(&self) -> u8 {
        let low = |ours: Option<Ours>| ours.map_or(0, |_| OURS);
        match *self {
            Self::Data(_) => 0,
            Self::Request { exclusive, ours } => 0x10 | low(ours) | u8::from(exclusive),
            Self::Accepted { ours } => 0x20 | low(ours),
            Self::Rejected(reason) => 0x30 | reason & 15,
            Self::Break(reason) => 0x40 | reason & 15,
            Self::BreakConfirm => 0x50,
        }
    }

    /// Whether it is client data that asks for a hard link.
    pub(crate) fn asks_hard_link(&self) -> bool {
        matches!(self, Self::Data([first, ..]) if first >> 4 == HARD_LINK)
    }

    /// Its octets.
    #[must_use]
    pub fn octets(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(CONTROL_OCTETS_MAX);
        self.put(&mut out);
        out
    }

    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(self.octet());
        match *self {
            Self::Data(s_pdu) => out.extend_from_slice(s_pdu),
            Self::Request { ours, .. } | Self::Accepted { ours } => {
                let Some(Ours { life, epoch }) = ours else {
                    return;
                };
                for word in [life, life.and(epoch)].into_iter().flatten() {
                    out.extend_from_slice(&word.to_be_bytes());
                }
            }
            Self::Rejected(_) | Self::Break(_) | Self::BreakConfirm => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_pdus_are_these_octets() {
        let request = |exclusive, ours| CPdu::Request { exclusive, ours };
        let accepted = |ours| CPdu::Accepted { ours };
        let ours = |life, epoch| Some(Ours { life, epoch });
        for (c_pdu, octets) in [
            (request(false, None), &[0x10][..]),
            (request(true, None), &[0x11]),
            (request(false, ours(None, None)), &[0x1e]),
            (request(true, ours(None, None)), &[0x1f]),
            (
                request(false, ours(Some(0x1234), Some(0x5678))),
                &[0x1e, 0x12, 0x34, 0x56, 0x78],
            ),
            (accepted(None), &[0x20]),
            (accepted(ours(Some(0x1234), None)), &[0x2e, 0x12, 0x34]),
            (
                accepted(ours(Some(0x1234), Some(7))),
                &[0x2e, 0x12, 0x34, 0, 7],
            ),
            (CPdu::Rejected(3), &[0x33]),
            (CPdu::Break(NO_MORE_DATA), &[0x44]),
            (CPdu::BreakConfirm, &[0x50]),
            (CPdu::Data(&[1, 2]), &[0, 1, 2]),
        ] {
            let mut out = Vec::new();
            c_pdu.put(&mut out);
            assert_eq!(out, octets);
            assert_eq!(CPdu::parse(octets), Some(c_pdu));
            assert!(out.len() <= CONTROL_OCTETS_MAX);
        }
        assert_eq!(CPdu::parse(&[0x60]), None);
        assert_eq!(CPdu::parse(&[]), None);
        // Half a word is none; what others put behind is nothing to us.
        assert_eq!(CPdu::parse(&[0x2e, 1]), Some(accepted(ours(None, None))));
        assert_eq!(CPdu::parse(&[0x20, 1, 2, 3]), Some(accepted(None)));
    }
}
