//! What the host reaches by a gateway, as ways come and go.

use strait_core::node::{Lead, RouteEvent, RouteOp};
use strait_core::stats::LedStats;

use super::*;

const EAST: PortId = PortId(2);

/// All of 10.2.0.0/16 lies beyond the line, but for a part beyond one of two on the other port.
const NODE: &str = r#"
name = "a"
[host]
routes = ["10.2.0.0/16", "10.2.9.0/24", "10.2.9.7/24"]
metric = 7
[[port]]
name = "line"
kind = "serial"
baud = 9600
[[port]]
name = "east"
kind = "udp"
neighbours = [{ name = "c" }, { name = "d" }]
[[route]]
prefix = "10.2.0.0/16"
port = "line"
[[route]]
prefix = "10.2.9.0/24"
port = "east"
via = "d"
[[route]]
prefix = "10.2.1.0/24"
port = "host"
"#;

/// What it asks of the host's table from now on.
fn asked(gateway: &mut Gateway) -> Vec<(Prefix, RouteOp)> {
    let effects = core::iter::from_fn(|| gateway.poll_effect());
    let asks = effects.filter_map(|effect| match effect {
        Effect::Route { prefix, op } => Some((prefix, op)),
        _ => None,
    });
    asks.collect()
}

fn follows(keys: &str) -> Gateway {
    let text = NODE.replace("metric", &alloc::format!("{keys}\nmetric"));
    let mut gateway = gateway(&text);
    assert_eq!(asked(&mut gateway), [lead(WHOLE), lead(PART)]);
    gateway
}

const WHOLE: &str = "10.2.0.0/16";
const PART: &str = "10.2.9.0/24";

fn lead(prefix: &str) -> (Prefix, RouteOp) {
    let port = PortId::HOST;
    let lead = Lead { port, metric: 7 };
    (prefix.parse().unwrap(), RouteOp::Lead(lead))
}

fn withdraw(prefix: &str) -> (Prefix, RouteOp) {
    (prefix.parse().unwrap(), RouteOp::Withdraw)
}

fn at_ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn tell(gateway: &mut Gateway, ms: u64, port: PortId, event: PortEvent) {
    gateway.handle(at_ms(ms), Input::Port { port, event });
}

fn turn(gateway: &mut Gateway, ms: u64, port: PortId, up: bool) {
    let event = if up {
        PortEvent::Up(state(LineRate::new(9600, 10)))
    } else {
        PortEvent::Down(DownCause::Device)
    };
    tell(gateway, ms, port, event);
}

/// What it asks of the host at this moment, and nothing just before.
fn due_at(gateway: &mut Gateway, ms: u64) -> Vec<(Prefix, RouteOp)> {
    let at = at_ms(ms);
    assert_eq!(gateway.wake().map(|wake| wake.at), Some(at));
    let before = Instant::from_nanos(at.as_nanos() - 1);
    gateway.handle(before, Input::Timeout);
    assert_eq!(asked(gateway), []);
    gateway.handle(at, Input::Timeout);
    asked(gateway)
}

#[test]
fn a_prefix_is_withdrawn_when_no_way_has_led_there_for_so_long() {
    let mut gateway = follows("withdraw_after = \"2 s\"\nrestore_after = \"5 s\"");
    // The whole is still reached in part.
    turn(&mut gateway, 1000, LINE, false);
    assert_eq!(gateway.leads.wake(), None);
    let d = NeighbourId(1);
    tell(
        &mut gateway,
        3000,
        EAST,
        PortEvent::Neighbour(NeighbourId(0), false),
    );
    assert_eq!(gateway.leads.wake(), None);
    tell(&mut gateway, 4000, EAST, PortEvent::Neighbour(d, false));
    assert_eq!(
        due_at(&mut gateway, 6000),
        [withdraw(WHOLE), withdraw(PART)]
    );
    // One comes back, and the other with a whole port.
    tell(&mut gateway, 10_000, EAST, PortEvent::Neighbour(d, true));
    assert_eq!(due_at(&mut gateway, 15_000), [lead(WHOLE), lead(PART)]);
    assert_eq!(gateway.leads.wake(), None);
    let led = gateway.stats().led.unwrap();
    assert_eq!((led.wanted, led.withdrawals), (2, 2));
}

