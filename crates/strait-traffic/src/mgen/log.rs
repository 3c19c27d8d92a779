//! MGEN's text log, line by line, exactly as MGEN 5.02b writes it, so that the tools made for its
//! logs read ours.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use strait_core::Duration;
use strait_core::time::nanos;
use strait_wire::mgen::Position;

use super::script::Protocol;

/// A line of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// When, in microseconds since midnight.
    pub at_us: u64,
    /// What.
    pub entry: Entry,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// The program began; the version it is compatible with.
    Start(String),
    /// The program ended.
    Stop,
    /// A port is listened to.
    Listen(Protocol, u16),
    /// A port is listened to no more.
    Ignore(Protocol, u16),
    /// A group was joined: address, source, interface.
    Join(IpAddr, Option<IpAddr>, Option<String>),
    /// A group was left: address, source, interface.
    Leave(IpAddr, Option<IpAddr>, Option<String>),
    /// A flow began; its source port, 0 if that isn't known yet, and its destination.
    On(u32, u16, SocketAddr),
    /// A flow's connection is open.
    Connect(u32, u16, SocketAddr),
    /// A flow ended.
    Off(u32, u16, SocketAddr),
    /// A flow's connection is closed in order.
    Shutdown(u32, u16, SocketAddr),
    /// A flow's connection broke, or couldn't be made.
    Disconnect(u32, u16, SocketAddr),
    /// A connection came from there to a port.
    Accept(SocketAddr, u16),
    /// A connection from there to a port ended.
    Ended(Ending, SocketAddr, u16),
    /// A message was sent.
    Send(Send),
    /// A message, or a piece of one, arrived.
    Recv(Recv),
    /// Octets that are no message arrived from there.
    Rerr(String, SocketAddr),
}

/// How a connection ended, at the end that accepted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The other end closed it.
    Off,
    /// This end closed it.
    Shutdown,
    /// It broke.
    Disconnect,
}

/// A message sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    /// How.
    pub protocol: Protocol,
    /// The flow's number.
    pub flow: u32,
    /// Its number in the flow.
    pub sequence: u32,
    /// The port that it left from.
    pub src_port: u16,
    /// Where it went.
    pub dst: SocketAddr,
    /// Its octets.
    pub octets: u64,
}

/// A message received, or a piece of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recv {
    /// How.
    pub protocol: Protocol,
    /// The flow's number.
    pub flow: u32,
    /// Its number in the flow.
    pub sequence: u32,
    /// Where it came from.
    pub src: SocketAddr,
    /// Where its sender sent it.
    pub dst: SocketAddr,
    /// When it was sent, in microseconds since midnight on its sender's clock.
    pub sent_us: u64,
    /// Its octets.
    pub octets: u64,
    /// What its sender takes for its own address.
    pub host: Option<SocketAddr>,
    /// Where its sender was; `None` in messages too short to say so.
    pub position: Option<Position>,
    /// The user's own octets.
    pub data: Vec<u8>,
    /// The flags of a piece; 0 for a whole message.
    pub flags: u8,
}

/// Why a line is none of a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LogError(String);

/// The time of the day of a moment in nanoseconds since 1970, UTC, in microseconds.
pub const fn micros_of_day(ns: u64) -> u64 {
    ns / 1000 % DAY_US
}

const DAY_US: u64 = 86_400_000_000;

/// `23:47:32.952676`
struct Clock(u64);

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0 / 1_000_000 % 86_400, self.0 % 1_000_000);
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        write!(f, "{hours:02}:{minutes:02}:{:02}.{micros:06}", seconds % 60)
    }
}

fn clock(text: &str) -> Option<u64> {
    let mut parts = text.splitn(3, ':');
    let mut next = || parts.next();
    let hours: u64 = next()?.parse().ok().filter(|hours| *hours < 24)?;
    let minutes: u64 = next()?.parse().ok().filter(|minutes| *minutes < 60)?;
    let seconds: f64 = next()?
        .parse()
        .ok()
        .filter(|seconds| (0.0..61.0).contains(seconds))?;
    let within = Duration::try_from_secs_f64(seconds).ok()?;
    let micros = (nanos(within) + 500) / 1000;
    Some((hours * 3600 + minutes * 60) * 1_000_000 + micros)
}

