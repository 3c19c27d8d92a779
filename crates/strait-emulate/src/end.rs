//! What a link's ends are attached to: pseudo-terminals, UDP sockets, TUN interfaces.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce};
use strait_channel::LinkKind;
use strait_core::id::ClassId;
use strait_core::node::TxMeta;
use strait_core::prefix::Prefix;
use strait_core::time::Instant;
use strait_live::error::Error;
use strait_live::kernel::namespace::Namespace;
use strait_live::ports::pty::PtyPair;
use strait_live::ports::tun::{TunConfig, TunPort};
use strait_live::ports::udp::{UdpConfig, UdpPort};
use strait_live::ports::{PortIo, Received, Sent, is_not_now};

use super::report::ModemCounts;
use super::tnc::Tnc;

/// What an end is attached to, as link files and the command line write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndSpec {
    /// `pty:LINKPATH`: a pseudo-terminal; a symbolic link at the path leads to it.
    Pty(PathBuf),
    /// `kiss:LINKPATH`: a KISS modem at a pseudo-terminal.
    KissPty(PathBuf),
    /// `kiss:ADDR:PORT[@NETNS]` or `direwolf:ADDR:PORT[@NETNS]`: a KISS modem at a TCP address.
    KissTcp {
        /// Where it listens.
        address: SocketAddr,
        /// A name in `/run/netns`, or a path; this namespace if absent.
        namespace: Option<String>,
        /// It tells its queue and gives no notice, as Dire Wolf does.
        tells_queue: bool,
    },
    /// `modem:ADDR:PORT` or `modem-udp:ADDR:PORT`: an HF modem with a data port.
    Modem(ModemSpec),
    /// `udp:LOCAL->PEER`: datagrams from and to one program.
    Udp {
        /// Where the emulator listens.
        local: SocketAddr,
        /// The program's socket.
        peer: SocketAddr,
    },
    /// `tun:NAME[@NETNS][,ADDRESS/LENGTH …]`: an interface of this or another network namespace;
    /// `tap:` and the same: one of an Ethernet.
    Tun {
        /// Whether frames have Ethernet headers.
        ethernet: bool,
        /// The interface's name.
        name: String,
        /// A name in `/run/netns`, or a path; this namespace if absent.
        namespace: Option<String>,
        /// Addresses of the interface.
        addresses: Vec<(IpAddr, u8)>,
    },
}

/// A modem with a data port: `modem:ADDR:PORT` over TCP, `modem-udp:ADDR:PORT` in datagrams, and
/// what follows, separated by commas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModemSpec {
    /// Where the data port is.
    pub address: SocketAddr,
    /// In datagrams: a connection to the same TCP address is the modem's control.
    pub datagrams: bool,
    /// `control=ADDR:PORT`: over TCP, where the modem's control is, by which a program chooses the
    /// waveform.
    pub control: Option<SocketAddr>,
    /// `receiver-first`: no transmission begins while the modem receives.
    pub receiver_first: bool,
}

impl ModemSpec {
    /// A modem over TCP, without a control.
    pub const fn tcp(address: SocketAddr) -> Self {
        Self {
            address,
            datagrams: false,
            control: None,
            receiver_first: false,
        }
    }

    fn parse(text: &str, datagrams: bool) -> Option<Self> {
        let mut parts = text.split(',').map(str::trim);
        let mut spec = Self {
            datagrams,
            ..Self::tcp(parts.next()?.parse().ok()?)
        };
        for part in parts {
            match part.split_once('=') {
                Some(("control", address)) if !datagrams => {
                    spec.control = Some(address.parse().ok()?);
                }
                None if part == "receiver-first" => spec.receiver_first = true,
                _ => return None,
            }
        }
        Some(spec)
    }
}

impl fmt::Display for ModemSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.datagrams { "modem-udp" } else { "modem" };
        write!(f, "{kind}:{}", self.address)?;
        if let Some(control) = self.control {
            write!(f, ",control={control}")?;
        }
        f.write_str(if self.receiver_first {
            ",receiver-first"
        } else {
            ""
        })
    }
}

/// An end that can't be read or doesn't fit its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndSpecError(String);

impl fmt::Display for EndSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EndSpecError {}

impl EndSpecError {
    pub(super) fn new(why: &str) -> Self {
        Self(why.into())
    }
}

impl FromStr for EndSpec {
    type Err = EndSpecError;

