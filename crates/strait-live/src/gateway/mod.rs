//! A gateway on this host: what a node file says, made of ports, counters, status and a journal.

mod babel;
pub mod ports;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{self, Duration};

use nix::errno::Errno;
use strait_core::id::PortId;
use strait_core::node::{Boot, Node, NodeFactory};
use strait_node::config::{MailConfig, Plug, Routing};
use strait_node::{GatewayFactory, InvalidConfig, NodeConfig};

use self::babel::BabelCosts;
use self::ports::{describe, ports};
use crate::clock::Clock;
use crate::error::{Doing, Error};
use crate::files::journal::JournalFile;
use crate::files::packets;
use crate::files::storage::Storage;
use crate::kernel::entropy::entropy;
use crate::kernel::learned_routes::KernelRoutes;
use crate::kernel::networks::with_networks;
use crate::node_loop::{Ended, Options, Runner};
use crate::signals::{SignalGuard, Stopper};
use crate::sockets::tls::{self, TlsProfiles};
use crate::status::StatusServer;
use crate::status::metrics::{ELSEWHERE, MetricsServer, is_own};
use crate::status::snapshot::{self, Historian, Past};

/// A gateway whose ports are open, ready to run. Dropping it takes everything back: interface,
/// addresses, routes, sockets.
pub struct LiveGateway {
    runner: Runner<dyn Node>,
    _signals: SignalGuard,
    ready: String,
}

/// What a gateway does beside what its node file says.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Where it writes a line for each packet that ended.
    pub packets: Option<PathBuf>,
    /// Never go before ordinary programs. Otherwise a gateway with an octet stream or a radio does
    /// where it may: these show when it is late.
    pub ordinary: bool,
}

/// Why a gateway doesn't start.
#[derive(Debug)]
pub enum StartError {
    /// What the node file says can't work on a host.
    Config(InvalidConfig),
    /// The host refuses something without which there is no gateway.
    Host(Error),
}

impl From<InvalidConfig> for StartError {
    fn from(error: InvalidConfig) -> Self {
        Self::Config(error)
    }
}

impl From<Error> for StartError {
    fn from(error: Error) -> Self {
        Self::Host(error)
    }
}

impl LiveGateway {
    /// Opens what `config` names. A link port that can't be opened is tried again later, and the
    /// others serve meanwhile.
    ///
    /// # Errors
    /// The configuration lacks what a host needs; the host side, the status socket, the metrics
    /// page or the journal can't be had; or no link port could be opened, and an operator has to
    /// change something before any can be.
    pub fn start(clock: Clock, config: &NodeConfig, run: &RunOptions) -> Result<Self, StartError> {
        let config = &with_networks(config);
        let factory = GatewayFactory::new(config.clone())?;
        let ports = ports(config)?;
        let profiles = TlsProfiles::load(&config.tls)?;
        for warning in warnings(config) {
            tracing::warn!("{warning}");
        }
        let storage = storage(config)?;
        let boot = boot(clock, storage.as_ref())?;
        let mut runner = Runner::new(clock, factory.boot(boot.clone()), ports)?;
        runner.set_options(Options {
            goes_first: !run.ordinary && has_hard_times(config),
            ..Options::default()
        });
        if let Some(path) = &run.packets {
            packets::start(clock, path, runner.taps())?;
        }
        if let Some(storage) = storage {
            runner.set_storage(storage);
        }
        runner.set_tls(profiles);
        let signals = runner.stop_on_signals()?;
        let metrics = add_services(&mut runner, config)?;
        let journal = config.journal.as_ref();
        let journal = journal.map(|journal| JournalFile::create(journal, config, &boot));
        let journal = journal.transpose()?;
        if let Some(journal) = &journal {
            runner.add_service(Box::new(journal.flusher()));
            runner.set_recorder(Box::new(journal.clone()));
        }
        let failures = open_ports(&mut runner);
        let down: Vec<PortId> = failures.iter().map(|(port, _)| *port).collect();
        judge(config, failures)?;
        judge_listeners(&runner)?;
        if config.routing == Routing::Kernel {
            runner.add_service(Box::new(KernelRoutes::open(config)?));
        }
        if let Some(babel) = config.babel.as_ref().filter(|it| it.enabled) {
            runner.add_service(Box::new(BabelCosts::open(babel, &config.host.interface)?));
        }
        if let Some(journal) = journal {
            journal.place()?;
        }
        // Last, as a start that fails leaves nothing behind.
        runner.lead_host();
        let mut ready = ready_line(config, &down, metrics);
        for address in runner.listens_at() {
            ready += &format!("; clients: {address}");
        }
        Ok(Self {
            runner,
            _signals: signals,
            ready,
        })
    }

