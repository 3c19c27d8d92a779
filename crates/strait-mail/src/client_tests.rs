use super::*;
use crate::session::{self, Rules, Session};

fn letter(id: u64, to: &[&str]) -> Letter {
    let recipients = to.iter().map(|it| Recipient {
        address: (*it).into(),
        ..Recipient::default()
    });
    Letter {
        id,
        sender: "a@a.example".into(),
        wire: Some(4),
        octets: 3,
        recipients: recipients.collect(),
        ..Letter::default()
    }
}

/// A client that has been greeted with these offers.
fn greeted(offers: &str) -> Client {
    let mut client = Client::new("a.example");
    client.take(b"220 b ready\r\n");
    assert_eq!(sent(&mut client), "EHLO a.example\r\n");
    client.take(format!("250-b\r\n{offers}250 HELP\r\n").as_bytes());
    assert_eq!(client.poll(), Some(Event::Ready));
    client
}

fn sent(client: &mut Client) -> String {
    String::from_utf8(client.send(usize::MAX)).unwrap()
}

const ALL: &str = "250-PIPELINING\r\n250-CHUNKING\r\n250-MT-PRIORITY STANAG4406\r\n";

fn taken(reports: bool, said: &str) -> Verdict {
    let said = said.into();
    Verdict::Taken { reports, said }
}

#[test]
fn an_open_lane_needs_no_reply_to_go_on() {
    let mut client = greeted(ALL);
    let message = "MAIL FROM:<a@a.example> MT-PRIORITY=4\r\nRCPT TO:<b@b.example>\r\n";
    for (id, before) in [(1, ""), (2, "RSET\r\n")] {
        client.begin(letter(id, &["b@b.example"]));
        assert_eq!(sent(&mut client), format!("{before}{message}"));
        assert!(!client.may_begin());
        assert_eq!(client.wants(), Some(id));
        client.piece(b"ab", false);
        assert_eq!(sent(&mut client), "BDAT 2\r\nab");
        client.piece(b"c", true);
        assert_eq!(sent(&mut client), "BDAT 1 LAST\r\nc");
        assert!(client.may_begin());
    }
    for id in [1, 2] {
        let before: &[u8] = if id == 2 { b"250 reset\r\n" } else { b"" };
        client.take(before);
        client.take(b"250 ok\r\n250 ok\r\n250 go on\r\n");
        assert_eq!(client.poll(), None);
        client.take(b"250 2.6.0 stored\r\n");
        let done = Event::Done(id, alloc::vec![taken(false, "250 2.6.0 stored")]);
        assert_eq!(client.poll(), Some(done));
    }
    assert!(!client.is_busy() && !client.awaits());
}

/// A server such as Exim: it keeps a sender until his message is taken or RSET is said, and refuses
/// another one, and a text without a recipient, which it reads all the same.
struct KeepsSender {
    sender: Option<String>,
    recipients: usize,
    taken: Vec<String>,
}

impl KeepsSender {
    fn hear(&mut self, said: &str) -> String {
        let (mut replies, mut rest) = (String::new(), said);
        while let Some((line, behind)) = rest.split_once("\r\n") {
            rest = behind;
            let words: Vec<&str> = line.split(' ').collect();
            replies += match words[0] {
                "RSET" => {
                    (self.sender, self.recipients) = (None, 0);
                    "250 reset"
                }
                "MAIL" if self.sender.is_some() => "503 sender already given",
                "MAIL" => {
                    self.sender = Some(words[1].into());
                    "250 ok"
                }
                "RCPT" if line.contains("nobody") => "550 unknown",
                "RCPT" => {
                    self.recipients += 1;
                    "250 accepted"
                }
                "BDAT" => {
                    rest = &rest[words[1].parse().unwrap()..];
                    let refused = self.recipients == 0;
                    match self.sender.take_if(|_| !refused) {
                        None => "503 valid RCPT command must precede BDAT",
                        Some(sender) => {
                            self.recipients = 0;
                            self.taken.push(sender);
                            "250 ok id=x"
                        }
                    }
                }
                other => panic!("{other}"),
            };
            replies += "\r\n";
        }
        replies
    }
}

