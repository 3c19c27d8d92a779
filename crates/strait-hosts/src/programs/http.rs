//! The little of HTTP/1.1 (RFC 9112) that a page needs, at the sizes that real requests have, and
//! the way that it goes.

use strait_core::tls::{TlsFault, TlsRole};
use strait_tcp::TcpEndpoint;

use crate::tls::{Certificate, Line, Profile, Session};

/// Octets of each request.
pub(super) const REQUEST_OCTETS: usize = 300;
/// Octets of each response's header.
pub(super) const RESPONSE_HEAD_OCTETS: usize = 200;

/// Octets of a server's certificate, with the one that leads to its issuer: as most have.
const CHAIN_OCTETS: usize = 2500;
/// Tickets for later connections that a server gives, as OpenSSL and BoringSSL do.
const TICKETS: u8 = 2;
/// Octets read from a connection at a time.
const CHUNK_OCTETS: usize = 4096;

/// A connection's octets, in the clear or in TLS.
pub(super) struct Wire(Option<Box<Line>>);

impl Wire {
    /// A client's, with a ticket of the server if it has one.
    pub(super) fn client(tls: bool, name: &str, ticket: bool) -> Self {
        let role = TlsRole::Client { name: name.into() };
        let profile = Profile::trusting(vec![String::new()]);
        let begin = [Session::new, Session::resume][usize::from(ticket)];
        Self::of(tls, || begin(&profile, &role))
    }

    pub(super) fn server(tls: bool) -> Self {
        let profile = Profile {
            certificate: Some(Certificate {
                octets: CHAIN_OCTETS,
                ..Certificate::default()
            }),
            tickets: TICKETS,
            ..Profile::trusting(Vec::new())
        };
        Self::of(tls, || Session::new(&profile, &TlsRole::Server))
    }

    fn of(tls: bool, session: impl FnOnce() -> Result<Session, TlsFault>) -> Self {
        let line = || session().ok().map(|it| Box::new(Line::of(it)));
        Self(if tls { line() } else { None })
    }

    /// How many tickets came since it was asked last.
    pub(super) fn take_tickets(&mut self) -> u8 {
        let line = self.0.as_mut();
        line.map_or(0, |it| it.session().take_tickets())
    }

    /// Appends what came, and sends what waits.
    pub(super) fn work(
        &mut self,
        endpoint: &mut dyn TcpEndpoint,
        into: &mut Vec<u8>,
    ) -> Result<(), TlsFault> {
        if let Some(line) = &mut self.0 {
            return line.work(endpoint, into);
        }
        let mut chunk = [0; CHUNK_OCTETS];
        loop {
            match endpoint.recv(&mut chunk) {
                0 => return Ok(()),
                octets => into.extend_from_slice(&chunk[..octets]),
            }
        }
    }

    /// Sends as many of these octets as it takes now.
    pub(super) fn send(&mut self, endpoint: &mut dyn TcpEndpoint, octets: &[u8]) -> usize {
        match &mut self.0 {
            Some(line) => line.send(endpoint, octets),
            None => endpoint.send(octets),
        }
    }

    pub(super) fn close(&mut self, endpoint: &mut dyn TcpEndpoint) {
        match &mut self.0 {
            Some(line) => line.close(endpoint),
            None => endpoint.close(),
        }
    }

    /// Whether the other side has said all.
    pub(super) fn has_ended(&mut self, endpoint: &dyn TcpEndpoint) -> bool {
        match &mut self.0 {
            Some(line) => line.session().has_ended(),
            None => endpoint.is_drained(),
        }
    }
}

/// Fills a header up to `octets` with a field that nobody reads, and ends it.
fn pad(mut head: String, octets: usize) -> Vec<u8> {
    head.push_str("X-Fill: ");
    while head.len() + 4 < octets {
        head.push('x');
    }
    head.push_str("\r\n\r\n");
    head.into_bytes()
}

/// A request for object `index`; the path says how many octets it has, so that the server needs no
/// configuration.
pub(super) fn request(index: u32, octets: u64) -> Vec<u8> {
    pad(
        format!("GET /{index}/{octets} HTTP/1.1\r\nHost: page\r\n"),
        REQUEST_OCTETS,
    )
}

/// Reads a request: object and octets. `None` if it is none of ours.
pub(super) fn parse_request(bytes: &[u8]) -> Option<(u32, u64)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let path = text.strip_prefix("GET /")?.split_once(' ')?.0;
    let (index, octets) = path.split_once('/')?;
    Some((index.parse().ok()?, octets.parse().ok()?))
}

/// The header of a response with a body of `octets`.
pub(super) fn response_head(octets: u64) -> Vec<u8> {
    pad(
        format!("HTTP/1.1 200 OK\r\nContent-Length: {octets}\r\n"),
        RESPONSE_HEAD_OCTETS,
    )
}

/// Where in the page's content an object begins.
pub(super) const fn object_place(index: u32) -> u64 {
    (index as u64) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_size_and_read_back() {
        for (index, octets) in [(0, 0), (19, 4897), (u32::MAX, u64::MAX)] {
            let request = request(index, octets);
            assert_eq!(request.len(), REQUEST_OCTETS);
            assert!(request.ends_with(b"\r\n\r\n"));
            assert_eq!(parse_request(&request), Some((index, octets)));
            assert_eq!(response_head(octets).len(), RESPONSE_HEAD_OCTETS);
        }
        for wrong in [
            &b""[..],
            b"GET /",
            b"GET /1/ HTTP",
            b"GET /1 HTTP/1.1",
            b"\xff",
            b"GET /-1/2 ",
        ] {
            assert_eq!(parse_request(wrong), None);
        }
    }
}
