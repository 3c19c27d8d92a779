//! Who may ask: this host's user, with a browser that doesn't ask for another site.

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv6Addr};

use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode, Uri};

/// What requests have to show.
#[derive(Debug)]
pub(crate) struct Guard {
    /// Host names by which browsers may come, beside addresses and `localhost`.
    pub(crate) names: Vec<String>,
    /// What they have to know; nothing where only this host can come.
    pub(crate) token: Option<String>,
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is answered.
    Passes,
    /// It showed the token in its address, and shall show it in a cookie from now on.
    TakesCookie,
    /// It isn't answered, for this reason.
    Refused(StatusCode, &'static str),
}

/// The name of the cookie.
const NAME: &str = "strait";

impl Guard {
    /// What becomes of this request. A page elsewhere that knows our address gets nothing: with
    /// a name of its own that leads here, `Host` is wrong; by ours, the browser says that it asks
    /// for another site.
    pub(crate) fn judge(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Verdict {
        let refused = |why| Verdict::Refused(StatusCode::FORBIDDEN, why);
        if method != Method::GET {
            return Verdict::Refused(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        }
        if uri.authority().is_some() {
            return Verdict::Refused(StatusCode::BAD_REQUEST, "this is no proxy\n");
        }
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let Some(host) = host.filter(|host| self.knows(host)) else {
            return refused("this host name isn't known here: use an address or localhost\n");
        };
        if hosts.next().is_some() {
            return refused("one host\n");
        }
        let own = |origin: &str| origin.strip_prefix("http://") == Some(host);
        let origins = headers.get_all(ORIGIN).iter();
        let origins = origins.map(|origin| origin.to_str().unwrap_or_default());
        let sites = headers.get_all("sec-fetch-site").iter();
        let mut sites = sites.map(|site| site.as_bytes());
        let is_own = |site: &[u8]| matches!(site, b"same-origin" | b"none");
        if !origins.into_iter().all(own) || !sites.all(is_own) {
            return refused("asked by another site\n");
        }
        let Some(token) = &self.token else {
            return Verdict::Passes;
        };
        let given = uri.query().and_then(|query| query.strip_prefix("token="));
        if given.is_some_and(|given| same(given, token)) {
            return Verdict::TakesCookie;
        }
        let cookies = headers.get_all(COOKIE).iter();
        let cookies = cookies.filter_map(|line| line.to_str().ok());
        let pairs = cookies.flat_map(|line| line.split(';'));
        let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
        if pairs.any(|(name, value)| name == NAME && same(value, token)) {
            return Verdict::Passes;
        }
        Verdict::Refused(
            StatusCode::UNAUTHORIZED,
            "open the address that `strait web` printed\n",
        )
    }

    /// Whether a browser that names this host means us. Another site's page can be led here by its
    /// own name, not by an address.
    fn knows(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, port),
            _ => (host, "80"),
        };
        let in_brackets = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let is_address = match in_brackets {
            Some(inside) => inside.parse::<Ipv6Addr>().is_ok(),
            None => name.parse::<IpAddr>().is_ok_and(|it| it.is_ipv4()),
        };
        let known = || {
            let mut names = self.names.iter().map(String::as_str).chain(["localhost"]);
            names.any(|own| own.eq_ignore_ascii_case(name))
        };
        port.parse::<u16>().is_ok() && (is_address || known())
    }

