//! D_PDUs and primitives as another decoder sees them: `tshark` finds nothing to complain about in
//! any type of Edition 3. Without `tshark` the test says so and checks nothing.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use strait_core::id::Neighbours;
use strait_core::node::{FrameMeta, Notice, PortState};
use strait_core::rate::LineRate;
use strait_core::waveform::{self, Bandwidth, Family, Interleaver};
use strait_core::{Duration, Instant, Room};
use strait_s5066::c_pdu::{CPdu, Ours};
use strait_s5066::d_pdu::{Ack, Body, DPdu, Data, NonArq, Reset, Segment, Warning, parse};
use strait_s5066::eow::{CAN_ADAPT, Eow, HAS_HIGH_RATES, Purpose, RATE_FIXED, Response, high_rate};
use strait_s5066::sis::{
    HardLink, Indication, MODE_ARQ, MODE_WITH_ERRORS, Primitive, Request, Service, Told,
};
use strait_s5066::{Adapt, Address, Offer, Settings, Station, Waiting};

/// Captures written so far: tests run beside one another.
static CAPTURES: AtomicU32 = AtomicU32::new(0);

/// Captures of IP packets.
const LINKTYPE_RAW: u32 = 101;
/// Captures of D_PDUs, one a packet, from the sync on.
const LINKTYPE_STANAG_5066_D_PDU: u32 = 237;

fn capture(linktype: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, linktype] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for (packet, second) in packets.iter().zip(0u32..) {
        let octets = packet.len() as u32;
        for word in [second, 0, octets, octets] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(packet);
    }
    file
}

/// All that `tshark` says, if it is there.
fn dissected(linktype: u32, packets: &[Vec<u8>]) -> Option<String> {
    let number = CAPTURES.fetch_add(1, Ordering::Relaxed);
    let name = format!("strait-s5066-{}-{number}.pcap", std::process::id());
    let path = std::env::temp_dir().join(name);
    fs::write(&path, capture(linktype, packets)).expect("a temporary file");
    let output = Command::new("tshark")
        .args(["-n", "-V", "-r"])
        .arg(&path)
        .output();
    fs::remove_file(&path).expect("the temporary file");
    let output = output.ok()?;
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn another_decoder_finds_every_type_in_order() {
    let u_pdu = b"\x00\x02\x99\x00some client's data";
    let data = Data {
        start: true,
        end: true,
        in_order: true,
        dropped: false,
        upper: true,
        lower: true,
        number: 7,
        segment: Segment::whole(u_pdu),
    };
    let ack = Ack {
        lower: 3,
        selective: &[0b1010_0101, 1],
    };
    let mut control = Vec::new();
    let ours = Some(Ours {
        life: Some(1),
        epoch: Some(2),
    });
    let exclusive = false;
    CPdu::Request { exclusive, ours }.put(&mut control);
    let non_arq = |expedited, octets: &'static [u8], group| NonArq {
        expedited,
        c_pdu: 0x123,
        in_order: false,
        group,
        size: octets.len() as u16,
        offset: 0,
        window: 255,
        segment: Segment::whole(octets),
    };
    let reset = Reset {
        full: true,
        frame: 9,
        ..Reset::default()
    };
    let accepted = NonArq {
        segment: Segment::whole(&control),
        size: control.len() as u16,
        ..non_arq(true, b"", false)
    };
    let bodies = [
        Body::Data(data, None),
        Body::Ack(ack),
        Body::Data(data, Some(ack)),
        Body::Reset(reset),
        Body::ExpeditedData {
            start: true,
            end: true,
            c_pdu: 5,
            number: 0,
            segment: Segment::whole(u_pdu),
        },
        Body::ExpeditedAck(Ack {
            lower: 1,
            selective: &[],
        }),
        Body::Management {
            extended: false,
            valid: true,
            ack: false,
            frame: 4,
            message: &[],
        },
        Body::NonArq(non_arq(false, b"\x00\x02\x99\x00sent once", true)),
        Body::NonArq(accepted),
        Body::Warning(Warning::of(9, 0)),
    ];
    let d_pdus: Vec<Vec<u8>> = bodies
        .iter()
        .map(|body| {
            let mut out = Vec::new();
            let d_pdu = DPdu {
                eow: 0,
                eot: 20,
                // All half octets are used: the decoder passes over D_PDUs below 15 octets.
                to: Address::new(0x0123_4568),
                from: Address::new(0x0123_4567),
                body: *body,
            };
            d_pdu.put(&mut out);
            out
        })
        .collect();
    let Some(told) = dissected(LINKTYPE_STANAG_5066_D_PDU, &d_pdus) else {
        println!("tshark isn't here: nothing was checked");
        return;
    };
    assert!(!told.contains("Malformed"), "{told}");
    assert!(!told.contains("ncorrect"), "{told}");
    let segments = bodies
        .iter()
        .filter(|body| body.segment().is_some())
        .count();
    let correct = told.matches("Correct").count();
    assert_eq!(correct, bodies.len() + segments, "{told}");
}

