use super::*;
use alloc::vec;
use strait_core::work::Login;

fn refuses(address: &str) -> Option<&'static str> {
    (!address.ends_with("example.net")).then_some("550 5.7.1 not by this switch")
}

fn rules() -> Rules<'static> {
    Rules {
        name: "example.com",
        octets_max: 1000,
        full: false,
        began: None,
        polled: None,
        sizes: [u64::MAX; 6],
        by_min: 20,
        tls: false,
        users: false,
        dictionary: b"",
        refuses: &refuses,
    }
}

/// A session, what its client says at once, and the replies.
fn say(session: &mut Session, octets: &str) -> String {
    session.take(octets.as_bytes(), &rules());
    String::from_utf8(session.take_replies()).unwrap()
}

fn begun() -> Session {
    let mut session = Session::new("example.com");
    session.take_replies();
    say(&mut session, "EHLO mua.example.com\r\n");
    session
}

/// The codes of replies, of several lines the last.
fn codes(replies: &str) -> Vec<&str> {
    let lines = replies.lines().filter(|it| it.as_bytes()[3] == b' ');
    lines.map(|it| it.get(..9).unwrap_or(it)).collect()
}

fn content(session: &mut Session) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(event) = session.poll() {
        if let Event::Content(octets) = event {
            all.extend(octets);
        }
    }
    all
}

/// The submission of RFC 6710 section 8: its client's lines, with PLAIN behind STARTTLS for the
/// SCRAM there, and this switch's policy in the last line of the answer to EHLO.
#[test]
fn the_dialogue_of_rfc_6710() {
    let mut session = Session::new("example.com");
    let rules = Rules {
        users: true,
        tls: true,
        by_min: 0,
        ..rules()
    };
    let say = |session: &mut Session, octets: &str| {
        session.take(octets.as_bytes(), &rules);
        String::from_utf8(session.take_replies()).unwrap()
    };
    assert!(session.take_replies().starts_with(b"220 example.com "));
    let hello = say(&mut session, "EHLO mua.example.com\r\n");
    let offers = |hello: &str| {
        let lines = hello.lines().map(|it| String::from(&it[4..]));
        lines.collect::<Vec<_>>()
    };
    let common = [
        "DSN",
        "DELIVERBY",
        "ENHANCEDSTATUSCODES",
        "MT-PRIORITY STANAG4406",
    ];
    let first = offers(&hello);
    assert_eq!(first[0], "example.com");
    assert!(
        common.iter().all(|it| first.iter().any(|own| own == it)),
        "{hello}"
    );
    assert!(
        first.contains(&String::from("STARTTLS")) && !hello.contains("AUTH"),
        "{hello}"
    );
    assert_eq!(codes(&say(&mut session, "STARTTLS\r\n")), ["220 2.0.0"]);
    assert_eq!(session.poll(), Some(Event::Secure));
    session.secured();
    let hello = say(&mut session, "EHLO mua.example.com\r\n");
    let second = offers(&hello);
    assert!(
        common.iter().all(|it| second.iter().any(|own| own == it)),
        "{hello}"
    );
    assert!(second.contains(&String::from("AUTH PLAIN LOGIN")) && !hello.contains("STARTTLS"));
    assert_eq!(say(&mut session, "AUTH PLAIN AGEAYg==\r\n"), "");
    assert!(matches!(session.poll(), Some(Event::Login(Sasl::Plain, _))));
    session.verified(Some(Login::Is(0)), &rules);
    assert_eq!(codes(&say(&mut session, "")), ["235 2.7.0"]);
    for (line, code) in [
        (
            "MAIL FROM:<eljefe@example.com> BY=125;R ENVID=QQ314159 MT-PRIORITY=3",
            "250 2.1.0",
        ),
        ("RCPT TO:<topbanana@example.net>", "250 2.1.5"),
        (
            "RCPT TO:<Dana@Ivory.example.net> NOTIFY=SUCCESS,FAILURE \
             ORCPT=rfc822;Dana@Ivory.example.net",
            "250 2.1.5",
        ),
        ("DATA", "354 go on"),
        (" (message goes here)", ""),
    ] {
        let reply = say(&mut session, &format!("{line}\r\n"));
        assert_eq!(codes(&reply).concat(), code, "{line}");
    }
    assert_eq!(say(&mut session, ".\r\n"), "");
    let Some(Event::Begin(mail, recipients)) = session.poll() else {
        panic!("no message");
    };
    assert_eq!(
        (mail.priority, mail.envid.as_deref()),
        (Some(3), Some("QQ314159"))
    );
    let by = mail.by.unwrap();
    assert_eq!((by.seconds, by.returns, by.traced), (125, true, false));
    assert_eq!(recipients[1].notify.text(), "SUCCESS,FAILURE");
    assert_eq!(content(&mut session), b" (message goes here)\r\n");
    session.answer("250 2.1.0 message accepted", &rules);
    assert_eq!(
        codes(&say(&mut session, "QUIT\r\n")),
        ["250 2.1.0", "221 2.0.0"]
    );
    assert_eq!(session.poll(), Some(Event::Close));
}

