//! Routes by which a gateway leads its host, told from others by a protocol number of their own.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteProtocol};
use nix::libc;
use strait_core::prefix::Prefix;

use super::{Events, MAIN, Netlink, read_route, route_message};
use crate::error::{Doing, Error};

/// What such routes have as their origin: `proto 57` of `ip route`. No file `rt_protos` gives it
/// to anybody.
pub const PROTOCOL: u8 = 57;

/// A route of the main table by an interface alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedRoute {
    /// The network.
    pub prefix: Prefix,
    /// The number of the interface.
    pub link: u32,
    /// Its metric; none of IPv6 has 0.
    pub metric: u32,
    /// It has our protocol number; else it may have any.
    pub own: bool,
}

impl LedRoute {
    fn message(&self, put: bool) -> RouteMessage {
        let Prefix { address, length } = self.prefix;
        let mut message = route_message(address, length, None, Some(self.link));
        message.header.protocol = if put || self.own {
            RouteProtocol::Other(PROTOCOL)
        } else {
            RouteProtocol::Unspec
        };
        let metric = RouteAttribute::Priority(self.metric);
        message.attributes.push(metric);
        message
    }
}

impl Netlink {
    /// Puts such routes (true) or removes them, all by one message to the kernel; what came of
    /// each.
    ///
    /// # Errors
    /// The conversation failed: nobody knows what came of them.
    pub fn lead(&mut self, changes: &[(LedRoute, bool)]) -> io::Result<Vec<io::Result<()>>> {
        let first = self.sequence.wrapping_add(1);
        let mut octets = Vec::new();
        for (route, put) in changes {
            let (message, flags) = if *put {
                let message = Message::NewRoute(route.message(true));
                (message, NLM_F_CREATE | NLM_F_EXCL)
            } else {
                (Message::DelRoute(route.message(false)), 0)
            };
            octets.extend(self.request(message, NLM_F_REQUEST | NLM_F_ACK | flags));
        }
        let mut results: Vec<Option<io::Result<()>>> = Vec::new();
        results.resize_with(changes.len(), || None);
        let mut missing = changes.len();
        if missing > 0 {
            self.socket.send(&octets, 0)?;
            self.receive(|sequence, payload| {
                let place = sequence.wrapping_sub(first) as usize;
                if let (Some(result), NetlinkPayload::Error(error)) =
                    (results.get_mut(place), payload)
                {
                    let came = error.code.map_or(Ok(()), |_| Err(error.to_io()));
                    missing -= usize::from(result.replace(came).is_none());
                }
                Ok(missing == 0)
            })?;
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// Routes by an interface alone, both families.
    ///
    /// # Errors
    /// The kernel's.
    pub fn led(&mut self, link: u32) -> Result<Vec<LedRoute>, Error> {
        // A kernel that doesn't know to choose gives all.
        let _ = self.socket.set_netlink_get_strict_chk(true);
        let attributes = [RouteAttribute::Table(MAIN), RouteAttribute::Oif(link)];
        let led = self.list_routes(&attributes, |message| read(message, link));
        led.doing(|| "list the routes")
    }
}

/// A route, if it is one by an interface alone.
fn read(message: &RouteMessage, link: u32) -> Option<LedRoute> {
    let (table, route) = read_route(message)?;
    let mut attributes = message.attributes.iter();
    let metric = attributes.find_map(|attribute| match attribute {
        RouteAttribute::Priority(metric) => Some(*metric),
        _ => None,
    });
    let ours = table == MAIN && route.link == Some(link) && route.gateway.is_none();
    ours.then_some(LedRoute {
        prefix: Prefix::new(route.prefix, route.length)?,
        link,
        metric: metric.unwrap_or(0),
        own: message.header.protocol == RouteProtocol::Other(PROTOCOL),
    })
}

/// Hears of what may have taken such routes, in the calling thread's namespace.
#[derive(Debug)]
pub struct LedEvents(Events);

impl LedEvents {
    /// Interfaces, addresses of IPv4, routes of IPv4 and IPv6. With an interface's last address the
    /// kernel takes its routes of IPv4 and doesn't say so.
    const GROUPS: [u32; 4] = [1, 5, 7, 11];

    /// Begins to listen.
    ///
    /// # Errors
    /// The kernel gives no netlink socket.
    pub fn open() -> Result<Self, Error> {
        Events::open(&Self::GROUPS).map(Self)
    }

    /// Takes what was said, and tells whether it is worth a look: an interface changed or lost an
    /// address, such a route was removed, one to a network that `is_ours` was replaced, or some was
    /// left unsaid. A host's table may change often, and no more of that is read.
    pub fn drain(&mut self, is_ours: impl Fn(Prefix) -> bool) -> bool {
        let said = |datagram: &[u8]| messages(datagram).any(|it| matters(it, &is_ours));
        self.0.drain(said)
    }
}

impl AsFd for LedEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.0.as_fd()
    }
}

