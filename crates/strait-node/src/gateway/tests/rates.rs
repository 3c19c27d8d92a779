//! Neighbours of one port that are sent to at different rates.

use strait_core::stats::NeighbourStats;

use super::*;

const EAST: PortId = PortId(2);
const C: NeighbourId = NeighbourId(0);
const D: NeighbourId = NeighbourId(1);
const SLOW: LineRate = LineRate::new(9600, 8);
const FAST: LineRate = LineRate::new(256_000, 8);

/// Neighbours with a way each, in place of those who share one.
const APART: &str = r#"{ name = "c", rate = "9600 bit/s" }, { name = "d", rate = "256 kbit/s" }"#;
const TOGETHER: &str = r#"{ name = "c" }, { name = "d" }"#;

fn apart() -> Gateway {
    relay(&RELAY.replace(TOGETHER, APART))
}

/// A relay that was told of both rates.
fn relay(text: &str) -> Gateway {
    let mut relay = gateway(text);
    tell(&mut relay, PortEvent::Up(state(SLOW)));
    tell(&mut relay, PortEvent::NeighbourRate(C, SLOW));
    tell(&mut relay, PortEvent::NeighbourRate(D, FAST));
    relay
}

fn tell(relay: &mut Gateway, event: PortEvent) {
    relay.handle(Instant::ZERO, Input::Port { port: EAST, event });
    relay.check();
}

/// Packets of so many octets for a neighbour come.
fn give(relay: &mut Gateway, to: NeighbourId, packets: usize, octets: usize) {
    let dst = ["10.3.0.9", "10.4.0.9"][to.index()];
    for _ in 0..packets {
        let frame = framed(&udp("10.1.0.2", dst, octets, 0));
        relay.handle(Instant::ZERO, super::frame(LINE, &frame));
    }
    relay.check();
}

/// To whom a frame goes that is for one of some, and how long it is.
fn next_at(relay: &mut Gateway, at: Instant, to: Neighbours) -> Option<(NeighbourId, usize)> {
    let room = Room {
        octets: 1400,
        starts: at,
        until: None,
        to,
    };
    let mut out = Vec::new();
    let meta = relay.poll_transmit(at, EAST, room, &mut out);
    relay.check();
    meta.map(|meta| (meta.to, out.len()))
}

fn next(relay: &mut Gateway, to: Neighbours) -> Option<(NeighbourId, usize)> {
    next_at(relay, Instant::ZERO, to)
}

fn rates(relay: &Gateway) -> Vec<Option<LineRate>> {
    let neighbours = relay.stats().ports[2].neighbours.iter();
    neighbours.map(|it: &NeighbourStats| it.tx_rate).collect()
}

const BUT_C: Neighbours = Neighbours::ALL.without(C);
const BUT_D: Neighbours = Neighbours::ALL.without(D);

#[test]
fn while_a_packet_leaves_for_one_neighbour_others_get_theirs() {
    let mut relay = apart();
    give(&mut relay, C, 1, 300);
    give(&mut relay, D, 2, 300);
    // A tenth of a second of the slow way: a packet has begun, and the rest of it waits.
    let (to, octets) = next(&mut relay, BUT_D).unwrap();
    assert_eq!((to, octets < 150), (C, true), "{octets}");
    assert_eq!(relay.wants(EAST).unwrap().to, D);
    for _ in 0..2 {
        let (to, octets) = next(&mut relay, BUT_C).unwrap();
        assert_eq!((to, octets > 300), (D, true), "{octets}");
    }
    // No room, or for nobody that anything is for, changes nothing.
    for to in [BUT_C, Neighbours::NONE] {
        assert_eq!(next(&mut relay, to), None);
    }
    assert_eq!(relay.stats().ports[2].neighbours[1].octets_out, 2 * 305);
    let rest = core::iter::from_fn(|| next(&mut relay, Neighbours::ALL));
    assert!(rest.take(9).all(|(to, _)| to == C));
    assert_eq!((relay.wants(EAST), relay.ports[2].held()), (None, 0));
}

