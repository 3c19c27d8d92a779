//! Counters in the Prometheus text format (OpenMetrics 1.0), over HTTP on a loopback address.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::BorrowedFd;

use socket2::{Domain, Socket, Type};
use strait_core::time::Instant;

use super::server::{Answer, Answerer, Listener, Server};
use crate::error::{Doing, Error};
use crate::node_loop::service::{Service, View};

/// Clients that may wait for their turn.
const BACKLOG: i32 = 16;

/// Serves `GET /metrics`.
#[derive(Debug)]
pub struct MetricsServer {
    server: Server,
    address: SocketAddr,
}

impl MetricsServer {
    /// Listens at `address`, which the host may get later. The counters tell who talks how much,
    /// and the server has no password: an address that others can reach must be wished for by
    /// `allow_remote`.
    ///
    /// # Errors
    /// The address isn't loopback, is in use, or the system says no.
    pub fn bind(address: SocketAddr, allow_remote: bool) -> Result<Self, Error> {
        let doing = || format!("serve metrics on {address}");
        if !allow_remote && !is_own(address) {
            let error = Error::invalid(doing(), "it isn't a loopback address");
            return Err(error.with_remedy(ELSEWHERE));
        }
        let listener = listen(address).doing(doing)?;
        let address = listener.local_addr().doing(doing)?;
        let server = Server::new(Listener::Tcp(listener), answerer()).doing(doing)?;
        Ok(Self { server, address })
    }

    /// Where it listens: with port 0 the system chose one.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// What to do about an address that others can reach.
pub(crate) const ELSEWHERE: &str =
    "use 127.0.0.1 or [::1], or allow others with metrics_anywhere = true";

/// Whether only this host can ask at an address.
pub(crate) fn is_own(address: SocketAddr) -> bool {
    address.ip().is_loopback()
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    // Set for the socket, whichever its family: an IPv6 socket takes the option, too.
    socket.set_freebind_v4(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

impl Service for MetricsServer {
    fn interests(&self) -> Vec<(BorrowedFd<'_>, bool)> {
        self.server.interests()
    }

    fn serve(&mut self, view: &View<'_>) {
        self.server.serve(view);
    }

    fn wake(&self) -> Option<Instant> {
        self.server.wake()
    }
}

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

fn metrics(view: &View<'_>) -> String {
    // Nothing in it says whose counters they are: that is the scraper's target.
    strait_status::metrics(&view.snapshot(""))
}

fn answerer() -> Answerer {
    Box::new(|request, view| {
        if !request.windows(4).any(|octets| octets == b"\r\n\r\n") {
            return Answer::Incomplete;
        }
        let line = request.split(|octet| *octet == b'\r').next();
        let mut words = line.unwrap_or_default().split(|octet| *octet == b' ');
        let (status, kind, body) = match (words.next(), words.next()) {
            (Some(b"GET"), Some(b"/metrics")) => ("200 OK", CONTENT_TYPE, metrics(view)),
            (Some(b"GET"), _) => ("404 Not Found", "text/plain", "see /metrics\n".into()),
            _ => ("405 Method Not Allowed", "text/plain", "only GET\n".into()),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        );
        Answer::Full((head + &body).into_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_may_not_read_unless_allowed() {
        let address = SocketAddr::from(([0, 0, 0, 0], 0));
        let error = MetricsServer::bind(address, false).unwrap_err().to_string();
        assert!(error.contains("loopback"), "{error}");
        assert!(MetricsServer::bind(address, true).is_ok());
    }

    #[test]
    fn the_address_may_come_later() {
        for address in ["192.0.2.1:0", "[2001:db8::1]:0"] {
            let bound = MetricsServer::bind(address.parse().unwrap(), true);
            assert_eq!(bound.err().map(|error| error.to_string()), None);
        }
    }
}
