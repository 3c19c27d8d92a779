//! An echo service driven by hand.

use alloc::vec;
use core::net::SocketAddr;

use strait_core::node::{Refusal, Side, SocketEvent};
use strait_core::units::Time;
use strait_wire::ip::{SynOptions, Unreachable};

use super::*;

const OWNER: Owner = Owner(300);
const START: Instant = Instant::ZERO;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn config() -> EchoConfig {
    EchoConfig {
        listen: Some(address(7)),
        datagrams: Some(address(7)),
        ..EchoConfig::default()
    }
}

/// One that has declared its sockets.
fn echo(config: &EchoConfig) -> Echo {
    let mut echo = Echo::new(OWNER, config, core::iter::empty());
    effects(&mut echo);
    echo
}

fn effects(echo: &mut Echo) -> Vec<Effect> {
    core::iter::from_fn(|| echo.poll_effect()).collect()
}

fn stream(n: u64) -> StreamId {
    StreamId {
        owner: OWNER,
        side: Side::Client,
        n,
    }
}

fn hear(echo: &mut Echo, now: Instant, n: u64, event: StreamEvent<'_>) -> Vec<Effect> {
    let id = stream(n);
    echo.hear(now, &Input::Stream { id, event });
    effects(echo)
}

fn open(echo: &mut Echo, n: u64) -> Vec<Effect> {
    let event = StreamEvent::Opened {
        listener: Some(SocketId {
            owner: OWNER,
            n: STREAMS,
        }),
        src: address(40_000),
        dst: address(7),
        dscp: 0,
    };
    hear(echo, START, n, event)
}

fn op(n: u64, op: StreamOp) -> Effect {
    Effect::Stream { id: stream(n), op }
}

fn question(src: u16, bytes: &[u8]) -> Input<'_> {
    Input::Datagram {
        socket: SocketId {
            owner: OWNER,
            n: DATAGRAMS,
        },
        meta: DatagramMeta {
            src: address(src),
            dst: address(7),
            dscp: 46,
            hop_limit: 3,
        },
        bytes,
    }
}

#[test]
fn it_declares_its_sockets_once() {
    let config = EchoConfig {
        dscp: "AF21".parse().ok(),
        ..config()
    };
    let mut echo = Echo::new(OWNER, &config, core::iter::empty());
    let [
        Effect::Socket {
            id: first,
            op: SocketOp::Listen(listen),
        },
        Effect::Socket {
            id: second,
            op: SocketOp::Bind(bind),
        },
    ] = effects(&mut echo)[..]
    else {
        panic!("two sockets");
    };
    assert_eq!((first.owner, second.owner), (OWNER, OWNER));
    assert_ne!(first, second);
    assert_eq!((listen.address, listen.dscp), (address(7), 18));
    assert_eq!(bind.address, address(7));
    let failed = SocketEvent::Failed(98);
    let id = first;
    echo.hear(START, &Input::Socket { id, event: failed });
    assert_eq!(effects(&mut echo), []);
}

#[test]
fn octets_come_back_in_order_after_the_delay_and_their_end_behind_them() {
    let delay = Some(Time(Duration::from_millis(10)));
    let mut echo = echo(&EchoConfig { delay, ..config() });
    open(&mut echo, 1);
    assert_eq!(hear(&mut echo, at(0), 1, StreamEvent::Data(b"ab")), []);
    assert_eq!(hear(&mut echo, at(4), 1, StreamEvent::Data(b"c")), []);
    assert_eq!(hear(&mut echo, at(4), 1, StreamEvent::Fin), []);
    assert_eq!(echo.wake(), Some(at(10)));
    echo.send_due(Instant::from_nanos(at(10).as_nanos() - 1));
    assert_eq!(effects(&mut echo), []);
    echo.send_due(at(10));
    assert_eq!(effects(&mut echo), [op(1, StreamOp::Send(b"ab".into()))]);
    assert_eq!(echo.wake(), Some(at(14)));
    echo.send_due(at(14));
    let last = [op(1, StreamOp::Send(b"c".into())), op(1, StreamOp::Fin)];
    assert_eq!(effects(&mut echo), last);
    let stats = *echo.stats();
    assert_eq!(
        (
            stats.streams.open(),
            stats.streams.opened,
            stats.streams.delivered
        ),
        (0, 1, 3)
    );
    assert_eq!(echo.wake(), None);
}

