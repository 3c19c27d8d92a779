//! Formats on the wire.

use std::net::IpAddr;

use strait_capture::{By, Capture, Settings, Source, one, two};
use strait_core::{Duration, Instant};
use strait_link::repair::{Repairs, When};
use strait_link::{LinkSettings, OctetSender, Receiver};
use strait_wire::ax25::UiFrame;
use strait_wire::check::Crc32Sum;
use strait_wire::ip::{self, IcmpError, PacketInfo, Unreachable};
use strait_wire::kiss::{KissFrame, KissReader};
use strait_wire::octets::{FLAG, Stuffing, Unstuffer};
use strait_wire::pcap::{FILE_HEADER_OCTETS, FileHeader, RECORD_HEADER_OCTETS};
use strait_wire::pcapng::{Decoder, Reader};
use strait_wire::repair::{MARK, NOTE_OCTETS_MAX, Note, emit_numbered, parse_numbered};
use strait_wire::rtp::RtpHeader;
use strait_wire::segment::{SegmentCheck, emit_segment, parse_segment};
use strait_wire::urgent::{Interleaved, Shown, emit_urgent};

/// A packet: read, edited, cut, answered. Edits keep it a packet and its checksums right.
pub fn ip_packet(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else {
        return;
    };
    let _ = ip::tcp_header(bytes);
    let _ = ip::udp_payload(bytes);
    let _ = ip::parse_echo(bytes);
    if let Some((_, quoted)) = ip::parse_icmp_error(bytes) {
        assert!(bytes.get(quoted).is_some(), "the quotation is not inside");
    }
    let _ = ip::digest(bytes);
    let checked = ip::verify_transport_checksum(bytes);
    let Ok(info) = PacketInfo::parse(bytes) else {
        assert!(ip::fragment_ipv4(bytes, 1500).is_err());
        return unchanged(bytes, choice);
    };
    assert_eq!(info.octets as usize, bytes.len());
    let mut edited = bytes.to_vec();
    ip::set_dscp(&mut edited, choice);
    ip::set_ecn_ce(&mut edited);
    let hop = ip::decrement_hop_limit(&mut edited);
    assert_eq!(hop, info.hop_limit >= 2);
    ip::clamp_mss(&mut edited, u16::from(choice) * 8);
    let after = PacketInfo::parse(&edited).expect("an edited packet is a packet");
    let expected = PacketInfo {
        dscp: choice & 0x3f,
        ecn: if info.ecn == 0 { 0 } else { 3 },
        hop_limit: info.hop_limit - u8::from(hop),
        ..info
    };
    assert_eq!(after, expected);
    assert_eq!(ip::verify_transport_checksum(&edited), checked);
    fragments(bytes, &info, choice);
    answers(bytes, &info, choice);
}

/// Edits of what is no packet.
fn unchanged(bytes: &[u8], choice: u8) {
    let mut edited = bytes.to_vec();
    ip::set_dscp(&mut edited, choice);
    ip::set_ecn_ce(&mut edited);
    ip::decrement_hop_limit(&mut edited);
    ip::clamp_mss(&mut edited, u16::from(choice));
    assert_eq!(edited.len(), bytes.len());
}

fn fragments(bytes: &[u8], info: &PacketInfo, choice: u8) {
    let mtu = usize::from(choice) * 8;
    let Ok(pieces) = ip::fragment_ipv4(bytes, mtu) else {
        return;
    };
    let mut data = 0;
    for piece in &pieces {
        let part = PacketInfo::parse(piece).expect("a fragment is a packet");
        assert!(piece.len() <= mtu);
        assert_eq!(
            (part.src, part.dst, part.dscp),
            (info.src, info.dst, info.dscp)
        );
        data += piece.len() - 4 * usize::from(piece[0] & 0x0f);
    }
    assert_eq!(data, bytes.len() - 4 * usize::from(bytes[0] & 0x0f));
}

fn answers(bytes: &[u8], info: &PacketInfo, choice: u8) {
    let kinds = [
        IcmpError::PacketTooBig { mtu: 1280 },
        IcmpError::TimeExceeded,
        IcmpError::Unreachable(Unreachable::NoRoute),
    ];
    let kind = kinds[usize::from(choice) % 3];
    for from in ["10.9.0.1", "fd00:9::1"].map(|text| text.parse::<IpAddr>().expect("an address")) {
        let mut out = vec![7];
        if ip::build_icmp_error(kind, from, bytes, &mut out) {
            let answer = PacketInfo::parse(&out[1..]).expect("an error is a packet");
            assert_eq!((answer.src, answer.dst), (from, info.src));
            assert_eq!(ip::verify_transport_checksum(&out[1..]), Some(true));
            assert_eq!(
                ip::parse_icmp_error(&out[1..]).map(|(kind, _)| kind),
                Some(kind)
            );
        } else {
            assert_eq!(out, [7]);
        }
    }
}

