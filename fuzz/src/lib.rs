//! What the fuzz targets do with their octets: plain functions, so that a finding can be repeated
//! with any compiler. Each panics where the code under test breaks a promise.

pub mod dns;
pub mod ethernet;
pub mod gateway;
pub mod hbh;
pub mod journal;
pub mod mail;
pub mod mgen;
pub mod modem_port;
pub mod pair;
pub mod payload;
pub mod proxy;
pub mod rohc;
pub mod s5066;
pub mod seeds;
pub mod sis;
pub mod text;
pub mod wire;

/// A target: its name, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 35] = [
    ("analyse", wire::analyse),
    ("dns", dns::dns),
    ("dns_frame", dns::dns_frame),
    ("dns_message", dns::dns_message),
    ("ethernet", ethernet::ethernet),
    ("gateway_handle", gateway::gateway_handle),
    ("gateway_pair", pair::gateway_pair),
    ("hbh", hbh::hbh),
    ("ip_packet", wire::ip_packet),
    ("journal", journal::journal),
    ("kiss", wire::kiss),
    ("link_config", text::link_config),
    ("mail", mail::mail),
    ("mgen_capture", mgen::capture),
    ("mgen_log", mgen::log),
    ("mgen_message", mgen::message),
    ("mgen_script", mgen::script),
    ("modem_port", modem_port::modem_port),
    ("node_config", text::node_config),
    ("octet_frames", wire::octet_frames),
    ("payload", payload::payload),
    ("pcap", wire::pcap),
    ("pcapng", wire::pcapng),
    ("policy_config", text::policy_config),
    ("proxy_handshake", proxy::proxy_handshake),
    ("proxy_pack", proxy::proxy_pack),
    ("proxy_session", proxy::proxy_session),
    ("repairs", wire::repairs),
    ("rohc_decompress", rohc::rohc_decompress),
    ("rohc_pair", rohc::rohc_pair),
    ("rtp", wire::rtp),
    ("s5066", s5066::s5066),
    ("scenario", text::scenario),
    ("segments", wire::segments),
    ("sis", sis::sis),
];
