//! Tells a `babeld` on the same host what the gateway's link costs, by its local socket.
//!
//! babeld 1.12 takes a cost with an interface, and for an interface that it has it takes none: the
//! interface is flushed first, and is without neighbours for two hellos. So a cost is told when it
//! is another one by much, and has been for a while.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use strait_core::stats::PortStats;
use strait_core::time::{Duration, Instant};
use strait_node::config::BabelConfig;

use crate::node_loop::service::{Service, View};

/// How often the link is looked at, and babeld is looked for.
const LOOK: Duration = Duration::from_secs(1);
/// What is much: another cost by this factor.
const APART: u32 = 2;
/// How often in a row a cost has to be a higher one by much, and a lower one. To leave a link that
/// fades is urgent; a better one may be worse again soon.
const HIGHER: u32 = 2;
const LOWER: u32 = 15;
/// What is read of babeld at a time.
const BUFFER_OCTETS: usize = 1024;

/// The costs of a link, as babeld is told of them.
#[derive(Debug)]
pub(super) struct BabelCosts {
    config: BabelConfig,
    interface: String,
    stream: Option<UnixStream>,
    told: Told,
    due: Instant,
}

/// What babeld was told last, and what was seen since then.
#[derive(Debug, Default)]
struct Told {
    cost: Option<u32>,
    /// Looks in a row at costs that are higher, and lower, by much.
    higher: u32,
    lower: u32,
}

impl Told {
    /// Whether this cost is to be told now.
    fn changes(&mut self, cost: u32) -> bool {
        let Some(told) = self.cost else {
            return true;
        };
        let count = |apart: bool, before: u32| if apart { before + 1 } else { 0 };
        self.higher = count(cost >= told.saturating_mul(APART), self.higher);
        self.lower = count(cost.saturating_mul(APART) <= told, self.lower);
        self.higher >= HIGHER || self.lower >= LOWER
    }

    fn is(&mut self, cost: u32) {
        *self = Self {
            cost: Some(cost),
            ..Self::default()
        };
    }
}

impl BabelCosts {
    /// For the link whose packets an interface has. babeld may come later.
    pub(super) fn new(config: &BabelConfig, interface: &str) -> Self {
        Self {
            config: config.clone(),
            interface: interface.to_owned(),
            stream: None,
            told: Told::default(),
            due: Instant::ZERO,
        }
    }

    /// Reads what babeld says: of interest is that it doesn't listen, or is gone.
    fn hear(&mut self) {
        let mut buffer = [0; BUFFER_OCTETS];
        while let Some(stream) = &mut self.stream {
            match stream.read(&mut buffer) {
                Ok(0) => self.lose("it is gone"),
                Ok(octets) => {
                    let said = String::from_utf8_lossy(&buffer[..octets]);
                    if said.lines().any(|line| line == "bad") {
                        let socket = &self.config.socket;
                        tracing::warn!(%socket, "babeld takes no costs: start it with -G");
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => self.lose(&error.to_string()),
            }
        }
    }

    fn lose(&mut self, why: &str) {
        tracing::warn!(socket = %self.config.socket, why, "no babeld to tell costs");
        self.stream = None;
        self.told = Told::default();
    }

    /// Connects, tells the link's cost where that is another one.
    fn look(&mut self, port: &PortStats) {
        if self.stream.is_none() {
            self.stream = open(&self.config.socket).ok();
        }
        let rate = port.tx_rate.map(|rate| rate.bit_s());
        let (Some(stream), Some(bit_s)) = (&mut self.stream, port.measured_bit_s.or(rate)) else {
            return;
        };
        let cost = self.config.cost(bit_s);
        if !port.up || !self.told.changes(cost) {
            return;
        }
        let interface = &self.interface;
        let words = format!("flush interface {interface}\ninterface {interface} rxcost {cost}\n");
        match stream.write_all(words.as_bytes()) {
            Ok(()) => {
                tracing::info!(interface, bit_s, cost, "babeld is told what the link costs");
                self.told.is(cost);
            }
            Err(error) => self.lose(&error.to_string()),
        }
    }
}

/// Connects without waiting.
fn open(path: &str) -> Result<UnixStream, Errno> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(socket.into())
}

impl Service for BabelCosts {
    fn interests(&self) -> Vec<(BorrowedFd<'_>, bool)> {
        let stream = self.stream.iter();
        stream.map(|stream| (stream.as_fd(), false)).collect()
    }

    fn serve(&mut self, view: &View<'_>) {
        self.hear();
        if view.now < self.due {
            return;
        }
        self.due = view.now + LOOK;
        // The link is the first port behind the host side.
        if let Some(port) = view.stats.ports.get(1) {
            self.look(port);
        }
    }

    fn wake(&self) -> Option<Instant> {
        Some(self.due)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_cost_is_told_when_it_is_another_by_much_for_a_while() {
        let mut told = Told::default();
        let looks = |told: &mut Told, cost: u32, times: u32| {
            (0..times).filter(|_| told.changes(cost)).count()
        };
        assert_eq!(looks(&mut told, 96, 1), 1);
        told.is(96);
        for cost in [49, 96, 191] {
            assert_eq!(looks(&mut told, cost, 100), 0, "{cost}");
        }
        // Once isn't a while, nor is now and then.
        for _ in 0..10 {
            assert_eq!(looks(&mut told, 192, 1) + looks(&mut told, 191, 1), 0);
        }
        assert_eq!(looks(&mut told, 192, 2), 1);
        told.is(192);
        assert_eq!(looks(&mut told, 96, 14), 0);
        assert_eq!(looks(&mut told, 96, 1), 1);
    }

    /// All that came within a moment.
    fn heard(stream: &mut UnixStream) -> String {
        stream.set_nonblocking(true).unwrap();
        let mut said = String::new();
        // Ends by `WouldBlock`, with what came before.
        let _ = stream.read_to_string(&mut said);
        said
    }

    #[test]
    fn babeld_is_told_once_again_when_the_link_fades_and_when_it_comes_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("babeld.sock");
        let config = BabelConfig {
            enabled: true,
            socket: path.display().to_string(),
            rate: strait_core::units::BitRate(1_000_000),
            preference: 1.0,
        };
        let mut costs = BabelCosts::new(&config, "strait0");
        let port = |bit_s| PortStats {
            up: true,
            measured_bit_s: Some(bit_s),
            ..PortStats::default()
        };
        costs.look(&port(1_000_000));
        assert!(costs.stream.is_none());
        let listener = UnixListener::bind(&path).unwrap();
        let told = |cost| format!("flush interface strait0\ninterface strait0 rxcost {cost}\n");
        costs.look(&port(1_000_000));
        let (mut babeld, _) = listener.accept().unwrap();
        costs.look(&port(900_000));
        assert_eq!(heard(&mut babeld), told(96));
        costs.look(&port(20_000));
        assert_eq!(heard(&mut babeld), "");
        costs.look(&port(20_000));
        costs.look(&port(20_000));
        assert_eq!(heard(&mut babeld), told(4800));
        // A port that is down says nothing.
        let down = PortStats {
            up: false,
            ..port(1000)
        };
        (0..5).for_each(|_| costs.look(&down));
        assert_eq!(heard(&mut babeld), "");
        drop(babeld);
        costs.hear();
        costs.look(&port(20_000));
        let (mut babeld, _) = listener.accept().unwrap();
        assert_eq!(heard(&mut babeld), told(4800));
    }
}
