//! The compressor: a table of contexts, and who gets one.

use alloc::boxed::Box;
use alloc::vec::Vec;

use strait_core::{Duration, Instant};

use super::beyond::{Beyond, Provision};
use super::check::{crc8, transport_sum};
use super::encode::Encoder;
use super::feedback::{Feedback, Form, Kind};
use super::fields::{Fields, Flow};
use super::numbers::Bits;
use super::pace::Pace;
use super::{Cid, LASTING_PACKETS, Profile, Settings, tcp};

/// A context in use.
#[derive(Debug)]
struct Entry {
    flow: Flow,
    class: u8,
    /// When it was last used, in packets of the compressor.
    used: u64,
    /// When it was last said whole.
    whole_at: Instant,
    /// Packets so far, counted up to [`LASTING_PACKETS`].
    packets: u8,
    coder: Coder,
    look: RtpLook,
    unheard: Unheard,
    alone: Alone,
}

/// Packets of a context since the last of the first context.
#[derive(Clone, Copy, Debug, Default)]
struct Alone {
    /// When the first context was used then.
    first_used: u64,
    packets: u8,
}

/// Packets of a context without one of the first after which it takes the first one's number, which
/// costs no octet. By then its own number has cost what it costs to say both contexts anew.
const ALONE_MAX: u8 = 128;

/// Packets that open a connection, each way: a SYN and an acknowledgement.
const OPENING_PACKETS: u8 = 2;

impl Alone {
    /// Whether that many were sent, this one among them.
    const fn is_long(&mut self, first_used: u64) -> bool {
        if self.first_used != first_used {
            *self = Self {
                first_used,
                packets: 0,
            };
        }
        self.packets = self.packets.saturating_add(1);
        self.packets > ALONE_MAX
    }
}

/// Packets of a context since something was heard of the other end.
#[derive(Clone, Copy, Debug, Default)]
struct Unheard {
    /// How often anything had been heard then.
    heard: u32,
    packets: u8,
    since: Instant,
}

/// Of a number of four bits, of which a few are for what comes late, so many packets can be lost
/// before the next one means another number.
const UNHEARD_MAX: u8 = 11;

impl Unheard {
    /// Takes note of a packet; whether it has to say what changes, if that is to be from `after`
    /// on.
    fn is_long(&mut self, heard: u32, now: Instant, after: Duration) -> bool {
        if self.heard != heard || self.packets == 0 {
            *self = Self {
                heard,
                packets: 0,
                since: now,
            };
        }
        self.packets = self.packets.saturating_add(1);
        self.packets > UNHEARD_MAX && now.since(self.since) >= after
    }
}

/// The compressing end of a context, by the family of its profile.
#[derive(Debug)]
enum Coder {
    /// RTP, UDP, ESP and IP.
    Rfc3095(Box<Encoder>),
    Tcp(Box<tcp::Encoder>),
}

impl Coder {
    const fn profile(&self) -> Profile {
        match self {
            Self::Rfc3095(encoder) => encoder.profile(),
            Self::Tcp(_) => Profile::Tcp,
        }
    }

    const fn form(&self) -> Form {
        match self {
            Self::Rfc3095(_) => Form::Rfc3095,
            Self::Tcp(_) => Form::Rfc6846,
        }
    }

    fn pace(&mut self) -> &mut Pace {
        match self {
            Self::Rfc3095(encoder) => encoder.pace(),
            Self::Tcp(encoder) => encoder.pace(),
        }
    }

    /// Whether none of the last packet's headers are said in lists that a decompressor keeps.
    const fn has_no_list(&self) -> bool {
        match self {
            Self::Rfc3095(encoder) => encoder.last().envelope.is_empty(),
            Self::Tcp(_) => true,
        }
    }

    fn begin_again(&mut self) {
        match self {
            Self::Rfc3095(encoder) => encoder.begin_again(),
            Self::Tcp(encoder) => encoder.begin_again(),
        }
    }

