//! A session of SMTP as the server: octets of a client in, replies and a message's content out.
//!
//! A client may send ahead (PIPELINING), in the midst of a message or not: what it sends waits here
//! while a message's end waits for its answer.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use core::ops::Range;

use strait_core::work::{Sasl, Secret};

use crate::command::{Body, Command, DeliverBy, MailFrom, NOT_HERE, RcptTo, parse, secret_of};
use crate::pack::{self, Before, PIECE_OCTETS_MAX};
use crate::precedence::Precedence;

mod secret;

/// Octets of a command with its end: RFC 5321 has 512, extensions add some hundred.
const LINE_OCTETS_MAX: usize = 2048;
/// Recipients of a message (RFC 5321 section 4.5.3.1.8 wants as many at least).
pub const RECIPIENTS_MAX: usize = 100;
/// RFC 6710 section 10.
pub const TOO_LONG_FOR_IT: &str = "552 5.7.16 the message is too long for its precedence";
/// The code by which a packed piece is refused, be it the last.
pub const UNPACKED: &str = "4.6.5";
/// Refusals after which a client is done, and wrong passwords.
const FAULTS_MAX: u32 = 50;
/// Commands that bring no message, since the last that came: some programs say NOOP each minute.
const IDLE_MAX: u32 = 200;
const WRONG_MAX: u32 = 3;

/// How many messages wait until they are asked for by a name, if that is the client's.
pub type Polled<'a> = &'a dyn Fn(&str) -> Option<usize>;

/// What a session is to know of its switch.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// The switch's name.
    pub name: &'a str,
    /// Octets of a message.
    pub octets_max: u64,
    /// No further message has room.
    pub full: bool,
    /// How much there is of messages that another switch of ours began; `None` if the client is
    /// none.
    pub began: Option<&'a dyn Fn(u64) -> Began>,
    /// What waits for the client's polls; `None` if it has none.
    pub polled: Option<Polled<'a>>,
    /// The same by precedence, the least first.
    pub sizes: [u64; 6],
    /// The least seconds in which a message may be wanted to be there or return.
    pub by_min: u64,
    /// A client may begin TLS.
    pub tls: bool,
    /// It has to say who it is before it brings anything.
    pub users: bool,
    /// What packed pieces may repeat.
    pub dictionary: &'a [u8],
    /// What a recipient's address is answered with if it isn't taken.
    pub refuses: &'a dyn Fn(&str) -> Option<&'static str>,
}

/// How much there is of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Began {
    /// Nothing.
    #[default]
    Nothing,
    /// So many octets, and how the last of them end.
    Part(u64, Ends),
    /// All of it, which is being stored.
    Storing,
    /// All of it.
    Whole,
}

/// What comes of a client's octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message begins. Its content follows.
    Begin(MailFrom, Vec<RcptTo>),
    /// Octets of its content.
    Content(Vec<u8>),
    /// A frame, and what it was compressed behind: [`Session::unpacked`] is waited for.
    Packed(Vec<u8>, Vec<u8>),
    /// Its content is whole, and lines end in it as they ought to if `right`: [`Session::answer`]
    /// is waited for.
    End {
        /// No CR or LF stands alone.
        right: bool,
    },
    /// It comes to nothing.
    Abort,
    /// TLS begins behind the replies: [`Session::secured`] is waited for.
    Secure,
    /// A client says who it is, by these lines so far: [`Session::verified`] is waited for.
    Login(Sasl, Vec<Secret>),
    /// It asks for what waits for this name.
    Turn(String),
    /// The client is done, or is to be.
    Close,
}

/// What is read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Commands,
    /// A line that is too long.
    LongLine,
    /// Text up to a dot.
    Data(Dots),
    /// So many octets of a chunk.
    Chunk {
        left: u64,
        last: bool,
        counts: bool,
    },
    /// So many octets of a packed piece.
    Packed {
        left: usize,
        last: bool,
        counts: bool,
    },
    /// A packed piece is being unpacked; the last one if set.
    Unpacks(bool),
    /// A message waits for its answer.
    Waits,
    /// TLS begins.
    Secures,
    /// A line of AUTH is read.
    Login,
    /// What it says is looked at.
    Verifies,
    Closed,
}

/// Where in the lines of a text we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dots {
    Begin,
    Dot,
    DotCr,
    Text,
    Cr,
}