#[test]
fn it_reads_no_more_than_it_may_write() {
    let mut echo = echo(&config());
    assert_eq!(open(&mut echo, 1), []);
    let credit = hear(&mut echo, START, 1, StreamEvent::Writable(9));
    assert_eq!(credit, [op(1, StreamOp::Credit(9))]);
    // What came goes back, and calls for more only when the client has taken it.
    let data = hear(&mut echo, START, 1, StreamEvent::Data(b"123456789"));
    assert_eq!(data, [op(1, StreamOp::Send(b"123456789".into()))]);
}

#[test]
fn what_may_wait_follows_the_slowest_link() {
    let hold = Some(Time(Duration::from_secs(10)));
    let mut echo = echo(&EchoConfig { hold, ..config() });
    open(&mut echo, 1);
    let held = |octets| Held {
        inbound: octets,
        outbound: octets,
    };
    echo.set_rate(Some(9600));
    let ten_seconds = [op(1, StreamOp::Hold(held(12_000)))];
    assert_eq!(effects(&mut echo), ten_seconds);
    echo.set_rate(Some(9600));
    echo.set_rate(None);
    assert_eq!(effects(&mut echo), []);
    echo.set_rate(Some(75));
    assert_eq!(effects(&mut echo), [op(1, StreamOp::Hold(held(4096)))]);
    assert_eq!(open(&mut echo, 2), [op(2, StreamOp::Hold(held(4096)))]);
}

#[test]
fn a_stream_that_is_reset_is_forgotten() {
    let delay = Some(Time(Duration::from_secs(1)));
    let mut echo = echo(&EchoConfig { delay, ..config() });
    open(&mut echo, 1);
    hear(&mut echo, START, 1, StreamEvent::Data(b"a"));
    hear(&mut echo, START, 1, StreamEvent::Reset(104));
    assert_eq!((echo.wake(), echo.stats().streams.open()), (None, 0));
    assert_eq!(echo.stats().streams.resets_by(ResetCause::Peer), 1);
    assert_eq!(echo.stats().streams.lost, 1);
    echo.check();
    // What was under way when it went says nothing.
    assert_eq!(hear(&mut echo, START, 1, StreamEvent::Writable(5)), []);
    assert_eq!(hear(&mut echo, START, 1, StreamEvent::Data(b"b")), []);
}

fn stored(echo: &mut Echo, ticket: Ticket, result: Result<(), StoreError>) -> Vec<Effect> {
    echo.hear(START, &Input::Stored { ticket, result });
    effects(echo)
}

fn loaded(
    echo: &mut Echo,
    ticket: Ticket,
    result: Result<Option<&[u8]>, StoreError>,
) -> Vec<Effect> {
    echo.hear(START, &Input::Loaded { ticket, result });
    effects(echo)
}

/// The ticket, the offset and the most octets of what is read.
fn load(effects: &[Effect], of: &[u8]) -> (Ticket, u64, u32) {
    let [
        Effect::Load {
            ticket,
            key,
            offset,
            octets,
        },
    ] = effects
    else {
        panic!("{effects:?}");
    };
    assert_eq!(key, of);
    (*ticket, *offset, *octets)
}

/// The ticket of work, and the work.
fn work(effects: &[Effect]) -> (Ticket, Work) {
    let [Effect::Work { ticket, work }] = effects else {
        panic!("{effects:?}");
    };
    (*ticket, work.clone())
}

fn worked(echo: &mut Echo, ticket: Ticket, result: Result<&[u8], WorkError>) -> Vec<Effect> {
    echo.hear(START, &Input::Worked { ticket, result });
    effects(echo)
}

const DIGEST: [u8; DIGEST_OCTETS] = [7; DIGEST_OCTETS];

