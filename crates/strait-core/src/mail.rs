//! What a message switch has, for its operator's eyes: it is in no log.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::time::Duration;

/// What an operator wants of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailOrder {
    /// It stays until it is let go.
    Hold(u64),
    /// It goes again.
    Release(u64),
    /// It goes by this next hop, or again by the one that its route has.
    Reroute(u64, Option<IpAddr>),
    /// What would go by one next hop goes by another of its route, or not any more.
    Divert(IpAddr, Option<IpAddr>),
    /// To other switches goes only what has this precedence at least, by its number from 0, the
    /// least (MINIMIZE); 0 ends that.
    Minimize(u64),
}

/// What a message waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MailState {
    /// An operator holds it.
    Held,
    /// An operator has only higher precedences go.
    Minimized,
    /// Its precedence goes at other hours.
    Closed,
    /// Its next hop fetches it.
    Polled,
    /// Its next hop is out, and may have it already: only that one can tell.
    Doubtful,
    /// The link to its next hop is down.
    LinkDown,
    /// No connection to its next hop is there.
    Unconnected,
    /// A message of higher precedence goes first.
    Behind,
    /// It is its turn, or that of one before it.
    Queued,
    /// It is being sent, or waits for its answer.
    Sending,
    /// It was refused for now, and waits for its next try.
    Later,
    /// It is being written to a mailbox.
    Delivering,
}

impl MailState {
    /// As a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Minimized => "minimize",
            Self::Closed => "other hours",
            Self::Polled => "until polled",
            Self::Doubtful => "may be there",
            Self::LinkDown => "link down",
            Self::Unconnected => "no connection",
            Self::Behind => "behind higher",
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Later => "later",
            Self::Delivering => "delivering",
        }
    }
}

/// What a message switch has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MailView {
    /// Messages by their ways.
    pub messages: Vec<MailEntry>,
    /// Messages that haven't been read from storage since the start.
    pub unread: u64,
    /// Next hops, in the order of the routes.
    pub hops: Vec<MailHop>,
    /// Connections to them, in the same order, the highest precedence first.
    pub lanes: Vec<MailLane>,
}

/// A connection to a next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailLane {
    /// The next hop's address.
    pub hop: IpAddr,
    /// The precedence.
    pub precedence: &'static str,
    /// It is a stream of the TCP proxy's session with that gateway, and no TCP connection.
    pub of_session: bool,
    /// The next hop has greeted.
    pub ready: bool,
}

/// A next hop of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailHop {
    /// Its address.
    pub hop: IpAddr,
    /// The route's number, from 1.
    pub route: u64,
    /// The domains whose mail it may have.
    pub domains: String,
    /// It has the route's messages now.
    pub used: bool,
    /// It has been down or silent for too long.
    pub out: bool,
    /// The next hop that an operator has in its place.
    pub instead: Option<IpAddr>,
    /// Messages that wait for it.
    pub waiting: u64,
}

/// A message and one of the ways by which it is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailEntry {
    /// Its number.
    pub id: u64,
    /// Its precedence.
    pub precedence: &'static str,
    /// Octets of its text.
    pub octets: u64,
    /// Since when it is here, as far as the calendar tells.
    pub age: Duration,
    /// Its return path.
    pub sender: String,
    /// Those who are to get it this way.
    pub recipients: String,
    /// The way: the next hop, or a mailbox.
    pub hop: String,
    /// The route's number, from 1, if it is a next hop.
    pub route: Option<u64>,
    /// What it waits for.
    pub state: MailState,
    /// How often it was refused for now.
    pub tries: u32,
    /// What was said last.
    pub said: String,
    /// Octets that go before it by the same way, its own included.
    pub ahead_octets: u64,
    /// How long those take at the link's rate, where that is known.
    pub estimate: Option<Duration>,
    /// Seconds in which it is to be there, and what happens then, if its sender said so.
    pub by: Option<String>,
    /// The field `Received` of this switch.
    pub trace: String,
}
