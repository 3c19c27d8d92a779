//! A session of SMTP as the client: a switch's messages out, one behind the other, and what became
//! of each recipient.
//!
//! Where the other side has PIPELINING and CHUNKING, a message and the next are sent without
//! waiting for any reply. A message is given piece by piece, and between two pieces it rests as
//! long as its switch likes.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::command::{Body, DeliverBy};
use crate::message::Recipient;
use crate::pack;
use crate::session::UNPACKED;

/// Octets of a reply's line, and lines of a reply.
const LINE_OCTETS_MAX: usize = 2048;
const LINES_MAX: usize = 64;
/// Messages whose answers are waited for at a time, where none has to be.
const LETTERS_MAX: usize = 8;

/// With fewer octets to be sent the next piece can go: there is no gap between two.
const AHEAD_OCTETS: usize = 4096;
/// Octets of a reply's code, and of what follows it.
const CODE_OCTETS: usize = 4;
/// The number of no message.
const NOBODY: u64 = u64::MAX;

/// A message to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Letter {
    /// Its number.
    pub id: u64,
    /// The return path.
    pub sender: String,
    /// The value of MT-PRIORITY, if it is to be said: a switch always does.
    pub wire: Option<i8>,
    /// What its octets may be.
    pub body: Body,
    /// What a switch of ours is to know it by.
    pub resume: Option<u64>,
    /// Some of it may have come there already.
    pub begun: bool,
    /// RET.
    pub headers_only: Option<bool>,
    /// ENVID.
    pub envid: Option<String>,
    /// By when it is to be there.
    pub by: Option<DeliverBy>,
    /// Octets of all that is sent.
    pub octets: u64,
    /// To whom.
    pub recipients: Vec<Recipient>,
}

/// What the other side can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// Commands may be sent ahead.
    pub pipelining: bool,
    /// BDAT.
    pub chunking: bool,
    /// Reports as they are asked for.
    pub dsn: bool,
    /// Octets above 127.
    pub eight_bit: bool,
    /// Any octets.
    pub binary: bool,
    /// It is one of ours, and knows what it has of messages that broke off.
    pub resume: bool,
    /// It is one of ours, and takes packed pieces.
    pub packed: bool,
    /// SIZE, and the most that it takes if it says.
    pub size: Option<u64>,
    /// MT-PRIORITY.
    pub priority: bool,
    /// ETRN.
    pub turn: bool,
    /// AUTH PLAIN.
    pub login: bool,
    /// DELIVERBY, and the least seconds that it takes.
    pub by: Option<u64>,
}

/// A reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Three digits.
    pub code: u16,
    /// The text of its last line.
    pub text: String,
}

impl Reply {
    const fn is_good(&self) -> bool {
        self.code / 100 == 2
    }

    /// The enhanced code at its text's beginning (RFC 2034), or one that says what the digits do.
    pub fn status(&self) -> &str {
        let word = self.text.split(' ').next().unwrap_or_default();
        let mut parts = word.split('.');
        let digits =
            |it: &str| (1..=3).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_digit());
        if parts.clone().count() == 3 && parts.all(digits) {
            return word;
        }
        match self.code / 100 {
            2 => "2.0.0",
            4 => "4.0.0",
            _ => "5.0.0",
        }
    }
}

/// What became of a recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The other side has the message, and is to report if the flag is set.
    Taken {
        /// It knows of DSN.
        reports: bool,
        /// What it said to the whole message.
        said: String,
    },
    /// Not now.
    Later(Reply),
    /// Never.
    Never(Reply),
}

/// What comes of replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Messages may be sent.
    Ready,
    /// TLS begins: [`Client::secured`] is waited for.
    Secure,
    /// It is to say who it is: [`Client::log_in`] is waited for.
    LogIn,
    /// What became of a message: of each recipient in the order of the letter.
    Done(u64, Vec<Verdict>),
    /// So many octets of a message are there already: it goes on behind them.
    Resume(u64, u64),
    /// The other side has less than it said, or none of it yet: send the message again.
    Again(u64),
    /// It was asked for messages, and says this.
    Turned(Reply),
    /// It isn't to be talked to.
    Lost(Reply),
}

