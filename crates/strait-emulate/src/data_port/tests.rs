//! A modem against a terminal that is played octet by octet from the text of the standard.

use std::io::Write;
use std::net::{TcpStream, UdpSocket};

use nix::poll::{PollFd, PollFlags, poll};

use super::*;

#[path = "../../../strait-live/tests/suite/modem_by_hand.rs"]
mod hand;
mod udp;

const OWN: Mode = Mode {
    rate_bit_s: 2400,
    block_bits: 288,
};

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// Power and preamble take 440 ms; a block is 36 octets and 120 ms.
fn config(datagrams: bool) -> DataPortConfig {
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    DataPortConfig {
        address: any,
        datagrams,
        control: None,
        receiver_first: false,
        own: OWN,
        lead: Duration::from_millis(440),
    }
}

/// Reads what has come, as soon as something has.
fn serve(port: &mut DataPort, now: Instant) -> Vec<Wish> {
    let fds = port.fds();
    let mut fds: Vec<PollFd<'_>> = fds
        .iter()
        .map(|fd| PollFd::new(*fd, PollFlags::POLLIN))
        .collect();
    assert!(poll(&mut fds, 5000u16).unwrap() > 0);
    drop(fds);
    port.read(now, &mut [0; 4096]).unwrap()
}

/// A terminal that is played, and the modem that it uses.
struct Bench {
    stream: TcpStream,
    port: DataPort,
}

impl Bench {
    fn open(now: Instant, config: DataPortConfig) -> Self {
        let mut port = DataPort::open(config).unwrap();
        let stream = TcpStream::connect(port.address).unwrap();
        serve(&mut port, now);
        Self { stream, port }
    }

    /// The terminal says something; what the modem wants of the radio.
    fn says(&mut self, now: Instant, packets: &[Vec<u8>]) -> Vec<Wish> {
        self.stream.write_all(&packets.concat()).unwrap();
        serve(&mut self.port, now)
    }

    /// The next packet that the terminal hears.
    fn hears(&mut self) -> (u8, Vec<u8>) {
        hand::read(&mut self.stream)
    }

    /// A terminal that has greeted, at a modem that hears nobody.
    fn ready(now: Instant, config: DataPortConfig) -> Self {
        let mut bench = Self::greeted(now, config);
        let kinds: Vec<u8> = (0..4).map(|_| bench.hears().1[0]).collect();
        assert_eq!(kinds, [10, 9, 5, 8]);
        bench
    }

    fn greeted(now: Instant, config: DataPortConfig) -> Self {
        let mut bench = Self::open(now, config);
        assert_eq!(bench.hears(), (1, vec![12]));
        bench.says(now, &[hand::connect(12), hand::connect_ack(12)]);
        assert_eq!(bench.hears(), (2, vec![12]));
        assert_eq!(bench.hears(), (0, vec![hand::PROBE]));
        bench.says(now, &[hand::data(&[hand::PROBE])]);
        bench
    }

    /// The transmitter's state and the rest of a status.
    fn hears_status(&mut self) -> (u8, [u32; 4]) {
        let (kind, payload) = self.hears();
        assert_eq!((kind, payload[0], payload.len()), (0, 5, 18), "a status");
        let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        (payload[1], [number(2), number(6), number(10), number(14)])
    }

    fn hears_state(&mut self, state: u8) {
        assert_eq!(self.hears_status().0, state);
    }

    /// Arms and starts with a first packet of octets.
    fn started(now: Instant, octets: usize) -> Self {
        let mut bench = Self::ready(now, config(false));
        let said = [
            hand::data(&[hand::ARM]),
            hand::octets(1, 1, &vec![7; octets]),
            hand::data(&[hand::START]),
        ];
        let wishes = bench.says(now, &said);
        assert_eq!(
            wishes,
            [Wish::KeyUp(Some(OWN)), Wish::Send(vec![7; octets], false)]
        );
        bench.hears_state(hand::READY);
        bench.hears_state(hand::STARTED);
        bench
    }

