//! What a link's two ends agree on, with one neighbour.
//!
//! An end that wants something of the other says a [`Hello`] when its port comes up, and again
//! ahead of what it sends until the other end has answered to this incarnation of it. Only then it
//! sends what the other end has to know of beforehand: so nothing of a new incarnation is ever read
//! with what an earlier one left behind, and nothing is sent that the other end can't read. An end
//! that wants nothing only answers.
//!
//! What a hello says that doesn't fit what is settled is asked about, and holds when a second one
//! says the same: whoever puts in a single frame settles nothing.

use alloc::vec::Vec;

use strait_core::stats::{Agreement, Settled};
use strait_core::{Duration, Instant};
use strait_link::SegmentCheck;
use strait_wire::hello::{Checks, Hello, KnownFlows, Numbers, Remembered};

/// The format that this version speaks; it speaks no other.
const FORMAT: u8 = 2;
/// How long after a hello the next one goes, if nobody answers; each time twice as long.
const REPEAT_FIRST: Duration = Duration::from_millis(250);
/// The longest such time.
const REPEAT_MAX: Duration = Duration::from_secs(16);
/// Hellos that object to what can't be read are no more frequent.
const OBJECTION: Duration = Duration::from_secs(1);
/// Without a way back, one goes ahead of each of so many packets.
const UNANSWERABLE: u32 = 64;

/// What one end offers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) compresses: bool,
    pub(super) cids_max: u8,
    pub(super) mtu: u16,
    /// The digest of its dictionary, if it compresses payloads.
    pub(super) payload: Option<u32>,
    pub(super) checks: Checks,
    /// Its medium may deliver packets in another order: it counts those of each context.
    pub(super) counts: bool,
    /// It leaves right UDP checksums out, and rebuilds them.
    pub(super) checksums_rebuilt: bool,
    /// Flows that it knows beforehand.
    pub(super) known: KnownFlows,
    /// Flows that it remembers, if it does.
    pub(super) remembered: Option<Remembered>,
    /// It wants something that the other end has to want too.
    pub(super) asks: bool,
    /// The link has a way back. Without one the other end is trusted to be set up the same.
    pub(super) way_back: bool,
}

/// The checks to use, as far as they are agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Agreed {
    /// Streams on which whole packets go with 16 bits.
    pub(super) short_sent: u8,
    /// Streams on which such packets are taken.
    pub(super) short_taken: u8,
    /// Check of urgent frames that are sent, if any are.
    pub(super) urgent_sent: Option<SegmentCheck>,
    /// Check of urgent frames that are taken, if any are.
    pub(super) urgent_taken: Option<SegmentCheck>,
    /// Segments that are sent may have numbers.
    pub(super) repairs_sent: bool,
    /// Segments that are taken may have numbers.
    pub(super) repairs_taken: bool,
}

/// What header compression does beyond the standard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Further {
    pub(super) far_timestamps: bool,
    pub(super) counts: bool,
    pub(super) checksums_rebuilt: bool,
    /// The other end knows beforehand what this one sends.
    pub(super) sent_known: bool,
    /// This end knows beforehand what the other one sends.
    pub(super) received_known: bool,
    /// Flows that both remember, of those that this end sends; in ascending order.
    pub(super) sent_remembered: Numbers,
    /// And of those that it receives.
    pub(super) received_remembered: Numbers,
}

/// What is settled with one neighbour.
#[derive(Debug)]
pub(super) struct Terms {
    own: Offer,
    incarnation: u32,
    other: Option<Hello>,
    /// Its incarnation was said more than once.
    affirmed: bool,
    /// What was said last beside that, once. Until it is clear which of them holds, what goes out
    /// is for an end that knows nothing.
    doubted: Option<Hello>,
    /// The other end has heard this incarnation.
    confirmed: bool,
    /// A hello goes as soon as it can: the first one, or an answer.
    due: bool,
    /// When the next one may go unasked, and how long after that the one behind it.
    next: Instant,
    interval: Duration,
    /// Nothing is objected to until then.
    quiet_until: Instant,
    /// Packets begun.
    begun: u32,
    /// A hello has gone ahead of the packet that is about to begin.
    said: bool,
}

