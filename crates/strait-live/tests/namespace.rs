//! Namespaces, veth pairs, TUN interfaces and programs in them, on the real kernel; what is left
//! behind after a kill. Needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::is_root;
use strait_core::id::ClassId;
use strait_core::local::Question;
use strait_core::node::{PortState, TxMeta};
use strait_core::time::Instant;
use strait_live::kernel::namespace::{Namespace, Nursery, capture};
use strait_live::kernel::netlink::{Address, LedRoute, Route};
use strait_live::ports::tun::{TunConfig, TunPort};
use strait_live::ports::{PortIo, Received, Sent};
use strait_node::ethernet::{Claim, Heard, Station};
use strait_wire::ethernet::Mac;

const PATIENCE: Duration = Duration::from_secs(10);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn tun_config() -> TunConfig {
    TunConfig {
        interface: "strait0".into(),
        addresses: vec![(ip("10.9.0.1"), 30), (ip("fd00:9::1"), 64)],
        mtu: 1400,
    }
}

/// Opens it, and leads the namespace's host by it.
fn open(tun: &mut TunPort, namespace: &Namespace) -> PortState {
    let state = namespace.enter(|| tun.open(Instant::ZERO)).unwrap();
    let mut netlink = namespace.netlink().unwrap();
    let link = netlink.link("strait0").unwrap().index;
    let route = |prefix: &str, metric| LedRoute {
        prefix: prefix.parse().unwrap(),
        link,
        metric,
        own: true,
    };
    let routes = [route("10.2.0.0/24", 0), route("fd00:2::/64", 1024)];
    let came = netlink.lead(&routes.map(|route| (route, true))).unwrap();
    assert!(came.iter().all(Result::is_ok), "{came:?}");
    let led = netlink.led(link).unwrap().into_iter();
    assert!(led.filter(|it| it.own).eq(routes));
    state.unwrap()
}

#[test]
fn a_tun_has_its_addresses_and_routes_as_long_as_it_is_open() {
    if !is_root("tun") {
        return;
    }
    let namespace = Namespace::create("host").unwrap();
    namespace.enable_forwarding().unwrap();
    let mut tun = TunPort::new(tun_config());
    let state = open(&mut tun, &namespace);
    assert_eq!(state.frame_octets_max, 1400);
    let mut netlink = namespace.netlink().unwrap();
    let link = netlink.link("strait0").unwrap();
    assert!(link.up);
    assert_eq!(link.mtu, 1400);
    let addresses = netlink.addresses().unwrap();
    let on_tun: Vec<Address> = addresses
        .into_iter()
        .filter(|a| a.link == link.index)
        .collect();
    let address = |text: &str, length| Address {
        link: link.index,
        address: ip(text),
        length,
    };
    assert_eq!(on_tun, [address("10.9.0.1", 30), address("fd00:9::1", 64)]);
    let routes = netlink.routes().unwrap();
    for (prefix, length) in [("10.2.0.0", 24), ("fd00:2::", 64)] {
        let route = Route {
            prefix: ip(prefix),
            length,
            gateway: None,
            link: Some(link.index),
        };
        assert!(routes.contains(&route), "{prefix} in {routes:?}");
    }
    // Two seconds are longer than the kernel needs for its first solicitations and reports.
    let mut buffer = [0; 2048];
    thread::sleep(Duration::from_secs(2));
    loop {
        match tun.receive(Instant::ZERO, &mut buffer).unwrap() {
            Received::Nothing => break,
            Received::Skipped | Received::Event(_) | Received::Left { .. } => {}
            Received::Frame { octets, .. } => panic!("{:x?}", &buffer[..octets]),
        }
    }
    assert!(tun.counts().chatter <= 4, "{:?}", tun.counts());

    let error = namespace.enter(|| TunPort::new(tun_config()).open(Instant::ZERO));
    let error = error.unwrap().unwrap_err().to_string();
    assert!(error.contains("another program uses it"), "{error}");
    tun.close();
    assert!(netlink.link("strait0").is_err());
    assert!(netlink.routes().unwrap().is_empty());
}

