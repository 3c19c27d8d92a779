//! A port over a KISS modem, at a serial line or a TCP address (Dire Wolf's is 8001).
//!
//! A modem takes frames faster than it sends them, and what it holds nobody can overtake. So at
//! most `UNDER_WAY_MAX` frames are in its hands where it gives notice of each that it has sent,
//! and otherwise the next one is asked for when the rate says that the one before has left.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use strait_core::id::NeighbourId;
use strait_core::id::Neighbours;
use strait_core::node::{PortState, Room, TxMeta};
use strait_core::rate::{Burst, LineRate};
use strait_core::time::{Duration, Instant};
use strait_wire::ax25::{NO_LAYER_3, Station, UI_OCTETS, UiFrame};
use strait_wire::kiss::{Command, KissError, KissFrame, KissReader};

use crate::error::Error;
use crate::port_io::{IoCounts, PortIo, Received, Sent};

/// What a KISS port is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KissConfig {
    /// Which of the modem's radios, 0 … 15.
    pub radio: u8,
    /// Rate on the air.
    pub rate: LineRate,
    /// The longest contents of a frame, in octets.
    pub frame_octets_max: u32,
    /// The modem tells of each frame when it has been sent (ACKMODE).
    pub notice: bool,
    /// AX.25 addresses: ours and the other end's. Without, frames have no header.
    pub stations: Option<(Station, Station)>,
}

/// A modem as a port.
pub struct KissPort {
    config: KissConfig,
    /// Octets to and from the modem.
    line: Box<dyn PortIo>,
    reader: KissReader,
    /// Contents that came together and haven't been asked for, at most a buffer's worth.
    came: VecDeque<Vec<u8>>,
    pace: Burst,
    /// Frames without a notice so far: number, and when to wait no longer.
    under_way: VecDeque<(u16, Instant)>,
    number: u16,
    counts: IoCounts,
    /// A frame as it goes to the modem.
    scratch: Vec<u8>,
}

/// Frames in a modem's hands that gives notice: one on the air, one ready to follow it, so that
/// the modem needn't key down between.
const UNDER_WAY_MAX: usize = 2;

/// However short the frame: a shared channel may be busy for so long. A notice that doesn't come
/// at all (the modem was restarted) must not stop the port for good.
const NOTICE_PATIENCE: Duration = Duration::from_secs(30);

/// Beside contents, a frame on the air has flags and a check; the modem adds them.
const AIR_OCTETS: u64 = 4;

/// A frame is asked for this much before the one before has left, so that the event loop's
/// lateness doesn't open gaps between frames.
const AHEAD: Duration = Duration::from_micros(500);

impl KissPort {
    /// A port that isn't open yet, to a modem at the other end of `line`.
    pub fn new(config: KissConfig, line: Box<dyn PortIo>) -> Self {
        let longest = config.frame_octets_max as usize + UI_OCTETS + NUMBER_OCTETS;
        Self {
            // Repeaters' addresses may stand in what others send.
            reader: KissReader::new(longest + REPEATERS_OCTETS),
            line,
            came: VecDeque::new(),
            pace: Burst::new(config.rate, Instant::ZERO),
            under_way: VecDeque::new(),
            number: 0,
            counts: IoCounts::default(),
            scratch: Vec::new(),
            config,
        }
    }

    /// The frame for the modem, and its octets on the air.
    fn frame(&mut self, octets: &[u8]) -> u64 {
        let mut contents = Vec::with_capacity(octets.len() + UI_OCTETS + NUMBER_OCTETS);
        if self.config.notice {
            contents.extend_from_slice(&self.number.to_be_bytes());
        }
        match self.config.stations {
            None => contents.extend_from_slice(octets),
            Some((source, destination)) => {
                let frame = UiFrame {
                    destination,
                    source,
                    protocol: NO_LAYER_3,
                    contents: octets,
                };
                frame.emit(&mut contents);
            }
        }
        let command = if self.config.notice {
            Command::Acknowledged
        } else {
            Command::Data
        };
        self.scratch.clear();
        KissFrame {
            port: self.config.radio,
            command,
            contents: &contents,
        }
        .emit(&mut self.scratch);
        let header = usize::from(self.config.stations.is_some()) * UI_OCTETS;
        (octets.len() + header) as u64 + AIR_OCTETS
    }

    /// Takes in what the modem said.
    fn take(&mut self, octets: &[u8]) {
        let Self {
            config,
            reader,
            came,
            under_way,
            counts,
            ..
        } = self;
        reader.feed(octets, |frame| match frame {
            Ok(frame) if frame.port != config.radio => counts.strangers += 1,
            Ok(frame) => match frame.command {
                Command::Data => match contents(config, frame.contents) {
                    Some(contents) => came.push_back(contents.to_vec()),
                    None => counts.strangers += 1,
                },
                Command::Acknowledged => {
                    if let Some(number) = frame.contents.first_chunk() {
                        let number = u16::from_be_bytes(*number);
                        under_way.retain(|(other, _)| *other != number);
                    }
                }
                _ => {}
            },
            Err(KissError::Escape | KissError::TooLong) => counts.strangers += 1,
        });
    }