/// What a reply is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Greeting,
    Ehlo,
    Helo,
    StartTls,
    Auth,
    Resume(u64),
    Mail(u64),
    Rcpt(u64, usize),
    Data(u64),
    /// A piece, or the last.
    Piece(u64, bool),
    /// A packed one.
    Packed(u64, bool),
    Rset,
    Turn,
}

/// A message that isn't answered yet.
#[derive(Debug)]
struct Open {
    letter: Letter,
    /// The parameter was sent.
    priority: bool,
    refused: Vec<Option<Reply>>,
    /// By LMTP: who has an answer for the whole message, good or not.
    answered: Vec<bool>,
    /// All of it has been sent.
    sent: bool,
    /// It may go on: with DATA that has to be heard first.
    goes: bool,
    /// What was sent of its text ends within a line.
    in_line: bool,
    /// Octets that have been sent when all of it has.
    end: Option<u64>,
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    name: String,
    /// It wants TLS, and hasn't got it.
    wants_tls: bool,
    /// TLS begins: nothing may come before it has.
    secures: bool,
    /// It says who it is.
    logs_in: bool,
    /// LMTP (RFC 2033): the other side answers for each recipient when it has a message.
    lmtp: bool,
    offers: Offers,
    ready: bool,
    line: Vec<u8>,
    lines: Vec<String>,
    asked: VecDeque<Asked>,
    /// What is to be asked behind that.
    queue: VecDeque<(Vec<u8>, Asked)>,
    out: Vec<u8>,
    /// Octets that were taken to be sent.
    taken: u64,
    open: VecDeque<Open>,
    events: VecDeque<Event>,
}

impl Client {
    /// A connection that has opened, of a switch of this name.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_string(),
            wants_tls: false,
            secures: false,
            logs_in: false,
            lmtp: false,
            offers: Offers::default(),
            ready: false,
            line: Vec::new(),
            lines: Vec::new(),
            asked: VecDeque::from([Asked::Greeting]),
            queue: VecDeque::new(),
            out: Vec::new(),
            taken: 0,
            open: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// The same, that says nothing of messages before it has TLS.
    pub fn with_tls(name: &str) -> Self {
        Self {
            wants_tls: true,
            ..Self::new(name)
        }
    }

    /// The same, that says who it is before it brings messages.
    #[must_use]
    pub fn with_login(self, logs_in: bool) -> Self {
        Self { logs_in, ..self }
    }

    /// The same, to a server of mailboxes that speaks LMTP.
    #[must_use]
    pub fn with_lmtp(self, lmtp: bool) -> Self {
        Self { lmtp, ..self }
    }

    /// By this line of PLAIN it says who it is.
    pub fn log_in(&mut self, line: &[u8]) {
        let command = [b"AUTH PLAIN ", line, b"\r\n"].concat();
        self.queue.push_back((command, Asked::Auth));
        self.pump();
    }

    fn logs_in_now(&self) -> bool {
        self.asked.front() == Some(&Asked::Auth)
    }

    /// What may be kept of octets of the other side, if not they themselves: some say again what
    /// they were told by AUTH. Of its answer only the code counts.
    pub fn conceal(&self, octets: &[u8]) -> Option<Vec<u8>> {
        if !self.logs_in_now() {
            return None;
        }
        let mut column = self.line.len();
        let shown = octets.iter().map(|octet| {
            column = if *octet == b'\n' { 0 } else { column + 1 };
            let kept = column <= CODE_OCTETS || matches!(octet, b'\r' | b'\n');
            if kept { *octet } else { b'x' }
        });
        Some(shown.collect())
    }

    /// It has TLS: what was said before counts for nothing (RFC 3207 section 4.2).
    pub fn secured(&mut self) {
        (self.wants_tls, self.secures) = (false, false);
        self.greet();
        self.pump();
    }

    fn greet(&mut self) {
        let word = if self.lmtp { "LHLO" } else { "EHLO" };
        let hello = format!("{word} {}", self.name);
        self.ask(&hello, Asked::Ehlo);
    }

    /// What happened.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What the other side can do.
    pub const fn offers(&self) -> Offers {
        self.offers
    }