/// What a hello changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// The other end has started since: what it told and heard before counts no more.
    pub(super) restarted: bool,
    pub(super) agreement: Agreement,
}

impl Terms {
    /// Nothing is settled. `incarnation` is another number after each start.
    pub(super) const fn new(own: Offer, incarnation: u32) -> Self {
        Self {
            own,
            // Zero stands for nobody.
            incarnation: if incarnation == 0 { 1 } else { incarnation },
            other: None,
            affirmed: false,
            doubted: None,
            confirmed: false,
            due: own.asks,
            next: Instant::ZERO,
            interval: REPEAT_FIRST,
            quiet_until: Instant::ZERO,
            begun: 0,
            said: false,
        }
    }

    /// Nothing is settled any more: the medium was away, and the other end may be another.
    /// What this end knew is gone as after a start.
    pub(super) fn reset(&mut self, remembered: Option<Remembered>) {
        let own = Offer {
            remembered,
            ..self.own
        };
        *self = Self::new(own, self.incarnation.wrapping_add(1));
    }

    /// What this end says that it remembers, before it has said anything.
    pub(super) const fn remember(&mut self, remembered: Remembered) {
        self.own.remembered = Some(remembered);
    }

    /// The other end, if it speaks this end's format.
    fn partner(&self) -> Option<&Hello> {
        let fits = |other: &&Hello| (other.format_least..=other.format).contains(&FORMAT);
        self.other.as_ref().filter(fits)
    }

    /// Whether the other end knows of this one all it has to.
    const fn is_known(&self) -> bool {
        self.is_confirmed() || !self.own.way_back
    }

    /// Whether the other end has said that it heard this incarnation, and no other.
    const fn is_confirmed(&self) -> bool {
        self.confirmed && self.doubted.is_none()
    }

    /// Whether both want something: this end as it is set up, the other as it says. An end that
    /// can't be heard is taken for one set up as this one is.
    fn both(&self, own: bool, other: impl FnOnce(&Hello) -> bool) -> bool {
        own && match self.other {
            None => !self.own.way_back,
            Some(_) => self.partner().is_some_and(other),
        }
    }

    /// Headers come compressed.
    pub(super) fn decompresses(&self) -> bool {
        self.both(self.own.compresses, |other| other.compresses)
    }

    /// Headers go compressed.
    pub(super) fn compresses(&self) -> bool {
        self.is_known() && self.decompresses()
    }

    /// Payloads come compressed.
    pub(super) fn inflates(&self) -> bool {
        let own = self.own.payload;
        self.both(own.is_some(), |other| other.payload == own)
    }

    /// Payloads go compressed.
    pub(super) fn deflates(&self) -> bool {
        self.is_known() && self.inflates()
    }

    /// The checks to use.
    pub(super) fn agreed(&self) -> Agreed {
        let own = self.own.checks;
        let real_time = self.both(own.real_time_short, |other| other.checks.real_time_short);
        let others = self.both(own.others_short, |other| other.checks.others_short);
        let other_streams = self.other.map_or(own.real_time_streams, |other| {
            other.checks.real_time_streams
        });
        let urgent = self.both(own.urgent, |other| other.checks.urgent);
        let urgent = urgent.then_some(if real_time {
            SegmentCheck::Short
        } else {
            SegmentCheck::Long
        });
        let repairs = self.both(own.repairs, |other| other.checks.repairs);
        let taken = Agreed {
            short_taken: short_streams(real_time, others, other_streams),
            urgent_taken: urgent,
            repairs_taken: repairs,
            ..Agreed::default()
        };
        if !self.is_known() {
            return taken;
        }
        Agreed {
            short_sent: short_streams(real_time, others, own.real_time_streams),
            urgent_sent: urgent,
            repairs_sent: repairs,
            ..taken
        }
    }

    /// The highest number of a context that both have.
    pub(super) fn cids_max(&self) -> u8 {
        let own = self.own.cids_max;
        self.other.map_or(own, |other| other.cids_max.min(own))
    }

