//! Why it is slow: what a node's snapshots tell of causes, in words that an operator uses.
//!
//! Rules are about quantities: shares of what passed, waits against what a line's rate explains,
//! who asks for how much. A line that is full is no fault; that somebody who asks for little waits
//! is one.

mod history;
mod load;
mod medium;
mod pairs;
mod refused;
mod renewal;
mod services;
#[cfg(test)]
mod tests;
mod words;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::span::Span;
use crate::{Behind, Choice, Snapshot, behind, choices, flow_name};

pub use history::{History, SPAN_S, STEP_S, Watch};
pub use pairs::together;

macro_rules! causes {
    ($($(#[doc = $doc:literal])+ $cause:ident = $name:literal,)+) => {
        /// What can be wrong. Names are stable: programs may go by them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Cause {
            $($(#[doc = $doc])+ $cause,)+
        }

        impl Cause {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$cause),+];

            /// Its name, in JSON too.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$cause => $name,)+ }
            }
        }
    };
}

causes! {
    /// A port can't send.
    PortDown = "port-down",
    /// A port goes down and comes back.
    PortFlaps = "port-flaps",
    /// Nothing comes from the other end any more, although it is asked.
    FarSilent = "far-silent",
    /// One end hears the other, which doesn't hear it.
    OneWay = "one-way",
    /// All that comes is unreadable: another rate, framing, profile or check.
    Unreadable = "unreadable",
    /// The gateway at the other end began anew a short while ago.
    FarAnew = "far-anew",
    /// A station on a radio doesn't answer.
    HfSilent = "hf-silent",
    /// The medium loses or damages a steady part of what is sent.
    LinkErrors = "link-errors",
    /// The medium comes and goes.
    Fading = "fading",
    /// The line carries less than its rate, with work waiting.
    SlowLine = "slow-line",
    /// A device or the medium refuses what is sent.
    Device = "device",
    /// Frames come from somebody who is no neighbour.
    Stranger = "stranger",
    /// Stations that are no neighbours use the air.
    AirBusy = "air-busy",
    /// No route leads to a destination.
    NoRoute = "no-route",
    /// Packets go round until their hop limit is used up.
    Loop = "loop",
    /// Packets are too big for the way, and their sender doesn't listen.
    Mtu = "mtu",
    /// The policy lets packets not pass.
    Filtered = "filtered",
    /// A port doesn't carry this version of IP.
    NotCarried = "not-carried",
    /// Nobody on the local network has the address.
    NoSuchHost = "no-such-host",
    /// A source address doesn't lie where its packets come from.
    WrongSource = "wrong-source",
    /// Two stations have one address.
    DuplicateAddress = "duplicate-address",
    /// A class sends more than its policer allows.
    Policer = "policer",
    /// Calls are refused, as the line can't carry them.
    CallRefused = "call-refused",
    /// One host sends more than the line carries, whatever is lost.
    Flood = "flood",
    /// Somebody waits behind others of the same class.
    ClassFull = "class-full",
    /// Somebody waits behind a class that goes first.
    Starved = "starved",
    /// A call isn't treated as one.
    UnmarkedCall = "unmarked-call",
    /// All together ask for more than the line carries, and nobody listens.
    Overload = "overload",
    /// Packets wait for longer than their class lets them.
    TooLate = "too-late",
    /// The table of flows is full.
    FlowTable = "flow-table",
    /// Names aren't found.
    Dns = "dns",
    /// Mail's next hop can't be reached.
    MailHop = "mail-hop",
    /// An urgent message is here for too long.
    MailLate = "mail-late",
    /// The proxy's partner can't be reached, or it refuses.
    Proxy = "proxy",
    /// Storage is full, or fails.
    Storage = "storage",
    /// The journal has ended.
    Journal = "journal",
    /// The calendar was set anew.
    Clock = "clock",
    /// The host wakes the gateway late.
    HostSlow = "host-slow",
    /// The host doesn't take the routes that it is to have.
    HostRoutes = "host-routes",
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What.
    pub cause: Cause,
    /// Whom or what it concerns: a flow, a class, a port, a service.
    pub concerns: String,
    /// Why it is slow, with figures.
    pub sentence: String,
    /// What to look at next: a command.
    pub look: String,
    /// How much it weighs against others: more than 4 where nothing passes, more than 3 where some
    /// get nothing, more than 2 where the medium is bad, more than 1 where it is load.
    pub weight: f64,
    /// Packets that show it, the one that stayed longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<Behind>,
}

