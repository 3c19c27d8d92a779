//! What a port with a radio needs: the station's address and its manners on the air (STANAG 5066).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::stats::{HfPeer, HfStats};
use strait_core::units::{BitRate, Octets, Time};
use strait_core::waveform::{self, Family};
use strait_s5066::eow::interleaver_code;
use strait_s5066::s_pdu::{SAP_ETHER, SAP_IP};
use strait_s5066::{Adapt, Address, Settings, sis};

use super::hf_access::{AccessConfig, SlotsConfig};
use super::hf_sis::SisConfig;
use crate::config::{HfModemConfig, InvalidConfig, IpRules, PortConfig, invalid};

/// A STANAG 5066 station.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct HfConfig {
    /// Its address, four numbers of which the first is 0 to 15, such as `0.0.0.1`. Addresses below
    /// 16 make the shortest frames.
    pub address: String,
    /// Groups that it belongs to: the first number is 16 to 31.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Packets are delivered as they arrive, or in the order in which they were sent.
    #[serde(default)]
    pub order: HfOrder,
    /// Classes whose packets are sent without waiting for a link, and not repeated if they get
    /// lost.
    #[serde(default)]
    pub without_arq: Vec<String>,
    /// Times that each of these packets is sent; once if absent.
    #[serde(default)]
    pub copies: Option<u32>,
    /// The longest transmission; 120 s if absent, 127.5 s at most.
    #[serde(default)]
    pub turn_max: Option<Time>,
    /// A link is broken after this time without data; 120 s if absent.
    #[serde(default)]
    pub idle: Option<Time>,
    /// From the end of another's transmission to the beginning of ours; 50 ms if absent.
    #[serde(default)]
    pub guard: Option<Time>,
    /// How much later than expected an answer may begin; 1 s if absent.
    #[serde(default)]
    pub answer_margin: Option<Time>,
    /// Transmissions without an answer after which a link is taken for lost; 6 if absent.
    #[serde(default)]
    pub unanswered: Option<u32>,
    /// Calls without an answer after which there is no link for a while; 4 if absent.
    #[serde(default)]
    pub calls: Option<u32>,
    /// Times that a management message goes again without an answer, 0 to 15; 3 if absent.
    #[serde(default)]
    pub message_repeats: Option<u32>,
    /// The longest segment; 1023 octets if absent.
    #[serde(default)]
    pub segment: Option<Octets>,
    /// Frames that may be under way with numbers of Edition 3, 1 to 128; 128 if absent.
    #[serde(default)]
    pub window: Option<u32>,
    /// Numbers of 16 bits with neighbours that have them, too; else all is as in Edition 3.
    #[serde(default = "yes")]
    pub long_numbers: bool,
    /// Names of neighbours with which all is as in Edition 3 in spite of that: they mean something
    /// else by the bits that it reserves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edition_3: Vec<String>,
    /// Names of neighbours with which something else makes links, such as automatic link
    /// establishment: data goes, and is taken, without a call before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_calls: Vec<String>,
    /// What becomes of stations that aren't neighbours. If absent, they are accepted where other
    /// programs may use the station, else rejected: packets go to neighbours alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strangers: Option<HfStrangers>,
    /// It has no links: everything goes without ARQ, and calls are rejected.
    #[serde(default)]
    pub broadcast_only: bool,
    /// Data goes with the call to a neighbour that is known to have long numbers, instead of after
    /// its answer.
    #[serde(default = "yes")]
    pub early_data: bool,
    /// Data of clients for such neighbours has numbers, and is confirmed by those.
    #[serde(default = "yes")]
    pub compact_confirmations: bool,
    /// Data of clients with a time to live says when it dies, and what arrives later than it says
    /// is dropped. Off where clocks, here or of others, can't be trusted.
    #[serde(default = "yes")]
    pub time_to_die: bool,
    /// When all that waits for a neighbour is dropped at once; absent, never: each class has its
    /// own limits.
    #[serde(default)]
    pub give_up: Option<GiveUpConfig>,
    /// Turns by slots, as stations in use have them; absent, by the end of each transmission.
    #[serde(default)]
    pub slots: Option<SlotsConfig>,
    /// Who may begin when; absent, by turns, or by `slots` if these are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessConfig>,
    /// The data rate follows what arrives; absent, it is the modem's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapt: Option<AdaptConfig>,
    /// The gateway's packets go by the station: it has the access points for them, 8 and 9. If
    /// not, these are for other programs.
    #[serde(default = "yes")]
    pub ip_client: bool,
    /// Other programs may use the station, by TCP; absent, none may.
    #[serde(default)]
    pub sis: Option<SisConfig>,
    /// Clients of its own, which watch links.
    #[serde(default)]
    pub probe: Vec<ProbeConfig>,
    /// The modem. Live only.
    #[serde(default)]
    pub modem: Option<HfModemConfig>,
}