#[test]
fn a_message_behind_a_refused_one_has_its_own_sender() {
    let mut server = KeepsSender {
        sender: None,
        recipients: 0,
        taken: Vec::new(),
    };
    let mut client = greeted(ALL);
    for (id, to) in [
        (1, "nobody@b.example"),
        (2, "b@b.example"),
        (3, "b@b.example"),
    ] {
        let sender = format!("{id}@a.example");
        client.begin(Letter {
            sender,
            ..letter(id, &[to])
        });
        client.piece(b"abc", true);
    }
    let replies = server.hear(&sent(&mut client));
    client.take(replies.as_bytes());
    assert_eq!(server.taken, ["FROM:<2@a.example>", "FROM:<3@a.example>"]);
    let done = |event: Option<Event>| match event {
        Some(Event::Done(id, verdicts)) => (id, matches!(verdicts[0], Verdict::Taken { .. })),
        other => panic!("{other:?}"),
    };
    let all = [(); 3].map(|()| done(client.poll()));
    assert_eq!(all, [(1, false), (2, true), (3, true)]);
}

#[test]
fn a_plain_server_is_asked_one_thing_at_a_time() {
    let mut client = Client::new("a.example");
    client.take(b"220 old\r\n");
    client.send(usize::MAX);
    client.take(b"502 what?\r\n");
    assert_eq!(sent(&mut client), "HELO a.example\r\n");
    client.take(b"250 hello\r\n");
    assert_eq!(client.poll(), Some(Event::Ready));
    client.begin(letter(7, &["b@b.example", "c@b.example"]));
    let asked = |client: &mut Client, reply: &str| {
        client.take(reply.as_bytes());
        sent(client)
    };
    assert_eq!(sent(&mut client), "MAIL FROM:<a@a.example>\r\n");
    assert_eq!(
        asked(&mut client, "250 ok\r\n"),
        "RCPT TO:<b@b.example>\r\n"
    );
    assert_eq!(
        asked(&mut client, "550 5.1.1 no\r\n"),
        "RCPT TO:<c@b.example>\r\n"
    );
    assert_eq!(asked(&mut client, "250 ok\r\n"), "DATA\r\n");
    assert_eq!(client.wants(), None);
    assert_eq!(asked(&mut client, "354 go\r\n"), "");
    client.piece(b".a\r", false);
    assert_eq!(sent(&mut client), "..a\r");
    client.piece(b"\n.b", true);
    assert_eq!(sent(&mut client), "\n..b\r\n.\r\n");
    client.take(b"250 ok\r\n");
    let Some(Event::Done(7, verdicts)) = client.poll() else {
        panic!("no end");
    };
    let Verdict::Never(reply) = &verdicts[0] else {
        panic!("{verdicts:?}");
    };
    assert_eq!((reply.status(), reply.code), ("5.1.1", 550));
    assert_eq!(verdicts[1], taken(false, "250 ok"));
}

#[test]
fn a_refused_parameter_costs_no_message() {
    for code in ["501 5.5.4", "555 5.5.4", "501"] {
        let mut client = greeted(ALL);
        client.begin(letter(1, &["b@b.example"]));
        client.piece(b"ab", false);
        client.send(usize::MAX);
        client.take(format!("{code} MT-PRIORITY?\r\n503 no\r\n503 no\r\n").as_bytes());
        assert_eq!(client.poll(), Some(Event::Again(1)));
        assert_eq!(client.poll(), None);
        assert!(!client.offers().priority && client.may_begin());
        assert_eq!(sent(&mut client), "RSET\r\n");
        client.begin(letter(1, &["b@b.example"]));
        assert!(sent(&mut client).starts_with("MAIL FROM:<a@a.example>\r\n"));
    }
}