#[test]
fn a_tun_carries_packets_both_ways_and_notices_its_removal() {
    if !is_root("tun packets") {
        return;
    }
    let namespace = Namespace::create("host").unwrap();
    let mut tun = TunPort::new(tun_config());
    open(&mut tun, &namespace);
    let socket = namespace.enter(|| std::net::UdpSocket::bind("10.9.0.1:5000"));
    let socket = socket.unwrap().unwrap();
    socket.send_to(b"hello", "10.2.0.7:9").unwrap();
    let mut buffer = [0; 2048];
    let Received::Frame { octets: 33, .. } = tun.receive(Instant::ZERO, &mut buffer).unwrap()
    else {
        panic!("no packet");
    };
    assert_eq!(&buffer[16..20], [10, 2, 0, 7]);
    // The same packet back: addresses and ports exchanged leave all checksums right.
    for (a, b) in [(12, 16), (13, 17), (14, 18), (15, 19), (20, 22), (21, 23)] {
        buffer.swap(a, b);
    }
    let meta = TxMeta::to_peer(ClassId(0));
    let sent = tun.transmit(Instant::ZERO, &meta, &buffer[..33]).unwrap();
    assert_eq!(sent, Sent::Taken);
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut back = [0; 64];
    assert_eq!(
        socket.recv_from(&mut back).unwrap(),
        (5, "10.2.0.7:9".parse().unwrap())
    );
    let refused = tun
        .transmit(Instant::ZERO, &meta, b"\x10 no packet")
        .unwrap();
    assert_eq!((refused, tun.counts().refused), (Sent::Refused, 1));

    let mut netlink = namespace.netlink().unwrap();
    let link = netlink.link("strait0").unwrap();
    netlink.delete_link(link.index, "strait0").unwrap();
    assert!(tun.receive(Instant::ZERO, &mut buffer).is_err());
    tun.close();
    namespace
        .enter(|| tun.open(Instant::ZERO))
        .unwrap()
        .unwrap();
}

#[test]
fn a_persistent_interface_with_other_flags_is_refused() {
    if !is_root("persistent tun") {
        return;
    }
    let namespace = Namespace::create("host").unwrap();
    let nursery = Nursery::open().unwrap();
    let mut command = Command::new("ip");
    command.args("tuntap add dev strait0 mode tun multi_queue".split(' '));
    let Ok(process) = nursery.spawn(Some(&namespace), command) else {
        eprintln!("persistent tun: skipped, no `ip`");
        return;
    };
    assert!(process.wait(PATIENCE).unwrap().unwrap().success());
    let error = namespace.enter(|| TunPort::new(tun_config()).open(Instant::ZERO));
    let error = error.unwrap().unwrap_err().to_string();
    assert!(error.contains("`strait0`"), "{error}");
}

/// Two namespaces `a` and `b`, connected, with addresses of both families.
fn pair() -> (Namespace, Namespace) {
    let (a, b) = (
        Namespace::create("a").unwrap(),
        Namespace::create("b").unwrap(),
    );
    a.connect("eth0", &b, "eth0").unwrap();
    for (namespace, number) in [(&a, 1), (&b, 2)] {
        namespace
            .add_address("eth0", ip(&format!("10.1.0.{number}")), 24)
            .unwrap();
        namespace
            .add_address("eth0", ip(&format!("fd00:1::{number}")), 64)
            .unwrap();
        namespace.enable_forwarding().unwrap();
    }
    (a, b)
}

