//! What a gateway with the profile `adapter` holds at most, counted by an allocator of its own.
#![expect(
    unsafe_code,
    reason = "an allocator that counts has to be one: it hands everything on to the system's"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use strait_core::node::{FrameMeta, Notice, PortEvent, PortState};
use strait_core::rate::LineRate;
use strait_core::{Duration, Input, Instant, NeighbourId, Node, PortId};
use strait_node::{Gateway, NodeConfig, config_text};
use strait_wire::ip;

/// What `docs/book/adapter.md` states, for one port.
const LIMIT_OCTETS: usize = 2 << 20;

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn grown(octets: usize) {
    let held = HELD.fetch_add(octets, Ordering::Relaxed) + octets;
    MOST.fetch_max(held, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller keeps to the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `place` came from the system's allocator with this layout.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ADAPTER: &str = r#"
name = "a"
[host]
addresses = ["10.9.0.1/30", "fd00:9::1/64"]
[[port]]
name = "line"
kind = "serial"
baud = 9600
profile = "adapter"
compression = "rohc"
"#;

fn bring_up(gateway: &mut Gateway) {
    for (port, rate) in [
        (0, LineRate::new(1_000_000_000, 8)),
        (1, LineRate::new(9600, 10)),
    ] {
        let state = PortState {
            tx_rate: rate,
            rx_rate: rate,
            frame_octets_max: 1500,
            block: Duration::ZERO,
            latency: Duration::ZERO,
            notice: Notice::NONE,
        };
        let event = PortEvent::Up(state);
        let port = PortId(port);
        gateway.handle(Instant::ZERO, Input::Port { port, event });
    }
}

fn offer(gateway: &mut Gateway, now: Instant, port: u8, bytes: &[u8]) {
    let input = Input::Frame {
        port: PortId(port),
        from: NeighbourId::PEER,
        bytes,
        meta: FrameMeta::default(),
    };
    gateway.handle(now, input);
    while gateway.poll_effect().is_some() {}
}

/// A packet of flow `number`; every eighth is a call's.
fn packet(number: u32, payload: &[u8], out: &mut Vec<u8>) {
    let [high, low] = [(number >> 8) as u16, number as u16];
    let src = Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, high, low);
    let dst = Ipv6Addr::new(0xfd00, 2, 0, 0, 0, 0, 0, 2);
    let socket = |address: Ipv6Addr| SocketAddr::new(IpAddr::V6(address), 4000);
    let dscp = [46, 0, 8, 18, 26, 40, 0, 10][number as usize % 8];
    out.clear();
    ip::build_udp(socket(src), socket(dst), dscp, 64, 7, 0, payload, out);
}

/// A solicitation for one neighbour of many (RFC 4861 section 4.3), to its multicast address.
fn solicitation(number: u32, out: &mut Vec<u8>) {
    let [_, a, b, c] = number.to_be_bytes();
    let head = [0x60, 0, 0, 0, 0, 24, 58, 255];
    let (src, dst) = (
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2),
        Ipv6Addr::new(
            0xff02,
            0,
            0,
            0,
            0,
            1,
            0xff00 | u16::from(a),
            u16::from_be_bytes([b, c]),
        ),
    );
    let target = Ipv6Addr::new(
        0xfd00,
        2,
        0,
        0,
        0,
        0,
        u16::from(a),
        u16::from_be_bytes([b, c]),
    );
    out.clear();
    out.extend_from_slice(&head);
    for address in [src, dst] {
        out.extend_from_slice(&address.octets());
    }
    out.extend_from_slice(&[135, 0, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(&target.octets());
}

#[test]
fn an_adapter_under_a_storm_stays_within_its_limit() {
    let config: NodeConfig = config_text::parse("memory.toml", ADAPTER).unwrap();
    let payload = vec![0xa5; 1400];
    let mut bytes = Vec::with_capacity(2000);
    let before = HELD.load(Ordering::Relaxed);
    let mut gateway = Gateway::new(&config).unwrap();
    bring_up(&mut gateway);
    MOST.store(HELD.load(Ordering::Relaxed), Ordering::Relaxed);
    // The line stands still: nothing that waits leaves. Flows of every class and size, most of them
    // new, from the host side; the other end sends what can't be read.
    for round in 0..40_000u32 {
        let now = Instant::from_nanos(u64::from(round) * 100_000);
        let payload = &payload[..20 + round as usize * 7 % 1380];
        packet(round % 30_011, payload, &mut bytes);
        offer(&mut gateway, now, 0, &bytes);
        solicitation(round, &mut bytes);
        offer(&mut gateway, now, 0, &bytes);
        bytes.truncate(40);
        offer(&mut gateway, now, 1, &bytes);
    }
    gateway.check();
    let port = &gateway.stats().ports[1];
    assert!(port.flows.displaced > 10_000, "{}", port.flows.displaced);
    let most = MOST.load(Ordering::Relaxed) - before;
    println!("{most} octets");
    assert!(most <= LIMIT_OCTETS, "{most} octets");
    assert!(
        most > LIMIT_OCTETS / 8,
        "{most} octets: the limit says nothing"
    );
}
