//! A port against a modem that is played octet by octet from the text of the standard.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};

use socket2::{Domain, Socket, Type};
use strait_core::id::ClassId;
use strait_core::node::{Notice, Turn};
use strait_core::waveform::{self, Bandwidth, Family, Interleaver};

use super::*;

#[path = "../../../tests/suite/modem_by_hand.rs"]
mod hand;
mod udp;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// 2400 bit/s in blocks of 36 octets and 120 ms; power and preamble take 440 ms.
fn config(address: SocketAddr, transport: ModemTransport) -> HfModem {
    let family = (Family::default(), Bandwidth::default());
    let mode = waveform::find(family.0, family.1, Interleaver::UltraShort, 2400).unwrap();
    assert_eq!(mode.mode.octets_in(1), 36);
    HfModem {
        address,
        transport,
        control: None,
        mode: mode.mode,
        lead_in: Duration::from_millis(440),
        notice: Notice::NONE,
        decode: Duration::from_millis(480),
        blocks_max: 100,
        ahead: Duration::from_millis(100),
        start_blocks: 3,
    }
}

/// A modem that is played, and the port that uses it.
struct Bench {
    listener: TcpListener,
    stream: TcpStream,
    port: ModemPort,
}

impl Bench {
    fn open(now: Instant) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut port = ModemPort::new(config(address, ModemTransport::Tcp));
        port.open(now).unwrap();
        let (stream, _) = listener.accept().unwrap();
        Self {
            listener,
            stream,
            port,
        }
    }

    /// The modem says something; what the node hears of it.
    fn says(&mut self, now: Instant, packets: &[Vec<u8>]) -> io::Result<Vec<Received>> {
        self.stream.write_all(&packets.concat()).unwrap();
        take(&mut self.port, now)
    }

    /// The next packet that the modem hears.
    fn hears(&mut self) -> (u8, Vec<u8>) {
        hand::read(&mut self.stream)
    }

    /// A modem that has greeted and said how it is.
    fn ready(now: Instant) -> Self {
        let mut bench = Self::open(now);
        assert_eq!(bench.hears(), (1, vec![12]));
        let said = [hand::connect(12), hand::connect_ack(12)];
        bench.says(now, &said).unwrap();
        assert_eq!(bench.hears(), (2, vec![12]));
        bench.says(now, &[hand::data(&[hand::PROBE])]).unwrap();
        assert_eq!(bench.hears(), (0, vec![hand::PROBE]));
        assert!(bench.port.room(now).is_err());
        let said = [
            hand::initial_setup([1, 0, 0, 0, 0]),
            hand::tx_setup(2400, 288),
            hand::tx_status(hand::FLUSHED, [65_536, 0, 0, 0]),
            hand::carrier(0, 0, 0),
        ];
        bench.says(now, &said).unwrap();
        assert!(bench.port.room(now).is_ok());
        bench
    }

    /// Begins a turn of so many blocks, and gives so many octets of it.
    fn begin(&mut self, now: Instant, blocks: u32, octets: usize) {
        give(&mut self.port, now, blocks, octets);
        assert_eq!(self.hears(), (0, vec![hand::ARM]));
    }

    fn status(&mut self, now: Instant, state: u8) -> Vec<Received> {
        let status = hand::tx_status(state, [65_536, 0, 0, 0]);
        self.says(now, &[status]).unwrap()
    }
}

/// Takes all that has come, at least something.
fn take(port: &mut ModemPort, now: Instant) -> io::Result<Vec<Received>> {
    let mut buffer = [0; 4096];
    let (mut all, mut some) = (Vec::new(), false);
    loop {
        match port.receive(now, &mut buffer)? {
            Received::Nothing if !some => std::thread::yield_now(),
            Received::Nothing => return Ok(all),
            Received::Skipped => some = true,
            other => {
                some = true;
                all.push(other);
            }
        }
    }
}

fn give(port: &mut ModemPort, now: Instant, blocks: u32, octets: usize) {
    let turn = Turn {
        key_up: port.turn.is_none(),
        blocks,
        last: false,
        mode: None,
    };
    let meta = TxMeta {
        turn: Some(turn),
        ..TxMeta::to_peer(ClassId(0))
    };
    let sent = port.transmit(now, &meta, &vec![7; octets]).unwrap();
    assert_eq!(sent, Sent::Taken);
}

