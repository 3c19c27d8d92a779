//! The same in datagrams.

use super::*;

/// A terminal that is played, and the modem that it uses.
struct Bench {
    control: TcpStream,
    socket: UdpSocket,
    session: u32,
    number: u16,
    port: DataPort,
}

const FLUSHED: u8 = 0;
const QUEUEING: u8 = 1;
const STARTED: u8 = 2;
const DRAINING: u8 = 3;

impl Bench {
    /// A.5.2.1: the control's connection says who the terminal is.
    fn open(now: Instant, config: DataPortConfig) -> Self {
        let mut port = loop {
            // Another test may have the same port of UDP.
            if let Ok(port) = DataPort::open(config) {
                break port;
            }
        };
        let (control, socket) = loop {
            let control = TcpStream::connect(port.address).unwrap();
            serve(&mut port, now);
            if let Ok(socket) = UdpSocket::bind(control.local_addr().unwrap()) {
                break (control, socket);
            }
            drop(control);
            serve(&mut port, now);
        };
        socket.connect(port.address).unwrap();
        Self {
            control,
            socket,
            session: 0x0a_0b0c,
            number: 0,
            port,
        }
    }

    fn ready(now: Instant) -> Self {
        let mut bench = Self::open(now, config(true));
        bench.says(now, 3, &[]);
        bench.hears_state(FLUSHED);
        bench
    }

    fn says(&mut self, now: Instant, kind: u8, payload: &[u8]) -> Vec<Wish> {
        let datagram = hand::datagram(kind, self.session, payload);
        self.socket.send(&datagram).unwrap();
        serve(&mut self.port, now)
    }

    /// One set of six packets with 18 octets of data, of which two packets are enough.
    fn gives(&mut self, now: Instant, transfer: u16, control: u8, data: &[u8; 18]) -> Vec<Wish> {
        let mut wishes = Vec::new();
        for column in 0..2u8 {
            let number = (self.number + 4 + u16::from(column)).to_be_bytes();
            let [high, low] = transfer.to_be_bytes();
            let mut payload = vec![high, low, number[0], number[1], control, 0x11, 6, 2];
            payload.extend([0, 9, 0, 0, 0, 0, 0, 0]);
            payload.extend(data.iter().skip(column.into()).step_by(2));
            wishes.extend(self.says(now, 5, &payload));
        }
        self.number += 6;
        wishes
    }

    /// Passes over all that the modem has said.
    fn forgets(&self) {
        self.socket.set_nonblocking(true).unwrap();
        while self.socket.recv(&mut [0; 4096]).is_ok() {}
        self.socket.set_nonblocking(false).unwrap();
    }

    /// The next datagram of a type; others are passed over.
    fn hears(&self, wanted: u8) -> Vec<u8> {
        loop {
            let (kind, session, payload) = hand::hear(&self.socket);
            assert_eq!(session, self.session);
            if kind == wanted {
                return payload;
            }
        }
    }

    /// Statuses until one has this state of the transmitter; in control, of the right length.
    fn hears_state(&self, state: u8) -> Vec<u8> {
        loop {
            let status = self.hears(4);
            assert_eq!((status.len(), status[7] & 1), (32, 1));
            if status[7] >> 1 & 7 == state {
                return status;
            }
        }
    }
}