    fn forget_overdue(&mut self, now: Instant) {
        while self
            .under_way
            .front()
            .is_some_and(|(_, until)| *until <= now)
        {
            self.under_way.pop_front();
            self.counts.refused += 1;
        }
    }
}

/// Octets of a number before contents to be acknowledged.
const NUMBER_OCTETS: usize = 2;
/// Eight repeaters' addresses.
const REPEATERS_OCTETS: usize = 8 * 7;

/// What a frame carries for us; `None` if it is another's.
fn contents<'a>(config: &KissConfig, octets: &'a [u8]) -> Option<&'a [u8]> {
    let Some((own, peer)) = config.stations else {
        return Some(octets);
    };
    let frame = UiFrame::parse(octets)?;
    let ours = frame.destination == own && frame.source == peer;
    (ours && frame.protocol == NO_LAYER_3).then_some(frame.contents)
}

impl PortIo for KissPort {
    fn open(&mut self, now: Instant) -> Result<PortState, Error> {
        self.line.open(now)?;
        Ok(PortState {
            tx_rate: self.config.rate,
            rx_rate: self.config.rate,
            frame_octets_max: self.config.frame_octets_max,
            block: Duration::ZERO,
            latency: Duration::ZERO,
        })
    }

    fn close(&mut self) {
        self.line.close();
        self.reader.reset();
        self.came.clear();
        self.under_way.clear();
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.line.fd()
    }

    fn room(&mut self, now: Instant) -> Result<Room, Option<Instant>> {
        let line = self.line.room(now)?;
        let mut starts = line.starts;
        if self.config.notice {
            self.forget_overdue(now);
            if self.under_way.len() >= UNDER_WAY_MAX {
                return Err(self.under_way.front().map(|(_, until)| *until));
            }
        } else {
            starts = starts.max(self.pace.end());
            if starts > now + AHEAD {
                return Err(Some(starts - AHEAD));
            }
        }
        Ok(Room {
            octets: self.config.frame_octets_max as usize,
            starts: starts.max(now),
            until: None,
            to: Neighbours::ALL,
        })
    }

    fn transmit(&mut self, now: Instant, meta: &TxMeta, octets: &[u8]) -> io::Result<Sent> {
        let on_air = self.frame(octets);
        let sent = self.line.transmit(now, meta, &self.scratch)?;
        if sent == Sent::Refused {
            return Ok(sent);
        }
        self.pace.push(now, on_air);
        if self.config.notice {
            // Twenty such frames of others may go before it.
            let frame = self.config.rate.time_for(on_air);
            let patience = frame.saturating_mul(20).max(NOTICE_PATIENCE);
            self.under_way.push_back((self.number, now + patience));
            self.number = self.number.wrapping_add(1);
        }
        Ok(sent)
    }

    fn holds(&self) -> bool {
        self.line.holds()
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.line.flush(now)
    }

    fn drained(&mut self, now: Instant) -> bool {
        self.forget_overdue(now);
        let sent = if self.config.notice {
            self.under_way.is_empty()
        } else {
            self.pace.end() <= now
        };
        sent && self.line.drained(now)
    }

    fn receive(&mut self, now: Instant, buffer: &mut [u8]) -> io::Result<Received> {
        if self.came.is_empty() {
            match self.line.receive(now, buffer)? {
                Received::Frame { octets, .. } => {
                    let octets = buffer[..octets].to_vec();
                    self.take(&octets);
                }
                other => return Ok(other),
            }
        }
        let Some(contents) = self.came.pop_front() else {
            return Ok(Received::Skipped);
        };
        let octets = contents.len().min(buffer.len());
        buffer[..octets].copy_from_slice(&contents[..octets]);
        Ok(Received::Frame {
            from: NeighbourId::PEER,
            octets,
        })
    }