    fn answer_nack(&mut self) {
        match self {
            Self::Rfc3095(encoder) => encoder.answer_nack(),
            Self::Tcp(encoder) => encoder.answer_nack(),
        }
    }

    fn confirm(&mut self, sequence: Bits) {
        match self {
            Self::Rfc3095(encoder) => encoder.confirm(sequence),
            Self::Tcp(encoder) => encoder.confirm(sequence),
        }
    }
}

/// The headers of a packet that can be compressed.
#[derive(Debug)]
struct Parsed {
    profile: Profile,
    fields: Fields,
    tcp: Option<tcp::Header>,
}

impl Parsed {
    fn of(packet: &[u8]) -> Option<Self> {
        let (profile, fields) = Fields::parse(packet)?;
        let tcp = match profile {
            Profile::Tcp => tcp::Header::parse(fields, packet),
            _ => None,
        };
        Some(match tcp {
            Some(header) => Self {
                profile,
                fields: *header.ip(),
                tcp: Some(header),
            },
            // Odd options: the IP header alone.
            None if profile == Profile::Tcp => Self {
                profile: Profile::Ip,
                fields,
                tcp,
            },
            None => Self {
                profile,
                fields,
                tcp,
            },
        })
    }
}

/// Whether the payloads of a UDP flow go on as those of RTP do.
#[derive(Clone, Copy, Debug, Default)]
struct RtpLook {
    source: u32,
    sequence: u16,
    /// Packets in a row of one source, each with the next sequence number.
    run: u8,
}

/// Packets in a row after which a UDP flow is taken for RTP.
const RTP_RUN: u8 = 4;

impl RtpLook {
    fn is_rtp(&mut self, fields: Option<&Fields>) -> bool {
        let Some(fields) = fields else {
            *self = Self::default();
            return false;
        };
        let sequence = fields.sequence as u16;
        let goes_on = fields.source == self.source && sequence == self.sequence.wrapping_add(1);
        *self = Self {
            source: fields.source,
            sequence,
            run: if goes_on {
                self.run.saturating_add(1)
            } else {
                0
            },
        };
        self.run >= RTP_RUN
    }
}

/// Compresses the headers of packets to one neighbour.
///
/// Its memory is bounded by the contexts of [`Settings::cids`]. A flow that finds none free takes
/// the one unused for longest of the class that has most, so that many short flows of one class
/// don't take those of another.
#[derive(Debug)]
pub struct Compressor {
    settings: Settings,
    entries: Vec<Option<Box<Entry>>>,
    /// Packets so far.
    packets: u64,
    /// What time it is.
    now: Instant,
    /// The classes, a bit each, of which a packet is half sent.
    half_sent: u32,
    /// Packets of the uncompressed profile that still have to say its context.
    plain_left: u8,
    plain_since: u32,
    /// When one said it last.
    plain_at: Instant,
    beyond: Beyond,
    /// The flow over UDP that has turned out to last, until it is asked for.
    lasting: Option<Provision>,
    /// The packets of each context's number, whatever flow had it.
    counts: Vec<u16>,
    /// How often anything of the other end was heard.
    heard: u32,
}

impl Compressor {
    /// A compressor without contexts.
    pub fn new(settings: Settings) -> Self {
        let settings = Settings {
            repeats: settings.repeats.clamp(1, Settings::REPEATS_MAX),
            ..settings
        };
        Self {
            settings,
            entries: (0..settings.cids.max()).map(|_| None).collect(),
            packets: 0,
            now: Instant::ZERO,
            half_sent: 0,
            plain_left: settings.repeats,
            plain_since: 0,
            plain_at: Instant::ZERO,
            beyond: Beyond::default(),
            lasting: None,
            counts: alloc::vec![0; usize::from(settings.cids.max())],
            heard: 0,
        }
    }

    /// Forgets every context, as after the link was down: the other end may be a new one.
    pub fn reset(&mut self) {
        let beyond = core::mem::take(&mut self.beyond);
        self.renew(self.settings);
        self.beyond = beyond;
    }

