//! The same in datagrams.

use std::net::UdpSocket;

use super::*;

/// A modem that is played, and the port that uses it.
struct Bench {
    control: TcpStream,
    socket: UdpSocket,
    session: u32,
    number: u16,
    port: ModemPort,
}

const FLUSHED: u8 = 0;
const STARTED: u8 = 2;
const DRAINING: u8 = 3;
const IN_CONTROL: u8 = 1;

impl Bench {
    /// A.5.2.1, A.5.2.6.1: the control's connection says where datagrams go and come from.
    fn open(now: Instant) -> Self {
        let (listener, socket) = loop {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            // Another test may have this port of UDP.
            if let Ok(socket) = UdpSocket::bind(listener.local_addr().unwrap()) {
                break (listener, socket);
            }
        };
        let address = listener.local_addr().unwrap();
        let mut port = ModemPort::new(config(address, ModemTransport::Udp));
        port.open(now).unwrap();
        let (control, terminal) = listener.accept().unwrap();
        socket.connect(terminal).unwrap();
        let (kind, session, payload) = hand::hear(&socket);
        assert_eq!((kind, payload), (3, vec![]), "asks how the modem is");
        Self {
            control,
            socket,
            session,
            number: 0xfffe,
            port,
        }
    }

    fn ready(now: Instant) -> Self {
        let mut bench = Self::open(now);
        bench.status(now, 0, FLUSHED << 1);
        assert!(bench.port.room(now).is_err(), "not in control");
        bench.status(now, 0, FLUSHED << 1 | IN_CONTROL);
        assert!(bench.port.room(now).is_ok());
        bench
    }

    fn says(&mut self, now: Instant, kind: u8, payload: &[u8]) -> Vec<Received> {
        let datagram = hand::datagram(kind, self.session, payload);
        self.socket.send(&datagram).unwrap();
        take(&mut self.port, now).unwrap()
    }

    /// A status with a transfer and a status vector.
    fn status(&mut self, now: Instant, transfer: u16, vector: u8) -> Vec<Received> {
        self.number = self.number.wrapping_add(1);
        let payload = status(self.number, transfer, vector);
        self.says(now, 4, &payload)
    }

    /// The next packets of data: their payloads.
    fn hears(&self, count: usize) -> Vec<Vec<u8>> {
        let packets = (0..count).map(|_| {
            let (kind, session, payload) = hand::hear(&self.socket);
            assert_eq!((kind, session), (5, self.session));
            payload
        });
        packets.collect()
    }
}

/// 2400 bit/s in blocks of 288 bits, both ways.
fn status(number: u16, transfer: u16, vector: u8) -> Vec<u8> {
    let [n, t] = [number, transfer].map(u16::to_be_bytes);
    let mode = [0, 0x09, 0x60, 0, 0x01, 0x20];
    let head = [n[0], n[1], t[0], t[1], 0, 0, 0, vector];
    [&head[..], &[0; 12], &mode, &mode].concat()
}

/// A.5.2.4.2, A.5.2.5, A.5.2.6.5: the modem's being flushed is waited for; three blocks go at once,
/// in sets of six packets with parities first; the transfer counts on, packets from 0; the last set
/// has the end mark and zeros.
#[test]
fn a_transmission_goes_in_marked_sets() {
    let mut bench = Bench::ready(at(0));
    // It ends another one.
    bench.status(at(10), 0, DRAINING << 1 | IN_CONTROL);
    give(&mut bench.port, at(1000), 3, 108);
    bench.status(at(1010), 0, FLUSHED << 1 | IN_CONTROL);
    // 108 octets and 8 make seven sets of 18.
    let packets = bench.hears(42);
    let transfer = u16::from_be_bytes([packets[0][0], packets[0][1]]);
    for (number, packet) in packets.iter().enumerate() {
        assert_eq!(packet[..2], transfer.to_be_bytes());
        assert_eq!(packet[2..4], (number as u16).to_be_bytes());
        let (first, last) = (u8::from(number < 6), u8::from(number >= 36) << 1);
        assert_eq!(packet[4..8], [first | last, 0x11, 6, 2]);
        assert_eq!(packet[8..12], [0, 9, 0, 0]);
        assert_eq!(packet.len(), 16 + 9);
        if number % 6 >= 4 && number < 36 {
            assert_eq!(packet[16..], [7; 9]);
        }
    }
    let last = [&packets[40][16..], &packets[41][16..]];
    let data: Vec<u8> = (0..18).map(|at| last[at % 2][at / 2]).collect();
    let mark = [0x4b, 0x65, 0xa5, 0xb2, 0x26, 0xd2, 0xd3, 0x69];
    assert_eq!(data, [&mark[..], &[0; 10]].concat());
    assert_eq!(
        bench.status(at(1020), transfer, STARTED << 1 | IN_CONTROL),
        []
    );
    let over = bench.status(at(2000), transfer, FLUSHED << 1 | IN_CONTROL);
    assert_eq!(over, [DRAINED]);
    // The next one has the next number.
    give(&mut bench.port, at(3000), 1, 36);
    let packets = bench.hears(18);
    assert_eq!(packets[0][..2], transfer.wrapping_add(1).to_be_bytes());
    assert_eq!(packets[0][2..4], [0, 0]);
    // All of it got lost: an idle modem says so later.
    let idle = FLUSHED << 1 | IN_CONTROL;
    assert_eq!(bench.status(at(4499), transfer, idle), []);
    assert_eq!(bench.status(at(4500), transfer, idle), [DRAINED]);
}

