//! What programs say that ask for a connection by name or address: SOCKS5 (RFC 1928) without
//! authentication, or HTTP CONNECT (RFC 9110 section 9.3.6). The first octet tells which.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Octets of a request, at most: browsers' requests have some 300.
pub const OCTETS_MAX: usize = 8192;
/// Octets of a host's name (RFC 1035 section 2.3.4).
const NAME_OCTETS_MAX: usize = 253;

const SOCKS: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// Errors of Linux that have words of their own.
const PERMISSION_DENIED: u16 = 13;
const TRY_AGAIN: u16 = 11;
const NETWORK_UNREACHABLE: u16 = 101;
const TIMED_OUT: u16 = 110;
const CONNECTION_REFUSED: u16 = 111;
const HOST_UNREACHABLE: u16 = 113;

/// Whom a program wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// This address.
    Address(SocketAddr),
    /// Whoever has this name, at this port.
    Name(String, u16),
}

/// What a program speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// SOCKS5.
    Socks,
    /// HTTP/1.1.
    Http,
}

/// What follows from what was said so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It isn't whole yet; this is to be answered meanwhile, if anything.
    More(Vec<u8>),
    /// It wants a connection. The octets behind its request are the connection's. What is to be
    /// answered first goes before.
    Wants {
        /// What it speaks.
        speech: Speech,
        /// Whom it wants.
        target: Target,
        /// What is to be answered before anything else.
        answer: Vec<u8>,
        /// The connection's first octets.
        rest: Vec<u8>,
    },
    /// It is nothing that is done here: this is the answer, and the end.
    Wrong(Vec<u8>),
}

/// A program that hasn't said all yet.
#[derive(Clone, Debug, Default)]
pub struct Handshake {
    octets: Vec<u8>,
    /// The method of SOCKS was chosen.
    chosen: bool,
}

impl Handshake {
    /// Takes what a program says.
    pub fn hear(&mut self, octets: &[u8]) -> Step {
        self.octets.extend_from_slice(octets);
        match self.octets.first() {
            None => Step::More(Vec::new()),
            Some(&SOCKS) => self.hear_socks(),
            Some(first) if first.is_ascii_uppercase() => self.hear_http(),
            // Another version of SOCKS, TLS, or nothing at all.
            Some(_) => Step::Wrong(Vec::new()),
        }
    }

    fn hear_socks(&mut self) -> Step {
        let mut answer = Vec::new();
        if !self.chosen {
            let Some(count) = self.octets.get(1).copied().map(usize::from) else {
                return Step::More(answer);
            };
            let Some(methods) = self.octets.get(2..2 + count) else {
                return Step::More(answer);
            };
            if !methods.contains(&NO_AUTHENTICATION) {
                return Step::Wrong(Vec::from([SOCKS, NO_METHOD]));
            }
            self.octets.drain(..2 + count);
            self.chosen = true;
            answer.extend([SOCKS, NO_AUTHENTICATION]);
        }
        let mut reader = Reader(&self.octets);
        match read_socks(&mut reader) {
            Ok(None) => Step::More(answer),
            Ok(Some(target)) => Step::Wants {
                speech: Speech::Socks,
                target,
                answer,
                rest: reader.0.to_vec(),
            },
            Err(reply) => {
                answer.extend(socks_reply(reply));
                Step::Wrong(answer)
            }
        }
    }

    fn hear_http(&mut self) -> Step {
        const END: &[u8] = b"\r\n\r\n";
        let end = self.octets.windows(END.len()).position(|it| it == END);
        let Some(end) = end.filter(|end| *end <= OCTETS_MAX) else {
            return match self.octets.len() > OCTETS_MAX {
                true => wrong("431 Request Header Fields Too Large", ""),
                false => Step::More(Vec::new()),
            };
        };
        let head = core::str::from_utf8(&self.octets[..end]).unwrap_or_default();
        let mut words = head.lines().next().unwrap_or_default().split(' ');
        let [method, authority, version] = [(); 3].map(|()| words.next().unwrap_or_default());
        if !version.starts_with("HTTP/1.") || words.next().is_some() {
            return wrong("400 Bad Request", "");
        }
        if method != "CONNECT" {
            return wrong("405 Method Not Allowed", "Allow: CONNECT\r\n");
        }
        match read_authority(authority) {
            Some(target) => Step::Wants {
                speech: Speech::Http,
                target,
                answer: Vec::new(),
                rest: self.octets[end + END.len()..].to_vec(),
            },
            None => wrong("400 Bad Request", ""),
        }
    }
}