#[test]
fn a_full_queue_to_one_neighbour_costs_others_nothing() {
    for (full, other) in [(C, D), (D, C)] {
        let mut relay = apart();
        give(&mut relay, full, 1200, 1000);
        let dropped = relay.stats().dropped.total();
        assert!(dropped > 0);
        give(&mut relay, other, 5, 1000);
        assert_eq!(relay.stats().dropped.total(), dropped);
        let only = [BUT_D, BUT_C][other.index()];
        let frames = core::iter::from_fn(|| next(&mut relay, only));
        let octets: usize = frames.map(|(_, octets)| octets).sum();
        assert!(octets > 5000, "{octets}");
    }
}

/// When the last packet to a neighbour had left, in nanoseconds, of 300 octets to each.
fn ends(mut relay: Gateway) -> [u64; 2] {
    give(&mut relay, C, 1, 300);
    give(&mut relay, D, 1, 300);
    fates(&mut relay);
    let mut ends = [0; 2];
    let mut free = Instant::ZERO;
    for _ in 0..9 {
        if next_at(&mut relay, free, Neighbours::ALL).is_none() {
            break;
        }
        free = Instant::from_nanos(relay.stats().ports[2].busy_ns);
        for record in fates(&mut relay) {
            if let Fate::Forwarded { to, .. } = record.fate {
                ends[to.index()] = record.ended.as_nanos();
            }
        }
    }
    ends
}

#[test]
fn on_a_way_that_they_share_each_takes_time_by_its_own_rate() {
    let alone = |rate: LineRate, octets| rate.time_for(octets).as_nanos() as u64;
    // The slow one's packet goes first, in three pieces; then the fast one's, in one.
    let [slow, fast] = ends(relay(RELAY));
    assert!(slow > alone(SLOW, 300) && slow < alone(SLOW, 330), "{slow}");
    assert_eq!(fast - slow, alone(FAST, 305));
    // Not told, they have the port's rate.
    let mut relay = gateway(RELAY);
    tell(&mut relay, PortEvent::Up(state(SLOW)));
    let [first, second] = ends(relay);
    assert!(second - first > alone(SLOW, 300));
}

#[test]
fn rates_hold_until_they_are_told_again_or_the_port_comes_up() {
    let mut relay = apart();
    assert_eq!(rates(&relay), [Some(SLOW), Some(FAST)]);
    tell(&mut relay, PortEvent::Changed(state(SLOW)));
    assert_eq!(rates(&relay), [Some(SLOW), Some(FAST)]);
    tell(&mut relay, PortEvent::NeighbourRate(D, SLOW));
    assert_eq!(rates(&relay), [Some(SLOW), Some(SLOW)]);
    // Nobody's changes nothing.
    tell(&mut relay, PortEvent::NeighbourRate(NeighbourId(2), FAST));
    tell(&mut relay, PortEvent::NeighbourRate(NeighbourId::ALL, FAST));
    assert_eq!(rates(&relay), [Some(SLOW), Some(SLOW)]);
    give(&mut relay, D, 1, 300);
    let (_, octets) = next(&mut relay, BUT_C).unwrap();
    assert!(octets < 150, "{octets}");
    tell(&mut relay, PortEvent::Up(state(FAST)));
    assert_eq!(rates(&relay), [Some(FAST); 2]);
}

#[test]
fn what_waits_for_one_is_kept_while_it_is_away() {
    let mut relay = apart();
    give(&mut relay, C, 2, 300);
    give(&mut relay, D, 1, 300);
    assert_eq!(next(&mut relay, BUT_D).unwrap().0, C);
    tell(&mut relay, PortEvent::Neighbour(C, false));
    assert_eq!(relay.stats().dropped.by(DropCause::PortDown), 1);
    assert_eq!(next(&mut relay, Neighbours::ALL).unwrap().0, D);
    assert_eq!(next(&mut relay, Neighbours::ALL), None);
    tell(&mut relay, PortEvent::Neighbour(C, true));
    assert_eq!(next(&mut relay, Neighbours::ALL).unwrap().0, C);
    relay.handle(Instant::ZERO, Input::Command(Command::Stop));
    assert_eq!(relay.ports[2].held(), 0);
    relay.check();
}