/// Whether lines end by CR LF alone. A text in which others do could be two messages to another
/// switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    cr: bool,
    wrong: bool,
}

impl Ends {
    const fn take(&mut self, octet: u8) {
        let lf = octet == b'\n';
        self.wrong |= self.cr != lf;
        self.cr = octet == b'\r';
    }
}

/// One client.
#[derive(Clone, Debug)]
pub struct Session {
    input: Vec<u8>,
    mode: Mode,
    extended: bool,
    greeted: Option<String>,
    mail: Option<MailFrom>,
    recipients: Vec<RcptTo>,
    /// Octets of the message so far, once it has begun.
    content: Option<u64>,
    /// It is longer than it may be.
    too_long: bool,
    ends: Ends,
    /// What there was of the message before, and how it ended.
    resumed: (u64, Ends),
    /// It is behind TLS, and the client is who it says.
    secured: bool,
    known: bool,
    /// How it says who it is, and what it has said of that so far.
    login: Option<(Sasl, Vec<Secret>)>,
    wrong: u32,
    /// Where in the octets that are looked at such words lie.
    secrets: Vec<Range<usize>>,
    /// A packed piece so far, and what was folded before it.
    packed: Vec<u8>,
    before: Before,
    faults: u32,
    /// Commands so far, and how many of them brought no message since one came.
    commands: u64,
    idle: u32,
    /// Replies that haven't been taken.
    replies: Vec<u8>,
    events: VecDeque<Event>,
}

impl Session {
    /// A session that begins.
    pub fn new(name: &str) -> Self {
        Self {
            input: Vec::new(),
            mode: Mode::Commands,
            extended: false,
            greeted: None,
            mail: None,
            recipients: Vec::new(),
            content: None,
            too_long: false,
            ends: Ends::default(),
            resumed: <(u64, Ends)>::default(),
            secured: false,
            known: false,
            login: None,
            wrong: 0,
            secrets: Vec::new(),
            packed: Vec::new(),
            before: Before::default(),
            faults: 0,
            commands: 0,
            idle: 0,
            replies: format!("220 {name} ESMTP strait\r\n").into_bytes(),
            events: VecDeque::new(),
        }
    }

    /// A session with somebody who isn't served.
    pub fn refusing(reply: &str) -> Self {
        let mut session = Self::new("");
        session.replies.clear();
        session.close(reply);
        session
    }

    /// How the client named itself.
    pub fn greeted(&self) -> &str {
        self.greeted.as_deref().unwrap_or("unknown")
    }

