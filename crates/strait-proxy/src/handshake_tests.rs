use alloc::vec;

use super::*;

fn wants(step: &Step) -> Option<(&Target, &[u8], &[u8])> {
    match step {
        Step::Wants {
            target,
            answer,
            rest,
            ..
        } => Some((target, answer, rest)),
        _ => None,
    }
}

fn address(text: &str) -> Target {
    Target::Address(text.parse().unwrap())
}

fn named(name: &str, port: u16) -> Target {
    Target::Name(name.into(), port)
}

/// The greeting of a program that authenticates itself where it has to, and a request.
fn socks(kind: u8, place: &[u8]) -> Vec<u8> {
    [&[5, 2, 0, 2, 5, 1, 0, kind][..], place].concat()
}

#[test]
fn socks_takes_addresses_of_both_families_and_names() {
    let v6 = [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[7, 1, 187]].concat();
    for (request, target) in [
        (socks(1, &[10, 2, 0, 2, 0, 80]), address("10.2.0.2:80")),
        (socks(4, &v6), address("[2001:db8::7]:443")),
        (socks(3, b"\x03a.b\x00\x50"), named("a.b", 80)),
        // An address as a name is one.
        (socks(3, b"\x0810.2.0.2\x00\x50"), address("10.2.0.2:80")),
    ] {
        let step = Handshake::default().hear(&request);
        assert_eq!(wants(&step), Some((&target, &[5, 0][..], &[][..])));
        // Octet by octet it is the same, and what comes behind is the connection's.
        let mut slow = Handshake::default();
        let last = request.len() - 1;
        for (at, octet) in request[..last].iter().enumerate() {
            let answer = if at == 3 { vec![5, 0] } else { vec![] };
            assert_eq!(slow.hear(&[*octet]), Step::More(answer), "{at}");
        }
        let step = slow.hear(&[request[last], b'x', b'y']);
        assert_eq!(wants(&step), Some((&target, &[][..], &b"xy"[..])));
    }
}

#[test]
fn socks_says_what_it_does_not_do() {
    let reply = |reply| [&[5, 0][..], &socks_reply(reply)].concat();
    for (said, answer) in [
        // It wants to authenticate itself by a password; BIND; another kind of address.
        (vec![5, 1, 2], vec![5, 0xff]),
        (vec![5, 1, 0, 5, 2, 0, 1, 0], reply(7)),
        (vec![5, 1, 0, 5, 1, 0, 9, 0], reply(8)),
        (vec![5, 1, 0, 4, 1, 0, 1, 0], reply(1)),
        // No name, and one that is none.
        (socks(3, &[0, 0, 80]), reply(1)),
        (socks(3, b"\x03a b\x00\x50"), reply(1)),
        (vec![4, 1, 0, 80, 10, 2, 0, 2, 0], vec![]),
        (vec![0x16, 3, 1], vec![]),
    ] {
        assert_eq!(Handshake::default().hear(&said), Step::Wrong(answer));
    }
}

#[test]
fn http_connects_and_nothing_else() {
    let ask = |line: &str| Handshake::default().hear(format!("{line}\r\n\r\n").as_bytes());
    for (authority, target) in [
        ("a.example:443", named("a.example", 443)),
        ("10.2.0.2:80", address("10.2.0.2:80")),
        ("[fd00::2]:22", address("[fd00::2]:22")),
    ] {
        let step = ask(&format!(
            "CONNECT {authority} HTTP/1.1\r\nHost: {authority}"
        ));
        assert_eq!(wants(&step), Some((&target, &[][..], &[][..])));
    }
    for (line, status) in [
        ("GET http://a.example/ HTTP/1.1", "405 "),
        ("CONNECT a.example HTTP/1.1", "400 "),
        ("CONNECT a.example:99999 HTTP/1.1", "400 "),
        ("CONNECT [fd00::2:80 HTTP/1.1", "400 "),
        ("CONNECT a b HTTP/1.1", "400 "),
        ("CONNECT a.example:443", "400 "),
        ("CONNECT \u{e9}.example:443 HTTP/1.1", "400 "),
    ] {
        let Step::Wrong(answer) = ask(line) else {
            panic!("{line} is taken");
        };
        let answer = String::from_utf8(answer).unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
}

#[test]
fn a_request_that_never_ends_is_refused() {
    let mut handshake = Handshake::default();
    let head = format!("CONNECT a:1 HTTP/1.1\r\n{}", "x".repeat(OCTETS_MAX));
    assert!(matches!(
        handshake.hear(&head.as_bytes()[..OCTETS_MAX]),
        Step::More(_)
    ));
    let Step::Wrong(answer) = handshake.hear(&head.as_bytes()[OCTETS_MAX..]) else {
        panic!("it goes on");
    };
    assert!(answer.starts_with(b"HTTP/1.1 431 "));
}

#[test]
fn failures_are_told_as_they_are() {
    for (error, reply, status, word) in [
        (13, 2, "403", "destination_ip_prohibited"),
        (101, 3, "502", "destination_ip_unroutable"),
        (113, 4, "502", "destination_ip_unroutable"),
        (111, 5, "502", "connection_refused"),
        (110, 6, "504", "connection_timeout"),
        (11, 1, "503", "connection_limit_reached"),
        (104, 1, "502", "connection_terminated"),
    ] {
        assert_eq!(refused(Speech::Socks, error), socks_reply(reply));
        let text = String::from_utf8(refused(Speech::Http, error)).unwrap();
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
        assert!(text.contains(&format!("error={word}\r\n")), "{text}");
    }
}
