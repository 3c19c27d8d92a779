//! Counters in the Prometheus text format (OpenMetrics 1.0), over HTTP on a loopback address.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::BorrowedFd;

use strait_core::time::Instant;

use super::server::{Answer, Answerer, Listener, Server};
use crate::error::{Doing, Error};
use crate::node_loop::service::{Service, View};

/// Serves `GET /metrics`.
#[derive(Debug)]
pub struct MetricsServer {
    server: Server,
    address: SocketAddr,
}

impl MetricsServer {
    /// Listens at `address`. The counters tell who talks how much, and the server has no
    /// password: an address that others can reach must be wished for by `allow_remote`.
    ///
    /// # Errors
    /// The address isn't loopback, is in use, or the system says no.
    pub fn bind(address: SocketAddr, allow_remote: bool) -> Result<Self, Error> {
        let doing = || format!("serve metrics on {address}");
        if !address.ip().is_loopback() && !allow_remote {
            let error = Error::invalid(doing(), "it isn't a loopback address");
            return Err(error.with_remedy("use 127.0.0.1 or [::1], or allow remote access"));
        }
        let listener = TcpListener::bind(address).doing(doing)?;
        let address = listener.local_addr().doing(doing)?;
        let server = Server::new(Listener::Tcp(listener), answerer()).doing(doing)?;
        Ok(Self { server, address })
    }

    /// Where it listens: with port 0 the system chose one.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
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
}
