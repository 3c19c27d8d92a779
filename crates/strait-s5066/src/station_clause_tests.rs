//! Clauses of Annexes B and C, D_PDU by D_PDU, as a station with one peer keeps them.

use super::exchanges::{OWN, PEER, control, listener, said};
use super::*;

/// Sync, front, addresses and check of a header, each of seven octets of addresses.
const OWN_PART: usize = 2 + 4 + 7;

/// Each D_PDU that a station says after it has heard a transmission, from its sync on.
fn turn(station: &mut Station<u32>, heard: &[u8]) -> Vec<Vec<u8>> {
    let now = station.now + Duration::from_secs(1);
    station.hear_carrier(now, true);
    station.hear(now, heard);
    station.hear_carrier(now, false);
    speak(station, now + Duration::from_millis(100))
}

/// Each D_PDU that a station says at a moment.
fn speak(station: &mut Station<u32>, now: Instant) -> Vec<Vec<u8>> {
    station.advance(now);
    let room = Room {
        octets: 1 << 12,
        starts: now,
        until: None,
    };
    let mut all = Vec::new();
    if station.to_whom(&[]).is_some() && station.begin(now, 0, room, (0, 0)) {
        let mut one = Vec::new();
        while station.write(room, &mut one).is_some() && !one.is_empty() {
            all.push(core::mem::take(&mut one));
        }
        station.drained(now + Duration::from_secs(1));
    }
    all
}

/// The type of a D_PDU, and the part of its header that is its type's own.
fn own(d_pdu: &[u8]) -> (u8, Vec<u8>) {
    let header = usize::from(d_pdu[5] & 31);
    let part = &d_pdu[OWN_PART..2 + 7 + header - 2];
    (d_pdu[2] >> 4, Vec::from(part))
}

fn owns(d_pdus: &[Vec<u8>]) -> Vec<(u8, Vec<u8>)> {
    d_pdus.iter().map(|d_pdu| own(d_pdu)).collect()
}

/// A message on the order wire of a management D_PDU.
fn message(eow: u16, frame: u8) -> Vec<u8> {
    let body = Body::Management {
        extended: false,
        valid: true,
        ack: false,
        frame,
        message: &[],
    };
    let mut out = Vec::new();
    let d_pdu = DPdu {
        eow,
        eot: 2,
        to: OWN,
        from: PEER,
        body,
    };
    d_pdu.put(&mut out);
    out
}

/// What a D_PDU says on its order wire.
fn order(d_pdu: &[u8]) -> u16 {
    u16::from(d_pdu[2] & 15) << 8 | u16::from(d_pdu[3])
}

/// C.5.3 (1)–(4): a message of a type that isn't known is answered by type 3, which names that type
/// in its lowest four bits.
#[test]
fn an_order_wire_of_an_unknown_type_is_answered_by_its_type() {
    for kind in [5, 6, 8, 15] {
        let says = turn(&mut listener(), &message(kind << 8 | 0xff, 0));
        let orders: Vec<u16> = says.iter().map(|d_pdu| order(d_pdu)).collect();
        // The acknowledgement, and the answer.
        assert_eq!(orders, [0, 0x300 | kind]);
        assert_eq!(owns(&says)[0], (6, Vec::from([1, 0])));
    }
}

/// C.3.9 (16), (17), (21)–(25): a repeat has the number of the message before and counts once; a
/// new connection begins with number 0, whatever the last one was heard under.
#[test]
fn management_numbers_begin_anew_with_each_link() {
    let mut station = listener();
    // A rate for both directions is refused by a station whose rate is its medium's.
    let request = |frame| message(0x150, frame);
    let refused = |says: &[Vec<u8>]| says.iter().map(|it| order(it)).any(|it| it == 0x222);
    for _ in 0..3 {
        turn(&mut station, &control(&[0x10]));
        let says = turn(&mut station, &request(0));
        assert!(refused(&says), "{says:x?}");
        let managed = owns(&says).into_iter().filter(|(kind, _)| *kind == 6);
        let numbers: Vec<u8> = managed.map(|(_, own)| own[1]).collect();
        assert_eq!(numbers, [0, 0]);
        // The same once more, with the acknowledgement of the answer: nothing new.
        let acknowledged = said(Body::Management {
            extended: false,
            valid: false,
            ack: true,
            frame: 0,
            message: &[],
        });
        let says = turn(&mut station, &[request(0), acknowledged].concat());
        assert!(owns(&says).contains(&(6, Vec::from([1, 0]))) && !refused(&says));
    }
}