#[test]
fn ways_of_their_own_are_for_all_neighbours_or_none() {
    let complaint = |from: &str, to: &str| {
        let text = RELAY.replace(TOGETHER, APART).replace(from, to);
        let config: NodeConfig = config_text::parse("a.toml", &text).unwrap();
        config.validate().err().map(|error| error.to_string())
    };
    assert_eq!(complaint("", ""), None);
    let place = "[[port]] east neighbours rate: ";
    for (from, to, why) in [
        (", rate = \"256 kbit/s\"", "", "needed for each neighbour"),
        (
            "neighbours =",
            "rate = \"1 Mbit/s\"\nneighbours =",
            "is in place of the port's `rate`",
        ),
        (
            "neighbours =",
            "profile = \"hbh\"\nneighbours =",
            "is not for profile = \"hbh\"",
        ),
    ] {
        let found = complaint(from, to).unwrap();
        assert!(found.starts_with(place) && found.contains(why), "{found}");
    }
}

/// Has a packet for an address come.
fn offer(relay: &mut Gateway, at: Instant, dst: &str, octets: usize, dscp: u8) {
    let frame = framed(&udp("10.1.0.2", dst, octets, dscp));
    relay.handle(at, super::frame(LINE, &frame));
    relay.check();
}

fn adapter(neighbours: &str) -> String {
    let keys = "profile = \"adapter\"\nneighbours =";
    let text = RELAY.replace(TOGETHER, neighbours);
    text.replace("neighbours =", keys)
}

/// Has a call to C go for some seconds, with a packet each 200 ms.
fn call(relay: &mut Gateway, packets: u64) {
    for packet in 0..packets {
        let at = Instant::from_millis(packet * 200);
        offer(relay, at, "10.3.0.9", 91, 46);
        assert_eq!(next_at(relay, at, Neighbours::ALL).unwrap().0, C);
    }
}

#[test]
fn a_way_that_rests_for_a_call_holds_up_no_other() {
    let mut relay = relay(&adapter(APART));
    call(&mut relay, 50);
    let at = Instant::from_millis(9995);
    offer(&mut relay, at, "10.3.0.9", 300, 0);
    assert_eq!(relay.wake().unwrap().why, WakeReason::Gap);
    assert_eq!(next_at(&mut relay, at, Neighbours::ALL), None);
    for dscp in [0, 46] {
        offer(&mut relay, at, "10.4.0.9", 100, dscp);
        let (to, octets) = next_at(&mut relay, at, Neighbours::ALL).unwrap();
        assert_eq!((to, octets), (D, 105));
    }
    assert_eq!(next_at(&mut relay, at, Neighbours::ALL), None);
}

#[test]
fn a_piece_fits_into_what_is_left_of_a_gap_when_its_own_way_is_free() {
    let mut relay = relay(&adapter(APART));
    call(&mut relay, 50);
    // The call's packet takes 80 of 200 ms, 144 octets fit behind it: 106, and then 38.
    let at = Instant::from_millis(9800);
    offer(&mut relay, at, "10.3.0.9", 300, 0);
    let (to, octets) = next_at(&mut relay, at, Neighbours::ALL).unwrap();
    assert_eq!((to, octets < 110), (C, true), "{octets}");
}

#[test]
fn ways_that_are_free_have_turns() {
    let mut relay = apart();
    for to in [C, D] {
        give(&mut relay, to, 3, 50);
    }
    let all = core::iter::from_fn(|| next(&mut relay, Neighbours::ALL));
    let all: Vec<_> = all.map(|(to, _)| to).collect();
    assert_eq!(all, [C, D, C, D, C, D]);
}