#[test]
fn commands_sent_ahead_wait_for_a_messages_answer() {
    let mut session = begun();
    let all = "MAIL FROM:<a@b>\r\nRCPT TO:<c@example.net>\r\nRCPT TO:<c@x>\r\nDATA\r\n\
               ..dot\r\n.\r\nMAIL FROM:<>\r\n";
    let replies = say(&mut session, all);
    assert_eq!(
        codes(&replies),
        ["250 2.1.0", "250 2.1.5", "550 5.7.1", "354 go on"]
    );
    assert_eq!(content(&mut session), b".dot\r\n");
    assert_eq!(session.unread(), "MAIL FROM:<>\r\n".len());
    session.answer("250 2.6.0 stored", &rules());
    assert_eq!(codes(&say(&mut session, "")), ["250 2.6.0", "250 2.1.0"]);
}

#[test]
fn the_same_octets_one_by_one_say_the_same() {
    let all = "MAIL FROM:<a@b> BODY=8BITMIME\r\nRCPT TO:<c@example.net>\r\nBDAT 4\r\nA:b\r\
               BDAT 3 LAST\r\n\n\r\nRSET\r\nDATA\r\nFAX\r\nQUIT\r\nNOOP\r\n";
    let run = |pieces: &[&[u8]]| {
        let (mut session, mut seen) = (begun(), Vec::new());
        let mut content = Vec::new();
        for piece in pieces {
            session.take(piece, &rules());
            while let Some(event) = session.poll() {
                match event {
                    Event::Content(octets) => content.extend(octets),
                    Event::End { right } => {
                        session.answer("250 2.6.0 stored", &rules());
                        seen.push(Event::End { right });
                    }
                    event => seen.push(event),
                }
            }
        }
        (session.take_replies(), seen, content)
    };
    let single: Vec<&[u8]> = all.as_bytes().chunks(1).collect();
    let whole = run(&[all.as_bytes()]);
    assert_eq!(whole, run(&single));
    assert_eq!(whole.2, b"A:b\r\n\r\n");
    let replies = String::from_utf8(whole.0).unwrap();
    assert!(codes(&replies).ends_with(&["250 2.0.0", "503 5.5.1", "500 5.5.1", "221 2.0.0"]));
}

#[test]
fn chunks_may_be_given_up_between_two() {
    let mut session = begun();
    let replies = say(
        &mut session,
        "MAIL FROM:<a@b>\r\nRCPT TO:<c@example.net>\r\nBDAT 3\r\nabcNOOP\r\nDATA\r\nRSET\r\n\
         BDAT 3 LAST\r\nabcMAIL FROM:<a@b>\r\n",
    );
    let rest = [
        "250 2.0.0",
        "250 2.0.0",
        "503 5.5.1",
        "250 2.0.0",
        "503 5.5.1",
        "250 2.1.0",
    ];
    assert_eq!(codes(&replies)[2..], rest);
    assert!(matches!(session.poll(), Some(Event::Begin(..))));
    assert_eq!(session.poll(), Some(Event::Content(b"abc".to_vec())));
    assert_eq!(session.poll(), Some(Event::Abort));
    assert_eq!(session.poll(), None);
}