/// What is wrong with a node, the worst first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// Its name.
    pub node: String,
    /// Of how many seconds this tells; from the node's start if only one snapshot was there.
    pub span_s: f64,
    /// The worst finding, or that there is none and which figures show it.
    pub sentence: String,
    /// All findings; none if all is well.
    pub findings: Vec<Finding>,
    /// What it chose by itself.
    #[serde(default)]
    pub choices: Vec<Choice>,
}

/// Nothing passes.
const GONE: f64 = 4.0;
/// Some get nothing.
const DENIED: f64 = 3.0;
/// The medium, or what is below it, is bad.
const BAD: f64 = 2.0;
/// There is too much.
const LOAD: f64 = 1.0;
/// Findings that are told.
const FINDINGS_MAX: usize = 20;
/// Packets of a finding that are told.
const PACKETS_MAX: usize = 5;

/// What is wrong with a node by its snapshots, the oldest first: best of half a minute, one each
/// three seconds. One is enough; it then tells of the whole time since the node's start.
pub fn why(history: &[Snapshot]) -> Why {
    let mut findings = Vec::new();
    let history = renewal::since(history, &mut findings);
    let Some(span) = Span::new(history) else {
        return Why::default();
    };
    medium::look(&span, &mut findings);
    refused::look(&span, &mut findings);
    services::look(&span, &mut findings);
    load::look(&span, &mut findings);
    let healthy = words::healthy(&span);
    Why {
        node: span.last.node.clone(),
        span_s: span.s,
        sentence: healthy,
        findings: Vec::new(),
        choices: choices(&span),
    }
    .with(findings)
    .with_packets(&span)
}

impl Why {
    /// Whether nothing is wrong.
    pub const fn is_well(&self) -> bool {
        self.findings.is_empty()
    }

    /// With more findings: in the order of their weights, of each cause and concern the heaviest.
    fn with(mut self, more: Vec<Finding>) -> Self {
        self.findings.extend(more);
        self.findings
            .sort_by(|one, other| other.weight.total_cmp(&one.weight));
        let mut told: Vec<(Cause, String)> = Vec::new();
        self.findings.retain(|it| {
            let key = (it.cause, it.concerns.clone());
            let is_new = !told.contains(&key);
            told.push(key);
            is_new
        });
        self.findings.truncate(FINDINGS_MAX);
        if let Some(first) = self.findings.first() {
            self.sentence.clone_from(&first.sentence);
        }
        self
    }

    /// With packets of what each finding concerns: a flow, a class or a port.
    fn with_packets(mut self, span: &Span<'_>) -> Self {
        for finding in &mut self.findings {
            let concerns = &finding.concerns;
            let flows = span.flows.iter();
            let flows = flows.filter(|it| words::flow(it, span.s) == *concerns);
            let flows: Vec<String> = flows.map(|it| flow_name(it.row)).collect();
            let mut packets = behind(span.last);
            packets.retain(|it| {
                it.port == *concerns || it.packet.class == *concerns || flows.contains(&it.flow)
            });
            packets.truncate(PACKETS_MAX);
            finding.packets = packets;
        }
        self
    }

    /// Words that find the packets behind the worst finding: its flow, if it is of one, or what it
    /// concerns.
    pub fn about(&self) -> Option<&str> {
        let first = self.findings.first()?;
        let flow = first.packets.first().map(|it| it.flow.as_str());
        let one = flow.filter(|flow| first.packets.iter().all(|it| it.flow == *flow));
        one.or_else(|| (!first.packets.is_empty()).then_some(&*first.concerns))
    }

    /// The sentence, and what to look at next: for the top of a view.
    pub fn line(&self) -> String {
        match self.findings.first() {
            None => self.sentence.clone(),
            Some(first) => format!(
                "{} [{}] Next: {}",
                first.sentence,
                first.cause.name(),
                first.look
            ),
        }
    }
}

impl Finding {
    fn new(
        (cause, weight): (Cause, f64),
        concerns: impl Into<String>,
        sentence: String,
        look: impl Into<String>,
    ) -> Self {
        Self {
            cause,
            concerns: concerns.into(),
            sentence,
            look: look.into(),
            weight,
            packets: Vec::new(),
        }
    }
}
