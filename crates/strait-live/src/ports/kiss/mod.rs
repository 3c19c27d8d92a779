//! A port over a KISS modem, at a serial line or a TCP address (Dire Wolf's is 8001).
//!
//! A modem takes frames faster than it sends them, and what it holds nobody can overtake. So the
//! port finds out what the modem tells of its frames. Dire Wolf says how many octets wait in its
//! queue: one frame waits there, behind the one on the air. Others give notice of each frame that
//! they have sent (ACKMODE): at most `UNDER_WAY_MAX` frames are in their hands. For the rest, the
//! next frame is asked for when the rate says that the one before has left.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

use strait_core::id::{ClassId, NeighbourId, Neighbours, TxId};
use strait_core::node::{Notice, PortState, Room, TxMeta};
use strait_core::rate::{Burst, LineRate};
use strait_core::time::{Duration, Instant};
use strait_wire::ax25::{REPEATERS_MAX, Station, UI_OCTETS, UiFrame};
use strait_wire::kiss::{Command, KissError, KissFrame, KissReader};

use crate::error::Error;
use crate::ports::{Found, IoCounts, PortIo, Received, Sent};

/// What a KISS port is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KissConfig {
    /// Which of the modem's radios, 0 … 15.
    pub radio: u8,
    /// Rate on the air.
    pub rate: LineRate,
    /// The longest contents of a frame, in octets.
    pub frame_octets_max: u32,
    /// What the modem is asked for.
    pub asks: Option<Asks>,
    /// How frames look. Without, they have no header.
    pub stations: Option<Ax25>,
}

/// What a modem is asked for, to know of the frames in its hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// For its queue, as Dire Wolf tells it. Other modems take the same command for settings of
    /// their own.
    Queue,
    /// For a notice of each frame that it has sent (ACKMODE).
    Notice,
}

/// What stands in AX.25 headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ax25 {
    /// Ourselves.
    pub own: Station,
    /// The others, by their numbers as neighbours.
    pub others: Vec<Station>,
    /// Repeaters, in their order, [`REPEATERS_MAX`] at most.
    pub via: Vec<Station>,
    /// What the contents are, such as [`strait_wire::ax25::NO_LAYER_3`].
    pub protocol: u8,
}

impl Ax25 {
    /// Octets before the contents.
    fn octets(&self) -> usize {
        UI_OCTETS + self.via.len() * Station::OCTETS
    }
}

/// What a modem tells of the frames in its hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tells {
    /// It is asked for its queue.
    Asked,
    /// It tells its queue.
    Queue,
    /// One frame that wants a notice is in its hands, or the next one will be.
    Tried,
    /// It gives notice.
    Notice,
    /// Nothing.
    Nothing,
}

/// A modem as a port.
pub struct KissPort {
    config: KissConfig,
    /// Octets to and from the modem.
    line: Box<dyn PortIo>,
    reader: KissReader,
    /// Contents that came together and haven't been asked for.
    came: VecDeque<(NeighbourId, Vec<u8>)>,
    pace: Burst,
    tells: Tells,
    /// It has given notice since it was connected to: when it doesn't, it hangs.
    noticed: bool,
    /// A frame was given up that no notice came of when the first one was waited for.
    lost: bool,
    /// An answer about the queue has to come until then.
    question: Option<Instant>,
    /// When the next such question is due.
    ask_at: Instant,
    /// None of our frames waits in the modem's queue; else until when it is waited for.
    waits: Option<Instant>,
    /// Octets that the modem told of since that frame went to it, others' among them.
    told: Option<u32>,
    /// The line takes no more: until when that is waited for.
    full: Option<Instant>,
    /// Frames without a notice so far.
    under_way: VecDeque<UnderWay>,
    /// Those of which notice came, until they are asked for.
    left: VecDeque<(TxId, NeighbourId)>,
    number: u16,
    counts: IoCounts,
    /// A frame as it goes to the modem.
    scratch: Vec<u8>,
}

/// A frame in a modem's hands.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    /// The number by which the modem tells of it.
    number: u16,
    /// When to wait no longer.
    until: Instant,
    id: TxId,
    to: NeighbourId,
}

/// Frames in a modem's hands that gives notice: one on the air, one ready to follow it, so that
/// the modem needn't key down between.
const UNDER_WAY_MAX: usize = 2;

