//! By whom a program asks for its connections, and what both say: SOCKS5 (RFC 1928) or HTTP CONNECT
//! (RFC 9110 section 9.3.6).

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// How it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// SOCKS5.
    Socks,
    /// HTTP CONNECT.
    Http,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Via {
    /// How.
    pub speech: Speech,
    /// Where.
    pub at: SocketAddr,
}

impl Via {
    /// The scheme of its address.
    pub const fn scheme(&self) -> &'static str {
        match self.speech {
            Speech::Socks => "socks5",
            Speech::Http => "http",
        }
    }
}

impl From<Via> for String {
    fn from(via: Via) -> Self {
        format!("{}://{}", via.scheme(), via.at)
    }
}

impl TryFrom<String> for Via {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        const FORMS: &str = "it is `socks5://ADDRESS:PORT` or `http://ADDRESS:PORT`";
        let (scheme, at) = text.split_once("://").ok_or(FORMS)?;
        let at: SocketAddr = at.parse().map_err(|_| FORMS)?;
        let speech = match scheme {
            "socks5" => Speech::Socks,
            "http" => Speech::Http,
            _ => return Err(FORMS),
        };
        Some(Self { speech, at })
            .filter(|via| via.at.port() != 0)
            .ok_or(FORMS)
    }
}

/// Whom a program wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Who has this address.
    Address(SocketAddr),
    /// Who has this name, at this port.
    Name(String, u16),
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The method of SOCKS is to be chosen.
    Method,
    /// The answer is to come.
    Answer,
}

/// A request that isn't answered yet.
#[derive(Clone, Debug)]
pub struct Request {
    speech: Speech,
    wanted: Wanted,
    stage: Stage,
    heard: Vec<u8>,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This is to be said next, if anything.
    Say(Vec<u8>),
    /// The connection is there.
    Granted,
    /// It isn't.
    Refused,
}

/// Octets of an answer, at most.
const OCTETS_MAX: usize = 4096;

impl Request {
    /// A request, and what is said first.
    pub fn new(speech: Speech, wanted: Wanted) -> (Self, Vec<u8>) {
        let (stage, said) = match speech {
            Speech::Socks => (Stage::Method, vec![5, 1, 0]),
            Speech::Http => (Stage::Answer, connect(&wanted)),
        };
        let request = Self {
            speech,
            wanted,
            stage,
            heard: Vec::new(),
        };
        (request, said)
    }

    /// Takes what the other side says, which says no more before it is spoken to.
    pub fn hear(&mut self, octets: &[u8]) -> Answer {
        self.heard.extend_from_slice(octets);
        let heard = &self.heard[..];
        let more = Answer::Say(Vec::new());
        match (self.speech, self.stage) {
            (Speech::Socks, Stage::Method) => match heard {
                [] | [_] => more,
                [5, 0] => {
                    self.heard.clear();
                    self.stage = Stage::Answer;
                    Answer::Say(socks(&self.wanted))
                }
                _ => Answer::Refused,
            },
            (Speech::Socks, Stage::Answer) => {
                let octets = match heard.get(3) {
                    None => return more,
                    Some(1) => 10,
                    Some(4) => 22,
                    Some(_) => return Answer::Refused,
                };
                match heard {
                    [5, 0, ..] if heard.len() < octets => more,
                    [5, 0, ..] if heard.len() == octets => Answer::Granted,
                    _ => Answer::Refused,
                }
            }
            (Speech::Http, _) => {
                let whole = heard.ends_with(b"\r\n\r\n");
                let granted = heard.starts_with(b"HTTP/1.1 200 ");
                match whole {
                    true if granted => Answer::Granted,
                    false if heard.len() < OCTETS_MAX => more,
                    _ => Answer::Refused,
                }
            }
        }
    }
}

