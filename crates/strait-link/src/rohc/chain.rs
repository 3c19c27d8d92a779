//! Static and dynamic chains: what IR and IR-DYN packets say of a context whole (RFC 3095
//! section 5.7.7).

use alloc::vec::Vec;

use strait_wire::ip::put_udp_checksum;

use super::Profile;
use super::beyond::Kind;
use super::envelope::is_ip;
use super::fields::Fields;
use super::lists::{self, Of, Reader};
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
    /// How identifications of the IP header ahead of another go.
    pub(super) outer_ids: Ids,
}

/// How identifications of an IPv4 header go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ids {
    /// They have no order and are sent whole.
    pub(super) random: bool,
    /// They count in network byte order; else their octets are swapped.
    pub(super) network_order: bool,
    /// They are always the same (RFC 3843 section 3.3).
    pub(super) fixed: bool,
}

impl Ids {
    const COUNTING: Self = Self {
        random: false,
        network_order: true,
        fixed: false,
    };

    const fn follows(self) -> bool {
        !self.random && !self.fixed
    }

    /// Identification less sequence number.
    const fn offset(self, id: u16, sequence: u32) -> u16 {
        let id = if self.network_order {
            id
        } else {
            id.swap_bytes()
        };
        id.wrapping_sub(sequence as u16)
    }

