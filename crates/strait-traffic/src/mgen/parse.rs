//! From the text of a script to what it says.

use std::net::{IpAddr, SocketAddr};

use strait_core::Duration;
use strait_wire::mgen::{Message, TCP_OCTETS_MIN, UDP_OCTETS_MAX};

use super::pattern::Pattern;
use super::script::{Event, FlowOptions, Group, PortRange, Protocol, Script, Start, Warning, What};
use super::words::{Word, keyword, lines};

/// What is wrong with a script, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ScriptError {
    /// From 1 on.
    pub line: u32,
    /// From 1 on, in characters.
    pub column: u32,
    /// What, and what to do.
    pub message: String,
}

pub(super) type Parsed<T> = Result<T, ScriptError>;

const FLOW_EVENTS: [&str; 3] = ["ON", "MOD", "OFF"];
const PORT_EVENTS: [&str; 4] = ["JOIN", "LEAVE", "LISTEN", "IGNORE"];
const GLOBALS: [&str; 18] = [
    "START",
    "OFFSET",
    "TOS",
    "LABEL",
    "TTL",
    "TXBUFFER",
    "RXBUFFER",
    "LOCALTIME",
    "QUEUE",
    "DATA",
    "INTERFACE",
    "BROADCAST",
    "INPUT",
    "OUTPUT",
    "LOG",
    "LOGDATA",
    "SAVE",
    "SEQUENCE",
];
const OPTIONS: [&str; 22] = [
    "UDP",
    "TCP",
    "SINK",
    "CONNECT",
    "SRC",
    "DST",
    "PERIODIC",
    "POISSON",
    "JITTER",
    "BURST",
    "CLONE",
    "COUNT",
    "TOS",
    "LABEL",
    "TTL",
    "INTERFACE",
    "SEQUENCE",
    "QUEUE",
    "TXBUFFER",
    "RXBUFFER",
    "BROADCAST",
    "DATA",
];
pub(super) const PATTERNS: [&str; 5] = ["PERIODIC", "POISSON", "JITTER", "BURST", "CLONE"];

/// The largest buffer of a socket that can be asked for.
const BUFFER_OCTETS_MAX: u32 = 1 << 30;
/// The latest time of a script: a bit over three years, so that times in ns never overflow.
const TIME_MAX_S: f64 = 1e8;

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place and what to write instead.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let mut script = Self::default();
        for words in lines(text) {
            let mut line = Line::new(&words);
            line.statement(&mut script)?;
            if let Some(word) = line.rest.first() {
                return Err(word.wrong(format!("`{}` is one too many: remove it", word.text)));
            }
            if script.events.len() > Self::EVENTS_MAX {
                let message = format!("more than {} events: split the script", Self::EVENTS_MAX);
                return Err(line.head.wrong(message));
            }
        }
        script.events.sort_by_key(|event| event.at);
        script.review()?;
        Ok(script)
    }
}

/// A line while it is read.
pub(super) struct Line<'w, 'a> {
    /// Its first word, for errors about what isn't there.
    head: Word<'a>,
    /// The last word read, for the same.
    pub(super) last: Word<'a>,
    rest: &'w [Word<'a>],
}

