//! How a port's packets are compressed: the part of a node file that both ends need the same.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};
use strait_link::FrameSender;
use strait_link::rohc::{Doubt, Provision};

use crate::config::{LinkProfile, PortConfig, PortKind};
use crate::gateway::NOTE_OCTETS_MAX;

/// How packets' headers are compressed across a port.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// By robust header compression (RFC 3095), with feedback.
    Rohc,
}

/// How packets' payloads are compressed across a port.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum PayloadCompression {
    /// Not at all.
    #[default]
    None,
    /// Each for itself by DEFLATE (RFC 1951), behind a dictionary that both ends have.
    Deflate,
}

/// What becomes of transport checksums across a port.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Checksums {
    /// They go along as they are.
    #[default]
    Carry,
    /// Those of UDP are left out where they are right, and rebuilt, if both ends say so.
    Rebuild,
}

/// A flow that both ends know before its first packet.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ContextConfig {
    /// Who sends.
    pub src: IpAddr,
    /// To whom.
    pub dst: IpAddr,
    /// The sender's UDP port.
    pub src_port: u16,
    /// The receiver's.
    pub dst_port: u16,
}

impl ContextConfig {
    /// The flow as header compression knows it.
    pub const fn provision(&self) -> Provision {
        Provision {
            src: self.src,
            dst: self.dst,
            ports: [self.src_port, self.dst_port],
        }
    }
}

/// When what is known of a flow is doubted.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct DoubtConfig {
    /// As soon as so many packets were refused.
    pub refused: u8,
    /// Of the last so many.
    pub among: u8,
}

impl PortConfig {
    /// When its contexts are doubted: at once where damaged frames don't pass for whole ones.
    pub(crate) fn contexts_doubt(&self) -> Doubt {
        match (self.doubt, &self.kind) {
            (Some(DoubtConfig { refused, among }), _) => Doubt { refused, among },
            (None, PortKind::Serial(_) | PortKind::Kiss(_)) => Doubt::PATIENT,
            (None, _) => Doubt::AT_ONCE,
        }
    }
}

/// What is wrong about a port's compression: the key, and why.
pub(crate) fn fault(port: &PortConfig) -> Option<(&'static str, String)> {
    let plain = port.profile == LinkProfile::Plain;
    if port.compression != Compression::None && plain {
        let message = "needs profile = \"segments\": a plain line has no header compression";
        return Some(("compression", message.into()));
    }
    if port.payload != PayloadCompression::None && plain {
        let message = "needs profile = \"segments\": a plain line has no compression";
        return Some(("payload", message.into()));
    }
    if let Some(fault) = port.dictionary_fault() {
        return Some(fault);
    }
    let none = port.compression == Compression::None;
    let needs = || "needs compression = \"rohc\"".into();
    if none && port.checksums != Checksums::Carry {
        return Some(("checksums", needs()));
    }
    if none && !port.context.is_empty() {
        return Some(("context", needs()));
    }
    if none && port.doubt.is_some() {
        return Some(("doubt", needs()));
    }
    let Doubt { refused, among } = port.contexts_doubt();
    if !(1..=among).contains(&refused) || among > Doubt::AMONG_MAX {
        let most = Doubt::AMONG_MAX;
        let message = format!("needs 1 ≤ refused ≤ among ≤ {most}: {refused} of {among}");
        return Some(("doubt", message));
    }
    if port.count_packets {
        if none {
            return Some(("count_packets", needs()));
        }
        if !port.way_back {
            let message = "needs a return channel, for requests after a loss";
            return Some(("count_packets", message.into()));
        }
    }
    if port.remember_flows {
        if none {
            return Some(("remember_flows", needs()));
        }
        if !port.way_back {
            let message = "needs a return channel: both ends announce their flows";
            return Some(("remember_flows", message.into()));
        }
        let least = NOTE_OCTETS_MAX + FrameSender::ROOM_MIN;
        if port.frame_octets_max() < least {
            let message = format!("needs frames of {least} octets: see the key frame");
            return Some(("remember_flows", message));
        }
    }
    context_fault(&port.context).map(|message| ("context", message))
}