    fn from_str(text: &str) -> Result<Self, EndSpecError> {
        let wrong = |why: &str| {
            EndSpecError(format!(
                "`{text}` {why}: write pty:PATH, udp:LOCAL->PEER, kiss:PATH, \
                 kiss:ADDR:PORT[@NETNS], direwolf:ADDR:PORT[@NETNS], modem:ADDR:PORT, modem-udp:ADDR:PORT, \
                 tun:NAME[@NETNS][,ADDR/LEN …] or tap:NAME and the same"
            ))
        };
        let (kind, rest) = text.split_once(':').ok_or_else(|| wrong("is no end"))?;
        if rest.is_empty() {
            return Err(wrong("is incomplete"));
        }
        match kind {
            "pty" => Ok(Self::Pty(rest.into())),
            "kiss" | "direwolf" => {
                let (address, namespace) = match rest.split_once('@') {
                    Some((address, namespace)) => (address, Some(namespace.to_owned())),
                    None => (rest, None),
                };
                match address.parse() {
                    Ok(address) => Ok(Self::KissTcp {
                        address,
                        namespace,
                        tells_queue: kind == "direwolf",
                    }),
                    Err(_) if kind == "kiss" => Ok(Self::KissPty(rest.into())),
                    Err(_) => Err(wrong("needs an address like 127.0.0.1:8001")),
                }
            }
            "modem" | "modem-udp" => ModemSpec::parse(rest, kind == "modem-udp")
                .map(Self::Modem)
                .ok_or_else(|| {
                    wrong(
                        "needs an address like 127.0.0.1:3000, followed only by ,control=ADDR:PORT \
                         (of modem:) and ,receiver-first",
                    )
                }),
            "udp" => {
                let (local, peer) = rest
                    .split_once("->")
                    .ok_or_else(|| wrong("names no peer"))?;
                let address = |text: &str| text.trim().parse::<SocketAddr>().ok();
                let pair = address(local).zip(address(peer));
                let (local, peer) =
                    pair.ok_or_else(|| wrong("needs an address like 127.0.0.1:7001"))?;
                if local.is_ipv4() != peer.is_ipv4() {
                    return Err(wrong("has addresses of different families"));
                }
                Ok(Self::Udp { local, peer })
            }
            "tun" | "tap" => {
                let mut parts = rest.split(',').map(str::trim);
                let name = parts.next().unwrap_or_default();
                let (name, namespace) = match name.split_once('@') {
                    Some((name, namespace)) => (name, Some(namespace.to_owned())),
                    None => (name, None),
                };
                if name.is_empty() || name.len() > 15 {
                    return Err(wrong("needs a name of 1 to 15 characters"));
                }
                let pair = |text: &str| {
                    let prefix: Prefix = text.parse().ok()?;
                    Some((prefix.address, prefix.length))
                };
                let addresses: Option<Vec<_>> = parts.map(pair).collect();
                Ok(Self::Tun {
                    ethernet: kind == "tap",
                    name: name.into(),
                    namespace,
                    addresses: addresses
                        .ok_or_else(|| wrong("needs an address like 10.0.0.1/24"))?,
                })
            }
            _ => Err(wrong("is of an unknown kind")),
        }
    }
}

impl EndSpec {
    /// Whether the end carries what the link does: a stream of octets, or frames.
    ///
    /// # Errors
    /// It doesn't; the error says what would.
    pub fn fits(&self, kind: &LinkKind) -> Result<(), EndSpecError> {
        let octets = matches!(self, Self::Pty(_));
        let radio = matches!(self, Self::Modem(_));
        let kiss = matches!(self, Self::KissPty(_) | Self::KissTcp { .. });
        let tap = matches!(self, Self::Tun { ethernet: true, .. });
        match kind {
            LinkKind::Cell(_) if !kiss && !tap => Err(EndSpecError(
                "the stations of a cell are kiss:PATH, kiss:ADDR:PORT or tap:NAME".into(),
            )),
            LinkKind::Serial(_) | LinkKind::Frames if radio => Err(EndSpecError(
                "modem:ADDR:PORT is for links of kind = \"hf\"".into(),
            )),
            LinkKind::Serial(_) if !octets => Err(EndSpecError(
                "a serial link carries a stream of octets: its ends are pty:PATH".into(),
            )),
            LinkKind::Frames if octets => Err(EndSpecError(
                "a link for frames has ends udp:LOCAL->PEER, kiss:… or tun:NAME; a pty has no frames"
                    .into(),
            )),
            _ => Ok(()),
        }
    }
}

/// An end that is open.
pub(super) enum End {
    Pty { pair: PtyPair, link: PathBuf },
    Frames { io: Box<dyn PortIo>, text: String },
    Modem(Tnc),
}

