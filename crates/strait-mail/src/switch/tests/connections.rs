//! Further connections of a lane whose queue grows.

use super::*;

/// A switch that may have so many to the server.
fn world(connections: usize) -> World {
    let mut settings = settings(0);
    let server = HopSettings {
        port: Some(24),
        connections,
        ..hop(SERVER.into())
    };
    settings.routes.push(RouteSettings {
        text_first: None,
        domains: vec!["l.example".into()],
        hops: vec![server],
        patience: Duration::from_secs(30),
    });
    World::of(vec![settings, super::settings(1)])
}

impl World {
    fn brings(&mut self, from: u64, messages: u64, options: &str) {
        for n in from..from + messages {
            self.submit(1, options, &format!("n{n}@l.example"), "\r\none");
        }
    }

    /// The server greets on a connection, with these offers; the recipient that it then hears of.
    fn greets(&mut self, stream: u64, offers: &str) -> String {
        self.answers(stream, "220 l\r\n");
        let said = self.answers(stream, &format!("250-l\r\n{offers}250 HELP\r\n"));
        to(&said)
    }

    /// And it takes the message; the recipient of the next.
    fn takes(&mut self, stream: u64) -> String {
        let said = self.answers(stream, "250 ok\r\n250 ok\r\n354 go on\r\n");
        assert!(said.ends_with("\r\n.\r\n"), "{said}");
        to(&self.answers(stream, "250 ok\r\n"))
    }
}

fn to(said: &str) -> String {
    let mut lines = said.lines();
    let found = lines.find_map(|it| it.strip_prefix("RCPT TO:<n")?.split('@').next());
    found.unwrap_or_default().into()
}

const AHEAD: &str = "250-PIPELINING\r\n";

/// One for four that wait, another for eight, no more than may be; and none that is of no use any
/// more. Each message goes once.
#[test]
fn a_lane_has_as_many_as_its_queue_is_long() {
    let mut world = world(3);
    world.brings(1, 4, "");
    let first = world.opens();
    assert_eq!(world.greets(first, AHEAD), "1");
    // Three wait behind it.
    assert!(world.sites[0].dialled.is_empty());
    world.brings(5, 1, "");
    let second = world.opens();
    assert_eq!(world.greets(second, AHEAD), "2");
    assert!(world.sites[0].dialled.is_empty());
    world.brings(6, 10, "");
    let third = world.opens();
    assert_eq!(world.greets(third, AHEAD), "3");
    world.brings(16, 20, "");
    assert!(world.sites[0].dialled.is_empty());
    let mut went: Vec<String> = vec!["1".into(), "2".into(), "3".into()];
    let mut busy = vec![first, second, third];
    while !busy.is_empty() {
        busy.retain(|stream| {
            let next = world.takes(*stream);
            went.extend(Some(&next).filter(|it| !it.is_empty()).cloned());
            !next.is_empty()
        });
    }
    let all: BTreeSet<_> = went.iter().collect();
    assert_eq!((went.len(), all.len()), (35, 35));
    world.pass(Duration::from_secs(61));
    assert!(world.is_empty());
    let quits = [first, second, third].map(|it| world.told(it));
    assert_eq!(quits, ["QUIT\r\n"; 3]);
}

/// One connection carries all where nothing waits for answers, and where no more were asked for.
#[test]
fn a_lane_that_fills_its_line_has_one() {
    for (connections, offers) in [(3, "250-PIPELINING\r\n250-CHUNKING\r\n"), (1, AHEAD)] {
        let mut world = world(connections);
        world.brings(1, 30, "");
        let stream = world.opens();
        world.greets(stream, offers);
        world.brings(31, 10, "");
        assert!(world.sites[0].dialled.is_empty());
    }
}

/// However many connections a lane has: lower ones begin nothing while it has messages.
#[test]
fn a_higher_lane_goes_first_over_all_its_connections() {
    let mut world = world(2);
    world.brings(1, 6, " MT-PRIORITY=4");
    let first = world.opens();
    world.greets(first, AHEAD);
    let second = world.opens();
    world.greets(second, AHEAD);
    world.brings(50, 1, "");
    let lower = world.opens();
    assert_eq!(world.greets(lower, AHEAD), "");
    let mut busy = vec![first, second];
    while !busy.is_empty() {
        assert_eq!(world.told(lower), "", "while a higher one waits");
        busy.retain(|stream| !world.takes(*stream).is_empty());
    }
    assert_eq!(to(&world.told(lower)), "50");
}