/// Sent ahead, a message whose recipients were refused ends with its last chunk.
#[test]
fn a_message_without_recipients_ends_with_its_last_chunk() {
    let mut session = begun();
    let message = |from: &str, to: &str| {
        format!("MAIL FROM:<{from}>\r\nRCPT TO:<{to}>\r\nBDAT 2 LAST\r\n\r\n")
    };
    let both = message("a@b", "c@d.example") + &message("e@b", "c@example.net");
    let replies = say(&mut session, &both);
    let first = ["250 2.1.0", "550 5.7.1", "503 5.5.1"];
    assert_eq!(
        codes(&replies),
        [&first[..], &["250 2.1.0", "250 2.1.5"]].concat()
    );
    let begin = core::iter::from_fn(|| session.poll()).find_map(|it| match it {
        Event::Begin(mail, to) => Some((mail.sender, to.len())),
        _ => None,
    });
    assert_eq!(begin, Some(("e@b".into(), 1)));
}

#[test]
fn lines_that_end_otherwise_are_told_at_the_end() {
    for (text, right) in [
        ("a\r\n.\r\n", true),
        (".\r\n", true),
        ("a\nb\r\n.\r\n", false),
        ("a\rb\r\n.\r\n", false),
        ("a\n.\r\n\r\n.\r\n", false),
        (".\rb\r\n.\r\n", false),
        ("a\r\r\n.\r\n", false),
    ] {
        let mut session = begun();
        say(
            &mut session,
            "MAIL FROM:<a@b>\r\nRCPT TO:<c@example.net>\r\nDATA\r\n",
        );
        say(&mut session, text);
        let mut last = None;
        while let Some(event) = session.poll() {
            last = Some(event);
        }
        assert_eq!(last, Some(Event::End { right }), "{text:?}");
    }
    assert_eq!(codes(&say(&mut begun(), "NOOP\n")), ["500 5.5.2"]);
}

#[test]
fn what_is_too_much_is_refused_and_the_session_goes_on() {
    let mut session = begun();
    assert_eq!(
        codes(&say(&mut session, "MAIL FROM:<a@b> SIZE=1001\r\n")),
        ["552 5.3.4"]
    );
    let start = "MAIL FROM:<a@b>\r\nRCPT TO:<c@example.net>\r\n";
    say(&mut session, start);
    let text = format!("DATA\r\n{}\r\n.\r\n", "x".repeat(1000));
    assert_eq!(codes(&say(&mut session, &text)), ["354 go on", "552 5.3.4"]);
    say(&mut session, start);
    let chunks = format!(
        "BDAT 600\r\n{0}BDAT 600\r\n{0}BDAT 0 LAST\r\n",
        "x".repeat(600)
    );
    let refused = ["250 2.0.0", "552 5.3.4", "552 5.3.4"];
    assert_eq!(codes(&say(&mut session, &chunks)), refused);
    let mut events = vec![];
    while let Some(event) = session.poll() {
        events.push(event);
    }
    let ends = events.iter().filter(|it| matches!(it, Event::End { .. }));
    assert_eq!(ends.count(), 0);
    let long = format!("NOOP {}\r\nNOOP\r\n", "x".repeat(5000));
    assert_eq!(codes(&say(&mut session, &long)), ["500 5.5.6", "250 2.0.0"]);
    say(&mut session, "MAIL FROM:<a@b>\r\n");
    let many = "RCPT TO:<c@example.net>\r\n".repeat(RECIPIENTS_MAX + 1);
    assert!(codes(&say(&mut session, &many)).ends_with(&["250 2.1.5", "452 4.5.3"]));
}