impl End {
    /// Opens an end; `mtu` is for an interface, in octets.
    pub(super) fn open(spec: &EndSpec, mtu: u32, now: Instant) -> Result<Self, Error> {
        match spec {
            EndSpec::Pty(link) => Ok(Self::Pty {
                pair: PtyPair::open(Some(link))?,
                link: link.clone(),
            }),
            EndSpec::KissPty(link) => Tnc::at_pty(link).map(Self::Modem),
            EndSpec::KissTcp {
                address,
                namespace,
                tells_queue,
            } => {
                let tnc = match namespace {
                    Some(name) => open_namespace(name)?.enter(|| Tnc::at_tcp(*address))??,
                    None => Tnc::at_tcp(*address)?,
                };
                Ok(Self::Modem(tnc.telling_queue(*tells_queue)))
            }
            EndSpec::Modem(modem) => {
                let doing = format!("connect a line to modem:{}", modem.address);
                Err(Error::invalid(doing, "it is for links of kind `hf`"))
            }
            EndSpec::Udp { local, peer } => {
                let mut io = UdpPort::new(UdpConfig {
                    local: *local,
                    neighbours: vec![*peer],
                    rate: None,
                    own_rates: Vec::new(),
                    frame_octets_max: u32::from(u16::MAX),
                });
                io.open(now)?;
                widen(&io);
                let local = io.local_addr().unwrap_or(*local);
                Ok(Self::Frames {
                    io: Box::new(io),
                    text: format!("udp:{local}->{peer}"),
                })
            }
            EndSpec::Tun {
                ethernet,
                name,
                namespace,
                addresses,
            } => {
                let config = TunConfig {
                    interface: name.clone(),
                    addresses: addresses.clone(),
                    mtu,
                };
                let (mut io, kind) = match ethernet {
                    true => (TunPort::tap(config, None), "tap"),
                    false => (TunPort::new(config), "tun"),
                };
                match namespace {
                    Some(namespace) => open_namespace(namespace)?.enter(|| io.open(now))??,
                    None => io.open(now)?,
                };
                let place = namespace.as_ref().map(|namespace| format!("@{namespace}"));
                Ok(Self::Frames {
                    io: Box::new(io),
                    text: format!("{kind}:{name}{}", place.unwrap_or_default()),
                })
            }
        }
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Pty { pair, .. } => Some(pair.as_fd()),
            Self::Frames { io, .. } => io.fd(),
            Self::Modem(modem) => Some(modem.fd()),
        }
    }

    /// Whether something waits for the descriptor to become writable.
    pub(super) fn holds(&self) -> bool {
        match self {
            Self::Pty { .. } => false,
            Self::Frames { io, .. } => io.holds(),
            Self::Modem(modem) => modem.holds(),
        }
    }

    /// When it wants to be read and told the time, whatever its descriptor says.
    pub(super) fn wake(&self) -> Option<Instant> {
        match self {
            Self::Modem(modem) => modem.wake(),
            _ => None,
        }
    }

    /// It is `now`.
    pub(super) fn tick(&mut self, now: Instant) -> io::Result<()> {
        match self {
            Self::Modem(modem) => modem.tick(now),
            _ => Ok(()),
        }
    }

    /// The frame read last is lost before the line.
    pub(super) fn forget_last(&mut self) {
        if let Self::Modem(modem) = self {
            modem.forget_last();
        }
    }

    /// The frame that waited longest has left by `at`.
    pub(super) fn left(&mut self, at: Instant) {
        if let Self::Modem(modem) = self {
            modem.left(at);
        }
    }

    pub(super) fn flush(&mut self, now: Instant) -> io::Result<()> {
        match self {
            Self::Frames { io, .. } if io.holds() => io.flush(now),
            Self::Modem(modem) => modem.flush(),
            _ => Ok(()),
        }
    }

    /// Octets or a frame, at the beginning of the buffer; `None` if there is nothing now.
    pub(super) fn read(&mut self, now: Instant, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Pty { pair, .. } => match pair.read(buffer) {
                Ok(octets) => Ok(Some(octets).filter(|octets| *octets > 0)),
                Err(error) if is_not_now(&error) => Ok(None),
                Err(error) => Err(error),
            },
            Self::Modem(modem) => modem.read(buffer),
            Self::Frames { io, .. } => loop {
                match io.receive(now, buffer)? {
                    Received::Frame { octets, .. } => return Ok(Some(octets)),
                    Received::Skipped | Received::Event(_) | Received::Left { .. } => {}
                    Received::Nothing => return Ok(None),
                }
            },
        }
    }

    /// Hands over what has arrived; false if nobody takes it. A line doesn't wait: what a program
    /// doesn't read in time is lost.
    pub(super) fn write(&mut self, now: Instant, octets: &[u8]) -> io::Result<bool> {
        match self {
            Self::Pty { pair, .. } => match pair.write(octets) {
                Ok(written) => Ok(written == octets.len()),
                Err(error) if is_not_now(&error) => Ok(false),
                Err(error) => Err(error),
            },
            Self::Modem(modem) => modem.write(octets),
            Self::Frames { io, .. } => {
                if io.holds() {
                    return Ok(false);
                }
                let meta = TxMeta::to_peer(ClassId(0));
                Ok(io.transmit(now, &meta, octets)? == Sent::Taken)
            }
        }
    }

    /// What its modem did, if it is one.
    pub(super) fn modem(&self) -> Option<ModemCounts> {
        match self {
            Self::Modem(modem) => Some(modem.counts()),
            _ => None,
        }
    }

    /// Frames from somebody else than the peer.
    pub(super) fn strangers(&self) -> u64 {
        match self {
            Self::Pty { .. } | Self::Modem(_) => 0,
            Self::Frames { io, .. } => io.counts().strangers,
        }
    }
}