/// Takes octets to the storage, as if they were compressed to `packed`: the ticket and the key by
/// which they are stored.
fn pack(echo: &mut Echo, said: &[Effect], octets: &[u8]) -> (Ticket, Vec<u8>) {
    let (digest, asked) = work(said);
    assert_eq!(asked, Work::Digest(octets.to_vec()));
    let (frame, asked) = work(&worked(echo, digest, Ok(&DIGEST)));
    let compress = Work::Compress {
        octets: octets.to_vec(),
        behind: Vec::new(),
    };
    assert_eq!(asked, compress);
    let stores = worked(echo, frame, Ok(b"packed"));
    let Some(Effect::Store { ticket, batch }) = stores.first() else {
        panic!("{stores:?}");
    };
    let [StoreOp::Put(key, value)] = &batch[..] else {
        panic!("{batch:?}");
    };
    assert_eq!(*value, [&DIGEST[..], b"packed"].concat());
    (*ticket, key.clone())
}

/// One that stores, and has a client.
fn storing() -> Echo {
    let mut echo = echo(&EchoConfig {
        store: true,
        ..config()
    });
    open(&mut echo, 1);
    echo
}

#[test]
fn stored_octets_go_back_from_the_storage_and_leave_it() {
    let mut echo = storing();
    let said = hear(&mut echo, START, 1, StreamEvent::Data(b"abc"));
    let (ticket, key) = pack(&mut echo, &said, b"abc");
    assert_eq!(echo.stats().stored, 32 + 6);
    // Nothing goes back that isn't stable.
    assert_eq!(hear(&mut echo, START, 1, StreamEvent::Fin), []);
    let (first, offset, octets) = load(&stored(&mut echo, ticket, Ok(())), &key);
    assert_eq!((offset, octets), (0, 38));
    // As much as the storage gives at once.
    let more = loaded(&mut echo, first, Ok(Some(&DIGEST[..31])));
    let (second, offset, octets) = load(&more, &key);
    assert_eq!((offset, octets), (31, 7));
    assert_eq!(loaded(&mut echo, first, Ok(Some(b"a"))), []);
    let (frame, asked) = work(&loaded(&mut echo, second, Ok(Some(b"\x07packed"))));
    let unpack = Work::Decompress {
        octets: b"packed".to_vec(),
        octets_max: 3,
        behind: Vec::new(),
    };
    assert_eq!(asked, unpack);
    // It is checked by what it was before.
    let (digest, asked) = work(&worked(&mut echo, frame, Ok(b"abc")));
    assert_eq!(asked, Work::Digest(b"abc".to_vec()));
    let last = worked(&mut echo, digest, Ok(&DIGEST));
    let [Effect::Store { batch, .. }, rest @ ..] = &last[..] else {
        panic!("{last:?}");
    };
    assert_eq!(*batch, [StoreOp::Delete(key)]);
    assert_eq!(
        *rest,
        [op(1, StreamOp::Send(b"abc".into())), op(1, StreamOp::Fin)]
    );
    assert_eq!(loaded(&mut echo, second, Ok(None)), []);
}

/// The stream was reset with this error number, and holds nothing any more.
fn given_up(echo: &Echo, effects: &[Effect], number: i32, cause: ResetCause) {
    assert_eq!(effects[0], op(1, StreamOp::Reset(number)));
    let books = echo.stats().streams;
    assert_eq!(
        (books.open(), books.resets_by(cause), books.lost),
        (0, 1, 3)
    );
    echo.check();
}

#[test]
fn what_cant_be_packed_or_stored_ends_its_stream() {
    let mut echo = storing();
    let said = hear(&mut echo, START, 1, StreamEvent::Data(b"abc"));
    let (ticket, _) = work(&said);
    let effects = worked(&mut echo, ticket, Err(WorkError::Busy));
    given_up(&echo, &effects, 105, ResetCause::StorageBusy);
    let full = (StoreError::Full, 28, ResetCause::StorageFull);
    let absent = (StoreError::Absent, 5, ResetCause::StorageFailed);
    for (error, number, cause) in [full, absent] {
        let mut echo = storing();
        let said = hear(&mut echo, START, 1, StreamEvent::Data(b"abc"));
        let (ticket, _) = pack(&mut echo, &said, b"abc");
        let effects = stored(&mut echo, ticket, Err(error));
        given_up(&echo, &effects, number, cause);
    }
}

/// One whose client's octets are asked back from the storage: with the ticket, and their key.
fn loading() -> (Echo, Ticket, Vec<u8>) {
    let mut echo = storing();
    let said = hear(&mut echo, START, 1, StreamEvent::Data(b"abc"));
    let (ticket, key) = pack(&mut echo, &said, b"abc");
    let (ticket, ..) = load(&stored(&mut echo, ticket, Ok(())), &key);
    (echo, ticket, key)
}

