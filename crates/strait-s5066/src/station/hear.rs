//! What a station makes of what it hears.

use alloc::vec::Vec;

use strait_core::time::nanos;
use strait_core::{Duration, Instant};

use super::{Access, Phase, Received, Station};
use crate::address::Address;
use crate::arq::OutOfSync;
use crate::c_pdu::CPdu;
use crate::d_pdu::{Ack, Body, DPdu, Data, Fault, Kind, LongAck, NonArq, Reset, Warning};
use crate::quality::Quality;
use crate::s_pdu::HARD_LINK;

/// The bit at `place`, the lowest of the first octet being the first; `None` behind the last.
fn bit(octets: &[u8], place: usize) -> Option<bool> {
    octets
        .get(place / 8)
        .map(|octet| octet >> (place % 8) & 1 != 0)
}

/// Octets of a long acknowledgement's bits: short ones are more likely to arrive.
pub(super) const LONG_ACK_OCTETS: usize = 64;

/// After a transmission that was lost for the most part, the next one is so much shorter than the
/// longest.
pub(super) const CAUTION: u32 = 8;

/// Who agrees to long numbers and then says that it doesn't know them gets none for so long. That
/// is a link lost in an hour where it says so each time, and no more than an hour where it was
/// somebody else.
const PLAIN_TIME: Duration = Duration::from_secs(3600);

impl<T> Station<T> {
    /// Octets of a transmission, errors included.
    pub fn hear(&mut self, now: Instant, bytes: &[u8]) {
        self.advance(now);
        if matches!(self.phase, Phase::Down | Phase::Keyed) {
            return;
        }
        let mut finder = core::mem::take(&mut self.finder);
        finder.feed(bytes, |d_pdu| self.take(now, d_pdu));
        self.finder = finder;
    }

    /// The transmission that we heard is over.
    pub(super) fn end_hearing(&mut self, now: Instant) {
        let mut finder = core::mem::take(&mut self.finder);
        finder.end(|d_pdu| self.take(now, d_pdu));
        self.finder = finder;
        let lasted = now.since(self.on_since);
        self.end_measuring(self.speaker);
        self.put_off(now);
        let speaker = self.speaker.take();
        match speaker {
            Some(number) => self.peers[number].air.1 += lasted,
            None => self.stats.others_ns += nanos(lasted),
        }
        self.stats.garbled += u64::from(self.share.understood != Some(true));
        let owed = self.spoke.filter(|number| self.owes(*number));
        if self.spoke.is_none() {
            // Others, or nobody knows who, had the air since: whoever met us is behind that, too.
            self.peers.iter_mut().for_each(|it| it.rests_until = None);
        }
        let mut missed = None;
        self.to_answer = owed;
        for number in 0..self.peers.len() {
            let peer = &mut self.peers[number];
            peer.early.deaf = false;
            // Others may have come in between, or it takes its time: late, it has answered, too.
            let awaited = core::mem::take(&mut peer.awaited);
            // Who speaks to us is there, whether it has heard our message or not.
            let spoke = awaited && self.spoke == Some(number) && peer.management.is_open();
            // A call that was heard for a part isn't answered yet.
            let open = peer.link.waits();
            if (core::mem::take(&mut peer.answered) || spoke) && !open {
                if awaited {
                    self.miss_message(number);
                }
                self.take_answer(now, number);
            } else if awaited {
                let kept = self.is_understood_answer() && speaker != Some(number);
                self.miss_answer(now, number, kept);
                missed = Some(number);
            }
        }
        let mut wait = self.wait_after_hearing(now, owed);
        if let Some(number) = missed.filter(|_| owed.is_none()) {
            wait = self.wait_after_silence(now, number);
        }
        self.phase = Phase::Quiet(now + wait);
    }

    /// A peer has said what came: what it doesn't tell of hasn't.
    fn take_answer(&mut self, now: Instant, number: usize) {
        let adapts = self.adapts();
        let peer = &mut self.peers[number];
        peer.note_contact();
        peer.send.end_answer();
        peer.expedited.end_answer();
        let news = peer.quality.take_news();
        let least = if adapts {
            peer.towards.least_caution()
        } else {
            1
        };
        // A channel that got much worse is to be learnt about soon.
        peer.caution = match news {
            (0, _) => peer.caution,
            (frames, lost) if lost * 2 > frames => CAUTION,
            _ => (peer.caution / 2).max(least),
        };
        self.learn_rate(now, number, news);
    }

    /// Whether a peer waits for an answer.
    pub(super) fn owes(&self, number: usize) -> bool {
        let peer = &self.peers[number];
        peer.owes_ack()
            || peer.expedited.owes_ack
            || peer.link.says.is_some()
            || peer.management.has_to_say()
            || peer.warning.is_some()
            || !peer.reset.says.is_empty()
            || peer.asks_reset().is_some()
    }