#[test]
fn a_link_that_comes_and_goes_moves_nobody() {
    let mut gateway = follows("withdraw_after = \"2 s\"");
    turn(&mut gateway, 0, EAST, false);
    assert_eq!(due_at(&mut gateway, 2000), [withdraw(PART)]);
    // Up for less than it takes to be believed, again and again.
    for ms in (3000..30_000).step_by(3000) {
        turn(&mut gateway, ms, EAST, true);
        turn(&mut gateway, ms + 1999, EAST, false);
        turn(&mut gateway, ms + 2000, LINE, false);
        turn(&mut gateway, ms + 2999, LINE, true);
    }
    assert_eq!((asked(&mut gateway), gateway.leads.wake()), (vec![], None));
}

#[test]
fn without_the_key_the_host_is_led_whatever_comes() {
    let mut gateway = follows("");
    for port in [LINE, EAST] {
        turn(&mut gateway, 0, port, false);
    }
    gateway.handle(at_ms(100_000), Input::Timeout);
    assert_eq!((asked(&mut gateway), gateway.leads.wake()), (vec![], None));
}

#[test]
fn what_nothing_is_known_of_is_led_to_and_a_lone_port_is_the_way_to_all() {
    let text = r#"
        name = "a"
        host = { routes = ["10.2.0.0/16"], withdraw_after = "0 s" }
        port = [{ name = "line", kind = "serial", baud = 9600 }]
    "#;
    let first = |text: &str| {
        let config: NodeConfig = config_text::parse("test.toml", text).unwrap();
        let mut gateway = Gateway::new(&config).unwrap();
        gateway.handle(
            at_ms(0),
            Input::Port {
                port: PortId::HOST,
                event: PortEvent::Up(state(LineRate::new(9600, 10))),
            },
        );
        asked(&mut gateway).len()
    };
    // Led to, and withdrawn as the line isn't there.
    assert_eq!(first(text), 2);
    let other = alloc::format!("{text}[[route]]\nprefix = \"10.3.0.0/16\"\nport = \"line\"");
    assert_eq!(first(&other), 1);
    let behind = alloc::format!("{other}\n[[route]]\nprefix = \"10.2.3.0/24\"\nport = \"line\"");
    assert_eq!(first(&behind), 2);
}

#[test]
fn what_the_host_says_is_counted() {
    let mut gateway = follows("withdraw_after = \"1 s\"");
    let say = |gateway: &mut Gateway, prefix: &str, event| {
        let prefix = prefix.parse().unwrap();
        gateway.handle(at_ms(0), Input::Routed { prefix, event });
        gateway.stats().led.unwrap()
    };
    let mut expected = LedStats {
        wanted: 2,
        ..LedStats::default()
    };
    (expected.there, expected.refusals) = (1, 0);
    assert_eq!(say(&mut gateway, WHOLE, RouteEvent::There), expected);
    (expected.there, expected.refusals) = (1, 1);
    assert_eq!(say(&mut gateway, PART, RouteEvent::Failed(17)), expected);
    assert_eq!(
        say(&mut gateway, "10.9.0.0/24", RouteEvent::There),
        expected
    );
    (expected.there, expected.refusals) = (0, 2);
    assert_eq!(say(&mut gateway, WHOLE, RouteEvent::Failed(17)), expected);
}

#[test]
fn a_link_of_ipv4_alone_leads_to_no_ipv6() {
    let mut gateway = gateway(
        "name = \"a\"\n[host]\nroutes = [\"10.2.0.0/16\", \"fd00:2::/32\"]\nmetric = 7\n\
         withdraw_after = \"2 s\"\n[[port]]\nname = \"radio\"\nkind = \"kiss\"\n\
         rate = \"1200 bit/s\"\nprofile = \"ip\"\nkiss = { own = \"A\", peer = \"B\" }\n",
    );
    asked(&mut gateway);
    turn(&mut gateway, 0, LINE, true);
    assert_eq!(due_at(&mut gateway, 2000), [withdraw("fd00:2::/32")]);
}
