//! S_PDUs: what the clients' data travels in (Annex A), and what clients put into them (Annex F).

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
    /// When it is of no use any more, if it says so.
    pub dies: Option<TimeToDie>,
    /// The client's data.
    pub u_pdu: &'a [u8],
}

impl<'a> DataSPdu<'a> {
    /// Reads an S_PDU of type DATA; `None` for other types and what is too short.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&[first, saps, third], rest) = bytes.split_first_chunk::<3>()?;
        if first >> 4 != 0 {
            return None;
        }
        let (dies, u_pdu) = if third & 0x40 == 0 {
            (None, rest)
        } else {
            let (units, u_pdu) = rest.split_first_chunk::<2>()?;
            // A time that no day has says nothing.
            let dies = TimeToDie::from_fields(third & 15, u16::from_be_bytes(*units));
            (dies, u_pdu)
        };
        Some(Self {
            priority: first & 15,
            source: saps >> 4,
            destination: saps & 15,
            confirm: third & 0x80 != 0,
            dies,
            u_pdu,
        })
    }

    /// Appends the header; the U_PDU is left to the caller.
    pub fn put_header(&self, out: &mut Vec<u8>) {
        out.push(self.priority & 15);
        out.push(self.source << 4 | self.destination & 15);
        let third = u8::from(self.confirm) << 7;
        match self.dies.map(TimeToDie::fields) {
            None => out.push(third),
            Some((day, units)) => {
                out.push(third | 0x40 | day);
                out.extend_from_slice(&units.to_be_bytes());
            }
        }
    }
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
