//! A next hop that keeps mailboxes, and answers for each of them (RFC 2033).

use super::*;

/// A switch whose mail for `l.example` goes there.
fn world() -> World {
    let mut settings = settings(0);
    let lmtp = HopSettings {
        port: Some(24),
        lmtp: true,
        ..hop(SERVER.into())
    };
    settings.routes.push(RouteSettings {
        text_first: None,
        domains: vec!["l.example".into()],
        hops: vec![lmtp],
        patience: Duration::from_secs(30),
    });
    World::of(vec![settings, super::settings(1)])
}

const OFFERS: &str = "250-l\r\n250-PIPELINING\r\n250-CHUNKING\r\n250 8BITMIME\r\n";
const THREE: &str = "ops@l.example>\r\nRCPT TO:<full@l.example>\r\nRCPT TO:<none@l.example";

/// Who has it has it once, who is to be tried again is tried alone, and who never gets it is
/// reported.
#[test]
fn each_mailbox_has_its_own_answer() {
    let mut world = world();
    world.submit(1, " MT-PRIORITY=4", THREE, "\r\none");
    let stream = world.opens();
    assert_eq!(
        world.answers(stream, "220 l LMTP\r\n"),
        "LHLO a.example\r\n"
    );
    let said = world.answers(stream, OFFERS);
    assert!(
        said.starts_with("MAIL FROM:<ops@a.example>\r\nRCPT TO:<ops@l"),
        "{said}"
    );
    let text = "\r\nMT-Priority: 4\r\n";
    assert!(
        said.contains(" LAST\r\nReceived: ") && said.contains(text),
        "{said}"
    );
    world.answers(stream, "250 ok\r\n250 ok\r\n250 ok\r\n550 5.1.1 nobody\r\n");
    world.answers(stream, "250 2.1.5 it lies there\r\n452 4.2.2 no room\r\n");
    let report = &world.sites[0].delivered[0].2;
    assert!(
        report.contains("Status: 5.1.1") && !report.contains("4.2.2"),
        "{report}"
    );
    world.pass(Duration::from_secs(60));
    let said = world.told(stream);
    assert!(said.starts_with("MAIL FROM:<ops@a.example>"), "{said}");
    assert!(
        said.contains("RCPT TO:<full@l.example>") && !said.contains("ops@l"),
        "{said}"
    );
    world.answers(stream, "250 ok\r\n250 ok\r\n250 2.1.5 it lies there\r\n");
    assert!(world.is_empty());
}

/// Answers that came count, though the connection breaks before the others do.
#[test]
fn what_breaks_off_among_the_answers_comes_to_none_twice() {
    let mut world = world();
    world.submit(1, "", THREE, "\r\none");
    let stream = world.opens();
    world.answers(stream, "220 l LMTP\r\n");
    world.answers(stream, OFFERS);
    world.answers(
        stream,
        "250 ok\r\n250 ok\r\n250 ok\r\n250 ok\r\n250 2.1.5 there\r\n",
    );
    world.hear(0, Side::Node, stream, StreamEvent::Reset(104));
    world.pass(Duration::from_secs(2));
    let stream = world.opens();
    world.answers(stream, "220 l LMTP\r\n");
    let said = world.answers(stream, OFFERS);
    assert!(
        !said.contains("ops@l.example>\r\nRCPT") && said.contains("RCPT TO:<full@"),
        "{said}"
    );
    assert!(
        said.contains("RCPT TO:<none@") && !said.contains("RCPT TO:<ops@"),
        "{said}"
    );
}

/// It is where the message is to be: what is wanted by some time needn't return.
#[test]
fn what_is_wanted_in_time_is_there() {
    let mut world = world();
    world.submit(1, " BY=60;R", "ops@l.example", "\r\none");
    let stream = world.opens();
    world.answers(stream, "220 l LMTP\r\n");
    let said = world.answers(stream, OFFERS);
    assert!(
        said.contains("RCPT TO:<ops@l.example>") && !said.contains("BY="),
        "{said}"
    );
    world.answers(stream, "250 ok\r\n250 ok\r\n250 2.1.5 there\r\n");
    assert!(world.is_empty() && world.sites[0].delivered.is_empty());
}
