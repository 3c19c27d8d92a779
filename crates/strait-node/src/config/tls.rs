//! `[tls.NAME]` of a node file: what a node's streams are secured by.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::tls::{self, TlsVersion};
use strait_core::units::{Octets, Time};

use super::{InvalidConfig, invalid};

/// A profile of TLS, by whose name streams ask for it. The node itself sees none of the files.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// A file with our certificate, and behind it those that lead to its issuer (PEM). Live only;
    /// simulated it is enough that there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// A file with the certificate's private key (PEM), readable by its owner alone. Live only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A file with the certificates of those who may issue the other side's (PEM); or
    /// `sha256:DIGITS`, the digest of the only certificate or key that it may show, whoever issued
    /// it and for whatever name; several with spaces between. Live only; simulated they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<String>,
    /// The hosts that our certificate is for; live it is checked that it is. Simulated, nothing
    /// else tells: without any it is for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Whether a server wants to see its clients' certificates.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client_certificate: ClientCertificate,
    /// The oldest version that we take.
    #[serde(default, skip_serializing_if = "is_default")]
    pub oldest: OldestTls,
    /// How long both sides may take until they are secured; a minute if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake: Option<Time>,
    /// Simulated: the octets of our certificate, with those behind it; 1 kB if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Octets>,
}

/// The SHA-256 of a certificate (DER), or of the key in it (SubjectPublicKeyInfo).
pub type Pin = [u8; 32];

fn pin(word: &str) -> Option<Pin> {
    let digits: String = word.strip_prefix("sha256:")?.split(':').collect();
    let right = digits.len() == 64 && digits.bytes().all(|it| it.is_ascii_hexdigit());
    let octet = |at: usize| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok();
    let mut pin = Pin::default();
    for (at, place) in pin.iter_mut().enumerate() {
        *place = octet(at).filter(|_| right)?;
    }
    Some(pin)
}

/// Whether a server wants to see its clients' certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificate {
    /// It doesn't ask.
    #[default]
    None,
    /// It asks. Who has none may come all the same.
    Wanted,
    /// Who has none may not come.
    Required,
}

/// The oldest version of TLS that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct OldestTls(pub TlsVersion);

impl Default for OldestTls {
    fn default() -> Self {
        Self(TlsVersion::V1_2)
    }
}

impl TryFrom<String> for OldestTls {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        let all = [TlsVersion::V1_2, TlsVersion::V1_3];
        let found = all.into_iter().find(|it| it.name() == word);
        let wrong = || format!("`{word}` is no version: \"1.2\" or \"1.3\"");
        found.map(Self).ok_or_else(wrong)
    }
}