/// Frames on an octet stream: the same however it is cut; what is stuffed comes back.
pub fn octet_frames(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else {
        return;
    };
    let stuffing = Stuffing {
        xon_xoff: choice & 1 != 0,
        mark: choice & 2 != 0,
    };
    let max = usize::from(choice);
    let told = |pieces: &[&[u8]]| {
        let mut unstuffer = Unstuffer::with_stuffing(max, stuffing);
        let mut told = Vec::new();
        for piece in pieces {
            unstuffer.feed(piece, |frame| told.push(frame.map(<[u8]>::to_vec)));
        }
        told
    };
    let whole = told(&[bytes]);
    assert!(whole.iter().flatten().all(|frame| frame.len() <= max));
    let (left, right) = bytes.split_at(max % (bytes.len() + 1));
    assert_eq!(told(&[left, right]), whole);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(told(&single), whole);
    let mut line = vec![FLAG];
    stuffing.stuff_into(bytes, &mut line);
    assert_eq!(line.len(), 1 + stuffing.stuffed_len(bytes));
    line.push(FLAG);
    let expected = if bytes.is_empty() || bytes.len() > max {
        None
    } else {
        Some(Ok(bytes.to_vec()))
    };
    if bytes.len() <= max {
        assert_eq!(told(&[&line]).pop(), expected);
    }
    let mut receiver = Receiver::new(LinkSettings::plain(1500));
    receiver.feed_octets(bytes, |packet| assert!(packet.is_err() || packet.is_ok()));
    urgent_frames(max, bytes);
}

/// Urgent frames: the same however the stream is cut, and one put in anywhere comes out.
fn urgent_frames(at: usize, bytes: &[u8]) {
    let told = |pieces: &[&[u8]]| {
        let mut found = Interleaved::new(300, Some(SegmentCheck::Long));
        let mut told = Vec::new();
        for piece in pieces {
            found.feed(piece, |shown| told.push(format!("{shown:?}")));
        }
        told
    };
    let whole = told(&[bytes]);
    let (left, right) = bytes.split_at(at % (bytes.len() + 1));
    assert_eq!(told(&[left, right]), whole);
    let mut call = Vec::new();
    assert!(emit_urgent(b"a call", SegmentCheck::Long, &mut call));
    let shown = format!("{:?}", Shown::Urgent(b"a call"));
    let said = told(&[left, &call, right]);
    assert!(said.contains(&shown), "the call is lost");
}

/// Segments, one from all octets, then as frames that their first octet gives the length of.
pub fn segments(data: &[u8]) {
    let _ = parse_numbered(data, SegmentCheck::Long);
    for alone in [SegmentCheck::Short, SegmentCheck::Long] {
        if let Ok(segment) = parse_segment(data, alone) {
            assert!(segment.payload.len() < data.len());
            // The packet's check is the only part that can still be wrong.
            let mut sum = Crc32Sum::new();
            if segment.accept(&mut sum) {
                let mut out = Vec::new();
                let mut sum = Crc32Sum::new();
                emit_segment(segment.header, segment.payload, alone, &mut sum, &mut out);
                assert_eq!(out, data);
            }
        }
    }
    let mut receiver = Receiver::new(LinkSettings::plain(1280));
    let mut rest = data;
    while let Some((&octets, after)) = rest.split_first() {
        let (payload, after) = after.split_at(usize::from(octets).min(after.len()));
        rest = after;
        let Some((&header, payload)) = payload.split_first() else {
            continue;
        };
        let header = strait_wire::segment::SegmentHeader::parse(header);
        let mut frame = Vec::new();
        emit_segment(
            header,
            payload,
            SegmentCheck::Short,
            &mut Crc32Sum::new(),
            &mut frame,
        );
        receiver.feed_frame(&frame, |packet| {
            assert!(packet.is_ok_and(|packet| packet.len() <= 1280) || packet.is_err());
        });
    }
}

/// Segments with numbers, and notes about them, whose checks are right: what an end keeps has
/// limits, and what it says can be read.
pub fn repairs(data: &[u8]) {
    let octet = Duration::from_millis(1);
    let settings = LinkSettings::plain(1280);
    let mut sender = OctetSender::new(settings);
    let mut receiver = Receiver::new(settings);
    let mut repairs = Repairs::new(When::Always, octet);
    receiver.set_numbered(true);
    repairs.agree(true, true);
    let mut now = Instant::ZERO;
    let mut rest = data;
    while let Some((&octets, after)) = rest.split_first() {
        let (frame, after) = after.split_at(usize::from(octets >> 1).min(after.len()));
        rest = after;
        now += octet * u32::from(octets);
        repairs.advance(now);
        let told = |read: Result<&[u8], _>| {
            assert!(read.is_err() || read.is_ok_and(|it| it.len() <= 1280));
        };
        if octets & 1 == 0 {
            let note = [&[MARK], frame].concat();
            repairs.hear(&note, &mut sender, &mut receiver, told);
        } else if let [header, number, payload @ ..] = frame {
            let header = strait_wire::segment::SegmentHeader::parse(*header);
            let (sum, short) = (&mut Crc32Sum::new(), SegmentCheck::Short);
            let (mut segment, mut line) = (Vec::new(), Vec::new());
            emit_numbered(header, *number, payload, short, sum, &mut segment);
            Stuffing::default().stuff_into(&segment, &mut line);
            line.push(FLAG);
            receiver.feed_octets(&line, told);
        }
        repairs.lose_patience(&mut receiver, told);
        repairs.came(frame.len(), &mut receiver);
        assert!(receiver.row_counts().1 <= 64 * 1024);
        if let Some(note) = repairs.note(&sender, &receiver) {
            assert!(note.len() <= NOTE_OCTETS_MAX);
            assert!(Note::parse(&note).is_some());
        }
        assert!(repairs.wake(&sender, &receiver).is_none_or(|at| at > now));
        if octets == 0xff {
            repairs.restart(&mut sender, &mut receiver);
        }
    }
}