const fn yes() -> bool {
    true
}

/// A client of the station's own: it sends a short U_PDU from time to time, and what comes of it is
/// counted with those of other clients.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ProbeConfig {
    /// The neighbour that it sends to.
    pub to: String,
    /// Its access point, and that of the other end's probe: 0 to 15.
    pub sap: u8,
    /// The time from one U_PDU to the next, 1 s to 100 s.
    pub period: Time,
    /// Octets of each; 64 if absent.
    #[serde(default = "probe_octets")]
    pub octets: Octets,
    /// 0 to 15, 15 the most urgent.
    #[serde(default)]
    pub priority: u8,
    /// With ARQ, and confirmed by the other probe.
    #[serde(default = "yes")]
    pub arq: bool,
    /// Ahead of all that isn't expedited.
    #[serde(default)]
    pub expedited: bool,
    /// How long each is of use, 2 s to 15 days; 300 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Time>,
    /// Without ARQ: times that each is sent again, 0 to 15.
    #[serde(default)]
    pub repeats: u8,
}

const fn probe_octets() -> Octets {
    Octets(64)
}

impl ProbeConfig {
    fn is_wrong(&self) -> bool {
        let period_s = self.period.0.as_secs_f64();
        let own = [SAP_IP, SAP_ETHER].contains(&self.sap);
        let numbers = self.sap > 15 || self.priority > 15 || self.octets.0 > 2048;
        let ttl_s = self.ttl.map_or(2.0, |ttl| ttl.0.as_secs_f64());
        let plain = self.arq && self.repeats > 0 || self.repeats > 15;
        own || plain
            || numbers
            || !(1.0..=100.0).contains(&period_s)
            || !(2.0..=1_296_000.0).contains(&ttl_s)
            || self.expedited && !self.arq
    }
}

/// How a station's data rate follows what arrives. It begins with the modem's own.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct AdaptConfig {
    /// The slowest rate; 75 bit/s if absent, or what the waveforms have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowest: Option<BitRate>,
    /// The fastest rate; the waveforms' own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fastest: Option<BitRate>,
    /// The other station is asked before a change, as it must be where modems don't find the rate
    /// of what they hear by themselves.
    pub agree: bool,
    /// Signal-to-noise ratios that the modem tells of become advice for the other station.
    pub advice: bool,
}

impl Default for AdaptConfig {
    fn default() -> Self {
        Self {
            slowest: None,
            fastest: None,
            agree: false,
            advice: true,
        }
    }
}

