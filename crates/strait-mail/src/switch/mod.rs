//! The switch: what comes by its listeners is stored, and goes on by lanes or into mailboxes.

mod arrivals;
mod asks;
mod deadlines;
mod edge;
mod hops;
mod known;
mod lanes;
mod line;
mod mailboxes;
mod moves;
mod orders;
mod outcomes;
mod polls;
mod queue;
mod repeats;
mod sending;
mod steps;
mod view;

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use strait_core::mail::{MailOrder, MailView};
use strait_core::node::{Owner, Side, StreamEvent, WallTime};
use strait_core::prefix::Prefix;
use strait_core::stats::MailStats;
use strait_core::work::Login;
use strait_core::{Duration, Effect, Input, Instant};

use self::arrivals::Arrivals;
use self::asks::{Asks, Pending};
use self::lanes::Lanes;
pub use self::line::OF_SESSION;
use self::mailboxes::Mailboxes;
use self::queue::Queue;
pub use self::steps::Step;
use self::view::View;
use crate::precedence::Precedence;

/// What a switch is told at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name, as other switches see it.
    pub name: String,
    /// Where mail comes in.
    pub listeners: Vec<ListenSettings>,
    /// Addresses whose mail stays here.
    pub mailboxes: Vec<String>,
    /// The folder of their Maildirs.
    pub maildir: String,
    /// Where other mail goes, the first that has its domain.
    pub routes: Vec<RouteSettings>,
    /// How each precedence goes, the least first.
    pub lanes: [LaneSettings; 6],
    /// Octets of a message.
    pub octets_max: u64,
    /// The least seconds in which a message may be wanted to be there or return.
    pub by_min: u64,
    /// How long a message that a program brings once more is known; zero if it isn't.
    pub repeats: Duration,
    /// Messages at a time.
    pub messages_max: usize,
    /// Who may bring mail where that is asked.
    pub users: Vec<UserSettings>,
    /// What texts have in common: other switches of ours have the same.
    pub dictionary: Vec<u8>,
}

/// Where mail comes in.
#[derive(Clone, Debug)]
pub struct ListenSettings {
    /// Where.
    pub address: SocketAddr,
    /// The code point of its packets.
    pub dscp: u8,
    /// The precedence of what says nothing of one.
    pub default: Precedence,
    /// Who may come.
    pub clients: Vec<Prefix>,
    /// The highest that they may ask for beyond that, if they don't log in; any if absent.
    pub most: Option<Precedence>,
    /// Another switch comes here, with one connection at a time.
    pub lane: bool,
    /// Clients may have TLS, or have to.
    pub tls: Option<Tls>,
    /// They have to say who they are.
    pub users: bool,
}

/// TLS of a listener.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The profile.
    pub profile: String,
    /// From the start, rather than when a client asks for it.
    pub at_once: bool,
}

/// Somebody who may bring mail.
#[derive(Clone, Debug)]
pub struct UserSettings {
    /// The name.
    pub name: String,
    /// What is kept of the password.
    pub hash: String,
    /// The highest precedence.
    pub most: Precedence,
}

impl ListenSettings {
    /// Octets that a message may have grown by: one that another switch took isn't too long here
    /// for its traces.
    const fn traces(&self) -> u64 {
        if self.lane { 64 * 1024 } else { 0 }
    }
}

/// Where mail goes.
#[derive(Clone, Debug)]
pub struct RouteSettings {
    /// Domains, those below them included; `.` has all.
    pub domains: Vec<String>,
    /// Next hops: the first that is there.
    pub hops: Vec<HopSettings>,
    /// How long one may be down or silent before the next is tried.
    pub patience: Duration,
    /// Long messages follow behind their text.
    pub text_first: Option<TextFirst>,
}

/// When a message's text goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextFirst {
    /// If the message has more octets.
    pub octets: u64,
    /// The precedence by which all of it follows: if its own is higher.
    pub rest: Precedence,
}

/// A next hop.
#[derive(Clone, Debug)]
pub struct HopSettings {
    /// Its address.
    pub to: IpAddr,
    /// Its port, if all precedences go to one.
    pub port: Option<u16>,
    /// It is a server of mailboxes, and speaks LMTP.
    pub lmtp: bool,
    /// Connections at a time that a precedence may have, where it waits for each answer.
    pub connections: usize,
    /// It is told no more of a message's way than which switches took it, and when.
    pub thin: bool,
    /// What has this precedence at most waits until it asks for it.
    pub polled: Option<Precedence>,
    /// How often this switch asks it for what waits there.
    pub poll: Option<Duration>,
    /// A profile of TLS, without which nothing goes there, and the name in its certificate.
    pub tls: Option<(String, String)>,
    /// Who this switch says there that it is, and a file with the password.
    pub login: Option<(String, String)>,
}