impl<'w, 'a> Line<'w, 'a> {
    fn new(words: &'w [Word<'a>]) -> Self {
        let head = words.first().copied().unwrap_or(Word {
            text: "",
            line: 1,
            column: 1,
        });
        Self {
            head,
            last: head,
            rest: words,
        }
    }

    pub(super) fn peek(&self) -> Option<&Word<'a>> {
        self.rest.first()
    }

    pub(super) fn take(&mut self, what: &str) -> Parsed<Word<'a>> {
        match self.rest.split_first() {
            Some((word, rest)) => {
                (self.last, self.rest) = (*word, rest);
                Ok(*word)
            }
            None => Err(self
                .last
                .wrong(format!("after `{}`, {what} is missing", self.last.text))),
        }
    }

    fn statement(&mut self, script: &mut Script) -> Parsed<()> {
        let first = self.take("a command")?;
        let (at, command) = match time(&first)? {
            Some(at) => (
                Some(at),
                self.take("ON, MOD, OFF, LISTEN, IGNORE, JOIN or LEAVE")?,
            ),
            None => (None, first),
        };
        if let Some(name) = keyword(&command, &FLOW_EVENTS)? {
            return self.flow_event(script, name, at);
        }
        if let Some(name) = keyword(&command, &PORT_EVENTS)? {
            let what = self.port_event(name)?;
            script.events.push(Event {
                line: self.head.line,
                at: at.unwrap_or_default(),
                what,
            });
            return Ok(());
        }
        match keyword(&command, &GLOBALS)? {
            Some(_) if at.is_some() => Err(command.wrong(format!(
                "`{}` applies to the whole script: remove its time",
                command.text
            ))),
            Some(name) => self.global(script, name),
            None => Err(command.wrong(format!(
                "`{}` is no command: one of {}, {} or {}",
                command.text,
                FLOW_EVENTS.join(", "),
                PORT_EVENTS.join(", "),
                GLOBALS.join(", "),
            ))),
        }
    }

    fn flow_event(&mut self, script: &mut Script, name: &str, at: Option<Duration>) -> Parsed<()> {
        let flow: u32 = self.number("a flow's number, from 1 on", 1, u32::MAX)?;
        let begins = self.last;
        let what = match name {
            "OFF" => What::Off(flow),
            name => {
                let options = self.options(script)?;
                // A MOD may change anything alone; what it changes is judged with the ON's options.
                let mut whole = script.with_defaults(&options);
                if name == "MOD" {
                    let of = |event: &&Event| matches!(event.what, What::On(id, _) if id == flow);
                    if let Some(Event {
                        what: What::On(_, on),
                        ..
                    }) = script.events.iter().rev().find(of)
                    {
                        whole = script.with_defaults(on);
                        whole.merge(&options);
                    }
                    fits(&begins, &whole)?;
                    What::Mod(flow, options)
                } else {
                    complete(&begins, &whole)?;
                    fits(&begins, &whole)?;
                    What::On(flow, options)
                }
            }
        };
        script.events.push(Event {
            line: self.head.line,
            at: at.unwrap_or_default(),
            what,
        });
        Ok(())
    }

    fn options(&mut self, script: &mut Script) -> Parsed<FlowOptions> {
        let mut options = FlowOptions::default();
        while let Some(word) = self.peek().copied() {
            let Some(name) = keyword(&word, &OPTIONS)? else {
                let known = OPTIONS.join(", ");
                return Err(word.wrong(format!("`{}` is no option: one of {known}", word.text)));
            };
            self.take("an option")?;
            self.option(name, &mut options, script)?;
        }
        Ok(options)
    }

    fn option(&mut self, name: &str, to: &mut FlowOptions, script: &mut Script) -> Parsed<()> {
        match name {
            "UDP" => to.protocol = Some(Protocol::Udp),
            "TCP" => to.protocol = Some(Protocol::Tcp),
            "SINK" => to.protocol = Some(Protocol::Sink),
            "CONNECT" => to.connect = Some(true),
            "SRC" => to.src = Some(self.number("a port", 1, u16::MAX)?),
            "DST" => to.dst = Some(self.destination()?),
            "COUNT" => to.count = Some(self.number("a number of messages", 0, u64::MAX)?),
            "SEQUENCE" => to.sequence = Some(self.number("a number", 0, u32::MAX)?),
            pattern if PATTERNS.contains(&pattern) => to.pattern = Some(self.pattern(pattern, 0)?),
            other => self.shared_option(other, to, script)?,
        }
        Ok(())
    }

    /// Options that stand in events and as defaults of all flows.
    fn shared_option(
        &mut self,
        name: &str,
        to: &mut FlowOptions,
        script: &mut Script,
    ) -> Parsed<()> {
        match name {
            "TOS" => {
                to.tos = Some(self.number(
                    "the octet of the header, 0 … 255 or 0x00 … 0xff",
                    0,
                    u8::MAX,
                )?);
                if to.tos.is_some_and(|tos| tos & 3 != 0) {
                    let message =
                        "the lower two bits of TOS are those of ECN: the network changes \
                                   them, and TCP ignores them; a code point stands in the upper six"
                            .into();
                    let line = self.last.line;
                    script.warnings.push(Warning { line, message });
                }
            }
            "LABEL" => {
                to.label = Some(self.number("a flow label, 0 … 0xfffff", 0, 0xf_ffff_u32)?);
            }
            "TTL" => to.ttl = Some(self.number("a number of hops, 1 … 255", 1, u8::MAX)?),
            "QUEUE" => to.queue = Some(self.number("a number of messages", 0, u32::MAX)?),
            "TXBUFFER" => {
                to.tx_buffer = Some(self.number("a number of octets", 0, BUFFER_OCTETS_MAX)?);
            }
            "RXBUFFER" => {
                to.rx_buffer = Some(self.number("a number of octets", 0, BUFFER_OCTETS_MAX)?);
            }
            "INTERFACE" => to.interface = Some(self.take("the name of an interface")?.text.into()),
            "BROADCAST" => to.broadcast = Some(self.on_or_off()?),
            "DATA" => to.data = Some(self.data()?),
            _ => {
                let message = format!("`{name}` doesn't belong here: remove it");
                return Err(self.last.wrong(message));
            }
        }
        Ok(())
    }

    fn global(&mut self, script: &mut Script, name: &str) -> Parsed<()> {
        match name {
            "START" => script.globals.start = Some(self.start()?),
            "OFFSET" => script.globals.offset = self.seconds("a time in seconds")?,
            "LOCALTIME" => script.globals.local_time = true,
            "LOGDATA" => script.globals.log_data = Some(self.on_or_off()?),
            "INPUT" => script.globals.input = Some(self.take("a file")?.text.into()),
            "OUTPUT" => script.globals.output = Some(self.take("a file")?.text.into()),
            "LOG" => script.globals.log = Some(self.take("a file")?.text.into()),
            "SAVE" => script.globals.save = Some(self.take("a file")?.text.into()),
            "SEQUENCE" => {
                let number = self.number("a number", 0, u32::MAX)?;
                script.globals.flows.sequence = Some(number);
            }
            name => {
                let mut flows = std::mem::take(&mut script.globals.flows);
                let set = self.shared_option(name, &mut flows, script);
                script.globals.flows = flows;
                set?;
            }
        }
        Ok(())
    }

    fn port_event(&mut self, name: &str) -> Parsed<What> {
        if matches!(name, "JOIN" | "LEAVE") {
            let group = self.group()?;
            return Ok(if name == "JOIN" {
                What::Join(group)
            } else {
                What::Leave(group)
            });
        }
        let word = self.take("UDP or TCP")?;
        let protocol = match keyword(&word, &["UDP", "TCP"])? {
            Some("UDP") => Protocol::Udp,
            Some(_) => Protocol::Tcp,
            None => return Err(word.wrong(format!("`{}` isn't UDP or TCP", word.text))),
        };
        let ports = self.ports()?;
        // The size of a receive buffer may follow. Ports have the kernel's, which is larger now
        // than what scripts of the time ask for.
        if self.peek().is_some_and(|word| word.is("RXBUFFER")) {
            self.take("RXBUFFER")?;
            self.number::<u32>("a number of octets", 0, BUFFER_OCTETS_MAX)?;
        }
        Ok(match name {
            "LISTEN" => What::Listen(protocol, ports),
            _ => What::Ignore(protocol, ports),
        })
    }

    fn group(&mut self) -> Parsed<Group> {
        let word = self.take("the address of a group")?;
        let address: Option<IpAddr> = word.text.parse().ok();
        let Some(address) = address.filter(IpAddr::is_multicast) else {
            let message = format!(
                "`{}` is no multicast address, as 224.1.2.3 or ff15::1",
                word.text
            );
            return Err(word.wrong(message));
        };
        let mut group = Group {
            address,
            source: None,
            interface: None,
            ports: Vec::new(),
        };
        while let Some(word) = self.peek().copied() {
            self.take("an option")?;
            match keyword(&word, &["SRC", "INTERFACE", "PORT"])? {
                Some("SRC") => group.source = Some(self.source(address)?),
                Some("INTERFACE") => {
                    group.interface = Some(self.take("the name of an interface")?.text.into());
                }
                Some(_) => group.ports = self.ports()?,
                None => {
                    let message = format!("`{}` isn't SRC, INTERFACE or PORT", word.text);
                    return Err(word.wrong(message));
                }
            }
        }
        Ok(group)
    }

    fn source(&mut self, group: IpAddr) -> Parsed<IpAddr> {
        let word = self.take("an address")?;
        let address: Option<IpAddr> = word.text.parse().ok();
        address
            .filter(|address| address.is_ipv4() == group.is_ipv4())
            .ok_or_else(|| {
                word.wrong(format!(
                    "`{}` is no address of the group's family",
                    word.text
                ))
            })
    }

    fn ports(&mut self) -> Parsed<Vec<PortRange>> {
        let word = self.take("ports, as 5000-5002,6000")?;
        let range = |part: &str| -> Option<PortRange> {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
            (0 < first && first <= last).then_some(first..=last)
        };
        let ranges: Option<Vec<PortRange>> = word.text.split(',').map(range).collect();
        ranges.ok_or_else(|| {
            let message = format!("`{}` are no ports: write them as 5000-5002,6000", word.text);
            word.wrong(message)
        })
    }

    fn destination(&mut self) -> Parsed<SocketAddr> {
        let word = self.take("an address and a port, as 192.0.2.1/5000")?;
        let wrong = || {
            let message = format!(
                "`{}` is no address and port: write numbers, as 192.0.2.1/5000 or fd00::1/5000",
                word.text
            );
            word.wrong(message)
        };
        let (address, port) = word.text.rsplit_once('/').ok_or_else(wrong)?;
        let (address, port) = (address.parse::<IpAddr>(), port.parse::<u16>());
        match (address, port) {
            (Ok(address), Ok(port)) if port > 0 => Ok(SocketAddr::new(address, port)),
            _ => Err(wrong()),
        }
    }

    /// A decimal number, or a hexadecimal one that begins with 0x.
    pub(super) fn number<T: TryFrom<u64>>(
        &mut self,
        what: &str,
        min: u64,
        max: impl Into<u64>,
    ) -> Parsed<T> {
        let word = self.take(what)?;
        let lower = word.text.to_ascii_lowercase();
        let number = match lower.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => lower.parse(),
        };
        let number = number
            .ok()
            .filter(|number| (min..=max.into()).contains(number));
        number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| word.wrong(format!("`{}` is not {what}", word.text)))
    }

    pub(super) fn seconds(&mut self, what: &str) -> Parsed<Duration> {
        let word = self.take(what)?;
        match seconds(word.text) {
            Some(time) => Ok(time),
            None => Err(word.wrong(format!("`{}` is not {what}", word.text))),
        }
    }

    fn on_or_off(&mut self) -> Parsed<bool> {
        let word = self.take("on or off")?;
        match () {
            () if word.is("on") => Ok(true),
            () if word.is("off") => Ok(false),
            () => Err(word.wrong(format!("`{}` is neither on nor off", word.text))),
        }
    }

    fn start(&mut self) -> Parsed<Start> {
        let word = self.take("a time of the day, as 23:59:00")?;
        let upper = word.text.to_ascii_uppercase();
        let joined = upper.strip_suffix("GMT");
        let clock = joined.unwrap_or(&upper);
        let mut gmt = joined.is_some();
        if !gmt && self.peek().is_some_and(|word| word.is("GMT")) {
            self.take("GMT")?;
            gmt = true;
        }
        let parts: Vec<&str> = clock.split(':').collect();
        let at = match parts[..] {
            [hours, minutes, s] => hours
                .parse::<u64>()
                .ok()
                .zip(minutes.parse::<u64>().ok())
                .zip(seconds(s)),
            _ => None,
        };
        match at {
            Some(((hours, minutes), s)) if hours < 24 && minutes < 60 && s.as_secs() < 60 => {
                let at = Duration::from_secs(hours * 3600 + minutes * 60) + s;
                Ok(Start { at, gmt })
            }
            _ => Err(word.wrong(format!(
                "`{}` is no time of the day, as 23:59:00",
                word.text
            ))),
        }
    }

    fn data(&mut self) -> Parsed<Vec<u8>> {
        self.open("DATA")?;
        let word = self.take("octets in hexadecimal")?;
        if word.text == "]" {
            return Ok(Vec::new());
        }
        let digits = word.text.as_bytes();
        let octet =
            |pair: &[u8]| -> Option<u8> { u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok() };
        let octets: Option<Vec<u8>> = digits.chunks(2).map(octet).collect();
        let whole = octets.filter(|_| digits.len() % 2 == 0 && !digits.contains(&b'+'));
        let octets = whole.ok_or_else(|| {
            word.wrong(format!(
                "`{}` are no octets: two hexadecimal digits each",
                word.text
            ))
        })?;
        self.close()?;
        Ok(octets)
    }

    pub(super) fn open(&mut self, name: &str) -> Parsed<()> {
        let word = self.take("`[`")?;
        if word.text == "[" {
            return Ok(());
        }
        Err(word.wrong(format!(
            "{name} needs its parameters in brackets: `{name} [ … ]`"
        )))
    }

    pub(super) fn close(&mut self) -> Parsed<()> {
        let word = self.take("`]`")?;
        if word.text == "]" {
            return Ok(());
        }
        Err(word.wrong(format!(
            "`{}` is one parameter too many: end with `]`",
            word.text
        )))
    }
}

