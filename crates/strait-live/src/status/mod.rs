//! The status socket: how an operator asks a running gateway how it is.
//!
//! A client sends one line, `status text`, `json`, `names`, `mail` or `past`, and reads the answer
//! to the end. With `status stream SECONDS` it gets a line of JSON at once and after each such
//! period, until it hangs up; one that doesn't read is cut.

pub mod metrics;
pub mod server;
pub mod snapshot;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nix::sys::stat::{Mode, fchmod};
use socket2::{Domain, SockAddr, Socket, Type};
use strait_core::mail::{MailOrder, MailView};
use strait_core::node::Command;
use strait_core::time::{Duration, Instant};
use strait_status::Snapshot;

use self::server::{Answer, Answerer, Listener, Server};
use crate::error::{Doing, Error};
use crate::node_loop::service::{Service, View};

/// How status is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object.
    Json,
    /// The same on one line.
    Line,
    /// Names that are known or asked for, as a JSON object.
    Names,
    /// Messages of the switch, likewise.
    Mail,
    /// Its latest snapshots, as a JSON list, the present last.
    Past,
}

impl Format {
    /// The word in a request.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Line => "line",
            Self::Names => "names",
            Self::Mail => "mail",
            Self::Past => "past",
        }
    }
}

/// Clients that may wait for their turn.
const BACKLOG: i32 = 16;

/// Writes the status.
pub type Content = Box<dyn FnMut(Format, &View<'_>) -> String>;

/// The status socket of a running gateway. Only its owner may connect (mode 0600). The file goes
/// with the server; one that a killed process left behind is replaced.
#[derive(Debug)]
pub struct StatusServer {
    server: Server,
    path: PathBuf,
    orders: Orders,
}

/// What operators want of messages, until the node hears it.
type Orders = Rc<RefCell<VecDeque<MailOrder>>>;

impl StatusServer {
    /// Listens at `path`, whose directory is made if it is missing.
    ///
    /// # Errors
    /// A live process listens there, something else than a socket is there, or the system says no.
    pub fn bind(path: &Path, content: Content) -> Result<Self, Error> {
        let doing = || format!("listen on status socket `{}`", path.display());
        if let Some(directory) = path.parent().filter(|path| !path.as_os_str().is_empty()) {
            fs::create_dir_all(directory).doing(doing)?;
        }
        clear_stale(path)?;
        let listener = bind_private(path).doing(doing)?;
        let orders = Orders::default();
        let answerer = answerer(content, Rc::clone(&orders));
        let server = Server::new(Listener::Unix(listener), answerer).doing(doing)?;
        Ok(Self {
            server,
            path: path.to_path_buf(),
            orders,
        })
    }
}

/// Removes a socket file that nobody listens on.
fn clear_stale(path: &Path) -> Result<(), Error> {
    let doing = || format!("listen on status socket `{}`", path.display());
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        let error = Error::invalid(doing(), "a file that is no socket is there");
        return Err(error.with_remedy("choose another path"));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).doing(doing)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::new(doing(), error)),
        Ok(_) => {
            let error = io::Error::new(io::ErrorKind::AddrInUse, "a running gateway uses it");
            let remedy = "stop that gateway or choose another path";
            Err(Error::new(doing(), error).with_remedy(remedy))
        }
    }
}

/// Binds so that the file never has wider rights, not even for a moment: it takes over those
/// that its socket has.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    Ok(OwnedFd::from(socket).into())
}

fn answerer(mut content: Content, orders: Orders) -> Answerer {
    Box::new(move |request, view| {
        let Some(end) = request.iter().position(|octet| *octet == b'\n') else {
            return Answer::Incomplete;
        };
        let answer = match request[..end].trim_ascii() {
            b"status text" => content(Format::Text, view),
            b"status json" => content(Format::Json, view),
            b"status names" => content(Format::Names, view),
            b"status mail" => content(Format::Mail, view),
            b"status past" => content(Format::Past, view),
            request => match (stream_period(request), mail_order(request)) {
                (Some(period), _) => {
                    return Answer::Every(period, content(Format::Line, view).into_bytes());
                }
                (None, Some(order)) => give_order(order, view, &orders),
                (None, None) => ASK.to_owned(),
            },
        };
        Answer::Full(answer.into_bytes())
    })
}