#[test]
fn another_decoder_reads_every_order_wire_as_it_is_meant() {
    let rate = |purpose| Eow::Rate {
        rate: 11,
        interleaver: 1,
        purpose,
    };
    let answer = |response, reason| Eow::Response { response, reason };
    let high = high_rate(64_000, 64);
    let messages: [(Eow, &[u8], &[&str]); 9] = [
        (
            rate(Purpose::Request),
            &[],
            &[
                "DRC_REQUEST",
                "9600 bps",
                "Short interleaving",
                "Master has independent",
            ],
        ),
        (rate(Purpose::RequestBoth), &[], &["Tx=Rx at master"]),
        (
            rate(Purpose::Advice),
            &[],
            &["Advising node has independent"],
        ),
        (
            answer(Response::Accept, 0),
            &[],
            &["DRC_RESPONSE", "Accept", "No reason"],
        ),
        (
            answer(Response::Refuse, RATE_FIXED),
            &[],
            &["Refuse", "Not possible to change modem data rate"],
        ),
        (answer(Response::Confirm, 0), &[], &["Confirm"]),
        (Eow::Unrecognised { kind: 5 }, &[], &["UNRECOGNIZED_TYPE"]),
        (
            Eow::Capability(CAN_ADAPT | HAS_HIGH_RATES),
            &[],
            &[
                "CAPABILITY",
                "Adaptive modem parameters capable",
                "Extended data rate available",
            ],
        ),
        (
            Eow::HighRate {
                waveform: 3,
                channels: 1,
            },
            &high,
            &["HDR_DRC_REQUEST", "STANAG_4539", "0000fa000040"],
        ),
    ];
    let d_pdus = messages.map(|(eow, message, _)| {
        let body = Body::Management {
            extended: !message.is_empty(),
            valid: true,
            ack: false,
            frame: 4,
            message,
        };
        let mut out = Vec::new();
        let d_pdu = DPdu {
            eow: eow.bits(),
            eot: 20,
            to: Address::new(0x0123_4568),
            from: Address::new(0x0123_4567),
            body,
        };
        d_pdu.put(&mut out);
        out
    });
    let Some(told) = dissected(LINKTYPE_STANAG_5066_D_PDU, &d_pdus) else {
        println!("tshark isn't here: nothing was checked");
        return;
    };
    assert!(
        !told.contains("Malformed") && !told.contains("ncorrect"),
        "{told}"
    );
    let frames: Vec<&str> = told
        .split("\nFrame ")
        .filter(|it| it.contains("DPDU"))
        .collect();
    assert_eq!(frames.len(), messages.len(), "{told}");
    for (frame, (.., meanings)) in frames.iter().zip(messages) {
        for meaning in meanings {
            assert!(frame.contains(meaning), "{meaning}: {frame}");
        }
    }
}

