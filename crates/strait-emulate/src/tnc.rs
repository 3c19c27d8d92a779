//! An end that is a KISS modem in software: what a program gives it goes on the air frame by
//! frame, and it tells of each frame that wants so when it has left (ACKMODE). Or, as Dire Wolf
//! does, it says how many octets wait in its queue, and takes no frame that wants a notice.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use strait_core::time::Instant;
use strait_live::error::{Doing, Error};
use strait_live::ports::is_not_now;
use strait_live::ports::pty::PtyPair;
use strait_wire::kiss::{Command, KissFrame, KissReader};

use super::report::ModemCounts;

/// Where the modem's program is.
enum Line {
    Pty {
        pair: PtyPair,
        link: PathBuf,
    },
    Tcp {
        listener: TcpListener,
        stream: Option<TcpStream>,
    },
}

/// Number of a frame that wants a notice.
type Number = [u8; 2];

/// What waits for the medium: its number, and its octets.
type Frame = (Option<Number>, usize);

/// The modem of one radio, number 0.
pub(super) struct Tnc {
    line: Line,
    reader: KissReader,
    /// Frames that came together and haven't been asked for: one read's worth.
    came: VecDeque<(Vec<u8>, Option<Number>)>,
    /// Frames that wait for the medium, in their order.
    waiting: VecDeque<Frame>,
    /// Notices, by when their frames have left.
    notices: VecDeque<(Instant, Number)>,
    /// What the program hasn't taken yet.
    pending: Vec<u8>,
    /// It tells its queue and gives no notice.
    tells_queue: bool,
    counts: ModemCounts,
}

/// Octets of a frame's contents, and of a read.
const FRAME_OCTETS_MAX: usize = 8192;
/// Octets that a program may leave unread; frames that come on top of them are lost.
const PENDING_OCTETS_MAX: usize = 65_536;

impl Tnc {
    /// A modem at a pseudo-terminal, to which a symbolic link leads.
    pub(super) fn at_pty(link: &Path) -> Result<Self, Error> {
        Ok(Self::new(Line::Pty {
            pair: PtyPair::open(Some(link))?,
            link: link.to_owned(),
        }))
    }