    fn take(&mut self, now: Instant, d_pdu: &DPdu<'_>) {
        self.stats.d_pdus_in += 1;
        let kind = d_pdu.body.kind();
        let plain = kind == Kind::NonArq;
        self.share.note(d_pdu.from, d_pdu.to, plain);
        let damaged = d_pdu.body.segment().is_some_and(|segment| !segment.intact);
        self.stats.damaged += u64::from(damaged);
        let from = self.place_of(d_pdu.from);
        self.speaker = self.speaker.or(from);
        let ours = d_pdu.to == self.settings.own;
        let group = d_pdu.to == Address::BROADCAST || self.settings.groups.contains(&d_pdu.to);
        if let Some(number) = from {
            self.peers[number].seen_ours |= kind.is_long();
        }
        if !ours && !group {
            if let Body::NonArq(piece) = &d_pdu.body {
                self.assembler_of(from).pass(now, d_pdu.from, piece);
                self.receive_assembled(now);
            }
            return;
        }
        let Some(number) = from else {
            return self.take_stranger(now, d_pdu);
        };
        if ours {
            self.spoke = Some(number);
            let peer = &mut self.peers[number];
            (peer.silent, peer.rows, peer.rests_until) = (false, 0, None);
            if kind != Kind::Management {
                self.take_order(number, d_pdu.eow);
            }
        }
        if self.peers[number].early.deaf && kind.needs_link() {
            return;
        }
        match &d_pdu.body {
            Body::NonArq(piece) => self.take_non_arq(now, number, d_pdu.to, piece),
            _ if !ours => {}
            Body::Data(data, ack) => {
                if self.is_connected(now, number, kind, false) {
                    if let Some(ack) = ack {
                        self.take_ack(number, *ack);
                    }
                    self.take_data(number, data);
                }
            }
            Body::Ack(ack) => {
                if self.is_connected(now, number, kind, false) {
                    self.take_ack(number, *ack);
                }
            }
            Body::LongData(_) | Body::LongAck(_) if !self.knows_ours(number) => {
                self.warn(number, kind, Fault::Unrecognised);
            }
            Body::LongData(data) => {
                if self.is_connected(now, number, kind, true) {
                    self.peers[number].used_long = true;
                    self.take_data(number, data);
                }
            }
            Body::LongAck(ack) => {
                if self.is_connected(now, number, kind, true) {
                    self.peers[number].used_long = true;
                    self.take_long_ack(number, *ack);
                }
            }
            Body::Reset(reset) => {
                if self.is_connected(now, number, kind, self.peers[number].link.is_long()) {
                    self.take_reset(number, *reset);
                }
            }
            Body::Warning(warning) => self.take_warning(now, number, *warning),
            Body::ExpeditedData {
                start,
                end,
                c_pdu,
                number: frame,
                segment,
            } => {
                let data = Data {
                    start: *start,
                    end: *end,
                    in_order: false,
                    dropped: false,
                    upper: false,
                    lower: false,
                    number: u16::from(*frame),
                    segment: *segment,
                };
                if self.is_linked_with(now, number, kind)
                    && let Some(whole) = self.peers[number].expedited.take(*c_pdu, &data)
                {
                    self.take_c_pdu(number, whole, true);
                }
            }
            Body::ExpeditedAck(ack) => {
                if self.is_linked_with(now, number, kind) {
                    self.take_expedited_ack(number, *ack);
                }
            }
            Body::Management {
                valid,
                ack,
                frame,
                message,
                ..
            } => self.take_management(number, d_pdu.eow, (*valid, *ack, *frame), message),
            // One that should be known makes no sense; a warning is never answered.
            Body::Unknown(Kind::Warning) => {}
            Body::Unknown(_) if kind.is_of_edition_3() => self.warn(number, kind, Fault::Invalid),
            Body::Unknown(_) => self.warn(number, kind, Fault::Unrecognised),
        }
    }

    fn warn(&mut self, number: usize, received: Kind, fault: Fault) {
        let warning = &mut self.peers[number].warning;
        warning.get_or_insert(Warning { received, fault });
    }

    /// Whether there is a link, with long numbers or not; without one the other end is told so.
    fn is_connected(&mut self, now: Instant, number: usize, kind: Kind, long: bool) -> bool {
        if self.peers[number].link.is_long() == long {
            return self.is_linked_with(now, number, kind);
        }
        // It may have another link than the one that was asked for in its name, and that is over
        // once it hears so.
        self.peers[number].link.doubt(now);
        self.warn_of_no_link(number, kind);
        false
    }