    /// Begins anew with other settings. Packets are counted on: an end that has forgotten nothing
    /// would take the first ones again for late.
    pub(super) fn renew(&mut self, settings: Settings) {
        let mut counts = core::mem::take(&mut self.counts);
        *self = Self::new(settings);
        counts.resize(counts.len().max(self.counts.len()), 0);
        self.counts = counts;
    }

    /// What the other end does beyond the standard. If that is news, every context is said anew.
    pub fn agree(&mut self, beyond: &Beyond) {
        let mut beyond = beyond.clone();
        let most = usize::from(self.settings.cids.max()).min(Provision::MAX);
        beyond.provisions.truncate(most);
        if self.beyond != beyond {
            self.beyond = beyond;
            self.reset();
        }
    }

    /// Contexts that no other flow gets.
    fn provisioned(&self) -> usize {
        self.beyond.provisions.len()
    }

    /// Says what time it is, which never goes back, for [`Settings::refresh_after`]. Without it no
    /// time passes.
    pub const fn tell_time(&mut self, now: Instant) {
        self.now = now;
    }

    /// Says that something of the other end was heard.
    pub(super) const fn note_heard(&mut self) {
        self.heard = self.heard.wrapping_add(1);
    }

    /// Says of which classes, a bit each, a packet is half sent, so that packets of others may
    /// overtake it: its context's number is no other flow's until it has left. Without it none is.
    pub const fn tell_half_sent(&mut self, classes: u32) {
        self.half_sent = classes;
    }

    /// Appends `packet` in its compressed form, and says by which profile. Packets of one flow and
    /// class have to arrive in the order of these calls; those of different classes may overtake
    /// each other, see [`Self::tell_half_sent`].
    pub fn compress(&mut self, class: u8, packet: &[u8], out: &mut Vec<u8>) -> Profile {
        self.packets += 1;
        let settings = self.settings;
        let Some(parsed) = Parsed::of(packet) else {
            self.put_plain(packet, out);
            return Profile::Uncompressed;
        };
        let wrong = transport_sum(packet) == Some(false);
        let place = if wrong {
            None
        } else {
            self.place(class, &parsed, packet)
        };
        let Some(number) = place else {
            self.put_plain(packet, out);
            return Profile::Uncompressed;
        };
        let cid = settings.cids.cid(number as u16);
        let Some(entry) = &mut self.entries[number] else {
            self.put_plain(packet, out);
            return Profile::Uncompressed;
        };
        if settings.is_refresh_due(entry.whole_at, self.now) {
            entry.coder.pace().remind();
        }
        // Where packets are counted, their numbers tell what is lost. Calls that nobody answers are
        // common, and what they have of a slow line is little.
        if let Some(after) = settings.unheard_after
            && !entry.is_rtp()
            && !self.beyond.counts
            && entry.unheard.is_long(self.heard, self.now, after)
        {
            entry.coder.pace().ask();
        }
        let octets = match (&mut entry.coder, parsed.tcp) {
            (Coder::Tcp(encoder), Some(header)) => {
                let octets = header.octets();
                let (header_octets, payload) = packet.split_at(octets);
                let told = (header_octets, payload.len());
                encoder.encode(header, told, cid, &settings, out);
                octets
            }
            (Coder::Rfc3095(encoder), _) => {
                let profile = encoder.profile();
                let fields = match profile {
                    Profile::Rtp => parsed.fields.with_rtp(packet).unwrap_or(parsed.fields),
                    _ => parsed.fields,
                };
                let octets = fields.octets(profile);
                let agreed = (&settings, &self.beyond);
                encoder.encode(fields, &packet[..octets], cid, agreed, out);
                octets
            }
            (Coder::Tcp(_), None) => 0,
        };
        if entry.coder.pace().has_said_whole() {
            entry.whole_at = self.now;
        }
        out.extend_from_slice(&packet[octets..]);
        if self.beyond.counts {
            let count = &mut self.counts[number];
            *count = count.wrapping_add(1);
            out.extend_from_slice(&count.to_be_bytes());
        }
        let profile = entry.coder.profile();
        if entry.packets < LASTING_PACKETS {
            entry.packets += 1;
            if entry.packets == LASTING_PACKETS {
                self.lasting = Provision::of(profile, &parsed.fields).or(self.lasting);
            }
        }
        profile
    }