    fn counts(&self) -> IoCounts {
        let line = self.line.counts();
        IoCounts {
            refused: line.refused + self.counts.refused,
            backlog_octets_max: line.backlog_octets_max,
            ..self.counts
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use strait_core::id::ClassId;

    use super::*;

    /// What goes to a modem and comes from it.
    #[derive(Clone, Default)]
    struct Wire(Rc<RefCell<(Vec<u8>, Vec<u8>)>>);

    impl PortIo for Wire {
        fn open(&mut self, _: Instant) -> Result<PortState, Error> {
            Err(Error::invalid("open", "nobody does"))
        }

        fn close(&mut self) {}

        fn fd(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        fn room(&mut self, now: Instant) -> Result<Room, Option<Instant>> {
            Ok(Room {
                octets: usize::MAX,
                starts: now,
                until: None,
                to: Neighbours::ALL,
            })
        }

        fn transmit(&mut self, _: Instant, _: &TxMeta, octets: &[u8]) -> io::Result<Sent> {
            self.0.borrow_mut().0.extend_from_slice(octets);
            Ok(Sent::Taken)
        }

        fn holds(&self) -> bool {
            false
        }

        fn flush(&mut self, _: Instant) -> io::Result<()> {
            Ok(())
        }

        fn drained(&mut self, _: Instant) -> bool {
            true
        }

        fn receive(&mut self, _: Instant, buffer: &mut [u8]) -> io::Result<Received> {
            let octets = std::mem::take(&mut self.0.borrow_mut().1);
            buffer[..octets.len()].copy_from_slice(&octets);
            Ok(match octets.len() {
                0 => Received::Nothing,
                octets => Received::Frame {
                    from: NeighbourId::PEER,
                    octets,
                },
            })
        }

        fn counts(&self) -> IoCounts {
            IoCounts::default()
        }
    }

    const RATE: LineRate = LineRate::new(8000, 8);

    fn port(notice: bool, stations: Option<(&str, &str)>) -> (KissPort, Wire) {
        let wire = Wire::default();
        let station = |name: &str| name.parse().unwrap();
        let config = KissConfig {
            radio: 1,
            rate: RATE,
            frame_octets_max: 256,
            notice,
            stations: stations.map(|(own, peer)| (station(own), station(peer))),
        };
        (KissPort::new(config, Box::new(wire.clone())), wire)
    }

    fn send(port: &mut KissPort, now: Instant, octets: &[u8]) {
        let meta = TxMeta::to_peer(ClassId(0));
        assert_eq!(port.transmit(now, &meta, octets).unwrap(), Sent::Taken);
    }

    #[test]
    fn two_frames_are_in_the_modems_hands_until_it_gives_notice() {
        let (mut port, wire) = port(true, None);
        let now = Instant::ZERO;
        send(&mut port, now, b"a");
        assert!(port.room(now).is_ok());
        send(&mut port, now, b"b");
        let patience = now + NOTICE_PATIENCE;
        assert_eq!(port.room(now), Err(Some(patience)));
        let sent = std::mem::take(&mut wire.0.borrow_mut().0);
        assert_eq!(sent, *b"\xc0\x1c\0\0a\xc0\xc0\x1c\0\x01b\xc0");
        // Of another radio; of a number that never was; then the right one.
        for (notice, has_room) in [
            (b"\xc0\x0c\0\0\xc0", false),
            (b"\xc0\x1c\0\x09\xc0", false),
            (b"\xc0\x1c\0\0\xc0", true),
        ] {
            wire.0.borrow_mut().1.extend_from_slice(notice);
            let came = port.receive(now, &mut [0; 600]).unwrap();
            assert_eq!(
                (came, port.room(now).is_ok()),
                (Received::Skipped, has_room)
            );
        }
        assert!(!port.drained(now));
        // The other's never comes.
        send(&mut port, now, b"c");
        let before = Instant::from_nanos(patience.as_nanos() - 1);
        assert_eq!(port.room(before), Err(Some(patience)));
        assert!(port.room(patience).is_ok());
        assert_eq!((port.counts().refused, port.counts().strangers), (2, 1));
    }

    #[test]
    fn without_notice_the_rate_paces() {
        let (mut port, _) = port(false, None);
        let now = Instant::ZERO;
        send(&mut port, now, &[7; 96]);
        // 96 octets and what the modem adds, at 1000 a second.
        let next = now + Duration::from_millis(100) - AHEAD;
        assert_eq!(port.room(now), Err(Some(next)));
        assert!(port.room(next).is_ok());
        assert!(!port.drained(next) && port.drained(next + AHEAD));
    }

    #[test]
    fn only_what_the_peer_says_to_us_is_heard() {
        let (mut a, to_a) = port(false, Some(("A-1", "B-2")));
        let (mut b, to_b) = port(false, Some(("B-2", "A-1")));
        send(&mut a, Instant::ZERO, b"hello");
        let sent = to_a.0.borrow().0.clone();
        to_b.0.borrow_mut().1.clone_from(&sent);
        to_a.0.borrow_mut().1 = sent;
        let mut buffer = [0; 600];
        let heard = b.receive(Instant::ZERO, &mut buffer).unwrap();
        let from = NeighbourId::PEER;
        assert_eq!(
            (heard, &buffer[..5]),
            (Received::Frame { from, octets: 5 }, &b"hello"[..])
        );
        let own = a.receive(Instant::ZERO, &mut buffer).unwrap();
        assert_eq!((own, a.counts().strangers), (Received::Skipped, 1));
    }
}