#[test]
fn ping_passes_a_veth_pair_in_both_families() {
    if !is_root("ping") {
        return;
    }
    let (a, b) = pair();
    b.add_address("lo", ip("192.0.2.1"), 32).unwrap();
    a.add_route(ip("192.0.2.0"), 24, ip("10.1.0.2")).unwrap();
    let nursery = Nursery::open().unwrap();
    let dir = tempfile::tempdir().unwrap();
    for target in ["10.1.0.2", "fd00:1::2", "192.0.2.1"] {
        let mut command = Command::new("ping");
        command.args(["-c", "2", "-i", "0.2", "-W", "2", target]);
        capture(&mut command, dir.path(), "ping").unwrap();
        let process = match nursery.spawn(Some(&a), command) {
            Ok(process) => process,
            Err(error) => {
                eprintln!("ping: skipped, {error}");
                return;
            }
        };
        let status = process.wait(PATIENCE).unwrap().unwrap();
        let out = fs::read_to_string(dir.path().join("ping.out")).unwrap();
        assert!(status.success(), "{target}: {out}");
        assert!(out.contains(" 0% packet loss"), "{out}");
    }
}

/// A route says which congestion control TCP has over it, whatever the namespace's default is: one
/// at least of these two isn't.
#[test]
fn a_route_chooses_the_congestion_control() {
    if !is_root("congestion control") {
        return;
    }
    for congestion in ["reno", "cubic"] {
        let (a, b) = pair();
        b.add_address("lo", ip("192.0.2.1"), 32).unwrap();
        let mut netlink = a.netlink().unwrap();
        for gateway in ["10.1.0.2", "fd00:1::2"] {
            netlink.add_default_route(ip(gateway), congestion).unwrap();
        }
        let listener = b.enter(|| TcpListener::bind("192.0.2.1:80")).unwrap();
        let _listener = listener.unwrap();
        let stream = a.enter(|| TcpStream::connect("192.0.2.1:80")).unwrap();
        let name = socket2::SockRef::from(&stream.unwrap()).tcp_congestion();
        assert!(name.unwrap().starts_with(congestion.as_bytes()));
        let error = netlink
            .add_default_route(ip("10.1.0.2"), "tahoe")
            .unwrap_err();
        assert!(error.to_string().contains("tahoe"), "{error}");
    }
}

#[test]
fn a_missing_program_is_named() {
    if !is_root("missing program") {
        return;
    }
    let nursery = Nursery::open().unwrap();
    let error = nursery
        .spawn(None, Command::new("no-such-program"))
        .unwrap_err();
    assert!(error.to_string().contains("`no-such-program`"), "{error}");
    assert!(error.to_string().contains("installed"), "{error}");
}

/// Process numbers of running programs with `marker` among their arguments.
fn running(marker: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|number| {
            let arguments = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            arguments
                .split(|octet| *octet == 0)
                .any(|argument| argument == marker.as_bytes())
        })
        .collect()
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(std::time::Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A shell whose background child would survive it.
fn stubborn(marker: &str) -> Command {
    let mut command = Command::new("sh");
    let script = "trap '' TERM HUP; (trap '' TERM HUP; sleep 1000; :) & wait";
    command.args(["-c", script, marker]);
    command.stdin(Stdio::null());
    command
}

#[test]
fn dropping_a_nursery_ends_all_that_it_started() {
    if !is_root("nursery") {
        return;
    }
    let marker = format!("nursery-{}", std::process::id());
    let nursery = Nursery::open().unwrap();
    let process = nursery.spawn(None, stubborn(&marker)).unwrap();
    eventually("both shells run", || running(&marker).len() == 2);
    drop(nursery);
    assert_eq!(running(&marker), Vec::<u32>::new());
    assert!(!process.try_wait().unwrap().unwrap().success());
}

/// Not a test of its own: the body of the process that the next test kills.
#[test]
fn victim() {
    let Ok(marker) = std::env::var("STRAIT_TEST_VICTIM") else {
        return;
    };
    let (a, b) = pair();
    let nursery = Nursery::open().unwrap();
    let mut tun = TunPort::new(tun_config());
    a.enter(|| tun.open(Instant::ZERO)).unwrap().unwrap();
    let process = nursery.spawn(Some(&b), stubborn(&marker)).unwrap();
    let inode = fs::read_link(format!("/proc/{}/ns/net", process.id())).unwrap();
    println!("VICTIM {}", inode.display());
    thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_lab_leaves_no_process_and_no_namespace() {
    if !is_root("kill") {
        return;
    }
    let marker = format!("victim-{}", std::process::id());
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .env("STRAIT_TEST_VICTIM", &marker)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let namespace = lines
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("VICTIM ")?.1.to_owned()))
        .unwrap();
    eventually("both shells run", || running(&marker).len() == 2);
    assert!(!holders(&namespace).is_empty());
    victim.kill().unwrap();
    victim.wait().unwrap();
    eventually("all processes gone", || running(&marker).is_empty());
    eventually("the namespace is gone", || holders(&namespace).is_empty());
}

