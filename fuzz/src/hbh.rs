//! Frames between two neighbours whose link is made reliable.

use std::net::SocketAddr;

use strait_core::fate::{Ledger, Origin};
use strait_core::{ClassId, Duration, Instant};
use strait_link::hbh::{AnyHop, AnySettings, Heard, Manner, Settings, paper};
use strait_wire::check::Crc16Sum;
use strait_wire::hbh::{Frame, Session, paper as published, parse};
use strait_wire::ip;
use strait_wire::segment::SegmentCheck;

const CHECK: SegmentCheck = SegmentCheck::Short;
/// Incarnations of the two ends.
const LIVES: [u32; 2] = [1, 2];

/// Orders of two octets each, some with a frame behind them: what one end hears is made up, with a
/// wrong check or a right one, or it is what the other end sends, perhaps damaged, twice or late.
/// No end is ever stuck, holds more than it may, or wants to be woken in the past. All of it in
/// either format.
pub fn hbh(data: &[u8]) {
    follow(Link::known(AnySettings::Strait(Settings::default())), data);
    follow(
        Link::known(AnySettings::Paper(paper::Settings::default())),
        data,
    );
}

fn follow(mut link: Link, data: &[u8]) {
    let mut rest = data;
    while let Some(([order, much], behind)) = rest.split_first_chunk() {
        rest = behind;
        let at = usize::from(order >> 7);
        match order & 7 {
            0 | 1 => {
                let (frame, behind) = rest.split_at(usize::from(*much).min(rest.len()));
                rest = behind;
                let mut frame = frame.to_vec();
                let published = matches!(link.ends[at].hop, AnyHop::Paper(_));
                if order & 7 == 1 && published {
                    make_sound_as_published(&mut frame, 1 - at);
                } else if order & 7 == 1 {
                    make_sound(&mut frame, 1 - at);
                }
                again(&frame, 1 - at);
                again_as_published(&frame, 1 - at);
                link.hear(at, &frame);
            }
            2 => {
                let frame = link.pull(1 - at);
                link.late[at].extend(frame);
            }
            3 => {
                for frame in std::mem::take(&mut link.late[at]) {
                    link.hear(at, &frame);
                }
            }
            4 => {
                if let Some(mut frame) = link.pull(1 - at) {
                    let place = usize::from(*much) % frame.len();
                    frame[place] ^= 1 << (order >> 4 & 7);
                    link.hear(at, &frame);
                }
            }
            5 => {
                for frame in link
                    .pull(1 - at)
                    .into_iter()
                    .flat_map(|it| [it.clone(), it])
                {
                    link.hear(at, &frame);
                }
            }
            6 => link.ends[at].hop.set_stop(*much),
            _ => {
                link.now += Duration::from_millis(u64::from(*much) * 10);
                for end in &mut link.ends {
                    end.hop.advance(link.now);
                }
                (0..2).for_each(|at| link.settle(at));
            }
        }
    }
}

/// Orders that let frames pass, lose them and let time pass.
pub fn orders() -> Vec<u8> {
    let rounds = (0..60).flat_map(|round| [0x85, 0, 0x05, 0, 0x82, 0, 7, round, 0x83, 0, 4, round]);
    rounds.collect()
}

struct End {
    hop: AnyHop,
    numbered: u16,
}

struct Link {
    ends: [End; 2],
    late: [Vec<Vec<u8>>; 2],
    ledger: Ledger,
    now: Instant,
}

impl Link {
    fn known(settings: AnySettings) -> Self {
        let ends = LIVES.map(|life| {
            let mut hop = AnyHop::new(settings, life);
            hop.set_up(Instant::ZERO);
            End { hop, numbered: 0 }
        });
        let mut link = Self {
            ends,
            late: [Vec::new(), Vec::new()],
            ledger: Ledger::default(),
            now: Instant::ZERO,
        };
        for _ in 0..4 {
            for at in 0..2 {
                let mut hello = Vec::new();
                if link.ends[1 - at]
                    .hop
                    .control(link.now, &mut hello)
                    .is_some()
                {
                    link.hear(at, &hello);
                }
            }
        }
        assert!(link.ends.iter().all(|end| end.hop.counts().renewals == 1));
        link
    }

    fn packet(&mut self, number: u16) -> Option<strait_core::Packet> {
        let mut octets = Vec::new();
        let socket = |last| SocketAddr::from(([10, 0, 0, last], 7));
        let payload = number.to_be_bytes();
        ip::build_udp(
            socket(1),
            socket(2),
            0,
            64,
            number,
            0,
            &payload,
            &mut octets,
        );
        self.ledger.admit(self.now, octets, Origin::Own).ok()
    }