    /// A modem at a TCP address, for one program at a time.
    pub(super) fn at_tcp(address: SocketAddr) -> Result<Self, Error> {
        let listen = || -> io::Result<TcpListener> {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        Ok(Self::new(Line::Tcp {
            listener: listen().doing(|| format!("listen at TCP {address}"))?,
            stream: None,
        }))
    }

    fn new(line: Line) -> Self {
        Self {
            line,
            reader: KissReader::new(FRAME_OCTETS_MAX),
            came: VecDeque::new(),
            waiting: VecDeque::new(),
            notices: VecDeque::new(),
            pending: Vec::new(),
            tells_queue: false,
            counts: ModemCounts::default(),
        }
    }

    /// One that tells its queue and gives no notice.
    pub(super) const fn telling_queue(mut self, tells: bool) -> Self {
        self.tells_queue = tells;
        self
    }

    pub(super) const fn counts(&self) -> ModemCounts {
        self.counts
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match &self.line {
            Line::Pty { pair, .. } => pair.as_fd(),
            Line::Tcp { listener, stream } => stream
                .as_ref()
                .map_or_else(|| listener.as_fd(), AsFd::as_fd),
        }
    }

    pub(super) const fn holds(&self) -> bool {
        !self.pending.is_empty()
    }

    /// When it has something to do whatever its descriptor says.
    pub(super) fn wake(&self) -> Option<Instant> {
        let more = (!self.came.is_empty()).then_some(Instant::ZERO);
        more.or_else(|| self.notices.front().map(|(at, _)| *at))
    }

    /// The next frame for the medium.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.came.is_empty() {
            let octets_max = buffer.len().min(FRAME_OCTETS_MAX);
            let octets = self.read_line(&mut buffer[..octets_max])?;
            let came = &mut self.came;
            let before: usize = self.waiting.iter().map(|(_, octets)| octets).sum();
            let mut answers = Vec::new();
            self.reader.feed(&buffer[..octets], |frame| {
                // Times of the radio, and what no modem understands, are nothing to it.
                let Ok(frame) = frame else { return };
                match (frame.command, self.tells_queue) {
                    (Command::Data, _) => came.push_back((frame.contents.to_vec(), None)),
                    (Command::Acknowledged, false) => {
                        if let Some((number, contents)) = frame.contents.split_first_chunk() {
                            came.push_back((contents.to_vec(), Some(*number)));
                        }
                    }
                    (Command::SetHardware, true) if frame.contents == b"TXBUF:" => {
                        let came: usize = came.iter().map(|(contents, _)| contents.len()).sum();
                        answers.push(format!("TXBUF:{}", before + came));
                    }
                    _ => {}
                }
            });
            for answer in answers {
                self.counts.answers += 1;
                self.say(Command::SetHardware, answer.as_bytes())?;
            }
        }
        let Some((contents, number)) = self.came.pop_front() else {
            return Ok(None);
        };
        self.waiting.push_back((number, contents.len()));
        let held = self.waiting.len() + self.notices.len();
        self.counts.held_max = self.counts.held_max.max(held);
        let octets = contents.len().min(buffer.len());
        buffer[..octets].copy_from_slice(&contents[..octets]);
        Ok(Some(octets))
    }

    /// Octets of the program; none if there is nothing now, or no program.
    fn read_line(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.line {
            Line::Pty { pair, .. } => pair.read(buffer),
            Line::Tcp { listener, stream } => match stream {
                Some(open) => match open.read(buffer) {
                    Ok(0) => {
                        // The program is gone, and with it what it was to be told.
                        *stream = None;
                        self.reader.reset();
                        self.pending.clear();
                        self.notices.clear();
                        return Ok(0);
                    }
                    result => result,
                },
                None => listener.accept().and_then(|(open, _)| {
                    open.set_nonblocking(true)?;
                    open.set_nodelay(true)?;
                    *stream = Some(open);
                    Ok(0)
                }),
            },
        };
        match read {
            Err(error) if is_not_now(&error) => Ok(0),
            // A program that was killed has reset its connection: the next read says it is gone.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(0),
            other => other,
        }
    }

    /// The frame read last found no place in the medium's queue: it will not leave.
    pub(super) fn forget_last(&mut self) {
        self.waiting.pop_back();
    }

    /// The frame that waited longest has left by `at`.
    pub(super) fn left(&mut self, at: Instant) {
        if let Some((Some(number), _)) = self.waiting.pop_front() {
            self.notices.push_back((at, number));
        }
    }

    /// Gives the notices that are due by `now`.
    pub(super) fn tick(&mut self, now: Instant) -> io::Result<()> {
        while let Some((_, number)) = self.notices.front().copied().filter(|(at, _)| *at <= now) {
            self.notices.pop_front();
            self.counts.notices += 1;
            self.say(Command::Acknowledged, &number)?;
        }
        Ok(())
    }

    /// Hands over what came from the medium; false if nobody takes it.
    pub(super) fn write(&mut self, contents: &[u8]) -> io::Result<bool> {
        self.say(Command::Data, contents)
    }

    /// Says something to the program; false if nobody listens.
    fn say(&mut self, command: Command, contents: &[u8]) -> io::Result<bool> {
        let nobody = matches!(&self.line, Line::Tcp { stream: None, .. });
        if nobody || self.pending.len() > PENDING_OCTETS_MAX {
            return Ok(false);
        }
        let frame = KissFrame {
            port: 0,
            command,
            contents,
        };
        frame.emit(&mut self.pending);
        self.flush()?;
        Ok(true)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.pending.is_empty() {
            let written = match &mut self.line {
                Line::Pty { pair, .. } => pair.write(&self.pending),
                Line::Tcp {
                    stream: Some(open), ..
                } => open.write(&self.pending),
                Line::Tcp { stream: None, .. } => Ok(self.pending.len()),
            };
            match written {
                Ok(octets) => drop(self.pending.drain(..octets)),
                Err(error) if is_not_now(&error) => break,
                // Its end shows itself to the next read.
                Err(_) if matches!(self.line, Line::Tcp { .. }) => self.pending.clear(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl fmt::Display for Tnc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.line {
            Line::Pty { pair, link } => {
                let slave = pair.slave_path().display();
                write!(f, "kiss:{} ({slave})", link.display())
            }
            Line::Tcp { listener, .. } => match listener.local_addr() {
                Ok(address) if self.tells_queue => write!(f, "direwolf:{address}"),
                Ok(address) => write!(f, "kiss:{address}"),
                Err(_) => f.write_str("kiss"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(octets: &[u8]) -> Vec<(Command, Vec<u8>)> {
        let mut said = Vec::new();
        KissReader::new(1000).feed(octets, |frame| {
            let frame = frame.unwrap();
            said.push((frame.command, frame.contents.to_vec()));
        });
        said
    }

    /// Frames that come until `enough`. A terminal may give what was written in pieces, and a
    /// little later.
    fn frames_until(tnc: &mut Tnc, enough: impl Fn(usize, ModemCounts) -> bool) -> Vec<Vec<u8>> {
        let mut buffer = [0; 100];
        let mut frames = Vec::new();
        for _ in 0..10_000 {
            match tnc.read(&mut buffer).unwrap() {
                Some(octets) => frames.push(buffer[..octets].to_vec()),
                None if enough(frames.len(), tnc.counts()) => return frames,
                None => std::thread::sleep(std::time::Duration::from_millis(1)),
            }
        }
        panic!("after {frames:?} nothing came");
    }

    /// What the modem says next to its program, in pieces or at once.
    fn hear(program: &mut impl Read, frames: usize) -> Vec<(Command, Vec<u8>)> {
        let mut heard = Vec::new();
        while said(&heard).len() < frames {
            let mut buffer = [0; 100];
            let octets = program.read(&mut buffer).unwrap();
            heard.extend_from_slice(&buffer[..octets]);
        }
        said(&heard)
    }

    #[test]
    fn a_notice_comes_when_its_frame_has_left_and_others_get_none() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("tnc");
        let mut tnc = Tnc::at_pty(&link).unwrap();
        let options = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&link);
        let mut program = options.unwrap();
        // With notice, without, a time of the radio, and with notice again.
        program
            .write_all(
                b"\xc0\x0c\x01\x02one\xc0\xc0\x00two\xc0\xc0\x01\x20\xc0\xc0\x0c\x01\x03six\xc0",
            )
            .unwrap();
        let frames = frames_until(&mut tnc, |frames, _| frames == 3);
        assert_eq!(frames, [b"one", b"two", b"six"]);
        tnc.forget_last();
        tnc.left(Instant::from_millis(5));
        tnc.left(Instant::from_millis(9));
        assert_eq!(tnc.wake(), Some(Instant::from_millis(5)));
        tnc.tick(Instant::from_nanos(4_999_999)).unwrap();
        assert!(tnc.wake().is_some());
        tnc.tick(Instant::from_millis(5)).unwrap();
        assert_eq!(tnc.wake(), None);
        assert!(tnc.write(b"far").unwrap());
        let expected = [
            (Command::Acknowledged, vec![1, 2]),
            (Command::Data, b"far".to_vec()),
        ];
        assert_eq!(hear(&mut program, 2), expected);
    }

    #[test]
    fn one_like_dire_wolf_tells_its_queue_and_takes_nothing_that_wants_a_notice() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("tnc");
        let mut tnc = Tnc::at_pty(&link).unwrap().telling_queue(true);
        let options = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&link);
        let mut program = options.unwrap();
        let question = b"\xc0\x06TXBUF:\xc0";
        program
            .write_all(b"\xc0\x0c\x01\x02one\xc0\xc0\x00two\xc0")
            .unwrap();
        program.write_all(question).unwrap();
        let frames = frames_until(&mut tnc, |_, counts| counts.answers == 1);
        assert_eq!(frames, [b"two"]);
        let expected = [(Command::SetHardware, b"TXBUF:3".to_vec())];
        assert_eq!(hear(&mut program, 1), expected);
        // It is on the air.
        tnc.left(Instant::from_millis(5));
        program.write_all(question).unwrap();
        let frames = frames_until(&mut tnc, |_, counts| counts.answers == 2);
        assert!(frames.is_empty());
        let expected = [(Command::SetHardware, b"TXBUF:0".to_vec())];
        assert_eq!(hear(&mut program, 1), expected);
        assert_eq!((tnc.wake(), tnc.counts().answers), (None, 2));
        // Who asks and asks and reads nothing is answered no more.
        while tnc.say(Command::SetHardware, &[7; 1000]).unwrap() {
            assert!(tnc.pending.len() < PENDING_OCTETS_MAX + 2048);
        }
    }

    #[test]
    fn a_program_by_tcp_may_go_and_come_again() {
        let mut tnc = Tnc::at_tcp(([127, 0, 0, 1], 0).into()).unwrap();
        assert!(!tnc.write(b"nobody").unwrap());
        let Line::Tcp { listener, .. } = &tnc.line else {
            unreachable!()
        };
        let address = listener.local_addr().unwrap();
        let mut buffer = [0; 100];
        for round in 0..2 {
            let mut program = TcpStream::connect(address).unwrap();
            program.write_all(b"\xc0\x00hello\xc0").unwrap();
            // Accepting is a read of its own; what was written may come a little later.
            let mut came = None;
            for _ in 0..1000 {
                came = tnc.read(&mut buffer).unwrap();
                if came.is_some() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            assert_eq!(came, Some(5), "{round}");
            assert!(tnc.write(b"x").unwrap());
            let octets = program.read(&mut buffer).unwrap();
            assert_eq!(said(&buffer[..octets]), [(Command::Data, b"x".to_vec())]);
            drop(program);
            for _ in 0..1000 {
                tnc.read(&mut buffer).unwrap();
                if !tnc.write(b"gone").unwrap() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }
}