    /// One line that says what is up, and where to ask.
    pub fn ready_line(&self) -> &str {
        &self.ready
    }

    /// A way to end the run from another thread.
    pub fn stopper(&self) -> Stopper {
        self.runner.stopper()
    }

    /// Runs until a signal or a [`Stopper`] asks it to stop.
    ///
    /// # Errors
    /// The system can't wait for descriptors any more.
    pub fn run(&mut self) -> Result<Ended, Error> {
        self.runner.run()
    }
}

/// What `config` lacks to run on this host, although a simulation needs no more.
pub fn lacking(config: &NodeConfig) -> Vec<InvalidConfig> {
    let mut lacking = ports::lacking(config);
    lacking.extend(TlsProfiles::load(&config.tls).err());
    let state = config.state.as_ref().map(|it| ("[state] file", &it.file));
    let journal = config.journal.as_ref();
    let journal = journal.map(|it| ("[journal] file", &it.file));
    let files = state.into_iter().chain(journal);
    lacking.extend(files.filter_map(|(place, file)| without_folder(place, file)));
    let metrics = config.status.metrics;
    let refused = |address: &SocketAddr| !config.status.metrics_anywhere && !is_own(*address);
    lacking.extend(metrics.filter(refused).map(|address| InvalidConfig {
        place: String::from("[status] metrics"),
        message: format!("`{address}` isn't a loopback address: {ELSEWHERE}"),
    }));
    lacking
}

/// A file that the gateway makes, and whose folder it doesn't.
fn without_folder(place: &str, file: &str) -> Option<InvalidConfig> {
    let folder = Path::new(file).parent()?;
    let is_there = folder.as_os_str().is_empty() || folder.is_dir();
    (!is_there).then(|| InvalidConfig {
        place: place.into(),
        message: format!(
            "there is no folder `{0}` on this host: mkdir -p {0}",
            folder.display()
        ),
    })
}

/// What an operator should know of a gateway that runs all the same.
pub fn warnings(config: &NodeConfig) -> Vec<String> {
    let mut warnings = tls::warnings(&config.tls);
    warnings.extend(config.long_frames());
    let hops = config.mail().into_iter().flat_map(MailConfig::hops);
    let files = hops.filter_map(|hop| Some((hop.to, hop.password_file.as_ref()?)));
    warnings.extend(files.filter_map(|(to, file)| {
        let message = match fs::metadata(file) {
            Ok(_) => tls::open_to_others(file)?,
            Err(error) => format!("{file}: {error}: no mail is sent there without the password"),
        };
        Some(format!("[[mail.route]] {to} password_file: {message}"))
    }));
    warnings
}

/// A line that shows each millisecond, or a radio's turns, which end if a block isn't full in time;
/// or a link whose rate is measured by the times of its frames.
fn has_hard_times(config: &NodeConfig) -> bool {
    let mut ports = config.ports.iter();
    let measures = config.babel.as_ref().is_some_and(|it| it.enabled);
    measures || ports.any(|port| matches!(port.kind.plug(), Plug::Octets | Plug::Radio))
}

/// The node's storage, where it is to have any.
fn storage(config: &NodeConfig) -> Result<Option<Storage>, Error> {
    let state = config.state.as_ref();
    state
        .map(|it| Storage::open(Path::new(&it.file), it.octets_max.0))
        .transpose()
}

/// What the node finds: what it has stored, fresh randomness, the calendar.
fn boot(clock: Clock, storage: Option<&Storage>) -> Result<Boot, Error> {
    Ok(Boot {
        stored: storage.map(Storage::contents).unwrap_or_default(),
        entropy: entropy().doing(|| "read /dev/urandom")?,
        wall: clock.wall(),
        ..Boot::default()
    })
}

/// Adds status and metrics; returns where the latter are.
fn add_services(
    runner: &mut Runner<dyn Node>,
    config: &NodeConfig,
) -> Result<Option<SocketAddr>, Error> {
    if let Some(path) = &config.status.socket {
        let past = Past::default();
        runner.add_service(Box::new(Historian::new(config.name.clone(), past.clone())));
        let content = snapshot::content(config.name.clone(), past);
        runner.add_service(Box::new(StatusServer::bind(Path::new(path), content)?));
    }
    let Some(address) = config.status.metrics else {
        return Ok(None);
    };
    let metrics = MetricsServer::bind(address, config.status.metrics_anywhere)?;
    let address = metrics.address();
    runner.add_service(Box::new(metrics));
    Ok(Some(address))
}