    fn is_left(&mut self) -> bool {
        hand::is_closed(&mut self.stream)
    }
}

fn nack(cause: u8, id: u8) -> (u8, Vec<u8>) {
    (0, [&[4, cause][..], &[id; 12]].concat())
}

/// A.5.1.2.1: greeting, answer, probe; then set-up, rate, state and carrier, in this order.
#[test]
fn a_terminal_is_greeted_and_told_how_things_are() {
    let mut bench = Bench::greeted(at(7), config(false));
    let setup = [&[10][..], &[0; 8], &[0, 0, 0x13, 0x88, 1, 0, 0, 0, 0]].concat();
    assert_eq!(bench.hears(), (0, setup));
    let rate = vec![9, 0, 0, 0x09, 0x60, 0, 0, 0x01, 0x20];
    assert_eq!(bench.hears(), (0, rate));
    assert_eq!(bench.hears_status(), (hand::FLUSHED, [65_536, 0, 0, 0]));
    assert_eq!(bench.hears(), (0, [&[8][..], &[0; 9]].concat()));
}

/// A.5.1.1.10: the round-trip time is the probe's.
#[test]
fn the_round_trip_time_is_measured() {
    let mut bench = Bench::open(at(0), config(false));
    bench.says(at(0), &[hand::connect(12), hand::connect_ack(12)]);
    bench.says(at(41), &[hand::data(&[hand::PROBE])]);
    for _ in 0..3 {
        bench.hears();
    }
    assert_eq!(bench.hears().1[..5], [10, 0, 0, 0, 41]);
}

/// A.5.1.2.1, A.5.1.1.8: whoever connects while the modem receives is told so, with the rate.
#[test]
fn a_terminal_that_comes_late_hears_of_the_carrier() {
    let mut bench = Bench::open(at(0), config(false));
    let heard = Mode {
        rate_bit_s: 9600,
        block_bits: 4608,
    };
    bench.port.tell_carrier(at(0), true, Some(heard));
    bench.says(at(0), &[hand::connect(12), hand::connect_ack(12)]);
    bench.says(at(0), &[hand::data(&[hand::PROBE])]);
    for _ in 0..6 {
        bench.hears();
    }
    let carrier = vec![8, 1, 0, 0, 0x25, 0x80, 0, 0, 0x12, 0];
    assert_eq!(bench.hears(), (0, carrier));
}

/// A.5.1.2.1: three seconds for the greeting and for the answer to ours, six for the probe's.
#[test]
fn a_terminal_that_does_not_greet_in_time_is_left() {
    for (said, limit) in [
        (vec![], 3000),
        (vec![hand::connect(12)], 3000),
        (vec![hand::connect_ack(12)], 3000),
        (vec![hand::connect(12), hand::connect_ack(12)], 6000),
    ] {
        let mut bench = Bench::open(at(0), config(false));
        if !said.is_empty() {
            bench.says(at(0), &said);
        }
        let before = Instant::from_nanos(at(limit).as_nanos() - 1);
        bench.port.tick(before);
        assert!(bench.port.wake().is_some());
        bench.port.tick(at(limit));
        assert_eq!(bench.port.wake(), None);
        assert!(bench.is_left());
    }
}

/// A.5.1.2.1: another version ends the connection.
#[test]
fn a_terminal_of_another_version_is_left() {
    for said in [hand::connect(11), hand::connect_ack(13)] {
        let mut bench = Bench::open(at(0), config(false));
        bench.says(at(0), &[said]);
        assert!(bench.is_left());
    }
}

/// A.4.1: one terminal at a time; a second one is turned away, and the first goes on.
#[test]
fn a_second_terminal_is_turned_away() {
    let mut bench = Bench::ready(at(0), config(false));
    let mut second = TcpStream::connect(bench.port.address).unwrap();
    serve(&mut bench.port, at(1));
    assert!(hand::is_closed(&mut second));
    bench.says(at(2), &[hand::data(&[3])]);
    bench.hears_state(hand::FLUSHED);
    // Its place is free once it has gone.
    let address = bench.port.address;
    drop(bench.stream);
    serve(&mut bench.port, at(3));
    let mut next = TcpStream::connect(address).unwrap();
    serve(&mut bench.port, at(4));
    assert_eq!(hand::read(&mut next), (1, vec![12]));
}

