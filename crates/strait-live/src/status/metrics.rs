//! Counters as OpenMetrics 1.0, or in the Prometheus text format for those who don't ask for that,
//! over HTTP on a loopback address.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
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
        let answerer = answerer(is_own(address));
        let server = Server::new(Listener::Tcp(listener), answerer).doing(doing)?;
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

const OPEN: &str = "application/openmetrics-text";

/// The type and the text that a request accepts.
fn metrics(request: &[u8], view: &View<'_>) -> (&'static str, String) {
    // Nothing in it says whose counters they are: that is the scraper's target.
    let text = strait_status::metrics(&view.snapshot(""));
    let accepts = request.windows(OPEN.len());
    if accepts
        .into_iter()
        .any(|it| it.eq_ignore_ascii_case(OPEN.as_bytes()))
    {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        return (kind, text);
    }
    ("text/plain; version=0.0.4; charset=utf-8", plain(&text))
}

/// OpenMetrics in the older text format: there a counter's name has its suffix everywhere, and
/// units aren't told.
pub fn plain(open: &str) -> String {
    let mut text = String::new();
    let mut help = "";
    for line in open.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", _, what] => help = what,
            ["#", "TYPE", name, kind] => {
                let suffix = if kind == "counter" { "_total" } else { "" };
                text += &format!("# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n");
            }
            ["#", ..] => {}
            _ => text += &format!("{line}\n"),
        }
    }
    text
}

/// Whether a request's host is this one, for a server that only this host can ask: a page from
/// elsewhere can lead a browser here by a name of its own, but not by an address.
fn is_for_us(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let hosts = fields.filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    hosts.map(|(_, host)| host.trim()).all(|host| {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        name.eq_ignore_ascii_case("localhost")
            || host.parse::<SocketAddr>().is_ok()
            || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
    })
}

fn answerer(own: bool) -> Answerer {
    Box::new(move |request, view| {
        if !request.windows(4).any(|octets| octets == b"\r\n\r\n") {
            return Answer::Incomplete;
        }
        let line = request.split(|octet| *octet == b'\r').next();
        let mut words = line.unwrap_or_default().split(|octet| *octet == b' ');
        let (status, kind, body) = match (words.next(), words.next()) {
            _ if own && !is_for_us(request) => (
                "403 Forbidden",
                "text/plain",
                "ask by address or as localhost\n".into(),
            ),
            (Some(b"GET"), Some(b"/metrics")) => {
                let (kind, text) = metrics(request, view);
                ("200 OK", kind, text)
            }
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
    fn counters_have_their_suffix_in_the_older_format() {
        let open = "# HELP a_seconds Time spent.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
                    a_seconds_total{b=\"c d\"} 1.5\n# HELP e Up.\n# TYPE e gauge\ne 1\n# EOF\n";
        let expected = "# HELP a_seconds_total Time spent.\n# TYPE a_seconds_total counter\n\
                        a_seconds_total{b=\"c d\"} 1.5\n# HELP e Up.\n# TYPE e gauge\ne 1\n";
        assert_eq!(plain(open), expected);
    }

    #[test]
    fn others_may_not_read_unless_allowed() {
        let address = SocketAddr::from(([0, 0, 0, 0], 0));
        let error = MetricsServer::bind(address, false).unwrap_err().to_string();
        assert!(error.contains("loopback"), "{error}");
        assert!(MetricsServer::bind(address, true).is_ok());
    }

    #[test]
    fn a_page_elsewhere_leads_nobody_here_by_its_name() {
        let asks = |host: &str| {
            let head = format!("GET /metrics HTTP/1.1\r\naccept: */*\r\n{host}\r\n\r\n");
            is_for_us(head.as_bytes())
        };
        for host in [
            "Host: 127.0.0.1:9464",
            "host:[::1]:9464",
            "Host: [::1]",
            "Host: 127.0.0.1",
            "HOST: LocalHost:9464",
            "X-Host: evil.example",
        ] {
            assert!(asks(host), "{host}");
        }
        for host in [
            "Host: evil.example",
            "host: evil.example:9464",
            "Host: 127.0.0.1.evil.example",
            "Host: localhost.evil.example:80",
            "Host:",
            "Host: 127.0.0.1\r\nHost: evil.example",
        ] {
            assert!(!asks(host), "{host}");
        }
    }

    #[test]
    fn the_address_may_come_later() {
        for address in ["192.0.2.1:0", "[2001:db8::1]:0"] {
            let bound = MetricsServer::bind(address.parse().unwrap(), true);
            assert_eq!(bound.err().map(|error| error.to_string()), None);
        }
    }
}