    /// Whether messages go one behind the other, without waiting for answers. By LMTP, the answers
    /// that a server forgets would be taken from the next message.
    pub const fn goes_ahead(&self) -> bool {
        self.offers.pipelining && self.offers.chunking && !self.lmtp
    }

    /// Whether a message may be begun.
    pub fn may_begin(&self) -> bool {
        let most = if self.goes_ahead() { LETTERS_MAX } else { 1 };
        self.ready && self.open.len() < most && self.open.iter().all(|it| it.sent)
    }

    /// Whether any message is under way.
    pub fn is_busy(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether a reply is waited for.
    pub fn awaits(&self) -> bool {
        !self.asked.is_empty()
    }

    /// The messages that are under way.
    pub fn under_way(&self) -> impl Iterator<Item = u64> + '_ {
        self.open.iter().map(|it| it.letter.id)
    }

    /// Whether all of a message has been taken to be sent: the other side may have it.
    pub fn may_be_there(&self, id: u64) -> bool {
        let open = self.open.iter().find(|it| it.letter.id == id);
        let end = open.and_then(|it| it.end);
        end.is_some_and(|end| self.taken >= end)
    }

    /// By LMTP, what became of each recipient of a message that some of them have an answer for.
    /// Those whose answer doesn't come any more are to be tried again.
    pub fn partly(&self, id: u64) -> Option<Vec<Verdict>> {
        let open = self.open.iter().find(|it| it.letter.id == id)?;
        let reports = self.offers.dsn;
        let known = open.refused.iter().zip(&open.answered);
        let verdict = |(refused, answered): (&Option<Reply>, &bool)| match refused {
            Some(refusal) => verdict(refusal.clone()),
            None if *answered => Verdict::Taken {
                reports,
                said: String::new(),
            },
            None => Verdict::Later(Reply {
                code: 451,
                text: "4.4.2 no answer came".into(),
            }),
        };
        let verdicts = known.map(verdict).collect();
        open.answered.contains(&true).then_some(verdicts)
    }

    /// Octets to be sent.
    pub const fn outgoing(&self) -> usize {
        self.out.len()
    }

    /// Takes at most so many of them.
    pub fn send(&mut self, most: usize) -> Vec<u8> {
        let octets = most.min(self.out.len());
        self.taken += octets as u64;
        self.out.drain(..octets).collect()
    }

    /// The message whose next piece can go.
    pub fn wants(&self) -> Option<u64> {
        let open = self.open.back().filter(|it| !it.sent && it.goes)?;
        (self.queue.is_empty() && self.out.len() < AHEAD_OCTETS).then_some(open.letter.id)
    }

    /// Begins a message.
    pub fn begin(&mut self, letter: Letter) {
        let id = letter.id;
        let asks = letter.begun && letter.resume.is_some() && self.offers.resume;
        if !self.open.is_empty() && !self.offers.resume {
            // Some keep a sender whose recipients they refuse, and would take this message for his.
            self.ask("RSET", Asked::Rset);
        }
        self.open.push_back(Open {
            refused: letter.recipients.iter().map(|_| None).collect(),
            answered: letter.recipients.iter().map(|_| false).collect(),
            letter,
            priority: false,
            sent: false,
            goes: false,
            in_line: false,
            end: None,
        });
        if asks {
            let known = self.open.back().and_then(|it| it.letter.resume);
            let known = known.unwrap_or_default();
            self.ask(&format!("XRESUME {known:016x}"), Asked::Resume(id));
        } else {
            self.introduce(id, 0);
        }
        self.pump();
    }

    /// Asks for the messages that wait for this switch (RFC 1985).
    pub fn turn(&mut self) {
        let line = format!("ETRN {}", self.name);
        self.ask(&line, Asked::Turn);
        self.pump();
    }

    /// Whether it asks for them now.
    pub fn turns(&self) -> bool {
        let mut asked = self.asked.iter().chain(self.queue.iter().map(|it| &it.1));
        asked.any(|it| *it == Asked::Turn)
    }