/// The time at the beginning of a line; `None` if it begins with a command.
fn time(word: &Word<'_>) -> Parsed<Option<Duration>> {
    if word.is("NOW") {
        return Ok(Some(Duration::ZERO));
    }
    let numeric = word
        .text
        .starts_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+'));
    match seconds(word.text) {
        Some(at) => Ok(Some(at)),
        None if numeric => {
            Err(word.wrong(format!("`{}` is no time in seconds, as 10.5", word.text)))
        }
        None => Ok(None),
    }
}

fn seconds(text: &str) -> Option<Duration> {
    let digits = text
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-'));
    let value: f64 = text.parse().ok().filter(|_| digits && !text.is_empty())?;
    if !(0.0..=TIME_MAX_S).contains(&value) {
        return None;
    }
    Duration::try_from_secs_f64(value).ok()
}

/// What an ON needs.
fn complete(at: &Word<'_>, flow: &FlowOptions) -> Parsed<()> {
    let missing = if flow.protocol.is_none() {
        "UDP or TCP"
    } else if flow.dst.is_none() {
        "DST with an address and a port"
    } else if flow.pattern.is_none() {
        "a pattern, as PERIODIC [1 1024]"
    } else {
        return Ok(());
    };
    Err(at.wrong(format!("flow {}: ON needs {missing}", at.text)))
}

/// Whether sizes fit protocol and address.
fn fits(at: &Word<'_>, flow: &FlowOptions) -> Parsed<()> {
    let octets = flow.pattern.as_ref().and_then(Pattern::octets);
    let (Some(octets), Some(protocol)) = (octets, flow.protocol) else {
        return Ok(());
    };
    let wrong = |bounds: &str| {
        let message = format!("flow {}: messages of {octets} octets {bounds}", at.text);
        Err(at.wrong(message))
    };
    let v6_min = Message::octets_min(false) as u64;
    match protocol {
        Protocol::Udp if octets > UDP_OCTETS_MAX as u64 => {
            wrong("are too long: over UDP at most 8192")
        }
        Protocol::Udp if octets < v6_min && flow.dst.is_some_and(|dst| dst.is_ipv6()) => {
            wrong("are too short: to an IPv6 address at least 40")
        }
        Protocol::Tcp if octets < TCP_OCTETS_MIN as u64 => {
            wrong("are too short: over TCP at least 76")
        }
        _ => Ok(()),
    }
}