/// A request of SOCKS5.
fn socks(wanted: &Wanted) -> Vec<u8> {
    let (kind, place, port) = match wanted {
        Wanted::Address(at) => match at.ip() {
            IpAddr::V4(ip) => (1, ip.octets().to_vec(), at.port()),
            IpAddr::V6(ip) => (4, ip.octets().to_vec(), at.port()),
        },
        Wanted::Name(name, port) => {
            let octets = &name.as_bytes()[..name.len().min(255)];
            (3, [&[octets.len() as u8], octets].concat(), *port)
        }
    };
    [&[5, 1, 0, kind][..], &place, &port.to_be_bytes()].concat()
}

/// A request of HTTP, as curl writes it.
fn connect(wanted: &Wanted) -> Vec<u8> {
    let authority = match wanted {
        Wanted::Address(at) => at.to_string(),
        Wanted::Name(name, port) => format!("{name}:{port}"),
    };
    format!(
        "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: curl/8.5.0\r\n\
         Proxy-Connection: Keep-Alive\r\n\r\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Wanted {
        Wanted::Address(text.parse().unwrap())
    }

    #[test]
    fn who_is_asked_is_read() {
        for (text, speech, at) in [
            ("socks5://10.1.0.1:1080", Speech::Socks, "10.1.0.1:1080"),
            ("http://[fd00:1::1]:8080", Speech::Http, "[fd00:1::1]:8080"),
        ] {
            let via = Via::try_from(text.to_owned()).unwrap();
            assert_eq!((via.speech, via.at), (speech, at.parse().unwrap()));
            assert_eq!(String::from(via), text);
        }
        for wrong in [
            "",
            "10.1.0.1:1080",
            "socks4://10.1.0.1:1080",
            "http://x:1",
            "http://10.1.0.1:0",
        ] {
            assert!(Via::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn socks_is_asked_step_by_step() {
        let (mut request, said) = Request::new(Speech::Socks, address("10.2.0.2:80"));
        assert_eq!(said, [5, 1, 0]);
        assert_eq!(request.hear(&[5]), Answer::Say(Vec::new()));
        let asked = vec![5, 1, 0, 1, 10, 2, 0, 2, 0, 80];
        assert_eq!(request.hear(&[0]), Answer::Say(asked));
        assert_eq!(
            request.hear(&[5, 0, 0, 1, 0, 0, 0, 0, 0]),
            Answer::Say(Vec::new())
        );
        assert_eq!(request.hear(&[0]), Answer::Granted);
        let (mut request, _) = Request::new(Speech::Socks, Wanted::Name("a.example".into(), 443));
        let asked = [&[5, 1, 0, 3, 9][..], b"a.example", &[1, 187]].concat();
        assert_eq!(request.hear(&[5, 0]), Answer::Say(asked));
        assert_eq!(
            request.hear(&[5, 5, 0, 1, 0, 0, 0, 0, 0, 0]),
            Answer::Refused
        );
        let (mut request, _) = Request::new(Speech::Socks, address("[fd00::1]:1"));
        assert_eq!(request.hear(&[5, 0xff]), Answer::Refused);
    }

    #[test]
    fn http_is_asked_at_once() {
        let (mut request, said) = Request::new(Speech::Http, address("[fd00::1]:80"));
        assert!(said.starts_with(b"CONNECT [fd00::1]:80 HTTP/1.1\r\nHost: [fd00::1]:80\r\n"));
        assert!(said.ends_with(b"\r\n\r\n"));
        assert_eq!(
            request.hear(b"HTTP/1.1 200 Connected\r\n"),
            Answer::Say(Vec::new())
        );
        assert_eq!(request.hear(b"\r\n"), Answer::Granted);
        let (mut request, _) = Request::new(Speech::Http, address("10.2.0.2:80"));
        assert_eq!(
            request.hear(b"HTTP/1.1 502 Bad Gateway\r\n\r\n"),
            Answer::Refused
        );
        let (mut request, _) = Request::new(Speech::Http, address("10.2.0.2:80"));
        assert_eq!(request.hear(&[b'x'; OCTETS_MAX]), Answer::Refused);
    }
}
