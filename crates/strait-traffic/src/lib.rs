//! Traffic between two hosts: what is sent and what becomes of it, without sockets.
//!
//! A [`TrafficConfig`] says what a scenario's `[[traffic]]` is. What its packets contain, the
//! machines that say what to send when ([`mgen`], [`measure`], [`pair`]), the logs and the
//! report are the same in virtual time and live; programs and their sockets are elsewhere.
//!
//! Every program logs on its own host with its own clock reading; [`report()`] joins the two logs
//! afterwards.

mod agreed;
mod config;
mod content;
mod log;
mod mail;
pub mod measure;
pub mod mgen;
mod mgen_flows;
mod mgen_report;
pub mod pair;
mod report;
pub mod via;

pub use self::agreed::{
    DNS_LIFE_S, DNS_PORT, DNS_ZONE, HOST_NAME_WAIT, HOSTS_ZONE, Ports, Site, TcpOptions,
    association, chatter_round, dns_name, hello_interval_s, host_name, object_octets,
};
pub use self::config::{
    CallerTls, Family, Kind, LiveProgram, LookUps, MgenTraffic, NewestTls, ScriptSource,
    ScriptText, Traffic, TrafficConfig, TrafficKeys, Ways,
};
pub use self::content::{
    Content, datagram_payload, datagram_sequence, esp_numbers, esp_payload, esp_wrong, place,
    voice_packet, widen,
};
pub use self::log::{FlowLog, Mark, ObjectMark, Side, Transfer};
pub use self::mail::{mail_text, mail_wrong};
pub use self::mgen_flows::{DATAGRAM_OCTETS_MAX, flow_key, source_ports};
pub use self::mgen_report::{Arrival, arrivals_report, flow_reports, text_logs};
pub use self::report::{FlowReport, Series, metrics_of, report};
