//! Clauses of Annexes B and C, D_PDU by D_PDU, as a station with one peer keeps them.

use super::exchanges::{OWN, PEER, control, data, listener, said};
use super::*;
use crate::d_pdu::{Ack, Data, NonArq, Reset, Segment};
use strait_core::Neighbours;

/// Sync, front, addresses and check of a header, each of seven octets of addresses.
const OWN_PART: usize = 2 + 4 + 7;

/// Each D_PDU that a station says after it has heard a transmission, from its sync on.
pub(super) fn turn(station: &mut Station<u32>, heard: &[u8]) -> Vec<Vec<u8>> {
    let now = station.access.now() + Duration::from_secs(1);
    station.hear_carrier(now, true);
    station.hear(now, heard);
    station.hear_carrier(now, false);
    speak(station, now + Duration::from_millis(100))
}

/// Each D_PDU that a station says at a moment.
pub(super) fn speak(station: &mut Station<u32>, now: Instant) -> Vec<Vec<u8>> {
    station.advance(now);
    let room = Room {
        octets: 1 << 12,
        starts: now,
        until: None,
        to: Neighbours::ALL,
    };
    let mut all = Vec::new();
    if station.to_whom(&[]).is_some() && station.begin(now, 0, room, Waiting::default()) {
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

/// A station whose peer has called it and sent data, which it acknowledged.
pub(super) fn linked() -> Station<u32> {
    let mut station = listener();
    turn(&mut station, &control(&[0x10]));
    turn(&mut station, &data(0));
    assert!(station.poll_received().is_some());
    station
}

/// Takes a C_PDU for the peer.
pub(super) fn offer(station: &mut Station<u32>, octets: usize, expedited: bool, ticket: u32) {
    station.offer(Offer {
        to: 0,
        c_pdu: alloc::vec![0; octets],
        arq: true,
        expedited,
        urgent: false,
        in_order: false,
        copies: 1,
        ticket,
    });
}

fn acknowledgement(lower: u8) -> Vec<u8> {
    let selective = &[];
    said(Body::Ack(Ack { lower, selective }))
}

/// C.6.5 (1)–(18): a full reset is flag 8 with a number; its answer is flag 1 and nothing else.
/// Both windows begin at 0 again, and what was half there is forgotten.
#[test]
fn a_full_reset_is_answered_by_an_acknowledgement_with_nothing_else() {
    let mut station = linked();
    let half = said(Body::Data(
        Data {
            start: true,
            end: false,
            in_order: false,
            dropped: false,
            upper: false,
            lower: false,
            number: 1,
            segment: Segment::whole(b"half"),
        },
        None,
    ));
    turn(&mut station, &half);
    let full = Reset {
        full: true,
        frame: 7,
        ..Reset::default()
    };
    let says = turn(&mut station, &said(Body::Reset(full)));
    // Behind it the same with the number, for those that look for that.
    let answer = |frame| (3, Vec::from([1, 0, frame]));
    assert_eq!(owns(&says), [answer(0), answer(7)]);
    // The same once more is a repeat, and changes nothing (C.3.6 (20)).
    let says = turn(&mut station, &said(Body::Reset(full)));
    assert_eq!(owns(&says), [answer(0), answer(7)]);
    assert_eq!(station.stats().resets, 1);
    // Numbers begin at 0 again, and nothing of before is in the way.
    let says = turn(&mut station, &data(0));
    assert_eq!(owns(&says)[0], (1, Vec::from([1])));
    assert!(station.poll_received().is_some() && station.poll_received().is_none());
    // Behind data, the same number is a new reset.
    turn(&mut station, &said(Body::Reset(full)));
    assert_eq!(station.stats().resets, 2);
}

/// C.6.5 (2)–(5), (12), (15), C.3.6 (3), (5), (21): ours has numbers in a row, nothing of the
/// regular service goes beside it, and it ends by an answer with number 0 as well as by one with
/// its own.
#[test]
fn a_full_reset_of_ours_ends_by_an_answer_with_its_number_or_none() {
    let mut station = linked();
    for (frame, answer) in [(0, 0), (1, 0), (2, 2), (3, 0)] {
        begin_reset(&mut station, 0);
        let now = station.access.now() + Duration::from_secs(30);
        let says = speak(&mut station, now);
        assert_eq!(owns(&says), [(3, Vec::from([8, 0, frame]))]);
        let ack = |frame| Reset {
            ack: true,
            frame,
            ..Reset::default()
        };
        // Of another one.
        turn(&mut station, &said(Body::Reset(ack(9))));
        assert!(station.peers[0].transfer.is_resetting());
        turn(&mut station, &said(Body::Reset(ack(answer))));
        assert!(!station.peers[0].transfer.is_resetting(), "{frame}");
    }
}

/// C.3.6 (8)–(13), (16), (17): who is asked for it tells its lower edge by a command with a number
/// of its own, waits for its acknowledgement, and then sends all from that edge on.
#[test]
fn a_request_to_resynchronise_is_answered_by_a_command_that_waits_for_its_answer() {
    let mut station = linked();
    for ticket in 0..4 {
        offer(&mut station, 10, false, ticket);
    }
    let now = station.access.now() + Duration::from_secs(30);
    let says = speak(&mut station, now);
    let numbers = |says: &[Vec<u8>]| {
        let data = owns(says).into_iter().filter(|(kind, _)| *kind == 0);
        let mut numbers: Vec<u8> = data.map(|(_, own)| own[2]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    assert_eq!(numbers(&says), [0, 1, 2, 3]);
    // Number 0 came, and 2; then the other end asks.
    let ack = said(Body::Ack(Ack {
        lower: 1,
        selective: &[1],
    }));
    let request = Reset {
        request: true,
        frame: 5,
        ..Reset::default()
    };
    let says = turn(&mut station, &[ack, said(Body::Reset(request))].concat());
    // Nothing else goes beside it.
    assert_eq!(owns(&says), [(3, Vec::from([2, 1, 0]))]);
    // An acknowledgement of before the other end did it doesn't count.
    let says = turn(&mut station, &acknowledgement(4));
    assert_eq!(owns(&says), [(3, Vec::from([2, 1, 0]))]);
    let done = Reset {
        ack: true,
        ..Reset::default()
    };
    let says = turn(&mut station, &said(Body::Reset(done)));
    assert_eq!(numbers(&says), [1, 2, 3]);
    // The edge is 1; of number 2, which came before, nothing is left to say.
    turn(&mut station, &acknowledgement(4));
    let delivered: Vec<(u32, bool)> = core::iter::from_fn(|| station.poll_outcome())
        .map(|outcome| (outcome.ticket, outcome.delivered))
        .collect();
    assert_eq!(delivered, [(0, true), (2, true), (1, true), (3, true)]);
}

/// C.3.6 (10), (14)–(19): a command sets the lower edge of what is received, and is answered; what
/// was whole below that edge isn't lost. The edge counts in a command only.
#[test]
fn a_command_to_resynchronise_sets_the_lower_edge_and_is_answered() {
    let mut station = linked();
    let command = |frame, command, lower| Reset {
        command,
        lower,
        frame,
        ..Reset::default()
    };
    let says = turn(&mut station, &said(Body::Reset(command(4, true, 40))));
    assert_eq!(owns(&says), [(3, Vec::from([1, 0, 4]))]);
    let says = turn(&mut station, &[data(41), data(40)].concat());
    assert_eq!(owns(&says)[0], (1, Vec::from([42])));
    // No command: the edge says nothing.
    turn(&mut station, &said(Body::Reset(command(5, false, 90))));
    let says = turn(&mut station, &data(42));
    assert_eq!(owns(&says)[0], (1, Vec::from([43])));
}

/// C.6.3.2.1 (2)–(5), C.3.2.8 (5): numbers are tested in every header whose check is right,
/// whatever the segment's is; one that can't be begins a reset.
#[test]
fn a_damaged_segment_does_not_hide_that_the_ends_have_lost_one_another() {
    let mut station = linked();
    let mut damaged = data(1 + 128);
    let end = damaged.len();
    damaged[end - 1] ^= 1;
    let says = turn(&mut station, &[data(2), damaged].concat());
    assert_eq!(owns(&says), [(3, Vec::from([8, 0, 0]))]);
}

/// C.3.4 (6), (7), C.3.3 (9): a wrong segment isn't acknowledged; one that gives its C_PDU up is,
/// and takes away what came of it before.
#[test]
fn what_gives_a_c_pdu_up_is_acknowledged_whatever_its_check_says() {
    let mut station = linked();
    let piece = |number, start, end, dropped| {
        said(Body::Data(
            Data {
                start,
                end,
                in_order: false,
                dropped,
                upper: false,
                lower: false,
                number,
                segment: Segment::whole(b"\0\0\x99\0piece"),
            },
            None,
        ))
    };
    let spoil = |mut octets: Vec<u8>| {
        let end = octets.len();
        octets[end - 1] ^= 1;
        octets
    };
    let says = turn(&mut station, &spoil(piece(1, true, false, false)));
    assert_eq!(owns(&says)[0], (1, Vec::from([1])));
    let says = turn(&mut station, &piece(1, true, false, false));
    assert_eq!(owns(&says)[0], (1, Vec::from([2])));
    // Its end gives it up; the next one is whole.
    let heard = [spoil(piece(2, false, true, true)), data(3)].concat();
    let says = turn(&mut station, &heard);
    assert_eq!(owns(&says)[0], (1, Vec::from([4])));
    assert_eq!(station.poll_received().map(|it| it.c_pdu.len()), Some(9));
    assert!(station.poll_received().is_none());
}

/// Pieces of C_PDUs without ARQ that a station sends by itself, each with when it begins; each of
/// its transmissions begins so long after the last.
fn pieces(
    station: &mut Station<u32>,
    turns: u32,
    pause: Duration,
) -> Vec<(Instant, u8, u16, u16, u16)> {
    let mut pieces = Vec::new();
    for _ in 0..turns {
        let now = station.access.now() + pause;
        station.advance(now);
        let mut room = Room {
            octets: 1 << 20,
            starts: now,
            until: None,
            to: Neighbours::ALL,
        };
        if station.to_whom(&[]).is_none() || !station.begin(now, 0, room, Waiting::default()) {
            break;
        }
        room.octets = usize::MAX;
        loop {
            let mut one = Vec::new();
            if station.write(room, &mut one).is_none() || one.is_empty() {
                break;
            }
            if let Ok((d_pdu, _)) = parse(&one, true)
                && let Body::NonArq(NonArq {
                    c_pdu,
                    offset,
                    window,
                    ..
                }) = d_pdu.body
            {
                pieces.push((
                    room.starts,
                    d_pdu.body.kind().number(),
                    c_pdu,
                    offset,
                    window,
                ));
            }
            room.starts += LineRate::new(9600, 8).time_for(one.len() as u64);
            let on_air = station.on_air.expect("it is on the air");
            let left = on_air.ends().since(room.starts);
            room.octets = LineRate::new(9600, 8).octets_in(left) as usize;
        }
        station.drained(room.starts);
    }
    pieces
}

/// C.3.10 (4), (6), (20), (24), (25), C.4.2 (4)–(7): pieces of a C_PDU have one number and their
/// place; numbers go up, and those of type 8 are others; the time for the rest is counted down, and
/// nothing goes after it.
#[test]
fn data_without_arq_has_a_time_that_runs_out() {
    let mut station = listener();
    let mut plain = |octets| {
        station.offer(Offer {
            to: 0,
            c_pdu: alloc::vec![0; octets],
            arq: false,
            expedited: false,
            urgent: false,
            in_order: false,
            copies: 1,
            ticket: 1,
        });
        pieces(&mut station, 1, Duration::from_secs(20))
    };
    let first = plain(3000);
    let offsets: Vec<u16> = first.iter().map(|it| it.3).collect();
    assert!(offsets.len() > 2 && offsets[0] == 0 && offsets.is_sorted());
    assert!(first.iter().all(|it| (it.1, it.2) == (7, first[0].2)));
    // Its end stays where it is, to the half second.
    let ends = first
        .iter()
        .map(|it| it.0 + Duration::from_millis(500) * u32::from(it.4));
    let ends: Vec<Instant> = ends.collect();
    assert!(
        ends.iter()
            .all(|end| end.since(ends[0]) < Duration::from_millis(500))
    );
    let last = first.last().expect("some").0;
    assert!(ends[0] > last && ends[0].since(last) < Duration::from_secs(3));
    let next = plain(100);
    assert_eq!(next[0].2, (first[0].2 + 1) % 4096);
    // A word of the link has a number of its own.
    let next = |station: &Station<u32>| station.identity.next_numbers();
    let [plain, expedited] = next(&station);
    turn(&mut station, &control(&[0x10]));
    assert_eq!(next(&station), [plain, (expedited + 1) % 4096]);
}

/// C.3.10 (5): at 120 kbit/s 4096 short C_PDUs take less than one transmission, and no number comes
/// again while its window lasts, as receivers would take it for a repeat. Of those that go once,
/// and not in order, none waits for that.
#[test]
fn no_number_of_data_without_arq_comes_again_in_its_window() {
    for (copies, in_order, waits) in [(1, false, false), (1, true, true), (2, false, true)] {
        let mut station = listener();
        configure(&mut station, |it| {
            it.turn_max = Duration::from_millis(127_500);
        });
        let rate = LineRate::new(120_000, 8);
        let up = station.ladder.medium().expect("up");
        let fast = PortState {
            tx_rate: rate,
            ..up
        };
        station.set_up(Instant::ZERO, fast);
        let mut room = Room {
            octets: 1 << 20,
            starts: Instant::ZERO,
            until: None,
            to: Neighbours::ALL,
        };
        let mut ends = BTreeMap::new();
        let (mut waited, mut sent) = (false, 0);
        while sent < 10_000 * copies {
            while station.takes(0, false) {
                station.offer(Offer {
                    to: 0,
                    c_pdu: alloc::vec![0; 100],
                    arq: false,
                    expedited: false,
                    urgent: false,
                    in_order,
                    copies,
                    ticket: 1,
                });
                if station.on_air.is_none() {
                    assert!(station.begin(
                        room.starts,
                        0,
                        room,
                        Waiting {
                            octets: 1 << 20,
                            count: 10_000
                        }
                    ));
                }
            }
            let mut one = Vec::new();
            if station.on_air.is_none() {
                waited = true;
                room.starts = station.wake().expect("it goes on");
                station.advance(room.starts);
                continue;
            }
            if station.write(room, &mut one).is_none() || one.is_empty() {
                station.drained(room.starts);
                room.starts = room.starts.max(station.wake().unwrap_or(room.starts));
                station.advance(room.starts);
                continue;
            }
            let (d_pdu, _) = parse(&one, true).expect("a D_PDU");
            let Body::NonArq(piece) = d_pdu.body else {
                unreachable!("{d_pdu:?}")
            };
            let end = room.starts + Duration::from_millis(500) * u32::from(piece.window);
            let serial = sent / copies;
            if let Some((of, until)) = ends.insert(piece.c_pdu, (serial, end)) {
                assert!(of == serial || until <= room.starts, "{}", piece.c_pdu);
            }
            sent += 1;
            room.starts += rate.time_for(one.len() as u64);
            station.advance(room.starts);
        }
        assert_eq!(waited, waits, "{copies} {in_order}");
    }
}

/// C.2 (1)–(6), C.3.10 (11): the flag says what the client asked for, on each piece and copy.
#[test]
fn data_without_arq_says_whether_it_is_in_order() {
    for in_order in [false, true] {
        let mut station = listener();
        station.offer(Offer {
            to: 0,
            c_pdu: alloc::vec![0; 3000],
            arq: false,
            expedited: false,
            urgent: false,
            in_order,
            copies: 2,
            ticket: 1,
        });
        let now = station.access.now() + Duration::from_secs(20);
        let says: Vec<u8> = speak(&mut station, now).concat();
        let mut rest = &says[..];
        let mut count = 0;
        while let Ok((d_pdu, octets)) = parse(rest, true) {
            let Body::NonArq(piece) = d_pdu.body else {
                unreachable!("{d_pdu:?}")
            };
            assert_eq!(piece.in_order, in_order);
            count += 1;
            rest = &rest[octets..];
        }
        assert!(count >= 3 && rest.is_empty());
    }
}

/// C.3.10 (11), C.4.2 (15): a station hands on in order what came in another, once the window is
/// over at the latest, and doesn't wait for what was for others.
#[test]
fn data_without_arq_in_order_comes_in_order() {
    let piece = |c_pdu, to, in_order| {
        let number = [c_pdu as u8; 4];
        let body = Body::NonArq(NonArq {
            expedited: false,
            c_pdu,
            in_order,
            group: false,
            size: 4,
            offset: 0,
            window: 20,
            segment: Segment::whole(&number),
        });
        let mut out = Vec::new();
        let d_pdu = DPdu {
            eow: 0,
            eot: 2,
            to,
            from: PEER,
            body,
        };
        d_pdu.put(&mut out);
        out
    };
    let came = |station: &mut Station<u32>| {
        let came = core::iter::from_fn(|| station.poll_received());
        came.map(|it| it.c_pdu[0]).collect::<Vec<_>>()
    };
    for (in_order, expected) in [(true, [1, 2, 3]), (false, [1, 3, 2])] {
        let mut station = listener();
        for number in [1, 3, 2] {
            turn(&mut station, &piece(number, OWN, in_order));
        }
        assert_eq!(came(&mut station), expected);
        turn(&mut station, &piece(5, OWN, in_order));
        let after = if in_order { &[][..] } else { &[5] };
        assert_eq!(came(&mut station), after);
        turn(&mut station, &piece(4, Address::new(77), in_order));
        turn(&mut station, &piece(7, OWN, true));
        assert_eq!(came(&mut station), if in_order { [5] } else { [7] });
        if in_order {
            let mut wakes = core::iter::from_fn(|| {
                let at = station.wake()?;
                station.advance(at);
                Some(came(&mut station))
            });
            assert_eq!(wakes.find(|came| !came.is_empty()), Some(Vec::from([7])));
        }
    }
}

/// C.6.4.2 (10), (11): a message that nobody acknowledges goes again as often as is configured.
#[test]
fn a_message_without_an_answer_goes_again_as_often_as_is_configured() {
    for repeats in [0, 1, 3, 5] {
        let mut station = listener();
        configure(&mut station, |it| it.message_repeats = repeats);
        let mut says = turn(&mut station, &message(5 << 8, 0));
        for _ in 0..20 {
            let now = station.access.now() + Duration::from_secs(20);
            says.extend(speak(&mut station, now));
        }
        let messages = says.iter().filter(|d_pdu| order(d_pdu) == 0x305);
        assert_eq!(messages.count(), 1 + repeats as usize, "{says:?}");
    }
}

/// C.3.10 (24): nothing of a C_PDU goes once its time is over.
#[test]
fn data_without_arq_whose_time_is_over_does_not_go_on() {
    let mut settings = Settings::new(OWN);
    settings.turn_max = Duration::from_secs(2);
    for (pause_s, whole) in [(20, true), (800, false)] {
        let mut station = Station::new(settings.clone(), &[PEER], 1);
        station.set_up(Instant::ZERO, listener().ladder.medium().expect("it is up"));
        station.offer(Offer {
            to: 0,
            c_pdu: alloc::vec![0; 6000],
            arq: false,
            expedited: false,
            urgent: false,
            in_order: false,
            copies: 1,
            ticket: 1,
        });
        let pieces = pieces(&mut station, 10, Duration::from_secs(pause_s));
        let outcome = station.poll_outcome().expect("it is over");
        assert_eq!(outcome.delivered, whole);
        assert_eq!(pieces.last().is_some_and(|it| it.3 > 4000), whole);
        assert!(pieces.iter().all(|it| it.2 == pieces[0].2));
    }
}

/// C.3.10 (13)–(15), C.2 (5), (6): a flag makes an address a group's. Its members take what is for
/// it, and so do all what is for everybody; a node with the same 28 bits is somebody else.
#[test]
fn a_group_is_marked_and_only_its_members_take_what_is_for_it() {
    let group = Address::new(0x1000_0000 | OWN.bits());
    let other = Address::new(0x1000_0007);
    let state = listener().ladder.medium().expect("it is up");
    let settings = |groups| Settings {
        groups,
        ..Settings::new(OWN)
    };
    let mut sender = Station::<u32>::new(Settings::new(PEER), &[group, other], 1);
    sender.set_up(Instant::ZERO, state);
    let mut send = |to: usize| {
        sender.offer(Offer {
            to,
            c_pdu: alloc::vec![0, 0, 0x99, 0, 7],
            arq: false,
            expedited: false,
            urgent: false,
            in_order: false,
            copies: 1,
            ticket: 1,
        });
        let now = sender.access.now() + Duration::from_secs(20);
        sender.advance(now);
        let room = Room {
            octets: 1 << 12,
            starts: now,
            until: None,
            to: Neighbours::ALL,
        };
        assert!(sender.begin(now, to, room, Waiting::default()));
        let mut octets = Vec::new();
        sender.write(room, &mut octets);
        sender.drained(now + Duration::from_secs(1));
        octets
    };
    let heard_by = |octets: &[u8], settings| {
        let mut station = Station::<u32>::new(settings, &[PEER], 2);
        station.set_up(Instant::ZERO, state);
        turn(&mut station, octets);
        station.poll_received().map(|it| it.to)
    };
    let (own, others) = (send(0), send(1));
    // The flag, beside two bits of size.
    assert_eq!(own[OWN_PART] & 0b0000_1100, 0b0100);
    assert_eq!(heard_by(&own, settings(alloc::vec![group])), Some(group));
    assert_eq!(heard_by(&own, settings(Vec::new())), None);
    assert_eq!(heard_by(&others, settings(alloc::vec![group])), None);
}

/// C.3.7 (2), (6), (9), C.3.8 (1), C.6.1.3 (1)–(3), (5)–(8): expedited C_PDUs go one at a time,
/// each from frame 0 on and with the next number, whatever regular data has; they are acknowledged
/// by type 5.
#[test]
fn expedited_data_is_acknowledged_and_goes_with_nothing_else() {
    let mut station = linked();
    offer(&mut station, 20, false, 1);
    let now = station.access.now() + Duration::from_secs(30);
    assert_eq!(owns(&speak(&mut station, now))[0].1[2], 0);
    turn(&mut station, &acknowledgement(1));
    for ticket in 10..13 {
        offer(&mut station, 1500, true, ticket);
    }
    let now = station.access.now() + Duration::from_secs(30);
    let mut says = speak(&mut station, now);
    for c_pdu in 0..3u8 {
        let sent = owns(&says);
        assert!(sent.iter().all(|(kind, _)| *kind == 4), "{sent:x?}");
        // Beginning, end, number, size; then the frame's number.
        assert_eq!(sent[0].1[0] & 0b1011_1100, 0b1000_0000 | c_pdu << 2);
        let numbers: Vec<u8> = sent.iter().map(|(_, own)| own[2]).collect();
        assert_eq!(numbers, Vec::from_iter(0..numbers.len() as u8));
        let all = said(Body::ExpeditedAck(Ack {
            lower: numbers.len() as u8,
            selective: &[],
        }));
        says = turn(&mut station, &all);
    }
    // And heard: the second of two frames first.
    let heard = |number, start, end| {
        said(Body::ExpeditedData {
            start,
            end,
            c_pdu: 9,
            number,
            segment: Segment::whole(b"\0\0\x99\0"),
        })
    };
    let says = turn(&mut station, &heard(1, false, true));
    assert_eq!(owns(&says)[0], (5, Vec::from([0, 1])));
    let says = turn(&mut station, &heard(0, true, false));
    assert_eq!(owns(&says)[0], (5, Vec::from([2])));
    assert!(station.poll_received().is_some_and(|it| it.expedited));
}

/// C.3.5 (2): data and an acknowledgement in one D_PDU count as both.
#[test]
fn data_and_acknowledgement_in_one_count_as_both() {
    let mut station = linked();
    offer(&mut station, 20, false, 1);
    let now = station.access.now() + Duration::from_secs(30);
    assert_eq!(owns(&speak(&mut station, now))[0].0, 0);
    let both = said(Body::Data(
        Data {
            start: true,
            end: true,
            in_order: false,
            dropped: false,
            upper: true,
            lower: true,
            number: 1,
            segment: Segment::whole(b"\0\0\x99\0both"),
        },
        Some(Ack {
            lower: 1,
            selective: &[],
        }),
    ));
    assert_eq!(both[2] >> 4, 2);
    let says = turn(&mut station, &both);
    assert_eq!(owns(&says)[0], (1, Vec::from([2])));
    assert!(station.poll_received().is_some());
    assert!(station.poll_outcome().is_some_and(|it| it.delivered));
}

/// C.6.1.2 (1), C.3.9 (3), C.6.4.2 (4): with a message goes nothing else but words of the link and
/// warnings, also where all else waits; then expedited data, alone; then the rest.
#[test]
fn what_goes_with_what_in_a_transmission() {
    let mut station = linked();
    offer(&mut station, 20, false, 1);
    offer(&mut station, 20, true, 2);
    let question = crate::management::Message {
        eow: crate::eow::Eow::Capability(0x80),
        more: Vec::new(),
    };
    station.peers[0].rate.management().say(question, false);
    let kinds = |says: &[Vec<u8>]| {
        let kinds: BTreeSet<u8> = says.iter().map(|d_pdu| own(d_pdu).0).collect();
        Vec::from_iter(kinds)
    };
    let now = station.access.now() + Duration::from_secs(30);
    let says = speak(&mut station, now);
    assert_eq!(kinds(&says), [6]);
    let acknowledged = said(Body::Management {
        extended: false,
        valid: false,
        ack: true,
        frame: 0,
        message: &[],
    });
    let says = turn(&mut station, &[data(1), acknowledged].concat());
    assert_eq!(kinds(&says), [1, 4]);
    let done = said(Body::ExpeditedAck(Ack {
        lower: 1,
        selective: &[],
    }));
    let says = turn(&mut station, &[data(2), done].concat());
    assert_eq!(kinds(&says), [0, 1]);
}