impl AdaptConfig {
    /// The waveforms to choose from: those of the modem, but none that needs as much as a faster
    /// one. In 3 kHz, 1600 bit/s needs as much as 2400 does, and who climbs would stop there.
    fn adapt(&self, modem: &HfModemConfig) -> Adapt {
        let most = |rate: Option<BitRate>, or: u64| rate.map_or(or, |rate| rate.0);
        let (from, to) = (most(self.slowest, 0), most(self.fastest, u64::MAX));
        let rates = waveform::rates(modem.family, modem.bandwidth);
        let rates = rates.filter(|rate| (from..=to).contains(&u64::from(*rate)));
        let find = |rate| waveform::find(modem.family, modem.bandwidth, modem.interleaver, rate);
        let all: Vec<_> = rates.filter_map(find).collect();
        let ladder = all.iter().enumerate().filter(|(place, it)| {
            let mut faster = all.iter().skip(place + 1);
            faster.all(|other| other.needs_more_than(it))
        });
        Adapt {
            ladder: ladder.map(|(_, it)| *it).collect(),
            interleaver: interleaver_code(modem.interleaver),
            waveform: match modem.family {
                Family::M110A => 0,
                Family::S4539 => 3,
                Family::M110D => 7,
            },
            agree: self.agree,
            advice: self.advice,
        }
    }
}

/// When the whole queue for a neighbour is dropped: many losses at one time cost a transport less
/// than as many one after the other.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct GiveUpConfig {
    /// When it would be longer than this.
    pub octets: Option<Octets>,
    /// When a packet of it has waited as long as this.
    pub age: Option<Time>,
    /// When the link to it is lost.
    pub lost_link: bool,
}

/// Whether a time that is given is out of its limits.
pub(super) fn outside(time: Option<Time>, least: Duration, most: Duration) -> bool {
    time.is_some_and(|time| !(least..=most).contains(&time.0))
}

/// The first of the faults that is there: the key, and why.
pub(super) fn first_fault<const N: usize>(
    wrong: [(bool, &'static str, &'static str); N],
) -> Option<(&'static str, &'static str)> {
    let first = wrong.into_iter().find(|(wrong, ..)| *wrong);
    first.map(|(_, key, message)| (key, message))
}

impl GiveUpConfig {
    /// Whether an age would drop everything, or nothing.
    pub(super) fn is_wrong(&self) -> bool {
        outside(
            self.age,
            Duration::from_secs(1),
            Duration::from_secs(86_400),
        )
    }
}

/// The order in which packets are delivered.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum HfOrder {
    /// As they arrive: none waits for another.
    #[default]
    Arrival,
    /// As they were sent. A packet with a lost piece holds all behind it back.
    Sent,
}

/// What a station makes of others that aren't its neighbours.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum HfStrangers {
    /// Links with eight of them at a time, made by either end, are for its clients.
    Accept,
    /// It rejects their calls, and gives their data without ARQ to its clients.
    Reject,
    /// It counts what they send.
    Ignore,
}

/// Stations that aren't neighbours and that there are links with at a time.
const GUESTS: usize = 8;

/// The largest U_PDU, with room for an Ethernet type.
pub(super) const MTU_MAX: u64 = 2046;
/// The longest packet of the gateway's own: what two of the longest D_PDUs carry, with that type.
pub(crate) const OWN_PACKET_OCTETS: usize = 2040;

/// How long the octets of a transmission are waited for that come at the same time: a browser opens
/// six connections. Modems wait for twice as long.
const GATHERS: Duration = Duration::from_millis(5);

impl HfConfig {
    /// As the station has it. What [`PortConfig::validate_hf`] let pass is right.
    pub(crate) fn settings(&self) -> Settings {
        let address = |text: &String| text.parse().unwrap_or_default();
        let time = |time: Option<Time>, or: Duration| time.map_or(or, |time| time.0);
        let usual = Settings::new(address(&self.address));
        Settings {
            groups: self.groups.iter().map(address).collect(),
            idle: time(self.idle, usual.idle),
            turn_max: time(self.turn_max, usual.turn_max),
            gathers: GATHERS,
            guard: time(self.guard, usual.guard),
            answer_margin: time(self.answer_margin, usual.answer_margin),
            unanswered_max: self.unanswered.unwrap_or(usual.unanswered_max),
            calls_max: self.calls.unwrap_or(usual.calls_max),
            message_repeats: self.message_repeats.unwrap_or(usual.message_repeats),
            long_numbers: self.long_numbers,
            strangers: self.strangers() != HfStrangers::Ignore,
            guests: self.guests(),
            broadcast_only: self.broadcast_only,
            early_data: self.early_data,
            access: self.access(usual.own),
            adapt: self.adapt(),
            window: self.window.unwrap_or(usual.window),
            segment_octets_max: self
                .segment
                .map_or(usual.segment_octets_max, |octets| octets.0 as usize),
            ..usual
        }
    }