    /// Says what a message is, so many octets of which are there.
    fn introduce(&mut self, id: u64, from: u64) {
        let offers = self.offers;
        let Some(open) = self.open_mut(id) else {
            return;
        };
        open.goes = offers.chunking;
        let wire = open.letter.wire.filter(|_| offers.priority);
        open.priority = wire.is_some();
        let letter = open.letter.clone();
        let mut mail = format!("MAIL FROM:<{}>", letter.sender);
        if offers.size.is_some() {
            mail.push_str(&format!(" SIZE={}", letter.octets));
        }
        let said = match letter.body {
            Body::SevenBit => false,
            Body::EightBit => offers.eight_bit,
            Body::Binary => offers.binary,
        };
        if said {
            mail.push_str(&format!(" BODY={}", letter.body.name()));
        }
        let known = letter.resume.filter(|_| offers.resume);
        if let Some(known) = known {
            mail.push_str(&format!(" XRESUME={known:016x},{from}"));
        }
        if let Some(by) = letter.by.filter(|_| offers.by.is_some()) {
            mail.push_str(&format!(" BY={}", by.text()));
        }
        if offers.dsn {
            let ret = letter
                .headers_only
                .map(|it| if it { "HDRS" } else { "FULL" });
            ret.iter()
                .for_each(|it| mail.push_str(&format!(" RET={it}")));
            let envid = letter.envid.iter();
            envid.for_each(|it| mail.push_str(&format!(" ENVID={it}")));
        }
        if let Some(wire) = wire {
            mail.push_str(&format!(" MT-PRIORITY={wire}"));
        }
        self.ask(&mail, Asked::Mail(id));
        for (at, recipient) in letter.recipients.iter().enumerate() {
            let mut rcpt = format!("RCPT TO:<{}>", recipient.address);
            if offers.dsn {
                let notify = recipient.notify.text();
                if !notify.is_empty() {
                    rcpt.push_str(&format!(" NOTIFY={notify}"));
                }
                let orcpt = recipient.orcpt.iter();
                orcpt.for_each(|it| rcpt.push_str(&format!(" ORCPT={it}")));
            }
            self.ask(&rcpt, Asked::Rcpt(id, at));
        }
        if !offers.chunking {
            self.ask("DATA", Asked::Data(id));
        }
    }

    /// The next piece of the message that [`Self::wants`] one.
    pub fn piece(&mut self, octets: &[u8], last: bool) {
        let Some(open) = self.open.back_mut().filter(|it| !it.sent && it.goes) else {
            return;
        };
        open.sent = last;
        let id = open.letter.id;
        let asked = Asked::Piece(id, last);
        if self.offers.chunking {
            self.chunk("BDAT", octets, last, asked);
        } else {
            stuff(octets, &mut open.in_line, &mut self.out);
            if last {
                let end = if open.in_line { "\r\n.\r\n" } else { ".\r\n" };
                self.out.extend_from_slice(end.as_bytes());
                open.end = Some(self.taken + self.out.len() as u64);
                self.asked.push_back(asked);
            }
        }
        self.pump();
    }

    /// The next piece of the message that [`Self::wants`] one, packed.
    pub fn packed(&mut self, octets: &[u8], last: bool) {
        if let Some(open) = self.open.back_mut().filter(|it| !it.sent && it.goes) {
            open.sent = last;
            let asked = Asked::Packed(open.letter.id, last);
            self.chunk("XBDAT", octets, last, asked);
            self.pump();
        }
    }

    fn chunk(&mut self, command: &str, octets: &[u8], last: bool, asked: Asked) {
        let word = if last { " LAST" } else { "" };
        let head = format!("{command} {}{word}\r\n", octets.len());
        let chunk = [head.as_bytes(), octets].concat();
        self.queue.push_back((chunk, asked));
    }

    fn ask(&mut self, line: &str, asked: Asked) {
        self.queue
            .push_back((format!("{line}\r\n").into_bytes(), asked));
    }

    /// Sends what may be sent ahead. Nothing goes behind DATA before its answer.
    fn pump(&mut self) {
        loop {
            let stops = self.asked.iter().any(|it| matches!(it, Asked::Data(_)));
            let waits = !self.offers.pipelining && !self.asked.is_empty();
            if stops || waits {
                return;
            }
            let Some((octets, asked)) = self.queue.pop_front() else {
                return;
            };
            self.out.extend_from_slice(&octets);
            self.asked.push_back(asked);
            if let Asked::Piece(id, true) | Asked::Packed(id, true) = asked {
                let end = self.taken + self.out.len() as u64;
                let open = self.open_mut(id).into_iter();
                open.for_each(|it| it.end = Some(end));
            }
        }
    }

