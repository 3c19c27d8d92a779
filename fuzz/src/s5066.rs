//! What a STANAG 5066 station hears.

use strait_core::node::{Notice, PortState};
use strait_core::rate::LineRate;
use strait_core::{Duration, Instant, Neighbours, Room};
use strait_s5066::c_pdu::CPdu;
use strait_s5066::d_pdu::{Body, DPdu, Data, Kind, NonArq, Segment, Warning, parse};
use strait_s5066::eow::{Eow, high_rate_of};
use strait_s5066::s_pdu::{CONFIRMS_MAX, DataSPdu, confirmations, packet};
use strait_s5066::stream::Finder;
use strait_s5066::{Address, Settings, Station, Waiting};

const OWN: Address = Address::new(1);
const PEERS: [Address; 3] = [Address::new(2), Address::new(3), Address::BROADCAST];

/// Octets of transmissions: the same D_PDUs are found however they are cut, one that was read is
/// written and read again, and a station hears them, answers and stays in order.
pub fn s5066(data: &[u8]) {
    let Some((&cut, bytes)) = data.split_first() else {
        return;
    };
    let cut = usize::from(cut) + 1;
    let whole = found(bytes, bytes.len().max(1));
    assert_eq!(found(bytes, cut), whole, "cut by {cut}");
    hear(bytes, cut);
    inside(bytes);
}

/// The same octets as what D_PDUs carry: what is read is written and read again.
fn inside(bytes: &[u8]) {
    if let Some(c_pdu) = CPdu::parse(bytes) {
        let mut out = Vec::new();
        c_pdu.put(&mut out);
        assert_eq!(CPdu::parse(&out), Some(c_pdu));
    }
    if let Some(data) = DataSPdu::parse(bytes) {
        let mut out = Vec::new();
        data.put_header(&mut out);
        out.extend_from_slice(data.u_pdu);
        assert_eq!(DataSPdu::parse(&out), Some(data));
        let _ = packet(&data);
    }
    assert!(confirmations(bytes).count() <= CONFIRMS_MAX);
    for pair in bytes.chunks_exact(2) {
        let bits = u16::from_be_bytes([pair[0] & 15, pair[1]]);
        let eow = Eow::parse(bits);
        assert_eq!(Eow::parse(eow.bits()), eow);
    }
    let _ = high_rate_of(bytes);
}

fn found(bytes: &[u8], cut: usize) -> Vec<(Kind, usize)> {
    let mut all = Vec::new();
    let mut finder = Finder::default();
    let mut note = |d_pdu: &DPdu<'_>| {
        let segment = d_pdu.body.segment().map_or(0, |it| it.octets.len());
        all.push((d_pdu.body.kind(), segment));
        again(d_pdu);
    };
    for piece in bytes.chunks(cut) {
        finder.feed(piece, &mut note);
    }
    finder.end(&mut note);
    all
}

fn again(d_pdu: &DPdu<'_>) {
    let damaged = d_pdu.body.segment().is_some_and(|it| !it.intact);
    if damaged || matches!(d_pdu.body, Body::Unknown(_)) {
        return;
    }
    let mut out = Vec::new();
    d_pdu.put(&mut out);
    assert_eq!(parse(&out, false), Ok((*d_pdu, out.len())));
}

/// Pieces come as transmissions of their own; the station answers each.
fn hear(bytes: &[u8], cut: usize) {
    let rate = LineRate::new(9600, 8);
    let mut station: Station<()> = Station::new(Settings::new(OWN), &PEERS, cut as u64);
    let mut now = Instant::from_secs(1);
    let state = PortState {
        tx_rate: rate,
        rx_rate: rate,
        frame_octets_max: 1 << 20,
        block: Duration::from_millis(480),
        latency: Duration::from_millis(482),
        notice: Notice::of(
            Duration::from_millis(200),
            Duration::from_millis(300),
            Duration::from_millis(20),
        ),
    };
    station.set_up(now, state);
    // One that calls hears answers.
    if cut.is_multiple_of(2) {
        station.link(0);
        answer(&mut station, now);
    }
    for piece in bytes.chunks(cut * 16) {
        station.hear_carrier(now, true);
        station.hear(now, piece);
        now += Duration::from_secs(1);
        station.hear_carrier(now, false);
        while station.poll_received().is_some() {}
        now += Duration::from_secs(2);
        station.advance(now);
        answer(&mut station, now);
        now += Duration::from_secs(5);
        station.advance(now);
    }
    assert_eq!(station.held(), 0, "nobody offered anything");
}

fn answer(station: &mut Station<()>, now: Instant) {
    let Some(to) = station.to_whom(&[]).filter(|_| station.may_transmit()) else {
        return;
    };
    let room = |octets| Room {
        octets,
        starts: now + Duration::from_millis(440),
        until: None,
        to: Neighbours::ALL,
    };
    assert!(station.begin(now, to, room(1 << 16), Waiting::default()));
    for octets in [1 << 16, 600, 300, 100, 50, 25, 10] {
        let mut out = Vec::new();
        station.write(room(octets), &mut out);
        assert!(out.len() <= octets);
    }
    station.drained(now + Duration::from_secs(1));
}

/// A number, then a link request, a damaged and a whole data D_PDU, and a warning.
pub fn exchange() -> Vec<u8> {
    let data = |number| {
        let data = Data {
            start: true,
            end: true,
            in_order: false,
            dropped: false,
            upper: true,
            lower: number == 0,
            number,
            segment: Segment::whole(b"\x00\x00\x99\x00HELLO"),
        };
        Body::Data(data, None)
    };
    let request = NonArq {
        expedited: true,
        c_pdu: 0,
        in_order: false,
        group: false,
        size: 1,
        offset: 0,
        window: 20,
        segment: Segment::whole(&[0x10]),
    };
    let warning = Body::Warning(Warning::of(0, 1));
    let mut out = vec![40];
    for body in [Body::NonArq(request), data(0), data(1), warning] {
        let d_pdu = DPdu {
            eow: 0,
            eot: 2,
            to: OWN,
            from: PEERS[0],
            body,
        };
        d_pdu.put(&mut out);
    }
    out[30] ^= 1;
    out
}
