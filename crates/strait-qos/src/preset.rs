//! The built-in policies. `scenarios/policies/` has the same as files, with the reasons.

use alloc::string::String;
use alloc::vec::Vec;

use strait_core::Duration;
use strait_core::units::{Octets, Time};
use strait_wire::ip::protocol;

use crate::config::{ClassConfig, PolicyConfig, RuleConfig};
use crate::dscp::Dscp;
use crate::leaf::QueueConfig;
use crate::leaf::config::FairConfig;
use crate::matching::{List, PortRange, Protocol};

/// One queue for all, as plain routers have it: 50 packets, drop tail.
pub(crate) fn fifo() -> PolicyConfig {
    PolicyConfig {
        classes: [ClassConfig {
            packets: Some(50),
            ..ClassConfig::new("all")
        }]
        .into(),
        ..PolicyConfig::default()
    }
}

/// Five classes in three bands, for links from about 1200 bit/s up.
pub(crate) fn standard() -> PolicyConfig {
    PolicyConfig {
        default: Some("standard".into()),
        classes: classes(),
        rules: rules(),
        ..PolicyConfig::default()
    }
}

fn classes() -> Vec<ClassConfig> {
    let class = |name, band, weight, packets, octets, age_ms| ClassConfig {
        band: Some(band),
        weight: (weight != 1).then_some(weight),
        packets: Some(packets),
        octets: Some(Octets(octets)),
        age: Some(Time(Duration::from_millis(age_ms))),
        // The strict class in front is served within its age or not at all.
        queue: if band > 0 {
            in_turn()
        } else {
            QueueConfig::default()
        },
        ..ClassConfig::new(name)
    };
    [
        // A voice frame that comes half a second late is noise: no play-out buffer waits longer.
        class("voice", 0, 1, 64, 16_000, 500),
        // Resolvers, echo tools and routing protocols have given up or repeated by then.
        class("interactive", 1, 1, 128, 32_000, 10_000),
        class("preferred", 2, 8, 200, 96_000, 60_000),
        class("standard", 2, 4, 200, 96_000, 60_000),
        class("bulk", 2, 1, 200, 96_000, 120_000),
    ]
    .into()
}

fn in_turn() -> QueueConfig {
    QueueConfig::Fair(FairConfig {
        absorb_repeats: true,
        ..FairConfig::default()
    })
}

fn rules() -> Vec<RuleConfig> {
    let tcp = protocol::TCP;
    let udp = protocol::UDP;
    [
        // Recent SSH marks its interactive sessions EF; an elastic flow in the strict class could
        // take all of the line.
        RuleConfig {
            protocol: list([Protocol(tcp)]),
            dscp: list([Dscp::EF, Dscp::VA]),
            ..to("preferred")
        },
        RuleConfig {
            dscp: list([Dscp::EF, Dscp::VA]),
            ..to("voice")
        },
        RuleConfig {
            dscp: list([Dscp::cs(5), Dscp::CS6, Dscp::cs(7)]),
            ..to("interactive")
        },
        // Before the rules for small packets: who asks for less gets less.
        RuleConfig {
            dscp: list([
                Dscp::CS1,
                Dscp::LE,
                Dscp::af(1, 1),
                Dscp::af(1, 2),
                Dscp::af(1, 3),
            ]),
            ..to("bulk")
        },
        RuleConfig {
            tcp_control: true,
            ..to("interactive")
        },
        RuleConfig {
            protocol: list([Protocol(protocol::ICMP), Protocol(protocol::ICMPV6)]),
            max_octets: Some(Octets(256)),
            ..to("interactive")
        },
        RuleConfig {
            protocol: list([Protocol(udp)]),
            port: list([PortRange::single(53), PortRange::single(123)]),
            max_octets: Some(Octets(512)),
            ..to("interactive")
        },
        RuleConfig {
            dscp: preferred_code_points(),
            ..to("preferred")
        },
    ]
    .into()
}

fn preferred_code_points() -> List<Dscp> {
    let assured = (2..=4).flat_map(|class| (1..=3).map(move |drop| Dscp::af(class, drop)));
    assured
        .chain([Dscp::cs(2), Dscp::cs(3), Dscp::cs(4)])
        .into()
}

fn list<T, const N: usize>(items: [T; N]) -> List<T> {
    items.into()
}

fn to(class: &str) -> RuleConfig {
    RuleConfig {
        class: Some(String::from(class)),
        ..RuleConfig::default()
    }
}
