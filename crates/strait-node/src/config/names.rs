//! Names in a node file that mean something to the host.

use alloc::format;
use alloc::string::String;

use super::{InvalidConfig, NodeConfig, PortKind, invalid};

/// Octets of an interface's name, without the one that ends it (`IFNAMSIZ`).
const INTERFACE_OCTETS_MAX: usize = 15;
/// Octets of a Unix socket's path, without the one that ends it (`sun_path`).
pub(super) const SOCKET_OCTETS_MAX: usize = 107;

/// Whether the kernel takes a name for an interface. It would also number one with a `%`.
pub(super) fn check_interface(place: impl Into<String>, name: &str) -> Result<(), InvalidConfig> {
    let odd = |octet: u8| !octet.is_ascii_graphic() || matches!(octet, b'/' | b':' | b'%');
    let fits = (1..=INTERFACE_OCTETS_MAX).contains(&name.len());
    if !fits || name == "." || name == ".." || name.bytes().any(odd) {
        let message = format!(
            "`{}` is no interface's name: 1 to 15 letters, digits and characters except / : %",
            name.escape_debug()
        );
        return Err(invalid(place, message));
    }
    Ok(())
}

/// Whether a path can name a file.
pub(super) fn check_path(place: &str, path: &str) -> Result<(), InvalidConfig> {
    let last = path.rsplit('/').next().unwrap_or_default();
    if matches!(last, "" | "." | "..") || path.chars().any(char::is_control) {
        let message = format!("`{}` is no file's path", path.escape_debug());
        return Err(invalid(place, message));
    }
    Ok(())
}

impl NodeConfig {
    /// Checks the node's name and what it calls its files and interfaces.
    pub(super) fn validate_names(&self) -> Result<(), InvalidConfig> {
        if self.name.is_empty() {
            return Err(invalid("name", "is empty: give the node a name"));
        }
        if self.name.chars().any(char::is_control) {
            return Err(invalid("name", "has characters that can't be written"));
        }
        let socket = self.status.socket.as_deref();
        let files = [
            ("[status] socket", socket),
            ("[journal] file", self.journal.as_ref().map(|it| &*it.file)),
            ("[state] file", self.state.as_ref().map(|it| &*it.file)),
        ];
        for (place, path) in files {
            path.map_or(Ok(()), |path| check_path(place, path))?;
        }
        if socket.is_some_and(|path| path.len() > SOCKET_OCTETS_MAX) {
            let message = format!("is longer than {SOCKET_OCTETS_MAX} octets");
            return Err(invalid("[status] socket", message));
        }
        for port in &self.ports {
            let line = port.line().and_then(|line| line.device.as_deref());
            line.map_or(Ok(()), |device| check_path(&port.place("device"), device))?;
            if let PortKind::Ip(ip) = &port.kind
                && let Some(device) = &ip.device
            {
                check_interface(port.place("device"), device)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_text::parse;

    fn complaint(text: &str) -> Option<String> {
        let config: NodeConfig = parse("a.toml", text).unwrap();
        config.validate().err().map(|error| error.place)
    }

    fn with(more: &str) -> Option<String> {
        complaint(&format!("name = \"a\"\n{more}"))
    }

    #[test]
    fn an_interface_has_a_name_that_the_kernel_takes() {
        for (name, good) in [
            ("strait0", true),
            ("a.b-c_d@e", true),
            ("123456789012345", true),
            ("1234567890123456", false),
            ("", false),
            (".", false),
            ("..", false),
            ("../../x", false),
            ("a b", false),
            ("a\\tb", false),
            ("a:b", false),
            ("tun%d", false),
            ("\\u0000", false),
            ("é", false),
        ] {
            let place = |key: &str| Some(format!("[host] {key}")).filter(|_| !good);
            let host = format!("[host]\ninterface = \"{name}\"");
            assert_eq!(with(&host), place("interface"), "{name}");
            let bridge = format!("[host]\nkind = \"tap\"\nbridge = \"{name}\"");
            assert_eq!(with(&bridge), place("bridge"), "{name}");
        }
        let port = "[host]\n[[port]]\nname = \"air\"\nkind = \"ip\"\nlocal = \"10.0.0.1\"\n\
                    neighbours = [{ name = \"b\", address = \"10.0.0.2\" }]\n";
        assert_eq!(with(&format!("{port}device = \"wlan0\"")), None);
        let odd = with(&format!("{port}device = \"../wlan0\""));
        assert_eq!(odd.as_deref(), Some("[[port]] air device"));
    }

    #[test]
    fn files_have_paths_that_can_be_files() {
        for (path, good) in [
            ("/run/strait/a.sock", true),
            ("a.sock", true),
            ("../a", true),
            ("", false),
            ("/run/", false),
            ("/run/..", false),
            ("a\\nb", false),
            ("a\\u0000", false),
        ] {
            for (table, key) in [("status", "socket"), ("journal", "file"), ("state", "file")] {
                let place = Some(format!("[{table}] {key}")).filter(|_| !good);
                let text = format!("[host]\n[{table}]\n{key} = \"{path}\"");
                assert_eq!(with(&text), place, "{path}");
            }
        }
        for (octets, good) in [("99999 B", false), ("100 kB", true)] {
            let place = Some("[state] octets_max".into()).filter(|_| !good);
            let text = format!("[host]\n[state]\nfile = \"a\"\noctets_max = \"{octets}\"");
            assert_eq!(with(&text), place, "{octets}");
        }
        let long = "x".repeat(108);
        let socket = |path: &str| with(&format!("[host]\n[status]\nsocket = \"{path}\""));
        assert_eq!(socket(&long[1..]), None);
        assert_eq!(socket(&long).as_deref(), Some("[status] socket"));
        assert_eq!(
            complaint("name = \"a\\nb\"\n[host]").as_deref(),
            Some("name")
        );
    }
}