/// How long a device may be another's when a gateway starts.
///
/// A predecessor that is still ending has its lines for a moment, and the kernel itself says of a
/// terminal that it is busy where its line discipline is (`tty_reopen`).
const BUSY_MAX: Duration = Duration::from_secs(2);
/// When a gateway looks again whether it still is.
const BUSY_STEP: Duration = Duration::from_millis(100);

/// Opens the ports; what is another's for a moment is waited for.
fn open_ports(runner: &mut Runner<dyn Node>) -> Vec<(PortId, Error)> {
    let is_busy = |error: &Error| error.errno() == Some(Errno::EBUSY as i32);
    let mut failures = runner.open_ports();
    let began = time::Instant::now();
    while failures.iter().any(|(_, error)| is_busy(error)) && began.elapsed() < BUSY_MAX {
        thread::sleep(BUSY_STEP);
        failures = runner.open_ports();
    }
    failures
}

/// Whether a gateway makes sense without the ports that could not be opened.
///
/// Without all its host sides it doesn't, but for one whose bridge isn't there yet. Link ports may
/// come later, as long as one of them is up or isn't there yet: a device that is plugged in, an
/// address that another program sets, a modem that is switched on.
fn judge(config: &NodeConfig, failures: Vec<(PortId, Error)>) -> Result<(), Error> {
    let all_down = failures.len() == config.ports.len();
    let mut hopeless = None;
    let mut hope = false;
    for (port, error) in failures {
        let is_host = config.host_side(port).is_some();
        if is_host && error.errno() != Some(Errno::ENODEV as i32) {
            return Err(error);
        }
        if is_host {
            hope = true;
        } else if only_an_operator_mends(&error) {
            hopeless = hopeless.or(Some(error));
        } else {
            hope = true;
        }
    }
    match hopeless {
        Some(error) if all_down && !hope => Err(error),
        _ => Ok(()),
    }
}

/// An address that the host doesn't have yet may come; one that is another program's won't.
fn judge_listeners(runner: &Runner<dyn Node>) -> Result<(), Error> {
    for (address, error) in runner.deaf_at() {
        let error = io::Error::from_raw_os_error(error.raw_os_error().unwrap_or_default());
        let error = Err(error).doing(|| format!("listen for clients at {address}"));
        let error = error.map_err(|error: Error| match error.errno() {
            Some(number) if number == Errno::EPERM as i32 => error.with_remedy(
                "checks of clients before they are connected need CAP_NET_RAW: run as root",
            ),
            _ => error,
        });
        match error {
            Err(error) if error.errno() == Some(Errno::EADDRNOTAVAIL as i32) => {
                tracing::warn!(%address, "no clients yet: the host doesn't have the address");
            }
            other => other?,
        }
    }
    Ok(())
}

/// Not allowed, another program's, or not such a device: it doesn't come by waiting.
fn only_an_operator_mends(error: &Error) -> bool {
    let lasting = [
        Errno::EACCES,
        Errno::EPERM,
        Errno::EADDRINUSE,
        Errno::EBUSY,
        Errno::EINVAL,
        Errno::ENOTTY,
        Errno::EISDIR,
        Errno::ENOTDIR,
        Errno::ELOOP,
        Errno::ENAMETOOLONG,
        Errno::EAFNOSUPPORT,
        Errno::EPROTONOSUPPORT,
        Errno::ENOPROTOOPT,
    ];
    let number = error.errno().map(Errno::from_raw);
    // Of a device that isn't what the file says there is no number.
    error.kind() == io::ErrorKind::InvalidInput
        || number.is_some_and(|number| lasting.contains(&number))
}

/// `a: up: strait0, line=/dev/ttyUSB0 9600 baud; status: /run/strait/a.sock`
fn ready_line(config: &NodeConfig, down: &[PortId], metrics: Option<SocketAddr>) -> String {
    let mut parts = vec![config.host.interface.clone()];
    for (index, port) in config.ports.iter().enumerate() {
        let is_down = down.iter().any(|id| id.index() == index + 1);
        let note = if is_down { " (down)" } else { "" };
        parts.push(format!("{}={}{note}", port.name, describe(port)));
    }
    for side in &config.host.further {
        parts.push(format!("{}={}", side.name(), side.interface));
    }
    let mut line = format!("{}: up: {}", config.name, parts.join(", "));
    if let Some(path) = &config.status.socket {
        line += &format!("; status: {path}");
    }
    if let Some(address) = metrics {
        line += &format!("; metrics: http://{address}/metrics");
    }
    if let Some(journal) = &config.journal {
        line += &format!("; journal: {}", journal.file);
    }
    line
}