    /// What a browser is to remember.
    pub(crate) fn cookie(&self) -> String {
        let token = self.token.as_deref().unwrap_or_default();
        format!("{NAME}={token}; HttpOnly; SameSite=Strict; Path=/")
    }
}

/// Takes as long for a wrong token as for the right one.
fn same(given: &str, token: &str) -> bool {
    let pairs = given.bytes().zip(token.bytes());
    let differ = pairs.fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == token.len() && differ == 0
}

/// A token that nobody guesses.
///
/// # Errors
/// The system has no randomness.
pub(crate) fn token() -> io::Result<String> {
    let mut octets = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut octets)?;
    Ok(octets.iter().map(|octet| format!("{octet:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(guard: &Guard, uri: &str, headers: &[(&'static str, &str)]) -> Verdict {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        guard.judge(&Method::GET, &uri.parse().expect("an address"), &map)
    }

    fn open() -> Guard {
        Guard {
            names: vec!["ship.example".into()],
            token: None,
        }
    }

    fn passes(headers: &[(&'static str, &str)]) -> bool {
        verdict(&open(), "/", headers) == Verdict::Passes
    }

    #[test]
    fn a_host_is_an_address_or_a_known_name() {
        for host in [
            "127.0.0.1:8080",
            "127.0.0.1",
            "localhost:9000",
            "LOCALHOST",
            "[::1]:8080",
            "[::1]",
            "192.0.2.7:80",
            "ship.example:8080",
        ] {
            assert!(passes(&[("host", host)]), "{host}");
        }
        for host in [
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "localhost:8080@evil.example",
            "::1",
            "[::1",
            "[127.0.0.1]:80",
            "localhost:",
            "localhost:99999",
            "0x7f.1:80",
            "",
        ] {
            assert!(!passes(&[("host", host)]), "{host}");
        }
        assert!(!passes(&[]));
        assert!(!passes(&[("host", "localhost"), ("host", "localhost")]));
    }

    #[test]
    fn other_sites_get_nothing() {
        let with = |name, value| passes(&[("host", "localhost:8080"), (name, value)]);
        assert!(with("origin", "http://localhost:8080"));
        for origin in [
            "http://localhost:8081",
            "https://localhost:8080",
            "null",
            "",
        ] {
            assert!(!with("origin", origin), "{origin}");
        }
        assert!(with("sec-fetch-site", "same-origin") && with("sec-fetch-site", "none"));
        for site in ["cross-site", "same-site", "", "SAME-ORIGIN"] {
            assert!(!with("sec-fetch-site", site), "{site}");
        }
        let proxied = verdict(&open(), "http://evil.example/", &[("host", "localhost")]);
        assert!(matches!(
            proxied,
            Verdict::Refused(StatusCode::BAD_REQUEST, _)
        ));
    }

    #[test]
    fn only_get_is_answered() {
        for method in [Method::POST, Method::HEAD, Method::OPTIONS, Method::CONNECT] {
            let mut headers = HeaderMap::new();
            headers.append(HOST, "localhost".parse().expect("a value"));
            let verdict = open().judge(&method, &Uri::from_static("/"), &headers);
            assert!(
                matches!(verdict, Verdict::Refused(StatusCode::METHOD_NOT_ALLOWED, _)),
                "{method}"
            );
        }
    }

    #[test]
    fn a_token_is_shown_once_and_then_by_the_cookie() {
        let token = token().expect("randomness");
        assert_eq!(token.len(), 32);
        let guard = Guard {
            token: Some(token.clone()),
            ..open()
        };
        let host = ("host", "192.0.2.7:8080");
        let taken = verdict(&guard, &format!("/?token={token}"), &[host]);
        assert_eq!(taken, Verdict::TakesCookie);
        let cookie = format!("other=1; strait={token}");
        assert_eq!(
            verdict(&guard, "/events", &[host, ("cookie", &cookie)]),
            Verdict::Passes
        );
        let short = format!("strait={}", &token[..31]);
        for headers in [
            &[host][..],
            &[host, ("cookie", "strait=")],
            &[host, ("cookie", &short)],
        ] {
            let refused = verdict(&guard, "/events", headers);
            assert!(matches!(
                refused,
                Verdict::Refused(StatusCode::UNAUTHORIZED, _)
            ));
        }
        let wrong = verdict(&guard, "/?token=", &[host]);
        assert!(matches!(
            wrong,
            Verdict::Refused(StatusCode::UNAUTHORIZED, _)
        ));
        assert!(guard.cookie().contains("HttpOnly; SameSite=Strict"));
    }
}