    /// The flow over UDP that has become one that lasts since this was asked last.
    pub const fn take_lasting(&mut self) -> Option<Provision> {
        self.lasting.take()
    }

    /// The number of the packet's context, with an encoder of the right profile; `None` if there
    /// are no contexts.
    fn place(&mut self, class: u8, parsed: &Parsed, packet: &[u8]) -> Option<usize> {
        let &Parsed {
            profile,
            fields,
            ref tcp,
        } = parsed;
        let flow = fields.flow(profile);
        let rtp = match profile {
            Profile::Udp => fields.with_rtp(packet),
            _ => None,
        };
        let found = self
            .entries
            .iter_mut()
            .enumerate()
            .find_map(|(number, entry)| {
                let entry = entry.as_mut()?;
                (entry.class == class && entry.flow == flow).then_some((number, entry))
            });
        if let Some((number, entry)) = found {
            let before = core::mem::replace(&mut entry.used, self.packets);
            if profile == Profile::Udp {
                entry.keep_profile(fields, rtp, (&self.settings, &self.beyond));
            }
            return Some(if entry.is_rtp() {
                self.first_or(number)
            } else {
                let number = self.leave_first(number, class, before);
                self.take_first(number)
            });
        }
        if tcp.is_some()
            && let Some(number) = self.opened(&flow)
            && let Some(entry) = &mut self.entries[number]
        {
            entry.class = class;
            entry.used = self.packets;
            return Some(number);
        }
        let likely = rtp.filter(Fields::is_likely_rtp);
        let known = self.known_beforehand(&fields);
        let number = match known {
            Some(number) => number,
            None => {
                let number = self.free(class)?;
                self.entries[number] = None;
                likely.map_or(number, |_| self.first_or(number))
            }
        };
        let agreed = (&self.settings, &self.beyond);
        let encoder = |profile, fields| {
            let encoder = Encoder::new(profile, fields, known.is_some(), agreed);
            Coder::Rfc3095(Box::new(encoder))
        };
        let coder = match (tcp, likely) {
            (Some(header), _) => Coder::Tcp(Box::new(tcp::Encoder::new(header, &self.settings))),
            (_, Some(rtp)) => encoder(Profile::Rtp, rtp),
            _ => encoder(profile, fields),
        };
        self.entries[number] = Some(Box::new(Entry {
            flow,
            class,
            used: self.packets,
            whole_at: self.now,
            packets: 0,
            coder,
            look: RtpLook::default(),
            unheard: Unheard::default(),
            alone: Alone::default(),
        }));
        Some(number)
    }

    /// The context of a connection that has said no more than its opening, in whatever class:
    /// it goes with what follows, in the class of that. Later both classes have one of their own.
    fn opened(&self, flow: &Flow) -> Option<usize> {
        self.entries.iter().position(|entry| {
            let opening = |entry: &Entry| entry.packets <= OPENING_PACKETS && entry.flow == *flow;
            let entry = entry.as_deref().filter(|entry| opening(entry));
            entry.is_some_and(|entry| !self.is_under_way(entry))
        })
    }

    /// The context that the other end knows this flow's by, unless another class has it.
    fn known_beforehand(&self, fields: &Fields) -> Option<usize> {
        let mut provisions = self.beyond.provisions.iter();
        let number = provisions.position(|it| it.is_of(fields))?;
        self.entries[number].is_none().then_some(number)
    }

    /// A number for a new context.
    fn free(&self, class: u8) -> Option<usize> {
        let least = self.provisioned();
        let free = self.entries.iter().skip(least).position(Option::is_none);
        let free = free.map(|place| place + least);
        free.or_else(|| self.oldest_of(self.largest_class(class)))
    }

