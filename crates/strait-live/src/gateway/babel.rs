//! Tells a `babeld` on the same host what the gateway's link costs, by its local socket.
//!
//! babeld 1.12 takes the cost of an interface when that comes up, of those that it was given at
//! run time. Where it is told to flush one, it keeps its neighbours, and what they point to is
//! another's memory. So it is given the cost, and then the interface loses its carrier until
//! babeld says that it has seen that: some milliseconds, mostly, in which no neighbour is lost.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use strait_core::stats::PortStats;
use strait_core::time::{Duration, Instant};
use strait_node::config::BabelConfig;

use crate::error::Error;
use crate::kernel::netlink::Netlink;
use crate::node_loop::service::{Service, View};

/// How often the link is looked at, and babeld is looked for.
const LOOK: Duration = Duration::from_secs(1);
/// What is much: another cost by this factor. Short frames tell of no rate exactly.
const APART: u32 = 3;
/// How often in a row a cost has to be a higher one by much, and a lower one. To leave a link that
/// fades is urgent; a better one may be worse again soon.
const HIGHER: u32 = 2;
const LOWER: u32 = 15;
/// How long babeld may take to answer, and to see that the carrier is gone. The kernel tells it
/// within a second.
const PATIENCE: Duration = Duration::from_secs(3);
/// What is read of babeld at a time, and the longest line that is kept.
const BUFFER_OCTETS: usize = 4096;

/// Switches the interface's carrier.
type Carrier = Box<dyn FnMut(bool) -> Result<(), Error>>;

/// The costs of a link, as babeld is told of them.
pub(super) struct BabelCosts {
    config: BabelConfig,
    interface: String,
    carrier: Carrier,
    stream: Option<UnixStream>,
    /// What babeld said since its last whole line.
    said: Vec<u8>,
    /// Commands that it hasn't answered; its greeting is an answer.
    unanswered: u32,
    phase: Phase,
    told: Told,
    due: Instant,
}

