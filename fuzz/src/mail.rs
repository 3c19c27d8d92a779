//! What clients of a message switch say, what other switches reply, and what storage has.

use strait_core::work::Login;
use strait_mail::client::{Event as Heard, Letter};
use strait_mail::command::DeliverBy;
use strait_mail::message::{Message, Recipient};
use strait_mail::pack::{self, PIECE_OCTETS_MAX};
use strait_mail::session::{Began, Event, Rules};
use strait_mail::text::text_first;
use strait_mail::{Client, Session, header};

const OCTETS_MAX: u64 = 2000;

/// A client's octets, cut where the first octet says: all at once they say the same as piece by
/// piece, and no message is longer than it may be. Behind TLS, what may be kept of them says the
/// same as they do. Then the same octets as replies, by SMTP and by LMTP, as a header and a message
/// of parts, as a text that is folded and as one that was, and as an envelope.
pub fn mail(data: &[u8]) {
    let Some((&step, octets)) = data.split_first() else {
        return;
    };
    let step = usize::from(step).max(1);
    let whole = run(octets, octets.len().max(1));
    assert_eq!(whole, run(octets, step), "cut after {step} octets");
    secrets(octets, step);
    for lmtp in [false, true] {
        replies(octets, step, lmtp);
        logs_in(octets, step, lmtp);
    }
    let by = core::str::from_utf8(octets).ok().and_then(DeliverBy::parse);
    assert_eq!(by.and_then(|it| DeliverBy::parse(&it.text())), by);
    let found = header::parse(octets);
    text_first(octets, &found, "text.1@a.example");
    for (start, end) in found.tunnels.iter().chain(&found.traces) {
        assert!(start < end && *end as usize <= octets.len());
    }
    // A piece is the same text again, and what is no piece makes no more than it may.
    let folded = pack::fold(octets);
    assert_eq!(pack::unfold(&folded, octets.len()).as_deref(), Some(octets));
    if let Some(text) = pack::unfold(octets, PIECE_OCTETS_MAX) {
        assert!(text.len() <= PIECE_OCTETS_MAX);
        assert_eq!(pack::unfold(&pack::fold(&text), text.len()), Some(text));
    }
    if let Some(message) = Message::decode(octets) {
        assert_eq!(Message::decode(&message.encode()), Some(message));
    }
}

/// Replies, and all messages with what they have.
fn run(octets: &[u8], step: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let rules = rules(false);
    let mut session = Session::new("b.example");
    let (mut messages, mut current) = (Vec::new(), None::<Vec<u8>>);
    for piece in octets.chunks(step) {
        session.take(piece, &rules);
        while let Some(event) = session.poll() {
            match event {
                Event::Begin(_, recipients) => {
                    assert!(!recipients.is_empty() && current.is_none());
                    current = Some(Vec::new());
                }
                Event::Content(octets) => {
                    current.as_mut().expect("it has begun").extend(octets);
                }
                Event::End { right } => {
                    let message = current.take().expect("it has begun");
                    assert!(message.len() as u64 <= OCTETS_MAX);
                    if right {
                        messages.push(message);
                    }
                    session.answer("250 2.6.0 stored", &rules);
                }
                // As if what was sent were folded, and nothing compressed.
                Event::Packed(frame, _) => session.unpacked(frame.get(4..), &rules),
                Event::Abort => current = None,
                Event::Secure | Event::Login(..) => panic!("neither is offered"),
                Event::Close | Event::Turn(_) => {}
            }
        }
    }
    (session.take_replies(), messages)
}

fn rules(users: bool) -> Rules<'static> {
    Rules {
        name: "b.example",
        octets_max: OCTETS_MAX,
        full: false,
        began: Some(&|id| [Began::Nothing, Began::Whole][usize::from(id > 9)]),
        polled: Some(&|name| (name.len() > 9).then_some(1)),
        sizes: [OCTETS_MAX; 6],
        by_min: 0,
        tls: users,
        users,
        dictionary: b"",
        refuses: &|address| address.starts_with('x').then_some("550 5.1.1 nobody"),
    }
}

/// Two sessions behind TLS, one of which hears what may be kept of what the other does.
fn secrets(octets: &[u8], step: usize) {
    let rules = rules(true);
    let mut pair = [(); 2].map(|()| {
        let mut session = Session::new("b.example");
        session.secured();
        session
    });
    let mut logins = 0;
    for piece in octets.chunks(step) {
        let shown = pair[0].conceal(piece, &rules);
        let shown = shown.as_deref().unwrap_or(piece);
        assert_eq!(shown.len(), piece.len());
        pair[0].take(piece, &rules);
        pair[1].take(shown, &rules);
        loop {
            let [said, kept] = pair.each_mut().map(Session::poll);
            let kind = |it: &Option<Event>| it.as_ref().map(core::mem::discriminant);
            assert_eq!(kind(&said), kind(&kept));
            let Some(event) = said else { break };
            let outcome = match logins % 4 {
                0 => Login::Asks("VXNlcm5hbWU6".into()),
                1 => Login::Garbled,
                2 => Login::Wrong,
                _ => Login::Is(0),
            };
            for session in &mut pair {
                match &event {
                    Event::Login(..) => session.verified(Some(outcome.clone()), &rules),
                    Event::End { .. } => session.answer("250 2.6.0 stored", &rules),
                    Event::Packed(frame, _) => session.unpacked(frame.get(4..), &rules),
                    _ => {}
                }
            }
            logins += i32::from(matches!(event, Event::Login(..)));
        }
        let [said, kept] = pair.each_mut().map(Session::take_replies);
        assert_eq!(said, kept);
    }
}

