//! Next hops that fetch their mail by ETRN, and switches that ask for it.

use super::*;

/// Site 0, whose mail for site 1 waits up to a precedence until that asks.
fn polled(most: Precedence) -> Settings {
    let mut own = settings(0);
    own.routes[0].hops[0].polled = Some(most);
    own
}

/// Site 1, which asks each ten minutes.
fn polling() -> Settings {
    let mut own = settings(1);
    own.routes[0].hops[0].poll = Some(Duration::from_secs(600));
    own
}

fn polls(world: &World) -> (usize, u64) {
    (world.files(1), world.sites[0].switch.stats().slow.polls)
}

fn states(world: &World) -> Vec<&'static str> {
    let view = world.sites[0].switch.view(world.now);
    view.messages.iter().map(|it| it.state.name()).collect()
}

#[test]
fn what_waits_goes_when_it_is_asked_for() {
    let mut world = World::of(vec![polled(Precedence::Routine), polling()]);
    world.pass(Duration::from_secs(60));
    world.submit(1, "", "ops@b.example", "\r\none");
    world.submit(2, " MT-PRIORITY=4", "ops@b.example", "\r\ntwo");
    assert_eq!(polls(&world), (1, 0));
    assert_eq!(states(&world), ["until polled"]);
    world.pass(Duration::from_secs(539));
    assert_eq!(polls(&world), (1, 0));
    world.pass(Duration::from_secs(1));
    assert_eq!(polls(&world), (2, 1));
    // What comes later waits for the next time.
    world.submit(3, "", "ops@b.example", "\r\nthree");
    world.pass(Duration::from_secs(599));
    assert_eq!(polls(&world), (2, 1));
    world.pass(Duration::from_secs(2));
    assert_eq!(polls(&world), (3, 2));
    assert!(world.is_empty());
}

#[test]
fn no_lane_stays_open_to_a_next_hop_that_polls() {
    let world = World::of(vec![polled(Precedence::Override), settings(1)]);
    let lanes = world.sites[0].switch.view(world.now).lanes;
    assert!(lanes.is_empty(), "{lanes:?}");
}

/// A call ends with the link: what is left goes by the next, and crosses once.
#[test]
fn a_call_that_breaks_off_is_for_the_next_hop_to_repeat() {
    let mut world = World::of(vec![polled(Precedence::Override), polling()]);
    world.submit(1, "", "ops@b.example", &noise(300));
    world.left = 9000;
    world.pass(Duration::from_secs(600));
    assert_eq!((polls(&world), world.up), ((0, 1), false));
    (world.up, world.left) = (true, usize::MAX);
    world.restart_as(1, settings(1));
    world.pass(Duration::from_secs(3600));
    assert_eq!(states(&world), ["until polled"]);
    world.restart_as(1, polling());
    world.pass(Duration::from_secs(60));
    assert_eq!(polls(&world), (1, 2));
    assert!(world.is_empty());
}

#[test]
fn who_asks_has_only_its_own() {
    let mut own = polled(Precedence::Routine);
    own.routes[0].hops[0].to = [127, 0, 0, 1].into();
    own.routes[0].hops[0].port = Some(24);
    let mut world = World::of(vec![own, settings(1)]);
    let heard = world.say(0, 1, "127.0.0.1", "EHLO x\r\nETRN b.example\r\n");
    assert!(heard.contains("250-ETRN\r\n"), "{heard}");
    assert!(heard.ends_with("251 2.0.0 no messages wait\r\n"), "{heard}");
    world.submit(2, "", "ops@b.example", "\r\none");
    assert!(world.sites[0].dialled.is_empty());
    for (said, reply) in [
        ("ETRN c.example", "459 4.7.1"),
        ("ETRN #b.example", "501"),
        ("ETRN", "501"),
        ("MAIL FROM:<>\r\nETRN b.example\r\nRSET", "503 5.5.1"),
        ("ETRN @sub.B.example", "253 2.0.0 1 messages come"),
    ] {
        let heard = world.say(0, 1, "127.0.0.1", &format!("{said}\r\n"));
        let all: Vec<&str> = heard.lines().rev().take(2).collect();
        assert!(
            all.iter().any(|it| it.starts_with(reply)),
            "{said}: {heard}"
        );
    }
    assert_eq!(world.sites[0].dialled.len(), 1);
    let heard = world.say(0, 9, "127.0.0.9", "EHLO x\r\nETRN b.example\r\n");
    assert!(
        !heard.contains("ETRN") && heard.contains("502 5.5.1"),
        "{heard}"
    );
}

/// A switch that is asked without having anything to do with polls is asked again as seldom.
#[test]
fn who_has_no_etrn_is_asked_again_later() {
    let mut world = World::of(vec![settings(0), polling()]);
    world.pass(Duration::from_secs(1300));
    assert_eq!(polls(&world), (0, 0));
    world.submit(1, "", "ops@b.example", "\r\none");
    assert_eq!(world.files(1), 1);
}
