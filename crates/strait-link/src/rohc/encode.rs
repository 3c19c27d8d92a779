//! One context of a compressor: which of a header's fields the other end can tell by itself, and
//! the shortest format that says the others.

use alloc::vec::Vec;

use super::beyond::{Beyond, Kind};
use super::chain::{Ids, Known, mode_bits};
use super::check::{Sums, crc8};
use super::decode::ROUNDS_MAX;
use super::fields::{Fields, Spans};
use super::numbers::{Bits, Number, low_mask, sdvl_width};
use super::pace::{Pace, Say};
use super::{Cid, Profile, Settings};

/// What one sent packet told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    sequence: u32,
    pub(super) timestamp: u32,
    id_offset: u16,
    /// What the outer identification follows from, if it does.
    outer: Option<u16>,
    rare: Rare,
}

/// What changes rarely, and what extension 3 says whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rare {
    traffic_class: u8,
    hop_limit: u8,
    dont_fragment: bool,
    padding: bool,
    extension: bool,
    payload_type: u8,
}

impl Fields {
    const fn rare(&self) -> Rare {
        Rare {
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            dont_fragment: self.dont_fragment,
            padding: self.padding,
            extension: self.extension,
            payload_type: self.payload_type,
        }
    }

    const fn with_rare(self, rare: Rare) -> Self {
        Self {
            traffic_class: rare.traffic_class,
            hop_limit: rare.hop_limit,
            dont_fragment: rare.dont_fragment,
            padding: rare.padding,
            extension: rare.extension,
            payload_type: rare.payload_type,
            ..self
        }
    }
}

/// What the last packets told. The other end knows one of them, whichever arrived last.
#[derive(Clone, Debug)]
pub(super) struct Window<T> {
    sent: [Option<T>; Settings::REPEATS_MAX as usize],
    next: usize,
}

impl<T> Default for Window<T> {
    fn default() -> Self {
        Self {
            sent: [const { None }; Settings::REPEATS_MAX as usize],
            next: 0,
        }
    }
}

impl<T> Window<T> {
    pub(super) fn push(&mut self, sent: T, length: u8) {
        self.sent[self.next] = Some(sent);
        self.next = (self.next + 1) % usize::from(length.clamp(1, Settings::REPEATS_MAX));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.sent.iter().flatten()
    }

    pub(super) fn all(&self, holds: impl FnMut(&T) -> bool) -> bool {
        self.iter().all(holds)
    }

    /// Forgets what the other end can't know any more.
    pub(super) fn retain(&mut self, keeps: impl Fn(&T) -> bool) {
        for sent in &mut self.sent {
            if !sent.as_ref().is_some_and(&keeps) {
                *sent = None;
            }
        }
    }
}

/// How identifications have gone lately.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IdHabit {
    /// Steps in a row that were no small step ahead.
    astray: u8,
    /// Steps in a row that were.
    orderly: u8,
}

/// Steps out of order after which identifications are taken for random.
const ASTRAY_MAX: u8 = 2;
/// Steps in order after which they aren't any more.
const ORDERLY_MIN: u8 = 8;
/// The largest step between two packets of a flow whose host counts for all its flows together.
const ID_STEP_MAX: u16 = 16;

/// How identifications are taken to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdOrder {
    /// Without order.
    pub(super) random: bool,
    /// They count in network byte order; else their octets are swapped.
    pub(super) network: bool,
}

impl IdHabit {
    /// Takes in the step from one identification to the next.
    pub(super) fn watch(&mut self, last: u16, id: u16, order: &mut IdOrder) {
        let step = id.wrapping_sub(last);
        let swapped = id.swap_bytes().wrapping_sub(last.swap_bytes());
        let small = |step: u16| (1..=ID_STEP_MAX).contains(&step);
        let (this_way, other_way) = if order.network {
            (step, swapped)
        } else {
            (swapped, step)
        };
        let (in_order, other_way) = (small(this_way), small(other_way));
        if in_order || other_way && order.random {
            self.astray = 0;
            self.orderly = self.orderly.saturating_add(1);
        } else {
            self.astray = self.astray.saturating_add(1);
            self.orderly = 0;
        }
        if order.random {
            if self.orderly >= ORDERLY_MIN {
                order.random = false;
                order.network = small(step);
            }
        } else if !in_order && other_way {
            order.network = !order.network;
            self.astray = 0;
        } else if self.astray >= ASTRAY_MAX {
            order.random = true;
        }
    }
}