    /// What header compression does beyond the standard.
    pub(super) fn further(&self) -> Further {
        let own = &self.own;
        let (sent, received) = (own.known.sent, own.known.received);
        Further {
            far_timestamps: self.both(true, |other| other.far_timestamps),
            counts: self.both(own.counts, |other| other.counts),
            checksums_rebuilt: self.both(own.checksums_rebuilt, |other| other.checksums_rebuilt),
            sent_known: self.both(sent != 0, |other| other.known.received == sent),
            received_known: self.both(received != 0, |other| other.known.sent == received),
            sent_remembered: self.remembered(|own, other| (own.sent, other.received)),
            received_remembered: self.remembered(|own, other| (own.received, other.sent)),
        }
    }

    /// The numbers that both ends have, where both remember flows and this end was told of it.
    fn remembered(
        &self,
        of: impl FnOnce(&Remembered, &Remembered) -> (Numbers, Numbers),
    ) -> Numbers {
        let other = self.partner().and_then(|other| other.remembered);
        let (Some(own), Some(other)) = (self.own.remembered, other) else {
            return Numbers::default();
        };
        let (own, other) = of(&own, &other);
        let mut both: Vec<u32> = own.into_iter().filter(|it| other.contains(it)).collect();
        both.retain(|&number| number != 0);
        both.sort_unstable();
        both.dedup();
        let mut numbers = Numbers::default();
        numbers[..both.len()].copy_from_slice(&both);
        numbers
    }

    /// The largest packet that the other end takes, in octets.
    pub(super) fn mtu(&self) -> Option<u16> {
        self.other.map(|other| other.mtu)
    }

    /// What has come of it.
    pub(super) fn agreement(&self) -> Agreement {
        match (&self.other, self.partner()) {
            (None, _) if self.own.asks => Agreement::Unanswered,
            (None, _) => Agreement::None,
            (Some(_), None) => Agreement::OtherFormat,
            (_, Some(other)) => Agreement::Settled {
                headers: Settled::of(self.own.compresses, other.compresses),
                payloads: self.payloads(other),
                short_checks: Settled::of(
                    self.own.checks.real_time_short,
                    other.checks.real_time_short,
                ),
                checksums: Settled::of(self.own.checksums_rebuilt, other.checksums_rebuilt),
                known_flows: match (self.own.known.sent, other.known.received) {
                    (0, theirs) => Settled::of(false, theirs != 0),
                    (own, theirs) => Settled::of(true, own == theirs),
                },
                remembered: {
                    let sent = self.further().sent_remembered;
                    sent.iter().filter(|&&number| number != 0).count() as u8
                },
            },
        }
    }

    /// What has come of payload compression.
    fn payloads(&self, other: &Hello) -> Settled {
        match (self.own.payload, other.payload) {
            (Some(own), Some(other)) if own != other => Settled::OtherWithout,
            (own, other) => Settled::of(own.is_some(), other.is_some()),
        }
    }

    /// Whether nothing is agreed and nobody asks for anything: then packets change nothing here.
    pub(super) const fn are_indifferent(&self) -> bool {
        let heard = self.other.is_some() || self.doubted.is_some();
        !self.own.asks && self.own.way_back && !heard && !self.due
    }

    /// This end wants something from now on that it offers.
    pub(super) const fn ask(&mut self) {
        self.due |= !self.own.asks;
        self.own.asks = true;
    }

    /// Whether a hello goes at `now` before the next packet begins.
    pub(super) fn is_ahead(&self, now: Instant) -> bool {
        let asks = (self.own.asks || self.other.is_some()) && !self.is_confirmed();
        let often = !self.own.way_back && self.begun < UNANSWERABLE;
        !self.said && (self.due || asks && (often || now >= self.next))
    }

    /// A packet begins.
    pub(super) const fn begin(&mut self) {
        self.begun = self.begun.saturating_add(1);
        self.said = false;
    }