/// However short the frame: a shared channel may be busy for so long. A notice that doesn't come
/// at all (the modem was restarted) must not stop the port for good.
const NOTICE_PATIENCE: Duration = Duration::from_secs(30);

/// Dire Wolf looks for what a new program says once a second.
const ANSWER_PATIENCE: Duration = Duration::from_secs(3);
/// A modem that told its queue before has as long: other work may hold its program up.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Between questions, whatever the rate: Dire Wolf writes a line for each.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The question, and what stands before the number in the answer (Dire Wolf, since 1.5).
const QUEUE: &[u8] = b"TXBUF:";
/// Digits of an answer: no queue is as long.
const DIGITS_MAX: usize = 9;

/// Beside contents, a frame on the air has flags and a check; the modem adds them.
const AIR_OCTETS: u64 = 4;

/// A frame is asked for this much before the one before has left, so that the event loop's
/// lateness doesn't open gaps between frames.
const AHEAD: Duration = Duration::from_micros(500);

/// Frames that may have come and not been asked for: those of a read, and of some before the port
/// was up.
const CAME_MAX: usize = 4096;
/// Octets of a frame from the air: no more than Dire Wolf hears.
const FRAME_OCTETS_MAX: usize = 2048 + UI_OCTETS + REPEATERS_MAX * Station::OCTETS;
/// Octets of a frame to the modem, escapes and all: Dire Wolf's buffer. More overruns it.
const MODEM_OCTETS_MAX: usize = 2048;
/// Octets of a number before contents to be acknowledged.
const NUMBER_OCTETS: usize = 2;

impl KissPort {
    /// A port that isn't open yet, to a modem at the other end of `line`.
    pub fn new(config: KissConfig, line: Box<dyn PortIo>) -> Self {
        Self {
            reader: KissReader::new(FRAME_OCTETS_MAX),
            line,
            came: VecDeque::new(),
            pace: Burst::new(config.rate, Instant::ZERO),
            tells: at_first(&config),
            noticed: false,
            lost: false,
            question: None,
            ask_at: Instant::ZERO,
            waits: None,
            told: None,
            full: None,
            under_way: VecDeque::new(),
            left: VecDeque::new(),
            number: 0,
            counts: IoCounts::default(),
            scratch: Vec::new(),
            config,
        }
    }

    const fn numbers(&self) -> bool {
        matches!(self.tells, Tells::Tried | Tells::Notice)
    }

    /// The frame for the modem, and its octets on the air.
    fn frame(&mut self, to: NeighbourId, octets: &[u8]) -> u64 {
        let stations = self.config.stations.as_ref();
        let header = stations.map_or(0, Ax25::octets);
        let mut contents = Vec::with_capacity(octets.len() + header + NUMBER_OCTETS);
        let mut command = Command::Data;
        if self.numbers() {
            command = Command::Acknowledged;
            contents.extend_from_slice(&self.number.to_be_bytes());
        }
        let other = stations.and_then(|it| match to {
            NeighbourId::ALL => Some(&Station::QST),
            _ => it.others.get(to.index()),
        });
        match stations.zip(other) {
            None => contents.extend_from_slice(octets),
            Some((stations, other)) => {
                let frame = UiFrame {
                    destination: *other,
                    source: stations.own,
                    protocol: stations.protocol,
                    contents: octets,
                };
                frame.emit(&stations.via, &mut contents);
            }
        }
        self.write_frame(command, &contents);
        (octets.len() + header) as u64 + AIR_OCTETS
    }

    fn write_frame(&mut self, command: Command, contents: &[u8]) {
        let port = self.config.radio;
        self.scratch.clear();
        let frame = KissFrame {
            port,
            command,
            contents,
        };
        frame.emit(&mut self.scratch);
    }

    /// Asks for the modem's queue, behind what the line still holds: the modem has to take that,
    /// too.
    fn ask(&mut self, now: Instant) -> io::Result<()> {
        self.ask_at = now + self.pause();
        self.write_frame(Command::SetHardware, QUEUE);
        let meta = TxMeta::to_peer(ClassId(0));
        self.line.transmit(now, &meta, &self.scratch)?;
        self.note_full(now);
        let patience = match self.tells {
            Tells::Queue => SILENCE_MAX,
            _ => ANSWER_PATIENCE,
        };
        self.question = Some(now + patience);
        Ok(())
    }

