//! How a port's device carries octets.

use strait_core::framing::Framing;

use super::{InvalidConfig, PortConfig, PortKind, invalid};

impl PortConfig {
    /// How a serial port carries octets: 8N1 if nothing is said.
    pub fn framing(&self) -> Framing {
        let framing = self.line().and_then(|line| line.framing);
        framing.unwrap_or(Framing::ASYNC_8N1)
    }

    pub(super) fn validate_framing(&self) -> Result<(), InvalidConfig> {
        let message = if self.framing().data_bits() < 8 {
            "IP needs octets whole: set both ends to 8 data bits, such as \"8N1\""
        } else if self.framing() == Framing::Sync && matches!(self.kind, PortKind::Kiss(_)) {
            "a KISS modem needs characters, such as \"8N1\""
        } else {
            return Ok(());
        };
        Err(invalid(self.place("framing"), message))
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};

    use strait_core::Duration;

    use crate::config::NodeConfig;
    use crate::config_text;

    fn node(port: &str, framing: &str) -> Result<NodeConfig, String> {
        let text = format!(
            "name = \"a\"\nhost = {{}}\n[[port]]\nname = \"line\"\n{port}\nframing = \"{framing}\"\n"
        );
        let config: NodeConfig =
            config_text::parse("a.toml", &text).map_err(|it| it.to_string())?;
        config.validate().map_err(|it| it.to_string())?;
        Ok(config)
    }

    #[test]
    fn octets_are_whole_or_refused() {
        let serial = "kind = \"serial\"\nbaud = 9600";
        for (framing, octets_s) in [("8N1", 960), ("8E1", 872), ("8O2", 800), ("sync", 1200)] {
            let port = &node(serial, framing).unwrap().ports[0];
            let rate = port.line_rate().unwrap();
            assert_eq!(
                rate.octets_in(Duration::from_secs(1)),
                octets_s,
                "{framing}"
            );
        }
        let short = node(serial, "7E1").unwrap_err();
        assert!(short.contains("set both ends to 8 data bits"), "{short}");
        let wrong = node(serial, "9N1").unwrap_err();
        assert!(
            wrong.contains("a.toml:7") && wrong.contains("like \"8N1\""),
            "{wrong}"
        );
    }

    #[test]
    fn a_flag_follows_any_pause_of_a_synchronous_line() {
        let serial = "kind = \"serial\"\nbaud = 9600";
        let pause = |framing: &str| {
            let port = &node(serial, framing).unwrap().ports[0];
            port.link_settings(port.line_rate()).flag_after_idle
        };
        assert_eq!(pause("sync"), Duration::from_nanos(1));
        assert_eq!(pause("8N1"), Duration::from_secs(1));
    }

    #[test]
    fn a_kiss_modem_has_characters() {
        let kiss = "kind = \"kiss\"\ndevice = \"/dev/ttyUSB0\"\nbaud = 9600\nrate = \"1200 bit/s\"";
        assert!(node(kiss, "8N1").is_ok());
        let refused = node(kiss, "sync").unwrap_err();
        assert!(refused.contains("characters"), "{refused}");
    }
}