/// Octets that are still to be read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (octets, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(octets)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn port(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }
}

/// A request; `Ok(None)` if it isn't whole, or what is to be replied to one that can't be served.
fn read_socks(reader: &mut Reader<'_>) -> Result<Option<Target>, u8> {
    const NOT_SUPPORTED: u8 = 7;
    const NO_SUCH_KIND: u8 = 8;
    const FAILED: u8 = 1;
    let Some([version, command, _, kind]) = reader.array() else {
        return Ok(None);
    };
    if version != SOCKS {
        return Err(FAILED);
    }
    if command != CONNECT {
        return Err(NOT_SUPPORTED);
    }
    let address = match kind {
        1 => reader.array().map(|it| IpAddr::V4(Ipv4Addr::from(it))),
        4 => reader.array().map(|it| IpAddr::V6(Ipv6Addr::from(it))),
        3 => {
            let length = reader.take(1).map_or(0, |it| usize::from(it[0]));
            let Some(name) = reader.take(length).filter(|it| !it.is_empty()) else {
                // A name without letters is none, and one whose length isn't there yet may come.
                let whole = length == 0 && !reader.0.is_empty();
                return if whole { Err(FAILED) } else { Ok(None) };
            };
            let name = core::str::from_utf8(name).ok().map(String::from);
            let Some(port) = reader.port() else {
                return Ok(None);
            };
            let target = name.and_then(|name| target(&name, port));
            return target.map(Some).ok_or(FAILED);
        }
        _ => return Err(NO_SUCH_KIND),
    };
    let end = address.and_then(|address| Some(SocketAddr::new(address, reader.port()?)));
    Ok(end.map(Target::Address))
}

/// A host and a port as HTTP writes them.
fn read_authority(text: &str) -> Option<Target> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok()?;
    match host.strip_prefix('[').map(|it| it.strip_suffix(']')) {
        Some(v6) => {
            let v6: Ipv6Addr = v6?.parse().ok()?;
            Some(Target::Address(SocketAddr::new(v6.into(), port)))
        }
        None => target(host, port),
    }
}

/// A name, or an address that is written as one.
fn target(host: &str, port: u16) -> Option<Target> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(Target::Address(SocketAddr::new(address, port)));
    }
    let right = |it: u8| it.is_ascii_alphanumeric() || b"-_.".contains(&it);
    let named = !host.is_empty() && host.len() <= NAME_OCTETS_MAX && host.bytes().all(right);
    named.then(|| Target::Name(host.into(), port))
}

/// What a program hears that has its connection.
pub fn granted(speech: Speech) -> Vec<u8> {
    match speech {
        Speech::Socks => socks_reply(0).into(),
        Speech::Http => b"HTTP/1.1 200 Connected\r\n\r\n".into(),
    }
}

/// What a program hears of a connection that failed like this, by the number of Linux.
pub fn refused(speech: Speech, error: u16) -> Vec<u8> {
    if speech == Speech::Socks {
        return socks_reply(match error {
            PERMISSION_DENIED => 2,
            NETWORK_UNREACHABLE => 3,
            HOST_UNREACHABLE => 4,
            CONNECTION_REFUSED => 5,
            // That is what others say who wait in vain.
            TIMED_OUT => 6,
            _ => 1,
        })
        .into();
    }
    // Words of RFC 9209 section 2.3.
    let (status, why) = match error {
        PERMISSION_DENIED => ("403 Forbidden", "destination_ip_prohibited"),
        NETWORK_UNREACHABLE | HOST_UNREACHABLE => ("502 Bad Gateway", "destination_ip_unroutable"),
        CONNECTION_REFUSED => ("502 Bad Gateway", "connection_refused"),
        TIMED_OUT => ("504 Gateway Timeout", "connection_timeout"),
        TRY_AGAIN => ("503 Service Unavailable", "connection_limit_reached"),
        _ => ("502 Bad Gateway", "connection_terminated"),
    };
    http(status, &format!("Proxy-Status: strait; error={why}\r\n"))
}

fn wrong(status: &str, fields: &str) -> Step {
    Step::Wrong(http(status, fields))
}

fn http(status: &str, fields: &str) -> Vec<u8> {
    let end = "Content-Length: 0\r\nConnection: close\r\n\r\n";
    format!("HTTP/1.1 {status}\r\n{fields}{end}").into_bytes()
}

/// A reply without an address: that by which the far gateway connects isn't known here.
const fn socks_reply(reply: u8) -> [u8; 10] {
    [SOCKS, reply, 0, 1, 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