/// The compressing end of one context.
#[derive(Clone, Debug)]
pub(super) struct Encoder {
    pub(super) known: Known,
    pub(super) window: Window<Sent>,
    habit: IdHabit,
    /// Identifications in a row that were the one before.
    steady: u8,
    /// Outer ones in a row that were the one before, and that stepped as sequence numbers do.
    outer_runs: [u8; 2],
    /// Outer ones in a row that went as they weren't expected to.
    outer_astray: u8,
    /// The other end reads identifications that stay the same.
    static_ids: bool,
    pace: Pace,
    /// The checks over what stays of the last header.
    pub(super) sums: Sums,
    /// Nothing has been sent.
    fresh: bool,
    /// Packets that still have to say the timestamps' stride.
    pub(super) stride_left: u8,
    /// The stride of the last two packets, whether or not it is used.
    stride_seen: u32,
}

/// What one packet needs to say beside the sequence number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    pub(super) spans: Spans,
    pub(super) timestamp: Stamp,
    /// The identification's offset is that of all packets in the window.
    pub(super) id_same: bool,
    pub(super) id_offset: u16,
    /// The other end finds timestamps by the transport checksum.
    pub(super) far_timestamps: bool,
    /// Only extension 3 says it.
    pub(super) ip: Option<IpFlags>,
    /// The flags of RTP in extension 3 have to say it.
    pub(super) rtp: bool,
}

impl Needs {
    /// Only extension 3 will do.
    pub(super) const fn extension_3(&self) -> bool {
        self.ip.is_some() || self.rtp
    }
}

/// The flags of an IP header in extension 3 (section 5.7.5), and what follows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IpFlags {
    pub(super) flags: u8,
    traffic_class: Option<u8>,
    hop_limit: Option<u8>,
}

impl IpFlags {
    /// Appends the fields that are said.
    pub(super) fn put_fields(self, out: &mut Vec<u8>) {
        out.extend(self.traffic_class.into_iter().chain(self.hop_limit));
    }
}

/// How the timestamp can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// It follows from the sequence number; this is its scaled value.
    Follows(u32),
    /// By low bits of the scaled value.
    Scaled(u32),
    /// Only by low bits of itself.
    Plain,
}

impl Encoder {
    /// A context that the other end knows nothing of but what it is `provisioned` with.
    pub(super) fn new(
        profile: Profile,
        fields: Fields,
        provisioned: bool,
        (settings, beyond): (&Settings, &Beyond),
    ) -> Self {
        let udp = matches!(profile, Profile::Udp | Profile::Rtp);
        // What lies around may say that the checksum is over other addresses.
        let rebuilds = udp && fields.checksum != 0 && fields.envelope.is_empty();
        let known = Known {
            rebuilds: rebuilds && beyond.checksums_rebuilt,
            provisioned: provisioned && udp,
            ..Known::new(profile, fields)
        };
        let repeats = settings.repeats.saturating_mul(known.doubt());
        let repeats = repeats.clamp(1, Settings::REPEATS_MAX);
        Self {
            known,
            window: Window::default(),
            habit: IdHabit::default(),
            steady: 0,
            outer_runs: [0; 2],
            outer_astray: 0,
            static_ids: settings.static_ids || profile == Profile::Ip,
            pace: Pace::new(repeats, fields.sequence),
            sums: Sums::default(),
            fresh: true,
            stride_left: 0,
            stride_seen: 0,
        }
    }

    pub(super) const fn profile(&self) -> Profile {
        self.known.profile
    }

    /// What the context's profile is, and goes beyond it.
    pub(super) const fn kind(&self) -> Kind {
        self.known.kind()
    }

    /// The last packet's fields.
    pub(super) const fn last(&self) -> &Fields {
        &self.known.fields
    }

    /// The pace at which it is said.
    pub(super) const fn pace(&mut self) -> &mut Pace {
        &mut self.pace
    }

    /// Says everything again, as after the other end has lost all.
    pub(super) const fn begin_again(&mut self) {
        self.pace
            .begin_again(self.known.fields.sequence.wrapping_add(1));
    }

    /// Says again what changes.
    const fn repeat_dynamic(&mut self) {
        self.pace
            .repeat_dynamic(self.known.fields.sequence.wrapping_add(1));
    }