/// A TCP segment in an IPv4 packet, from the interface's port to a client's; checksums aren't
/// looked at.
fn segment(sequence: u32, content: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend_from_slice(&(40 + content.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend_from_slice(&5066u16.to_be_bytes());
    packet.extend_from_slice(&40_000u16.to_be_bytes());
    packet.extend_from_slice(&sequence.to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0, 1, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend_from_slice(content);
    packet
}

#[test]
fn another_decoder_finds_every_primitive_in_order() {
    let node = Address::new(0x0123_4567);
    let service = Service {
        mode: MODE_ARQ,
        confirmation: 2,
        any_order: true,
        ..Service::default()
    };
    let link = HardLink {
        kind: 2,
        priority: 3,
        sap: 4,
    };
    let request = Request {
        priority: 7,
        sap: 4,
        to: node.into(),
        service,
        ttl: 60,
        u_pdu: b"some client's data",
    };
    let indication = |mode, damaged, missing| Indication {
        priority: 7,
        sap: 4,
        to: node,
        mode,
        from_sap: 5,
        from: node,
        damaged,
        missing,
        u_pdu: b"some client's data",
    };
    let told = Told {
        sap: 4,
        to: node.into(),
        u_pdu: b"some",
    };
    let whole = indication(MODE_ARQ, &[], &[]);
    let errors = indication(MODE_WITH_ERRORS, &[(2, 3)], &[(8, 2), (12, 1)]);
    let body = &[1, 2, 3][..];
    let primitives = [
        Primitive::BindRequest {
            sap: 4,
            rank: 3,
            service,
        },
        Primitive::UnbindRequest,
        Primitive::BindAccepted { sap: 4, mtu: 2048 },
        Primitive::BindRejected(3),
        Primitive::UnbindIndication(2),
        Primitive::HardLinkEstablish(link, node.into()),
        Primitive::HardLinkTerminate(node.into()),
        Primitive::HardLinkEstablished(1, link, node.into()),
        Primitive::HardLinkRejected(4, link, node.into()),
        Primitive::HardLinkTerminated(5, link, node.into()),
        Primitive::HardLinkIndication(1, link, node.into()),
        Primitive::HardLinkAccept(link, node.into()),
        Primitive::HardLinkReject(1, link, node.into()),
        Primitive::SubnetAvailability {
            status: 3,
            reason: 0,
        },
        Primitive::DataFlowOn,
        Primitive::DataFlowOff,
        Primitive::KeepAlive,
        Primitive::ManagementRequest { kind: 1, body },
        Primitive::ManagementIndication { kind: 1, body },
        Primitive::UnidataRequest(false, request),
        Primitive::UnidataIndication(false, whole),
        Primitive::UnidataConfirm(false, told),
        Primitive::UnidataRejected(false, 3, told),
        Primitive::UnidataRequest(true, request),
        Primitive::UnidataIndication(true, whole),
        Primitive::UnidataConfirm(true, told),
        Primitive::UnidataRejected(true, 1, told),
        Primitive::UnidataIndication(false, errors),
    ];
    let mut sequence = 1;
    let packets: Vec<Vec<u8>> = primitives
        .iter()
        .map(|primitive| {
            let mut out = Vec::new();
            primitive.put(&mut out);
            let packet = segment(sequence, &out);
            sequence += out.len() as u32;
            packet
        })
        .collect();
    let Some(told) = dissected(LINKTYPE_RAW, &packets) else {
        println!("tshark isn't here: nothing was checked");
        return;
    };
    assert!(!told.contains("Malformed"), "{told}");
    let types = told.lines().filter(|line| line.contains("PDU Type: "));
    let types: Vec<u8> = types
        .filter_map(|line| line.split(['(', ')']).nth(1)?.parse().ok())
        .collect();
    let kinds: Vec<u8> = primitives.iter().map(Primitive::kind).collect();
    assert_eq!(types, kinds, "{told}");
}

/// Two stations of Edition 3 with addresses of seven half octets, and all that they said.
struct Pair {
    now: Instant,
    stations: [Station<u32>; 2],
    said: Vec<Vec<u8>>,
    waiting: [Vec<Offer<u32>>; 2],
}

const NODES: [Address; 2] = [Address::new(0x0123_4567), Address::new(0x0123_4568)];
const GROUP: Address = Address::new(0x1123_4569);

impl Pair {
    fn new(adapts: bool) -> Self {
        let rate = LineRate::new(2400, 8);
        let waveform = |rate| {
            waveform::find(
                Family::M110A,
                Bandwidth::default(),
                Interleaver::Short,
                rate,
            )
        };
        let ladder: Vec<_> = [300, 600, 1200, 2400]
            .into_iter()
            .filter_map(waveform)
            .collect();
        assert_eq!(ladder.len(), 4);
        let station = |own: usize| {
            let mut settings = Settings::new(NODES[own]);
            (settings.long_numbers, settings.groups) = (false, vec![GROUP]);
            settings.idle = Duration::from_secs(30);
            settings.adapt = adapts.then(|| Adapt {
                ladder: ladder.clone(),
                interleaver: 1,
                waveform: 0,
                agree: true,
                advice: true,
            });
            let mut station = Station::new(settings, &[NODES[1 - own], GROUP], own as u64);
            let state = PortState {
                tx_rate: rate,
                rx_rate: rate,
                frame_octets_max: 1 << 20,
                block: Duration::from_millis(600),
                latency: Duration::from_millis(602),
                notice: Notice::NONE,
            };
            station.set_up(Instant::ZERO, state);
            station
        };
        Self {
            now: Instant::ZERO,
            stations: [station(0), station(1)],
            said: Vec::new(),
            waiting: [Vec::new(), Vec::new()],
        }
    }

    fn offer(&mut self, from: usize, to: usize, arq: bool, expedited: bool) {
        let mut c_pdu = vec![0, 3, 0x45, 0];
        c_pdu.resize(900, 0x5a);
        self.waiting[from].push(Offer {
            to,
            c_pdu,
            arq,
            expedited,
            urgent: false,
            in_order: false,
            copies: 1,
            ticket: 0,
        });
    }

    /// Has a station hear what another said, or didn't.
    fn hear(&mut self, number: usize, octets: &[u8]) {
        let station = &mut self.stations[number];
        station.hear_carrier(self.now, true);
        let snr_centi_db = Some(700);
        station.measure(FrameMeta {
            snr_centi_db,
            ..FrameMeta::default()
        });
        station.hear(self.now, octets);
        station.hear_carrier(self.now, false);
    }

    /// Hands over what waits and may go to a peer that a transmission is for, or could be.
    fn hand_over(&mut self, number: usize) {
        let station = &mut self.stations[number];
        let mut later = Vec::new();
        for offer in self.waiting[number].drain(..) {
            let takes = match offer.expedited {
                true => station.takes_expedited(offer.to),
                false => station.takes(offer.to, offer.arq),
            };
            if takes {
                station.offer(offer);
            } else {
                later.push(offer);
            }
        }
        self.waiting[number] = later;
    }

    /// A transmission, if the station makes one; of each D_PDU `spoil` may change the octets on
    /// their way.
    fn turn(&mut self, number: usize, spoil: &mut impl FnMut(&mut Vec<u8>)) {
        self.stations[number].advance(self.now);
        let first = self.waiting[number]
            .first()
            .map(|offer| (offer.to, offer.arq));
        if let Some((to, true)) = first {
            self.stations[number].link(to);
        }
        let others = first.map(|(to, _)| to);
        let to = self.stations[number].to_whom(others.as_slice());
        let waiting = Waiting {
            octets: 900,
            count: 1,
        };
        let mut room = Room {
            octets: 1 << 16,
            starts: self.now,
            until: None,
            to: Neighbours::ALL,
        };
        let Some(to) = to.filter(|_| self.stations[number].may_transmit()) else {
            return;
        };
        if !self.stations[number].begin(self.now, to, room, waiting) {
            return;
        }
        let mut heard = Vec::new();
        loop {
            self.hand_over(number);
            let mut d_pdu = Vec::new();
            let Some(turn) = self.stations[number].write(room, &mut d_pdu) else {
                break;
            };
            if turn.key_up {
                room.octets = 4000;
            }
            room.octets -= d_pdu.len();
            if !d_pdu.is_empty() {
                self.said.push(d_pdu.clone());
                spoil(&mut d_pdu);
                heard.extend_from_slice(&d_pdu);
            }
            if turn.last || room.octets < 1000 {
                break;
            }
        }
        self.now += Duration::from_secs(3);
        self.stations[number].drained(self.now);
        self.hear(1 - number, &heard);
    }

    fn run(&mut self, turns: usize, mut spoil: impl FnMut(&mut Vec<u8>)) {
        for _ in 0..turns {
            self.now += Duration::from_secs(2);
            for number in [0, 1] {
                self.turn(number, &mut spoil);
                while self.stations[number].poll_received().is_some() {}
                while self.stations[number].poll_outcome().is_some() {}
            }
        }
    }
}

/// A D_PDU from the first station to the second.
fn foreign(eow: Eow, body: Body<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let d_pdu = DPdu {
        eow: eow.bits(),
        eot: 0,
        to: NODES[1],
        from: NODES[0],
        body,
    };
    d_pdu.put(&mut out);
    out
}

#[test]
fn another_decoder_finds_all_in_order_that_stations_of_edition_3_say() {
    let mut pair = Pair::new(false);
    let data = Data {
        start: true,
        end: true,
        in_order: false,
        dropped: false,
        upper: false,
        lower: false,
        number: 200,
        segment: Segment::whole(b"\x00\x03\x45\x00too early"),
    };
    // Without a link; then a type that nobody has.
    pair.hear(1, &foreign(Eow::None, Body::Data(data, None)));
    pair.run(2, |_| ());
    let mut unknown = foreign(Eow::None, Body::Warning(Warning::of(0, 0)));
    unknown[2] = 0xb0;
    let check = strait_s5066::check::crc16(&unknown[2..unknown.len() - 2]).to_le_bytes();
    let end = unknown.len();
    unknown[end - 2..].copy_from_slice(&check);
    pair.hear(1, &unknown);
    pair.run(2, |_| ());
    // Data with one damaged segment.
    for _ in 0..6 {
        pair.offer(0, 0, true, false);
    }
    let mut count = 0;
    pair.run(30, |d_pdu| {
        count += usize::from(d_pdu.len() > 400);
        if count == 2 {
            let last = d_pdu.len() - 9;
            d_pdu[last] ^= 1;
            count = 3;
        }
    });
    pair.offer(1, 0, true, true);
    pair.run(20, |_| ());
    // An upper edge that can't be: both begin anew.
    pair.offer(0, 0, true, false);
    pair.run(3, |_| ());
    let wrong = Data {
        upper: true,
        ..data
    };
    pair.hear(1, &foreign(Eow::None, Body::Data(wrong, None)));
    pair.run(10, |_| ());
    pair.offer(0, 0, false, false);
    pair.offer(1, 1, false, false);
    pair.run(40, |_| ());
    let mut said = pair.said;
    // Rates that change by agreement, advice, and messages that aren't known.
    let mut pair = Pair::new(true);
    for _ in 0..6 {
        pair.offer(0, 0, true, false);
    }
    pair.run(30, |_| ());
    for eow in [Eow::Other(5, 7), Eow::Capability(CAN_ADAPT)] {
        let message = Body::Management {
            extended: false,
            valid: true,
            ack: false,
            frame: 77,
            message: &[],
        };
        pair.hear(1, &foreign(eow, message));
        pair.run(6, |_| ());
    }
    said.append(&mut pair.said);
    let mut kinds = BTreeMap::new();
    let mut orders = BTreeMap::new();
    let mut segments = 0;
    for octets in &said {
        let (d_pdu, _) = parse(octets, false).expect("a D_PDU");
        *kinds.entry(d_pdu.body.kind().number()).or_insert(0) += 1;
        *orders.entry(d_pdu.eow >> 8).or_insert(0) += 1;
        segments += usize::from(d_pdu.body.segment().is_some_and(|it| !it.octets.is_empty()));
    }
    // Type 2 is read but never sent: data and acknowledgements go one after the other.
    assert_eq!(
        Vec::from_iter(kinds.keys().copied()),
        [0, 1, 3, 4, 5, 6, 7, 8, 15],
        "{kinds:?}"
    );
    assert_eq!(
        Vec::from_iter(orders.keys().copied()),
        [0, 1, 2, 3, 4],
        "{orders:?}"
    );
    let Some(told) = dissected(LINKTYPE_STANAG_5066_D_PDU, &said) else {
        println!("tshark isn't here: nothing was checked");
        return;
    };
    assert!(
        !told.contains("Malformed") && !told.contains("ncorrect"),
        "{told}"
    );
    assert_eq!(
        told.matches("Correct").count(),
        said.len() + segments,
        "{told}"
    );
}
