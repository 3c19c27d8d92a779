//! Messages that are sent again: by programs that got no reply, and by switches whose line broke.

use super::*;

const TEXT: &str = "Message-ID: <x@a.example>\r\n\r\nhello";

fn repeats(world: &World) -> (u64, usize) {
    (world.sites[0].switch.stats().repeats, world.files(1))
}

#[test]
fn a_message_that_a_program_brings_again_crosses_once() {
    let mut world = World::new();
    world.submit(1, "", "ops@b.example", TEXT);
    let heard = world.submit(2, "", "ops@b.example", TEXT);
    assert!(heard.contains("250 2.6.0 1 stored before"), "{heard}");
    assert_eq!(repeats(&world), (1, 1));
    world.restart(0);
    world.submit(3, "", "ops@b.example", TEXT);
    assert_eq!(repeats(&world), (1, 1));
    let (now, wall) = (world.now, WallTime(1_795_737_600_000_000_000));
    world.sites[0].switch.set_calendar(now, wall);
    world.pass(Duration::from_secs(86_401));
    let heard = world.submit(4, "", "ops@b.example", TEXT);
    assert!(heard.contains(" stored\r\n"), "{heard}");
    assert_eq!(world.files(1), 2);
    assert!(world.is_empty());
}

/// Whatever differs, it is another message.
#[test]
fn no_message_is_taken_for_another() {
    let mut world = World::new();
    world.submit(1, "", "ops@b.example", TEXT);
    let others = [
        (
            "",
            "ops@b.example",
            "Message-ID: <x@a.example>\r\n\r\nhellp",
        ),
        (
            "",
            "ops@b.example",
            "Message-ID: <y@a.example>\r\n\r\nhello",
        ),
        (" MT-PRIORITY=4", "ops@b.example", TEXT),
        (" RET=HDRS", "ops@b.example", TEXT),
        (" ENVID=x", "ops@b.example", TEXT),
        ("", "ops@b.example> NOTIFY=SUCCESS", TEXT),
        ("", "OPS@b.example", TEXT),
    ];
    for (n, (options, to, text)) in (2..).zip(others) {
        let (to, notify) = to.split_once('>').unwrap_or((to, ""));
        let rcpt = format!("RCPT TO:<{to}>{notify}\r\nDATA\r\n");
        let all = format!("EHLO x\r\nMAIL FROM:<ops@a.example>{options}\r\n{rcpt}{text}\r\n.\r\n");
        let heard = world.say(0, n, "127.0.0.1", &all);
        assert!(
            !heard.contains("before"),
            "{options} {to} {notify} {text}: {heard}"
        );
    }
    // Without a Message-ID nobody knows whether it is meant twice.
    for n in 20..22 {
        world.submit(n, "", "ops@b.example", "\r\nhello");
    }
    assert_eq!(repeats(&world).0, 0);
    world.sites[0].switch.queue.settings.repeats = Duration::ZERO;
    let off = world.sites[0].switch.queue.settings.clone();
    world.restart_as(0, off);
    world.submit(30, "", "ops@b.example", TEXT);
    world.submit(31, "", "ops@b.example", TEXT);
    assert_eq!(repeats(&world).0, 0);
}

/// A sender that was told that its message has failed, and sends it again, means it.
#[test]
fn a_message_whose_failure_was_reported_may_come_again() {
    let mut world = World::new();
    world.submit(1, "", "nobody@b.example", TEXT);
    assert_eq!(world.files(0), 1);
    world.restart(0);
    let heard = world.submit(2, "", "nobody@b.example", TEXT);
    assert!(heard.contains(" stored\r\n"), "{heard}");
    assert_eq!(world.files(0), 2);
    assert!(world.is_empty());
}

#[test]
fn a_message_that_is_being_stored_is_answered_for_later() {
    let mut world = World::new();
    world.slow = true;
    world.submit(1, "", "ops@b.example", TEXT);
    let heard = world.submit(2, "", "ops@b.example", TEXT);
    assert!(heard.contains("450 4.3.0 it is being stored"), "{heard}");
}

/// A message of a hundred pieces, whose link goes after so many octets of all that is said: it goes
/// on where it was, and lies in its mailbox once.
#[test]
fn a_message_goes_on_behind_what_has_come() {
    let text = format!("Subject: x\r\n\r\n{}", noise(1300));
    for cut in 0..60_usize {
        let mut world = World::new();
        world.deaf = cut % 2 == 0;
        world.up = false;
        world.submit(1, "", "ops@b.example", &text);
        world.up = true;
        world.left = 1 + cut * cut * 31;
        world.crossed.clear();
        world.run();
        let broke = !world.up;
        let before: usize = world.crossed.iter().map(|it| it.1).sum();
        if cut % 3 == 0 {
            world.restart(0);
        }
        world.pass(Duration::from_secs(30));
        (world.up, world.left) = (true, usize::MAX);
        world.pass(Duration::from_secs(60));
        assert_eq!(world.files(1), 1, "cut {cut}");
        let delivered = &world.sites[1].delivered[0].2;
        let end = text.replace("\r\n", "\n");
        assert!(delivered.ends_with(&format!("{end}\n")), "cut {cut}");
        let all: usize = world.crossed.iter().map(|it| it.1).sum();
        assert!(
            all < text.len() * 9 / 10 + 6000,
            "cut {cut}: {all} octets crossed"
        );
        let stats = world.sites[1].switch.stats();
        assert_eq!(stats.accepted, 1, "cut {cut}");
        if broke && before > 10_000 && stats.repeats == 0 {
            assert!(
                stats.slow.resumed_octets > 5000,
                "cut {cut}, {before} octets"
            );
        }
        assert!(world.is_empty(), "cut {cut}");
    }
}

/// What crossed of a message's dialogue ends after each octet in turn.
#[test]
fn a_message_comes_once_wherever_its_dialogue_ends() {
    let mut whole = World::new();
    whole.submit(1, " MT-PRIORITY=4", "ops@b.example", "\r\nhello");
    let octets: usize = whole.crossed.iter().map(|it| it.1).sum();
    let mut repeats = 0;
    for left in 1..octets + 400 {
        for killed in [None, Some(0), Some(1)] {
            let mut world = World::new();
            (world.left, world.deaf) = (left, left % 2 == 0);
            world.submit(1, " MT-PRIORITY=4", "ops@b.example", "\r\nhello");
            world.pass(Duration::from_secs(10));
            killed.into_iter().for_each(|at| world.restart(at));
            (world.up, world.left) = (true, usize::MAX);
            world.pass(Duration::from_secs(120));
            assert_eq!(world.files(1), 1, "{left} octets, {killed:?}");
            assert!(world.is_empty(), "{left} octets, {killed:?}");
            repeats += world.sites[1].switch.stats().repeats;
        }
    }
    assert!(repeats > 0, "no last answer was lost");
}