impl From<OldestTls> for String {
    fn from(oldest: OldestTls) -> Self {
        oldest.0.name().to_string()
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl TlsConfig {
    /// What an ordinary chain has: one certificate with a key on a curve, and that of its issuer.
    const CHAIN: Octets = Octets(1000);

    /// Whether what is trusted is digests, rather than a file.
    pub fn has_pins(trust: &str) -> bool {
        trust.starts_with("sha256:")
    }

    /// The only certificates or keys that it takes, if it names such.
    pub fn pins(&self) -> Option<Vec<Pin>> {
        let words = self.trust.as_ref().filter(|it| Self::has_pins(it))?;
        Some(words.split_ascii_whitespace().filter_map(pin).collect())
    }

    /// How long both sides may take until they are secured.
    pub fn patience(&self) -> Duration {
        self.handshake.map_or(tls::HANDSHAKE, |time| time.0)
    }

    /// Simulated: the octets of our certificate, with those behind it.
    pub fn chain_octets(&self) -> usize {
        self.chain.unwrap_or(Self::CHAIN).0 as usize
    }

    pub(super) fn validate(&self, name: &str) -> Result<(), InvalidConfig> {
        let wrong = |key: &str, message: &str| Err(invalid(format!("[tls.{name}] {key}"), message));
        if self.certificate.is_none() && self.trust.is_none() {
            let message = "needs `certificate` with `key`, to show, or `trust`, to verify others";
            return Err(invalid(format!("[tls.{name}]"), message));
        }
        let words = self.trust.as_deref().unwrap_or_default();
        let words = words.split_ascii_whitespace().count();
        if self.pins().is_some_and(|pins| pins.len() != words) {
            let message = "takes a file, or `sha256:` and 64 hexadecimal digits, as printed by \
                           `openssl x509 -noout -fingerprint -sha256 -in FILE`";
            return wrong("trust", message);
        }
        if self.pins().is_some() && self.client_certificate != ClientCertificate::None {
            return wrong("trust", "needs a file: a digest can't identify clients");
        }
        match (&self.certificate, &self.key) {
            (Some(_), None) => {
                return wrong(
                    "key",
                    "needed with `certificate`: the file of its private key",
                );
            }
            (None, Some(_)) => {
                return wrong(
                    "certificate",
                    "needed with `key`: the certificate of that key",
                );
            }
            _ => {}
        }
        if self.client_certificate != ClientCertificate::None {
            for (key, there) in [
                ("certificate", self.certificate.is_some()),
                ("trust", self.trust.is_some()),
            ] {
                if !there {
                    let message = format!("needs `{key}`");
                    return wrong("client_certificate", &message);
                }
            }
        }
        if self.names.iter().any(|it| !is_host(it)) {
            return wrong("names", "must be names of hosts, such as \"mail.example\"");
        }
        let times = Duration::from_secs(1)..=Duration::from_secs(3600);
        if !times.contains(&self.patience()) {
            return wrong("handshake", "must be a second to an hour");
        }
        if !(100..=tls::HANDSHAKE_OCTETS_MAX / 2).contains(&self.chain_octets()) {
            return wrong("chain", "must be 100 octets to 32 KiB");
        }
        Ok(())
    }
}

/// Whether this is a name of a host (RFC 1123 section 2.1), as a certificate has it.
pub(super) fn is_host(name: &str) -> bool {
    let label = |label: &str| {
        let inner = |octet: u8| octet.is_ascii_alphanumeric() || octet == b'-' || octet == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(inner) && !label.starts_with('-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;
    use crate::NodeConfig;
    use crate::config_text::{complaint_about, parse};

    fn complaint(profile: &str) -> Option<String> {
        let text = format!("name = \"a\"\n[host]\n[tls.mail]\n{profile}\n");
        complaint_about(&text)
    }

    const DIGEST: &str = "5F1C5F1C5F1C5F1C5F1C5F1C5F1C5F1C5F1C5F1C5F1C5F1C5F1C5F1C5F1C5F1C";

    #[test]
    fn digests_are_read_with_and_without_colons() {
        let pins = |words: &str| {
            let text = format!("name = \"a\"\n[host]\n[tls.mail]\ntrust = \"{words}\"\n");
            let config: NodeConfig = parse("a.toml", &text).unwrap();
            config.tls["mail"].pins()
        };
        let colons = "5f:1c:".repeat(16);
        let both = pins(&format!(
            "sha256:{DIGEST} sha256:{}",
            colons.trim_end_matches(':')
        ));
        let pin: Pin = core::array::from_fn(|at| [0x5f, 0x1c][at % 2]);
        assert_eq!(both, Some(alloc::vec![pin, pin]));
        assert_eq!(pins("all.pem"), None);
    }

    #[test]
    fn a_profile_shows_something_or_verifies() {
        let shows = "certificate = \"a.pem\"\nkey = \"a.key\"";
        let both = format!("{shows}\ntrust = \"all.pem\"");
        for right in [
            shows.into(),
            both.clone(),
            "trust = \"all.pem\"".into(),
            format!("trust = \"sha256:{DIGEST} sha256:{DIGEST}\""),
            format!("{both}\nclient_certificate = \"required\"\noldest = \"1.3\""),
            format!("{shows}\nnames = [\"mail.example\"]\nhandshake = \"1 h\"\nchain = \"2 kB\""),
        ] {
            assert_eq!(complaint(&right), None, "{right}");
        }
        for (wrong, words) in [
            (String::new(), "[tls.mail]: needs"),
            ("certificate = \"a.pem\"".into(), "[tls.mail] key: needed"),
            (
                "key = \"a.key\"\ntrust = \"a\"".into(),
                "[tls.mail] certificate: needed",
            ),
            (
                format!("{shows}\nclient_certificate = \"wanted\""),
                "[tls.mail] client_certificate: needs `trust`",
            ),
            (format!("{shows}\nclient_certificate = \"maybe\""), "maybe"),
            (
                "trust = \"sha256:12\"".into(),
                "[tls.mail] trust: takes a file",
            ),
            (
                format!("trust = \"sha256:{DIGEST} all.pem\""),
                "[tls.mail] trust: takes a file",
            ),
            (
                format!("{shows}\ntrust = \"sha256:{DIGEST}\"\nclient_certificate = \"wanted\""),
                "[tls.mail] trust: needs a file",
            ),
            (format!("{shows}\noldest = \"1.1\""), "is no version"),
            (
                format!("{shows}\nnames = [\"a b\"]"),
                "[tls.mail] names: must be",
            ),
            (
                format!("{shows}\nhandshake = \"999 ms\""),
                "[tls.mail] handshake",
            ),
            (
                format!("{shows}\nhandshake = \"3601 s\""),
                "[tls.mail] handshake",
            ),
            (format!("{shows}\nchain = 99"), "[tls.mail] chain"),
            (format!("{shows}\ncertficate = \"a\""), "certficate"),
        ] {
            let found = complaint(&wrong).unwrap_or_default();
            assert!(found.contains(words), "{wrong}: {found}");
        }
    }

    #[test]
    fn a_profile_is_written_as_it_was_read() {
        let text = "name = \"a\"\n[host]\n[tls.mail]\ntrust = \"t\"\noldest = \"1.3\"\n";
        let config: NodeConfig = parse("a.toml", text).unwrap();
        let written = toml::to_string(&config).unwrap();
        assert_eq!(parse::<NodeConfig>("a.toml", &written).unwrap(), config);
    }
}
