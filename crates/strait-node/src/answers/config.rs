//! `[answers]` of a node file.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::units::Time;
use strait_wire::ip::RoutingProtocol;

use crate::config::InvalidConfig;

/// Which questions a node answers itself. Without the table it answers none.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct AnswersConfig {
    /// Values for the keys that aren't set.
    #[serde(default)]
    pub preset: Option<AnswersPreset>,
    /// How long a stored echo reply answers the same question; never if absent or 0. It hides an
    /// outage for so long.
    #[serde(default)]
    pub echo: Option<Time>,
    /// How long after a word from a host beyond a link ARP requests and neighbour solicitations for
    /// it are answered on a TAP. If absent or 0, they are as long as a way leads there.
    #[serde(default)]
    pub neighbours: Option<Time>,
    /// Routing protocols whose hellos cross only when they say something new; none without the
    /// table. Both ends of a link need it.
    #[serde(default)]
    pub hellos: Option<HellosConfig>,
}

/// A behaviour by name.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum AnswersPreset {
    /// That of the Network Adapter: echo requests are answered from a stored reply for a minute,
    /// and questions for a neighbour for as long after its last word.
    NetworkAdapter,
}

/// Hellos of routers on both sides of a link.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct HellosConfig {
    /// Of which protocols.
    pub protocols: Vec<HelloProtocol>,
    /// Time after which a hello crosses though it says nothing new; 60 s if absent.
    #[serde(default = "HellosConfig::default_refresh")]
    pub refresh: Time,
    /// How long a hello is repeated after it came; three times `refresh` if absent. It hides for so
    /// long that its router is gone.
    #[serde(default)]
    pub valid: Option<Time>,
}

/// A routing protocol by its word, `ospf` or `rip`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(try_from = "String", into = "String")]
pub struct HelloProtocol(pub RoutingProtocol);

impl TryFrom<String> for HelloProtocol {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        match word.as_str() {
            "ospf" => Ok(Self(RoutingProtocol::Ospf)),
            "rip" => Ok(Self(RoutingProtocol::Rip)),
            _ => Err(format!("no protocol `{word}` (protocols: ospf, rip)")),
        }
    }
}

impl From<HelloProtocol> for String {
    fn from(protocol: HelloProtocol) -> Self {
        match protocol.0 {
            RoutingProtocol::Ospf => "ospf".into(),
            RoutingProtocol::Rip => "rip".into(),
        }
    }
}

impl HellosConfig {
    const fn default_refresh() -> Time {
        Time(Duration::from_secs(60))
    }

    /// How long a hello is repeated after it came.
    pub fn valid(&self) -> Duration {
        self.valid.map_or(self.refresh.0 * 3, |valid| valid.0)
    }

    pub(super) fn validate(&self) -> Result<(), InvalidConfig> {
        let wrong = |key: &str, message: &str| InvalidConfig {
            place: format!("[answers.hellos] {key}"),
            message: message.into(),
        };
        if self.protocols.is_empty() {
            return Err(wrong(
                "protocols",
                "is empty: name `ospf` or `rip`, or remove the table",
            ));
        }
        if self.refresh.0.is_zero() {
            return Err(wrong("refresh", "must be more than 0 s"));
        }
        if self.valid() <= self.refresh.0 {
            let message = "must be more than `refresh`, or a router is gone between two hellos";
            return Err(wrong("valid", message));
        }
        Ok(())
    }
}

impl AnswersConfig {
    /// How long a stored echo reply answers; `None` if echo isn't answered.
    pub fn echo_valid(&self) -> Option<Duration> {
        self.valid(self.echo)
    }

    /// How long after its last word a host beyond a link is taken to be there; `None` if that isn't
    /// asked.
    pub fn neighbours_valid(&self) -> Option<Duration> {
        self.valid(self.neighbours)
    }

    fn valid(&self, told: Option<Time>) -> Option<Duration> {
        let preset = self.preset.map(|preset| match preset {
            AnswersPreset::NetworkAdapter => Duration::from_secs(60),
        });
        let told = told.map(|time| time.0);
        told.or(preset).filter(|valid| !valid.is_zero())
    }
}