/// What becomes of a cost that is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Nothing.
    #[default]
    Idle,
    /// babeld was told then, and hasn't answered.
    Told(Instant),
    /// The carrier has been off since then.
    Down(Instant),
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
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn open(config: &BabelConfig, interface: &str) -> Result<Self, Error> {
        let mut netlink = Netlink::open()?;
        let name = interface.to_owned();
        let carrier = move |on| {
            let index = netlink.link(&name)?.index;
            netlink.set_carrier(index, &name, on)
        };
        Ok(Self::new(config, interface, Box::new(carrier)))
    }

    fn new(config: &BabelConfig, interface: &str, carrier: Carrier) -> Self {
        Self {
            config: config.clone(),
            interface: interface.to_owned(),
            carrier,
            stream: None,
            said: Vec::new(),
            unanswered: 0,
            phase: Phase::Idle,
            told: Told::default(),
            due: Instant::ZERO,
        }
    }

    /// Reads what babeld says.
    fn hear(&mut self, now: Instant) {
        let mut buffer = [0; BUFFER_OCTETS];
        while let Some(stream) = &mut self.stream {
            match stream.read(&mut buffer) {
                Ok(0) => self.lose("it is gone"),
                Ok(octets) => {
                    self.said.extend_from_slice(&buffer[..octets]);
                    let said = core::mem::take(&mut self.said);
                    let (whole, rest) = match said.iter().rposition(|octet| *octet == b'\n') {
                        Some(end) => said.split_at(end + 1),
                        None => said.split_at(0),
                    };
                    if rest.len() <= BUFFER_OCTETS {
                        self.said = rest.to_vec();
                    }
                    for line in String::from_utf8_lossy(whole).lines() {
                        self.take(now, line);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => self.lose(&error.to_string()),
            }
        }
    }

    /// Takes a line of babeld's.
    fn take(&mut self, now: Instant, line: &str) {
        let socket = &self.config.socket;
        if line == "bad" {
            tracing::warn!(%socket, "babeld accepts no costs: start it with -G");
        }
        if line == "ok" || line == "bad" || line.starts_with("no") {
            self.unanswered = self.unanswered.saturating_sub(1);
            if matches!(self.phase, Phase::Told(_)) && self.unanswered == 0 {
                self.switch(false);
                self.phase = Phase::Down(now);
            }
            return;
        }
        let seen = line.strip_prefix("change interface ");
        let seen = seen.and_then(|rest| rest.strip_suffix(" up false"));
        if seen == Some(&self.interface) && matches!(self.phase, Phase::Down(_)) {
            self.comes_up();
        }
    }

    fn comes_up(&mut self) {
        self.phase = Phase::Idle;
        self.switch(true);
        self.say("unmonitor\n", 1);
    }

    fn switch(&mut self, on: bool) {
        if let Err(error) = (self.carrier)(on) {
            tracing::warn!(%error, "babeld may not see the cost of the link");
        }
    }

    /// Says so many lines.
    fn say(&mut self, words: &str, lines: u32) {
        let missing = || io::Error::from(ErrorKind::NotConnected);
        let stream = self.stream.as_mut().ok_or_else(missing);
        match stream.and_then(|stream| stream.write_all(words.as_bytes())) {
            Ok(()) => self.unanswered += lines,
            Err(error) => self.lose(&error.to_string()),
        }
    }

    fn lose(&mut self, why: &str) {
        tracing::warn!(socket = %self.config.socket, why, "babeld can't be reached for costs");
        self.stream = None;
        self.told = Told::default();
        if matches!(self.phase, Phase::Down(_)) {
            self.switch(true);
        }
        self.phase = Phase::Idle;
    }

    /// Connects, and tells the link's cost where that is another one.
    fn look(&mut self, now: Instant, port: &PortStats) {
        if self.stream.is_none() {
            self.stream = open(&self.config.socket).ok();
            self.said.clear();
            self.unanswered = 1;
        }
        match self.phase {
            Phase::Down(since) if now.since(since) >= PATIENCE => {
                tracing::warn!("babeld didn't see that the carrier was gone");
                self.comes_up();
            }
            Phase::Told(since) if now.since(since) >= PATIENCE => self.lose("it doesn't answer"),
            Phase::Down(_) | Phase::Told(_) => return,
            Phase::Idle => {}
        }
        let rate = port.tx_rate.map(|rate| rate.bit_s());
        let measured = port.presence.measured_bit_s.filter(|_| self.config.measure);
        let Some(bit_s) = measured.or(rate) else {
            return;
        };
        let cost = self.config.cost(bit_s);
        if self.stream.is_none() || !port.up || !self.told.changes(cost) {
            return;
        }
        let interface = self.interface.clone();
        let words = format!(
            "link-detect true\ninterface {interface} rxcost {cost} link-quality true\nmonitor\n"
        );
        self.phase = Phase::Told(now);
        self.told.is(cost);
        self.say(&words, 3);
        tracing::info!(
            interface,
            bit_s,
            cost,
            "babeld has the new cost of the link"
        );
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
        self.hear(view.now);
        if view.now < self.due {
            return;
        }
        self.due = view.now + LOOK;
        // The link is the first port behind the host side.
        if let Some(port) = view.stats.ports.get(1) {
            self.look(view.now, port);
        }
    }

    fn wake(&self) -> Option<Instant> {
        Some(self.due)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::unix::net::UnixListener;
    use std::rc::Rc;

    use strait_core::stats::Presence;

    use super::*;

    #[test]
    fn a_cost_is_told_when_it_is_another_by_much_for_a_while() {
        let mut told = Told::default();
        let looks = |told: &mut Told, cost: u32, times: u32| {
            (0..times).filter(|_| told.changes(cost)).count()
        };
        assert_eq!(looks(&mut told, 96, 1), 1);
        told.is(96);
        for cost in [33, 96, 287] {
            assert_eq!(looks(&mut told, cost, 100), 0, "{cost}");
        }
        // Once isn't a while, nor is now and then.
        for _ in 0..10 {
            assert_eq!(looks(&mut told, 288, 1) + looks(&mut told, 287, 1), 0);
        }
        assert_eq!(looks(&mut told, 288, 2), 1);
        told.is(288);
        assert_eq!(looks(&mut told, 96, 14), 0);
        assert_eq!(looks(&mut told, 96, 1), 1);
    }

    /// A link, and the babeld that hears of it.
    struct Side {
        costs: BabelCosts,
        /// What the carrier was switched to.
        switched: Rc<RefCell<Vec<bool>>>,
        listener: UnixListener,
        babeld: Option<UnixStream>,
        now: Instant,
        _folder: tempfile::TempDir,
    }

    impl Side {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("babeld.sock");
            let config = BabelConfig {
                enabled: true,
                measure: true,
                socket: path.display().to_string(),
                rate: strait_core::units::BitRate(1_000_000),
                preference: 1.0,
            };
            let switched = Rc::new(RefCell::new(Vec::new()));
            let seen = Rc::clone(&switched);
            let carrier = move |on| {
                seen.borrow_mut().push(on);
                Ok(())
            };
            Self {
                costs: BabelCosts::new(&config, "strait0", Box::new(carrier)),
                switched,
                listener: UnixListener::bind(&path).unwrap(),
                babeld: None,
                now: Instant::ZERO,
                _folder: folder,
            }
        }

        /// Looks a second later at a link of this rate, or at one that is down; gives what babeld
        /// is told.
        fn look(&mut self, bit_s: Option<u64>) -> String {
            self.now += LOOK;
            let port = PortStats {
                up: bit_s.is_some(),
                presence: Presence {
                    measured_bit_s: Some(bit_s.unwrap_or(1)),
                    ..Presence::default()
                },
                ..PortStats::default()
            };
            self.costs.hear(self.now);
            self.costs.look(self.now, &port);
            if self.babeld.is_none() {
                let (stream, _) = self.listener.accept().unwrap();
                stream.set_nonblocking(true).unwrap();
                self.babeld = Some(stream);
            }
            self.heard()
        }

        fn heard(&mut self) -> String {
            let mut said = String::new();
            // Ends by `WouldBlock`, with what came before.
            let _ = self.babeld.as_mut().unwrap().read_to_string(&mut said);
            said
        }

        fn says(&mut self, words: &str) {
            let babeld = self.babeld.as_mut().unwrap();
            babeld.write_all(words.as_bytes()).unwrap();
            self.costs.hear(self.now);
        }

        fn switched(&self) -> Vec<bool> {
            self.switched.borrow().clone()
        }
    }

    fn told(cost: u32) -> String {
        let interface = format!("interface strait0 rxcost {cost} link-quality true");
        format!("link-detect true\n{interface}\nmonitor\n")
    }

    #[test]
    fn babeld_is_told_and_sees_the_interface_go_and_come() {
        let mut side = Side::new();
        assert_eq!(side.look(Some(1_000_000)), told(96));
        side.says("BABEL 1.0\nmy-id 02:11\nok\nok\nok\nadd interface strait0 up true\n");
        assert!(side.switched().is_empty());
        side.says("ok\n");
        assert_eq!(side.switched(), [false]);
        // Another's, and half a line.
        side.says("change interface link0 up false\nchange interface str");
        assert_eq!(side.switched(), [false]);
        side.says("ait0 up false\n");
        assert_eq!(side.switched(), [false, true]);
        assert_eq!(side.heard(), "unmonitor\n");
        side.says("change interface strait0 up true\nok\n");
        // It fades: in two looks.
        assert_eq!(side.look(Some(900_000)), "");
        assert_eq!(side.look(Some(20_000)), "");
        assert_eq!(side.look(Some(20_000)), told(1108));
        side.says("ok\nok\nok\nchange interface strait0 up false\n");
        assert_eq!(side.switched(), [false, true, false, true]);
        // A port that is down says nothing.
        assert_eq!(side.look(None), "unmonitor\n");
        assert_eq!(side.look(None) + &side.look(None), "");
        // Who comes anew is told anew.
        side.babeld = None;
        assert_eq!(side.look(Some(20_000)), told(1108));
    }

    #[test]
    fn who_does_not_answer_is_asked_anew() {
        let mut side = Side::new();
        assert_eq!(side.look(Some(1_000_000)), told(96));
        side.says("BABEL 1.0\nok\n");
        for _ in 0..3 {
            assert_eq!(side.look(Some(1_000_000)), "");
        }
        side.babeld = None;
        assert_eq!(side.look(Some(1_000_000)), told(96));
        assert!(side.switched().is_empty());
    }

    #[test]
    fn the_carrier_comes_back_when_babeld_is_silent_or_gone() {
        let mut side = Side::new();
        side.look(Some(1_000_000));
        side.says("ok\nok\nok\nok\n");
        assert_eq!(side.switched(), [false]);
        side.look(Some(1_000_000));
        side.look(Some(1_000_000));
        assert_eq!(side.switched(), [false]);
        side.look(Some(1_000_000));
        assert_eq!(side.switched(), [false, true]);
        let mut side = Side::new();
        side.look(Some(1_000_000));
        side.says("ok\nok\nok\nok\n");
        side.babeld = None;
        side.look(Some(1_000_000));
        assert_eq!(side.switched(), [false, true]);
    }
}
