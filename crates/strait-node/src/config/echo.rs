//! `[echo]` of a node file.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::node::Refusal;
use strait_core::units::Time;
use strait_qos::Dscp;
use strait_wire::ip::Unreachable;

use crate::Prefix;

use super::{HostSides, InvalidConfig, invalid};

/// A service that sends back what it gets (RFC 862), to try a gateway's own sockets with.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct EchoConfig {
    /// Where it takes TCP connections: a loopback address, or one of the host side's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// Where it takes UDP datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<SocketAddr>,
    /// The code point of its TCP packets; if absent, that of the client. A datagram goes back with
    /// its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<Dscp>,
    /// What of a connection may wait, as time of the slowest link port that is up, at least 4096
    /// octets; 64 KiB if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Time>,
    /// How long everything waits here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Time>,
    /// What comes by TCP waits on stable storage, and goes back from there.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub store: bool,
    /// TCP clients have no connection before the service has looked at who they are.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub ask: bool,
    /// Whose clients may connect; everybody's if empty. Only with `ask`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Prefix>,
    /// What other clients hear. Only with `allow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuse: Option<EchoRefusal>,
    /// TCP connections are secured by this profile of `[tls]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
    /// They begin in the clear, and are secured when the client says `STARTTLS`. Only with `tls`.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub starttls: bool,
}

/// What a client hears that isn't allowed to connect.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum EchoRefusal {
    /// A reset, as if nobody listened.
    #[default]
    Reset,
    /// An ICMP error: forbidden by policy.
    Unreachable,
    /// Nothing.
    Silence,
}

impl EchoRefusal {
    /// As a driver is told.
    pub(crate) const fn how(self) -> Refusal {
        match self {
            Self::Reset => Refusal::Reset,
            Self::Unreachable => Refusal::Unreachable(Unreachable::AdminProhibited),
            Self::Silence => Refusal::Silence,
        }
    }
}

impl EchoConfig {
    /// The line by which a client asks for TLS where connections begin in the clear, and what it
    /// hears before that begins: as on IRC, so that `openssl s_client -starttls irc` can try it.
    /// The answer is no longer than the line: credit for it is there.
    pub const STARTTLS: &[u8] = b"STARTTLS\r\n";
    /// See [`Self::STARTTLS`].
    pub const STARTTLS_ANSWER: &[u8] = b": 670\r\n";

    /// The longest `hold` and `delay`: other ends give up sooner.
    const TIME_MAX: Duration = Duration::from_secs(3600);