    /// The next frame of an end, which always has something to send if it may.
    fn pull(&mut self, at: usize) -> Option<Vec<u8>> {
        let now = self.now;
        let mut out = Vec::new();
        let hop = &mut self.ends[at].hop;
        if hop.has_own_control(now) {
            return hop.control(now, &mut out).map(|()| out);
        }
        let again = hop.again(ClassId(0)).map(|(seq, _)| seq);
        let flow = self.ends[at].numbered % 3;
        let published = matches!(hop, AnyHop::Paper(_));
        let hop = &mut self.ends[at].hop;
        let seq = match again {
            Some(seq) => Some(seq),
            None if hop.takes(0, || Some(u32::from(flow))) => {
                let number = self.ends[at].numbered;
                self.ends[at].numbered = number.wrapping_add(1);
                let packet = self.packet(number)?;
                let manner = Manner {
                    flow: (published || flow == 0).then_some(u32::from(flow)),
                    parity: flow,
                    ..Manner::default()
                };
                Some(self.ends[at].hop.begin(packet, manner))
            }
            None => None,
        };
        let hop = &mut self.ends[at].hop;
        match seq {
            Some(seq) => {
                hop.transmit(now, now, (seq, false), usize::MAX, &mut out)?;
                hop.left(now);
            }
            None => hop.control(now, &mut out)?,
        }
        self.settle(at);
        Some(out)
    }

    fn hear(&mut self, at: usize, frame: &[u8]) {
        let now = self.now;
        self.ends[at].hop.advance(now);
        let heard = self.ends[at].hop.hear(now, frame, |_, _| true);
        if let Heard::Packet(header, octets) = heard {
            let octets = octets.into_owned();
            let packet = self.ledger.admit(now, octets, Origin::Own).ok();
            self.ends[at].hop.accept(now, &header, packet, Some(1));
        }
        self.settle(at);
    }

    fn settle(&mut self, at: usize) {
        let hop = &mut self.ends[at].hop;
        hop.released().for_each(drop);
        hop.done().for_each(drop);
        hop.check();
        assert!(hop.held() <= 2 * usize::from(Settings::WINDOW_MAX) + 1);
        let due = hop.wake().filter(|wake| wake.at <= self.now);
        assert_eq!(due, None, "it wants to be woken in the past");
    }
}

/// Puts the check of a frame from an end behind it.
fn make_sound(frame: &mut Vec<u8>, from: usize) {
    let mut sum = Crc16Sum::new();
    if frame.first().is_some_and(|first| *first != 0x0b) {
        sum.update(&LIVES[from].to_be_bytes());
        sum.update(&LIVES[1 - from].to_be_bytes());
    }
    let check = sum.update(frame).finish();
    frame.extend(check.to_le_bytes());
}

/// Puts the check of a frame of the published format into its place.
fn make_sound_as_published(frame: &mut [u8], from: usize) {
    let at = match frame.first().map(|first| first >> 4) {
        Some(4) => usize::from(frame[0] & 15) * 4,
        Some(6) => 40,
        _ => 0,
    };
    let mut sum = Crc16Sum::new();
    sum.update(&LIVES[from].to_be_bytes());
    sum.update(&LIVES[1 - from].to_be_bytes());
    if let Some(place) = frame.get_mut(at + 4..at + 6) {
        place.fill(0);
        let check = sum.update(frame).finish();
        frame[at + 4..at + 6].copy_from_slice(&check.to_be_bytes());
    }
}

/// What is read of the published format is written and read again.
fn again_as_published(frame: &[u8], from: usize) {
    let session = Session {
        sender: LIVES[from],
        receiver: LIVES[1 - from],
    };
    let Ok(read) = published::parse(frame, Some(session)) else {
        return;
    };
    let mut out = Vec::new();
    match &read {
        published::Frame::Hello(hello) => hello.emit(CHECK, &mut out),
        published::Frame::Data(data, packet) => {
            assert_eq!(data.emit(packet, session, &mut out), Some(()));
        }
        published::Frame::Ack(ack) => ack.emit(session, &mut out),
    }
    assert_eq!(published::parse(&out, Some(session)), Ok(read));
}

/// What is read is written and read again.
fn again(frame: &[u8], from: usize) {
    let session = Session {
        sender: LIVES[from],
        receiver: LIVES[1 - from],
    };
    let Ok(read) = parse(frame, CHECK, Some(session)) else {
        return;
    };
    let mut out = Vec::new();
    match &read {
        Frame::Hello(hello) => hello.emit(CHECK, &mut out),
        Frame::Content(content) => content.emit(CHECK, session, &mut out),
        Frame::Parity(parity) => parity.emit(CHECK, session, &mut out),
    }
    assert_eq!(parse(&out, CHECK, Some(session)), Ok(read));
}
