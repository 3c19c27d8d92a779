use std::collections::BTreeMap;

use strait_core::{Duration, Instant};

use super::*;

fn player(text: &str) -> Player {
    let script = Script::parse(text).unwrap();
    Player::new(&script, BTreeMap::new(), Instant::ZERO, 1, "test")
}

/// Everything that happens up to a time, as `ms:what`.
fn played(player: &mut Player, until_ms: u64) -> Vec<String> {
    let end = Instant::ZERO + Duration::from_millis(until_ms);
    let mut told = Vec::new();
    while let Some(at) = player.wake().filter(|at| *at <= end) {
        // A nanosecond earlier nothing happens.
        if at > Instant::ZERO {
            assert_eq!(player.poll(Instant::from_nanos(at.as_nanos() - 1)), None);
        }
        while let Some(action) = player.poll(at) {
            let what = match action {
                Action::On(flow) => format!("on{flow}"),
                Action::Changed(flow) => format!("mod{flow}"),
                Action::Off(flow) => format!("off{flow}"),
                Action::Send {
                    flow,
                    sequence,
                    octets,
                    ..
                } => format!("{flow}/{sequence}/{octets}"),
                other => format!("{other:?}"),
            };
            told.push(format!("{}:{what}", at.as_nanos() / 1_000_000));
        }
    }
    told
}

#[test]
fn a_flow_from_on_to_off() {
    let mut player = player("0.1 ON 1 UDP DST 10.0.0.1/5 PER [10 100]\n0.3 OFF 1\n.4 LISTEN UDP 7");
    let told = played(&mut player, 1000);
    let expected = [
        "100:on1",
        "100:1/0/100",
        "200:1/1/100",
        "300:off1",
        "400:Listen(Udp, [7..=7])",
    ];
    assert_eq!(told, expected);
    assert!(player.is_over());
    assert_eq!(player.wake(), None);
}

#[test]
fn a_change_holds_from_the_next_message_on() {
    let mut slower =
        player("0 ON 1 UDP DST 10.0.0.1/5 PER [10 100]\n0.15 MOD 1 PER [2 200] TOS 8\n1 OFF 1");
    let told = played(&mut slower, 2000);
    let expected = [
        "0:on1",
        "0:1/0/100",
        "100:1/1/100",
        "150:mod1",
        "200:1/2/200",
        "700:1/3/200",
        "1000:off1",
    ];
    assert_eq!(told, expected);
    // A flow that was silent sends at once.
    let mut silent = player("0 ON 1 UDP DST 10.0.0.1/5 PER [0 100]\n0.5 MOD 1 PER [1 60]");
    assert_eq!(
        played(&mut silent, 600),
        ["0:on1", "500:mod1", "500:1/0/60"]
    );
    assert_eq!(silent.flow(1).unwrap().options.tos, None);
}

#[test]
fn a_count_ends_a_flow_and_numbers_go_on() {
    let text = "0 ON 1 UDP DST 10.0.0.1/5 PER [10 100] COUNT 2\n\
                1 ON 1 UDP DST 10.0.0.1/5 PER [10 100] COUNT 1\n\
                2 ON 1 UDP DST 10.0.0.1/5 PER [10 100] COUNT 1 SEQ 4294967295\n\
                3 ON 1 UDP DST 10.0.0.1/5 PER [10 100] COUNT 1";
    let told = played(&mut player(text), 5000);
    let expected = [
        "0:on1",
        "0:1/0/100",
        "100:1/1/100",
        "100:off1",
        "1000:on1",
        "1000:1/2/100",
        "1000:off1",
        "2000:on1",
        "2000:1/4294967295/100",
        "2000:off1",
        "3000:on1",
        "3000:1/0/100",
        "3000:off1",
    ];
    assert_eq!(told, expected);
}

#[test]
fn an_offset_begins_later_with_what_is_in_force() {
    let text = "OFFSET 5\n0 ON 1 UDP DST 10.0.0.1/5 PER [1 100]\n2 ON 2 UDP DST 10.0.0.1/5 PER \
                [1 100]\n4 OFF 1\n4 MOD 2 PER [2 50]\n6.1 OFF 2";
    let told = played(&mut player(text), 5000);
    let expected = [
        "0:on1",
        "0:on2",
        "0:off1",
        "0:mod2",
        "0:2/0/50",
        "500:2/1/50",
        "1000:2/2/50",
        "1100:off2",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_flow_without_limit_sends_when_its_driver_asks() {
    let mut player = player("0 ON 1 UDP DST 10.0.0.1/5 PER [-1 100] COUNT 2");
    assert_eq!(player.poll(Instant::ZERO), Some(Action::On(1)));
    assert_eq!(player.unlimited().collect::<Vec<_>>(), [(1, 100)]);
    assert_eq!(player.wake(), None);
    let send = |sequence| Action::Send {
        flow: 1,
        sequence,
        octets: 100,
        due: Instant::ZERO,
    };
    assert_eq!(player.poll_unlimited(Instant::ZERO, 1), Some(send(0)));
    player.not_sent(1);
    assert_eq!(player.poll_unlimited(Instant::ZERO, 1), Some(send(0)));
    assert_eq!(player.poll_unlimited(Instant::ZERO, 1), None);
    assert_eq!(player.poll(Instant::ZERO), Some(Action::Off(1)));
    assert!(player.is_over());
}

#[test]
fn gaps_depend_on_seed_name_and_flow_alone() {
    let text = |other: &str| format!("0 ON 1 UDP DST 10.0.0.1/5 POISSON [100 50]\n{other}");
    let times = |text: &str, seed, name| {
        let script = Script::parse(text).unwrap();
        let mut player = Player::new(&script, BTreeMap::new(), Instant::ZERO, seed, name);
        let told = played(&mut player, 500);
        told.into_iter()
            .filter(|line| line.contains(":1/"))
            .collect::<Vec<_>>()
    };
    let alone = times(&text(""), 1, "x");
    assert!(alone.len() > 30);
    let company = text("0 ON 2 UDP DST 10.0.0.1/5 POISSON [100 50]");
    assert_eq!(times(&company, 1, "x"), alone);
    assert_ne!(times(&company, 2, "x"), alone);
    assert_ne!(times(&company, 1, "y"), alone);
}

#[test]
fn rates_hold_in_the_long_run() {
    // A gap of 142,857.142857… ns: rounding must not add up.
    let mut player = player("0 ON 1 UDP DST 10.0.0.1/5 PER [7000 100]");
    let mut sent = 0_u64;
    let end = Instant::ZERO + Duration::from_secs(10);
    while let Some(action) = player.poll(end) {
        sent += u64::from(matches!(action, Action::Send { .. }));
    }
    assert_eq!(sent, 70_001);
}