/// `192.0.2.1/5000`
struct Place(SocketAddr);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0.ip(), self.0.port())
    }
}

fn place(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.rsplit_once('/')?;
    Some(SocketAddr::new(address.parse().ok()?, port.parse().ok()?))
}

struct Gps(Option<Position>);

impl fmt::Display for Gps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(position) = self.0 else {
            return f.write_str("INVALID,0.000000,0.000000,0");
        };
        let degrees = |field: u32| f64::from(field) / 60_000.0 - 180.0;
        let status = match position.status {
            2 => "CURRENT",
            1 => "STALE",
            _ => "INVALID",
        };
        let (latitude, longitude) = (degrees(position.latitude), degrees(position.longitude));
        // MGEN prints a negative altitude without its sign, and -999 m even one 1000 off; what
        // reads its logs knows them so.
        let altitude = match position.altitude {
            -999 => 4_294_966_297,
            altitude => i64::from(altitude as u32),
        };
        write!(f, "{status},{latitude:.6},{longitude:.6},{altitude}")
    }
}

fn gps(text: &str) -> Option<Option<Position>> {
    let mut parts = text.split(',');
    let status = match parts.next()? {
        "CURRENT" => 2,
        "STALE" => 1,
        "INVALID" => 0,
        _ => return None,
    };
    let mut degrees = || -> Option<f64> { parts.next()?.parse().ok() };
    let (latitude, longitude) = (degrees()?, degrees()?);
    let altitude: i64 = parts.next()?.parse().ok()?;
    if status == 0 && latitude == 0.0 && longitude == 0.0 && altitude == 0 {
        return Some(None);
    }
    let field = |degrees: f64| libm::round((degrees + 180.0) * 60_000.0) as u32;
    Some(Some(Position {
        latitude: field(latitude),
        longitude: field(longitude),
        altitude: if altitude == 4_294_966_297 {
            -999
        } else {
            altitude as u32 as i32
        },
        status,
    }))
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", Clock(self.at_us), self.entry)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let client =
            |f: &mut fmt::Formatter<'_>, word: &str, flow: &u32, port: &u16, dst: &SocketAddr| {
                write!(f, "{word} flow>{flow} srcPort>{port} dst>{} ", Place(*dst))
            };
        match self {
            Self::Start(version) => write!(f, "START Mgen Version {version}"),
            Self::Stop => f.write_str("STOP"),
            Self::Listen(protocol, port) => {
                write!(f, "LISTEN proto>{} port>{port}", protocol.name())
            }
            Self::Ignore(protocol, port) => {
                write!(f, "IGNORE proto>{} port>{port}", protocol.name())
            }
            Self::Join(group, source, interface) => grouped(f, "JOIN", *group, *source, interface),
            Self::Leave(group, source, interface) => {
                grouped(f, "LEAVE", *group, *source, interface)
            }
            Self::On(flow, port, dst) => client(f, "ON", flow, port, dst),
            Self::Connect(flow, port, dst) => client(f, "CONNECT", flow, port, dst),
            Self::Off(flow, port, dst) => client(f, "OFF", flow, port, dst),
            Self::Shutdown(flow, port, dst) => client(f, "SHUTDOWN", flow, port, dst),
            Self::Disconnect(flow, port, dst) => client(f, "DISCONNECT", flow, port, dst),
            Self::Accept(src, port) => write!(f, "ACCEPT src>{} dstPort>{port}", Place(*src)),
            Self::Ended(ending, src, port) => {
                let word = match ending {
                    Ending::Off => "OFF",
                    Ending::Shutdown => "SHUTDOWN",
                    Ending::Disconnect => "DISCONNECT",
                };
                write!(f, "{word} src>{} dstPort>{port}", Place(*src))
            }
            Self::Send(send) => write!(
                f,
                "SEND proto>{} flow>{} seq>{} srcPort>{} dst>{} size>{} ",
                send.protocol.name(),
                send.flow,
                send.sequence,
                send.src_port,
                Place(send.dst),
                send.octets
            ),
            Self::Recv(recv) => recv.fmt(f),
            Self::Rerr(kind, src) => write!(f, "RERR type>{kind} src>{}", Place(*src)),
        }
    }
}

