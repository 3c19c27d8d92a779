//! Configuration files.

use std::path::Path;

use serde::de::DeserializeOwned;
use strait_channel::{LinkConfig, Side};
use strait_core::node::Node;
use strait_node::config_text::{self, ConfigError};
use strait_node::{Gateway, NodeConfig};
use strait_qos::{Policy, PolicyConfig};
use strait_scenario::{Files, Scenario};
use strait_wire::ip::PacketInfo;

fn parse<T: DeserializeOwned>(data: &[u8]) -> Option<T> {
    let text = str::from_utf8(data).ok()?;
    match config_text::parse("fuzz.toml", text) {
        Ok(config) => Some(config),
        Err(error) => {
            judge(&error, text);
            None
        }
    }
}

/// An error names the file, and a line that is there.
fn judge(error: &ConfigError, text: &str) {
    assert!(error.to_string().starts_with("fuzz.toml"), "{error}");
    assert!(!error.message.is_empty());
    if let Some(line) = error.line {
        assert!(
            line >= 1 && line as usize <= text.lines().count() + 1,
            "{error}"
        );
    }
}

/// A node file: an error or a gateway; what is read can be written and read again.
pub fn node_config(data: &[u8]) {
    let Some(config) = parse::<NodeConfig>(data) else {
        return;
    };
    if let Ok(written) = config.to_text() {
        match config_text::parse::<NodeConfig>("written.toml", &written) {
            Ok(again) => assert_eq!(again, config, "{written}"),
            Err(error) => panic!("{error} in {written}"),
        }
    }
    if let Ok(gateway) = Gateway::new(&config) {
        assert!(config.validate().is_ok());
        gateway.check();
    }
}

/// A link file.
pub fn link_config(data: &[u8]) {
    let Some(config) = parse::<LinkConfig>(data) else {
        return;
    };
    if config.validate().is_err() {
        return;
    }
    for side in [Side::A, Side::B] {
        assert!(config.line_rate(side).bit_s() > 0);
        config.direction(side);
        config.queue_frames(side);
    }
}

/// A policy file; the first packet of the golden vectors is classified.
pub fn policy_config(data: &[u8]) {
    let Some(config) = parse::<PolicyConfig>(data) else {
        return;
    };
    let Ok(policy) = Policy::compile(&config) else {
        return;
    };
    for (_, octets) in crate::seeds::packets() {
        if let Ok(info) = PacketInfo::parse(octets) {
            let verdict = policy.classify(&info);
            assert!(verdict.class.index() < policy.classes().len());
        }
    }
}

struct Nodes;

impl Files for Nodes {
    fn read(&self, path: &Path) -> Result<String, String> {
        let configs = crate::gateway::CONFIGS;
        match path.file_name().and_then(|name| name.to_str()) {
            Some("a.toml") => Ok(configs[0].into()),
            Some("b.toml") => Ok(configs[2].into()),
            Some("link.toml") => Ok("kind = \"serial\"\nbaud = 9600\n".into()),
            _ => Err("no such file".into()),
        }
    }
}

/// A scenario file with all that it names.
pub fn scenario(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    if let Err(error) = Scenario::load_text(&Nodes, Path::new("fuzz.toml"), text) {
        assert!(!error.message.is_empty());
    }
}