/// Processes that are in a network namespace.
fn holders(namespace: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let inside = entries.filter(|entry| {
        let link = fs::read_link(entry.path().join("ns/net"));
        link.is_ok_and(|link| link.to_string_lossy() == namespace)
    });
    inside
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// What comes to `station` on `tap` and is a packet that ends as wanted.
fn packet(tap: &mut TunPort, station: &mut Station, ends: &[u8]) -> Option<Vec<u8>> {
    let claim = |address| match address {
        IpAddr::V4(address) if address.octets() == [10, 2, 0, 2] => Claim::Behind,
        _ => Claim::None,
    };
    let mut buffer = vec![0; 2000];
    loop {
        let octets = match tap.receive(Instant::ZERO, &mut buffer).unwrap() {
            Received::Frame { octets, .. } => octets,
            Received::Nothing => return None,
            _ => continue,
        };
        match station.hear(Instant::ZERO, &buffer[..octets], claim) {
            Heard::Packet(packet) if packet.ends_with(ends) => return Some(packet.to_vec()),
            Heard::Answered(question) => assert_eq!(question, Question::Arp),
            _ => {}
        }
        while let Some(answer) = station.next_frame(2000) {
            let meta = TxMeta::to_peer(ClassId(0));
            let sent = tap.transmit(Instant::ZERO, &meta, &answer).unwrap();
            assert_eq!(sent, Sent::Taken);
        }
    }
}

#[test]
fn the_kernel_of_another_host_finds_a_station_behind_a_bridge() {
    if !is_root("bridge") {
        return;
    }
    let (near, far) = (
        Namespace::create("bridge").unwrap(),
        Namespace::create("host").unwrap(),
    );
    let config = TunConfig {
        addresses: Vec::new(),
        ..tun_config()
    };
    let mut tap = TunPort::tap(config, Some("br0".into()));
    let missing = near.enter(|| tap.open(Instant::ZERO)).unwrap().unwrap_err();
    assert!(missing.to_string().contains("ip link add br0 type bridge"));
    near.connect("lan0", &far, "eth0").unwrap();
    far.add_address("eth0", ip("10.1.0.2"), 8).unwrap();
    let mut netlink = near.netlink().unwrap();
    netlink.add_bridge("br0").unwrap();
    let bridge = netlink.link("br0").unwrap().index;
    netlink.set_up(bridge, "br0", true).unwrap();
    let cable = netlink.link("lan0").unwrap().index;
    netlink.join_bridge(cable, "lan0", "br0").unwrap();
    let state = near.enter(|| tap.open(Instant::ZERO)).unwrap().unwrap();
    assert_eq!(state.frame_octets_max, 1414);
    let socket = far.enter(|| std::net::UdpSocket::bind("0.0.0.0:0").unwrap());
    let socket = socket.unwrap();
    let mut station = Station::new(Mac([2, 0, 0, 0, 0, 1]));
    let begun = std::time::Instant::now();
    let packet = loop {
        assert!(begun.elapsed() < PATIENCE, "no packet came in {PATIENCE:?}");
        socket.send_to(b"hello", "10.2.0.2:9").unwrap();
        thread::sleep(Duration::from_millis(10));
        if let Some(packet) = packet(&mut tap, &mut station, b"hello") {
            break packet;
        }
    };
    assert_eq!(packet[16..20], [10, 2, 0, 2]);
}