fn grouped(
    f: &mut fmt::Formatter<'_>,
    word: &str,
    group: IpAddr,
    source: Option<IpAddr>,
    interface: &Option<String>,
) -> fmt::Result {
    write!(f, "{word} group>{group}")?;
    if let Some(source) = source {
        write!(f, " src>{source}")?;
    }
    match interface {
        Some(interface) => write!(f, " interface>{interface}"),
        None => Ok(()),
    }
}

impl fmt::Display for Recv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RECV proto>{} flow>{} seq>{} src>{} dst>{} sent>{} size>{} ",
            self.protocol.name(),
            self.flow,
            self.sequence,
            Place(self.src),
            Place(self.dst),
            Clock(self.sent_us),
            self.octets
        )?;
        if let Some(host) = self.host {
            write!(f, "host>{} ", Place(host))?;
        }
        write!(f, "gps>{} ", Gps(self.position))?;
        if !self.data.is_empty() {
            write!(f, "data>{}:", self.data.len())?;
            for octet in &self.data {
                write!(f, "{octet:02X}")?;
            }
            f.write_str(" ")?;
        }
        if self.flags != 0 {
            write!(f, "flags>0x{:02x} ", self.flags)?;
        }
        Ok(())
    }
}

/// The `key>value` words of a line.
struct Fields<'a> {
    rest: &'a str,
}