    /// Whether the line takes more may have changed. A modem that takes nothing for as long as
    /// others may keep it from sending hangs, or is gone.
    fn note_full(&mut self, now: Instant) {
        let until = now + self.patience(self.longest());
        let full = self.line.holds();
        self.full = full.then(|| self.full.unwrap_or(until));
    }

    /// Takes in what the modem said.
    fn take(&mut self, octets: &[u8]) {
        let mut reader = std::mem::replace(&mut self.reader, KissReader::new(0));
        reader.feed(octets, |frame| match frame {
            Ok(frame) if frame.port == self.config.radio => self.take_frame(&frame),
            Ok(_) | Err(KissError::Escape | KissError::TooLong) => self.counts.strangers += 1,
        });
        self.reader = reader;
    }

    fn take_frame(&mut self, frame: &KissFrame<'_>) {
        match frame.command {
            Command::Data => match contents(&self.config, frame.contents) {
                Some((from, contents)) if self.came.len() < CAME_MAX => {
                    self.came.push_back((from, contents.to_vec()));
                }
                _ => self.counts.strangers += 1,
            },
            Command::Acknowledged => {
                let number = frame.contents.first_chunk().copied();
                let number = number.map(u16::from_be_bytes);
                let noticed = |it: &UnderWay| Some(it.number) == number;
                let place = self.under_way.iter().position(noticed);
                let frame = place.and_then(|place| self.under_way.remove(place));
                self.left.extend(frame.map(|it| (it.id, it.to)));
                // A notice that comes after all is one, too.
                let late = self.lost && number == Some(self.number.wrapping_sub(1));
                if frame.is_some() || late && self.tells == Tells::Nothing {
                    self.tells = Tells::Notice;
                    (self.noticed, self.lost) = (true, false);
                }
            }
            Command::SetHardware => {
                let Some(octets) = queue_octets(frame.contents) else {
                    return;
                };
                // An answer that comes after all is one, too: the modem was held up. What nobody
                // asked for may be of any time.
                let late = self.tells == Tells::Nothing;
                if self.question.take().is_some() {
                    self.tells = Tells::Queue;
                    // Others' frames count, too, and may never be none: less than before means
                    // that one has left. The rate keeps ours from heaping up behind them.
                    let fell = self.told.replace(octets).is_some_and(|told| octets < told);
                    self.waits = self.waits.filter(|_| octets > 0 && !fell);
                } else if late && self.config.asks == Some(Asks::Queue) {
                    self.tells = Tells::Queue;
                }
            }
            _ => {}
        }
    }

    /// Nobody says any more whether these frames have been sent.
    fn give_up_notices(&mut self) {
        self.counts.refused += self.under_way.len() as u64;
        self.under_way.clear();
    }

    fn forget_overdue(&mut self, now: Instant) {
        let overdue = |it: &UnderWay| it.until <= now;
        while self.under_way.front().is_some_and(overdue) {
            self.under_way.pop_front();
            self.counts.refused += 1;
            match self.tells {
                Tells::Notice => self.tells = Tells::Tried,
                Tells::Tried if !self.noticed => {
                    self.tells = Tells::Nothing;
                    self.lost = true;
                }
                _ => {}
            }
        }
    }

    /// How long a modem may have a frame that takes so long on the air: twenty such frames of
    /// others may go before it.
    fn patience(&self, frame: Duration) -> Duration {
        frame.saturating_mul(20).max(NOTICE_PATIENCE)
    }

    /// The time on the air of the longest frame.
    fn longest(&self) -> Duration {
        let header = self.config.stations.as_ref().map_or(0, Ax25::octets);
        let octets = u64::from(self.config.frame_octets_max) + header as u64 + AIR_OCTETS;
        self.config.rate.time_for(octets)
    }

    /// From a question to the next: often enough to have a frame ready when the last one leaves.
    fn pause(&self) -> Duration {
        (self.longest() / 4).clamp(PAUSE_MIN, PAUSE_MAX)
    }