    /// How long a turn is at most.
    pub(crate) fn turn(&self) -> Duration {
        self.turn_max.map_or(Self::TURN_USUAL, |time| time.0)
    }

    /// How long one is at most if the file doesn't say it.
    pub(crate) const TURN_USUAL: Duration = Duration::from_secs(120);

    /// What becomes of strangers.
    fn strangers(&self) -> HfStrangers {
        self.strangers.unwrap_or(match self.sis {
            Some(_) => HfStrangers::Accept,
            None => HfStrangers::Reject,
        })
    }

    /// Strangers with links at a time.
    fn guests(&self) -> usize {
        match self.strangers() {
            HfStrangers::Accept => GUESTS,
            HfStrangers::Reject | HfStrangers::Ignore => 0,
        }
    }

    /// The rates between which the station chooses.
    fn adapt(&self) -> Option<Adapt> {
        let modem = self.modem.clone().unwrap_or_default();
        let adapt = self.adapt.as_ref().filter(|_| modem.takes_rates());
        adapt.map(|adapt| adapt.adapt(&modem))
    }

    /// The subnetwork interface that goes with it.
    pub(crate) fn interface(&self, own: Address, peers: &[Address]) -> sis::Settings {
        let sis = self.sis.clone().unwrap_or_default();
        sis::Settings {
            reserved: match self.ip_client {
                true => Vec::from([SAP_IP, SAP_ETHER]),
                false => Vec::new(),
            },
            guests: self.guests(),
            mtu: match (self.broadcast_only, sis.mtu) {
                (true, Some(mtu)) => mtu.0 as u16,
                (true, None) => sis::BROADCAST_MTU_MAX,
                (false, _) => sis::MTU,
            },
            broadcast_only: self.broadcast_only,
            time_to_die: self.time_to_die,
            compact_confirmations: self.compact_confirmations,
            ..sis.settings(own, peers)
        }
    }