    /// The same whatever its numbers are.
    fn is_linked_with(&mut self, now: Instant, number: usize, kind: Kind) -> bool {
        self.take_given(now, number);
        let peer = &mut self.peers[number];
        if peer.link.is_there() {
            peer.link.confirm(now);
            peer.unheard = 0;
            return true;
        }
        self.warn_of_no_link(number, kind);
        false
    }

    fn warn_of_no_link(&mut self, number: usize, kind: Kind) {
        // Who is being called hears of that anyway, and a caller whose answer is under way knows.
        let link = &self.peers[number].link;
        if link.says.is_none() && !link.is_calling() {
            self.warn(number, kind, Fault::NotConnected);
        }
    }

    fn take_data(&mut self, number: usize, data: &Data<'_>) {
        let peer = &mut self.peers[number];
        // Whether its numbers are still those of before, nobody can tell.
        if peer.reset.open.is_some() {
            return;
        }
        peer.reset.heard = None;
        peer.owes_ack = true;
        // The header is right whatever the segment is.
        let taken = match data.segment.intact || data.dropped {
            true => peer.receive.take(data),
            false => peer.receive.check(data),
        };
        match taken {
            Ok(()) => self.take_whole(number),
            Err(OutOfSync) => self.begin_reset(number),
        }
    }

    /// Takes what has become whole.
    pub(super) fn take_whole(&mut self, number: usize) {
        while let Some(c_pdu) = self.peers[number].receive.poll() {
            self.take_c_pdu(number, c_pdu, false);
        }
    }

    /// A C_PDU came with ARQ.
    fn take_c_pdu(&mut self, from: usize, c_pdu: Vec<u8>, expedited: bool) {
        let (to, source) = (self.settings.own, self.peers[from].address);
        if matches!(CPdu::parse(&c_pdu), Some(CPdu::Data([first, ..])) if first >> 4 == HARD_LINK) {
            self.peers[from].link.claim();
        }
        self.receive(Received {
            from: Some(from),
            source,
            to,
            arq: true,
            expedited,
            c_pdu,
            damaged: Vec::new(),
            missing: Vec::new(),
        });
    }

    fn receive(&mut self, received: Received) {
        if let Some(CPdu::Data(s_pdu)) = CPdu::parse(&received.c_pdu)
            && !s_pdu.is_empty()
        {
            let delivery = self.settings.access.slots();
            let delivery = delivery.map_or(Duration::ZERO, |it| it.delivery);
            self.received.push_back((self.now + delivery, received));
        }
    }

    fn take_expedited_ack(&mut self, number: usize, ack: Ack<'_>) {
        let best = self.segment_octets(number);
        let peer = &mut self.peers[number];
        peer.answered = true;
        let told = |above: usize| Some(bit(ack.selective, above - 1).unwrap_or(false));
        peer.expedited
            .acknowledge(ack, told, best, &mut peer.quality);
        self.collect(number);
    }

    fn take_ack(&mut self, number: usize, ack: Ack<'_>) {
        let told = |above: usize| Some(bit(ack.selective, above - 1).unwrap_or(false));
        self.acknowledge(number, u16::from(ack.lower), told);
    }

    fn take_long_ack(&mut self, number: usize, ack: LongAck<'_>) {
        let skipped = usize::from(ack.first.wrapping_sub(ack.lower));
        let bits = ack.selective.octets;
        let last = bits.len() < LONG_ACK_OCTETS;
        let told = |above: usize| match above.checked_sub(skipped) {
            Some(place) if ack.selective.intact => {
                bit(bits, place).or_else(|| last.then_some(false))
            }
            _ => None,
        };
        self.acknowledge(number, ack.lower, told);
    }

    fn acknowledge(&mut self, number: usize, lower: u16, told: impl Fn(usize) -> Option<bool>) {
        let best = self.segment_octets(number);
        let peer = &mut self.peers[number];
        peer.answered = true;
        // The other end has been told a lower edge, and forgets what lies above it.
        if peer.reset.open.is_some_and(|open| open.command) {
            return;
        }
        peer.reset.heard = None;
        // In a net, a turn that nobody answered met another one, and says nothing of the channel.
        let met = matches!(self.settings.access, Access::Csma(_)) && peer.unanswered > 0;
        let mut of_another = Quality::default();
        let quality = if met {
            &mut of_another
        } else {
            &mut peer.quality
        };
        let acknowledged = peer.send.acknowledge(lower, told, best, quality);
        if acknowledged.is_err() {
            self.begin_reset(number);
        }
        self.collect(number);
    }

    fn take_non_arq(&mut self, now: Instant, number: usize, to: Address, piece: &NonArq<'_>) {
        let own = to == self.settings.own;
        let control = piece.control().filter(|_| own);
        let from = self.peers[number].address;
        if let Some(c_pdu) = control {
            self.assembler_of(Some(number)).pass(now, from, piece);
            self.take_control(now, number, c_pdu);
        } else {
            self.assembler_of(Some(number)).take(now, from, to, piece);
        }
        self.receive_assembled(now);
    }