impl<'a> Fields<'a> {
    fn find(&self, key: &str) -> Option<&'a str> {
        let mut words = self.rest.split_whitespace();
        words.find_map(|word| word.strip_prefix(key)?.strip_prefix('>'))
    }

    /// The value of a key that has to be there.
    fn read<T>(&self, key: &str, read: impl FnOnce(&'a str) -> Option<T>) -> Result<T, LogError> {
        let Some(text) = self.find(key) else {
            return Err(LogError(format!("`{key}>` is missing")));
        };
        read(text).ok_or_else(|| LogError(format!("`{key}>{text}` can't be read")))
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Result<T, LogError> {
        self.read(key, |text| text.parse().ok())
    }

    fn place(&self, key: &str) -> Result<SocketAddr, LogError> {
        self.read(key, place)
    }

    fn protocol(&self) -> Result<Protocol, LogError> {
        self.read("proto", |text| match text {
            "UDP" => Some(Protocol::Udp),
            "TCP" => Some(Protocol::Tcp),
            "SINK" => Some(Protocol::Sink),
            _ => None,
        })
    }

    fn client(&self) -> Result<(u32, u16, SocketAddr), LogError> {
        Ok((
            self.number("flow")?,
            self.number("srcPort")?,
            self.place("dst")?,
        ))
    }

    fn group(&self) -> Result<(IpAddr, Option<IpAddr>, Option<String>), LogError> {
        let source = self.find("src").and_then(|text| text.parse().ok());
        Ok((
            self.number("group")?,
            source,
            self.find("interface").map(String::from),
        ))
    }

    fn recv(&self) -> Result<Recv, LogError> {
        let optional = |key: &str| self.find(key).is_some();
        Ok(Recv {
            protocol: self.protocol()?,
            flow: self.number("flow")?,
            sequence: self.number("seq")?,
            src: self.place("src")?,
            dst: self.place("dst")?,
            sent_us: self.read("sent", clock)?,
            octets: self.number("size")?,
            host: if optional("host") {
                Some(self.place("host")?)
            } else {
                None
            },
            position: if optional("gps") {
                self.read("gps", gps)?
            } else {
                None
            },
            data: if optional("data") {
                self.read("data", data)?
            } else {
                Vec::new()
            },
            flags: if optional("flags") {
                self.read("flags", flags)?
            } else {
                0
            },
        })
    }
}

fn data(text: &str) -> Option<Vec<u8>> {
    let (octets, digits) = text.split_once(':')?;
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let pairs = digits.as_bytes().chunks(2);
    let octet = |pair: &[u8]| match *pair {
        [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
        _ => None,
    };
    let data: Vec<u8> = pairs.map(octet).collect::<Option<_>>()?;
    (octets.parse() == Ok(data.len())).then_some(data)
}

fn flags(text: &str) -> Option<u8> {
    u8::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

impl Line {
    /// Reads a line; `None` for an empty one or a comment.
    ///
    /// # Errors
    /// What in it can't be read.
    pub fn parse(line: &str) -> Result<Option<Self>, LogError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let (time, rest) = line.split_once(' ').unwrap_or((line, ""));
        let Some(at_us) = clock(time) else {
            return Err(LogError(format!("`{time}` is no time of the day")));
        };
        let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let entry = Entry::parse(word, &Fields { rest })?;
        Ok(Some(Self { at_us, entry }))
    }
}

impl Entry {
    fn parse(word: &str, fields: &Fields<'_>) -> Result<Self, LogError> {
        // What ends a flow where it began names the flow; where it arrived, the other end.
        let at_client = fields.find("flow").is_some();
        let ended = |ending| -> Result<Self, LogError> {
            Ok(Self::Ended(
                ending,
                fields.place("src")?,
                fields.number("dstPort")?,
            ))
        };
        let client = |entry: fn(u32, u16, SocketAddr) -> Self| -> Result<Self, LogError> {
            let (flow, port, dst) = fields.client()?;
            Ok(entry(flow, port, dst))
        };
        match word {
            "START" => {
                let version = fields.rest.trim();
                let version = version.strip_prefix("Mgen Version").unwrap_or(version);
                Ok(Self::Start(version.trim().into()))
            }
            "STOP" => Ok(Self::Stop),
            "LISTEN" => Ok(Self::Listen(fields.protocol()?, fields.number("port")?)),
            "IGNORE" => Ok(Self::Ignore(fields.protocol()?, fields.number("port")?)),
            "JOIN" => {
                let (group, source, interface) = fields.group()?;
                Ok(Self::Join(group, source, interface))
            }
            "LEAVE" => {
                let (group, source, interface) = fields.group()?;
                Ok(Self::Leave(group, source, interface))
            }
            "ON" => client(Self::On),
            "CONNECT" => client(Self::Connect),
            "OFF" if at_client => client(Self::Off),
            "SHUTDOWN" if at_client => client(Self::Shutdown),
            "DISCONNECT" if at_client => client(Self::Disconnect),
            "OFF" => ended(Ending::Off),
            "SHUTDOWN" => ended(Ending::Shutdown),
            "DISCONNECT" => ended(Ending::Disconnect),
            "ACCEPT" => Ok(Self::Accept(
                fields.place("src")?,
                fields.number("dstPort")?,
            )),
            "SEND" => Ok(Self::Send(Send {
                protocol: fields.protocol()?,
                flow: fields.number("flow")?,
                sequence: fields.number("seq")?,
                src_port: fields.number("srcPort")?,
                dst: fields.place("dst")?,
                octets: fields.number("size")?,
            })),
            "RECV" => Ok(Self::Recv(fields.recv()?)),
            "RERR" => {
                let kind = fields.read("type", |text| Some(String::from(text)))?;
                Ok(Self::Rerr(kind, fields.place("src")?))
            }
            _ => Err(LogError(format!("`{word}` is no event of a log"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lines that MGEN 5.02b wrote.
    const OF_MGEN: &str = "\
04:53:46.108348 START Mgen Version 5.02b
04:53:46.108427 LISTEN proto>UDP port>6021
04:53:46.308604 JOIN group>224.1.2.3 interface>lo
04:53:46.508575 LEAVE group>224.1.2.3 interface>lo
04:53:46.561835 RERR type>length src>127.0.0.1/58232
04:53:46.568544 ACCEPT src>127.0.0.1/40827 dstPort>6023
04:53:46.608431 IGNORE proto>UDP port>6021
04:53:47.308448 SHUTDOWN src>127.0.0.1/40827 dstPort>6023
04:53:46.568501 ON flow>1 srcPort>0 dst>127.0.0.1/6023\x20
04:53:46.568509 CONNECT flow>1 srcPort>40827 dst>127.0.0.1/6023\x20
04:38:26.123578 SHUTDOWN flow>3 srcPort>5601 dst>127.0.0.1/6002\x20
04:53:47.773670 DISCONNECT flow>1 srcPort>45575 dst>127.0.0.1/6029\x20
04:53:47.308506 OFF flow>1 srcPort>40827 dst>127.0.0.1/6023\x20
04:38:54.978598 OFF src>127.0.0.1/38925 dstPort>6010\x20
04:39:36.047541 SEND proto>UDP flow>3 seq>0 srcPort>7001 dst>::1/6011 size>100\x20
04:38:54.878545 RECV proto>UDP flow>4 seq>0 src>127.0.0.1/35593 dst>127.0.0.1/6011 sent>04:38:54.878311 size>100 gps>INVALID,999.000000,999.000000,4294966297 data>2:ABCD\x20
04:38:54.778720 RECV proto>TCP flow>1 seq>0 src>127.0.0.1/41473 dst>127.0.0.1/6010 sent>04:38:54.778536 size>4465 gps>INVALID,999.000000,999.000000,4294966297 flags>0x02\x20
04:53:46.561854 RECV proto>UDP flow>7 seq>0 src>127.0.0.1/58232 dst>127.0.0.1/6001 sent>04:37:53.631365 size>100 gps>INVALID,-180.000000,-180.000000,0\x20
04:53:47.768482 STOP
";

    #[test]
    fn lines_of_mgen_are_read_and_written_alike() {
        for line in OF_MGEN.lines() {
            let read = Line::parse(line).unwrap().unwrap();
            assert_eq!(read.to_string().trim_end(), line.trim_end());
            // MGEN ends lines about one flow with a blank.
            let blank = line.contains(" flow>") || line.contains(" OFF src>");
            if blank && !matches!(read.entry, Entry::Ended(..)) {
                assert_eq!(read.to_string(), line);
            }
        }
        let last = Line::parse(OF_MGEN.lines().nth(15).unwrap())
            .unwrap()
            .unwrap();
        let Entry::Recv(recv) = last.entry else {
            panic!("{last}");
        };
        assert_eq!(
            (recv.flow, recv.octets, recv.data),
            (4, 100, vec![0xab, 0xcd])
        );
        assert_eq!(
            recv.sent_us,
            ((4 * 60 + 38) * 60 + 54) * 1_000_000 + 878_311
        );
        assert_eq!(recv.position, Some(Position::UNKNOWN));
    }

    #[test]
    fn a_start_without_a_version_reads_as_it_is_written() {
        let line = Line::parse("04:53:46.108348 START").unwrap().unwrap();
        assert_eq!(line.entry, Entry::Start(String::new()));
        assert_eq!(Line::parse(&line.to_string()), Ok(Some(line)));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let told = |line| Line::parse(line).unwrap_err().to_string();
        assert_eq!(told("hello"), "`hello` is no time of the day");
        assert_eq!(
            told("25:00:00.0 STOP"),
            "`25:00:00.0` is no time of the day"
        );
        assert_eq!(told("05:00:00.0 HALT"), "`HALT` is no event of a log");
        assert_eq!(told("05:00:00.0 LISTEN proto>UDP"), "`port>` is missing");
        assert_eq!(
            told("05:00:00.0 LISTEN proto>UDP port>70000"),
            "`port>70000` can't be read"
        );
        assert_eq!(Line::parse("  # 05:00:00"), Ok(None));
        assert_eq!(Line::parse(""), Ok(None));
    }

    #[test]
    fn a_moment_as_time_of_the_day() {
        let at_us = micros_of_day(1_795_227_410_063_730_999);
        let line = Line {
            at_us,
            entry: Entry::Stop,
        };
        assert_eq!(line.to_string(), "02:16:50.063730 STOP");
    }

    proptest! {
        #[test]
        fn any_line_is_judged(line: String) {
            let _ = Line::parse(&line);
        }

        #[test]
        fn a_written_line_reads_back(
            at_us in 0..DAY_US, flow: u32, sequence: u32, port: u16, octets: u64, v6: bool,
            data in prop::collection::vec(any::<u8>(), 0..5), flags: u8, place in 0..3_u8,
        ) {
            let dst = if v6 { "[fd00::1]:9" } else { "10.1.2.3:5" }.parse().unwrap();
            let position = match place {
                0 => None,
                1 => Some(Position::UNKNOWN),
                _ => Some(Position { status: 2, altitude: 12, ..Position::UNKNOWN }),
            };
            let entry = Entry::Recv(Recv {
                protocol: Protocol::Tcp,
                flow,
                sequence,
                src: SocketAddr::new("fd00::5".parse().unwrap(), port),
                dst,
                sent_us: DAY_US - 1 - at_us,
                octets,
                host: v6.then_some(dst),
                position,
                data,
                flags,
            });
            let line = Line { at_us, entry };
            prop_assert_eq!(Line::parse(&line.to_string()), Ok(Some(line)));
        }
    }
}
