//! What only all lines of a script together show.

use std::collections::BTreeMap;

use super::parse::ScriptError;
use super::script::{Script, Warning, What};

impl Script {
    /// Notes what is probably not meant; too many flows are an error.
    pub(super) fn review(&mut self) -> Result<(), ScriptError> {
        let mut begun = BTreeMap::new();
        let mut ports = BTreeMap::new();
        let mut warnings = Vec::new();
        let mut warn = |line, message| warnings.push(Warning { line, message });
        for event in &self.events {
            let line = event.line;
            match &event.what {
                What::On(flow, options) => {
                    if begun.insert(*flow, true) == Some(true) {
                        warn(
                            line,
                            format!("flow {flow} is on already: this ON does nothing"),
                        );
                    }
                    let port = options.src.map(|port| (options.protocol, port));
                    let other = port.and_then(|port| ports.insert(port, *flow));
                    if let (Some(other), Some((_, port))) = (other.filter(|o| o != flow), port) {
                        warn(
                            line,
                            format!(
                                "flows {other} and {flow} share source port {port}: MGEN would send \
                             both from one socket, with the marks of one; here each has its own"
                            ),
                        );
                    }
                }
                What::Mod(flow, _) if begun.get(flow) != Some(&true) => {
                    warn(
                        line,
                        format!("flow {flow} isn't on: MOD does nothing before its ON"),
                    );
                }
                What::Off(flow) if begun.get(flow) != Some(&true) => {
                    warn(line, format!("flow {flow} isn't on: OFF does nothing"));
                }
                What::Off(flow) => {
                    begun.insert(*flow, false);
                }
                _ => {}
            }
        }
        warnings.sort_by_key(|warning| warning.line);
        self.warnings.extend(warnings);
        if begun.len() > Self::FLOWS_MAX {
            let message = format!("more than {} flows: split the script", Self::FLOWS_MAX);
            return Err(ScriptError {
                line: 1,
                column: 1,
                message,
            });
        }
        Ok(())
    }
}