const MARK: [u8; 18] = [
    0x4b, 0x65, 0xa5, 0xb2, 0x26, 0xd2, 0xd3, 0x69, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

fn sent(wishes: &[Wish]) -> (bool, usize, bool) {
    let mut all = (false, 0, false);
    for wish in wishes {
        match wish {
            Wish::KeyUp(_) => all.0 = true,
            Wish::Send(octets, last) => {
                all.1 += octets.len();
                all.2 |= last;
            }
        }
    }
    all
}

/// A.5.2.4.1, A.5.2.6.5, Figure A-23: queueing, started when there is enough, draining after the
/// last set, flushed; each status has the next number and the transfer's.
#[test]
fn a_transmission_starts_by_itself_and_drains() {
    let mut bench = Bench::ready(at(0));
    assert_eq!(bench.gives(at(0), 9, 1, &[7; 18]), []);
    let queueing = bench.hears_state(QUEUEING);
    assert_eq!(queueing[2..4], [0, 9]);
    let mut wishes = Vec::new();
    // Three blocks are 108 octets; the last seven of what came may be the mark's beginning.
    for _ in 0..6 {
        wishes.extend(bench.gives(at(0), 9, 0, &[7; 18]));
    }
    assert_eq!(sent(&wishes), (true, 119, false));
    let started = bench.hears_state(STARTED);
    let number = |status: &[u8]| u16::from_be_bytes([status[0], status[1]]);
    assert!(number(&started) > number(&queueing));
    assert_eq!(started[12..16], [0, 0, 0, 119]);
    let wishes = bench.gives(at(1), 9, 2, &MARK);
    assert_eq!(sent(&wishes), (false, 7, true));
    bench.hears_state(DRAINING);
    bench.port.tell_drained(at(900));
    let flushed = bench.hears_state(FLUSHED);
    // 2400 bit/s in blocks of 288 bits.
    assert_eq!(flushed[26..], [0, 0x09, 0x60, 0, 0x01, 0x20]);
}

/// A.5.2.6.5, step 3: while it is held off, a transmission doesn't start by itself, but for its
/// last set.
#[test]
fn a_terminal_can_hold_a_start_off() {
    let mut bench = Bench::ready(at(0));
    for _ in 0..8 {
        assert_eq!(bench.gives(at(0), 9, 4, &[7; 18]), []);
    }
    assert_eq!(sent(&bench.gives(at(1), 9, 6, &MARK)), (true, 144, true));
}

/// A.5.2.5.2: a short transmission is one set, first and last.
#[test]
fn a_short_transmission_is_one_set() {
    let mut bench = Bench::ready(at(0));
    let mut data = [0; 18];
    data[..4].copy_from_slice(b"data");
    data[4..12].copy_from_slice(&MARK[..8]);
    assert_eq!(sent(&bench.gives(at(1), 9, 3, &data)), (true, 4, true));
}

/// A.5.2.6.3, A.5.2.6.5, step 9: a set that can't be decoded ends the transmission; nothing more of
/// it is taken, and the next one is.
#[test]
fn a_set_that_is_lost_ends_the_transmission() {
    let mut bench = Bench::ready(at(0));
    for _ in 0..8 {
        bench.gives(at(0), 9, 1, &[7; 18]);
    }
    bench.hears_state(STARTED);
    bench.number += 6;
    bench.gives(at(10), 9, 0, &[8; 18]);
    // The set's 60 ms, and what a LAN may take.
    let before = Instant::from_nanos(at(270).as_nanos() - 1);
    assert_eq!(bench.port.tick(before), []);
    assert_eq!(sent(&bench.port.tick(at(270))), (false, 0, true));
    let status = bench.hears_state(DRAINING);
    assert_eq!(status[8..10], [0, 6], "packets dropped");
    assert_eq!(bench.gives(at(271), 9, 0, &[8; 18]), []);
    bench.port.tell_drained(at(900));
    bench.number = 0;
    assert_eq!(
        sent(&bench.gives(at(1000), 10, 3, &MARK)),
        (false, 0, false)
    );
    bench.number = 0;
    for _ in 0..8 {
        bench.gives(at(1000), 11, 1, &[7; 18]);
    }
    bench.hears_state(STARTED);
}

/// Table A-XI: octets that come too late are told of.
#[test]
fn an_underrun_is_told() {
    let mut bench = Bench::ready(at(0));
    for _ in 0..8 {
        bench.gives(at(0), 9, 1, &[7; 18]);
    }
    bench.hears_state(STARTED);
    // 137 octets are three blocks of 36 and a part.
    assert_eq!(sent(&bench.port.tick(at(440 + 360))), (false, 0, true));
    let status = bench.hears_state(DRAINING);
    assert_eq!(status[6], 2);
}

/// A.5.2.4.1: a status each half second.
#[test]
fn a_status_comes_twice_a_second() {
    let mut bench = Bench::ready(at(0));
    assert_eq!(bench.port.wake(), Some(at(500)));
    bench.port.tick(at(500));
    bench.hears_state(FLUSHED);
    assert_eq!(bench.port.wake(), Some(at(1000)));
}

/// A.5.2.6.2: pings are answered and go out each five seconds; from a terminal that hasn't answered
/// for 30 nothing is taken, and its transmission ends; an answer, or another session, mends that.
#[test]
fn a_terminal_that_answers_no_ping_is_not_heard() {
    let mut bench = Bench::ready(at(0));
    bench.says(at(1), 1, &[]);
    bench.hears(2);
    bench.port.tick(at(5000));
    bench.hears(1);
    let before = Instant::from_nanos(at(30_000).as_nanos() - 1);
    for _ in 0..8 {
        bench.gives(before, 9, 1, &[7; 18]);
    }
    bench.hears_state(STARTED);
    assert_eq!(sent(&bench.port.tick(at(30_000))), (false, 0, true));
    bench.port.tell_drained(at(31_000));
    assert_eq!(bench.gives(at(31_000), 10, 1, &[7; 18]), []);
    bench.number = 0;
    bench.says(at(31_001), 2, &[]);
    let mut wishes = Vec::new();
    for _ in 0..8 {
        wishes.extend(bench.gives(at(31_002), 11, 1, &[7; 18]));
    }
    assert!(sent(&wishes).0);
}

/// A.5.2.3: another session of the terminal's ends what was under way, once the old one is silent;
/// a lone datagram of another, or an echo of the old one, changes nothing.
#[test]
fn another_session_begins_anew() {
    let mut bench = Bench::ready(at(0));
    bench.gives(at(0), 9, 1, &[7; 18]);
    let before = Instant::from_nanos(at(6000).as_nanos() - 1);
    let old = std::mem::replace(&mut bench.session, 5);
    bench.says(before, 3, &[]);
    bench.session = old;
    let mut wishes = Vec::new();
    // At 2400 bit/s this lasts longer than the silence.
    for _ in 0..120 {
        wishes.extend(bench.gives(before, 9, 0, &[7; 18]));
    }
    assert_eq!(sent(&wishes), (true, 121 * 18 - 7, false));
    let now = before + Duration::from_secs(6);
    // What is due by then goes in the old session.
    assert_eq!(bench.port.read(now, &mut [0; 4096]).unwrap(), []);
    bench.forgets();
    bench.session = 5;
    assert_eq!(sent(&bench.says(now, 3, &[])), (false, 0, true));
    bench.hears_state(DRAINING);
    bench.port.tell_drained(now);
    bench.session = old;
    bench.number = 0;
    assert_eq!(bench.gives(now, 9, 3, &[7; 18]), []);
}

/// A.5.2.4.3, A.5.2.6.6 and Figure A-24: carrier; the first set with rate and block, others
/// without; the last one with the mark; no carrier, and the receiver flushed.
#[test]
fn a_reception_is_told_in_sets() {
    let mut bench = Bench::ready(at(0));
    bench.port.tell_carrier(at(1), true, Some(OWN));
    let status = bench.hears(4);
    assert_eq!(status[7] >> 4 & 7, 1, "carrier, and nothing given");
    assert_eq!(status[20..26], [0, 0x09, 0x60, 0, 0x01, 0x20]);
    assert!(bench.port.tell_octets(at(2), &[7; 36]));
    let first = bench.hears(6);
    assert_eq!(first[2..14], [0, 0, 1, 0x11, 6, 2, 0, 9, 0, 0x09, 0x60, 0]);
    assert_eq!(
        (first[14..16].to_vec(), first.len()),
        (vec![0x01, 0x20], 29)
    );
    let second = bench.hears(5);
    assert_eq!((second[2..5].to_vec(), second.len()), (vec![0, 6, 0], 25));
    bench.port.tell_carrier(at(3), false, None);
    let mut last = Vec::new();
    for _ in 0..11 {
        last = bench.hears(5);
    }
    assert_eq!(last[2..5], [0, 17, 2]);
    assert_eq!(last[16..], [0x65, 0xb2, 0xd2, 0x69, 0, 0, 0, 0, 0]);
    let status = bench.hears_state(FLUSHED);
    assert_eq!(status[7], 1, "no carrier, nothing given, in control");
}

/// A.5.2.4.4, A.5.2.4.5, A.5.2.6.7: a command is acknowledged each time, known or not; the one that
/// ends a reception does.
#[test]
fn commands_are_acknowledged() {
    let mut bench = Bench::ready(at(0));
    bench.port.tell_carrier(at(1), true, Some(OWN));
    bench.port.tell_octets(at(2), &[7; 36]);
    bench.says(at(3), 7, &[0, 5, 1, 0]);
    assert_eq!(bench.hears(8), [0, 5, 0, 0]);
    assert!(!bench.port.tell_octets(at(4), &[7; 36]));
    bench.says(at(5), 7, &[0, 6, 9, 0]);
    assert_eq!(bench.hears(8), [0, 6, 0, 0]);
}

/// A.5.2.1, A.5.2.6.1: a second terminal is turned away, and datagrams of another address are
/// nobody's.
#[test]
fn only_one_terminal_is_heard() {
    let mut bench = Bench::ready(at(0));
    let mut second = TcpStream::connect(bench.port.address).unwrap();
    serve(&mut bench.port, at(1));
    assert!(hand::is_closed(&mut second));
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let ping = hand::datagram(1, bench.session, &[]);
    stranger.send_to(&ping, bench.port.address).unwrap();
    serve(&mut bench.port, at(2));
    stranger.set_nonblocking(true).unwrap();
    assert!(stranger.recv(&mut [0; 16]).is_err());
    // Who lets go of the control is gone.
    let address = bench.port.address;
    drop(bench.control);
    serve(&mut bench.port, at(3));
    assert_eq!(bench.port.wake(), None);
    let _next = TcpStream::connect(address).unwrap();
    serve(&mut bench.port, at(4));
    assert!(bench.port.wake().is_some());
}

/// A.5.2.6.3: what fails a check, is of another version or type, is ignored.
#[test]
fn nonsense_in_datagrams_is_ignored() {
    let mut bench = Bench::ready(at(0));
    let mut wrong = hand::datagram(1, bench.session, &[]);
    wrong[1] ^= 1;
    for nonsense in [wrong, vec![0x21, 0, 0, 0, 0, 0], vec![7; 3]] {
        bench.socket.send(&nonsense).unwrap();
        assert_eq!(serve(&mut bench.port, at(1)), []);
    }
    bench.says(at(1), 9, &[]);
    bench.says(at(2), 3, &[]);
    bench.hears_state(FLUSHED);
}