#[test]
fn refusals_are_of_those_they_name_or_of_all() {
    let mut client = greeted(ALL);
    client.begin(letter(1, &["b@b.example"]));
    client.piece(b"abc", true);
    client.take(b"250 ok\r\n450 4.2.1 busy\r\n503 no\r\n");
    // Whoever isn't one of ours may have the sender still.
    assert!(sent(&mut client).ends_with("abcRSET\r\n"));
    client.take(b"250 ok\r\n");
    let Some(Event::Done(1, verdicts)) = client.poll() else {
        panic!("no end");
    };
    assert!(matches!(&verdicts[..], [Verdict::Later(reply)] if reply.code == 450));
    client.begin(letter(2, &["b@b.example", "c@b.example"]));
    client.piece(b"abc", true);
    client.take(b"250 ok\r\n250 ok\r\n250 ok\r\n554 5.6.0 no\r\n");
    let Some(Event::Done(2, verdicts)) = client.poll() else {
        panic!("no end");
    };
    assert!(verdicts.iter().all(|it| matches!(it, Verdict::Never(_))));
}

#[test]
fn who_speaks_something_else_is_lost() {
    let long = alloc::format!("220 {}", "x".repeat(5000));
    let lines = "220-x\r\n".repeat(100);
    for wrong in [
        "HTTP/1.1 400\r\n",
        "2\r\n",
        "\r\n",
        "999 x\r\n",
        &long,
        &lines,
        "554 no\r\n",
    ] {
        let mut client = Client::new("a");
        client.take(wrong.as_bytes());
        assert!(matches!(client.poll(), Some(Event::Lost(_))), "{wrong}");
    }
    let mut client = greeted("");
    client.take(b"250 what?\r\n");
    assert!(matches!(client.poll(), Some(Event::Lost(_))));
    client = greeted("");
    client.take(b"421 4.3.2 bye\r\n");
    assert!(matches!(client.poll(), Some(Event::Lost(_))));
}

#[test]
fn who_wants_tls_says_nothing_of_messages_without_it() {
    let begun = |offers: &str| {
        let mut client = Client::with_tls("a.example");
        client.take(b"220 b ready\r\n");
        client.send(usize::MAX);
        client.take(format!("250-b\r\n{offers}250 HELP\r\n").as_bytes());
        client
    };
    assert!(matches!(begun(ALL).poll(), Some(Event::Lost(_))));
    let mut client = begun("250-STARTTLS\r\n");
    assert_eq!(sent(&mut client), "STARTTLS\r\n");
    assert!(!client.may_begin());
    client.take(b"220 begin\r\n");
    assert_eq!(client.poll(), Some(Event::Secure));
    client.secured();
    assert_eq!(sent(&mut client), "EHLO a.example\r\n");
    client.take(b"250-b\r\n250 PIPELINING\r\n");
    assert_eq!(client.poll(), Some(Event::Ready));
    // Somebody between put a word behind the answer.
    client = begun("250-STARTTLS\r\n");
    client.take(b"220 begin\r\n250 ok\r\n");
    assert_eq!(client.poll(), Some(Event::Secure));
    assert!(matches!(client.poll(), Some(Event::Lost(_))));
}

/// Replies to what was said of a message before it was begun again count for nothing.
/// A client that is to log in, behind TLS, where this is offered.
fn before_login(offers: &str) -> Client {
    let mut client = Client::with_tls("a.example").with_login(true);
    client.take(b"220 b ready\r\n250-b\r\n250 STARTTLS\r\n220 go on\r\n");
    assert_eq!(client.poll(), Some(Event::Secure));
    client.secured();
    client.take(format!("250-b\r\n{offers}250 HELP\r\n").as_bytes());
    client
}

#[test]
fn who_logs_in_brings_no_message_before_it_is_known() {
    let mut client = before_login("250-PIPELINING\r\n250-AUTH LOGIN PLAIN\r\n");
    assert_eq!((client.poll(), client.poll()), (Some(Event::LogIn), None));
    assert!(!client.may_begin());
    sent(&mut client);
    client.log_in(b"AGEAYg==");
    assert_eq!(sent(&mut client), "AUTH PLAIN AGEAYg==\r\n");
    client.take(b"235 2.7.0 it is you\r\n");
    assert_eq!(client.poll(), Some(Event::Ready));
    assert!(client.may_begin() && client.offers().pipelining);
}

