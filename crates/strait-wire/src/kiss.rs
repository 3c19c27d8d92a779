//! KISS: frames to and from a modem (Chepponis and Karn, *The KISS TNC*, 1987), over a serial line
//! or TCP, with the transmit notice of multi-drop KISS (G8BPQ's ACKMODE).
//!
//! ```text
//!   FEND  port and command  contents with FEND and FESC escaped  FEND
//! ```
//!
//! A modem of one radio has port 0. Everything is total: no octets make the reader fail for good,
//! and it holds no more than the longest frame.

use alloc::vec::Vec;

/// Ends, and may begin, a frame.
pub const FEND: u8 = 0xc0;
const FESC: u8 = 0xdb;
const TFEND: u8 = 0xdc;
const TFESC: u8 = 0xdd;

/// What a frame says; the low four bits of its first octet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Contents to send, or that were received.
    Data,
    /// Time from keying up to contents, in 10 ms.
    TxDelay,
    /// Chance of sending in a slot, times 256, less 1.
    Persistence,
    /// Length of a slot, in 10 ms.
    SlotTime,
    /// Time from contents to keying down, in 10 ms; obsolete.
    TxTail,
    /// 0: the channel is shared in time.
    FullDuplex,
    /// Of the modem's own.
    SetHardware,
    /// Contents to send behind two octets of a number; back comes the number alone, when they have
    /// been sent.
    Acknowledged,
    /// Any other.
    Other(u8),
}

impl Command {
    /// By its number.
    #[must_use]
    pub const fn of(number: u8) -> Self {
        match number {
            0 => Self::Data,
            1 => Self::TxDelay,
            2 => Self::Persistence,
            3 => Self::SlotTime,
            4 => Self::TxTail,
            5 => Self::FullDuplex,
            6 => Self::SetHardware,
            0x0c => Self::Acknowledged,
            other => Self::Other(other),
        }
    }

    /// Its number, 0 … 15.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::TxDelay => 1,
            Self::Persistence => 2,
            Self::SlotTime => 3,
            Self::TxTail => 4,
            Self::FullDuplex => 5,
            Self::SetHardware => 6,
            Self::Acknowledged => 0x0c,
            Self::Other(number) => number & 0x0f,
        }
    }
}

/// A frame as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KissFrame<'a> {
    /// Which of the modem's radios, 0 … 15.
    pub port: u8,
    /// What it says.
    pub command: Command,
    /// What follows.
    pub contents: &'a [u8],
}

impl KissFrame<'_> {
    /// Appends the frame with FEND at both ends.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.push(FEND);
        escape(self.port << 4 | self.command.number(), out);
        self.contents.iter().for_each(|octet| escape(*octet, out));
        out.push(FEND);
    }
}

fn escape(octet: u8, out: &mut Vec<u8>) {
    match octet {
        FEND => out.extend_from_slice(&[FESC, TFEND]),
        FESC => out.extend_from_slice(&[FESC, TFESC]),
        octet => out.push(octet),
    }
}

/// Why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KissError {
    /// An escape before an octet that no sender escapes.
    #[error("an escape before an octet that needs none")]
    Escape,
    /// Longer than the longest.
    #[error("the frame is too long")]
    TooLong,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    /// Octets of a frame, perhaps none so far.
    #[default]
    Frame,
    /// Behind an escape.
    Escape,
    /// A frame that can't be used, to its end.
    Skip,
}

/// Finds frames in octets cut anywhere. It begins as if a FEND had come.
#[derive(Clone, Debug)]
pub struct KissReader {
    frame: Vec<u8>,
    octets_max: usize,
    within: Within,
}

impl KissReader {
    /// A reader of frames with contents of at most `octets_max`.
    #[must_use]
    pub const fn new(octets_max: usize) -> Self {
        Self {
            frame: Vec::new(),
            octets_max,
            within: Within::Frame,
        }
    }

    /// Forgets what has begun.
    pub fn reset(&mut self) {
        self.frame.clear();
        self.within = Within::Frame;
    }