    /// Octets of the other side.
    pub fn take(&mut self, octets: &[u8]) {
        for octet in octets {
            if self.secures {
                // Anybody may have put it there.
                return self.lose("500 something follows the answer to STARTTLS");
            }
            if *octet != b'\n' {
                self.line.push(*octet);
                if self.line.len() > LINE_OCTETS_MAX {
                    return self.lose("500 a reply is too long");
                }
                continue;
            }
            let line = core::mem::take(&mut self.line);
            let line = String::from_utf8_lossy(line.trim_ascii_end());
            if !self.take_line(&line) {
                return self.lose("500 no reply of SMTP");
            }
        }
    }

    fn lose(&mut self, text: &str) {
        let (code, text) = text.split_at(3);
        self.events.push_back(Event::Lost(Reply {
            code: code.parse().unwrap_or(500),
            text: text.trim_start().to_string(),
        }));
    }

    /// Takes a line of a reply; false if it is none.
    fn take_line(&mut self, line: &str) -> bool {
        let code = line
            .get(..3)
            .filter(|it| it.bytes().all(|it| it.is_ascii_digit()));
        let Some(code) = code.and_then(|it| it.parse::<u16>().ok()) else {
            return false;
        };
        let goes_on = line.as_bytes().get(3) == Some(&b'-');
        let text: String = line
            .get(4..)
            .unwrap_or_default()
            .chars()
            .take(200)
            .collect();
        let text = text.replace(|it: char| it.is_control(), " ");
        if goes_on {
            self.lines.push(text);
            return self.lines.len() < LINES_MAX && (200..600).contains(&code);
        }
        let mut lines = core::mem::take(&mut self.lines);
        lines.push(text.clone());
        (200..600).contains(&code) && self.hear(Reply { code, text }, &lines)
    }

    /// Takes a whole reply; false if nothing was asked.
    fn hear(&mut self, reply: Reply, lines: &[String]) -> bool {
        if reply.code == 421 && !self.logs_in_now() {
            self.events.push_back(Event::Lost(reply));
            return true;
        }
        let Some(asked) = self.asked.pop_front() else {
            return false;
        };
        match asked {
            Asked::Greeting if reply.is_good() => self.greet(),
            Asked::Ehlo if self.wants_tls => {
                let offered = lines.iter().any(|it| it.eq_ignore_ascii_case("STARTTLS"));
                if !offered || !reply.is_good() {
                    self.lose("530 5.7.4 TLS is required, and not offered there");
                    return true;
                }
                self.ask("STARTTLS", Asked::StartTls);
            }
            Asked::StartTls if reply.code == 220 => {
                self.secures = true;
                self.events.push_back(Event::Secure);
            }
            Asked::Ehlo if self.logs_in => {
                self.offers = offers(lines);
                if !self.offers.login || !reply.is_good() {
                    self.lose("530 5.7.0 AUTH PLAIN is required, and not offered there");
                    return true;
                }
                self.events.push_back(Event::LogIn);
            }
            Asked::Auth if reply.is_good() => self.be_ready(),
            Asked::Ehlo if !reply.is_good() && self.lmtp => {
                self.events.push_back(Event::Lost(reply));
            }
            Asked::Ehlo if !reply.is_good() => {
                let hello = format!("HELO {}", self.name);
                self.ask(&hello, Asked::Helo);
            }
            Asked::Ehlo => {
                self.offers = offers(lines);
                self.be_ready();
            }
            Asked::Helo if reply.is_good() => self.be_ready(),
            Asked::Auth => {
                // Some say again what they were told: none of that goes into a log.
                let status = match reply.code {
                    535 => "5.7.8",
                    400..500 => "4.7.0",
                    _ => "5.7.0",
                };
                let text = format!("{status} it refuses this switch's login");
                self.events.push_back(Event::Lost(Reply { text, ..reply }));
            }
            Asked::Greeting | Asked::Helo | Asked::StartTls => {
                self.events.push_back(Event::Lost(reply));
            }
            Asked::Resume(id) => self.hear_resume(id, &reply),
            Asked::Mail(id) => self.hear_mail(id, &reply),
            Asked::Rcpt(id, at) => self.hear_rcpt(id, at, &reply),
            Asked::Data(id) => self.hear_data(id, &reply),
            Asked::Packed(id, _) if !reply.is_good() && reply.text.starts_with(UNPACKED) => {
                self.offers.packed = false;
                self.give_up(id);
                self.events.push_back(Event::Again(id));
            }
            Asked::Piece(id, last) | Asked::Packed(id, last) => self.hear_piece(id, last, &reply),
            Asked::Turn => self.events.push_back(Event::Turned(reply)),
            Asked::Rset => {}
        }
        self.pump();
        true
    }