#[test]
fn a_client_that_errs_on_and_on_is_sent_away() {
    let mut session = begun();
    let replies = say(&mut session, &"FAX\r\n".repeat(1000));
    assert!(replies.ends_with("421 4.7.0 too many errors\r\n"));
    assert_eq!(replies.lines().count(), FAULTS_MAX as usize + 2);
    assert_eq!(session.poll(), Some(Event::Close));
    assert_eq!(say(&mut session, "NOOP\r\n"), "");
}

#[test]
fn hello_comes_first_and_a_full_switch_says_so() {
    let mut session = Session::new("a");
    session.take_replies();
    assert_eq!(
        codes(&say(&mut session, "MAIL FROM:<a@b>\r\n")),
        ["503 5.5.1"]
    );
    assert_eq!(say(&mut session, "HELO b\r\n"), "250 example.com\r\n");
    let full = Rules {
        full: true,
        ..rules()
    };
    session.take(b"MAIL FROM:<a@b>\r\n", &full);
    assert!(session.take_replies().starts_with(b"452 4.3.1 "));
}

/// Packed pieces of a partner: what comes of them, and no more than that.
#[test]
fn packed_pieces_are_a_partners_and_bounded() {
    let began = |_| Began::Nothing;
    let partner = Rules {
        began: Some(&began),
        dictionary: b"words",
        ..rules()
    };
    let mail = "EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<a@example.net>\r\n";
    let mut session = Session::new("");
    session.take(
        format!("{mail}{}", "XBDAT 3\r\nabcXBDAT 1 LAST\r\nd").as_bytes(),
        &partner,
    );
    assert!(matches!(session.poll(), Some(Event::Begin(..))));
    let packed = Event::Packed(pack::frame(b"abc"), b"words".to_vec());
    assert_eq!(session.poll(), Some(packed));
    // The next waits, and is behind what was folded before.
    assert!(session.waits() && session.poll().is_none());
    session.unpacked(Some(b"\x04hi\r\n"), &partner);
    assert_eq!(session.poll(), Some(Event::Content(b"hi\r\n".to_vec())));
    let packed = Event::Packed(pack::frame(b"d"), b"words\x04hi\r\n".to_vec());
    assert_eq!(session.poll(), Some(packed));
    session.unpacked(None, &partner);
    assert_eq!(session.poll(), Some(Event::Abort));
    let replies = String::from_utf8(session.take_replies()).unwrap();
    assert!(
        replies.ends_with("go on\r\n450 4.6.5 the piece can't be unpacked\r\n"),
        "{replies}"
    );
    // A thousand octets are all that a message has here.
    session.take(
        format!("{mail}{}", "XBDAT 1 LAST\r\nx").as_bytes(),
        &partner,
    );
    let long = [&[0xe9, 7][..], &[b'x'; 1001]].concat();
    session.unpacked(Some(&long), &partner);
    assert!(
        session
            .take_replies()
            .ends_with(b"552 5.3.4 the message is too long for here\r\n")
    );
    session.take(b"XBDAT 65537\r\n", &partner);
    assert!(session.take_replies().starts_with(b"421 4.5.1"));
    let mut stranger = begun();
    assert_eq!(codes(&say(&mut stranger, "XBDAT 1\r\n")), ["502 5.5.1"]);
}

fn with_users() -> Rules<'static> {
    Rules {
        tls: true,
        users: true,
        ..rules()
    }
}