/// The order, the number and the octets of a packet of data.
fn octets((kind, payload): (u8, Vec<u8>)) -> (u8, Vec<u8>, Vec<u8>) {
    assert_eq!((kind, payload[0]), (0, 0), "data");
    (payload[1], payload[2..14].to_vec(), payload[14..].to_vec())
}

const DRAINED: Received = Received::Event(PortEvent::Drained);

/// A.5.1.2.5, steps 1 to 7 and 13: armed while flushed, three blocks before the start, packets in
/// order, each with another number (A.5.1.1.5), the last one marked.
#[test]
fn it_arms_gives_three_blocks_starts_and_goes_on_block_by_block() {
    let mut bench = Bench::ready(at(0));
    bench.begin(at(1000), 5, 40);
    // The rest of three blocks is asked for at once; nothing goes before the modem is armed.
    let room = bench.port.room(at(1000)).unwrap();
    assert_eq!((room.octets, room.starts), (140, at(1440) + mode_time(40)));
    give(&mut bench.port, at(1000), 5, 68);
    assert_eq!(bench.port.room(at(1000)), Err(Some(at(1440 + 360 - 100))));
    bench.status(at(1010), hand::READY);
    let (order, id, first) = octets(bench.hears());
    assert_eq!((order, first.len()), (1, 108));
    assert_eq!(bench.hears(), (0, vec![hand::START]));
    bench.status(at(1020), hand::STARTED);
    // The lead-in counts from the start.
    assert_eq!(bench.port.room(at(1020)), Err(Some(at(1460 + 360 - 100))));
    give(&mut bench.port, at(1720), 5, 30);
    let (order, other, _) = octets(bench.hears());
    assert_eq!(order, 3);
    assert_ne!(other, id);
    give(&mut bench.port, at(1840), 5, 42);
    assert_eq!(octets(bench.hears()).0, 4);
    assert!(bench.port.room(at(1850)).is_err());
    assert_eq!(bench.status(at(1850), hand::DRAINING), []);
    assert_eq!(bench.status(at(3000), hand::FLUSHED), [DRAINED]);
}

fn mode_time(octets: u64) -> Duration {
    Duration::from_nanos((octets * 8 * 1_000_000_000).div_ceil(2400))
}

/// A.5.1.1.5.1, A.5.1.2.5, step 4: a short transmission is one packet, first and last, and may be
/// shorter than three blocks.
#[test]
fn a_short_transmission_is_one_packet() {
    let mut bench = Bench::ready(at(0));
    bench.begin(at(1000), 1, 36);
    bench.status(at(1000), hand::READY);
    let (order, _, octets) = octets(bench.hears());
    assert_eq!((order, octets.len()), (2, 36));
    assert_eq!(bench.hears(), (0, vec![hand::START]));
}

/// A.5.1.2.5, steps 3 and 7, A.5.1.2.7.2: a modem that receives takes octets and no start; a start
/// that it doesn't follow is said again after 10 ms.
#[test]
fn it_starts_when_the_modem_can_and_again_until_it_does() {
    let mut bench = Bench::ready(at(0));
    let heard = bench.says(at(900), &[hand::carrier(1, 2400, 288)]).unwrap();
    assert_eq!(heard, [Received::Event(PortEvent::Carrier(true))]);
    bench.begin(at(1000), 1, 36);
    bench.status(at(1000), hand::NOT_READY);
    octets(bench.hears());
    // As long as it hears somebody, nothing is wrong.
    bench.port.tick(at(12_000)).unwrap();
    assert_eq!(bench.hears(), (0, vec![]), "a sign of life, and no start");
    bench.status(at(12_000), hand::READY);
    assert_eq!(bench.hears(), (0, vec![hand::START]));
    bench.status(at(12_001), hand::READY);
    assert_eq!(bench.port.wake(), Some(at(12_010)));
    bench.port.tick(at(12_010)).unwrap();
    assert_eq!(bench.hears(), (0, vec![hand::START]));
    bench.status(at(12_011), hand::STARTED);
    assert!(bench.port.wake() > Some(at(12_020)));
}

/// A.5.1.2.5, steps 1 to 3: a modem that answers an arming by flushed is armed again, without
/// another word of it, and gets no octets before it is armed.
#[test]
fn it_arms_again_what_stays_flushed() {
    let mut bench = Bench::ready(at(0));
    bench.begin(at(1000), 1, 36);
    assert_eq!(bench.status(at(1001), hand::FLUSHED), []);
    for again in [1100, 1200] {
        assert_eq!(bench.port.wake(), Some(at(again)));
        bench.port.tick(at(again)).unwrap();
        assert_eq!(bench.hears(), (0, vec![hand::ARM]));
    }
    bench.status(at(1201), hand::READY);
    assert_eq!(octets(bench.hears()).2.len(), 36);
    assert_eq!(bench.hears(), (0, vec![hand::START]));
}