    fn be_ready(&mut self) {
        self.ready = true;
        self.events.push_back(Event::Ready);
    }

    fn open_mut(&mut self, id: u64) -> Option<&mut Open> {
        self.open.iter_mut().find(|it| it.letter.id == id)
    }

    fn hear_resume(&mut self, id: u64, reply: &Reply) {
        let whole = self.open_mut(id).map_or(0, |it| it.letter.octets);
        let octets = match reply.text.split(' ').nth(1) {
            Some("whole") => Some(whole),
            octets => octets.and_then(|it| it.parse().ok()),
        };
        match octets.filter(|it| reply.is_good() && *it <= whole) {
            Some(octets) => {
                self.events.push_back(Event::Resume(id, octets));
                self.introduce(id, octets);
            }
            // It is being stored there, or there is no such command after all.
            None => {
                self.offers.resume &= reply.code / 100 != 5;
                self.give_up(id);
                self.events.push_back(Event::Again(id));
            }
        }
    }

    fn hear_mail(&mut self, id: u64, reply: &Reply) {
        let Some(open) = self.open_mut(id).filter(|_| !reply.is_good()) else {
            return;
        };
        if open.priority && reply.code / 100 == 5 {
            // Some offer the parameter and refuse values of it: a message is never lost for that.
            self.offers.priority = false;
            self.give_up(id);
            self.events.push_back(Event::Again(id));
            return;
        }
        self.refuse(id, reply);
    }

    fn hear_rcpt(&mut self, id: u64, at: usize, reply: &Reply) {
        let Some(open) = self.open_mut(id).filter(|_| !reply.is_good()) else {
            return;
        };
        if let Some(place) = open.refused.get_mut(at) {
            *place = Some(reply.clone());
        }
        if open.refused.iter().all(Option::is_some) {
            self.refuse(id, reply);
        }
    }

    fn hear_data(&mut self, id: u64, reply: &Reply) {
        let Some(open) = self.open_mut(id) else {
            if reply.code == 354 {
                // All recipients were refused, and the text is asked for: an empty one.
                self.out.extend_from_slice(b".\r\n");
                self.asked.push_back(Asked::Rset);
            }
            return;
        };
        if reply.code == 354 {
            open.goes = true;
        } else {
            self.refuse(id, reply);
        }
    }

    fn hear_piece(&mut self, id: u64, last: bool, reply: &Reply) {
        if self.open_mut(id).is_none() || (!last && reply.is_good()) {
            return;
        }
        if self.lmtp && last {
            if self.hear_one(id, reply) {
                return self.asked.push_front(Asked::Piece(id, true));
            }
        } else if !reply.is_good() {
            return self.refuse(id, reply);
        }
        let reports = self.offers.dsn;
        let said = match self.lmtp {
            true => String::new(),
            false => format!("{} {}", reply.code, reply.text),
        };
        self.finish(id, &|refusal| match refusal {
            None => Verdict::Taken {
                reports,
                said: said.clone(),
            },
            Some(refusal) => verdict(refusal),
        });
    }