    /// Says what the other end lacks, which has some of the context.
    pub(super) const fn answer_nack(&mut self) {
        self.pace
            .answer_nack(self.known.fields.sequence.wrapping_add(1));
    }

    /// The other end has taken in the packet with these low bits of a sequence number.
    pub(super) fn confirm(&mut self, acknowledged: Bits) {
        let last = self.known.fields.sequence;
        let behind = last.wrapping_sub(acknowledged.value) & low_mask(acknowledged.width);
        let sequence = last.wrapping_sub(behind);
        self.known.optimistic = true;
        if !self.pace.confirm(sequence) {
            return;
        }
        self.stride_left = 0;
        // What was sent before is known no more: the receiver doesn't go back.
        self.window
            .retain(|sent| sent.sequence.wrapping_sub(sequence) as i16 >= 0);
    }

    /// Appends the compressed form of the headers `header`, which `fields` are read from.
    pub(super) fn encode(
        &mut self,
        mut fields: Fields,
        header: &[u8],
        cid: Cid,
        (settings, beyond): (&Settings, &Beyond),
        out: &mut Vec<u8>,
    ) {
        let first = core::mem::replace(&mut self.fresh, false);
        if !matches!(self.known.profile, Profile::Rtp | Profile::Esp) {
            let step = u32::from(!first);
            fields.sequence = (self.known.fields.sequence + step) & 0xffff;
        }
        if !first {
            self.watch(&fields);
        }
        if first || !fields.stays_as(&self.known.fields) {
            self.sums = Sums::of(header, self.spans());
        }
        let say = self.pace.advance(settings);
        let before = core::mem::replace(&mut self.known.fields, fields);
        match say {
            Say::Whole => self.put_whole(cid, out),
            Say::Dynamic => self.put_dynamic(cid, out),
            Say::Changes => {
                if !self.put_compressed(header, cid, beyond, out) {
                    self.pace.fall_back(before.sequence.wrapping_add(1));
                    self.put_dynamic(cid, out);
                }
            }
        }
        let sent = Sent {
            sequence: fields.sequence,
            timestamp: fields.timestamp,
            id_offset: self.known.id_offset(&fields),
            outer: self.known.outer_follows_from(&fields),
            rare: fields.rare(),
        };
        self.window.push(sent, self.pace.repeats);
    }

    /// Finds what has changed since the last packet that compressed headers can't say.
    fn watch(&mut self, fields: &Fields) {
        let last = self.known.fields;
        let same = Fields {
            id: last.id,
            marker: last.marker,
            timestamp: last.timestamp,
            sequence: last.sequence,
            checksum: if fields.checksum == 0 || last.checksum == 0 {
                fields.checksum
            } else {
                last.checksum
            },
            envelope: last.envelope,
            ..fields.with_rare(last.rare())
        };
        let same = same == last && fields.envelope.stays_as(&last.envelope);
        let before = self.known;
        self.watch_ids(fields);
        if !same || before != self.known {
            self.repeat_dynamic();
        }
        if self.known.profile == Profile::Rtp {
            self.watch_stride(fields);
        }
    }

    /// Finds how identifications go of the innermost IPv4 header.
    fn watch_ids(&mut self, fields: &Fields) {
        let before = self.known.fields;
        let outers = (before.envelope.outer, fields.envelope.outer);
        match outers {
            _ if !fields.v6 => {
                let ids = self.watched(self.known.ids(), before.id, fields.id);
                self.known.set_ids(ids);
                if let (Some(last), Some(outer)) = outers
                    && !outer.v6
                {
                    let step = fields.sequence.wrapping_sub(before.sequence) as u16;
                    self.watch_outer_ids(outer.id.wrapping_sub(last.id), step);
                }
            }
            (Some(last), Some(outer)) if !outer.v6 => {
                self.known.outer_ids = self.watched(self.known.outer_ids, last.id, outer.id);
            }
            _ => {}
        }
    }