    /// The numbers that can't be: the key, and why.
    fn fault(&self) -> Option<(&'static str, &'static str)> {
        let own = self.address.parse::<Address>();
        let no_node = own.is_err() || own.is_ok_and(Address::is_group);
        let no_group = |text: &String| !text.parse::<Address>().is_ok_and(Address::is_group);
        let (zero, second) = (Duration::ZERO, Duration::from_secs(1));
        let turn_max = Duration::from_millis(127_500);
        let day = second * 86_400;
        let wrong = [
            (
                no_node,
                "hf.address",
                "must be four numbers, the first 0 to 15, such as 0.0.0.1",
            ),
            (
                self.groups.iter().any(no_group),
                "hf.groups",
                "must be addresses whose first number is 16 to 31",
            ),
            (
                self.copies.is_some_and(|copies| !(1..=8).contains(&copies)),
                "hf.copies",
                "must be 1 to 8",
            ),
            (
                outside(self.turn_max, second, turn_max),
                "hf.turn_max",
                "must be 1 s to 127.5 s",
            ),
            (
                outside(self.idle, second, day),
                "hf.idle",
                "must be 1 s to a day",
            ),
            (
                outside(self.guard, zero, second * 10),
                "hf.guard",
                "must be 10 s at most",
            ),
            (
                outside(self.answer_margin, zero, second * 60),
                "hf.answer_margin",
                "must be 60 s at most",
            ),
            (
                self.unanswered
                    .is_some_and(|turns| !(1..=100).contains(&turns)),
                "hf.unanswered",
                "must be 1 to 100",
            ),
            (
                self.calls.is_some_and(|calls| !(1..=100).contains(&calls)),
                "hf.calls",
                "must be 1 to 100",
            ),
            (
                self.message_repeats.is_some_and(|repeats| repeats > 15),
                "hf.message_repeats",
                "must be 15 at most",
            ),
            (
                self.probe.iter().any(ProbeConfig::is_wrong),
                "hf.probe",
                "sap must be 0 to 15 except 8 and 9, period 1 s to 100 s, octets 2048 at most, \
                 priority 15 at most, ttl 2 s to 15 days; expedited data needs ARQ, and `repeats`, \
                 15 at most, needs arq = false",
            ),
            (
                self.broadcast_only && self.probe.iter().any(|probe| probe.arq),
                "hf.probe",
                "a `broadcast_only` station has no ARQ: needs arq = false",
            ),
            (
                self.broadcast_only && !self.without_calls.is_empty(),
                "hf.without_calls",
                "a `broadcast_only` station has no links: remove it",
            ),
            (
                self.broadcast_only && self.adapt.is_some(),
                "hf.adapt",
                "a `broadcast_only` station gets no answers: remove it",
            ),
            (
                !self.broadcast_only && self.sis.as_ref().is_some_and(|sis| sis.mtu.is_some()),
                "hf.sis.mtu",
                "is for `broadcast_only` stations: others take 2048 octets",
            ),
            (
                self.give_up.as_ref().is_some_and(GiveUpConfig::is_wrong),
                "hf.give_up",
                "age must be 1 s to a day",
            ),
            (
                self.segment
                    .is_some_and(|octets| !(24..=1023).contains(&octets.0)),
                "hf.segment",
                "must be 24 to 1023 octets",
            ),
            (
                self.adapt().is_some_and(|adapt| adapt.ladder.is_empty()),
                "hf.adapt",
                "no waveform of `hf.modem` has a rate from `slowest` to `fastest` with its \
                 `interleaver`",
            ),
            (
                self.window
                    .is_some_and(|frames| !(1..=128).contains(&frames)),
                "hf.window",
                "must be 1 to 128",
            ),
        ];
        let first = first_fault(wrong).or_else(|| self.sis.as_ref().and_then(SisConfig::fault));
        first.or_else(|| self.access_fault())
    }
}

impl HfConfig {
    /// How long its client of packets takes to find the next one, for each that waits.
    pub(crate) fn search(&self) -> Option<Duration> {
        Some(self.slots.as_ref()?.search?.0)
    }

    pub(crate) fn rules(&self) -> IpRules<'_> {
        IpRules {
            order: self.order,
            without_arq: &self.without_arq,
            copies: self.copies.unwrap_or(1),
            give_up: self.give_up.as_ref(),
        }
    }
}

impl PortConfig {
    /// The station's settings and the addresses of its neighbours, in their order.
    pub(crate) fn station(&self, hf: &HfConfig) -> (Settings, Vec<Address>) {
        let named = |names: &[String]| names.iter().map(|name| self.station_of(name)).collect();
        let settings = Settings {
            edition_3: named(&hf.edition_3),
            without_calls: named(&hf.without_calls),
            ..hf.settings()
        };
        (settings, self.stations())
    }

    /// The address of a neighbour's station.
    pub(crate) fn station_of(&self, name: &str) -> Address {
        let mut neighbours = self.neighbours.iter();
        let found = neighbours.find(|it| it.name == name);
        let address = found.and_then(|it| it.hf.as_ref()?.parse().ok());
        address.unwrap_or_default()
    }