#[test]
fn a_login_that_is_not_offered_is_not_said() {
    for offers in ["", "250-AUTH CRAM-MD5\r\n", "250-AUTH=PLAIN\r\n"] {
        let mut client = before_login(offers);
        let Some(Event::Lost(reply)) = client.poll() else {
            panic!("{offers}");
        };
        assert!(reply.text.starts_with("5.7.0 AUTH PLAIN is required"));
        assert!(!client.may_begin());
    }
}

/// Nor what a server says again of what it was told.
#[test]
fn a_password_is_in_no_reply() {
    let mut client = before_login("250-AUTH PLAIN\r\n");
    client.poll();
    client.log_in(b"AGEAYg==");
    client.take(b"535-AGEAYg==\r\n535 5.7.8 what is AUTH PLAIN AGEAYg==?\r\n");
    let text = "5.7.8 it refuses this switch's login".into();
    let lost = Event::Lost(Reply { code: 535, text });
    assert_eq!(client.poll(), Some(lost));
}

#[test]
fn a_message_that_begins_anew_has_new_replies() {
    let mut client = greeted(ALL);
    client.begin(letter(1, &["b@b.example"]));
    client.piece(b"abc", true);
    client.send(usize::MAX);
    client.take(b"501 5.5.2 not this value\r\n");
    assert_eq!(client.poll(), Some(Event::Again(1)));
    client.begin(letter(1, &["b@b.example"]));
    client.piece(b"abc", true);
    client.take(b"503 MAIL first\r\n503 no recipient\r\n250 forgotten\r\n");
    assert_eq!(client.poll(), None);
    client.take(b"250 ok\r\n250 ok\r\n250 stored\r\n");
    assert!(matches!(client.poll(), Some(Event::Done(1, _))));
}

#[test]
fn packed_pieces_go_to_our_own_alone_and_as_they_are_if_refused() {
    let mut client = greeted(&format!("{ALL}250-XBDAT 0\r\n"));
    assert!(!client.offers().packed);
    client = greeted(&format!("{ALL}250-XBDAT 1\r\n"));
    assert!(client.offers().packed);
    client.begin(letter(1, &["b@b.example"]));
    client.send(usize::MAX);
    client.packed(b"ab", false);
    assert_eq!(sent(&mut client), "XBDAT 2\r\nab");
    assert_eq!(client.wants(), Some(1));
    client.packed(b"c", true);
    assert_eq!(sent(&mut client), "XBDAT 1 LAST\r\nc");
    client.take(b"250 ok\r\n250 ok\r\n250 go on\r\n450 4.6.5 broken\r\n");
    assert_eq!(client.poll(), Some(Event::Again(1)));
    assert!(!client.offers().packed && client.may_begin());
}

/// Both ends of ours, octet by octet, with pieces of all lengths.
#[test]
fn what_the_client_sends_the_session_takes() {
    let refuses = |address: &str| address.starts_with('x').then_some("550 5.1.1 nobody");
    let rules = Rules {
        polled: None,
        name: "b.example",
        octets_max: 10_000,
        full: false,
        began: None,
        by_min: 0,
        sizes: [u64::MAX; 6],
        tls: false,
        users: false,
        dictionary: b"",
        refuses: &refuses,
    };
    let text = b"A: b\r\n\r\n.dot\r\n..\r\nend\r\n";
    for step in 1..text.len() {
        let mut session = Session::new("b.example");
        let mut client = Client::new("a.example");
        let mut left = &text[..];
        let (mut came, mut done) = (Vec::new(), None);
        client.begin_when_ready(&mut session, &rules, letter(1, &["x@b", "c@b.example"]));
        for _ in 0..1000 {
            if client.wants().is_some() {
                let (piece, rest) = left.split_at(step.min(left.len()));
                left = rest;
                client.piece(piece, rest.is_empty());
            }
            session.take(&client.send(1), &rules);
            while let Some(event) = session.poll() {
                match event {
                    session::Event::Content(octets) => came.extend(octets),
                    session::Event::End { right } => {
                        assert!(right);
                        session.answer("250 2.6.0 stored", &rules);
                    }
                    _ => {}
                }
            }
            client.take(&session.take_replies());
            done = done.or_else(|| client.poll());
        }
        assert_eq!(came, text);
        let Some(Event::Done(1, verdicts)) = done else {
            panic!("{done:?}");
        };
        assert!(matches!(
            verdicts[..],
            [Verdict::Never(_), Verdict::Taken { reports: true, .. }]
        ));
    }
}