#[test]
fn what_is_gone_or_spoilt_ends_its_stream_and_leaves_the_storage() {
    let failed = (5, ResetCause::StorageFailed);
    let busy = (105, ResetCause::StorageBusy);
    let ends = |echo: &Echo, effects: &[Effect], key: &[u8], (number, cause)| {
        given_up(echo, effects, number, cause);
        let [_, Effect::Store { batch, .. }] = effects else {
            panic!("{effects:?}");
        };
        assert_eq!(*batch, [StoreOp::Delete(key.to_vec())]);
    };
    for (result, expected) in [
        (Ok(None), failed),
        (Ok(Some(&[][..])), failed),
        (Err(StoreError::Failed), failed),
        (Err(StoreError::Busy), busy),
    ] {
        let (mut echo, ticket, key) = loading();
        let effects = loaded(&mut echo, ticket, result);
        ends(&echo, &effects, &key, expected);
    }
    let value = [&DIGEST[..], b"packed"].concat();
    for (result, expected) in [
        (Err(WorkError::Broken), failed),
        (Err(WorkError::TooLong), failed),
        (Err(WorkError::Busy), busy),
    ] {
        let (mut echo, ticket, key) = loading();
        let (ticket, _) = work(&loaded(&mut echo, ticket, Ok(Some(&value))));
        let effects = worked(&mut echo, ticket, result);
        ends(&echo, &effects, &key, expected);
    }
    // Whole frames with other octets.
    let (mut echo, ticket, key) = loading();
    let (ticket, _) = work(&loaded(&mut echo, ticket, Ok(Some(&value))));
    let (ticket, _) = work(&worked(&mut echo, ticket, Ok(b"abd")));
    let effects = worked(&mut echo, ticket, Ok(&[8; DIGEST_OCTETS]));
    ends(&echo, &effects, &key, failed);
}

#[test]
fn what_an_earlier_life_left_in_the_storage_is_deleted() {
    let keys = [&b"echo/00000000000000000009"[..], b"flows/line"];
    let config = EchoConfig {
        store: true,
        ..config()
    };
    let mut echo = Echo::new(OWNER, &config, keys.into_iter());
    let Some(Effect::Store { batch, .. }) = echo.poll_effect() else {
        panic!("nothing is deleted");
    };
    assert_eq!(batch, [StoreOp::Delete(keys[0].to_vec())]);
}

#[test]
fn small_octets_that_come_one_by_one_wait_together() {
    let delay = Some(Time(Duration::from_secs(1)));
    let mut echo = echo(&EchoConfig { delay, ..config() });
    open(&mut echo, 1);
    for ms in 0..1000 {
        hear(&mut echo, at(ms), 1, StreamEvent::Data(b"x"));
    }
    let pieces = &echo.streams[&stream(1)].pieces;
    assert_eq!(pieces.len(), PIECES_MAX);
    assert_eq!(pieces.iter().map(|it| it.octets).sum::<usize>(), 1000);
    assert_eq!(pieces.back().map(|it| it.due), Some(at(1999)));
}

#[test]
fn what_comes_while_octets_are_packed_or_many_wait_is_packed_together() {
    let delay = Some(Time(Duration::from_secs(1)));
    let store = true;
    let mut echo = echo(&EchoConfig {
        delay,
        store,
        ..config()
    });
    open(&mut echo, 1);
    let mut said = hear(&mut echo, at(0), 1, StreamEvent::Data(b"x"));
    for n in 1..=PIECES_MAX as u64 {
        assert_eq!(hear(&mut echo, at(n), 1, StreamEvent::Data(b"yz")), []);
        let octets = if n == 1 { &b"x"[..] } else { b"yz" };
        let (ticket, asked) = work(&said);
        assert_eq!(asked, Work::Digest(octets.to_vec()));
        let (ticket, _) = work(&worked(&mut echo, ticket, Ok(&DIGEST)));
        let next = worked(&mut echo, ticket, Ok(b"packed"));
        said = next[1..].to_vec();
    }
    // No more are packed than may wait.
    assert_eq!(said, []);
    assert_eq!(hear(&mut echo, at(99), 1, StreamEvent::Data(b"w")), []);
    let waiting = &echo.streams[&stream(1)];
    assert_eq!(
        (waiting.pieces.len(), &waiting.fresh[..], waiting.fresh_due),
        (PIECES_MAX, &b"yzw"[..], at(1099))
    );
    echo.check();
}

