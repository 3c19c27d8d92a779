//! S_PDUs: the units of clients' data (Annex A), and their contents (Annex F).

use alloc::vec::Vec;

use crate::calendar::TimeToDie;

/// The client for IPv4 packets: each is one U_PDU, without anything around it.
pub const SAP_IP: u8 = 9;
/// The client for Ethernet types: two octets of type, then the content.
pub const SAP_ETHER: u8 = 8;
/// IPv6's Ethernet type.
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];

/// Octets that carrying a packet costs: the C_PDU's, the S_PDU's and an Ethernet type.
pub const AROUND_OCTETS_MAX: usize = 1 + 3 + 2;

/// The type of a request for a hard link.
pub(crate) const HARD_LINK: u8 = 3;

/// The type of client data with a number, of the types that Edition 3 leaves free.
const NUMBERED: u8 = 12;

/// The type of confirmations by numbers.
const CONFIRMS: u8 = 13;

/// Confirmations in an S_PDU, at most: as long as one of the standard's.
pub const CONFIRMS_MAX: usize = 32;

/// Client data with its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSPdu<'a> {
    /// 0 to 15, 15 the most urgent.
    pub priority: u8,
    /// The sender's access point.
    pub source: u8,
    /// The receiver's.
    pub destination: u8,
    /// The sender wants to know that the client has it.
    pub confirm: bool,
    /// When it is of no use any more, if stated.
    pub dies: Option<TimeToDie>,
    /// Between nodes of `strait`: the number, of 15 bits, by which it is confirmed.
    pub number: Option<u16>,
    /// The client's data.
    pub u_pdu: &'a [u8],
}

impl<'a> DataSPdu<'a> {
    /// Reads an S_PDU of client data; `None` for other types and too few octets.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&[first, saps, third], rest) = bytes.split_first_chunk::<3>()?;
        if first >> 4 != 0 && first >> 4 != NUMBERED {
            return None;
        }
        let (dies, u_pdu) = if third & 0x40 == 0 {
            (None, rest)
        } else {
            let (units, u_pdu) = rest.split_first_chunk::<2>()?;
            // An impossible time is ignored.
            let dies = TimeToDie::from_fields(third & 15, u16::from_be_bytes(*units));
            (dies, u_pdu)
        };
        let (number, u_pdu) = if first >> 4 == NUMBERED {
            let (number, u_pdu) = u_pdu.split_first_chunk()?;
            (Some(u16::from_be_bytes(*number) & NUMBER), u_pdu)
        } else {
            (None, u_pdu)
        };
        Some(Self {
            priority: first & 15,
            source: saps >> 4,
            destination: saps & 15,
            confirm: third & 0x80 != 0,
            dies,
            number,
            u_pdu,
        })
    }

    /// Appends the header; the U_PDU is left to the caller.
    pub fn put_header(&self, out: &mut Vec<u8>) {
        let kind = self.number.map_or(0, |_| NUMBERED << 4);
        out.push(kind | self.priority & 15);
        out.push(self.source << 4 | self.destination & 15);
        let third = u8::from(self.confirm) << 7;
        match self.dies.map(TimeToDie::fields) {
            None => out.push(third),
            Some((day, units)) => {
                out.push(third | 0x40 | day);
                out.extend_from_slice(&units.to_be_bytes());
            }
        }
        if let Some(number) = self.number {
            out.extend_from_slice(&(number & NUMBER).to_be_bytes());
        }
    }
}

/// The bits of a number.
pub const NUMBER: u16 = 0x7fff;

/// The first octet of an S_PDU with confirmations by numbers.
pub const CONFIRMS_OCTET: u8 = CONFIRMS << 4;

/// The two octets of a confirmation: the client has the data with this number, or there is none.
#[must_use]
pub const fn confirmation(number: u16, has: bool) -> [u8; 2] {
    (number & NUMBER | if has { 0 } else { 0x8000 }).to_be_bytes()
}

/// The confirmations in an S_PDU of such: numbers, and whether the client has the data. An odd
/// octet at the end isn't looked at.
pub fn confirmations(s_pdu: &[u8]) -> impl Iterator<Item = (u16, bool)> {
    let words = s_pdu.get(1..).unwrap_or_default().chunks_exact(2);
    let words = words.take(CONFIRMS_MAX);
    let words = words.map(|word| u16::from_be_bytes([word[0], word[1]]));
    words.map(|word| (word & NUMBER, word & !NUMBER == 0))
}

/// The priority of a packet with this code point: twice its class selector, and 10 for those that
/// begin as EF does.
#[must_use]
pub const fn priority(dscp: u8) -> u8 {
    (dscp >> 3 & 7) * 2
}

/// The client that an IP packet is for: IPv4 has its own, IPv6 goes by the Ether client.
#[must_use]
pub fn sap(packet: &[u8]) -> u8 {
    let v6 = packet.first().is_some_and(|first| first >> 4 == 6);
    if v6 { SAP_ETHER } else { SAP_IP }
}

/// Appends an IP packet as the U_PDU of its client.
pub fn put_u_pdu(packet: &[u8], out: &mut Vec<u8>) {
    if sap(packet) == SAP_ETHER {
        out.extend_from_slice(&ETHERTYPE_IPV6);
    }
    out.extend_from_slice(packet);
}