    /// Whether a hello is to go as soon as it can.
    pub(super) const fn owes(&self) -> bool {
        self.due
    }

    /// Appends a hello.
    pub(super) fn put(&mut self, now: Instant, out: &mut Vec<u8>) {
        self.due = false;
        self.said = true;
        self.next = now + self.interval;
        self.interval = (self.interval * 2).min(REPEAT_MAX);
        self.hello().emit(out);
    }

    /// What this end says of itself.
    fn hello(&self) -> Hello {
        Hello {
            format: FORMAT,
            format_least: FORMAT,
            compresses: self.own.compresses,
            confirmed: self.is_confirmed(),
            counts: self.own.counts,
            far_timestamps: true,
            checksums_rebuilt: self.own.checksums_rebuilt,
            cids_max: self.own.cids_max,
            incarnation: self.incarnation,
            // Who is doubted isn't told that it was heard: it would send what is agreed with it,
            // and be read by what was agreed with another.
            heard: self
                .other
                .filter(|_| self.doubted.is_none())
                .map_or(0, |other| other.incarnation),
            mtu: self.own.mtu,
            checks: self.own.checks,
            known: self.own.known,
            payload: self.own.payload,
            remembered: self.own.remembered,
        }
    }

    /// Takes in what the other end says of itself.
    pub(super) fn hear(&mut self, hello: Hello) -> News {
        let says_so = |other: &Hello| other.is_like(&hello);
        // An end that never hears this one is taken for one set up as this one is.
        let assumed = (!self.own.way_back).then(|| Hello {
            incarnation: hello.incarnation,
            ..self.hello()
        });
        if self.other.or(assumed).is_some_and(|other| !says_so(&other))
            && !self.doubted.is_some_and(|it| says_so(&it))
        {
            self.doubted = Some(hello);
            self.due = true;
            (self.next, self.interval) = (Instant::ZERO, REPEAT_FIRST);
            return self.news(false);
        }
        self.doubted = None;
        let before = self.other.replace(hello);
        // What came before an end that says few hellos has said one twice is that end's, as far as
        // anybody knows: to forget it would cost as much once more as it does when that is forged.
        let known = self.own.way_back || self.affirmed;
        let same = before.is_some_and(|before| before.incarnation == hello.incarnation);
        let restarted = known && !same;
        self.affirmed = same || self.affirmed && !restarted;
        if restarted {
            // What the other end knew of this one is gone too.
            self.confirmed = false;
            (self.next, self.interval) = (Instant::ZERO, REPEAT_FIRST);
        }
        self.confirmed |= hello.heard == self.incarnation;
        self.due |= !hello.confirmed || hello.heard != self.incarnation;
        self.news(restarted)
    }

    fn news(&self, restarted: bool) -> News {
        News {
            restarted,
            agreement: self.agreement(),
        }
    }

    /// Something arrived that doesn't fit what this end knows: the other one isn't to go on.
    pub(super) fn object(&mut self, now: Instant) {
        if now >= self.quiet_until {
            self.quiet_until = now + OBJECTION;
            self.due = true;
        }
    }

    /// Something came. While it isn't clear which hello holds, or whether the other end has heard
    /// this one, that is said again where no answer has come in time: this end may have no packets
    /// of its own that would take it along.
    pub(super) fn press(&mut self, now: Instant) {
        let unheard = self.own.way_back && self.other.is_some() && !self.is_confirmed();
        self.due |= unheard && now >= self.next;
    }

    /// Something came that can't be read. If nobody was heard so far, it may be somebody who holds
    /// for agreed what this end doesn't know of.
    pub(super) fn wonder(&mut self, now: Instant) {
        self.due |= self.own.asks && self.other.is_none() && now >= self.next;
    }
}

/// The streams on which whole packets have short checks.
fn short_streams(real_time: bool, others: bool, real_time_streams: u8) -> u8 {
    let of = |short: bool, streams: u8| if short { streams } else { 0 };
    of(real_time, real_time_streams) | of(others, !real_time_streams)
}

#[cfg(test)]
#[path = "agree_tests.rs"]
mod tests;
