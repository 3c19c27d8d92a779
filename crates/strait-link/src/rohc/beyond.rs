//! What two ends of ours may agree on beyond the standard. Each of it is told by the number of a
//! context's profile in IR and IR-DYN, so that a packet never means different things to both.

use alloc::vec::Vec;
use core::net::IpAddr;

use crc::{CRC_32_ISO_HDLC, Crc, Table};

use super::Profile;
use super::chain::Known;
use super::fields::Fields;

static CRC32: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);

/// What the other end does, or takes, beyond the standard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beyond {
    /// It lets a transport checksum find timestamps whose low bits don't tell them: a packet
    /// behind a long silence needs no more octets than one behind a short one.
    pub far_timestamps: bool,
    /// Each packet ends with two octets that count those of its context's number, so that one that
    /// another has overtaken is known for what it is and refused: contexts only go forward. So is
    /// it known how many were lost, however many. For media that don't keep the order of frames
    /// (RFC 4224 has what becomes of headers there).
    pub counts: bool,
    /// It sends packets whose transport checksum is wrong uncompressed, as a [`Compressor`] does:
    /// where a compressed one's comes out wrong, so is the header, although its own check is right.
    ///
    /// [`Compressor`]: super::Compressor
    pub sums_vouched: bool,
    /// It rebuilds the UDP checksums that a compressor has found right and left out.
    pub checksums_rebuilt: bool,
    /// Flows that it knows beforehand, in the same order: the first of them have the first
    /// contexts' numbers, which no other flow gets.
    pub provisions: Vec<Provision>,
}

/// A flow over UDP that both ends know before its first packet, by addresses and ports. Its first
/// packets say what changes, the source of RTP, and the flow label of IPv6, which hosts make up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provision {
    /// Who sends.
    pub src: IpAddr,
    /// To whom; of the same family.
    pub dst: IpAddr,
    /// Source and destination port.
    pub ports: [u16; 2],
}

impl Provision {
    /// The most flows known beforehand: other flows need contexts too.
    pub const MAX: usize = 8;

    /// What stands for these flows, in this order: the same number at both ends, or they don't mean
    /// the same. Zero for none.
    pub fn digest(provisions: &[Self]) -> u32 {
        if provisions.is_empty() {
            return 0;
        }
        let mut digest = CRC32.digest();
        let mut chain = Vec::new();
        for provision in provisions {
            Known::new(Profile::Udp, provision.fields()).put_static(&mut chain);
        }
        digest.update(&chain);
        digest.finalize().max(1)
    }

    /// Whether this is the flow of a packet with these fields.
    pub(super) fn is_of(&self, fields: &Fields) -> bool {
        let flow = |it: Fields| {
            let flow_label = 0;
            Fields { flow_label, ..it }.flow(Profile::Udp)
        };
        flow(self.fields()) == flow(*fields)
    }

    /// What is known of the flow that a packet with these fields is of, if its context's profile is
    /// one that flows known beforehand may have.
    pub(super) fn of(profile: Profile, fields: &Fields) -> Option<Self> {
        let address = |octets: &[u8; 16]| {
            let [a, b, c, d, ..] = *octets;
            if fields.v6 {
                IpAddr::from(*octets)
            } else {
                IpAddr::from([a, b, c, d])
            }
        };
        let udp = matches!(profile, Profile::Udp | Profile::Rtp);
        (udp && fields.envelope.is_empty()).then(|| Self {
            src: address(&fields.src),
            dst: address(&fields.dst),
            ports: fields.ports,
        })
    }

    /// The fields that are known.
    pub(super) fn fields(&self) -> Fields {
        let mut fields = Fields {
            protocol: 17,
            ports: self.ports,
            ..Fields::default()
        };
        match (self.src, self.dst) {
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                fields.v6 = true;
                (fields.src, fields.dst) = (src.octets(), dst.octets());
            }
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                fields.src[..4].copy_from_slice(&src.octets());
                fields.dst[..4].copy_from_slice(&dst.octets());
            }
            // No packet has addresses of both families.
            _ => fields.protocol = 0,
        }
        fields
    }
}

/// A profile as IR and IR-DYN number it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) profile: Profile,
    /// The UDP checksum is left out and rebuilt.
    pub(super) rebuilds: bool,
    /// What never changes is known beforehand, but for flow label and source of RTP.
    pub(super) provisioned: bool,
}

const REBUILDS: u8 = 0x80;
const PROVISIONED: u8 = 0x40;

impl Kind {
    pub(super) const fn number(self) -> u8 {
        self.profile.number()
            | if self.rebuilds { REBUILDS } else { 0 }
            | if self.provisioned { PROVISIONED } else { 0 }
    }

    pub(super) fn numbered(number: u8) -> Option<Self> {
        let profile = Profile::numbered(number & !(REBUILDS | PROVISIONED))?;
        let kind = Self {
            profile,
            rebuilds: number & REBUILDS != 0,
            provisioned: number & PROVISIONED != 0,
        };
        let udp = matches!(profile, Profile::Udp | Profile::Rtp);
        (udp || !kind.is_private()).then_some(kind)
    }

    /// Nothing of the standard's. Its IR-DYN has a check that covers the static chain too.
    pub(super) const fn is_private(self) -> bool {
        self.rebuilds || self.provisioned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_tell_what_goes_beyond_the_standard() {
        for number in 0..=u8::MAX {
            let Some(kind) = Kind::numbered(number) else {
                continue;
            };
            assert_eq!(kind.number(), number);
            assert_eq!(kind.is_private(), number > 6);
        }
        let known = (0..=u8::MAX).filter(|&number| Kind::numbered(number).is_some());
        let known: Vec<u8> = known.collect();
        let standard = [0, 1, 2, 3, 4, 6];
        assert_eq!(known[..6], standard);
        assert_eq!(known[6..], [0x41, 0x42, 0x81, 0x82, 0xc1, 0xc2]);
    }

    #[test]
    fn a_flow_is_known_by_its_fields_again() {
        for src in [IpAddr::V6([1; 8].into()), IpAddr::V4([10, 0, 0, 1].into())] {
            let flow = Provision {
                src,
                dst: src,
                ports: [40_000, 5004],
            };
            for profile in [Profile::Udp, Profile::Rtp] {
                assert_eq!(Provision::of(profile, &flow.fields()), Some(flow));
            }
            assert_eq!(Provision::of(Profile::Ip, &flow.fields()), None);
        }
    }

    #[test]
    fn other_flows_and_another_order_have_another_digest() {
        let [a, b] = [1, 2].map(|port| Provision {
            src: IpAddr::V6([1; 8].into()),
            dst: IpAddr::V6([2; 8].into()),
            ports: [port, 5004],
        });
        let lists: [&[Provision]; 5] = [&[], &[a], &[b], &[a, b], &[b, a]];
        let digests = lists.map(Provision::digest);
        for (place, digest) in digests.iter().enumerate() {
            assert_eq!(*digest == 0, place == 0);
            assert!(!digests[..place].contains(digest));
        }
    }
}