    /// Whether the modem that told its queue before does so again.
    fn answers_again(&mut self, now: Instant) -> io::Result<bool> {
        if self.question.is_none() {
            self.ask(now)?;
        }
        let mut buffer = [0; 4096];
        for _ in 0..16 {
            let Received::Frame { octets, .. } = self.line.receive(now, &mut buffer)? else {
                break;
            };
            self.take(&buffer[..octets]);
        }
        Ok(self.question.is_none())
    }
}

/// What is asked of a modem that isn't known.
const fn at_first(config: &KissConfig) -> Tells {
    match config.asks {
        Some(Asks::Queue) => Tells::Asked,
        Some(Asks::Notice) => Tells::Tried,
        None => Tells::Nothing,
    }
}

/// Octets in the modem's queue, if it says so.
fn queue_octets(answer: &[u8]) -> Option<u32> {
    let digits = answer.strip_prefix(QUEUE)?;
    let fits = (1..=DIGITS_MAX).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits)
        .ok()?
        .parse()
        .ok()
        .filter(|_| fits)
}

/// What a frame carries for us, and from whom; `None` if it is another's.
fn contents<'a>(config: &KissConfig, octets: &'a [u8]) -> Option<(NeighbourId, &'a [u8])> {
    let Some(stations) = &config.stations else {
        return Some((NeighbourId::PEER, octets));
    };
    let frame = UiFrame::parse(octets)?;
    let from = stations.others.iter().position(|it| *it == frame.source)?;
    let ours = [stations.own, Station::QST].contains(&frame.destination);
    let ours = ours && frame.protocol == stations.protocol;
    ours.then_some((NeighbourId(from as u16), frame.contents))
}

impl PortIo for KissPort {
    fn open(&mut self, now: Instant) -> Result<PortState, Error> {
        self.line.open(now)?;
        if self.tells == Tells::Queue {
            // Its silence means that it hangs, and frames would heap up in it.
            let answers = self.answers_again(now);
            // What was heard while the port was down is nobody's.
            self.came.clear();
            match answers {
                Ok(true) => {}
                Ok(false) => {
                    let why = "it reported its queue before and doesn't answer now: restart it, or \
                               this gateway if it is another modem";
                    return Err(Error::invalid("ask the modem for its queue", why));
                }
                Err(error) => {
                    self.close();
                    return Err(Error::invalid(
                        "ask the modem for its queue",
                        error.to_string(),
                    ));
                }
            }
        }
        Ok(PortState {
            tx_rate: self.config.rate,
            rx_rate: self.config.rate,
            frame_octets_max: self.config.frame_octets_max,
            block: Duration::ZERO,
            latency: Duration::ZERO,
            notice: Notice::NONE,
        })
    }

