//! What `tshark` reads in a capture.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// What its analysis says of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flag {
    Retransmission,
    Fast,
    Spurious,
    OutOfOrder,
    Lost,
    AckedUnseen,
    DuplicateAck,
    ZeroWindow,
    ZeroWindowProbe,
    ZeroWindowProbeAck,
    WindowFull,
    WindowUpdate,
    KeepAlive,
    KeepAliveAck,
    ReusedPorts,
    DuplicateTold,
}

const FLAGS: [(Flag, &str); 16] = [
    (Flag::Retransmission, "tcp.analysis.retransmission"),
    (Flag::Fast, "tcp.analysis.fast_retransmission"),
    (Flag::Spurious, "tcp.analysis.spurious_retransmission"),
    (Flag::OutOfOrder, "tcp.analysis.out_of_order"),
    (Flag::Lost, "tcp.analysis.lost_segment"),
    (Flag::AckedUnseen, "tcp.analysis.ack_lost_segment"),
    (Flag::DuplicateAck, "tcp.analysis.duplicate_ack"),
    (Flag::ZeroWindow, "tcp.analysis.zero_window"),
    (Flag::ZeroWindowProbe, "tcp.analysis.zero_window_probe"),
    (
        Flag::ZeroWindowProbeAck,
        "tcp.analysis.zero_window_probe_ack",
    ),
    (Flag::WindowFull, "tcp.analysis.window_full"),
    (Flag::WindowUpdate, "tcp.analysis.window_update"),
    (Flag::KeepAlive, "tcp.analysis.keep_alive"),
    (Flag::KeepAliveAck, "tcp.analysis.keep_alive_ack"),
    (Flag::ReusedPorts, "tcp.analysis.reused_ports"),
    (Flag::DuplicateTold, "tcp.options.sack.dsack"),
];

/// Has a capture read, with every checksum verified; asserts that nothing is malformed or wrong.
/// Gives the flags of each frame.
pub(crate) fn read(name: &str, capture: &[u8]) -> Vec<BTreeSet<Flag>> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.pcapng"));
    std::fs::write(&path, capture).unwrap();
    let mut command = Command::new("tshark");
    command
        .arg("-r")
        .arg(&path)
        .args(["-T", "fields", "-E", "separator=;"]);
    for preference in ["ip.check_checksum:TRUE", "tcp.check_checksum:TRUE"] {
        command.args(["-o", preference]);
    }
    // 1 says that a checksum is right. IPv6 has none of its own.
    let own = ["tcp.checksum.status", "ip.checksum.status", "_ws.malformed"];
    for field in own.into_iter().chain(FLAGS.map(|(_, field)| field)) {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap_or_else(|error| {
        panic!("tshark doesn't start ({error}); `cargo xtask install` installs it")
    });
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(';').collect();
        assert_eq!(fields[0], "1", "{name}: a checksum is wrong: {line}");
        assert!(
            matches!(fields[1], "" | "1"),
            "{name}: a checksum is wrong: {line}"
        );
        assert_eq!(fields[2], "", "{name}: malformed: {line}");
        let flags = FLAGS.iter().zip(&fields[own.len()..]);
        flags
            .filter(|(_, value)| !value.is_empty())
            .map(|((flag, _), _)| *flag)
            .collect()
    };
    text.lines().map(line).collect()
}
