//! The status socket: how an operator asks a running gateway how it is.
//!
//! A client sends one line, `status text` or `status json`, and reads the answer to the end.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, fchmod};
use socket2::{Domain, SockAddr, Socket, Type};
use strait_core::node::Command;
use strait_core::time::{Duration, Instant};

use crate::error::{Doing, Error};
use crate::server::{Answer, Answerer, Listener, Server};
use crate::service::{Service, View};

/// How status is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

impl Format {
    /// The word in a request.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
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
}

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
        let server = Server::new(Listener::Unix(listener), answerer(content)).doing(doing)?;
        Ok(Self {
            server,
            path: path.to_path_buf(),
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

fn answerer(mut content: Content) -> Answerer {
    Box::new(move |request, view| {
        let Some(end) = request.iter().position(|octet| *octet == b'\n') else {
            return Answer::Incomplete;
        };
        let answer = match request[..end].trim_ascii() {
            b"status text" => content(Format::Text, view),
            b"status json" => content(Format::Json, view),
            _ => String::from("error: ask `status text` or `status json`\n"),
        };
        Answer::Full(answer.into_bytes())
    })
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
        self.server.poll_command()
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
    let doing = || format!("ask for status at `{}`", path.display());
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
    let line = format!("status {}\n", format.name());
    stream.write_all(line.as_bytes()).doing(doing)?;
    let mut answer = String::new();
    let mut stream = stream.take(ANSWER_OCTETS_MAX);
    stream.read_to_string(&mut answer).doing(doing)?;
    Ok(answer)
}