    /// Finds how identifications go of an IPv4 header ahead of another: they are the same, step as
    /// sequence numbers do, or have no order.
    fn watch_outer_ids(&mut self, ahead: u16, step: u16) {
        let ids = &mut self.known.outer_ids;
        let runs = [ahead == 0, ahead == step];
        for (run, goes_on) in self.outer_runs.iter_mut().zip(runs) {
            *run = if goes_on { run.saturating_add(1) } else { 0 };
        }
        let least = if ids.random { ORDERLY_MIN } else { ASTRAY_MAX };
        let [same, steps] = self.outer_runs.map(|run| run >= least);
        let goes_on = runs[usize::from(!ids.fixed)];
        self.outer_astray = if ids.random || goes_on {
            0
        } else {
            self.outer_astray.saturating_add(1)
        };
        if same && self.static_ids {
            (ids.fixed, ids.random) = (true, false);
        } else if steps {
            (ids.fixed, ids.random) = (false, false);
        } else if self.outer_astray >= ASTRAY_MAX {
            (ids.fixed, ids.random) = (false, true);
        }
    }

    /// How identifications go that went like `ids` and step from `last` to `id`.
    fn watched(&mut self, ids: Ids, last: u16, id: u16) -> Ids {
        self.steady = if id == last {
            self.steady.saturating_add(1)
        } else {
            0
        };
        let least = match (ids.fixed, ids.random) {
            (true, _) => 1,
            (false, true) => ORDERLY_MIN,
            (false, false) => ASTRAY_MAX,
        };
        if self.static_ids && self.steady >= least {
            return Ids {
                fixed: true,
                random: false,
                ..ids
            };
        }
        let mut order = IdOrder {
            random: ids.random,
            network: ids.network_order,
        };
        self.habit.watch(last, id, &mut order);
        Ids {
            fixed: false,
            random: order.random,
            network_order: order.network,
        }
    }

    /// Takes the timestamps' stride from two steps of the same size, or from the first one.
    fn watch_stride(&mut self, fields: &Fields) {
        let last = &self.known.fields;
        let steps = fields.sequence.wrapping_sub(last.sequence) & 0xffff;
        let ahead = fields.timestamp.wrapping_sub(last.timestamp);
        if steps == 0 || !ahead.is_multiple_of(steps) || sdvl_width(ahead).is_none() {
            return;
        }
        let stride = ahead / steps;
        let again = core::mem::replace(&mut self.stride_seen, stride) == stride;
        let expressed = self.known.stride != 0 && ahead.is_multiple_of(self.known.stride);
        if stride > 0 && !expressed && (again || self.known.stride == 0) {
            self.known.stride = stride;
            self.stride_left = self.pace.repeats;
            self.pace.say_since(fields.sequence);
        }
    }

    /// IR (RFC 3095 section 5.2.3), or what does for a flow that the other end is provisioned with:
    /// an IR-DYN packet that says the source of RTP ahead of what changes.
    fn put_whole(&mut self, cid: Cid, out: &mut Vec<u8>) {
        self.put_chains(self.known.kind(), true, cid, out);
    }

    /// IR-DYN (section 5.2.4).
    fn put_dynamic(&mut self, cid: Cid, out: &mut Vec<u8>) {
        let kind = Kind {
            provisioned: false,
            ..self.known.kind()
        };
        self.put_chains(kind, false, cid, out);
    }

    fn put_chains(&mut self, kind: Kind, whole: bool, cid: Cid, out: &mut Vec<u8>) {
        self.stride_left = self.stride_left.saturating_sub(1);
        let start = out.len();
        let says_static = whole && !kind.provisioned;
        cid.put(if says_static { 0xfd } else { 0xf8 }, out);
        out.extend_from_slice(&[kind.number(), 0]);
        let check = out.len() - 1;
        if says_static {
            self.known.put_static(out);
        } else if whole {
            self.known.put_unprovisioned(out);
        }
        self.known.put_dynamic(out);
        let mut unsaid = Vec::new();
        if !says_static && kind.is_private() {
            self.known.put_static(&mut unsaid);
        }
        out[check] = crc8(&[&out[start..], &unsaid]);
    }

    /// A compressed header and what follows it whole. `false`, and nothing is appended, if none
    /// says enough.
    fn put_compressed(
        &mut self,
        header: &[u8],
        cid: Cid,
        beyond: &Beyond,
        out: &mut Vec<u8>,
    ) -> bool {
        let outer = self.known.outer_follows_from(&self.known.fields);
        if !self.window.all(|sent| sent.outer == outer) {
            return false;
        }
        let needs = self.needs(beyond);
        let rtp = self.known.profile == Profile::Rtp;
        let done = if rtp {
            self.put_rtp(needs, header, cid, out)
        } else {
            self.put_other(needs, header, cid, out)
        };
        if !done {
            return false;
        }
        if let Some(id) = self.known.random_outer_id() {
            out.extend_from_slice(&id.to_be_bytes());
        }
        let fields = &self.known.fields;
        if !fields.v6 && self.known.id_random {
            out.extend_from_slice(&fields.id.to_be_bytes());
        }
        if self.known.carries_checksum() {
            out.extend_from_slice(&fields.checksum.to_be_bytes());
        }
        true
    }