const ASK: &str = "error: ask `status text`, `status json`, `status names`, `status mail`, \
                   `status past` or `status stream SECONDS`, or `mail hold ID`, `mail release ID`, \
                   `mail minimize NUMBER` or `mail reroute ID|HOP HOP|back`\n";

/// What is wanted of a message.
fn mail_order(request: &[u8]) -> Option<MailOrder> {
    let words = std::str::from_utf8(request.strip_prefix(b"mail ")?).ok()?;
    let (word, rest) = words.split_once(' ')?;
    if word == "reroute" {
        let (what, to) = rest.split_once(' ')?;
        let to = match to {
            "back" => None,
            to => Some(to.parse().ok()?),
        };
        return Some(match what.parse() {
            Ok(id) => MailOrder::Reroute(id, to),
            Err(_) => MailOrder::Divert(what.parse().ok()?, to),
        });
    }
    let id = rest.parse().ok()?;
    match word {
        "hold" => Some(MailOrder::Hold(id)),
        "release" => Some(MailOrder::Release(id)),
        "minimize" => Some(MailOrder::Minimize(id)),
        _ => None,
    }
}

/// Passes an order on, if it is about a message that is here, and next hops of one route.
fn give_order(order: MailOrder, view: &View<'_>, orders: &Orders) -> String {
    match refusal(order, &(view.mail)()) {
        Some(why) => format!("error: {why}\n"),
        None => {
            orders.borrow_mut().push_back(order);
            "done\n".into()
        }
    }
}

fn refusal(order: MailOrder, mail: &MailView) -> Option<String> {
    let routes = |hop: IpAddr| mail.hops.iter().filter(move |it| it.hop == hop);
    let routes = |hop| routes(hop).map(|it| it.route).collect::<Vec<_>>();
    let (own, to) = match order {
        MailOrder::Minimize(_) => return None,
        MailOrder::Hold(id) | MailOrder::Release(id) | MailOrder::Reroute(id, _) => {
            let mut rows = mail.messages.iter().filter(|it| it.id == id).peekable();
            if rows.peek().is_none() {
                let why = format!("there is no message {id} here: `strait mail queue` lists all");
                return Some(why);
            }
            let MailOrder::Reroute(_, Some(to)) = order else {
                return None;
            };
            // One that is held has no way yet.
            if rows.clone().any(|it| it.hop == "-") {
                return Some(format!("message {id} is held: release it first"));
            }
            (rows.filter_map(|it| it.route).collect(), to)
        }
        MailOrder::Divert(from, to) => (routes(from), to.unwrap_or(from)),
    };
    let there = routes(to).iter().any(|it| own.contains(it));
    (!there).then(|| {
        format!("{to} is no next hop of that route: write it under its [[mail.route.next]]")
    })
}

/// The period that a stream is asked for with.
fn stream_period(request: &[u8]) -> Option<Duration> {
    let seconds = request.strip_prefix(b"status stream ")?;
    period(std::str::from_utf8(seconds).ok()?).ok()
}