/// A modem that never arms is left, however often it says that it is flushed.
#[test]
fn a_modem_that_never_arms_is_left() {
    let mut bench = Bench::ready(at(0));
    bench.begin(at(1000), 1, 36);
    for late in (1100..11_000).step_by(100) {
        bench.status(at(late), hand::FLUSHED);
        assert!(bench.port.tick(at(late)).is_ok());
    }
    assert!(bench.port.tick(at(11_000)).is_err());
}

/// A.5.1.2.7.2: a start that the modem answers by not ready isn't said again before it is ready.
#[test]
fn a_start_that_is_put_off_waits_until_the_modem_is_ready() {
    let mut bench = Bench::ready(at(0));
    bench.begin(at(1000), 1, 36);
    bench.status(at(1000), hand::READY);
    octets(bench.hears());
    assert_eq!(bench.hears(), (0, vec![hand::START]));
    // It has begun to receive.
    bench
        .says(at(1001), &[hand::carrier(1, 2400, 288)])
        .unwrap();
    bench.status(at(1001), hand::NOT_READY);
    assert_eq!(bench.port.wake(), Some(at(3000)));
    for late in [1011, 1021, 3000] {
        bench.port.tick(at(late)).unwrap();
    }
    assert_eq!(bench.hears(), (0, vec![]), "a sign of life, and no start");
    bench.status(at(3001), hand::READY);
    assert_eq!(bench.hears(), (0, vec![hand::START]));
}

/// A.5.1.1.7, A.5.1.2.5, step 11: a modem that needs octets earlier gets them.
#[test]
fn what_a_modem_needs_by_a_time_is_asked_for_before() {
    let mut bench = Bench::ready(at(0));
    bench.begin(at(1000), 9, 108);
    bench.status(at(1000), hand::READY);
    assert_eq!(bench.port.room(at(1000)), Err(Some(at(1700))));
    let needs = hand::tx_status(hand::STARTED, [65_000, 108, 300, 36]);
    octets(bench.hears());
    bench.says(at(1000), &[needs]).unwrap();
    assert_eq!(bench.port.room(at(1000)), Err(Some(at(1200))));
    give(&mut bench.port, at(1200), 9, 36);
    assert_eq!(bench.port.room(at(1200)), Err(Some(at(1820))));
}

/// A.5.1.2.5, steps 4 and 11, A.5.1.1.5.1: what the node doesn't write in time goes as zeros in the
/// first three blocks of more, and ends the transmission without data later.
#[test]
fn what_is_not_written_in_time_is_filled_or_ends_the_transmission() {
    let mut bench = Bench::ready(at(0));
    bench.begin(at(1000), 5, 40);
    bench.status(at(1001), hand::READY);
    assert_eq!(octets(bench.hears()).2.len(), 40);
    assert_eq!(bench.port.wake(), Some(at(1010)));
    bench.port.tick(at(1010)).unwrap();
    let (order, _, zeros) = octets(bench.hears());
    assert_eq!((order, zeros), (3, vec![0; 68]));
    assert_eq!(bench.hears(), (0, vec![hand::START]));
    bench.status(at(1010), hand::STARTED);
    // The fourth block begins after 442 and 360 ms more.
    bench.port.tick(at(1759)).unwrap();
    assert!(bench.port.room(at(1759)).is_ok());
    bench.port.tick(at(1760)).unwrap();
    let (order, _, none) = octets(bench.hears());
    assert_eq!((order, none.len()), (4, 0));
    assert_eq!(bench.port.room(at(1760)), Err(None));
    assert_eq!(bench.status(at(1850), hand::FLUSHED), [DRAINED]);
    // One of three blocks ends at once.
    bench.begin(at(3000), 3, 40);
    bench.port.tick(at(3010)).unwrap();
    bench.status(at(3011), hand::READY);
    assert_eq!(octets(bench.hears()).0, 2);
    assert_eq!(bench.hears(), (0, vec![hand::START]));
}