    const fn spans(&self) -> Spans {
        Spans::new(self.known.profile, &self.known.fields)
    }

    fn needs(&self, beyond: &Beyond) -> Needs {
        let known = &self.known;
        let id_offset = known.id_offset(&known.fields);
        Needs {
            spans: self.spans(),
            timestamp: self.stamp(),
            id_same: !known.follows_ids() || self.window.all(|sent| sent.id_offset == id_offset),
            id_offset,
            far_timestamps: beyond.far_timestamps && known.carries_checksum(),
            ip: self.ip_flags(),
            rtp: !self.window.all(|sent| {
                let rtp = |rare: Rare| (rare.padding, rare.extension, rare.payload_type);
                rtp(sent.rare) == rtp(known.fields.rare())
            }),
        }
    }

    /// What has changed in the IP header for whoever knows any packet of the window.
    fn ip_flags(&self) -> Option<IpFlags> {
        let now = self.known.fields.rare();
        let same = |of: fn(Rare) -> u8| self.window.all(|sent| of(sent.rare) == of(now));
        let class = !same(|rare| rare.traffic_class);
        let hops = !same(|rare| rare.hop_limit);
        let fragment = !same(|rare| u8::from(rare.dont_fragment));
        let bit = |set: bool, at: u8| u8::from(set) << at;
        let v4 = !self.known.fields.v6;
        (class || hops || fragment).then_some(IpFlags {
            flags: bit(class, 7)
                | bit(hops, 6)
                | bit(now.dont_fragment, 5)
                | bit(v4 && self.known.id_network_order, 2)
                | bit(v4 && self.known.id_random, 1),
            traffic_class: class.then_some(now.traffic_class),
            hop_limit: hops.then_some(now.hop_limit),
        })
    }

    /// How the timestamp can be said to whoever knows any packet of the window.
    fn stamp(&self) -> Stamp {
        let stride = self.known.stride;
        let Fields {
            timestamp,
            sequence,
            ..
        } = self.known.fields;
        if stride == 0 || self.stride_left > 0 {
            return Stamp::Plain;
        }
        // The stride's multiples begin anew where timestamps wrap.
        let scalable = |sent: &Sent| {
            let wraps = timestamp.abs_diff(sent.timestamp) > u32::MAX / 2;
            sent.timestamp % stride == timestamp % stride && !wraps
        };
        if !self.window.all(scalable) {
            return Stamp::Plain;
        }
        let scaled = timestamp / stride;
        let follows = |sent: &Sent| {
            let steps = u32::from(sequence.wrapping_sub(sent.sequence) as u16);
            sent.timestamp.wrapping_add(steps.wrapping_mul(stride)) == timestamp
        };
        if self.window.all(follows) {
            Stamp::Follows(scaled)
        } else {
            Stamp::Scaled(scaled)
        }
    }

    fn sequence_kind(&self) -> Number {
        self.known.profile.sequence_kind()
    }

    pub(super) fn sequence_fits(&self, k: u8) -> bool {
        let value = self.known.fields.sequence;
        self.window
            .all(|sent| self.sequence_kind().fits(sent.sequence, value, k))
    }

    pub(super) fn id_fits(&self, offset: u16, k: u8) -> bool {
        let value = u32::from(offset);
        self.window
            .all(|sent| Number::IdOffset.fits(u32::from(sent.id_offset), value, k))
    }

    /// Whether `k` low bits of the scaled timestamp are enough.
    pub(super) fn scaled_fits(&self, scaled: u32, k: u8) -> bool {
        let stride = self.known.stride;
        self.window
            .all(|sent| Number::Timestamp.fits(sent.timestamp / stride, scaled, k))
    }

    /// Whether `k` low bits of the scaled timestamp are enough for an end that tries the rounds
    /// further on and lets the UDP checksum decide.
    pub(super) fn scaled_found(&self, scaled: u32, k: u8) -> bool {
        let stride = self.known.stride;
        let rounds = |sent: &Sent| Number::Timestamp.rounds(sent.timestamp / stride, scaled, k);
        let far = self.window.iter().map(rounds).max().unwrap_or(0);
        far <= ROUNDS_MAX && tells_rounds(stride, k, far)
    }

