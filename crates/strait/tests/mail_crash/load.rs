//! Many messages and a long one: how much memory a switch has for them. With `STRAIT_MAIL_LOAD`
//! ten thousand, and 100 MB.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use strait_live::kernel::namespace::Namespace;

use super::{Running, can_run, node_file, queued, start};

/// Octets of an ordinary message's text.
const ORDINARY: usize = 2000;

/// The most memory that a process had at a time, in kB.
fn memory_kb(process: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.0.id())).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    let number = line.and_then(|it| it.split_whitespace().next()?.parse().ok());
    number.unwrap()
}

/// A text of lines.
fn text(octets: usize) -> Vec<u8> {
    let lines = b"0123456789abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ\r\n";
    lines
        .iter()
        .copied()
        .cycle()
        .take(octets - octets % lines.len())
        .collect()
}

/// Brings all messages without waiting for any reply; how many were taken.
fn flood(to: &str, messages: usize, octets: usize) -> usize {
    let stream = TcpStream::connect("127.0.0.1:2525").unwrap();
    let replies = BufReader::new(stream.try_clone().unwrap());
    let bring = {
        let (text, to) = (text(octets), to.to_owned());
        thread::spawn(move || {
            let mut stream = stream;
            stream.write_all(b"EHLO test\r\n").unwrap();
            for n in 0..messages {
                let head = format!("Subject: {n}\r\n\r\n");
                let all = head.len() + text.len();
                let begin =
                    format!("MAIL FROM:<>\r\nRCPT TO:<n{n}@{to}>\r\nBDAT {all} LAST\r\n{head}");
                stream.write_all(begin.as_bytes()).unwrap();
                stream.write_all(&text).unwrap();
            }
            stream.write_all(b"QUIT\r\n").unwrap();
        })
    };
    let lines = replies.lines().map_while(Result::ok);
    let taken = lines.filter(|it| it.starts_with("250 2") && it.ends_with("stored"));
    let taken = taken.count();
    bring.join().unwrap();
    taken
}

/// Has a switch take all of this, and start anew with it; the most memory of both, in kB.
fn loaded(messages: usize, octets: usize) -> [u64; 2] {
    let namespace = Namespace::create("mailload").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let node = node_file(folder).replace("[mail]\n", "[mail]\noctets_max = \"100 MB\"\n");
    fs::write(folder.join("a.toml"), node).unwrap();
    let switch = start(&namespace, folder);
    let bring = move || flood("b.example", messages, octets);
    assert_eq!(namespace.enter(bring).unwrap(), messages);
    let first = memory_kb(&switch);
    drop(switch);
    let switch = start(&namespace, folder);
    let begun = Instant::now();
    while waiting(folder) < messages {
        let late = begun.elapsed() > Duration::from_secs(60);
        assert!(!late, "{} of {messages} are known again", waiting(folder));
        thread::sleep(Duration::from_millis(100));
    }
    let both = [first, memory_kb(&switch)];
    eprintln!("{messages} messages of {octets} octets: {both:?} kB");
    both
}

fn waiting(folder: &Path) -> usize {
    queued(folder).0.len()
}

/// What a switch has without any message, and for each; in kB. `docs/book/mail.md` says the same.
const BEFORE_KB: u64 = 64 * 1024;
const EACH_KB: u64 = 4;

#[test]
fn a_flood_and_a_long_message_have_their_memory() {
    if !can_run() {
        return;
    }
    for (messages, octets) in [(500, ORDINARY), (1, 10_000_000)] {
        let most = BEFORE_KB + messages as u64 * EACH_KB;
        let both = loaded(messages, octets);
        assert!(
            both.iter().all(|it| *it <= most),
            "{both:?} above {most} kB"
        );
    }
}

#[test]
fn ten_thousand_messages_and_one_of_100_mb_have_their_memory() {
    // By request: half a minute.
    if std::env::var_os("STRAIT_MAIL_LOAD").is_none() || !can_run() {
        return;
    }
    for (messages, octets) in [(10_000, ORDINARY), (1, 99_000_000)] {
        let most = BEFORE_KB + messages as u64 * EACH_KB;
        let both = loaded(messages, octets);
        assert!(
            both.iter().all(|it| *it <= most),
            "{both:?} above {most} kB"
        );
    }
}