/// RTP headers.
pub fn rtp(data: &[u8]) {
    if let Ok((header, payload)) = RtpHeader::parse(data) {
        assert!(payload.len() + 12 <= data.len());
        let mut out = Vec::new();
        header.emit(&mut out);
        assert_eq!(RtpHeader::parse(&out), Ok((header, &[][..])));
    }
}

/// Captures of the newer format, as a whole and piece by piece.
pub fn pcapng(data: &[u8]) {
    let blocks = Reader::new(data).count();
    assert!(blocks <= data.len() / 12 + 1);
    let mut decoder = Decoder::default();
    let mut rest = data;
    while let Ok(needed) = decoder.block_octets(rest) {
        let before = rest;
        match decoder.block(&mut rest) {
            Ok(_) => assert_eq!(before.len() - rest.len(), needed),
            Err(_) => break,
        }
    }
}

/// The headers of the older format.
pub fn pcap(data: &[u8]) {
    let Ok(header) = FileHeader::parse(data) else {
        return;
    };
    let mut rest = data.get(FILE_HEADER_OCTETS..).unwrap_or_default();
    while let Ok(record) = header.record(rest) {
        let Some(after) = rest.get(RECORD_HEADER_OCTETS + record.captured as usize..) else {
            break;
        };
        let frame = &rest[RECORD_HEADER_OCTETS..rest.len() - after.len()];
        if let Some(packet) = strait_wire::frame::ip_packet(header.linktype, frame) {
            assert!(frame.ends_with(packet));
        }
        rest = after;
    }
}

/// Analyses of one and of two captures: they end, and every IP packet is somewhere.
pub fn analyse(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else {
        return;
    };
    let settings = Settings {
        by: [By::Dscp, By::Flow, By::Pair, By::Protocol][usize::from(choice) % 4],
        shown: usize::from(choice >> 4),
        pending_max: usize::from(choice >> 2),
        mark_octets: 20 + usize::from(choice),
        translated: choice & 4 != 0,
        ..Settings::default()
    };
    let source = |bytes| {
        let capture = Capture::open(bytes).ok()?;
        Some(Source::new("fuzz", capture, None))
    };
    let (left, right) = bytes.split_at(usize::from(choice) % (bytes.len() + 1));
    if let Some(whole) = source(bytes) {
        let analysis = one(whole, &settings, &mut || true);
        assert!(analysis.into_report("fuzz", "").parts().main.len() < 2_000_000);
    }
    for (a, b) in [(bytes, bytes), (bytes, right), (left, right)] {
        if let (Some(a), Some(b)) = (source(a), source(b)) {
            let analysis = two(a, b, &settings, &mut || true);
            assert!(analysis.result.to_json().starts_with('{'));
        }
    }
}

/// Octets from a modem: what they give doesn't depend on how they are cut, and comes back from what
/// is written of it.
pub fn kiss(data: &[u8]) {
    let Some((&choice, octets)) = data.split_first() else {
        return;
    };
    let octets_max = usize::from(choice);
    let read = |piece: usize| {
        let mut reader = KissReader::new(octets_max);
        let mut all = Vec::new();
        for piece in octets.chunks(piece) {
            reader.feed(piece, |frame| {
                all.push(frame.map(|it| (it.port, it.command, it.contents.to_vec())));
            });
        }
        all
    };
    let whole = read(usize::MAX);
    assert_eq!(whole, read(1));
    let mut line = Vec::new();
    for (port, command, contents) in whole.iter().flatten() {
        assert!(contents.len() <= octets_max);
        let frame = KissFrame {
            port: *port,
            command: *command,
            contents,
        };
        frame.emit(&mut line);
        if let Some(ui) = UiFrame::parse(contents) {
            let mut out = Vec::new();
            ui.emit(&[], &mut out);
            assert_eq!(UiFrame::parse(&out), Some(ui));
        }
    }
    let mut again = Vec::new();
    KissReader::new(octets_max).feed(&line, |frame| {
        again.push(frame.map(|it| (it.port, it.command, it.contents.to_vec())));
    });
    let good: Vec<_> = whole.into_iter().filter(Result::is_ok).collect();
    assert_eq!(again, good);
}
