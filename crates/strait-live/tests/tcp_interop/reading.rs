//! What `tshark` reads in a capture of ours.

use std::path::Path;
use std::process::Command;

/// A frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) from_us: bool,
    /// Seen before, or out of order.
    pub(crate) again: bool,
    told: Told,
}

/// What an end has said in its frames, for one of them or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Its SYN allows selective acknowledgements, has a timestamp and a window scale, and agrees to
    /// congestion notification.
    pub(crate) permission: bool,
    pub(crate) timestamps: bool,
    pub(crate) scale: bool,
    pub(crate) ecn: bool,
    /// A packet is ECN capable.
    pub(crate) capable: bool,
    /// A selective acknowledgement.
    pub(crate) sack: bool,
}

impl Told {
    pub(crate) fn add(&mut self, frame: &Frame) {
        let told = frame.told;
        self.permission |= told.permission;
        self.timestamps |= told.timestamps;
        self.scale |= told.scale;
        self.ecn |= told.ecn;
        self.capable |= told.capable;
        self.sack |= told.sack;
    }
}

const FIELDS: [&str; 16] = [
    "tcp.checksum.status",
    "ip.checksum.status",
    "_ws.malformed",
    "tcp.srcport",
    "tcp.flags.syn",
    "tcp.flags.ece",
    "tcp.options.sack_perm",
    "tcp.options.timestamp.tsval",
    "tcp.options.wscale.shift",
    "tcp.options.sack_le",
    "ip.dsfield.ecn",
    "ipv6.tclass.ecn",
    "tcp.analysis.retransmission",
    "tcp.analysis.out_of_order",
    "tcp.analysis.spurious_retransmission",
    "tcp.analysis.fast_retransmission",
];

/// Has a capture read, with every checksum verified; asserts that nothing is malformed or wrong.
pub(crate) fn read(name: &str, capture: &[u8]) -> Vec<Frame> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.pcapng"));
    std::fs::write(&path, capture).unwrap();
    let mut command = Command::new("tshark");
    command.arg("-r").arg(&path);
    command.args(["-T", "fields", "-E", "separator=;"]);
    for preference in ["ip.check_checksum:TRUE", "tcp.check_checksum:TRUE"] {
        command.args(["-o", preference]);
    }
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap_or_else(|error| {
        panic!("tshark doesn't start ({error}); `cargo xtask install` installs it")
    });
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| frame(name, line)).collect()
}

fn frame(name: &str, line: &str) -> Frame {
    let values: Vec<&str> = line.split(';').collect();
    let field = |name: &str| values[FIELDS.iter().position(|field| *field == name).unwrap()];
    let has = |name: &str| !field(name).is_empty();
    assert_eq!(field("tcp.checksum.status"), "1", "{name}: {line}");
    assert!(
        matches!(field("ip.checksum.status"), "" | "1"),
        "{name}: {line}"
    );
    assert!(!has("_ws.malformed"), "{name}: {line}");
    let syn = field("tcp.flags.syn") == "1";
    let capable = ["ip.dsfield.ecn", "ipv6.tclass.ecn"];
    Frame {
        from_us: field("tcp.srcport") == "7002",
        again: FIELDS
            .iter()
            .filter(|name| name.starts_with("tcp.analysis."))
            .any(|name| has(name)),
        told: Told {
            permission: syn && has("tcp.options.sack_perm"),
            timestamps: syn && has("tcp.options.timestamp.tsval"),
            scale: syn && has("tcp.options.wscale.shift"),
            ecn: syn && field("tcp.flags.ece") == "1",
            capable: capable.iter().any(|name| field(name) == "2"),
            sack: has("tcp.options.sack_le"),
        },
    }
}