/// Octets of a message's header.
const HEADER: usize = 16;

/// The messages of a datagram, as octets (`netlink(7)`).
fn messages(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
        let message = rest.get(..length).filter(|it| it.len() >= HEADER)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some(message)
    })
}

/// Whether a message may be about the end of such a route. The protocol is the sixth octet behind
/// the header (`rtnetlink(7)`).
fn matters(message: &[u8], is_ours: impl Fn(Prefix) -> bool) -> bool {
    let word = |at: usize| {
        let octets = message.get(at..).and_then(<[u8]>::first_chunk);
        octets.map_or(0, |octets| u16::from_ne_bytes(*octets))
    };
    let replaces = i32::from(word(6)) & libc::NLM_F_REPLACE != 0;
    match word(4) {
        libc::RTM_DELROUTE => message.get(HEADER + 5) == Some(&PROTOCOL),
        libc::RTM_NEWROUTE => replaces && destination(message).is_some_and(is_ours),
        libc::RTM_NEWLINK | libc::RTM_DELLINK | libc::RTM_DELADDR => true,
        _ => false,
    }
}

/// Octets of what every message about a route begins with.
const ROUTE_HEADER: usize = 12;

/// The network that a message about a route names.
fn destination(message: &[u8]) -> Option<Prefix> {
    let [family, length] = *message.get(HEADER..)?.first_chunk()?;
    let mut rest = message.get(HEADER + ROUTE_HEADER..)?;
    let mut named = None;
    while let Some((octets, kind)) = rest.split_first_chunk::<2>() {
        let octets = usize::from(u16::from_ne_bytes(*octets));
        let value = rest.get(4..octets.max(4))?;
        if kind.first_chunk() == Some(&libc::RTA_DST.to_ne_bytes()) {
            named = Some(value);
        }
        rest = rest.get(octets.max(4).next_multiple_of(4)..).unwrap_or(&[]);
    }
    let address: IpAddr = match (i32::from(family), named) {
        (libc::AF_INET, None) => [0; 4].into(),
        (libc::AF_INET, Some(octets)) => <[u8; 4]>::try_from(octets).ok()?.into(),
        (libc::AF_INET6, None) => [0; 16].into(),
        (libc::AF_INET6, Some(octets)) => <[u8; 16]>::try_from(octets).ok()?.into(),
        _ => return None,
    };
    Prefix::new(address, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, protocol: u8) -> Vec<u8> {
        let mut octets = Vec::from(36u32.to_ne_bytes());
        octets.extend(kind.to_ne_bytes());
        octets.extend(flags.to_ne_bytes());
        octets.extend([0; 8]);
        octets.extend([2, 24, 0, 0, 254, protocol, 0, 1, 0, 0, 0, 0]);
        octets.extend(8u16.to_ne_bytes());
        octets.extend(libc::RTA_DST.to_ne_bytes());
        octets.extend([10, 3, 0, 0]);
        octets
    }

    #[test]
    fn what_takes_no_route_of_ours_is_no_reason_to_look() {
        let replace = libc::NLM_F_REPLACE as u16;
        for (kind, flags, protocol, expected) in [
            (libc::RTM_DELROUTE, 0, PROTOCOL, true),
            (libc::RTM_DELROUTE, 0, 4, false),
            (libc::RTM_NEWROUTE, 0, PROTOCOL, false),
            (libc::RTM_NEWROUTE, replace, 4, true),
            (libc::RTM_NEWLINK, 0, 0, true),
            (libc::RTM_NEWADDR, replace, PROTOCOL, false),
            (libc::RTM_DELADDR, 0, 0, true),
        ] {
            let ours: Prefix = "10.3.0.0/24".parse().unwrap();
            let matters = |message: &[u8]| matters(message, |prefix| prefix == ours);
            let one = message(kind, flags, protocol);
            let other = message(libc::RTM_NEWROUTE, 0, 4);
            for all in [one.clone(), [other, one.clone()].concat()] {
                assert_eq!(messages(&all).any(matters), expected, "{kind} {flags}");
            }
            // Cut anywhere, it ends.
            for end in 0..one.len() {
                assert!(messages(&one[..end]).count() <= 1);
            }
        }
        let replaced = message(libc::RTM_NEWROUTE, replace, 4);
        assert!(!matters(&replaced, |_| false), "a network of others");
        for end in 0..replaced.len() {
            let _ = matters(&replaced[..end], |_| true);
        }
        // A length of nothing doesn't go on for ever.
        assert_eq!(messages(&[0; 64]).count(), 0);
    }
}