/// What comes while the emulator is busy waits in the socket, and what finds no place there is
/// lost without a trace. So it gets as much as the system allows.
fn widen(io: &UdpPort) {
    const OCTETS: usize = 8 << 20;
    let Some(fd) = io.fd() else { return };
    if setsockopt(&fd, RcvBufForce, &OCTETS).is_err() {
        // Without privilege the kernel gives what it gives everyone.
        let _ = setsockopt(&fd, RcvBuf, &OCTETS);
    }
}

fn open_namespace(name: &str) -> Result<Namespace, Error> {
    let path = if name.contains('/') {
        PathBuf::from(name)
    } else {
        Path::new("/run/netns").join(name)
    };
    Namespace::open(&path)
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pty { pair, link } => {
                let slave = pair.slave_path().display();
                write!(f, "pty:{} ({slave})", link.display())
            }
            Self::Frames { text, .. } => f.write_str(text),
            Self::Modem(modem) => modem.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::framing::Framing;

    fn spec(text: &str) -> Result<EndSpec, String> {
        text.parse().map_err(|error: EndSpecError| error.0)
    }

    #[test]
    fn ends_are_read() {
        assert_eq!(spec("pty:/tmp/a"), Ok(EndSpec::Pty("/tmp/a".into())));
        assert_eq!(spec("kiss:/tmp/a"), Ok(EndSpec::KissPty("/tmp/a".into())));
        let address = ([127, 0, 0, 1], 8001).into();
        let tcp = |namespace: Option<&str>, tells_queue| {
            Ok(EndSpec::KissTcp {
                address,
                namespace: namespace.map(String::from),
                tells_queue,
            })
        };
        assert_eq!(spec("kiss:127.0.0.1:8001"), tcp(None, false));
        assert_eq!(spec("direwolf:127.0.0.1:8001@far"), tcp(Some("far"), true));
        assert!(spec("direwolf:/tmp/a").is_err());
        assert_eq!(
            spec("udp:127.0.0.1:1->127.0.0.1:2"),
            Ok(EndSpec::Udp {
                local: ([127, 0, 0, 1], 1).into(),
                peer: ([127, 0, 0, 1], 2).into(),
            })
        );
        for ethernet in [false, true] {
            let kind = if ethernet { "tap" } else { "tun" };
            assert_eq!(
                spec(&format!("{kind}:t0@blue,10.0.0.1/24,fd00::1/64")),
                Ok(EndSpec::Tun {
                    ethernet,
                    name: "t0".into(),
                    namespace: Some("blue".into()),
                    addresses: vec![
                        ("10.0.0.1".parse().unwrap(), 24),
                        ("fd00::1".parse().unwrap(), 64)
                    ],
                })
            );
        }
    }

    #[test]
    fn wrong_ends_say_what_would_be_right() {
        for (text, why) in [
            ("", "is no end"),
            ("pty:", "is incomplete"),
            ("ppp:x", "unknown kind"),
            ("udp:127.0.0.1:1", "names no peer"),
            ("udp:localhost:1->127.0.0.1:2", "like 127.0.0.1:7001"),
            ("udp:127.0.0.1:1->[::1]:2", "different families"),
            ("tun:", "is incomplete"),
            ("tun:@blue", "1 to 15"),
            ("tun:a-name-of-sixteen", "1 to 15"),
            ("tun:t0,10.0.0.1/33", "like 10.0.0.1/24"),
        ] {
            let error = spec(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
            assert!(error.contains("write pty:PATH"), "{error}");
        }
    }

    #[test]
    fn ends_fit_what_the_link_carries() {
        let pty = spec("pty:/tmp/a").unwrap();
        let udp = spec("udp:127.0.0.1:1->127.0.0.1:2").unwrap();
        let (serial, frames) = (LinkKind::Serial(Framing::ASYNC_8N1), LinkKind::Frames);
        assert!(pty.fits(&serial).is_ok() && udp.fits(&frames).is_ok());
        assert!(pty.fits(&frames).is_err() && udp.fits(&serial).is_err());
        let cell = LinkKind::Cell(Box::default());
        let [tun, tap] = ["tun:t0", "tap:t0"].map(|text| spec(text).unwrap());
        assert!(tap.fits(&cell).is_ok() && tun.fits(&cell).is_err());
    }
}
