//! Tiny request-and-answer servers inside an event loop: local, few clients, no patience.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use strait_core::time::{Duration, Instant};

use crate::node_loop::service::{Service, View};

/// What a server makes of the octets that a client has sent so far.
pub enum Answer {
    /// The request isn't complete.
    Incomplete,
    /// The answer; the connection closes after it.
    Full(Vec<u8>),
    /// The first of many: the request is answered anew after each of these periods.
    Every(Duration, Vec<u8>),
}

/// Turns requests into answers.
pub type Answerer = Box<dyn FnMut(&[u8], &View<'_>) -> Answer>;

/// Where clients come in.
#[derive(Debug)]
pub enum Listener {
    /// A socket in the file system.
    Unix(UnixListener),
    /// A TCP port.
    Tcp(TcpListener),
}

/// Serves requests of few local clients. A client that sends too much, or takes too long to send
/// or to read, is cut, and between two turns the server rests: nothing that clients do, nor how
/// many there are, can hold the event loop up.
pub struct Server {
    listener: Listener,
    answerer: Answerer,
    clients: Vec<Client>,
    /// While the system has no descriptor for a new client: when to try again.
    paused_until: Option<Instant>,
    /// After a turn: when the next one may be.
    rests_until: Option<Instant>,
}

struct Client {
    stream: Stream,
    request: Vec<u8>,
    answer: Option<Vec<u8>>,
    written: usize,
    /// When patience ends; nothing while a stream rests.
    cut_at: Option<Instant>,
    stream_of: Option<Repeat>,
}

/// An answer that is given again and again.
#[derive(Clone, Copy)]
struct Repeat {
    next: Instant,
    /// Of the request.
    request_octets: usize,
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Clients at once; further ones wait in the listener's backlog.
const CLIENTS_MAX: usize = 8;
/// Of these, those that are answered again and again: the others' places stay free for those who
/// ask once.
const STREAMS_MAX: usize = 4;
/// Octets of a request.
const REQUEST_OCTETS_MAX: usize = 4096;
/// Time from the first to the last octet of a client's business, or of each answer of a stream.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Rest after each turn, in which one client may come: not more than a hundred answers a second,
/// and nobody who asks by hand notices.
const REST: Duration = Duration::from_millis(10);

impl Server {
    /// A server on `listener`.
    ///
    /// # Errors
    /// The listener can't be made non-blocking.
    pub fn new(listener: Listener, answerer: Answerer) -> io::Result<Self> {
        match &listener {
            Listener::Unix(listener) => listener.set_nonblocking(true)?,
            Listener::Tcp(listener) => listener.set_nonblocking(true)?,
        }
        Ok(Self {
            listener,
            answerer,
            clients: Vec::new(),
            paused_until: None,
            rests_until: None,
        })
    }

    fn accept(&mut self, now: Instant) {
        if self.paused_until.is_some_and(|until| now < until) {
            return;
        }
        self.paused_until = None;
        if self.clients.len() == CLIENTS_MAX {
            return;
        }
        match self.listener.accept() {
            Ok(stream) => self.clients.push(Client {
                stream,
                request: Vec::new(),
                answer: None,
                written: 0,
                cut_at: Some(now + PATIENCE),
                stream_of: None,
            }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Out of descriptors, mostly: the listener stays readable, so look away a while.
            Err(_) => self.paused_until = Some(now + ACCEPT_PAUSE),
        }
    }
}

impl Listener {
    fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Stream::Unix(stream))
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

impl Client {
    /// Goes as far as the client lets; true while there is more to come.
    fn go_on(&mut self, answerer: &mut Answerer, view: &View<'_>, may_stream: bool) -> bool {
        if self.answer.is_none() {
            // Nobody has more to say to a stream: octets, or their end, end it.
            let more = self.read();
            if let Some(repeat) = self.stream_of {
                if !more || self.request.len() > repeat.request_octets {
                    return false;
                }
                if view.now < repeat.next {
                    return true;
                }
            }
            match answerer(&self.request, view) {
                Answer::Incomplete => return more,
                Answer::Full(answer) => self.answer = Some(answer),
                Answer::Every(period, line) if may_stream || self.stream_of.is_some() => {
                    self.answer = Some(line);
                    self.cut_at = Some(view.now + PATIENCE);
                    self.stream_of = Some(Repeat {
                        next: view.now + period,
                        request_octets: self.request.len(),
                    });
                }
                Answer::Every(..) => self.answer = Some(b"error: too many streams\n".into()),
            }
        }
        let more = self.write();
        if more || self.stream_of.is_none() || !self.is_sent() {
            return more;
        }
        (self.answer, self.written, self.cut_at) = (None, 0, None);
        true
    }

    fn is_sent(&self) -> bool {
        let answer = self.answer.as_deref();
        answer.is_none_or(|answer| self.written == answer.len())
    }

    /// Takes what has arrived; false if no more can come.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 1024];
        while self.request.len() < REQUEST_OCTETS_MAX {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(octets) => self.request.extend_from_slice(&buffer[..octets]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        false
    }

    /// Sends what the client takes; false when all is sent or the client is gone.
    fn write(&mut self) -> bool {
        let answer = self.answer.as_deref().unwrap_or_default();
        while self.written < answer.len() {
            match self.stream.write(&answer[self.written..]) {
                Ok(0) => return false,
                Ok(octets) => self.written += octets,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        false
    }
}

impl Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(octets),
            Self::Tcp(stream) => stream.write(octets),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Service for Server {
    fn interests(&self) -> Vec<(BorrowedFd<'_>, bool)> {
        if self.rests_until.is_some() {
            return Vec::new();
        }
        let clients = self.clients.iter();
        let mut fds: Vec<_> = clients
            .map(|client| (client.stream.as_fd(), client.answer.is_some()))
            .collect();
        if self.clients.len() < CLIENTS_MAX && self.paused_until.is_none() {
            fds.push((self.listener.as_fd(), false));
        }
        fds
    }

    fn serve(&mut self, view: &View<'_>) {
        match self.rests_until {
            Some(until) if view.now < until => return,
            // What came meanwhile shows when it is looked for.
            Some(_) => {
                self.rests_until = None;
                return;
            }
            None => self.rests_until = Some(view.now + REST),
        }
        self.accept(view.now);
        let answerer = &mut self.answerer;
        let streams = self.clients.iter().filter(|it| it.stream_of.is_some());
        let mut streams = streams.count();
        self.clients.retain_mut(|client| {
            let was = client.stream_of.is_some();
            let in_time = client.cut_at.is_none_or(|at| view.now < at);
            let stays = in_time && client.go_on(answerer, view, streams < STREAMS_MAX);
            streams += usize::from(!was && client.stream_of.is_some());
            stays
        });
    }

    fn wake(&self) -> Option<Instant> {
        let clients = self.clients.iter();
        let dues =
            clients.filter_map(|it| it.cut_at.or_else(|| it.stream_of.map(|repeat| repeat.next)));
        self.rests_until
            .or_else(|| dues.chain(self.paused_until).min())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("listener", &self.listener)
            .field("clients", &self.clients.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ops::Range;
    use std::path::Path;
    use std::rc::Rc;

    use strait_core::stats::Stats;

    use super::*;
    use crate::node_loop::service::{Rates, Timers};

    fn serve(server: &mut Server, now: Instant) {
        server.serve(&View {
            now,
            stats: &Stats::default(),
            flows: &[],
            names: &Vec::new,
            mail: &strait_core::mail::MailView::default,
            ports: &[],
            rates: &Rates::default(),
            timers: &Timers::default(),
            taps: &[],
            recorder: None,
        });
    }

    /// The loop's turns from one moment to another, whether anything is ready or not.
    fn run(server: &mut Server, ms: Range<u64>) {
        for now in ms.step_by(5).map(Instant::from_millis) {
            serve(server, now);
        }
    }

    /// A server that gives everybody `octets` each second.
    fn streaming(path: &Path, octets: usize) -> Server {
        let answerer: Answerer = Box::new(move |request, view| match request {
            [] => Answer::Incomplete,
            _ => {
                let mut line = view.now.as_secs_f64().to_string();
                line.push_str(&" ".repeat(octets.saturating_sub(line.len() + 1)));
                line.push('\n');
                Answer::Every(Duration::from_secs(1), line.into())
            }
        });
        let listener = Listener::Unix(UnixListener::bind(path).unwrap());
        Server::new(listener, answerer).unwrap()
    }

    /// A client that has asked.
    fn asking(path: &Path) -> UnixStream {
        let mut client = UnixStream::connect(path).unwrap();
        client.write_all(b"go").unwrap();
        client.set_nonblocking(true).unwrap();
        client
    }

    /// What came, and whether the server hung up.
    fn read(client: &mut UnixStream) -> (String, bool) {
        let mut text = Vec::new();
        let end = client.read_to_end(&mut text).is_ok();
        (String::from_utf8(text).unwrap(), end)
    }

    #[test]
    fn a_stream_has_a_line_at_once_and_each_period_until_its_client_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let mut server = streaming(&path, 8);
        let mut client = asking(&path);
        run(&mut server, 0..990);
        let (first, _) = read(&mut client);
        assert_eq!(first.lines().count(), 1, "{first}");
        assert!(server.wake() <= Some(Instant::from_millis(1000)));
        run(&mut server, 990..3100);
        let (more, ended) = read(&mut client);
        assert_eq!(more.lines().count(), 3, "{more}");
        assert!(!ended && more.contains("1.0"));
        assert_eq!(server.clients.len(), 1);
        drop(client);
        run(&mut server, 3100..3200);
        assert_eq!(server.clients.len(), 0);
    }

    #[test]
    fn a_stream_that_nobody_reads_is_cut_and_holds_no_other_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        // More than a socket takes.
        let mut server = streaming(&path, 1 << 20);
        let _idle = asking(&path);
        let mut client = asking(&path);
        let mut octets = 0;
        for ms in (0..4900).step_by(5) {
            serve(&mut server, Instant::from_millis(ms));
            octets += read(&mut client).0.len();
        }
        assert_eq!(octets, 5 << 20);
        assert_eq!(server.clients.len(), 2);
        for ms in (4900..5100).step_by(5) {
            serve(&mut server, Instant::from_millis(ms));
            read(&mut client);
        }
        assert_eq!(server.clients.len(), 1);
    }

    #[test]
    fn streams_leave_places_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let mut server = streaming(&path, 8);
        let mut clients: Vec<_> = (0..6).map(|_| asking(&path)).collect();
        run(&mut server, 0..200);
        let answers = clients.iter_mut().map(read);
        let refused =
            answers.filter(|answer| *answer == ("error: too many streams\n".into(), true));
        assert_eq!((refused.count(), server.clients.len()), (2, STREAMS_MAX));
    }

    #[test]
    fn a_flood_of_requests_is_answered_a_hundred_times_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let answers = Rc::new(Cell::new(0));
        let counted = Rc::clone(&answers);
        let answerer: Answerer = Box::new(move |_, _| {
            counted.set(counted.get() + 1);
            Answer::Full(b"fine".into())
        });
        let listener = Listener::Unix(UnixListener::bind(&path).unwrap());
        let mut server = Server::new(listener, answerer).unwrap();
        let (mut turns, mut asked) = (0, Vec::new());
        // The loop turns as often as anything is ready, a thousand times in each millisecond.
        for now in (0..1_000_000_000).step_by(1000).map(Instant::from_nanos) {
            let due = server.wake().is_some_and(|at| at <= now);
            if !due && server.interests().is_empty() {
                continue;
            }
            while asked.len() < 20 {
                asked.push(UnixStream::connect(&path).unwrap());
            }
            turns += 1;
            let before = answers.get();
            serve(&mut server, now);
            asked.drain(..answers.get() - before);
        }
        // One turn works, the next ends the rest.
        assert_eq!(answers.get(), 100);
        assert!(turns <= 200, "{turns}");
    }
}