/// A.5.1.1.6, A.5.1.2.5, step 11: after a refusal nothing more is given, and the transmission is
/// over when the modem says so.
#[test]
fn a_refusal_ends_what_is_given() {
    let mut bench = Bench::ready(at(0));
    bench.begin(at(1000), 9, 108);
    bench.status(at(1000), hand::READY);
    octets(bench.hears());
    assert_eq!(bench.hears(), (0, vec![hand::START]));
    bench.status(at(1001), hand::STARTED);
    let nack = hand::data(&[&[4, 1][..], &[0; 12]].concat());
    bench.says(at(1800), &[nack]).unwrap();
    bench.status(at(1800), hand::FORCED);
    give(&mut bench.port, at(1801), 9, 36);
    assert_eq!(bench.status(at(2000), hand::FLUSHED), [DRAINED]);
    assert_eq!(bench.port.counts().refused, 1);
    // The next thing that the modem hears is the next transmission.
    bench.begin(at(3000), 1, 36);
}

/// A.5.1.1.8, A.5.1.2.6: what is received, with the rate that was told.
#[test]
fn what_is_received_has_the_rate_of_its_carrier() {
    let mut bench = Bench::ready(at(0));
    let heard = bench
        .says(
            at(10),
            &[
                hand::carrier(1, 9600, 4608),
                hand::octets(1, 1, b"first"),
                hand::octets(3, 2, b"more"),
                hand::octets(4, 3, b""),
                hand::carrier(0, 0, 0),
            ],
        )
        .unwrap();
    let frame = |octets| Received::Frame {
        from: NeighbourId::PEER,
        octets,
    };
    let carrier = |on| Received::Event(PortEvent::Carrier(on));
    assert_eq!(heard, [carrier(true), frame(5), frame(4), carrier(false)]);
    assert_eq!(bench.port.meta().rate_bit_s, Some(9600));
}

/// A.5.1.2.1: each side's greeting, and the answer to it, within three seconds; then the modem's
/// own limits hold.
#[test]
fn a_modem_that_does_not_greet_in_three_seconds_is_left() {
    for said in [vec![], vec![hand::connect(12)], vec![hand::connect_ack(12)]] {
        let mut bench = Bench::open(at(0));
        if !said.is_empty() {
            bench.says(at(0), &said).unwrap();
        }
        assert_eq!(bench.port.wake(), Some(at(3000)));
        let before = Instant::from_nanos(at(3000).as_nanos() - 1);
        assert!(bench.port.tick(before).is_ok());
        assert!(bench.port.tick(at(3000)).is_err());
    }
}

/// A.5.1.2.1: another version ends the connection.
#[test]
fn a_modem_of_another_version_is_left() {
    for said in [hand::connect(11), hand::connect_ack(13)] {
        let mut bench = Bench::open(at(0));
        let error = bench.says(at(0), &[said]).unwrap_err();
        assert!(error.to_string().contains("version"), "{error}");
    }
}

/// A.5.1.2.3: a payload before the greeting, a type or command that isn't there, or that a terminal
/// sends, is answered by an error, and the connection ends.
#[test]
fn what_the_protocol_does_not_have_is_answered_by_an_error() {
    let mut bench = Bench::open(at(0));
    bench.hears();
    let early = hand::tx_setup(2400, 288);
    assert!(bench.says(at(0), &[early]).is_err());
    assert_eq!(bench.hears(), (0xff, vec![]));
    for wrong in [
        hand::data(&[7]),
        hand::data(&[0x0c]),
        hand::packet(3, &[]),
        hand::data(&[hand::ARM]),
        hand::tx_status(0, [0; 4]),
        hand::octets(5, 1, b""),
    ] {
        let mut bench = Bench::ready(at(0));
        assert!(bench.says(at(0), &[wrong]).is_err());
        assert_eq!(bench.hears(), (0xff, vec![]));
        bench.port.close();
        assert!(hand::is_closed(&mut bench.stream));
    }
    // A modem that found one itself.
    let mut bench = Bench::ready(at(0));
    assert!(bench.says(at(0), &[hand::packet(0xff, &[])]).is_err());
}

/// A.5.1.2.3: a packet whose check is wrong is as if it had never come.
#[test]
fn a_packet_with_a_wrong_check_is_passed_over() {
    let mut bench = Bench::ready(at(0));
    let mut wrong = hand::carrier(1, 2400, 288);
    wrong[9] ^= 1;
    let heard = bench.says(at(0), &[wrong, hand::data(&[])]).unwrap();
    assert_eq!(heard, []);
    assert_eq!(bench.port.counts().strangers, 1);
}