/// A.5.1.2.3, Tables A-I and A-II: a payload before the greeting, types and commands that aren't
/// there, or that a modem sends, are answered by an error, and the connection ends.
#[test]
fn what_the_protocol_does_not_have_is_answered_by_an_error() {
    let mut bench = Bench::open(at(0), config(false));
    bench.hears();
    bench.says(at(0), &[hand::data(&[hand::ARM])]);
    assert_eq!(bench.hears(), (0xff, vec![]));
    assert!(bench.is_left());
    for wrong in [
        hand::data(&[7]),
        hand::data(&[0x0c]),
        hand::packet(3, &[]),
        hand::connect(12),
        hand::tx_setup(2400, 288),
        hand::tx_status(1, [0; 4]),
        hand::carrier(1, 0, 0),
        hand::octets(0, 1, b""),
    ] {
        let mut bench = Bench::ready(at(0), config(false));
        bench.says(at(0), &[wrong]);
        assert_eq!(bench.hears(), (0xff, vec![]));
        assert!(bench.is_left());
    }
    let mut bench = Bench::ready(at(0), config(false));
    bench.says(at(0), &[hand::packet(0xff, &[])]);
    assert!(bench.is_left());
}

/// A.5.1.1.6, A.5.1.2.3: a packet whose check is wrong is as if it had never come, without refusal.
#[test]
fn a_packet_with_a_wrong_check_is_passed_over() {
    let mut bench = Bench::ready(at(0), config(false));
    let mut wrong = hand::octets(1, 1, b"abc");
    wrong[20] ^= 1;
    bench.says(at(0), &[wrong, hand::data(&[3])]);
    bench.hears_state(hand::FLUSHED);
}

/// A.5.1.1.6, Table A-IV: refused with its number and why.
#[test]
fn octets_are_refused_for_four_reasons() {
    let mut bench = Bench::ready(at(0), config(false));
    bench.says(at(0), &[hand::octets(1, 5, b"a")]);
    assert_eq!(bench.hears(), nack(0, 5));
    bench.says(at(0), &[hand::data(&[hand::ARM])]);
    bench.hears_state(hand::READY);
    for (order, id, cause) in [(3, 6, 2), (4, 7, 2)] {
        bench.says(at(0), &[hand::octets(order, id, b"a")]);
        assert_eq!(bench.hears(), nack(cause, id));
    }
    bench.says(at(0), &[hand::octets(1, 8, b"a")]);
    for order in [1, 2] {
        bench.says(at(0), &[hand::octets(order, 9, b"a")]);
        assert_eq!(bench.hears(), nack(3, 9));
    }
}

/// A.5.1.2.5, steps 1 to 13, and Figure A-9.
#[test]
fn a_transmission_is_armed_started_drained_and_flushed() {
    let mut bench = Bench::ready(at(0), config(false));
    bench.says(at(0), &[hand::data(&[hand::START])]);
    bench.hears_state(hand::FLUSHED);
    bench.says(at(0), &[hand::data(&[hand::ARM])]);
    bench.hears_state(hand::READY);
    // Armed once is enough.
    bench.says(at(0), &[hand::data(&[hand::ARM])]);
    bench.hears_state(hand::READY);
    assert_eq!(bench.says(at(0), &[hand::octets(1, 1, &[1; 40])]), []);
    bench.says(at(0), &[hand::data(&[3])]);
    assert_eq!(bench.hears_status(), (hand::READY, [65_496, 40, 0, 0]));
    let wishes = bench.says(at(0), &[hand::data(&[hand::START])]);
    let keyed = [Wish::KeyUp(Some(OWN)), Wish::Send(vec![1; 40], false)];
    assert_eq!(wishes, keyed);
    // The second block begins after 560 ms and lacks 32 octets.
    assert_eq!(bench.hears_status(), (hand::STARTED, [65_496, 40, 560, 32]));
    bench.says(at(10), &[hand::data(&[hand::ARM])]);
    bench.hears_state(hand::STARTED);
    // Without data, as the last packet may be.
    let wishes = bench.says(at(20), &[hand::octets(4, 2, b"")]);
    assert_eq!(wishes, [Wish::Send(vec![], true)]);
    assert_eq!(bench.hears_status(), (hand::DRAINING, [65_496, 40, 0, 0]));
    bench.says(at(30), &[hand::octets(3, 3, b"more")]);
    assert_eq!(bench.hears(), nack(0, 3));
    bench.port.tell_drained(at(700));
    assert_eq!(bench.hears_status(), (hand::FLUSHED, [65_536, 0, 0, 0]));
}