#[test]
fn datagrams_go_back_with_their_code_point_and_hop_limit() {
    let delay = Some(Time(Duration::from_millis(5)));
    let mut echo = echo(&EchoConfig { delay, ..config() });
    echo.hear(START, &question(4000, b"abc"));
    assert_eq!((effects(&mut echo), echo.wake()), (vec![], Some(at(5))));
    echo.send_due(at(5));
    let answers = effects(&mut echo);
    let [Effect::Datagram { meta, bytes, .. }] = &answers[..] else {
        panic!("{answers:?}");
    };
    assert_eq!((meta.src, meta.dst), (address(7), address(4000)));
    assert_eq!((meta.dscp, meta.hop_limit), (46, 3));
    assert_eq!(bytes, b"abc");
    assert_eq!(echo.stats().datagrams, 1);
}

#[test]
fn another_echo_isnt_answered_and_a_flood_has_a_limit() {
    let delay = Some(Time(Duration::from_secs(1)));
    let mut echo = echo(&EchoConfig { delay, ..config() });
    echo.hear(START, &question(7, b"abc"));
    assert_eq!((echo.wake(), echo.stats().datagrams_dropped), (None, 1));
    let long = vec![0; 1400];
    for _ in 0..1000 {
        echo.hear(START, &question(4000, &long));
    }
    let room = DATAGRAM_OCTETS_MAX as u64 / 1400;
    assert_eq!(echo.stats().datagrams_dropped, 1 + 1000 - room);
    echo.send_due(at(1000));
    assert_eq!(echo.stats().datagrams, room);
    assert_eq!(echo.datagram_octets, 0);
}

#[test]
fn clients_get_answers_with_their_own_code_point_unless_told_otherwise() {
    let asks = |echo: &mut Echo, dscp| {
        let event = StreamEvent::Opened {
            listener: None,
            src: address(40_000),
            dst: address(7),
            dscp,
        };
        hear(echo, START, u64::from(dscp), event)
    };
    let mut mirror = echo(&config());
    assert_eq!(asks(&mut mirror, 46), [op(46, StreamOp::Mark(46))]);
    assert_eq!(asks(&mut mirror, 0), []);
    let mut told = echo(&EchoConfig {
        dscp: "0".parse().ok(),
        ..config()
    });
    assert_eq!(asks(&mut told, 46), []);
}

fn asked(echo: &mut Echo, n: u64, src: &str) -> Vec<Effect> {
    let event = StreamEvent::Asked {
        listener: SocketId {
            owner: OWNER,
            n: STREAMS,
        },
        src: src.parse().unwrap(),
        dst: address(7),
        dscp: 0,
        options: SynOptions::default(),
    };
    hear(echo, START, n, event)
}

#[test]
fn clients_are_let_in_or_refused_by_their_addresses() {
    let config = EchoConfig {
        ask: true,
        ..config()
    };
    let mut open = Echo::new(OWNER, &config, core::iter::empty());
    let listens = effects(&mut open)
        .into_iter()
        .find_map(|effect| match effect {
            Effect::Socket {
                op: SocketOp::Listen(listen),
                ..
            } => Some(listen.asks),
            _ => None,
        });
    assert_eq!(listens, Some(Some(ANSWER)));
    assert_eq!(
        asked(&mut open, 1, "192.0.2.1:5"),
        [op(1, StreamOp::Accept)]
    );
    let allow = ["10.1.0.0/24", "fd00::/8"].map(|it| it.parse().unwrap());
    for (refuse, how) in [
        (None, Refusal::Reset),
        (Some(EchoRefusal::Silence), Refusal::Silence),
        (
            Some(EchoRefusal::Unreachable),
            Refusal::Unreachable(Unreachable::AdminProhibited),
        ),
    ] {
        let mut echo = echo(&EchoConfig {
            allow: allow.to_vec(),
            refuse,
            ..config.clone()
        });
        for (n, (src, accepted)) in [
            ("10.1.0.0:5", true),
            ("10.1.0.255:5", true),
            ("10.1.1.0:5", false),
            ("10.0.255.255:5", false),
            ("[fd12::1]:5", true),
            ("[fe80::1]:5", false),
        ]
        .into_iter()
        .enumerate()
        {
            let expected = if accepted {
                StreamOp::Accept
            } else {
                StreamOp::Refuse(how)
            };
            let said = asked(&mut echo, n as u64, src);
            assert_eq!(said, [op(n as u64, expected)], "{src}");
        }
        assert_eq!((echo.stats().refused, echo.stats().streams.opened), (3, 0));
        echo.check();
    }
}

