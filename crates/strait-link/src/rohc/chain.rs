//! Static and dynamic chains: what IR and IR-DYN packets say of a context whole (RFC 3095
//! section 5.7.7).

use alloc::vec::Vec;

use strait_wire::ip::put_udp_checksum;

use super::Profile;
use super::beyond::Kind;
use super::fields::Fields;
use super::numbers::{Cursor, put_sdvl, sdvl_width};

/// What both ends of a context know: the last packet's fields, and how some of them change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) profile: Profile,
    pub(super) fields: Fields,
    /// IPv4 identifications have no order and are sent whole.
    pub(super) id_random: bool,
    /// IPv4 identifications count in network byte order; else their octets are swapped.
    pub(super) id_network_order: bool,
    /// IPv4 identifications are always the same (RFC 3843 section 3.3).
    pub(super) id_static: bool,
    /// What RTP timestamps are multiples of, but for an offset; zero while that isn't known.
    pub(super) stride: u32,
    /// Bidirectional optimistic mode, as the compressor says.
    pub(super) optimistic: bool,
    /// The UDP checksum is left out and rebuilt.
    pub(super) rebuilds: bool,
    /// The other end knows addresses and ports beforehand.
    pub(super) provisioned: bool,
}

impl Known {
    pub(super) const fn new(profile: Profile, fields: Fields) -> Self {
        Self {
            profile,
            fields,
            id_random: false,
            id_network_order: true,
            id_static: false,
            stride: 0,
            optimistic: false,
            rebuilds: false,
            provisioned: false,
        }
    }

    /// The profile's number, and what goes beyond it.
    pub(super) const fn kind(&self) -> Kind {
        Kind {
            profile: self.profile,
            rebuilds: self.rebuilds,
            provisioned: self.provisioned,
        }
    }