/// Who has to say who it is does so behind TLS alone.
#[test]
fn passwords_are_heard_behind_tls_alone() {
    let rules = with_users();
    let mut session = Session::new("");
    session.take(b"EHLO x\r\nMAIL FROM:<>\r\nAUTH PLAIN AGEAYg==\r\n", &rules);
    let said = String::from_utf8(session.take_replies()).unwrap();
    assert!(
        said.contains("250-STARTTLS") && !said.contains("AUTH"),
        "{said}"
    );
    assert!(
        said.contains("530 5.7.0") && said.contains("538 5.7.11"),
        "{said}"
    );
    session.take(b"STARTTLS\r\n", &rules);
    assert_eq!(session.take_replies(), b"220 2.0.0 begin\r\n");
    assert_eq!(session.poll(), Some(Event::Secure));
    session.secured();
    // What was said before TLS counts for nothing.
    session.take(b"MAIL FROM:<>\r\n", &rules);
    assert_eq!(
        session.take_replies(),
        b"503 5.5.1 EHLO first, then one MAIL a message\r\n"
    );
    session.take(b"EHLO x\r\nAUTH LOGIN\r\n", &rules);
    let said = String::from_utf8(session.take_replies()).unwrap();
    assert!(
        said.ends_with("250-AUTH PLAIN LOGIN\r\n250 MT-PRIORITY STANAG4406\r\n"),
        "{said}"
    );
    let login = |lines: &[&str]| {
        let lines = lines.iter().map(|it| Secret((*it).into()));
        Some(Event::Login(Sasl::Login, lines.collect()))
    };
    assert_eq!(session.poll(), login(&[]));
    session.verified(Some(Login::Asks("VXNlcm5hbWU6".into())), &rules);
    session.take(b"YQ==\r\n", &rules);
    assert_eq!(session.poll(), login(&["YQ=="]));
    session.verified(Some(Login::Asks("UGFzc3dvcmQ6".into())), &rules);
    session.take(b"Yg==\r\n", &rules);
    assert!(!alloc::format!("{session:?}").contains("89, 103"));
    assert_eq!(session.poll(), login(&["YQ==", "Yg=="]));
    session.verified(Some(Login::Is(0)), &rules);
    session.take(b"MAIL FROM:<>\r\n", &rules);
    assert_eq!(
        session.take_replies(),
        b"334 VXNlcm5hbWU6\r\n334 UGFzc3dvcmQ6\r\n235 2.7.0 welcome\r\n250 2.1.0 sender ok\r\n"
    );
}

/// What a client of users says piece by piece, as it may be kept; all its octets, and a session
/// that heard what was kept, say the same.
fn kept(said: &[u8], cut: usize) -> Vec<u8> {
    let rules = with_users();
    let (mut session, mut again) = (Session::new("b"), Session::new("b"));
    let mut kept = Vec::new();
    for session in [&mut session, &mut again] {
        session.secured();
    }
    for piece in said.chunks(cut) {
        let shown = session.conceal(piece, &rules);
        let shown = shown.unwrap_or_else(|| piece.to_vec());
        assert_eq!(shown.len(), piece.len());
        for (session, octets) in [(&mut session, piece), (&mut again, &shown[..])] {
            session.take(octets, &rules);
            while let Some(event) = session.poll() {
                let answer = match event {
                    Event::Login(Sasl::Login, lines) if lines.len() < 2 => {
                        Some(Login::Asks("VXNl".into()))
                    }
                    Event::Login(..) => Some(Login::Wrong),
                    _ => continue,
                };
                session.verified(answer, &rules);
            }
        }
        kept.extend(shown);
        assert_eq!(session.take_replies(), again.take_replies());
        assert_eq!(session.mode, again.mode);
    }
    kept
}