    /// The first number, which costs no octet, in place of `number`; this one if RTP has the first.
    fn first_or(&mut self, number: usize) -> usize {
        let first = self.entries.first().and_then(Option::as_deref);
        let stays = first.is_some_and(|entry| entry.is_rtp() || self.is_under_way(entry));
        if number == 0 || stays || self.provisioned() > 0 {
            return number;
        }
        self.exchange(0, number);
        0
    }

    /// The number that a flow which isn't RTP gets in place of `number`, `before` which its last
    /// packet was: another than the first if RTP waits for that. At the beginning of its next
    /// packet none of it is under way.
    fn leave_first(&mut self, number: usize, class: u8, before: u64) -> usize {
        let waits = |entry: &Entry| entry.is_rtp() && entry.used > before;
        let rtp_waits = self.entries.iter().flatten().any(|entry| waits(entry));
        if number > 0 || self.provisioned() > 0 || !rtp_waits {
            return number;
        }
        let spare = |other: &usize| {
            let entry = self.entries[*other].as_deref();
            *other != number && !entry.is_some_and(waits)
        };
        let Some(other) = self.free(class).filter(spare) else {
            return number;
        };
        self.entries[other] = None;
        self.exchange(number, other);
        other
    }

    /// The number that a flow which isn't RTP gets in place of `number`: the first, if its flow has
    /// nothing more to say. Not between lists: an end that knows one flow by both numbers takes a
    /// list that is empty for the one that the first has (RFC 4815 section 5.7).
    fn take_first(&mut self, number: usize) -> usize {
        let first = self.entries.first().and_then(Option::as_deref);
        let first_used = first.map_or(0, |first| first.used);
        let lists = first.is_some_and(|first| !first.coder.has_no_list());
        let entry = self.entries.get_mut(number).and_then(Option::as_deref_mut);
        let alone = entry.is_some_and(|entry| entry.alone.is_long(first_used));
        if alone && !lists {
            self.first_or(number)
        } else {
            number
        }
    }

    /// Exchanges the numbers of two contexts, or gives one the other's place. They begin again.
    fn exchange(&mut self, one: usize, other: usize) {
        self.entries.swap(one, other);
        for moved in [one, other] {
            if let Some(entry) = &mut self.entries[moved] {
                entry.coder.begin_again();
            }
        }
    }

    /// Whether a packet of this context may be half sent: no other of its class was begun later.
    fn is_under_way(&self, entry: &Entry) -> bool {
        let classes = self.half_sent.checked_shr(entry.class.into());
        let mut entries = self.entries.iter().flatten();
        classes.is_some_and(|classes| classes & 1 != 0)
            && entries.all(|other| other.class != entry.class || other.used <= entry.used)
    }

    /// The class with most contexts; `class` itself if none has more.
    fn largest_class(&self, class: u8) -> u8 {
        let held = |of: u8| {
            let entries = self.entries.iter().skip(self.provisioned()).flatten();
            entries.filter(|entry| entry.class == of).count()
        };
        let entries = self.entries.iter().skip(self.provisioned()).flatten();
        let classes = entries.map(|entry| entry.class);
        classes.fold(class, |most, other| {
            if held(other) > held(most) {
                other
            } else {
                most
            }
        })
    }

    fn oldest_of(&self, class: u8) -> Option<usize> {
        let entries = self.entries.iter().enumerate();
        entries
            .skip(self.provisioned())
            .filter_map(|(number, entry)| Some((number, entry.as_ref()?)))
            .filter(|(_, entry)| entry.class == class && !self.is_under_way(entry))
            .min_by_key(|(_, entry)| entry.used)
            .map(|(number, _)| number)
    }