    /// What is counted of its station: nothing yet, and of no other kind of port.
    pub(crate) fn station_stats(&self) -> HfStats {
        let named = |name: &String| HfPeer {
            name: name.clone(),
            group: self.station_of(name).is_group(),
            ..HfPeer::default()
        };
        let peers = self.hf().into_iter().flat_map(|_| &self.neighbours);
        HfStats {
            peers: peers.map(|peer| named(&peer.name)).collect(),
            ..HfStats::default()
        }
    }

    /// Checks a port with a radio.
    pub(super) fn validate_hf(&self, hf: &HfConfig) -> Result<(), InvalidConfig> {
        if let Some((key, message)) = hf.fault() {
            return Err(invalid(self.place(key), message));
        }
        self.validate_carriage()?;
        self.validate_neighbours()?;
        let names = |name: &String| self.neighbours.iter().any(|it| it.name == *name);
        if let Some(probe) = hf.probe.iter().find(|probe| !names(&probe.to)) {
            let message = format!("no neighbour `{}`", probe.to);
            return Err(invalid(self.place("hf.probe to"), message));
        }
        for (key, named) in [
            ("hf.edition_3", &hf.edition_3),
            ("hf.without_calls", &hf.without_calls),
        ] {
            if let Some(name) = named.iter().find(|name| !names(name)) {
                let message = format!("no neighbour `{name}`");
                return Err(invalid(self.place(key), message));
            }
        }
        // Programs may talk with whom they like.
        if self.neighbours.is_empty() && !hf.ip_client {
            return Ok(());
        }
        self.validate_stations(hf.address.parse().into_iter().collect())
    }

    /// Checks the addresses of the neighbours' stations; `known` are others'.
    pub(super) fn validate_stations(&self, mut known: Vec<Address>) -> Result<(), InvalidConfig> {
        if self.neighbours.is_empty() {
            let message = "needed: each with a name and the address of its station in `hf`";
            return Err(invalid(self.place("neighbours"), message));
        }
        for neighbour in &self.neighbours {
            let place = || self.place(&format!("neighbours {} hf", neighbour.name));
            let address = neighbour.hf.as_deref().map(str::parse::<Address>);
            let Some(Ok(address)) = address else {
                let message = "needed: the address of its station, such as 0.0.0.2";
                return Err(invalid(place(), message));
            };
            if known.contains(&address) {
                return Err(invalid(place(), "is the address of another station"));
            }
            known.push(address);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};

    use super::*;
    use crate::config::NodeConfig;
    use crate::config_text;

    /// What the station of a port with these keys goes by, or why it can't.
    fn settings(keys: &str) -> Result<Settings, String> {
        let text = format!(
            "name = \"a\"\n[host]\n[[port]]\nname = \"hf\"\nkind = \"hf\"\n\
             neighbours = [{{ name = \"b\", hf = \"0.0.0.3\" }}]\n\
             [port.hf]\naddress = \"0.0.0.2\"\n{keys}\n"
        );
        let config: NodeConfig = config_text::parse("a.toml", &text).map_err(|e| e.to_string())?;
        config.validate().map_err(|e| e.to_string())?;
        let port = &config.ports[0];
        let settings = port.hf().map(|hf| port.station(hf).0);
        settings.ok_or_else(String::new)
    }

    /// STANAG 5066 C.6.4.2 (11): configurable, and 3 if it isn't said.
    #[test]
    fn messages_are_repeated_as_often_as_is_configured() {
        let repeats = |keys| settings(keys).map(|it| it.message_repeats);
        assert_eq!(repeats(""), Ok(3));
        assert_eq!(repeats("message_repeats = 0"), Ok(0));
        assert_eq!(repeats("message_repeats = 15"), Ok(15));
        let error = repeats("message_repeats = 16").expect_err("too many");
        assert!(
            error.contains("hf.message_repeats") && error.contains("15 at most"),
            "{error}"
        );
    }
}