    /// The identification that `offset` and `sequence` stand for.
    const fn at(self, offset: u16, sequence: u32) -> u16 {
        let id = offset.wrapping_add(sequence as u16);
        if self.network_order {
            id
        } else {
            id.swap_bytes()
        }
    }
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
            outer_ids: Ids::COUNTING,
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
        let flow = |known: &Self| {
            let mut fields = known.fields;
            fields.envelope.clear_lists();
            (fields.flow(known.profile), fields.source)
        };
        self.profile == other.profile && flow(self) == flow(other)
    }

    /// Takes what an IR packet may leave unsaid of its flow from what was known of that.
    pub(super) const fn stays(&mut self, before: &Self) {
        self.stride = before.stride;
        self.fields.envelope.list = before.fields.envelope.list;
        self.fields.envelope.outer_list = before.fields.envelope.outer_list;
    }

    /// Whether packets carry a UDP checksum.
    pub(super) const fn carries_checksum(&self) -> bool {
        let udp = matches!(self.profile, Profile::Udp | Profile::Rtp);
        udp && self.fields.checksum != 0 && !self.rebuilds
    }

    pub(super) const fn ids(&self) -> Ids {
        Ids {
            random: self.id_random,
            network_order: self.id_network_order,
            fixed: self.id_static,
        }
    }

    pub(super) const fn set_ids(&mut self, ids: Ids) {
        self.id_random = ids.random;
        self.id_network_order = ids.network_order;
        self.id_static = ids.fixed;
    }

    /// The IPv4 header whose identifications compressed headers say: the innermost one of those
    /// that aren't random.
    const fn counted(&self) -> Option<Of> {
        match self.fields.envelope.outer {
            _ if !self.fields.v6 && !self.id_random => Some(Of::Inner),
            Some(outer) if !outer.v6 && !self.outer_ids.random => Some(Of::Outer),
            _ => None,
        }
    }

    /// Whether compressed headers are of the kinds that say identifications by low bits.
    pub(super) const fn counts_ids(&self) -> bool {
        self.counted().is_some()
    }

    /// Whether identifications follow from sequence numbers and those bits.
    pub(super) const fn follows_ids(&self) -> bool {
        match self.counted() {
            Some(Of::Inner) => !self.id_static,
            Some(Of::Outer) => !self.outer_ids.fixed,
            None => false,
        }
    }

    /// Identification less sequence number.
    pub(super) const fn id_offset(&self, fields: &Fields) -> u16 {
        match (self.counted(), fields.envelope.outer) {
            (Some(Of::Outer), Some(outer)) => self.outer_ids.offset(outer.id, fields.sequence),
            _ => self.ids().offset(fields.id, fields.sequence),
        }
    }

    /// Takes the identification that `offset` and the sequence number stand for.
    pub(super) const fn follow_id(&mut self, offset: u16) {
        let sequence = self.fields.sequence;
        match (self.counted(), &mut self.fields.envelope.outer) {
            (Some(Of::Outer), Some(outer)) => outer.id = self.outer_ids.at(offset, sequence),
            _ => self.fields.id = self.ids().at(offset, sequence),
        }
    }

    /// The identification of an outer header that counts beside the inner one's, less the sequence
    /// number.
    pub(super) const fn outer_offset(&self, fields: &Fields) -> Option<u16> {
        match (self.counted(), fields.envelope.outer) {
            (Some(Of::Inner), Some(outer)) if !outer.v6 && self.outer_ids.follows() => {
                Some(self.outer_ids.offset(outer.id, fields.sequence))
            }
            _ => None,
        }
    }

    /// What an outer identification beside a counting one follows from: the offset, or itself.
    pub(super) const fn outer_follows_from(&self, fields: &Fields) -> Option<u16> {
        match (self.counted(), fields.envelope.outer) {
            (Some(Of::Inner), Some(outer)) if !outer.v6 && self.outer_ids.fixed => Some(outer.id),
            _ => self.outer_offset(fields),
        }
    }

    /// Takes the outer identification that such an offset stands for.
    pub(super) const fn follow_outer_id(&mut self, offset: u16) {
        if let Some(outer) = &mut self.fields.envelope.outer {
            outer.id = self.outer_ids.at(offset, self.fields.sequence);
        }
    }

    /// The outer header's identification, if packets carry it whole.
    pub(super) const fn random_outer_id(&mut self) -> Option<&mut u16> {
        match &mut self.fields.envelope.outer {
            Some(outer) if !outer.v6 && self.outer_ids.random => Some(&mut outer.id),
            _ => None,
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
        if let Some(outer) = fields.outer() {
            outer.put_static(false, out);
        }
        fields.put_static(is_ip(fields.protocol), out);
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
        let (mut fields, ends) = Fields::read_static(chain)?;
        if is_ip(fields.protocol) && !ends {
            let (inner, ends) = Fields::read_static(chain)?;
            if !fields.carries(inner.v6) || is_ip(inner.protocol) && !ends {
                return None;
            }
            fields = inner.behind(&fields);
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
        if let Some(outer) = fields.outer() {
            outer.put_dynamic(self.outer_ids, out);
        }
        fields.put_dynamic(self.ids(), out);
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
    pub(super) fn read_dynamic(
        &mut self,
        chain: &mut Cursor<'_>,
        lists: &mut Reader<'_>,
    ) -> Option<()> {
        if let Some(mut outer) = self.fields.outer() {
            self.outer_ids = outer.read_dynamic(Of::Outer, chain, lists)?;
            self.fields = self.fields.behind(&outer);
        }
        let ids = self.fields.read_dynamic(Of::Inner, chain, lists)?;
        self.set_ids(ids);
        let fields = &mut self.fields;
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
            _ => true,
        }
    }

    /// Appends the IP header's part of the static chain. It `ends` the chain although an IP header
    /// follows (RFC 3843 section 3.1).
    fn put_static(&self, ends: bool, out: &mut Vec<u8>) {
        let ends = if ends { 0x80 } else { 0 };
        if self.v6 {
            let first = 6 << 28 | self.flow_label << 8 | u32::from(self.protocol);
            out.extend_from_slice(&first.to_be_bytes());
            let at = out.len() - 4;
            out[at] |= ends;
            out.extend_from_slice(&self.src);
            out.extend_from_slice(&self.dst);
        } else {
            out.extend_from_slice(&[0x40 | ends, self.protocol]);
            out.extend_from_slice(&self.src[..4]);
            out.extend_from_slice(&self.dst[..4]);
        }
    }

    /// Reads that, and whether it ends the chain.
    fn read_static(chain: &mut Cursor<'_>) -> Option<(Self, bool)> {
        let mut fields = Self::default();
        let first = chain.u8()?;
        match first & 0x7f {
            0x40 => {
                fields.protocol = chain.u8()?;
                fields.src[..4].copy_from_slice(chain.take(4)?);
                fields.dst[..4].copy_from_slice(chain.take(4)?);
            }
            0x60..=0x6f => {
                let low: [u8; 2] = chain.array()?;
                fields.v6 = true;
                fields.flow_label = u32::from_be_bytes([0, first & 0x0f, low[0], low[1]]);
                fields.protocol = chain.u8()?;
                fields.src = chain.array()?;
                fields.dst = chain.array()?;
            }
            _ => return None,
        }
        Some((fields, first & 0x80 != 0))
    }

    /// Appends the IP header's part of the dynamic chain.
    fn put_dynamic(&self, ids: Ids, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.traffic_class, self.hop_limit]);
        if !self.v6 {
            out.extend_from_slice(&self.id.to_be_bytes());
            out.push(
                u8::from(self.dont_fragment) << 7
                    | u8::from(ids.random) << 6
                    | u8::from(ids.network_order) << 5
                    | u8::from(ids.fixed) << 4,
            );
        }
        lists::put(&self.envelope.list, out);
    }

    /// Reads that, and how identifications go.
    fn read_dynamic(
        &mut self,
        of: Of,
        chain: &mut Cursor<'_>,
        lists: &mut Reader<'_>,
    ) -> Option<Ids> {
        self.traffic_class = chain.u8()?;
        self.hop_limit = chain.u8()?;
        if self.v6 {
            let list = &mut self.envelope.list;
            *list = lists.read_or_keep(of, *list, chain)?;
            return Some(Ids::COUNTING);
        }
        self.id = chain.u16()?;
        let flags = chain.u8()?;
        self.dont_fragment = flags & 0x80 != 0;
        read_empty_list(chain)?;
        let ids = Ids {
            random: flags & 0x40 != 0,
            network_order: flags & 0x20 != 0,
            fixed: flags & 0x10 != 0,
        };
        (!ids.random || !ids.fixed).then_some(ids)
    }
}