    /// How it came, in a trace (RFC 3848).
    pub const fn protocol(&self) -> &'static str {
        match (self.extended, self.secured, self.known) {
            (false, ..) => "SMTP",
            (true, false, _) => "ESMTP",
            (true, true, false) => "ESMTPS",
            (true, true, true) => "ESMTPSA",
        }
    }

    /// How the octets of the message end that came last.
    pub const fn ends(&self) -> Ends {
        self.ends
    }

    /// Whether a message waits for its answer, or a piece of one.
    pub const fn waits(&self) -> bool {
        matches!(self.mode, Mode::Waits | Mode::Unpacks(_) | Mode::Verifies)
    }

    /// Commands so far.
    pub const fn commands(&self) -> u64 {
        self.commands
    }

    /// Whether what comes next is a message's.
    pub const fn is_in_message(&self) -> bool {
        matches!(
            self.mode,
            Mode::Data(_) | Mode::Chunk { .. } | Mode::Packed { .. }
        )
    }

    /// Octets that came and weren't looked at.
    pub const fn unread(&self) -> usize {
        self.input.len()
    }

    /// Replies since the last time.
    pub fn take_replies(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.replies)
    }

    /// What happened.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Octets of the client.
    pub fn take(&mut self, octets: &[u8], rules: &Rules<'_>) {
        if self.mode != Mode::Closed {
            self.input.extend_from_slice(octets);
            self.advance(rules);
        }
    }

    /// A message's answer.
    pub fn answer(&mut self, reply: &str, rules: &Rules<'_>) {
        if self.mode == Mode::Waits {
            self.idle = 0;
            self.reply(reply);
            self.forget();
            self.mode = Mode::Commands;
            self.advance(rules);
        }
    }

    /// The switch has no more time for this client.
    pub fn close(&mut self, reply: &str) {
        if self.mode != Mode::Closed {
            self.reply(reply);
            self.abort();
            self.end();
        }
    }

    fn end(&mut self) {
        self.mode = Mode::Closed;
        self.input.clear();
        self.events.push_back(Event::Close);
    }

    /// A reply of one line; 4yz and 5yz count as refusals.
    fn reply(&mut self, text: &str) {
        self.replies.extend_from_slice(text.as_bytes());
        self.replies.extend_from_slice(b"\r\n");
        if text.starts_with(['4', '5']) {
            self.faults += 1;
        }
    }

    fn advance(&mut self, rules: &Rules<'_>) {
        let mut at = 0;
        self.secrets.clear();
        while at < self.input.len() {
            let read = match self.mode {
                Mode::Commands => self.read_line(at, rules),
                Mode::LongLine => self.skip_line(at),
                Mode::Data(dots) => Some(self.read_data(at, dots, rules)),
                Mode::Chunk { left, last, counts } => {
                    Some(self.read_chunk(at, (left, last, counts)))
                }
                Mode::Packed { left, last, counts } => {
                    Some(self.read_packed(at, (left, last, counts), rules))
                }
                Mode::Login => self.read_login(at),
                Mode::Unpacks(_) | Mode::Waits | Mode::Secures | Mode::Verifies | Mode::Closed => {
                    None
                }
            };
            let Some(read) = read else { break };
            at += read;
            if self.mode == Mode::Commands && self.faults > FAULTS_MAX {
                self.close("421 4.7.0 too many errors");
            }
            if self.mode == Mode::Commands && self.idle > IDLE_MAX {
                self.close("421 4.7.0 too many commands and no message");
            }
        }
        if self.mode == Mode::Closed {
            // Nobody looks at the rest, whatever it is.
            self.secrets.push(at..usize::MAX);
        }
        self.input.drain(..at.min(self.input.len()));
        let ahead = match self.mode {
            // Anybody may have put it there.
            Mode::Secures => "501 5.5.2 nothing follows STARTTLS",
            // Whether it is a command or a secret, the answer tells (RFC 4954 section 4).
            Mode::Verifies => "503 5.5.1 nothing follows AUTH before its answer",
            _ => return,
        };
        if !self.input.is_empty() {
            self.secrets.push(at..usize::MAX);
            self.close(ahead);
        }
    }

    /// Reads a command, if it is whole.
    fn read_line(&mut self, at: usize, rules: &Rules<'_>) -> Option<usize> {
        let rest = &self.input[at..];
        let Some(end) = rest
            .iter()
            .take(LINE_OCTETS_MAX)
            .position(|it| *it == b'\n')
        else {
            if rest.len() < LINE_OCTETS_MAX {
                return None;
            }
            self.mode = Mode::LongLine;
            let secret = secret_of(rest).map(|start| at + start..at + LINE_OCTETS_MAX);
            self.secrets.extend(secret);
            return Some(LINE_OCTETS_MAX);
        };
        let secret = secret_of(&rest[..end]).map(|start| at + start..at + end);
        self.secrets.extend(secret);
        self.commands += 1;
        match rest[..end].strip_suffix(b"\r").map(parse) {
            None => self.reply("500 5.5.2 lines end by CR LF"),
            Some(Err(fault)) => self.reply(fault.0),
            Some(Ok(command)) => self.obey(command, rules),
        }
        Some(end + 1)
    }

    fn skip_line(&mut self, at: usize) -> Option<usize> {
        let rest = &self.input[at..];
        let end = rest.iter().position(|it| *it == b'\n');
        let read = end.map_or(rest.len(), |end| end + 1);
        self.secrets.push(at..at + read);
        if end.is_some() {
            self.mode = Mode::Commands;
            self.reply("500 5.5.6 line too long");
        }
        Some(read)
    }

    fn obey(&mut self, command: Command, rules: &Rules<'_>) {
        self.idle += u32::from(command.is_idle());
        // In the midst of chunks there are chunks alone, or an end.
        let in_chunks = self.content.is_some();
        match command {
            Command::Bdat {
                octets,
                last,
                packed: true,
            } => self.begin_packed(octets, last, rules),
            Command::Bdat { octets, last, .. } => self.begin_chunk(octets, last, rules),
            Command::Resume(id) => self.tell_began(id, rules),
            Command::StartTls if !in_chunks => self.start_tls(rules),
            Command::Auth(by, initial) if !in_chunks => {
                self.start_login(by, initial, rules);
            }
            Command::Rset => {
                self.abort();
                self.reply("250 2.0.0 forgotten");
            }
            Command::Noop => self.reply("250 2.0.0 here"),
            Command::Quit => {
                self.reply("221 2.0.0 goodbye");
                self.abort();
                self.end();
            }
            Command::Vrfy => self.reply("252 2.5.0 cannot verify, send the message"),
            Command::Help => self.reply("214 2.0.0 see RFC 5321 and 6710"),
            Command::Hello { name, extended } => self.greet(name, extended, rules),
            _ if in_chunks => self.reply("503 5.5.1 a BDAT sequence needs LAST first"),
            Command::Mail(mail) => self.take_mail(mail, rules),
            Command::Rcpt(rcpt) => self.take_rcpt(rcpt, rules),
            Command::Data => self.begin_data(),
            Command::Turn(name) => self.take_turn(name, rules),
            Command::StartTls | Command::Auth(..) => {}
        }
    }

    fn greet(&mut self, name: String, extended: bool, rules: &Rules<'_>) {
        self.abort();
        self.greeted = Some(name);
        self.extended = extended;
        let own = rules.name;
        if !extended {
            return self.reply(&format!("250 {own}"));
        }
        self.reply(&format!(
            "250-{own}\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-ENHANCEDSTATUSCODES\r\n\
             250-CHUNKING\r\n250-BINARYMIME\r\n250-DSN\r\n250-SIZE {}\r\n{}{}{}{}{}250 MT-PRIORITY STANAG4406",
            rules.octets_max,
            match rules.by_min {
                0 => "250-DELIVERBY\r\n".into(),
                least => format!("250-DELIVERBY {least}\r\n"),
            },
            rules.began.map_or_else(String::new, |_| {
                format!("250-XRESUME\r\n250-XBDAT {}\r\n", pack::VERSION)
            }),
            rules.polled.map_or("", |_| "250-ETRN\r\n"),
            if rules.tls && !self.secured { "250-STARTTLS\r\n" } else { "" },
            if rules.users && self.secured && !self.known { format!("250-AUTH {}\r\n", Sasl::ALL.map(Sasl::name).join(" ")) } else { String::new() },
        ));
    }

    /// XRESUME: the octets of a message that needn't come again.
    fn tell_began(&mut self, id: u64, rules: &Rules<'_>) {
        let Some(began) = rules.began else {
            return self.reply(NOT_HERE.0);
        };
        match began(id) {
            Began::Nothing => self.reply("250 2.0.0 0"),
            Began::Part(octets, _) => self.reply(&format!("250 2.0.0 {octets}")),
            Began::Storing => self.reply("450 4.3.0 it is being stored"),
            Began::Whole => self.reply("250 2.0.0 whole"),
        }
    }

    /// Whether as much of a message is there as its MAIL says.
    fn goes_on(&mut self, mail: &MailFrom, rules: &Rules<'_>) -> Result<(), &'static str> {
        let Some((id, from)) = mail.resume else {
            return Ok(());
        };
        let Some(began) = rules.began else {
            return Err("555 5.5.4 a parameter isn't offered here");
        };
        match began(id) {
            Began::Part(octets, ends) if octets == from => {
                self.resumed = (from, ends);
                Ok(())
            }
            Began::Whole => {
                self.resumed.0 = from;
                Ok(())
            }
            Began::Storing => Err("450 4.3.0 it is being stored"),
            _ if from == 0 => Ok(()),
            _ => Err("450 4.3.0 less of it is stored"),
        }
    }

    fn take_mail(&mut self, mail: MailFrom, rules: &Rules<'_>) {
        if self.greeted.is_none() || self.mail.is_some() {
            return self.reply("503 5.5.1 EHLO first, then one MAIL a message");
        }
        if rules.users && !self.known {
            return self.reply("530 5.7.0 log in first");
        }
        if mail.octets.is_some_and(|it| it > rules.octets_max) {
            return self.reply("552 5.3.4 the message is too long for here");
        }
        let most = |it: i8| rules.sizes[Precedence::of_wire(it).index()];
        let most = mail.priority.map_or(u64::MAX, most);
        if mail.octets.is_some_and(|it| it > most) {
            return self.reply(TOO_LONG_FOR_IT);
        }
        let soon = |it: DeliverBy| it.returns && it.seconds < rules.by_min as i64;
        if mail.by.is_some_and(soon) {
            let least = rules.by_min;
            return self.reply(&format!("550 5.4.7 delivery takes {least} s at least"));
        }
        if rules.full {
            return self.reply("452 4.3.1 no room for now");
        }
        self.resumed = <(u64, Ends)>::default();
        if let Err(refusal) = self.goes_on(&mail, rules) {
            return self.reply(refusal);
        }
        self.mail = Some(mail);
        self.reply("250 2.1.0 sender ok");
    }

    /// ETRN (RFC 1985 section 5.3).
    fn take_turn(&mut self, name: String, rules: &Rules<'_>) {
        let Some(polled) = rules.polled else {
            return self.reply(NOT_HERE.0);
        };
        if self.mail.is_some() || rules.users && !self.known {
            return self.reply("503 5.5.1 log in first, and not within a message");
        }
        match polled(&name) {
            None => self.reply("459 4.7.1 this domain isn't yours"),
            Some(0) => self.reply("251 2.0.0 no messages wait"),
            Some(n) => {
                self.reply(&format!("253 2.0.0 {n} messages come"));
                self.events.push_back(Event::Turn(name));
            }
        }
    }

    fn take_rcpt(&mut self, rcpt: RcptTo, rules: &Rules<'_>) {
        if self.mail.is_none() {
            return self.reply("503 5.5.1 MAIL first");
        }
        if self.recipients.len() >= RECIPIENTS_MAX {
            return self.reply("452 4.5.3 too many recipients");
        }
        if let Some(refusal) = (rules.refuses)(&rcpt.address) {
            return self.reply(refusal);
        }
        self.recipients.push(rcpt);
        self.reply("250 2.1.5 recipient ok");
    }

    /// Begins a message, if there is a sender and a recipient.
    fn begin(&mut self) -> bool {
        if self.content.is_some() {
            return true;
        }
        let Some(mail) = self.mail.as_ref().filter(|_| !self.recipients.is_empty()) else {
            return false;
        };
        let begin = Event::Begin(mail.clone(), self.recipients.clone());
        self.events.push_back(begin);
        let (octets, ends) = self.resumed;
        self.content = Some(octets);
        self.too_long = false;
        self.ends = ends;
        self.before = Before::default();
        true
    }

    fn begin_data(&mut self) {
        let binary = |it: &MailFrom| it.body == Body::Binary;
        if self.mail.as_ref().is_some_and(binary) {
            return self.reply("503 5.5.1 BINARYMIME needs BDAT");
        }
        if !self.begin() {
            return self.reply("503 5.5.1 no recipient");
        }
        self.reply("354 go on, end with a dot");
        self.mode = Mode::Data(Dots::Begin);
    }

    fn begin_chunk(&mut self, octets: u64, last: bool, rules: &Rules<'_>) {
        let counts = self.begin();
        let all = self.content.unwrap_or(0).saturating_add(octets);
        if counts && all > rules.octets_max && !self.too_long {
            self.too_long = true;
            self.events.push_back(Event::Abort);
        }
        if octets == 0 {
            return self.end_chunk(last, counts);
        }
        self.mode = Mode::Chunk {
            left: octets,
            last,
            counts,
        };
    }

    fn read_chunk(&mut self, at: usize, chunk: (u64, bool, bool)) -> usize {
        let (left, last, counts) = chunk;
        let rest = self.input.len() - at;
        let read = rest.min(usize::try_from(left).unwrap_or(usize::MAX));
        let octets = self.input[at..at + read].to_vec();
        if counts {
            octets.iter().for_each(|it| self.ends.take(*it));
            self.content(octets, u64::MAX);
        }
        let left = left - read as u64;
        if left == 0 {
            self.end_chunk(last, counts);
        } else {
            self.mode = Mode::Chunk { left, last, counts };
        }
        read
    }

    fn begin_packed(&mut self, octets: u64, last: bool, rules: &Rules<'_>) {
        if rules.began.is_none() {
            return self.reply(NOT_HERE.0);
        }
        let Some(left) = usize::try_from(octets)
            .ok()
            .filter(|it| (1..=PIECE_OCTETS_MAX).contains(it))
        else {
            // What comes next isn't a command.
            return self.close("421 4.5.1 a packed piece is too long");
        };
        let counts = self.begin();
        self.mode = Mode::Packed { left, last, counts };
    }

    fn read_packed(&mut self, at: usize, chunk: (usize, bool, bool), rules: &Rules<'_>) -> usize {
        let (left, last, counts) = chunk;
        let read = left.min(self.input.len() - at);
        self.packed.extend_from_slice(&self.input[at..at + read]);
        let left = left - read;
        if left > 0 {
            self.mode = Mode::Packed { left, last, counts };
            return read;
        }
        let sent = core::mem::take(&mut self.packed);
        if counts && !self.too_long {
            let behind = self.before.behind(rules.dictionary);
            let packed = Event::Packed(pack::frame(&sent), behind);
            self.events.push_back(packed);
            self.mode = Mode::Unpacks(last);
        } else {
            self.end_chunk(last, counts);
        }
        read
    }

    /// What was in a packed piece, folded; nothing if that can't be told.
    pub fn unpacked(&mut self, folded: Option<&[u8]>, rules: &Rules<'_>) {
        let Mode::Unpacks(last) = self.mode else {
            return;
        };
        let text = folded.and_then(|it| pack::unfold(it, PIECE_OCTETS_MAX));
        if let (Some(folded), Some(text)) = (folded, text) {
            self.before.take(folded);
            text.iter().for_each(|it| self.ends.take(*it));
            self.content(text, rules.octets_max);
            self.end_chunk(last, true);
        } else {
            // The message comes again, as it is.
            self.abort();
            self.mode = Mode::Commands;
            self.reply(&format!("450 {UNPACKED} the piece can't be unpacked"));
        }
        self.advance(rules);
    }

    fn end_chunk(&mut self, last: bool, counts: bool) {
        self.mode = Mode::Commands;
        if !counts {
            // What stands behind the last is another message.
            self.mail.take_if(|_| last);
            self.reply("503 5.5.1 no recipient");
        } else if last {
            self.end_content();
        } else if self.too_long {
            self.reply("552 5.3.4 the message is too long for here");
        } else {
            self.reply("250 2.0.0 go on");
        }
    }

    /// Reads a text until its end, dots taken away (RFC 5321 section 4.5.2).
    fn read_data(&mut self, at: usize, dots: Dots, rules: &Rules<'_>) -> usize {
        let (mut dots, mut octets) = (dots, Vec::new());
        let mut read = 0;
        let mut ended = false;
        for octet in &self.input[at..] {
            read += 1;
            let octet = *octet;
            dots = match (dots, octet) {
                (Dots::Begin, b'.') => Dots::Dot,
                (Dots::Dot, b'\r') => Dots::DotCr,
                (Dots::DotCr, b'\n') => {
                    ended = true;
                    break;
                }
                (Dots::DotCr, _) => {
                    self.ends.wrong = true;
                    Dots::Text
                }
                (before, _) => {
                    octets.push(octet);
                    self.ends.take(octet);
                    match octet {
                        b'\r' => Dots::Cr,
                        b'\n' if before == Dots::Cr => Dots::Begin,
                        _ => Dots::Text,
                    }
                }
            };
        }
        self.content(octets, rules.octets_max);
        if ended {
            self.end_content();
        } else {
            self.mode = Mode::Data(dots);
        }
        read
    }

    fn content(&mut self, octets: Vec<u8>, most: u64) {
        let all = self
            .content
            .unwrap_or(0)
            .saturating_add(octets.len() as u64);
        self.content = Some(all);
        if all > most && !self.too_long {
            self.too_long = true;
            self.events.push_back(Event::Abort);
        }
        if !self.too_long && !octets.is_empty() {
            self.events.push_back(Event::Content(octets));
        }
    }

    fn end_content(&mut self) {
        if self.too_long {
            self.reply("552 5.3.4 the message is too long for here");
            self.forget();
            self.mode = Mode::Commands;
            return;
        }
        let binary = |it: &MailFrom| it.body == Body::Binary;
        let right = self.mail.as_ref().is_some_and(binary) || !self.ends.wrong && !self.ends.cr;
        self.events.push_back(Event::End { right });
        self.mode = Mode::Waits;
    }

    /// Forgets a message that may have begun.
    fn abort(&mut self) {
        if self.content.is_some() && !self.too_long {
            self.events.push_back(Event::Abort);
        }
        self.forget();
    }

    fn forget(&mut self) {
        self.mail = None;
        self.recipients.clear();
        self.content = None;
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