    fn close(&mut self) {
        self.line.close();
        self.reader.reset();
        self.came.clear();
        self.left.clear();
        self.give_up_notices();
        (self.question, self.waits, self.full) = (None, None, None);
        // What comes next may be another modem.
        (self.noticed, self.lost) = (false, false);
        if self.tells != Tells::Queue {
            self.tells = at_first(&self.config);
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.line.fd()
    }

    fn room(&mut self, now: Instant) -> Result<Room, Option<Instant>> {
        let line = self.line.room(now)?;
        self.forget_overdue(now);
        let mut starts = line.starts;
        match self.tells {
            Tells::Asked => {
                let until = self.question.unwrap_or(now + ANSWER_PATIENCE);
                return Err(Some(until));
            }
            Tells::Tried | Tells::Notice => {
                let most = match self.tells {
                    Tells::Tried => 1,
                    _ => UNDER_WAY_MAX,
                };
                if self.under_way.len() >= most {
                    return Err(self.under_way.front().map(|it| it.until));
                }
            }
            Tells::Queue => {
                if self.question.is_some() {
                    return Err(self.question);
                }
                if let Some(until) = self.waits.filter(|until| *until > now) {
                    return Err(Some(until));
                }
            }
            Tells::Nothing => {
                starts = starts.max(self.pace.end());
                if starts > now + AHEAD {
                    return Err(Some(starts - AHEAD));
                }
            }
        }
        // A modem's sound card has a queue of its own, which it doesn't tell, and some modems give
        // notice of what they have taken.
        let (next, longest) = (self.pace.end(), self.longest());
        if next > now + longest {
            let at = next.as_nanos() - longest.as_nanos() as u64;
            return Err(Some(Instant::from_nanos(at)));
        }
        Ok(Room {
            octets: self.config.frame_octets_max as usize,
            starts: starts.max(now),
            until: None,
            to: Neighbours::ALL,
        })
    }

    fn transmit(&mut self, now: Instant, meta: &TxMeta, octets: &[u8]) -> io::Result<Sent> {
        let on_air = self.frame(meta.to, octets);
        if self.scratch.len() > MODEM_OCTETS_MAX {
            self.counts.refused += 1;
            return Ok(Sent::Refused);
        }
        let sent = self.line.transmit(now, meta, &self.scratch)?;
        if sent == Sent::Refused {
            return Ok(sent);
        }
        self.note_full(now);
        self.pace.push(now, on_air);
        let until = now + self.patience(self.config.rate.time_for(on_air));
        if self.numbers() {
            self.under_way.push_back(UnderWay {
                number: self.number,
                until,
                id: meta.id,
                to: meta.to,
            });
            self.number = self.number.wrapping_add(1);
        }
        if self.tells == Tells::Queue {
            self.waits = Some(until);
            self.told = None;
            self.ask_at = now + self.pause();
        }
        Ok(sent)
    }

    fn holds(&self) -> bool {
        self.line.holds()
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.line.flush(now)?;
        self.note_full(now);
        Ok(())
    }

    fn drained(&mut self, now: Instant) -> bool {
        // Who stops hears no answer, and needs none: what the modem has it sends by itself.
        let sent = self.tells != Tells::Nothing || self.pace.end() <= now;
        sent && self.line.drained(now)
    }

    fn receive(&mut self, now: Instant, buffer: &mut [u8]) -> io::Result<Received> {
        if self.came.is_empty() && self.left.is_empty() {
            match self.line.receive(now, buffer)? {
                Received::Frame { octets, .. } => {
                    let octets = buffer[..octets].to_vec();
                    self.take(&octets);
                }
                other => return Ok(other),
            }
        }
        if let Some((id, to)) = self.left.pop_front() {
            return Ok(Received::Left { id, to });
        }
        let Some((from, contents)) = self.came.pop_front() else {
            return Ok(Received::Skipped);
        };
        let octets = contents.len().min(buffer.len());
        buffer[..octets].copy_from_slice(&contents[..octets]);
        Ok(Received::Frame { from, octets })
    }

    fn has_more(&self) -> bool {
        !self.came.is_empty() || !self.left.is_empty()
    }

    fn wake(&self) -> Option<Instant> {
        let asks = self.tells == Tells::Asked || self.waits.is_some();
        let answer = self.question.or_else(|| asks.then_some(self.ask_at));
        answer.into_iter().chain(self.full).min()
    }

    fn tick(&mut self, now: Instant) -> io::Result<()> {
        let hangs = |why| Err(io::Error::new(io::ErrorKind::TimedOut, why));
        if self.full.is_some_and(|until| until <= now) {
            return hangs("the modem accepts no more octets: it hangs, or is gone");
        }
        match self.question {
            Some(until) if until > now => {}
            Some(_) if self.tells == Tells::Queue => {
                return hangs("the modem no longer answers");
            }
            Some(_) => (self.question, self.tells) = (None, Tells::Nothing),
            None if self.ask_at <= now => self.ask(now)?,
            None => {}
        }
        Ok(())
    }

    fn found(&self) -> Option<Found> {
        let Some(asks) = self.config.asks else {
            let text = "the modem isn't asked for reports: frames go by the rate";
            return Some(Found { text, lacks: false });
        };
        let text = match self.tells {
            Tells::Asked => "asks the modem for its queue",
            Tells::Queue => "the modem reports its queue: one frame waits in it",
            Tells::Tried if self.noticed => "the modem no longer gives notice: it may hang",
            Tells::Tried => "waits for the modem's first notice",
            Tells::Notice => "the modem gives notice: it holds at most two frames",
            Tells::Nothing if asks == Asks::Notice => {
                "the modem gives no notice: frames go by the rate; the one with the request may be \
                 lost. Dire Wolf reports its queue: leave out `notice`"
            }
            Tells::Nothing => "the modem doesn't report its queue: frames go by the rate",
        };
        let lacks = self.tells == Tells::Nothing || self.tells == Tells::Tried && self.noticed;
        Some(Found { text, lacks })
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
mod tests;