/// The IP packet in a U_PDU of the client `sap`, if it holds one.
#[must_use]
pub fn packet_of(sap: u8, u_pdu: &[u8]) -> Option<&[u8]> {
    match sap {
        SAP_IP => Some(u_pdu),
        SAP_ETHER => match u_pdu.split_first_chunk::<2>()? {
            (&ETHERTYPE_IPV6 | &[0x08, 0x00], packet) => Some(packet),
            _ => None,
        },
        _ => None,
    }
}

/// Appends the C_PDU that carries an IP packet.
pub fn put_packet(packet: &[u8], dscp: u8, out: &mut Vec<u8>) {
    let sap = sap(packet);
    out.push(0);
    let header = DataSPdu {
        priority: priority(dscp),
        source: sap,
        destination: sap,
        confirm: false,
        dies: None,
        number: None,
        u_pdu: &[],
    };
    header.put_header(out);
    put_u_pdu(packet, out);
}

/// Octets that the C_PDU of an IP packet has beside it.
#[must_use]
pub fn around_octets(packet: &[u8]) -> usize {
    1 + 3 + 2 * usize::from(sap(packet) == SAP_ETHER)
}

/// Whether data is for the clients of IP packets.
#[must_use]
pub const fn is_packet(data: &DataSPdu<'_>) -> bool {
    matches!(data.destination, SAP_IP | SAP_ETHER)
}

/// The IP packet in a client's data, if it holds one.
#[must_use]
pub fn packet<'a>(data: &DataSPdu<'a>) -> Option<&'a [u8]> {
    packet_of(data.destination, data.u_pdu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::c_pdu::CPdu;

    fn carried(c_pdu: &[u8]) -> Option<&[u8]> {
        let Some(CPdu::Data(s_pdu)) = CPdu::parse(c_pdu) else {
            return None;
        };
        packet(&DataSPdu::parse(s_pdu)?)
    }

    #[test]
    fn packets_go_to_the_client_of_their_version() {
        for (packet, dscp, head) in [
            (&[0x45, 1, 2][..], 0, &[0, 0, 0x99, 0][..]),
            (&[0x45], 0x2e, &[0, 10, 0x99, 0]),
            (&[0x60, 9], 0x30, &[0, 12, 0x88, 0, 0x86, 0xdd]),
        ] {
            let mut out = Vec::new();
            put_packet(packet, dscp, &mut out);
            assert_eq!(out, [head, packet].concat());
            assert_eq!(around_octets(packet), head.len());
            assert_eq!(carried(&out), Some(packet));
        }
    }

    #[test]
    fn data_with_a_number_and_its_confirmations_are_these_octets() {
        let dated = DataSPdu {
            priority: 3,
            source: 5,
            destination: 4,
            confirm: true,
            dies: TimeToDie::from_fields(5, 0x1234),
            number: Some(0x7abc),
            u_pdu: b"hi",
        };
        let octets = b"\xc3\x54\xc5\x12\x34\x7a\xbchi";
        let mut out = Vec::new();
        dated.put_header(&mut out);
        assert_eq!(out, octets[..7]);
        assert_eq!(DataSPdu::parse(octets), Some(dated));
        let plain = DataSPdu {
            dies: None,
            ..dated
        };
        assert_eq!(DataSPdu::parse(b"\xc3\x54\x80\x7a\xbchi"), Some(plain));
        assert_eq!(DataSPdu::parse(&octets[..6]), None);
        let s_pdu = [
            &[CONFIRMS_OCTET][..],
            &confirmation(7, true),
            &confirmation(8, false),
            &[1],
        ];
        let s_pdu = s_pdu.concat();
        assert_eq!(s_pdu, b"\xd0\0\x07\x80\x08\x01");
        assert!(confirmations(&s_pdu).eq([(7, true), (8, false)]));
        assert_eq!(confirmations(&[0xd0]).count(), 0);
        assert_eq!(confirmations(&[0xd0; 999]).count(), CONFIRMS_MAX);
    }

    #[test]
    fn data_with_a_time_to_die_are_these_octets_and_other_types_are_no_data() {
        let dated = [0, 2, 0x99, 0xc5, 0x12, 0x34, 0x45];
        assert_eq!(carried(&dated), Some(&[0x45][..]));
        let data = DataSPdu::parse(&dated[1..]).expect("data");
        assert_eq!(data.dies, TimeToDie::from_fields(5, 0x1234));
        let mut out = Vec::new();
        data.put_header(&mut out);
        assert_eq!(out, dated[1..6]);
        assert_eq!(carried(&dated[..5]), None);
        // A day has 43,200 units (0xa8c0): from there on it is no time.
        for (units, is_time) in [([0xa8, 0xbf], true), ([0xa8, 0xc0], false)] {
            let s_pdu = [&[2, 0x99, 0x45][..], &units, &[7]].concat();
            let data = DataSPdu::parse(&s_pdu).expect("data");
            assert_eq!((data.dies.is_some(), data.u_pdu), (is_time, &[7][..]));
        }
        assert_eq!(carried(&[0, 0x10, 0x99, 0, 0x45]), None);
        assert_eq!(carried(&[0, 0, 0x99]), None);
        // ARP isn't for us.
        assert_eq!(carried(&[0, 0, 0x88, 0, 8, 6, 1]), None);
        assert_eq!(carried(&[0, 0, 0x55, 0, 0x45]), None);
    }
}