    /// Takes octets; tells each frame, and why one is dropped. Empty frames are nothing.
    pub fn feed(&mut self, octets: &[u8], mut tell: impl FnMut(Result<KissFrame<'_>, KissError>)) {
        for &octet in octets {
            match (self.within, octet) {
                (within, FEND) => {
                    if within == Within::Escape {
                        tell(Err(KissError::Escape));
                    } else if let (Within::Frame, Some((first, contents))) =
                        (within, self.frame.split_first())
                    {
                        tell(Ok(KissFrame {
                            port: first >> 4,
                            command: Command::of(first & 0x0f),
                            contents,
                        }));
                    }
                    self.reset();
                }
                (Within::Skip, _) => {}
                (Within::Frame, FESC) => self.within = Within::Escape,
                (Within::Frame, octet) => self.put(octet, &mut tell),
                (Within::Escape, TFEND) => self.put(FEND, &mut tell),
                (Within::Escape, TFESC) => self.put(FESC, &mut tell),
                (Within::Escape, _) => {
                    self.within = Within::Skip;
                    tell(Err(KissError::Escape));
                }
            }
        }
    }

    fn put(&mut self, octet: u8, tell: &mut impl FnMut(Result<KissFrame<'_>, KissError>)) {
        if self.frame.len() > self.octets_max {
            self.within = Within::Skip;
            tell(Err(KissError::TooLong));
        } else {
            self.frame.push(octet);
            self.within = Within::Frame;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    type Read = Result<(u8, Command, Vec<u8>), KissError>;

    fn read(octets: &[u8]) -> Vec<Read> {
        let mut all = Vec::new();
        KissReader::new(8).feed(octets, |frame| {
            all.push(frame.map(|it| (it.port, it.command, it.contents.to_vec())));
        });
        all
    }

    #[test]
    fn literal_frames() {
        let mut out = Vec::new();
        let frame = KissFrame {
            port: 0,
            command: Command::Data,
            contents: b"TEST",
        };
        frame.emit(&mut out);
        assert_eq!(out, *b"\xc0\x00TEST\xc0");
        out.clear();
        let frame = KissFrame {
            port: 5,
            command: Command::Acknowledged,
            contents: &[0xc0, 0xdb],
        };
        frame.emit(&mut out);
        assert_eq!(out, [0xc0, 0x5c, 0xdb, 0xdc, 0xdb, 0xdd, 0xc0]);
        let expected = Ok((5, Command::Acknowledged, vec![0xc0, 0xdb]));
        assert_eq!(read(&out), [expected]);
        // Radio 12 and data: the first octet itself needs an escape.
        assert_eq!(
            read(&[0xc0, 0xdb, 0xdc, 1, 0xc0]),
            [Ok((12, Command::Data, vec![1]))]
        );
    }

    #[test]
    fn frames_share_an_end_and_empty_ones_are_nothing() {
        let data = |octet: u8| Ok((0, Command::Data, vec![octet]));
        assert_eq!(
            read(&[0, 1, FEND, FEND, FEND, 0, 2, FEND]),
            [data(1), data(2)]
        );
        assert_eq!(read(&[FEND, 0, FEND]), [Ok((0, Command::Data, vec![]))]);
        assert_eq!(read(&[FEND, 0, 1]), []);
    }

    #[test]
    fn what_is_wrong_costs_one_frame() {
        let good = Ok((0, Command::Data, vec![7]));
        for wrong in [&[0, FESC, 1, 2, 3, FEND][..], &[0, FESC, FEND]] {
            let mut octets = wrong.to_vec();
            octets.extend([0, 7, FEND]);
            assert_eq!(read(&octets), [Err(KissError::Escape), good.clone()]);
        }
        // Eight octets of contents fit, nine don't.
        let long = [[0; 9].as_slice(), &[FEND]].concat();
        assert_eq!(read(&long), [Ok((0, Command::Data, vec![0; 8]))]);
        let longer = [[0; 10].as_slice(), &[FEND, 0, 7, FEND]].concat();
        assert_eq!(read(&longer), [Err(KissError::TooLong), good]);
    }

    #[test]
    fn each_number_is_its_command() {
        for number in 0..16 {
            assert_eq!(Command::of(number).number(), number);
        }
    }

    proptest::proptest! {
        #[test]
        fn frames_come_back_however_they_are_cut(
            frames in proptest::collection::vec(
                (0u8..16, 0u8..16, proptest::collection::vec(proptest::prelude::any::<u8>(), 0..9)),
                0..6,
            ),
            piece in 1usize..7,
        ) {
            let mut line = Vec::new();
            for (port, command, contents) in &frames {
                let command = Command::of(*command);
                KissFrame { port: *port, command, contents }.emit(&mut line);
            }
            let mut reader = KissReader::new(8);
            let mut came = Vec::new();
            for octets in line.chunks(piece) {
                reader.feed(octets, |frame| {
                    let frame = frame.unwrap();
                    came.push((frame.port, frame.command.number(), frame.contents.to_vec()));
                });
            }
            assert_eq!(came, frames);
        }
    }
}