/// A.5.1.2.2: a sign of life after two seconds without a word; after thirty without one of the
/// modem, it is left. Any packet of data counts.
#[test]
fn it_gives_signs_of_life_and_leaves_a_silent_modem() {
    let mut bench = Bench::ready(at(0));
    assert_eq!(bench.port.wake(), Some(at(2000)));
    let before = Instant::from_nanos(at(2000).as_nanos() - 1);
    bench.port.tick(before).unwrap();
    assert_eq!(bench.port.wake(), Some(at(2000)));
    bench.port.tick(at(2000)).unwrap();
    assert_eq!(bench.hears(), (0, vec![]));
    assert_eq!(bench.port.wake(), Some(at(4000)));
    bench.says(at(25_000), &[hand::data(&[])]).unwrap();
    let before = Instant::from_nanos(at(55_000).as_nanos() - 1);
    assert!(bench.port.tick(before).is_ok());
    assert!(bench.port.tick(at(55_000)).is_err());
}

/// A.5.1.1.10, Table A-VIII: octets of less than eight bits can't carry a data link.
#[test]
fn a_modem_whose_octets_lack_bits_is_left_with_a_reason() {
    let mut bench = Bench::ready(at(0));
    let seven = hand::initial_setup([0, 2, 0, 0, 0]);
    let error = bench.says(at(0), &[seven]).unwrap_err();
    assert!(error.to_string().contains("synchronous"), "{error}");
    let mut bench = Bench::ready(at(0));
    let eight = hand::initial_setup([0, 3, 0, 0, 1]);
    assert!(bench.says(at(0), &[eight]).is_ok());
}

/// A.5.1.2.4: a modem that hung up is connected to anew, with a new greeting.
#[test]
fn a_modem_that_hung_up_is_greeted_anew() {
    let mut bench = Bench::ready(at(0));
    drop(std::mem::replace(&mut bench.stream, {
        let address = bench.listener.local_addr().unwrap();
        let other = TcpStream::connect(address).unwrap();
        bench.listener.accept().unwrap();
        other
    }));
    assert!(take(&mut bench.port, at(1)).is_err());
    bench.port.close();
    bench.port.open(at(1000)).unwrap();
    let (stream, _) = bench.listener.accept().unwrap();
    bench.stream = stream;
    assert_eq!(bench.hears(), (1, vec![12]));
    assert!(bench.port.room(at(1000)).is_err());
}

/// A modem that is far, or was away, is looked at each second as long as the connection is being
/// made: it waits three seconds for a greeting (A.5.1.2.1).
#[test]
fn a_connection_that_takes_long_is_looked_at_without_a_pause() {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    listener.bind(&any.into()).unwrap();
    // One that nobody accepts fills it.
    listener.listen(0).unwrap();
    let listener = TcpListener::from(listener);
    let address = listener.local_addr().unwrap();
    let _first = TcpStream::connect(address).unwrap();
    let mut port = ModemPort::new(config(address, ModemTransport::Tcp));
    for late in [0, 1000] {
        assert!(port.open(at(late)).is_err());
    }
    listener.accept().unwrap();
    // The system asks again by itself.
    let (mut stream, _) = listener.accept().unwrap();
    port.open(at(2000)).unwrap();
    assert_eq!(hand::read(&mut stream), (1, vec![12]));
    // A pause begins when it hangs up.
    drop(stream);
    assert!(take(&mut port, at(5000)).is_err());
    port.close();
    assert!(port.open(at(5999)).is_err());
    assert!(port.open(at(6000)).is_ok());
}

/// A modem that lets nobody in is tried again after 1, 2, 4, 8 and then each 16 s.
#[test]
fn a_modem_that_lets_nobody_in_is_tried_less_and_less_often() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut port = ModemPort::new(config(address, ModemTransport::Tcp));
    let mut now = at(0);
    for pause in [1, 2, 4, 8, 16, 16, 16] {
        port.open(now).unwrap();
        drop(listener.accept().unwrap());
        assert!(take(&mut port, now).is_err());
        port.close();
        let again = now + Duration::from_secs(pause);
        let early = port.open(Instant::from_nanos(again.as_nanos() - 1));
        assert!(early.is_err());
        now = again;
    }
}

/// Whatever comes, in any pieces, nothing breaks and little is kept.
#[test]
fn nonsense_of_a_modem_does_no_harm() {
    let mut bench = Bench::open(at(0));
    let mut state = 1u32;
    let mut any = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    for _ in 0..50 {
        let octets: Vec<u8> = (0..500).map(|_| any()).collect();
        assert_eq!(bench.says(at(1), &[octets]).unwrap(), []);
    }
    assert!(bench.port.counts().strangers > 0);
}