impl Client {
    fn begin_when_ready(&mut self, session: &mut Session, rules: &Rules<'_>, letter: Letter) {
        while self.poll() != Some(Event::Ready) {
            self.take(&session.take_replies());
            session.take(&self.send(usize::MAX), rules);
        }
        self.begin(letter);
    }
}

/// A client that has been greeted by a server of mailboxes with these offers.
fn greeted_by_lmtp(offers: &str) -> Client {
    let mut client = Client::new("a.example").with_lmtp(true);
    client.take(b"220 b ready\r\n");
    assert_eq!(sent(&mut client), "LHLO a.example\r\n");
    client.take(format!("250-b\r\n{offers}250 HELP\r\n").as_bytes());
    assert_eq!(client.poll(), Some(Event::Ready));
    client
}

/// RFC 2033 section 4.2: an answer for each who wasn't refused, in their order, by BDAT as by DATA.
#[test]
fn mailboxes_answer_for_each_recipient() {
    let all = [
        "b@b.example",
        "x@b.example",
        "full@b.example",
        "c@b.example",
    ];
    for offers in [ALL, "250-PIPELINING\r\n", ""] {
        let mut client = greeted_by_lmtp(offers);
        client.begin(letter(1, &all));
        let mut replies = ["250 ok", "250 ok", "550 5.1.1 no", "250 ok", "250 ok"]
            .map(|it| alloc::format!("{it}\r\n"))
            .to_vec();
        if offers != ALL {
            replies.push("354 go\r\n".into());
        }
        for reply in replies {
            client.send(usize::MAX);
            client.take(reply.as_bytes());
        }
        client.piece(b"abc", true);
        client.send(usize::MAX);
        client.take(b"250 2.1.5 it lies there\r\n452 4.2.2 no room\r\n");
        assert_eq!(client.poll(), None, "{offers}");
        client.take(b"250 2.1.5 it lies there\r\n");
        let Some(Event::Done(1, verdicts)) = client.poll() else {
            panic!("{offers}");
        };
        let reply = |it: &Verdict| match it {
            Verdict::Taken { reports, .. } => alloc::format!("taken {reports}"),
            Verdict::Later(reply) | Verdict::Never(reply) => reply.status().to_string(),
        };
        let told: Vec<String> = verdicts.iter().map(reply).collect();
        assert_eq!(told, ["taken false", "5.1.1", "4.2.2", "taken false"]);
        assert!(client.may_begin() && !client.awaits());
    }
}

/// What ends in the midst of these answers leaves those that came: nobody has a message twice.
#[test]
fn an_answer_for_a_mailbox_counts_though_the_next_never_comes() {
    let mut client = greeted_by_lmtp(ALL);
    client.begin(letter(1, &["b@b.example", "c@b.example"]));
    client.piece(b"abc", true);
    client.take(b"250 ok\r\n250 ok\r\n250 ok\r\n");
    assert_eq!(client.partly(1), None);
    assert!(!client.may_begin(), "a forgotten answer is nobody else's");
    client.take(b"250 it lies there\r\n421 4.3.2 bye\r\n");
    assert!(matches!(client.poll(), Some(Event::Lost(_))));
    let verdicts = client.partly(1).unwrap();
    assert_eq!(verdicts[0], taken(false, ""));
    assert!(matches!(verdicts[1], Verdict::Later(_)));
}

/// Who doesn't know LHLO is no server of mailboxes, and gets no HELO.
#[test]
fn lmtp_is_never_smtp() {
    let mut client = Client::new("a.example").with_lmtp(true);
    client.take(b"220 b ready\r\n");
    client.send(usize::MAX);
    client.take(b"502 5.5.2 what?\r\n");
    assert!(matches!(client.poll(), Some(Event::Lost(_))));
    assert_eq!(sent(&mut client), "");
}