/// How a precedence goes to next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSettings {
    /// The port that it goes to.
    pub port: u16,
    /// The code point of its packets.
    pub dscp: u8,
    /// Its connection stays open.
    pub permanent: bool,
    /// When its messages are given up.
    pub expiry: Duration,
    /// When one that is still here is an alarm.
    pub alarm: Option<Duration>,
    /// Octets of a message that clients bring.
    pub octets_max: u64,
    /// When its messages go.
    pub hours: Option<Hours>,
    /// How they give way to higher ones.
    pub yields: Yields,
}

/// How messages of a precedence give way to higher ones for the same next hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Yields {
    /// They go beside these.
    Never,
    /// None begins; one that has begun goes on.
    Between,
    /// One that has begun rests, too.
    #[default]
    Pause,
    /// Its connection is given up, with what a kernel has of it, and it goes on by another one.
    Abort,
}

/// Some of each day, in seconds of it (UTC); over midnight if it ends before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    /// When they begin.
    pub from: u64,
    /// When they end.
    pub to: u64,
}

impl Hours {
    const DAY: u64 = 86_400;

    const fn contains(self, unix_s: u64) -> bool {
        let since = (unix_s % Self::DAY + Self::DAY - self.from) % Self::DAY;
        since < (self.to + Self::DAY - self.from) % Self::DAY
    }

    /// When they begin or end next.
    fn next(self, unix_s: u64) -> u64 {
        let left = |of: u64| match (of + Self::DAY - unix_s % Self::DAY) % Self::DAY {
            0 => Self::DAY,
            left => left,
        };
        unix_s + left(self.from).min(left(self.to))
    }
}

impl HopSettings {
    /// Whether it is a switch of ours, whose lanes have no keys of their own.
    const fn is_ours(&self) -> bool {
        self.port.is_none() && self.tls.is_none()
    }
}

/// What carries the lanes to a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bearer {
    /// A TCP connection each.
    Tcp,
    /// A stream each of the session with its gateway.
    Session,
    /// The session isn't there yet.
    Awaited,
}

/// The way to a next hop, as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its rate.
    pub bit_s: u64,
    /// How long an answer takes at least; zero where nobody takes turns.
    pub turn: Duration,
    /// What carries its lanes.
    pub bearer: Bearer,
}