/// A.5.1.1.5.1: a transmission may be one packet.
#[test]
fn one_packet_may_be_a_transmission() {
    let mut bench = Bench::ready(at(0), config(false));
    let said = [
        hand::data(&[hand::ARM]),
        hand::octets(2, 1, b"all"),
        hand::data(&[hand::START]),
    ];
    let wishes = bench.says(at(0), &said);
    assert_eq!(wishes[1], Wish::Send(b"all".to_vec(), true));
    for state in [hand::READY, hand::STARTED, hand::DRAINING] {
        bench.hears_state(state);
    }
}

/// A.5.1.1.7, A.5.1.2.5, steps 8 and 11: what a block lacks when it begins ends the transmission by
/// force.
#[test]
fn octets_that_come_too_late_are_refused_and_the_transmission_ends() {
    let mut bench = Bench::started(at(0), 40);
    let before = Instant::from_nanos(at(560).as_nanos() - 1);
    bench.port.tick(before);
    assert_eq!(bench.port.wake(), Some(at(560)));
    bench.port.tick(at(560));
    assert_eq!(bench.hears(), nack(1, 1));
    bench.hears_state(hand::FORCED);
    assert_eq!(bench.says(at(561), &[hand::octets(3, 2, b"late")]), []);
    assert_eq!(bench.hears(), nack(1, 2));
    bench.port.tell_drained(at(700));
    bench.hears_state(hand::FLUSHED);
}

/// A.5.1.2.5, step 8: the state of a transmission each two seconds at least.
#[test]
fn a_transmission_s_state_is_told_every_two_seconds() {
    let mut bench = Bench::started(at(0), 2000);
    assert_eq!(bench.port.wake(), Some(at(2000)));
    bench.port.tick(at(2000));
    // Fourteen blocks have begun.
    let (state, rest) = bench.hears_status();
    assert_eq!((state, rest[1]), (hand::STARTED, 2000 - 14 * 36));
}

/// A.5.1.2.5, step 10: without room for the longest packet, nothing more is taken from the
/// connection.
#[test]
fn a_full_queue_stops_the_terminal() {
    let mut bench = Bench::started(at(0), 40);
    let packet = hand::octets(3, 2, &[1; 4072]);
    bench.stream.set_nonblocking(true).unwrap();
    let mut sent = 0;
    for _ in 0..10_000 {
        // What the connection doesn't take, the modem's full queue holds back.
        match bench.stream.write(&packet[sent % packet.len()..]) {
            Ok(octets) => sent += octets,
            Err(_) if sent > 8 << 20 => break,
            Err(_) => {
                bench.port.tick(at(1));
                bench.port.read(at(1), &mut [0; 4096]).unwrap();
                if bench.port.wake() == Some(at(21)) {
                    break;
                }
            }
        }
        bench.port.tick(at(1));
        bench.port.read(at(1), &mut [0; 4096]).unwrap();
    }
    let turn = bench.port.radio.turn.unwrap();
    let queued = turn.queued(at(1)) as usize;
    assert!(queued <= radio::QUEUE_OCTETS_MAX, "{queued}");
    assert!(queued > radio::QUEUE_OCTETS_MAX - 2 * 4072, "{queued}");
    // It isn't waited for, and looked at again.
    assert_eq!(bench.port.fds().len(), 1);
    bench.port.tick(at(20_000));
    assert_eq!(bench.port.fds().len(), 2);
}