/// The folder where gateways have their status sockets, if they don't say otherwise.
pub const STATUS_FOLDER: &str = "/run/strait";

/// The sockets in [`STATUS_FOLDER`], in the order of their names.
pub fn status_sockets() -> Vec<PathBuf> {
    let entries = fs::read_dir(STATUS_FOLDER).into_iter().flatten();
    let paths = entries.flatten().map(|entry| entry.path());
    let mut paths: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "sock"))
        .collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_node::config_text::parse;

    const NODE: &str = r#"
        name = "a"
        host = {}
        [[port]]
        name = "line"
        kind = "serial"
        device = "/dev/ttyUSB0"
        baud = 9600
        [[port]]
        name = "net"
        kind = "udp"
        local = "127.0.0.1:7001"
        neighbours = [{ name = "b", address = "127.0.0.1:7002" }]
        [[route]]
        prefix = "10.2.0.0/24"
        port = "line"
        [status]
        socket = "/run/strait/a.sock"
    "#;

    fn failure(port: u8, errno: Errno) -> (PortId, Error) {
        (PortId(port), Error::new("open it", errno))
    }

    #[test]
    fn the_ready_line_names_ports_and_status() {
        let config: NodeConfig = parse("a.toml", NODE).unwrap();
        assert_eq!(
            ready_line(&config, &[PortId(1)], None),
            "a: up: strait0, line=/dev/ttyUSB0 9600 baud (down), net=127.0.0.1:7001 to b; \
             status: /run/strait/a.sock"
        );
    }

    #[test]
    fn a_gateway_needs_all_its_host_sides_and_names_them() {
        let ops = "name = \"ops\"\ninterface = \"strait1\"";
        let text = NODE.replace("host = {}", "");
        let text = format!("{text}\n[[host]]\n[[host]]\n{ops}\n");
        let config: NodeConfig = parse("a.toml", &text).unwrap();
        assert_eq!(
            ready_line(&config, &[], None),
            "a: up: strait0, line=/dev/ttyUSB0 9600 baud, net=127.0.0.1:7001 to b, ops=strait1; \
             status: /run/strait/a.sock"
        );
        assert!(judge(&config, vec![failure(2, Errno::ENOENT)]).is_ok());
        assert!(judge(&config, vec![failure(3, Errno::ENOENT)]).is_err());
        // Its bridge isn't there yet.
        assert!(judge(&config, vec![failure(3, Errno::ENODEV)]).is_ok());
        // One more port than links: the interface of operations is the last.
        assert_eq!(ports(&config).unwrap().len(), 4);
    }

    #[test]
    fn a_gateway_starts_while_a_link_can_still_come() {
        let config: NodeConfig = parse("a.toml", NODE).unwrap();
        let (gone, busy) = (Errno::ENOENT, Errno::EADDRINUSE);
        let judge = |failures| judge(&config, failures).is_ok();
        assert!(judge(vec![]));
        assert!(judge(vec![failure(2, busy)]));
        assert!(judge(vec![failure(1, gone), failure(2, busy)]));
        assert!(judge(vec![failure(1, gone), failure(2, gone)]));
        assert!(!judge(vec![failure(1, busy), failure(2, busy)]));
        assert!(!judge(vec![failure(0, gone)]));
    }

    /// Annex A of STANAG 5066 (A.5.1.2.4) has a terminal connect again and again; a KISS modem is
    /// no other.
    #[test]
    fn a_gateway_starts_without_its_modem() {
        let station = "kind = \"hf\"\nhf = { address = \"0.0.0.1\" }";
        for port in [station, "kind = \"kiss\"\nrate = \"1200 bit/s\""] {
            let text = format!("name = \"a\"\nhost = {{}}\n[[port]]\nname = \"p\"\n{port}\n");
            let config: NodeConfig = parse("a.toml", &text).unwrap();
            for error in [
                Errno::ECONNREFUSED,
                Errno::ETIMEDOUT,
                Errno::EHOSTUNREACH,
                Errno::ENETUNREACH,
                Errno::ENOENT,
            ] {
                assert!(judge(&config, vec![failure(1, error)]).is_ok());
            }
            for error in [Errno::EACCES, Errno::EBUSY, Errno::EAFNOSUPPORT] {
                assert!(judge(&config, vec![failure(1, error)]).is_err());
            }
            let regular = Error::invalid("open it", "it is no terminal device");
            assert!(judge(&config, vec![(PortId(1), regular)]).is_err());
        }
    }
}
