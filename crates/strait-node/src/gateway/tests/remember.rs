//! Flows that outlive the starts of both ends.

use alloc::vec;
use alloc::vec::Vec;

use strait_core::node::{StoreError, StoreOp};

use super::headers::{carry, meet, voice};
use super::*;

const TEXT: &str = r#"
name = "a"
[host]
[state]
file = "a.state"
[[port]]
name = "line"
kind = "serial"
baud = 300
compression = "rohc"
remember_flows = true
"#;

type Values = Vec<(Vec<u8>, Vec<u8>)>;

/// A start with what storage holds, which comes before anything else does.
fn started(seed: u64, storage: &Values) -> Gateway {
    let mut gateway = starting(seed, storage);
    answer_loads(&mut gateway, storage);
    gateway
}

/// A start whose storage hasn't said yet what it holds.
fn starting(seed: u64, storage: &Values) -> Gateway {
    let config: NodeConfig = config_text::parse("test.toml", TEXT).unwrap();
    let stored = storage.iter();
    let stored = stored.map(|(key, value)| (key.clone(), value.len() as u64));
    let stored: Vec<_> = stored.collect();
    up(Gateway::seeded(&config, seed, &stored).unwrap(), TEXT)
}

fn answer_loads(gateway: &mut Gateway, storage: &Values) {
    while let Some(effect) = gateway.poll_effect() {
        let Effect::Load { ticket, key, .. } = effect else {
            continue;
        };
        let value = storage.iter().find(|(other, _)| *other == key);
        let result = Ok(value.map(|(_, value)| &**value));
        gateway.handle(Instant::ZERO, Input::Loaded { ticket, result });
    }
}

/// Does what the gateway wants to have stored.
fn store(gateway: &mut Gateway, storage: &mut Values) -> u32 {
    let mut batches = 0;
    while let Some(effect) = gateway.poll_effect() {
        let Effect::Store { batch, .. } = effect else {
            continue;
        };
        batches += 1;
        for op in batch {
            let StoreOp::Put(key, value) = op else {
                panic!("{op:?}");
            };
            storage.retain(|(other, _)| *other != key);
            storage.push((key, value));
        }
    }
    batches
}

/// Sends so many packets of a call, the first of which takes so many octets on the line.
fn call(a: &mut Gateway, b: &mut Gateway, packets: u16, from: Instant) -> usize {
    let mut first = 0;
    for number in 0..packets {
        let now = from + Duration::from_millis(200 * u64::from(number));
        // Hellos first.
        meet(a, b, now);
        a.handle(now, frame(PortId::HOST, &voice(number)));
        let octets = carry(a, b, now);
        if number == 0 {
            first = octets;
        }
        meet(b, a, now);
        assert_eq!(pull_all(b, PortId::HOST, now), [voice(number)], "{number}");
    }
    first
}

#[test]
fn a_call_that_lasted_is_known_after_both_ends_start_anew() {
    let mut kept = [Values::new(), Values::new()];
    let (mut a, mut b) = (started(1, &kept[0]), started(2, &kept[1]));
    let unknown = call(&mut a, &mut b, 15, Instant::ZERO);
    assert_eq!(store(&mut a, &mut kept[0]) + store(&mut b, &mut kept[1]), 0);
    call(&mut a, &mut b, 30, Instant::from_secs(3));
    assert_eq!(store(&mut a, &mut kept[0]), 1);
    assert_eq!(store(&mut b, &mut kept[1]), 1);

    let (mut a, mut b) = (started(3, &kept[0]), started(4, &kept[1]));
    let known = call(&mut a, &mut b, 30, Instant::ZERO);
    // Addresses and ports aren't said.
    assert_eq!(known + 37, unknown);
    let told = a.stats().ports[1].agreement.text();
    assert_eq!(told, "headers compressed, short checks, 1 flow remembered");
    // Nothing new to store.
    assert_eq!(store(&mut a, &mut kept[0]) + store(&mut b, &mut kept[1]), 0);
}

#[test]
fn what_one_end_has_lost_is_not_used_and_learned_again() {
    let mut kept = [Values::new(), Values::new()];
    let (mut a, mut b) = (started(1, &kept[0]), started(2, &kept[1]));
    let unknown = call(&mut a, &mut b, 40, Instant::ZERO);
    store(&mut a, &mut kept[0]);
    // The other end forgets, or what it holds is spoilt.
    kept[1] = vec![(b"flows/line/0".to_vec(), b"spoilt".to_vec())];
    let (mut a, mut b) = (started(3, &kept[0]), started(4, &kept[1]));
    assert_eq!(call(&mut a, &mut b, 40, Instant::ZERO), unknown);
    assert_eq!(store(&mut b, &mut kept[1]), 1);
    let (mut a, mut b) = (started(5, &kept[0]), started(6, &kept[1]));
    assert!(call(&mut a, &mut b, 40, Instant::ZERO) < unknown);
    for end in [&a, &b] {
        assert_eq!(end.stats().ports[1].undecompressed, 0);
    }
}

#[test]
fn the_end_that_stayed_up_says_what_it_has_learned_when_the_other_starts_anew() {
    let mut kept = Values::new();
    let (mut a, mut b) = (started(1, &kept), started(2, &kept));
    let unknown = call(&mut a, &mut b, 40, Instant::ZERO);
    store(&mut b, &mut kept);
    let mut b = started(3, &kept);
    meet(&mut b, &mut a, Instant::from_secs(20));
    assert!(call(&mut a, &mut b, 40, Instant::from_secs(20)) < unknown);
    assert_eq!(b.stats().ports[1].undecompressed, 0);
}

#[test]
fn nothing_is_said_before_what_is_stored_has_come_and_packets_do_not_wait_for_it() {
    let mut kept = [Values::new(), Values::new()];
    let (mut a, mut b) = (started(1, &kept[0]), started(2, &kept[1]));
    let unknown = call(&mut a, &mut b, 40, Instant::ZERO);
    store(&mut a, &mut kept[0]);
    store(&mut b, &mut kept[1]);
    let (mut a, mut b) = (starting(3, &kept[0]), starting(4, &kept[1]));
    assert!(
        pull_all(&mut a, PortId(1), Instant::ZERO).is_empty(),
        "a hello"
    );
    a.handle(Instant::ZERO, frame(PortId::HOST, &voice(0)));
    carry(&mut a, &mut b, Instant::ZERO);
    assert_eq!(pull_all(&mut b, PortId::HOST, Instant::ZERO), [voice(0)]);
    answer_loads(&mut a, &kept[0]);
    answer_loads(&mut b, &kept[1]);
    assert_eq!(
        call(&mut a, &mut b, 30, Instant::from_secs(1)) + 37,
        unknown
    );
    // Storage that fails is as if it were empty.
    let mut a = starting(5, &kept[0]);
    while let Some(effect) = a.poll_effect() {
        let Effect::Load { ticket, .. } = effect else {
            panic!("{effect:?}");
        };
        let result = Err(StoreError::Failed);
        a.handle(Instant::ZERO, Input::Loaded { ticket, result });
    }
    assert!(!pull_all(&mut a, PortId(1), Instant::ZERO).is_empty());
}