/// A time between two snapshots, in seconds.
///
/// # Errors
/// It is no number, or no such time.
pub fn period(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "is no number of seconds")?;
    if !(0.1..=86_400.0).contains(&seconds) {
        return Err("choose 0.1 to 86400 seconds".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

impl Service for StatusServer {
    fn interests(&self) -> Vec<(BorrowedFd<'_>, bool)> {
        self.server.interests()
    }

    fn serve(&mut self, view: &View<'_>) {
        self.server.serve(view);
    }

    fn wake(&self) -> Option<Instant> {
        self.server.wake()
    }

    fn poll_command(&mut self) -> Option<Command> {
        self.orders.borrow_mut().pop_front().map(Command::Mail)
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Longest answer that a client believes.
const ANSWER_OCTETS_MAX: u64 = 16 << 20;

/// Asks the gateway behind the socket at `path` for its status.
///
/// # Errors
/// Nobody listens there, or no whole answer came within `patience`.
pub fn request(path: &Path, format: Format, patience: Duration) -> Result<String, Error> {
    let stream = ask(path, &format!("status {}\n", format.name()), patience)?;
    let mut answer = String::new();
    let mut stream = stream.take(ANSWER_OCTETS_MAX);
    let read = stream.read_to_string(&mut answer);
    read.doing(|| doing(path))?;
    Ok(answer)
}

/// The latest snapshots of the gateway behind the socket at `path`, the present last.
///
/// # Errors
/// Nobody listens there, or what came is none.
pub fn past(path: &Path, patience: Duration) -> Result<Vec<Snapshot>, Error> {
    let answer = request(path, Format::Past, patience)?;
    if let Some(why) = answer.strip_prefix("error: ") {
        return Err(Error::invalid(doing(path), why.trim_end()));
    }
    let past = serde_json::from_str(&answer).map_err(io::Error::from);
    past.doing(|| doing(path))
}

/// Has the gateway behind the socket at `path` hold or release a message.
///
/// # Errors
/// Nobody listens there, or it has no such message.
pub fn order(path: &Path, order: MailOrder, patience: Duration) -> Result<(), Error> {
    let to = |to: Option<IpAddr>| to.map_or_else(|| "back".into(), |it| it.to_string());
    let words = match order {
        MailOrder::Hold(id) => format!("hold {id}"),
        MailOrder::Release(id) => format!("release {id}"),
        MailOrder::Minimize(least) => format!("minimize {least}"),
        MailOrder::Reroute(id, hop) => format!("reroute {id} {}", to(hop)),
        MailOrder::Divert(from, hop) => format!("reroute {from} {}", to(hop)),
    };
    let stream = ask(path, &format!("mail {words}\n"), patience)?;
    let mut answer = String::new();
    let read = stream.take(ANSWER_OCTETS_MAX).read_to_string(&mut answer);
    read.doing(|| doing(path))?;
    match answer.strip_prefix("error: ") {
        Some(why) => Err(Error::invalid(format!("mail {words}"), why.trim_end())),
        None => Ok(()),
    }
}

/// What the gateway behind the socket at `path` says of itself, at once and after each `period`.
///
/// # Errors
/// Nobody listens there.
pub fn stream(path: &Path, period: Duration, patience: Duration) -> Result<Stream, Error> {
    let line = format!("status stream {}\n", period.as_secs_f64());
    let stream = ask(path, &line, period + patience)?;
    Ok(Stream {
        lines: BufReader::new(stream),
        path: path.to_path_buf(),
    })
}

/// A status that comes again and again.
#[derive(Debug)]
pub struct Stream {
    lines: BufReader<UnixStream>,
    path: PathBuf,
}

impl Stream {
    /// The next snapshot, and the line that it came as; `None` when the gateway ended the stream.
    ///
    /// # Errors
    /// None came for too long, or what came is none.
    pub fn next_snapshot(&mut self) -> Result<Option<(Snapshot, String)>, Error> {
        let doing = || doing(&self.path);
        let mut line = String::new();
        let mut lines = (&mut self.lines).take(ANSWER_OCTETS_MAX);
        let octets = lines.read_line(&mut line).doing(doing)?;
        if octets == 0 || !line.ends_with('\n') {
            return Ok(None);
        }
        if let Some(why) = line.strip_prefix("error: ") {
            return Err(Error::invalid(doing(), why.trim_end()));
        }
        let snapshot = serde_json::from_str(&line).map_err(io::Error::from);
        Ok(Some((snapshot.doing(doing)?, line)))
    }
}

/// Before a gateway that wasn't there is asked again.
const PAUSE: Duration = Duration::from_secs(2);
/// A gateway answers at once, or is stopped by a debugger.
const PATIENCE: Duration = Duration::from_secs(5);

/// Listens to the gateway behind the socket at `path` on a thread of its own, and tells what it
/// says each `period`, or why it is silent, as long as whoever is told wants to hear more.
///
/// # Errors
/// There is no thread.
pub fn follow(
    path: PathBuf,
    period: Duration,
    mut told: impl FnMut(Result<Snapshot, String>) -> bool + Send + 'static,
) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("feed".into());
    thread.spawn(move || {
        while let Some(why) = listen(&path, period, &mut told) {
            if !told(Err(why)) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    })?;
    Ok(())
}

/// Until the gateway is silent: says why; nothing if nobody wants to hear more.
fn listen(
    path: &Path,
    period: Duration,
    told: &mut impl FnMut(Result<Snapshot, String>) -> bool,
) -> Option<String> {
    let mut stream = match stream(path, period, PATIENCE) {
        Ok(stream) => stream,
        Err(error) => return Some(error.to_string()),
    };
    loop {
        match stream.next_snapshot() {
            Ok(Some((snapshot, _))) => {
                if !told(Ok(snapshot)) {
                    return None;
                }
            }
            Ok(None) => return Some("the gateway ended".into()),
            Err(error) => return Some(error.to_string()),
        }
    }
}

fn doing(path: &Path) -> String {
    format!("ask for status at `{}`", path.display())
}

fn ask(path: &Path, line: &str, patience: Duration) -> Result<UnixStream, Error> {
    let doing = || doing(path);
    let mut stream =
        UnixStream::connect(path)
            .doing(doing)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    error.with_remedy("is a gateway with this status socket running?")
                }
                _ => error,
            })?;
    stream.set_read_timeout(Some(patience)).doing(doing)?;
    stream.set_write_timeout(Some(patience)).doing(doing)?;
    stream.write_all(line.as_bytes()).doing(doing)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::mail::{MailEntry, MailHop, MailState};

    fn view() -> MailView {
        let entry = |id, hop: &str, route| MailEntry {
            id,
            precedence: "flash",
            octets: 1,
            age: Duration::ZERO,
            sender: String::new(),
            recipients: "ops@b.example".into(),
            hop: hop.into(),
            route,
            state: MailState::Queued,
            tries: 0,
            said: String::new(),
            ahead_octets: 1,
            estimate: None,
            by: None,
            trace: String::new(),
        };
        let hop = |last, route| MailHop {
            hop: IpAddr::from([10, 9, 0, last]),
            route,
            domains: "b.example".into(),
            used: false,
            out: false,
            instead: None,
            waiting: 0,
        };
        MailView {
            messages: vec![entry(17, "10.9.0.2", Some(1)), entry(18, "-", None)],
            unread: 0,
            hops: vec![hop(2, 1), hop(3, 1), hop(4, 2)],
            lanes: Vec::new(),
        }
    }

    /// Messages and next hops that there are, and next hops of one route.
    #[test]
    fn orders_about_mail_are_about_what_is_there() {
        let view = view();
        for (words, refused) in [
            ("hold 17", None),
            ("release 19", Some("no message 19")),
            ("minimize 3", None),
            ("reroute 17 10.9.0.3", None),
            ("reroute 17 back", None),
            ("reroute 17 10.9.0.4", Some("10.9.0.4 is no next hop")),
            ("reroute 18 10.9.0.3", Some("release it first")),
            ("reroute 10.9.0.2 10.9.0.3", None),
            ("reroute 10.9.0.2 back", None),
            (
                "reroute 10.9.0.2 10.9.0.4",
                Some("no next hop of that route"),
            ),
            ("reroute 10.9.0.9 back", Some("10.9.0.9 is no next hop")),
        ] {
            let order = mail_order(format!("mail {words}").as_bytes());
            let why = refusal(order.unwrap(), &view).unwrap_or_default();
            assert!(why.contains(refused.unwrap_or_default()), "{words}: {why}");
            assert_eq!(why.is_empty(), refused.is_none(), "{words}: {why}");
        }
        for wrong in [
            "reroute 17",
            "reroute x back",
            "reroute 17 x",
            "hold",
            "fax 1",
        ] {
            let order = mail_order(format!("mail {wrong}").as_bytes());
            assert_eq!(order, None, "{wrong}");
        }
    }
}
