//! Clients that bring little and stay long, or come in crowds.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

impl World {
    /// A client says these octets again and again, a second between, and for how long it may.
    fn drips(&mut self, begin: &str, octets: &str, seconds: u64) -> Option<u64> {
        self.say(0, 1, "127.0.0.1", begin);
        for second in 1..=seconds {
            self.pass(SECOND);
            if self.say(0, 1, "127.0.0.1", octets).contains("421 4.4.2") {
                return Some(second);
            }
        }
        None
    }
}

/// A command has five minutes, however its octets come.
#[test]
fn octets_of_a_command_one_by_one_win_no_time() {
    let begin = "EHLO mua\r\nMAIL FROM:<";
    assert_eq!(World::new().drips(begin, "x", 1000), Some(300));
    assert_eq!(World::new().drips("EHLO mua\r\n", "NOOP\r\n", 150), None);
}

/// A message has a quarter of a second for each octet beyond that: 75 bit/s are enough.
#[test]
fn a_message_may_be_slow_and_no_slower() {
    let begin = "EHLO mua\r\nMAIL FROM:<>\r\nRCPT TO:<ops@a.example>\r\nDATA\r\n";
    assert_eq!(World::new().drips(begin, "x", 1000), Some(400));
    assert_eq!(World::new().drips(begin, "012345678", 2000), None);
    let begin = begin.replace("DATA", "BDAT 900000");
    assert_eq!(World::new().drips(&begin, "x", 1000), Some(400));
}

/// The end of a message wins the time that its storage takes.
#[test]
fn a_slow_message_that_is_whole_is_answered() {
    let mut world = World::new();
    let begin = "EHLO mua\r\nMAIL FROM:<>\r\nRCPT TO:<ops@a.example>\r\nDATA\r\n";
    assert_eq!(world.drips(begin, "x", 399), None);
    world.slow = true;
    world.say(0, 1, "127.0.0.1", "\r\n.\r\n");
    world.pass(Duration::from_secs(200));
    while world.serve(0, false) {}
    let heard = world.say(0, 1, "127.0.0.1", "NOOP\r\n");
    assert!(
        heard.contains(" stored\r\n") && heard.ends_with("250 2.0.0 here\r\n"),
        "{heard}"
    );
}

#[test]
fn who_says_much_and_brings_nothing_is_sent_away() {
    for command in ["NOOP", "RSET", "HELP", "VRFY x", "EHLO mua"] {
        let flood = format!("{command}\r\n").repeat(300);
        let heard = World::new().say(0, 1, "127.0.0.1", &flood);
        assert!(heard.ends_with("421 4.7.0 too many commands and no message\r\n"));
    }
    // Each message begins that anew.
    let message = "MAIL FROM:<>\r\nRCPT TO:<ops@a.example>\r\nDATA\r\nx\r\n.\r\nRSET\r\n";
    let heard = World::new().say(
        0,
        1,
        "127.0.0.1",
        &("EHLO mua\r\n".to_string() + &message.repeat(300)),
    );
    assert!(!heard.contains("421 "));
}

/// One address leaves room for others, and those that may not come leave most of it.
#[test]
fn a_crowd_of_one_address_leaves_room() {
    let mut world = World::new();
    for n in 0..40 {
        world.say(0, n, "127.0.0.1", "EHLO mua\r\n");
        world.say(0, 100 + n, &format!("192.0.2.{n}"), "EHLO mua\r\n");
    }
    let heard = |from: u64| {
        let heard = (from..from + 40).map(|n| &world.sites[0].heard[&(PROGRAM + n)]);
        heard.filter(|it| !it.is_empty()).count()
    };
    assert_eq!((heard(0), heard(100)), (32, 8));
    assert_eq!(world.sites[0].switch.stats().strangers, 8 + 40);
    assert!(
        world
            .say(0, 200, "127.0.0.2", "EHLO mua\r\n")
            .contains("250 ")
    );
    // Who goes makes room.
    world.say(0, 1, "127.0.0.1", "QUIT\r\n");
    world.hear(0, Side::Client, PROGRAM + 1, StreamEvent::Fin);
    assert!(
        world
            .say(0, 201, "127.0.0.1", "EHLO mua\r\n")
            .contains("250 ")
    );
}