/// A.5.1.2.2: a sign of life after two seconds without a word; thirty without data of the terminal,
/// and it is left. A.5.1.2.5: the transmission of one that is gone ends.
#[test]
fn it_gives_signs_of_life_and_leaves_a_silent_terminal() {
    let mut bench = Bench::ready(at(0), config(false));
    assert_eq!(bench.port.wake(), Some(at(2000)));
    bench.port.tick(at(2000));
    assert_eq!(bench.hears(), (0, vec![]));
    bench.says(at(25_000), &[hand::data(&[])]);
    let before = Instant::from_nanos(at(55_000).as_nanos() - 1);
    bench.port.tick(before);
    assert!(bench.port.wake().is_some());
    bench.port.tick(at(55_000));
    assert!(bench.is_left());

    let mut bench = Bench::started(at(0), 40);
    drop(bench.stream);
    assert_eq!(serve(&mut bench.port, at(1)), [Wish::Send(vec![], true)]);
}

/// A.5.1.1.8, A.5.1.2.6 and Figure A-10: carrier, first and other packets, the last one, no
/// carrier.
#[test]
fn a_reception_is_told_from_carrier_to_last_packet() {
    let mut bench = Bench::ready(at(0), config(false));
    bench.port.tell_carrier(at(0), true, Some(OWN));
    let carrier = vec![8, 1, 0, 0, 0x09, 0x60, 0, 0, 0x01, 0x20];
    assert_eq!(bench.hears(), (0, carrier));
    let mut ids = Vec::new();
    for (order, octets) in [(1, b"one"), (3, b"two"), (3, b"six")] {
        assert!(bench.port.tell_octets(at(1), octets));
        let (_, payload) = bench.hears();
        assert_eq!(
            (payload[..2].to_vec(), &payload[14..]),
            (vec![0, order], &octets[..])
        );
        ids.push(payload[2..14].to_vec());
    }
    bench.port.tell_carrier(at(2), false, None);
    let (_, last) = bench.hears();
    assert_eq!((last[..2].to_vec(), last.len()), (vec![0, 4], 14));
    ids.push(last[2..].to_vec());
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4, "each has its own number");
    assert_eq!(bench.hears(), (0, [&[8][..], &[0; 9]].concat()));
}

/// A.5.1.2.6, step 6: a reception that is given up ends at once, until the next one.
#[test]
fn a_reception_can_be_given_up() {
    let mut bench = Bench::ready(at(0), config(false));
    bench.port.tell_carrier(at(0), true, Some(OWN));
    bench.hears();
    bench.port.tell_octets(at(1), b"one");
    bench.hears();
    bench.says(at(2), &[hand::data(&[6])]);
    assert_eq!(bench.hears().1[..2], [0, 4]);
    assert_eq!(bench.hears().1[..2], [8, 0]);
    assert!(!bench.port.tell_octets(at(3), b"two"));
    bench.port.tell_carrier(at(4), false, None);
    bench.port.tell_carrier(at(5), true, Some(OWN));
    assert_eq!(bench.hears().1[..2], [8, 1]);
    assert!(bench.port.tell_octets(at(6), b"next"));
    assert_eq!(bench.hears().1[..2], [0, 1]);
}

