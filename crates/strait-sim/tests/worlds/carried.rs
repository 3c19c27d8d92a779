//! Links whose frames are datagrams that other gateways carry.

use std::path::Path;

use strait_core::Duration;
use strait_core::units::Time;
use strait_scenario::{Files, Scenario};
use strait_sim::run_once;

struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> Result<String, String> {
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }
}

/// More than the line carries, offered by the inner gateways.
const BACKLOG: &str = r#"
[[traffic]]
name = "backlog"
kind = "udp"
from = "ha"
to = "hb"
start = "1 s"
stop = "301 s"
payload = "1352 B"
rate = "9600 bit/s"
"#;

/// What of it comes in 320 s, in bit/s of its packets, where the inner ports have these keys.
fn carried(keys: &str) -> f64 {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = file.join("../../scenarios/lab/adapters-nested.toml");
    let text = Disk.read(&file).unwrap();
    let frame = "frame = \"600 B\"";
    assert_eq!(text.matches(frame).count(), 2);
    let text = text.replace(frame, &format!("{frame}\n{keys}"));
    let mut loaded = Scenario::load_text(&Disk, &file, &(text + BACKLOG)).unwrap();
    loaded.scenario.duration = Time(Duration::from_secs(320));
    let run = run_once(&loaded, Scenario::BASE, 1, false).unwrap();
    assert_eq!(run.unexplained, 0);
    let flow = run.flows.iter().find(|flow| flow.name == "backlog");
    flow.unwrap().counters["received"] as f64 * 1400.0 * 8.0 / 300.0
}

#[test]
fn a_port_over_other_gateways_sends_at_its_own_rate() {
    let (paced, at_once) = (carried("rate = \"6500 bit/s\""), carried(""));
    // What comes faster than the line is lost by pieces, and with a piece goes its packet.
    assert!(paced > 1.5 * at_once, "{paced} and {at_once} bit/s");
}