fn secured(starttls: bool) -> EchoConfig {
    EchoConfig {
        tls: Some("own".into()),
        starttls,
        ..config()
    }
}

fn starts_tls() -> Effect {
    let (profile, role) = ("own".into(), TlsRole::Server);
    op(1, StreamOp::StartTls { profile, role })
}

const SECURED: StreamEvent<'_> = StreamEvent::Secured {
    peer: None,
    version: strait_core::tls::TlsVersion::V1_3,
};

#[test]
fn a_connection_is_secured_as_soon_as_it_opens() {
    let mut echo = echo(&secured(false));
    assert_eq!(open(&mut echo, 1), [starts_tls()]);
    let credit = hear(&mut echo, START, 1, StreamEvent::Writable(9));
    assert_eq!(credit, [op(1, StreamOp::Credit(9))]);
    assert_eq!(hear(&mut echo, START, 1, SECURED), []);
    let back = hear(&mut echo, START, 1, StreamEvent::Data(b"a"));
    assert_eq!(back, [op(1, StreamOp::Send(b"a".to_vec()))]);
    assert_eq!(echo.stats().tls.secured, 1);
    let number = TlsFault::Truncated.number();
    hear(&mut echo, START, 1, StreamEvent::Reset(number));
    let stats = echo.stats();
    assert_eq!(stats.tls.failed_by(TlsFault::Truncated), 1);
    assert_eq!(stats.streams.resets_by(ResetCause::Tls), 1);
    echo.check();
}

#[test]
fn a_client_asks_for_tls_by_a_line_however_it_is_cut() {
    for pieces in [vec![&b"STARTTLS\r\n"[..]], vec![b"START", b"TLS\r", b"\n"]] {
        let mut echo = echo(&secured(true));
        assert_eq!(open(&mut echo, 1), []);
        let hear_piece = |piece: &&[u8]| hear(&mut echo, START, 1, StreamEvent::Data(piece));
        let answers: Vec<Effect> = pieces.iter().flat_map(hear_piece).collect();
        let answer = StreamOp::Send(EchoConfig::STARTTLS_ANSWER.to_vec());
        assert_eq!(answers, [op(1, answer), starts_tls()]);
        assert_eq!(hear(&mut echo, START, 1, SECURED), []);
        let back = hear(&mut echo, START, 1, StreamEvent::Data(b"STARTTLS\r\n"));
        assert_eq!(back, [op(1, StreamOp::Send(b"STARTTLS\r\n".to_vec()))]);
        echo.check();
    }
}

/// Somebody in the middle may have put it there, to be taken for the client's.
#[test]
fn octets_in_the_clear_end_a_connection_that_is_to_be_secured() {
    let reset = || op(1, StreamOp::Reset(TlsFault::Clear.number()));
    for wrong in [&b"hello"[..], b"STARTTLS\r\nmore", b"STARTTLS\nx"] {
        let mut echo = echo(&secured(true));
        open(&mut echo, 1);
        let ended = hear(&mut echo, START, 1, StreamEvent::Data(wrong));
        assert_eq!(ended, [reset()]);
        assert_eq!(echo.stats().tls.failed_by(TlsFault::Clear), 1);
        echo.check();
    }
    let mut echo = echo(&secured(true));
    open(&mut echo, 1);
    hear(&mut echo, START, 1, StreamEvent::Data(b"STARTTLS\r\n"));
    let ended = hear(&mut echo, START, 1, StreamEvent::Data(b"x"));
    assert_eq!(ended, [reset()]);
}