    /// Hands on what came without ARQ: what is whole, and what didn't become so in its time.
    pub(super) fn receive_assembled(&mut self, now: Instant) {
        let mut all = Vec::new();
        for assembler in [&mut self.assembler, &mut self.of_strangers] {
            assembler.forget(now);
            all.extend(core::iter::from_fn(|| assembler.poll()));
        }
        for came in all {
            self.receive(Received {
                from: self.place_of(came.from),
                source: came.from,
                to: came.to,
                arq: false,
                expedited: came.expedited,
                c_pdu: came.octets,
                damaged: came.damaged,
                missing: came.missing,
            });
        }
    }

    pub(super) fn begin_reset(&mut self, number: usize) {
        let full = Reset {
            full: true,
            ..Reset::default()
        };
        let begun = self.peers[number].reset.begin(full);
        self.stats.resets += u64::from(begun);
    }

    fn take_reset(&mut self, number: usize, reset: Reset) {
        let long = self.peers[number].link.is_long();
        if reset.ack {
            return self.take_reset_ack(number, reset.frame);
        }
        if reset.full {
            if self.peers[number].reset.hear(reset.frame) {
                self.stats.resets += 1;
                self.peers[number].uneven = false;
                self.begin_anew(number, long);
            }
            self.answer_reset(number, reset);
        } else if reset.command && !long {
            let peer = &mut self.peers[number];
            if peer.reset.hear(reset.frame) {
                peer.receive.set_lower(u16::from(reset.lower));
            }
            self.answer_reset(number, reset);
            self.take_whole(number);
        } else if reset.request && !long {
            let peer = &mut self.peers[number];
            let command = Reset {
                command: true,
                lower: peer.send.lower() as u8,
                ..Reset::default()
            };
            self.stats.resets += u64::from(peer.reset.begin(command));
        }
    }

    /// Says that a reset was done. The answer to a full one has number 0 (C.6.5 (12)); one with its
    /// number goes behind, for those that look for it.
    fn answer_reset(&mut self, number: usize, reset: Reset) {
        let peer = &mut self.peers[number];
        let answer = |frame| Reset {
            ack: true,
            frame,
            ..Reset::default()
        };
        peer.reset.says.clear();
        peer.reset.says.push(answer(reset.frame));
        if reset.full && reset.frame != 0 && !peer.link.is_long() {
            peer.reset.says.push(answer(0));
        }
    }

    fn take_reset_ack(&mut self, number: usize, frame: u8) {
        let peer = &mut self.peers[number];
        peer.answered = true;
        let long = peer.link.is_long();
        let fits = |open: &Reset| open.frame == frame || open.full && frame == 0 && !long;
        match peer.reset.open.filter(fits) {
            Some(Reset { full: true, .. }) => self.begin_anew(number, long),
            Some(_) => {
                peer.reset.open = None;
                peer.send.resync();
            }
            None => {}
        }
    }

    fn take_warning(&mut self, now: Instant, number: usize, warning: Warning) {
        let Warning { received, fault } = warning;
        self.stats.warnings_in += 1;
        self.peers[number].answered = true;
        // It has forgotten the link, or never had it; unless it was sent what doesn't go by this
        // one, which somebody else sent in our name.
        let link = &self.peers[number].link;
        let used = received.goes_by(link.is_long());
        if fault == Fault::NotConnected && used && link.is_made() {
            // Who counts on such a link sends again what the warning answers (B.3 (3.1)).
            if link.is_given() && received.has_data() {
                let peer = &mut self.peers[number];
                peer.send.not_taken(peer.turn_at);
                peer.expedited.not_taken(peer.turn_at);
            }
            self.lose_link(number);
        }
        // It knows no long numbers, whatever was agreed. If it used them itself, it has become
        // another kind of station, as its answer to the next call will say, or isn't who says so.
        if fault == Fault::Unrecognised && received.is_long() && self.peers[number].link.is_long() {
            let peer = &mut self.peers[number];
            if !peer.used_long {
                peer.plain_until = Some(now + PLAIN_TIME);
            }
            self.lose_link(number);
        }
    }

    /// The best segment for a peer: of those that fit a transmission.
    pub(super) fn segment_octets(&self, number: usize) -> usize {
        let around = self.around(number);
        let pace = self.pace(number);
        let whole_blocks = self.settings.turn_max.saturating_sub(pace.block);
        let turn = pace.rate.octets_in(whole_blocks);
        let fits = usize::try_from(turn).unwrap_or(usize::MAX);
        let most = fits.saturating_sub(around).max(1);
        let most = most.min(self.segment_octets_max(number));
        let most = most.min(self.rate_allows(number));
        self.peers[number].quality.segment_octets(around, most)
    }
}