    pub(super) fn validate(&self, hosts: &HostSides) -> Result<(), InvalidConfig> {
        let sockets = [("listen", self.listen), ("datagrams", self.datagrams)];
        if sockets.iter().all(|(_, socket)| socket.is_none()) {
            let message = "needs `listen` or `datagrams`, such as \"127.0.0.1:7\"";
            return Err(invalid("[echo]", message));
        }
        for (key, socket) in sockets {
            let Some(socket) = socket else { continue };
            let ip = socket.ip();
            let own = hosts.own().any(|own| own == ip);
            if socket.port() == 0 || !(own || ip.is_loopback()) {
                let message = "takes a loopback address or one of [host] addresses, and a port";
                return Err(invalid(format!("[echo] {key}"), message));
            }
        }
        let asks = self.ask && self.listen.is_some();
        for (key, set, may, needs) in [
            ("ask", self.ask, self.listen.is_some(), "needs `listen`"),
            ("allow", !self.allow.is_empty(), asks, "needs `ask = true`"),
            (
                "refuse",
                self.refuse.is_some(),
                asks && !self.allow.is_empty(),
                "needs `allow`: without it no client is refused",
            ),
            (
                "tls",
                self.tls.is_some(),
                self.listen.is_some(),
                "needs `listen`",
            ),
            ("starttls", self.starttls, self.tls.is_some(), "needs `tls`"),
        ] {
            if set && !may {
                return Err(invalid(format!("[echo] {key}"), needs));
            }
        }
        for (key, time) in [("hold", self.hold), ("delay", self.delay)] {
            if time.is_some_and(|time| time.0 > Self::TIME_MAX) {
                return Err(invalid(format!("[echo] {key}"), "must be an hour at most"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_text::complaint_about;

    fn complaint(echo: &str) -> Option<String> {
        let host = "[host]\naddresses = [\"10.1.0.1/24\"]";
        let text = format!("name = \"a\"\n{host}\n[echo]\n{echo}\n");
        complaint_about(&text)
    }

    #[test]
    fn an_echo_has_addresses_of_its_own_host() {
        let stores = "listen = \"127.0.0.1:7\"\nstore = true\n[state]\nfile = \"a.db\"";
        for right in [
            "listen = \"127.0.0.1:7\"",
            "datagrams = \"10.1.0.1:7\"",
            stores,
        ] {
            assert_eq!(complaint(right), None, "{right}");
        }
        for (wrong, place) in [
            ("", "[echo]: needs"),
            ("listen = \"10.1.0.2:7\"", "[echo] listen: takes"),
            ("listen = \"0.0.0.0:7\"", "[echo] listen: takes"),
            ("datagrams = \"127.0.0.1:0\"", "[echo] datagrams: takes"),
            (
                "listen = \"127.0.0.1:7\"\nstore = true",
                "[echo] store: needs the table [state]",
            ),
        ] {
            let found = complaint(wrong).unwrap_or_default();
            assert!(found.starts_with(place), "{wrong}: {found}");
        }
    }

    #[test]
    fn who_may_connect_is_asked_for_or_not_said() {
        let at = "listen = \"127.0.0.1:7\"";
        let allow = "allow = [\"10.1.0.0/24\", \"fd00::/8\"]";
        let right = format!("{at}\nask = true\n{allow}\nrefuse = \"unreachable\"");
        assert_eq!(complaint(&right), None);
        assert_eq!(complaint(&format!("{at}\nask = true")), None);
        let deaf = "datagrams = \"127.0.0.1:7\"\nask = true";
        for (wrong, place) in [
            (deaf.into(), "[echo] ask: needs `listen`"),
            (format!("{at}\n{allow}"), "[echo] allow: needs `ask = true`"),
            (
                format!("{at}\nask = true\nrefuse = \"reset\""),
                "[echo] refuse: needs `allow`",
            ),
        ] {
            let found = complaint(&wrong).unwrap_or_default();
            assert!(found.starts_with(place), "{wrong}: {found}");
        }
        for word in ["refuse = \"gently\"", "allow = [\"10.1.0.0/33\"]"] {
            assert!(complaint(&format!("{at}\nask = true\n{word}")).is_some());
        }
    }

    #[test]
    fn an_echo_is_secured_by_a_profile_that_is_there() {
        let at = "listen = \"127.0.0.1:7\"";
        let profile = "[tls.own]\ncertificate = \"a.pem\"\nkey = \"a.key\"";
        let right = format!("{at}\ntls = \"own\"\nstarttls = true\n{profile}");
        assert_eq!(complaint(&right), None);
        let trusts = "[tls.own]\ntrust = \"a.pem\"";
        let udp = format!("datagrams = \"127.0.0.1:7\"\ntls = \"own\"\n{profile}");
        for (wrong, place) in [
            (
                format!("{at}\nstarttls = true"),
                "[echo] starttls: needs `tls`",
            ),
            (udp, "[echo] tls: needs `listen`"),
            (
                format!("{at}\ntls = \"other\"\n{profile}"),
                "[echo] tls: must be",
            ),
            (
                format!("{at}\ntls = \"own\"\n{trusts}"),
                "[echo] tls: must be",
            ),
        ] {
            let found = complaint(&wrong).unwrap_or_default();
            assert!(found.starts_with(place), "{wrong}: {found}");
        }
    }

    #[test]
    fn an_echos_times_and_code_point_have_limits() {
        let at = "listen = \"127.0.0.1:7\"";
        assert_eq!(
            complaint(&format!(
                "{at}\nhold = \"1 h\"\ndelay = \"1 h\"\ndscp = \"AF41\""
            )),
            None
        );
        for (wrong, word) in [
            ("hold = \"61 min\"", "[echo] hold"),
            ("delay = \"3601 s\"", "[echo] delay"),
            ("dscp = 64", "code point"),
            ("later = true", "later"),
        ] {
            let found = complaint(&format!("{at}\n{wrong}")).unwrap_or_default();
            assert!(found.contains(word), "{wrong}: {found}");
        }
    }
}
