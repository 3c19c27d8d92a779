//! D_PDUs and primitives as another decoder sees them: `tshark` finds nothing to complain about in
//! any type of Edition 3. Without `tshark` the test says so and checks nothing.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use strait_s5066::Address;
use strait_s5066::c_pdu::CPdu;
use strait_s5066::d_pdu::{Ack, Body, DPdu, Data, NonArq, Reset, Segment};
use strait_s5066::eow::{CAN_ADAPT, Eow, HAS_HIGH_RATES, Purpose, RATE_FIXED, Response, high_rate};
use strait_s5066::sis::{
    HardLink, Indication, MODE_ARQ, MODE_WITH_ERRORS, Primitive, Request, Service, Told,
};

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
    let control = [CPdu::Request {
        exclusive: false,
        long: true,
    }
    .octet()];
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
        size: 1,
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
        Body::Warning {
            received: 9,
            reason: 0,
        },
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
        (Eow::Unrecognised { reason: 0 }, &[], &["UNRECOGNIZED_TYPE"]),
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
        to: node,
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
        to: node,
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
        Primitive::HardLinkEstablish(link, node),
        Primitive::HardLinkTerminate(node),
        Primitive::HardLinkEstablished(1, link, node),
        Primitive::HardLinkRejected(4, link, node),
        Primitive::HardLinkTerminated(5, link, node),
        Primitive::HardLinkIndication(1, link, node),
        Primitive::HardLinkAccept(link, node),
        Primitive::HardLinkReject(1, link, node),
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