    /// The uncompressed profile: IR at first and now and then, else the packet as it is (RFC 5795
    /// section 5.4).
    fn put_plain(&mut self, packet: &[u8], out: &mut Vec<u8>) {
        let cid = self.settings.cids.cid(self.settings.cids.max());
        self.plain_since += 1;
        let due = self.settings.is_refresh_due(self.plain_at, self.now);
        if due || self.plain_since >= self.settings.refresh_whole {
            self.plain_left = self.plain_left.max(1);
        }
        match packet.split_first() {
            // Anything else would be taken for another type of packet.
            Some((&first, rest)) if matches!(first >> 4, 4 | 6) && self.plain_left == 0 => {
                cid.put(first, out);
                out.extend_from_slice(rest);
            }
            _ => {
                self.plain_left = self.plain_left.saturating_sub(1);
                self.plain_since = 0;
                self.plain_at = self.now;
                put_plain_ir(cid, out);
                out.extend_from_slice(packet);
            }
        }
    }

    /// Takes in what the other end's decompressor says: the data of one feedback element. What
    /// can't be read has no effect, nor has anything where there is no way back.
    pub fn hear(&mut self, feedback: &[u8]) {
        if !self.settings.feedback {
            return;
        }
        let form = |number: u16| {
            let entry = self.entries.get(usize::from(number));
            let entry = entry.and_then(Option::as_deref);
            entry.map_or(Form::Rfc3095, |entry| entry.coder.form())
        };
        let Some(feedback) = Feedback::parse(feedback, self.settings.cids.is_large(), form) else {
            return;
        };
        let entry = self.entries.get_mut(usize::from(feedback.cid.number));
        let Some(Some(entry)) = entry else {
            return;
        };
        match feedback.kind {
            Kind::Ack(sequence) => entry.coder.confirm(sequence),
            Kind::Nack => entry.coder.answer_nack(),
            Kind::StaticNack => entry.coder.begin_again(),
        }
    }

    /// Contexts in use.
    pub fn contexts(&self) -> usize {
        self.entries.iter().flatten().count()
    }
}

/// The head of an IR packet of the uncompressed profile. Its check ends ahead of itself: it covers
/// up to the profile's number (RFC 5795 section 5.4.1.1).
fn put_plain_ir(cid: Cid, out: &mut Vec<u8>) {
    let start = out.len();
    cid.put(0xfc, out);
    out.push(Profile::Uncompressed.number());
    out.push(crc8(&[&out[start..]]));
}

impl Entry {
    const fn is_rtp(&self) -> bool {
        matches!(self.coder.profile(), Profile::Rtp)
    }

    /// Changes the profile of a UDP flow if it has turned out to be RTP, or not to be.
    fn keep_profile(&mut self, fields: Fields, rtp: Option<Fields>, agreed: (&Settings, &Beyond)) {
        let Coder::Rfc3095(encoder) = &mut self.coder else {
            return;
        };
        let kind = encoder.kind();
        let new = |profile, fields| Encoder::new(profile, fields, kind.provisioned, agreed);
        match kind.profile {
            Profile::Rtp if rtp.is_none_or(|rtp| rtp.source != encoder.last().source) => {
                **encoder = new(Profile::Udp, fields);
                self.look.is_rtp(rtp.as_ref());
            }
            Profile::Udp if self.look.is_rtp(rtp.as_ref()) => {
                if let Some(rtp) = rtp {
                    **encoder = new(Profile::Rtp, rtp);
                }
            }
            // There is none any more to rebuild.
            profile if kind.rebuilds && fields.checksum == 0 => {
                **encoder = new(profile, rtp.unwrap_or(fields));
            }
            _ => {}
        }
    }
}

impl Fields {
    /// Whether a new flow is taken for RTP at once: an even port, as RFC 3550 section 11 asks for,
    /// that isn't a well-known one's.
    fn is_likely_rtp(&self) -> bool {
        self.ports[1] >= 1024 && self.ports[1].is_multiple_of(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rohc::Cids;

    #[test]
    fn the_check_of_an_uncompressed_ir_packet_covers_what_is_ahead_of_it() {
        for (number, head) in [(0, &[0xfc, 0, 0xb7][..]), (3, &[0xe3, 0xfc, 0, 0x51])] {
            let mut out = Vec::new();
            put_plain_ir(Cids::Small(15).cid(number), &mut out);
            assert_eq!(out, head);
        }
    }
}