    /// Whether the flow is that of `other`: their static chains are the same.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        let flow = |known: &Self| (known.fields.flow(known.profile), known.fields.source);
        self.profile == other.profile && flow(self) == flow(other)
    }

    /// Whether packets carry a UDP checksum.
    pub(super) const fn carries_checksum(&self) -> bool {
        let udp = matches!(self.profile, Profile::Udp | Profile::Rtp);
        udp && self.fields.checksum != 0 && !self.rebuilds
    }

    /// Whether compressed headers are of the kinds that say identifications by low bits.
    pub(super) const fn counts_ids(&self) -> bool {
        !self.fields.v6 && !self.id_random
    }

    /// Whether identifications follow from sequence numbers and those bits.
    pub(super) const fn follows_ids(&self) -> bool {
        self.counts_ids() && !self.id_static
    }

    /// Identification less sequence number.
    pub(super) const fn id_offset(&self, fields: &Fields) -> u16 {
        let id = if self.id_network_order {
            fields.id
        } else {
            fields.id.swap_bytes()
        };
        id.wrapping_sub(fields.sequence as u16)
    }

    /// The identification that `offset` and `sequence` stand for.
    pub(super) const fn id_at(&self, offset: u16, sequence: u32) -> u16 {
        let id = offset.wrapping_add(sequence as u16);
        if self.id_network_order {
            id
        } else {
            id.swap_bytes()
        }
    }

    /// Appends the headers that these are, and `payload`. `false`, and nothing is appended, if no
    /// packet is that long.
    pub(super) fn emit(&self, payload: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let done = self.fields.emit(self.profile, payload.len(), out);
        if done {
            out.extend_from_slice(payload);
            if self.rebuilds {
                put_udp_checksum(&mut out[start..]);
            }
        }
        done
    }

    /// Appends the static chain.
    pub(super) fn put_static(&self, out: &mut Vec<u8>) {
        let fields = &self.fields;
        if fields.v6 {
            let first = 6 << 28 | fields.flow_label << 8 | u32::from(fields.protocol);
            out.extend_from_slice(&first.to_be_bytes());
            out.extend_from_slice(&fields.src);
            out.extend_from_slice(&fields.dst);
        } else {
            out.extend_from_slice(&[0x40, fields.protocol]);
            out.extend_from_slice(&fields.src[..4]);
            out.extend_from_slice(&fields.dst[..4]);
        }
        if matches!(self.profile, Profile::Udp | Profile::Rtp) {
            out.extend_from_slice(&fields.ports[0].to_be_bytes());
            out.extend_from_slice(&fields.ports[1].to_be_bytes());
        }
        if matches!(self.profile, Profile::Esp | Profile::Rtp) {
            out.extend_from_slice(&fields.source.to_be_bytes());
        }
    }

    /// Appends what nobody knows beforehand of a flow that never changes: the flow label of IPv6 in
    /// three octets, and the source of RTP.
    pub(super) fn put_unprovisioned(&self, out: &mut Vec<u8>) {
        let fields = &self.fields;
        if fields.v6 {
            out.extend_from_slice(&fields.flow_label.to_be_bytes()[1..]);
        }
        if self.profile == Profile::Rtp {
            out.extend_from_slice(&fields.source.to_be_bytes());
        }
    }

    /// Reads that.
    pub(super) fn read_unprovisioned(&mut self, chain: &mut Cursor<'_>) -> Option<()> {
        let fields = &mut self.fields;
        if fields.v6 {
            let [a, b, c] = chain.array()?;
            fields.flow_label = u32::from_be_bytes([0, a & 0x0f, b, c]);
        }
        if self.profile == Profile::Rtp {
            fields.source = chain.u32()?;
        }
        Some(())
    }

    /// Reads a static chain.
    pub(super) fn read_static(profile: Profile, chain: &mut Cursor<'_>) -> Option<Self> {
        let mut fields = Fields::default();
        match chain.u8()? {
            first if first >> 4 == 6 => {
                let low: [u8; 2] = chain.array()?;
                fields.v6 = true;
                fields.flow_label = u32::from_be_bytes([0, first & 0x0f, low[0], low[1]]);
                fields.protocol = chain.u8()?;
                fields.src = chain.array()?;
                fields.dst = chain.array()?;
            }
            0x40 => {
                fields.protocol = chain.u8()?;
                fields.src[..4].copy_from_slice(chain.take(4)?);
                fields.dst[..4].copy_from_slice(chain.take(4)?);
            }
            _ => return None,
        }
        if matches!(profile, Profile::Udp | Profile::Rtp) {
            fields.ports = [chain.u16()?, chain.u16()?];
        }
        if matches!(profile, Profile::Esp | Profile::Rtp) {
            fields.source = chain.u32()?;
        }
        fields.fits(profile).then_some(Self::new(profile, fields))
    }

    /// Appends the dynamic chain.
    pub(super) fn put_dynamic(&self, out: &mut Vec<u8>) {
        let fields = &self.fields;
        out.extend_from_slice(&[fields.traffic_class, fields.hop_limit]);
        if !fields.v6 {
            out.extend_from_slice(&fields.id.to_be_bytes());
            out.push(
                u8::from(fields.dont_fragment) << 7
                    | u8::from(self.id_random) << 6
                    | u8::from(self.id_network_order) << 5
                    | u8::from(self.id_static) << 4,
            );
        }
        out.push(EMPTY_LIST);
        if matches!(self.profile, Profile::Udp | Profile::Rtp) && !self.rebuilds {
            out.extend_from_slice(&fields.checksum.to_be_bytes());
        }
        match self.profile {
            Profile::Rtp => self.put_rtp(out),
            Profile::Esp => out.extend_from_slice(&fields.sequence.to_be_bytes()),
            _ => out.extend_from_slice(&(fields.sequence as u16).to_be_bytes()),
        }
    }

    fn put_rtp(&self, out: &mut Vec<u8>) {
        let fields = &self.fields;
        out.push(0x90 | u8::from(fields.padding) << 5);
        out.push(u8::from(fields.marker) << 7 | fields.payload_type);
        out.extend_from_slice(&(fields.sequence as u16).to_be_bytes());
        out.extend_from_slice(&fields.timestamp.to_be_bytes());
        out.push(EMPTY_LIST);
        let stride = sdvl_width(self.stride).filter(|_| self.stride != 0);
        let mode = mode_bits(self.optimistic);
        out.push(u8::from(fields.extension) << 4 | mode << 2 | u8::from(stride.is_some()));
        if let Some(width) = stride {
            put_sdvl(self.stride, width, out);
        }
    }

    /// Reads a dynamic chain.
    pub(super) fn read_dynamic(&mut self, chain: &mut Cursor<'_>) -> Option<()> {
        let fields = &mut self.fields;
        fields.traffic_class = chain.u8()?;
        fields.hop_limit = chain.u8()?;
        if !fields.v6 {
            fields.id = chain.u16()?;
            let flags = chain.u8()?;
            fields.dont_fragment = flags & 0x80 != 0;
            self.id_random = flags & 0x40 != 0;
            self.id_network_order = flags & 0x20 != 0;
            self.id_static = flags & 0x10 != 0;
            if self.id_random && self.id_static {
                return None;
            }
        }
        read_empty_list(chain)?;
        if matches!(self.profile, Profile::Udp | Profile::Rtp) && !self.rebuilds {
            fields.checksum = chain.u16()?;
        }
        match self.profile {
            Profile::Rtp => self.read_rtp(chain)?,
            Profile::Esp => fields.sequence = chain.u32()?,
            _ => fields.sequence = u32::from(chain.u16()?),
        }
        Some(())
    }

    fn read_rtp(&mut self, chain: &mut Cursor<'_>) -> Option<()> {
        let fields = &mut self.fields;
        let first = chain.u8()?;
        let second = chain.u8()?;
        if first & 0xcf != 0x80 {
            return None;
        }
        fields.padding = first & 0x20 != 0;
        fields.extension = false;
        fields.marker = second & 0x80 != 0;
        fields.payload_type = second & 0x7f;
        fields.sequence = u32::from(chain.u16()?);
        fields.timestamp = chain.u32()?;
        read_empty_list(chain)?;
        // A stride that isn't said stays (section 5.7, RFC 4815 section 6.3).
        if first & 0x10 != 0 {
            let flags = chain.u8()?;
            fields.extension = flags & 0x10 != 0;
            self.optimistic = flags >> 2 & 3 != mode_bits(false);
            if flags & 0x01 != 0 {
                self.stride = chain.sdvl()?.value;
            }
            if flags & 0x02 != 0 {
                // The time that timestamps tell; for compression by a clock, which we don't do.
                chain.sdvl()?;
            }
        }
        Some(())
    }
}

/// The mode field: unidirectional, bidirectional optimistic (section 5.7.7.6).
pub(super) const fn mode_bits(optimistic: bool) -> u8 {
    if optimistic { 2 } else { 1 }
}

/// A compressed list of no items (section 5.8.6.1).
const EMPTY_LIST: u8 = 0;

/// Reads a list that has no items: other lists we refuse.
fn read_empty_list(chain: &mut Cursor<'_>) -> Option<()> {
    let first = chain.u8()?;
    if first & 0x20 != 0 {
        chain.u8()?;
    }
    (first & 0xcf == 0).then_some(())
}

impl Fields {
    /// Whether the profile has headers of this kind.
    const fn fits(&self, profile: Profile) -> bool {
        match profile {
            Profile::Udp | Profile::Rtp => self.protocol == 17,
            Profile::Esp => self.protocol == 50,
            // Headers in between would have to follow in the chain.
            _ => !matches!(self.protocol, 0 | 4 | 41 | 43 | 44 | 51 | 60),
        }
    }
}
