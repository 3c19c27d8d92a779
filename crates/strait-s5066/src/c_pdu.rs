//! C_PDUs: what channel access and data transfer exchange (Annex B).

/// A C_PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CPdu<'a> {
    /// Client data: an S_PDU follows.
    Data(&'a [u8]),
    /// A link is asked for.
    Request {
        /// Nobody else is to be served meanwhile.
        exclusive: bool,
        /// The caller would use long numbers, by three bits that Edition 3 reserves.
        long: bool,
    },
    /// It is made.
    Accepted {
        /// With long numbers.
        long: bool,
    },
    /// It isn't, for a reason.
    Rejected(u8),
    /// A link ends, for a reason.
    Break(u8),
    /// It has ended.
    BreakConfirm,
}

/// The reason of a [`CPdu::Break`] that nothing is left to send.
pub const NO_MORE_DATA: u8 = 4;

/// The reason of a [`CPdu::Rejected`]: an exclusive link is in use.
pub const EXCLUSIVE_LINK: u8 = 3;

/// What stands in the reserved bits of a node that offers or takes long numbers. One bit alone is
/// more likely to be another node's.
const LONG: u8 = 0b1010;

impl<'a> CPdu<'a> {
    /// Reads a C_PDU; `None` if it is empty or of an unknown type.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (first, rest) = bytes.split_first()?;
        let long = first & 0b1110 == LONG;
        Some(match first >> 4 {
            0 => Self::Data(rest),
            1 => Self::Request {
                exclusive: first & 1 != 0,
                long,
            },
            2 => Self::Accepted { long },
            3 => Self::Rejected(first & 15),
            4 => Self::Break(first & 15),
            5 => Self::BreakConfirm,
            _ => return None,
        })
    }

    /// The only octet of a C_PDU of channel access; for data, the one ahead of the S_PDU.
    #[must_use]
    pub fn octet(&self) -> u8 {
        let low = |long: bool| if long { LONG } else { 0 };
        match *self {
            Self::Data(_) => 0,
            Self::Request { exclusive, long } => 0x10 | low(long) | u8::from(exclusive),
            Self::Accepted { long } => 0x20 | low(long),
            Self::Rejected(reason) => 0x30 | reason & 15,
            Self::Break(reason) => 0x40 | reason & 15,
            Self::BreakConfirm => 0x50,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_pdus_are_these_octets() {
        for (c_pdu, octet) in [
            (
                CPdu::Request {
                    exclusive: false,
                    long: false,
                },
                0x10,
            ),
            (
                CPdu::Request {
                    exclusive: true,
                    long: false,
                },
                0x11,
            ),
            (
                CPdu::Request {
                    exclusive: false,
                    long: true,
                },
                0x1a,
            ),
            (CPdu::Accepted { long: false }, 0x20),
            (CPdu::Accepted { long: true }, 0x2a),
            (CPdu::Rejected(3), 0x33),
            (CPdu::Break(NO_MORE_DATA), 0x44),
            (CPdu::BreakConfirm, 0x50),
            (CPdu::Data(&[]), 0x00),
        ] {
            assert_eq!(c_pdu.octet(), octet);
            assert_eq!(CPdu::parse(&[octet]), Some(c_pdu));
        }
        assert_eq!(CPdu::parse(&[0, 1, 2]), Some(CPdu::Data(&[1, 2])));
        assert_eq!(CPdu::parse(&[0x60]), None);
        assert_eq!(CPdu::parse(&[]), None);
    }
}