#[test]
fn each_way_has_policers_of_its_own() {
    let police = "[policy]\ndefault = \"all\"\n[[policy.class]]\nname = \"all\"\n\
        police = { kind = \"bucket\", rate = \"8 kbit/s\", burst = 1000, when = \"congested\" }\n";
    let mut relay = relay(&(RELAY.replace(TOGETHER, APART) + police));
    let colours = |relay: &Gateway| relay.stats().classes[0].colours;
    give(&mut relay, C, 3, 1000);
    assert_eq!(colours(&relay), [1, 0, 1]);
    // Nothing waits there yet.
    give(&mut relay, D, 1, 1000);
    assert_eq!(colours(&relay), [1, 0, 1]);
    assert_eq!(next(&mut relay, BUT_C).unwrap(), (D, 1005));
    give(&mut relay, D, 3, 1000);
    assert_eq!(colours(&relay), [2, 0, 2]);
}

#[test]
fn calls_on_a_shared_way_take_shares_of_its_time() {
    let mut relay = gateway(&adapter(TOGETHER));
    tell(&mut relay, PortEvent::Up(state(FAST)));
    tell(&mut relay, PortEvent::NeighbourRate(C, SLOW));
    let mut run = |seconds: [u64; 2], late: bool| {
        for step in seconds[0] * 20..seconds[1] * 20 {
            let at = Instant::from_millis(step * 50);
            offer(&mut relay, at, "10.4.0.9", 200, 46);
            if step % 2 == 0 {
                offer(&mut relay, at, "10.3.0.9", 91, 46);
            }
            if late {
                offer(&mut relay, at, "10.4.0.10", 200, 46);
            }
            while next_at(&mut relay, at, Neighbours::ALL).is_some() {}
        }
        let flows = &relay.stats().ports[2].flows;
        (flows.admitted, flows.refused)
    };
    // An eighth of the time to the fast one, and four fifths to the slow one.
    assert_eq!(run([0, 10], false), (2, 0));
    // Another eighth is too much.
    assert_eq!(run([10, 20], true), (2, 1));
}

#[test]
fn octets_that_take_next_to_no_time_count_in_the_end() {
    let shape = "[policy]\nshape = { kind = \"virtual-clock\", rate = \"800 bit/s\" }\n";
    let mut relay = gateway(&(String::from(RELAY) + shape));
    tell(&mut relay, PortEvent::Up(state(LineRate::new(2400, 8))));
    tell(&mut relay, PortEvent::NeighbourRate(D, FAST));
    give(&mut relay, D, 50, 30);
    // A third of an octet's time each.
    let all = core::iter::from_fn(|| next(&mut relay, Neighbours::ALL));
    let sent = all.take(60).count();
    assert!((2..6).contains(&sent), "{sent}");
    assert_eq!(relay.wake().unwrap().why, WakeReason::Shaper);
}

#[test]
fn what_is_told_of_one_neighbour_delays_nothing_for_another() {
    // An octet takes no whole number of nanoseconds.
    const ODD: LineRate = LineRate::new(9600, 9);
    let ends = |told: usize| {
        let mut relay = gateway(RELAY);
        tell(&mut relay, PortEvent::Up(state(ODD)));
        tell(&mut relay, PortEvent::NeighbourRate(C, SLOW));
        tell(
            &mut relay,
            PortEvent::NeighbourRate(D, LineRate::new(7001, 9)),
        );
        give(&mut relay, D, 5, 101);
        let mut ends = Vec::new();
        while next(&mut relay, Neighbours::ALL).is_some() {
            for _ in 0..told {
                tell(&mut relay, PortEvent::NeighbourRate(C, SLOW));
            }
        }
        while let Some(effect) = relay.poll_effect() {
            if let Effect::Fate(record) = effect {
                ends.push(record.ended);
            }
        }
        ends
    };
    let untold = ends(0);
    assert_eq!(untold.len(), 5);
    assert_eq!(ends(3), untold);
}