/// The relay's dialogue of RFC 6710 section 8, line by line.
#[test]
fn the_relays_dialogue_of_rfc_6710() {
    let mut client = Client::new("example.com");
    client.take(b"220 example.net SMTP server here\r\n");
    assert_eq!(sent(&mut client), "EHLO example.com\r\n");
    let hello = "250-example.net\r\n250-DSN\r\n250-DELIVERBY\r\n250 MT-PRIORITY STANAG4406\r\n";
    client.take(hello.as_bytes());
    assert_eq!(client.poll(), Some(Event::Ready));
    let dana = Recipient {
        address: "Dana@Ivory.example.net".into(),
        notify: crate::command::Notify::parse("SUCCESS,FAILURE").unwrap(),
        orcpt: Some("rfc822;Dana@Ivory.example.net".into()),
        ..Recipient::default()
    };
    let mut letter = letter(1, &["topbanana@example.net"]);
    letter.recipients.push(dana);
    client.begin(Letter {
        sender: "eljefe@example.com".into(),
        wire: Some(3),
        envid: Some("QQ314159".into()),
        by: Some(DeliverBy {
            seconds: 120,
            returns: true,
            traced: false,
        }),
        ..letter
    });
    for (line, reply) in [
        (
            "MAIL FROM:<eljefe@example.com> BY=120;R ENVID=QQ314159 MT-PRIORITY=3\r\n",
            "250 <eljefe@example.com> sender ok",
        ),
        (
            "RCPT TO:<topbanana@example.net>\r\n",
            "250 <topbanana@example.net> recipient ok",
        ),
        (
            "RCPT TO:<Dana@Ivory.example.net> NOTIFY=SUCCESS,FAILURE \
             ORCPT=rfc822;Dana@Ivory.example.net\r\n",
            "250 <Dana@Ivory.example.net> recipient ok",
        ),
        ("DATA\r\n", "354 okay, send message"),
    ] {
        assert_eq!(sent(&mut client), line);
        client.take(alloc::format!("{reply}\r\n").as_bytes());
    }
    client.piece(b" (message goes here)\r\n", true);
    assert_eq!(sent(&mut client), " (message goes here)\r\n.\r\n");
    client.take(b"250 message accepted\r\n");
    let taken = taken(true, "250 message accepted");
    assert_eq!(
        client.poll(),
        Some(Event::Done(1, alloc::vec![taken.clone(), taken]))
    );
}

/// What may be kept of a server's words has the same replies, and no password, however they come.
#[test]
fn what_is_kept_of_the_answer_to_a_login_says_the_same_without_it() {
    for (said, good) in [
        ("235-AGEAYg==\r\n235 2.7.0 AGEAYg==\r\n", true),
        ("535 AGEAYg==\r\n", false),
        ("421 4.7.0 AGEAYg==\r\n", false),
        ("AGEAYg==\r\n", false),
    ] {
        for step in 1..said.len() {
            let mut pair = [(); 2].map(|()| {
                let mut client = before_login("250-AUTH PLAIN\r\n");
                client.poll();
                client.log_in(b"AGEAYg==");
                sent(&mut client);
                client
            });
            let mut kept = Vec::new();
            for piece in said.as_bytes().chunks(step) {
                let shown = pair[1].conceal(piece).unwrap_or_else(|| piece.to_vec());
                kept.extend_from_slice(&shown);
                pair[0].take(piece);
                pair[1].take(&shown);
            }
            let [told, replayed] = pair.map(|mut it| it.poll());
            assert_eq!(told, replayed, "{said} by {step}");
            assert_eq!(told == Some(Event::Ready), good, "{said}");
            let told = alloc::format!("{told:?}") + &String::from_utf8_lossy(&kept);
            assert!(!told.contains("AYg"), "{told}");
        }
    }
    assert_eq!(greeted(ALL).conceal(b"250 ok"), None);
}