/// The answers to a login, and what may be kept of them: the same comes of both.
fn logs_in(octets: &[u8], step: usize, lmtp: bool) {
    let mut pair = [(); 2].map(|()| {
        let mut client = Client::new("a.example").with_lmtp(lmtp).with_login(true);
        client.take(b"220 b\r\n250-b\r\n250 AUTH PLAIN\r\n");
        while client.poll().is_some() {}
        client.log_in(b"AGEAYg==");
        client
    });
    for piece in octets.chunks(step) {
        let shown = pair[0].conceal(piece);
        pair[0].take(piece);
        pair[1].take(shown.as_deref().unwrap_or(piece));
        loop {
            let [said, kept] = pair.each_mut().map(Client::poll);
            assert_eq!(said, kept);
            match said {
                None => break,
                Some(Heard::Lost(_)) => return,
                Some(_) => {}
            }
        }
    }
}

/// A client that has messages, and hears these octets.
fn replies(octets: &[u8], step: usize, lmtp: bool) {
    let mut client = Client::new("a.example").with_lmtp(lmtp);
    let (mut id, mut done) = (0, 0);
    for piece in octets.chunks(step) {
        client.take(piece);
        while let Some(event) = client.poll() {
            match event {
                Heard::Done(_, verdicts) => {
                    assert_eq!(verdicts.len(), 2);
                    done += 1;
                }
                Heard::Again(_) => done += 1,
                Heard::Ready | Heard::Resume(..) | Heard::Turned(_) => {}
                Heard::Secure | Heard::LogIn => panic!("it asked for none"),
                Heard::Lost(_) => return,
            }
        }
        if client.may_begin() && id < 20 {
            id += 1;
            let recipient = |address: &str| Recipient {
                address: address.into(),
                ..Recipient::default()
            };
            client.begin(Letter {
                id,
                wire: Some(4),
                octets: 3,
                recipients: vec![recipient("b@b.example"), recipient("c@b.example")],
                ..Letter::default()
            });
        }
        if client.wants().is_some() {
            client.piece(b".a\r\n", piece.len() > 2);
        }
        client.send(usize::from(piece[0]));
        assert_eq!(client.under_way().count() as u64 + done, id);
    }
}

/// Two messages sent ahead, one by DATA and one by chunks.
pub fn dialogue() -> Vec<u8> {
    let text = "\u{7}EHLO a\r\nMAIL FROM:<a@b> MT-PRIORITY=4 SIZE=9\r\nRCPT TO:<c@d>\r\nDATA\r\n\
                MT-Priority: 4\r\n\r\n..a\r\n.\r\nMAIL FROM:<> BODY=8BITMIME\r\n\
                RCPT TO:<x@d>\r\nRCPT TO:<c@d> NOTIFY=NEVER\r\nBDAT 4\r\nA:b\rBDAT 3 LAST\r\n\n\r\n\
                XRESUME 3\r\nMAIL FROM:<>\r\nRCPT TO:<c@d>\r\nXBDAT 4 LAST\r\n\u{3}abcQUIT\r\n";
    text.into()
}

/// What a switch replies to a message.
pub fn dialogue_replies() -> Vec<u8> {
    b"\x0f220 b ESMTP\r\n250-b\r\n250-PIPELINING\r\n250-CHUNKING\r\n250 MT-PRIORITY\r\n250 ok\r\n\
      250 ok\r\n550 5.1.1 no\r\n250 go on\r\n250 2.6.0 stored\r\n421 bye\r\n"
        .to_vec()
}

/// What a server of mailboxes replies, for each of them, and a login with what is behind it.
pub fn lmtp_replies() -> Vec<u8> {
    b"\x0f220 l LMTP\r\n250-l\r\n250-PIPELINING\r\n250 CHUNKING\r\n250 ok\r\n250 ok\r\n250 ok\r\n\
      250 go on\r\n250 2.1.5 there\r\n452 4.2.2 full\r\n235 2.7.0 AGEAYg==\r\n"
        .to_vec()
}

/// A login by each mechanism.
pub fn logins() -> Vec<u8> {
    b"\x09EHLO a\r\nAUTH PLAIN AGEAYg==\r\nAUTH LOGIN\r\nYQ==\r\nYg==\r\n\
      AUTH PLAIN\r\n*\r\nQUIT\r\n"
        .to_vec()
}

/// A text with lines of base64, folded.
pub fn folded() -> Vec<u8> {
    let line =
        "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAxMjM0NTY3\r\n";
    let text = format!("Subject: x\r\n\r\n{}--end\r\n", line.repeat(3));
    [vec![1], pack::fold(text.as_bytes())].concat()
}

/// An envelope as it is stored.
pub fn envelope() -> Vec<u8> {
    let message = Message {
        accepted_s: 1,
        sender: "a@b".into(),
        trace: "Received: x".into(),
        tunnels: vec![(1, 2)],
        recipients: vec![Recipient {
            address: "c@d".into(),
            ..Recipient::default()
        }],
        ..Message::default()
    };
    [vec![1], message.encode()].concat()
}
