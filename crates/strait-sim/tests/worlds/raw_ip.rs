//! Ports of kind `ip` put their frames into IP packets, and the links carry, count and lose those.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use strait_core::Duration;
use strait_core::units::Time;
use strait_scenario::Scenario;
use strait_sim::{Run, run_once};
use strait_wire::ip::{PacketInfo, header_checksum};
use strait_wire::pcapng::{Block, Reader, linktype};

/// The shipped chain, for so many seconds.
fn run(capture: bool, seconds: u64) -> Run {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut loaded = Scenario::load(&root.join("scenarios/lab/hbh-raw.toml")).unwrap();
    loaded.scenario.duration = Time(Duration::from_secs(seconds));
    loaded.scenario.expectations.clear();
    run_once(&loaded, Scenario::BASE, 1, capture).unwrap()
}

/// By the number of the interface, the packets in a capture.
fn packets(file: &[u8]) -> BTreeMap<u32, Vec<Vec<u8>>> {
    let mut packets: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
    for block in Reader::new(file) {
        match block.unwrap() {
            Block::Packet(packet) => {
                let bytes = packet.bytes.to_vec();
                packets.entry(packet.interface).or_default().push(bytes);
            }
            Block::Interface(interface) => assert_eq!(interface.linktype, linktype::RAW),
            _ => {}
        }
    }
    packets
}

#[test]
fn each_frame_is_the_payload_of_a_packet_between_its_link_s_addresses() {
    let run = run(true, 5);
    assert_eq!(run.unexplained, 0);
    let packets = packets(&run.captures["r1.pcapng"]);
    for (port, own, far, protocol) in [
        (1, "10.255.0.2", "10.255.0.1", 253),
        (2, "fd00:255::1", "fd00:255::2", 254),
    ] {
        assert!(packets[&port].len() > 20);
        for packet in &packets[&port] {
            let info = PacketInfo::parse(packet).unwrap();
            assert_eq!(info.src.to_string(), own);
            assert_eq!(info.dst.to_string(), far);
            assert_eq!((info.protocol, info.hop_limit), (protocol, 64));
            assert!(info.src.is_ipv6() || header_checksum(&packet[..20]) == 0);
            assert!(packet.len() <= 1500, "{}", packet.len());
        }
        // The call's packets say so outside too.
        let mut codes = packets[&port]
            .iter()
            .map(|packet| PacketInfo::parse(packet));
        assert!(codes.any(|info| info.unwrap().dscp == 46));
    }
}

#[test]
fn packets_of_ipsec_come_as_they_were_sent() {
    let run = run(false, 14);
    assert_eq!(run.metrics["tunnel.wrong"], 0.0);
    let tunnel = run.flows.iter().find(|flow| flow.name == "tunnel").unwrap();
    let count = |name: &str| tunnel.counters[name];
    // One each 50 ms for ten seconds, over three links that lose one in twenty.
    assert_eq!((count("sent"), count("received")), (200, 200));
    assert_eq!((count("duplicates"), count("unexpected")), (0, 0));
}

#[test]
fn another_decoder_finds_nothing_wrong_with_them() {
    let path = std::env::temp_dir().join(format!("strait-raw-{}.pcapng", std::process::id()));
    std::fs::write(&path, &run(true, 5).captures["r1.pcapng"]).unwrap();
    let output = Command::new("tshark")
        .args(["-n", "-o", "ip.check_checksum:TRUE", "-T", "fields"])
        .args([
            "-e",
            "ip.proto",
            "-e",
            "ipv6.nxt",
            "-e",
            "ip.checksum.status",
        ])
        .args([
            "-e",
            "_ws.malformed",
            "-Y",
            "ip.proto == 253 || ipv6.nxt == 254",
            "-r",
        ])
        .arg(&path)
        .output();
    std::fs::remove_file(&path).unwrap();
    let Ok(output) = output else {
        eprintln!("raw_ip: skipped, there is no `tshark`");
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let kinds: std::collections::BTreeSet<&str> = text.lines().map(str::trim_end).collect();
    // Each protocol number, a good checksum (1) where there is one, and nothing malformed.
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["\t254", "253\t\t1"]);
}