/// Whatever a client says, and in whatever pieces, what it says by AUTH isn't kept.
#[test]
fn what_is_kept_of_a_session_has_no_secret() {
    let long = "s3cret".repeat(800);
    for (said, shown) in [
        (
            "EHLO x\r\nAUTH PLAIN s3cret==\r\n",
            "EHLO x\r\nAUTH PLAIN xxxxxxxx\r\n".into(),
        ),
        ("auth login\r\n", "auth login\r\n".into()),
        (
            "AUTH LOGIN s3cret\r\ns3cret\r\nNOOP\r\n",
            "AUTH LOGIN xxxxxx\r\nxxxxxx\r\nNOOP\r\n".into(),
        ),
        (
            "AUTH OTHER s3cret\r\nAUTH PLAIN s3cret: s3cret\x01\r\n",
            "AUTH OTHER xxxxxx\r\nAUTH PLAIN xxxxxx: xxxxxxx\r\n".into(),
        ),
        (
            &format!("AUTH PLAIN {long}\r\nNOOP\r\n"),
            format!("AUTH PLAIN {}\r\nNOOP\r\n", "x".repeat(4800)),
        ),
        (
            &format!("AUTH LOGIN\r\n{long}"),
            format!("AUTH LOGIN\r\n{}", "x".repeat(4800)),
        ),
        (
            "QUIT\r\nAUTH LOGIN\r\ns3cret\r\n",
            "QUIT\r\nxxxx xxxxx\r\nxxxxxx\r\n".into(),
        ),
    ] {
        let all = kept(said.as_bytes(), 1);
        assert!(all == shown.as_bytes(), "{}", &said[..20]);
        // In longer pieces some comes before its answer, and ends the session.
        for cut in [2, 7, said.len()] {
            let all = kept(said.as_bytes(), cut);
            assert!(!String::from_utf8_lossy(&all).contains("s3c"), "{said}");
        }
    }
}

#[test]
fn nothing_follows_auth_before_its_answer() {
    let rules = with_users();
    let mut session = Session::new("");
    session.secured();
    session.take(b"EHLO x\r\nAUTH PLAIN AGEAYg==\r\nMAIL FROM:<>\r\n", &rules);
    let said = String::from_utf8(session.take_replies()).unwrap();
    assert!(said.ends_with("503 5.5.1 nothing follows AUTH before its answer\r\n"));
}

#[test]
fn a_message_that_cannot_be_there_in_time_is_refused_at_once() {
    let mut session = begun();
    let said = say(
        &mut session,
        "MAIL FROM:<> BY=19;R\r\nMAIL FROM:<> BY=-1;N\r\n",
    );
    assert_eq!(codes(&said), ["550 5.4.7", "250 2.1.0"]);
    let said = say(&mut session, "RSET\r\nMAIL FROM:<> BY=20;RT\r\n");
    assert_eq!(codes(&said), ["250 2.0.0", "250 2.1.0"]);
    assert!(say(&mut session, "EHLO a\r\n").contains("\r\n250-DELIVERBY 20\r\n"));
}

#[test]
fn what_comes_behind_starttls_in_the_clear_ends_the_session() {
    let mut session = Session::new("");
    session.take(b"EHLO x\r\nSTARTTLS\r\nNOOP\r\n", &with_users());
    assert!(
        session
            .take_replies()
            .ends_with(b"501 5.5.2 nothing follows STARTTLS\r\n")
    );
    let mut others = begun();
    assert_eq!(
        codes(&say(&mut others, "STARTTLS\r\nAUTH PLAIN\r\n")),
        ["502 5.5.1"; 2]
    );
}

#[test]
fn passwords_are_guessed_three_times() {
    let rules = with_users();
    let mut session = Session::new("");
    session.secured();
    session.take(b"EHLO x\r\n", &rules);
    for (wrong, came, code) in [
        ("AUTH CRAM-MD5", None, "504 5.5.4"),
        ("AUTH PLAIN ?", Some(Login::Garbled), "501 5.5.2"),
        ("AUTH PLAIN YgBhAGI=", Some(Login::ForOthers), "535 5.7.8"),
        ("AUTH PLAIN YgBhAGI=", None, "454 4.7.0"),
    ] {
        session.take_replies();
        session.take(format!("{wrong}\r\n").as_bytes(), &rules);
        session.verified(came, &rules);
        let said = String::from_utf8(session.take_replies()).unwrap();
        assert!(said.starts_with(code), "{wrong}: {said}");
    }
    for _ in 0..3 {
        session.take_replies();
        session.take(b"AUTH PLAIN AGEAYg==\r\n", &rules);
        session.verified(Some(Login::Wrong), &rules);
    }
    let said = String::from_utf8(session.take_replies()).unwrap();
    assert!(
        said.starts_with("535 5.7.8") && said.contains("421 4.7.0"),
        "{said}"
    );
}
