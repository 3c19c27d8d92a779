//! Streams that are compressed on the line.

use super::super::packing::PACKED_MAX;
use super::*;

/// Text as servers send it, with something new in each row.
fn text(rows: usize) -> Vec<u8> {
    let row = |n: usize| alloc::format!("<li>The {n}th of {} reports is here.</li>\n", n * 7919);
    let rows: alloc::string::String = (0..rows).map(row).collect();
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
        rows.as_bytes(),
    ]
    .concat()
}

/// What a side's host hears.
fn sent(ops: &[(StreamId, StreamOp)]) -> Vec<u8> {
    let each = ops.iter().map(|(_, op)| match op {
        StreamOp::Send(octets) => &octets[..],
        _ => &[],
    });
    each.collect::<Vec<_>>().concat()
}

#[test]
fn text_crosses_in_fewer_octets_and_comes_out_as_it_was() {
    let mut pair = Pair::new(|it| it.compress = true);
    let [near, far] = pair.connect();
    let text = text(300);
    for piece in text.chunks(1400) {
        pair.tell(1, far, StreamEvent::Data(piece));
    }
    pair.tell(1, far, StreamEvent::Fin);
    let ops = pair.take(0);
    assert!(sent(&ops) == text && ops.contains(&(near, StreamOp::Fin)));
    let stats = pair.sides[1].stats();
    assert_eq!(stats.octets, text.len() as u64);
    assert!(
        stats.octets_line * 4 < stats.octets,
        "{}",
        stats.octets_line
    );
    assert_eq!(stats.octets_line, stats.sessions.streams.taken);
    // The one of two sides that doesn't compress takes what the other one did.
    assert_eq!(pair.sides[0].stats().octets_line, 0);
}

#[test]
fn whoever_takes_little_gets_little_of_what_is_in_few_octets() {
    let mut pair = Pair::new(|it| it.compress = true);
    let [near, far] = pair.connect();
    // More than the client has said that it takes, in a hundredth of it.
    for _ in 0..10 {
        pair.tell(1, far, StreamEvent::Data(&[0; 10_000]));
    }
    assert_eq!(sent(&pair.take(0)).len(), 65_536);
    pair.tell(0, near, StreamEvent::Writable(10));
    assert_eq!(sent(&pair.take(0)).len(), 10);
    pair.tell(1, far, StreamEvent::Fin);
    assert_eq!(pair.take(0), []);
    pair.tell(0, near, StreamEvent::Writable(100_000));
    let ops = pair.take(0);
    assert_eq!(sent(&ops).len(), 100_000 - 65_536 - 10);
    assert!(ops.contains(&(near, StreamOp::Fin)));
}

#[test]
fn more_streams_than_may_be_compressed_go_as_they_are() {
    let mut pair = Pair::new(|it| {
        it.compress = true;
        it.connect = ProxyConnect::Early;
    });
    let many = PACKED_MAX as u64 + 5;
    for n in 0..many {
        let near = pair.ask(n, "10.2.0.2:80");
        pair.open(0, near);
        let before = pair.sides[0].stats().octets_line;
        pair.tell(0, near, StreamEvent::Data(&text(20)));
        let octets = (pair.sides[0].stats().octets_line - before) as usize;
        let packed = octets * 2 < text(20).len();
        assert_eq!(packed, n < PACKED_MAX as u64, "{n}: {octets}");
    }
    // One that ends makes room for another.
    let first = StreamId {
        owner: OWNER,
        side: Side::Client,
        n: 0,
    };
    pair.tell(0, first, StreamEvent::Reset(104));
    let near = pair.ask(many, "10.2.0.2:80");
    pair.open(0, near);
    let before = pair.sides[0].stats().octets_line;
    pair.tell(0, near, StreamEvent::Data(&text(20)));
    assert!(pair.sides[0].stats().octets_line - before < 400);
}

#[test]
fn hellos_of_tls_are_in_the_dictionary() {
    // What openssl begins with, but for what it draws by chance.
    let known = &include_bytes!("../hellos.bin")[..400];
    let hello = [&[0x16, 3, 1, 1, 0xc8, 1, 0, 1, 0xc4, 3, 3][..], known].concat();
    let mut pair = Pair::new(|it| it.compress = true);
    let [near, _] = pair.connect();
    pair.tell(0, near, StreamEvent::Data(&hello));
    let octets = pair.sides[0].stats().octets_line;
    assert!(octets < 60, "{octets}");
    // And what is encrypted costs next to nothing.
    let mut chance = Chance::new(1, "secret");
    for _ in 0..100 {
        let secret: Vec<u8> = (0..1400).map(|_| chance.draw() as u8).collect();
        pair.tell(0, near, StreamEvent::Data(&secret));
    }
    let more = pair.sides[0].stats().octets_line - octets;
    assert!((140_001..140_030).contains(&more), "{more}");
}