    /// The answer for the next of those who weren't refused by name (RFC 2033 section 4.2); whether
    /// there is another.
    fn hear_one(&mut self, id: u64, reply: &Reply) -> bool {
        let Some(open) = self.open_mut(id) else {
            return false;
        };
        let waits = |open: &Open| {
            let mut all = open.refused.iter().zip(&open.answered);
            all.position(|(refused, answered)| refused.is_none() && !answered)
        };
        if let Some(at) = waits(open) {
            open.answered[at] = true;
            open.refused[at] = (!reply.is_good()).then(|| reply.clone());
        }
        waits(open).is_some()
    }

    /// Whoever wasn't refused by name is refused with the message.
    fn refuse(&mut self, id: u64, reply: &Reply) {
        self.finish(id, &|refusal| {
            verdict(refusal.unwrap_or_else(|| reply.clone()))
        });
    }

    fn finish(&mut self, id: u64, of: &dyn Fn(Option<Reply>) -> Verdict) {
        if let Some(open) = self.give_up(id) {
            let verdicts = open.refused.into_iter().map(of).collect();
            self.events.push_back(Event::Done(id, verdicts));
        }
    }

    /// Has no more to do with a message. What of it is asked for and not sent isn't; of chunks that
    /// have gone, the other side has to forget what it has.
    fn give_up(&mut self, id: u64) -> Option<Open> {
        let at = self.open.iter().position(|it| it.letter.id == id)?;
        let open = self.open.remove(at)?;
        self.queue.retain(|(_, asked)| !asked.is_of(id));
        let early = self.asked.iter().any(|it| it.is_of(id));
        // It may be begun again before these are answered.
        let asked = self.asked.iter_mut().filter(|it| it.is_of(id));
        asked.for_each(|it| {
            *it = match it {
                Asked::Data(_) => Asked::Data(NOBODY),
                _ => Asked::Rset,
            };
        });
        // Some keep a sender whose recipients they refused, and take the next message for his.
        let keeps = early && self.open.is_empty() && !self.offers.resume;
        if !open.sent || keeps {
            self.ask("RSET", Asked::Rset);
        }
        Some(open)
    }
}

impl Asked {
    const fn is_of(self, id: u64) -> bool {
        match self {
            Self::Mail(of) | Self::Rcpt(of, _) | Self::Data(of) | Self::Resume(of) => of == id,
            Self::Piece(of, _) | Self::Packed(of, _) => of == id,
            Self::Greeting | Self::Ehlo | Self::Helo | Self::StartTls => false,
            Self::Auth | Self::Rset | Self::Turn => false,
        }
    }
}

fn verdict(reply: Reply) -> Verdict {
    if reply.code / 100 == 5 {
        Verdict::Never(reply)
    } else {
        Verdict::Later(reply)
    }
}

fn offers(lines: &[String]) -> Offers {
    let mut offers = Offers::default();
    for line in lines.iter().skip(1) {
        let mut words = line.split(' ');
        let word = words.next().unwrap_or_default();
        match word.to_ascii_uppercase().as_str() {
            "PIPELINING" => offers.pipelining = true,
            "CHUNKING" => offers.chunking = true,
            "DSN" => offers.dsn = true,
            "8BITMIME" => offers.eight_bit = true,
            "BINARYMIME" => offers.binary = true,
            "XRESUME" => offers.resume = true,
            "XBDAT" => offers.packed = words.next() == Some(pack::VERSION),
            "SIZE" => {
                let most = words.next().and_then(|it| it.parse().ok());
                offers.size = Some(most.filter(|it| *it > 0).unwrap_or(u64::MAX));
            }
            "MT-PRIORITY" => offers.priority = true,
            "ETRN" => offers.turn = true,
            "AUTH" => offers.login = words.any(|it| it.eq_ignore_ascii_case("PLAIN")),
            "DELIVERBY" => {
                let least = words.next().and_then(|it| it.parse().ok());
                offers.by = Some(least.unwrap_or(0));
            }
            _ => {}
        }
    }
    offers
}

/// Text with a dot before each that begins a line.
fn stuff(octets: &[u8], in_line: &mut bool, out: &mut Vec<u8>) {
    for octet in octets {
        if !*in_line && *octet == b'.' {
            out.push(b'.');
        }
        out.push(*octet);
        *in_line = *octet != b'\n';
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