/// A.5.2.4.1: a status that is behind the last one is ignored, modulo 65536.
#[test]
fn a_status_that_is_behind_is_ignored() {
    let mut bench = Bench::ready(at(0));
    let carrier = |on| Received::Event(PortEvent::Carrier(on));
    assert_eq!(bench.number, 0);
    assert_eq!(bench.status(at(1), 0, 0x11), [carrier(true)]);
    assert_eq!(bench.says(at(2), 4, &status(0xffff, 0, 0x01)), []);
    assert_eq!(bench.says(at(2), 4, &status(2, 0, 0x01)), [carrier(false)]);
}

/// A.5.2.6.2: pings are answered, and one goes out each five seconds; a modem that hasn't answered
/// for 30 is left.
#[test]
fn pings_are_answered_and_a_modem_that_answers_none_is_left() {
    let mut bench = Bench::ready(at(0));
    bench.says(at(1), 1, &[]);
    assert_eq!(hand::hear(&bench.socket), (2, bench.session, vec![]));
    assert_eq!(bench.port.wake(), Some(at(5000)));
    bench.port.tick(at(5000)).unwrap();
    assert_eq!(hand::hear(&bench.socket), (1, bench.session, vec![]));
    bench.says(at(5001), 2, &[]);
    // Other words don't count.
    bench.status(at(20_000), 0, IN_CONTROL);
    let before = Instant::from_nanos(at(35_001).as_nanos() - 1);
    assert!(bench.port.tick(before).is_ok());
    assert!(bench.port.tick(at(35_001)).is_err());
}

/// A.5.2.3: a modem's other session is taken once the old one is silent, and what was under way is
/// over; an echo of the old one isn't.
#[test]
fn another_session_begins_anew() {
    let mut bench = Bench::ready(at(0));
    give(&mut bench.port, at(1), 3, 36);
    bench.hears(12);
    let old = bench.session;
    bench.session = old.wrapping_add(1) & 0xff_ffff;
    let heard = bench.status(at(1000), 0, FLUSHED << 1 | IN_CONTROL);
    assert!(heard.contains(&DRAINED), "{heard:?}");
    let new = std::mem::replace(&mut bench.session, old);
    bench.status(at(1001), 0, 0x10);
    bench.session = new;
    bench.says(at(1002), 1, &[]);
    assert_eq!(hand::hear(&bench.socket), (2, new, vec![]));
}

/// A datagram of a session that the modem doesn't have changes nothing while the modem speaks, and
/// later for no more than a second.
#[test]
fn a_session_is_not_ended_by_a_lone_datagram() {
    let mut bench = Bench::ready(at(0));
    give(&mut bench.port, at(1), 3, 36);
    bench.hears(12);
    let own = bench.session;
    let other = own.wrapping_add(1) & 0xff_ffff;
    let carrier = |on| Received::Event(PortEvent::Carrier(on));
    bench.session = other;
    assert_eq!(bench.status(at(999), 0, 0x11), []);
    bench.session = own;
    assert_eq!(bench.status(at(1000), 0, 0x11), [carrier(true)]);
    bench.session = other;
    assert_eq!(bench.status(at(2000), 0, 0x01), [DRAINED, carrier(false)]);
    bench.session = own;
    assert_eq!(bench.status(at(2999), 0, 0x11), []);
    assert_eq!(bench.status(at(3000), 0, 0x11), [carrier(true)]);
}

/// A.5.2.4.3, A.5.2.6.6: what a modem receives, in sets of which the first says its rate; the end
/// mark is taken off.
#[test]
fn what_is_received_comes_without_parities_and_mark() {
    let mut bench = Bench::ready(at(0));
    let mark = [0x4b, 0x65, 0xa5, 0xb2, 0x26, 0xd2, 0xd3, 0x69];
    let data = [&b"hello, world"[..], &mark, &[0; 4]].concat();
    let mut heard = Vec::new();
    for column in 0..4u8 {
        let mut payload = vec![0, 9, 0, 3 + column, 3, 0x11, 7, 4, 0, 6];
        payload.extend([0, 0x25, 0x80, 0, 0x12, 0, 0, 0, 0, 1]);
        payload.extend(data.iter().skip(column.into()).step_by(4));
        heard.extend(bench.says(at(10), 6, &payload));
    }
    let from = NeighbourId::PEER;
    assert_eq!(heard, [Received::Frame { from, octets: 12 }]);
    assert_eq!(bench.port.meta().rate_bit_s, Some(9600));
}

/// A.5.2.6.3: what fails a check, is of another version or type, is ignored.
#[test]
fn nonsense_in_datagrams_is_ignored() {
    let mut bench = Bench::ready(at(0));
    let mut wrong = hand::datagram(4, bench.session, &status(1, 0, 0x11));
    wrong[5] ^= 1;
    bench.socket.send(&wrong).unwrap();
    assert_eq!(take(&mut bench.port, at(1)).unwrap(), []);
    assert_eq!(bench.says(at(1), 9, &[]), []);
    bench.socket.send(&[0x24, 0, 0, 0]).unwrap();
    assert_eq!(take(&mut bench.port, at(1)).unwrap(), []);
    assert_eq!(bench.port.counts().strangers, 3);
}

/// A.5.2.1: without the control there is no modem.
#[test]
fn a_modem_whose_control_hangs_up_is_left() {
    let Bench {
        control, mut port, ..
    } = Bench::ready(at(0));
    drop(control);
    let mut gone = false;
    for _ in 0..1000 {
        gone |= port.tick(at(1)).is_err();
        std::thread::yield_now();
    }
    assert!(gone);
}
