//! D_PDUs as another decoder sees them: `tshark` finds nothing to complain about in any type of
//! Edition 3. Without `tshark` the test says so and checks nothing.

use std::fs;
use std::process::Command;

use strait_s5066::Address;
use strait_s5066::c_pdu::CPdu;
use strait_s5066::d_pdu::{Ack, Body, DPdu, Data, NonArq, Reset, Segment};

/// Captures of D_PDUs, one a packet, from the sync on.
const LINKTYPE_STANAG_5066_D_PDU: u32 = 237;

fn capture(d_pdus: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [
        0xa1b2_c3d4u32,
        0x0004_0002,
        0,
        0,
        65535,
        LINKTYPE_STANAG_5066_D_PDU,
    ] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for (d_pdu, second) in d_pdus.iter().zip(0u32..) {
        let octets = d_pdu.len() as u32;
        for word in [second, 0, octets, octets] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(d_pdu);
    }
    file
}

/// All that `tshark` says, if it is there.
fn dissected(d_pdus: &[Vec<u8>]) -> Option<String> {
    let path = std::env::temp_dir().join(format!("strait-s5066-{}.pcap", std::process::id()));
    fs::write(&path, capture(d_pdus)).expect("a temporary file");
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
    let Some(told) = dissected(&d_pdus) else {
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