    /// UO-0, UO-1 and UOR-2 with extensions for profiles without timestamps (section 5.11.3).
    fn put_other(&self, needs: Needs, header: &[u8], cid: Cid, out: &mut Vec<u8>) -> bool {
        if needs.extension_3() {
            return self.put_other_long(needs, header, cid, out);
        }
        let sequence = self.known.fields.sequence;
        let offset = u32::from(needs.id_offset);
        if needs.id_same && self.sequence_fits(4) {
            put_uo0(sequence, self.sums.crc3(header, needs.spans), cid, out);
            return true;
        }
        let counts = self.known.counts_ids();
        if counts && self.sequence_fits(5) && self.id_fits(needs.id_offset, 6) {
            cid.put(0x80 | (offset & 0x3f) as u8, out);
            out.push((sequence << 3) as u8 & 0xf8 | self.sums.crc3(header, needs.spans));
            return true;
        }
        let id_fits = |k| needs.id_same || self.id_fits(needs.id_offset, k);
        let mut base = |above: u8, extended: bool| {
            cid.put(0xc0 | (sequence >> above) as u8 & 0x1f, out);
            out.push(u8::from(extended) << 7 | self.sums.crc7(header, needs.spans));
        };
        if needs.id_same && self.sequence_fits(5) {
            base(0, false);
        } else if counts && id_fits(3) && self.sequence_fits(8) {
            // Of these bits some are of identifications, so others know neither extension where
            // there are none that count (section 5.11.4).
            base(3, true);
            out.push((sequence << 3) as u8 & 0x38 | (offset & 7) as u8);
        } else if counts && id_fits(11) && self.sequence_fits(8) {
            base(3, true);
            out.push(0x40 | (sequence << 3) as u8 & 0x38 | (offset >> 8 & 7) as u8);
            out.push(offset as u8);
        } else {
            return self.put_other_long(needs, header, cid, out);
        }
        true
    }

    /// UOR-2 with extension 3.
    fn put_other_long(&self, needs: Needs, header: &[u8], cid: Cid, out: &mut Vec<u8>) -> bool {
        let sequence = self.known.fields.sequence;
        // Who is behind by more than short numbers tell, and can't ask, finds back by a longer one.
        let astray = self.known.profile == Profile::Esp || self.known.follows_ids();
        let helps = astray && !self.known.optimistic && sequence.is_multiple_of(4);
        let long = helps || !self.sequence_fits(5);
        if !self.sequence_fits(13) {
            return false;
        }
        let above = if long { 8 } else { 0 };
        cid.put(0xc0 | (sequence >> above) as u8 & 0x1f, out);
        let flags = 0xc0
            | u8::from(long) << 5
            | mode_bits(self.known.optimistic) << 3
            | u8::from(!needs.id_same) << 2
            | u8::from(needs.ip.is_some()) << 1;
        out.extend_from_slice(&[0x80 | self.sums.crc7(header, needs.spans), flags]);
        out.extend(needs.ip.map(|ip| ip.flags));
        if long {
            out.push(sequence as u8);
        }
        if let Some(ip) = needs.ip {
            ip.put_fields(out);
        }
        if !needs.id_same {
            out.extend_from_slice(&needs.id_offset.to_be_bytes());
        }
        true
    }
}

impl Known {
    /// How much oftener changes are repeated where no transport checksum stands for the whole
    /// header: there is none, or it doesn't cover the identification.
    const fn doubt(&self) -> u8 {
        let covered = self.fields.v6 && self.fields.envelope.outer.is_none();
        if covered && self.carries_checksum() {
            1
        } else {
            2
        }
    }
}

/// Whether a sum of 16 bits tells timestamps apart that are up to `rounds` rounds of `k` bits of
/// their scaled value from each other: such sums are the same modulo 65,535.
fn tells_rounds(stride: u32, k: u8, rounds: u32) -> bool {
    (1..=u64::from(rounds)).all(|apart| !((u64::from(stride) << k) * apart).is_multiple_of(0xffff))
}

/// UO-0 (section 5.7.1).
pub(super) fn put_uo0(sequence: u32, crc: u8, cid: Cid, out: &mut Vec<u8>) {
    cid.put((sequence << 3) as u8 & 0x78 | crc, out);
}