fn context_fault(contexts: &[ContextConfig]) -> Option<String> {
    if contexts.len() > Provision::MAX {
        return Some(format!("more than {} flows", Provision::MAX));
    }
    let both = |it: &&ContextConfig| it.src.is_ipv4() != it.dst.is_ipv4();
    if let Some(it) = contexts.iter().find(both) {
        return Some(format!("{} and {} are of two families", it.src, it.dst));
    }
    let mut before: Vec<&ContextConfig> = Vec::new();
    for it in contexts {
        if before.contains(&it) {
            return Some(format!("twice the same flow from {}", it.src));
        }
        before.push(it);
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::config::NodeConfig;
    use crate::config_text;

    use super::*;

    const NODE: &str = r#"
name = "a"
[host]
[[port]]
name = "line"
kind = "serial"
baud = 300
framing = "8N1"
"#;

    fn place_and_message(port: &str) -> Option<String> {
        let config: NodeConfig = config_text::parse("a.toml", &format!("{NODE}{port}")).unwrap();
        let fault = config.validate().err()?;
        Some(format!("{fault}"))
    }

    #[test]
    fn frames_have_room_for_all_that_is_remembered() {
        let node = |frame: usize| {
            format!(
                "name = \"a\"\nhost = {{}}\nstate = {{ file = \"a.state\" }}\n[[port]]\n\
                 name = \"line\"\nkind = \"udp\"\nframe = \"{frame} B\"\n\
                 compression = \"rohc\"\nremember_flows = true\n"
            )
        };
        let least = NOTE_OCTETS_MAX + FrameSender::ROOM_MIN;
        for (frame, fits) in [(least - 1, false), (least, true)] {
            let config: NodeConfig = config_text::parse("a.toml", &node(frame)).unwrap();
            assert_eq!(config.validate().is_ok(), fits, "{frame}");
        }
    }

    #[test]
    fn octet_streams_doubt_later_than_frames_and_a_key_decides() {
        for (port, expected) in [
            ("kind = \"serial\"\nbaud = 300\n", Doubt::PATIENT),
            ("kind = \"udp\"\n", Doubt::AT_ONCE),
            (
                "kind = \"udp\"\ndoubt = { refused = 2, among = 5 }\n",
                Doubt {
                    refused: 2,
                    among: 5,
                },
            ),
        ] {
            let node = format!("name = \"a\"\nhost = {{}}\n[[port]]\nname = \"line\"\n{port}");
            let config: NodeConfig = config_text::parse("a.toml", &node).unwrap();
            assert_eq!(config.ports[0].contexts_doubt(), expected, "{port}");
        }
    }

    fn flow(src: &str, dst: &str, port: u16) -> String {
        format!(
            "[[port.context]]\nsrc = \"{src}\"\ndst = \"{dst}\"\nsrc_port = {port}\n\
             dst_port = 5004\n"
        )
    }

    #[test]
    fn compression_needs_what_it_needs_and_says_so() {
        let rohc = "compression = \"rohc\"\n";
        let call = flow("fd00::1", "fd00::2", 5004);
        let remember = "remember_flows = true\n";
        let state = "[state]\nfile = \"a.state\"\n";
        let many: String = (0..9)
            .map(|port| flow("10.0.0.1", "10.0.0.2", port))
            .collect();
        for (port, expected) in [
            (rohc.into(), None),
            (format!("{rohc}checksums = \"rebuild\"\n{call}"), None),
            (
                "checksums = \"rebuild\"\n".into(),
                Some("compression = \"rohc\""),
            ),
            (call.clone(), Some("compression = \"rohc\"")),
            (format!("{rohc}profile = \"plain\"\n"), Some("a plain line")),
            (format!("{rohc}{many}"), Some("more than 8 flows")),
            (format!("{rohc}{call}{call}"), Some("twice the same flow")),
            (
                format!("{rohc}{}", flow("fd00::1", "10.0.0.1", 5004)),
                Some("two families"),
            ),
            (format!("{remember}{rohc}"), Some("[state]")),
            (format!("{rohc}{remember}{state}"), None),
            (format!("{remember}{state}"), Some("compression = \"rohc\"")),
            (format!("{rohc}count_packets = true\n"), None),
            (
                "count_packets = true\n".into(),
                Some("compression = \"rohc\""),
            ),
            (
                format!("{rohc}count_packets = true\nway_back = false\n"),
                Some("return channel"),
            ),
            (
                format!("{rohc}doubt = {{ refused = 2, among = 32 }}\n"),
                None,
            ),
            (
                format!("{rohc}doubt = {{ refused = 0, among = 2 }}\n"),
                Some("0 of 2"),
            ),
            (
                format!("{rohc}doubt = {{ refused = 3, among = 2 }}\n"),
                Some("3 of 2"),
            ),
            (
                format!("{rohc}doubt = {{ refused = 3, among = 33 }}\n"),
                Some("3 of 33"),
            ),
            (
                "doubt = { refused = 1, among = 1 }\n".into(),
                Some("compression = \"rohc\""),
            ),
            (
                format!("{rohc}{remember}way_back = false\n{state}"),
                Some("return channel"),
            ),
        ] {
            let said = place_and_message(&port);
            match expected {
                None => assert_eq!(said, None, "{port}"),
                Some(words) => assert!(
                    said.as_ref().is_some_and(|said| said.contains(words)),
                    "{port}: {said:?}"
                ),
            }
        }
    }
}