impl Link {
    /// How long so many octets take.
    fn time(self, octets: u64) -> Duration {
        let ns = u128::from(octets) * 8_000_000_000 / u128::from(self.bit_s.max(1));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// A message switch.
#[derive(Debug)]
pub struct Switch {
    asks: Asks,
    queue: Queue,
    arrivals: Arrivals,
    lanes: Lanes,
    mailboxes: Mailboxes,
    /// Something happened since it looked what there is to do.
    stirred: bool,
}

impl Switch {
    /// A switch whose things are this owner's, with a seed that no other start has, and what
    /// storage holds of it.
    pub fn new(owner: Owner, settings: Settings, seed: u64, stored: &[(Vec<u8>, u64)]) -> Self {
        let mut asks = Asks::new(owner);
        let mut arrivals = Arrivals::default();
        arrivals.listen(&settings, &mut asks);
        let mut queue = Queue::new(settings, seed);
        queue.restore(stored, &mut asks);
        let lanes = Lanes::new(queue.hops.connections());
        Self {
            asks,
            queue,
            arrivals,
            lanes,
            mailboxes: Mailboxes::default(),
            stirred: true,
        }
    }

    /// The next hops, in the order of the routes.
    pub fn hops(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.queue.hops.addresses()
    }

    /// The ways to the next hops, in the same order; `None` for one that isn't there.
    pub fn set_links(&mut self, now: Instant, links: impl Iterator<Item = Option<Link>>) {
        self.stirred |= self
            .lanes
            .set_links(now, links, &mut self.queue, &mut self.asks);
    }

    /// What time it is.
    pub fn set_calendar(&mut self, now: Instant, wall: WallTime) {
        self.queue.set_calendar(now, wall.0 / 1_000_000_000);
        self.stirred = true;
    }

    /// An operator's order.
    pub fn obey(&mut self, now: Instant, order: MailOrder) {
        self.queue.obey(now, order, &mut self.asks);
        self.stirred = true;
    }

    /// What may be kept of an input: no passwords.
    pub fn conceal<'a>(&self, input: Input<'a>, room: &'a mut Vec<u8>) -> Input<'a> {
        match input {
            Input::Stream {
                id,
                event: StreamEvent::Data(octets),
            } => {
                let said = match id.side {
                    Side::Client => self.arrivals.conceal(id.n, octets, &self.queue),
                    Side::Node => self.lanes.conceal(id.n, octets),
                };
                let octets = match said {
                    Some(said) => {
                        *room = said;
                        &room[..]
                    }
                    None => octets,
                };
                let event = StreamEvent::Data(octets);
                Input::Stream { id, event }
            }
            Input::Worked {
                ticket,
                result: Ok(line),
            } if self.asks.is_secret(ticket) => {
                // Nothing here depends on it but how long it is.
                *room = alloc::vec![b'x'; line.len()];
                let result = Ok(&room[..]);
                Input::Worked { ticket, result }
            }
            input => input,
        }
    }

    /// Something happened to something of its own.
    pub fn hear(&mut self, now: Instant, input: &Input<'_>) {
        self.stirred = true;
        let Self {
            asks,
            queue,
            arrivals,
            lanes,
            mailboxes,
            ..
        } = self;
        match *input {
            Input::Stream { id, event } if id.side == Side::Client => {
                arrivals.hear(now, id.n, event, queue, asks);
            }
            Input::Stream { id, event } => lanes.hear(now, id.n, event, queue, asks),
            Input::Stored { ticket, result } => match asks.answered(ticket) {
                Some(Pending::Piece { client }) => {
                    arrivals.hear_stored(now, client, result, queue, asks);
                }
                Some(Pending::Message { client, taken }) => {
                    arrivals.hear_taken(now, (client, *taken), result, queue, asks);
                }
                Some(Pending::Noted(way, id)) => queue.hear_noted(now, way, id, result.is_ok()),
                Some(Pending::Change(change)) if result.is_err() => {
                    queue.stats.unstored += 1;
                    asks.repeat(now, change);
                }
                _ => {}
            },
            Input::Loaded { ticket, result } => match asks.answered(ticket) {
                Some(Pending::Envelope(id)) => queue.hear_envelope(now, id, result, asks),
                Some(Pending::Text(it)) => lanes.hear_text(now, it, result, queue, asks),
                Some(Pending::Copy) => mailboxes.hear_text(now, result, queue, asks),
                _ => {}
            },
            Input::Worked { ticket, result } => match asks.answered(ticket) {
                Some(Pending::Packed(it)) => lanes.hear_packed(it, result.ok(), queue),
                Some(Pending::Credential { stream }) => {
                    lanes.hear_credential(now, stream, result.ok(), queue, asks);
                }
                Some(Pending::Unpacked { client }) => {
                    arrivals.hear_unpacked(now, client, result.ok(), queue, asks);
                }
                Some(Pending::Login { client }) => {
                    let login = result.ok().and_then(Login::decode);
                    arrivals.hear_login(now, client, login, queue, asks);
                }
                Some(Pending::Copy) => mailboxes.hear_delivered(now, result.is_ok(), queue, asks),
                _ => {}
            },
            _ => {}
        }
    }

    /// Has done what is due.
    pub fn settle(&mut self, now: Instant) {
        let due = self.wake().is_some_and(|at| at <= now);
        if !core::mem::take(&mut self.stirred) && !due {
            return;
        }
        while let Some(change) = self.asks.due(now) {
            self.queue.store(change, &mut self.asks);
        }
        self.queue.settle(now, &mut self.asks);
        self.arrivals.settle(now, &mut self.queue, &mut self.asks);
        self.lanes.settle(now, &mut self.queue, &mut self.asks);
        self.mailboxes.settle(&mut self.queue, &mut self.asks);
    }

    /// When something is due.
    pub fn wake(&self) -> Option<Instant> {
        let wakes = [
            self.asks.wake(),
            self.queue.wake(),
            self.arrivals.wake(),
            self.lanes.wake(&self.queue),
        ];
        wakes.into_iter().flatten().min()
    }

    /// What is to be done outside.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.asks.poll()
    }

    /// What it has counted.
    pub const fn stats(&self) -> &MailStats {
        &self.queue.stats
    }

    /// What it has, the most urgent first.
    pub fn view(&self, now: Instant) -> MailView {
        let view = View {
            now,
            queue: &self.queue,
            lanes: &self.lanes,
        };
        view.all()
    }

    /// Asserts that each message is where it is looked for.
    pub fn check(&self) {
        self.queue.check();
    }
}

#[cfg(test)]
mod tests;