/// A.5.1.2.7.1: a start ends the reception, and while the modem sends there is no carrier.
#[test]
fn a_transmitter_that_goes_first_ends_a_reception() {
    let mut bench = Bench::ready(at(0), config(false));
    bench.port.tell_carrier(at(0), true, Some(OWN));
    bench.port.tell_octets(at(1), b"one");
    let said = [
        hand::data(&[hand::ARM]),
        hand::octets(2, 1, b"all"),
        hand::data(&[hand::START]),
    ];
    assert_eq!(bench.says(at(2), &said).len(), 2);
    assert_eq!(bench.hears().1[..2], [8, 1]);
    assert_eq!(bench.hears().1[..2], [0, 1]);
    bench.hears_state(hand::READY);
    assert_eq!(bench.hears().1[..2], [0, 4]);
    assert_eq!(bench.hears().1[..2], [8, 0]);
    bench.hears_state(hand::STARTED);
    bench.hears_state(hand::DRAINING);
    // Another's power meanwhile is told of afterwards.
    bench.port.tell_carrier(at(3), false, None);
    bench.port.tell_carrier(at(4), true, Some(OWN));
    assert!(!bench.port.tell_octets(at(4), b"lost"));
    bench.port.tell_drained(at(500));
    bench.hears_state(hand::FLUSHED);
    assert_eq!(bench.hears().1[..2], [8, 1]);
}

/// A.5.1.2.7.2: a receiver that goes first lets octets be queued and no transmission start.
#[test]
fn a_receiver_that_goes_first_holds_a_start_back() {
    let first = DataPortConfig {
        receiver_first: true,
        ..config(false)
    };
    let mut bench = Bench::ready(at(0), first);
    bench.port.tell_carrier(at(0), true, Some(OWN));
    bench.hears();
    bench.says(at(1), &[hand::data(&[hand::ARM])]);
    bench.hears_state(hand::NOT_READY);
    assert_eq!(bench.says(at(1), &[hand::octets(2, 1, b"all")]), []);
    assert_eq!(bench.says(at(1), &[hand::data(&[hand::START])]), []);
    bench.hears_state(hand::NOT_READY);
    bench.port.tell_carrier(at(2), false, None);
    assert_eq!(bench.hears().1[..2], [8, 0]);
    bench.hears_state(hand::READY);
    assert_eq!(bench.says(at(3), &[hand::data(&[hand::START])]).len(), 2);
    bench.hears_state(hand::STARTED);
    bench.hears_state(hand::DRAINING);
    // While it sends there is no carrier.
    bench.port.tell_carrier(at(4), true, Some(OWN));
    bench.says(at(5), &[hand::data(&[3])]);
    bench.hears_state(hand::DRAINING);
}

/// A.5.1.1.9: rate and block are told when they change, and the carrier (A.5.1.1.8).
#[test]
fn a_change_of_waveform_is_told() {
    let address: SocketAddr = ([127, 0, 0, 1], 0).into();
    let with_control = DataPortConfig {
        control: Some(
            std::net::TcpListener::bind(address)
                .unwrap()
                .local_addr()
                .unwrap(),
        ),
        ..config(false)
    };
    let mut bench = Bench::ready(at(0), with_control);
    let mut control = TcpStream::connect(with_control.control.unwrap()).unwrap();
    serve(&mut bench.port, at(1));
    control.write_all(b"send 600 72\n").unwrap();
    serve(&mut bench.port, at(2));
    let rate = vec![9, 0, 0, 0x02, 0x58, 0, 0, 0, 72];
    assert_eq!(bench.hears(), (0, rate));
    assert_eq!(bench.hears().1[..2], [8, 0]);
    // Without its control it sends by its own again.
    drop(control);
    serve(&mut bench.port, at(3));
    assert_eq!(bench.hears().1[..5], [9, 0, 0, 0x09, 0x60]);
}

/// Whatever comes, in any pieces, nothing breaks.
#[test]
fn nonsense_of_a_terminal_does_no_harm() {
    let mut bench = Bench::ready(at(0), config(false));
    let mut state = 1u32;
    for _ in 0..50 {
        let octets = (0..500).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        let octets: Vec<u8> = octets.collect();
        assert_eq!(bench.says(at(1), &[octets]), []);
    }
    bench.says(at(1), &[hand::data(&[3])]);
    bench.hears_state(hand::FLUSHED);
}
