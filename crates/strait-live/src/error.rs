//! Errors of the host: what was tried, on what, what the system said, and what would help.

use std::fmt;
use std::io;

use nix::errno::Errno;

/// Something that the host refused.
#[derive(Debug)]
pub struct Error {
    doing: String,
    source: io::Error,
    remedy: Option<String>,
}

impl Error {
    /// `doing` names the action and its object, such as ``open serial device `/dev/ttyS0` ``.
    pub fn new(doing: impl Into<String>, source: impl Into<io::Error>) -> Self {
        let source = source.into();
        let remedy = remedy(&source).map(String::from);
        Self {
            doing: doing.into(),
            source,
            remedy,
        }
    }

    /// An error that the system didn't report itself.
    pub fn invalid(doing: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(
            doing,
            io::Error::new(io::ErrorKind::InvalidInput, why.into()),
        )
    }

    /// Says what would help here, better than the error number alone can tell.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The system's error number, if it gave one.
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }

    /// What kind of error it is.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

/// What generally helps against an error number.
fn remedy(source: &io::Error) -> Option<&'static str> {
    match Errno::from_raw(source.raw_os_error()?) {
        Errno::EPERM => Some("this needs CAP_NET_ADMIN: run as root"),
        Errno::EACCES => Some("no permission: run as root, or join the group that owns it"),
        Errno::ENOENT | Errno::ENODEV | Errno::ENXIO => {
            Some("is it plugged in, and is the name right?")
        }
        Errno::EBUSY => Some("another program uses it"),
        Errno::EADDRINUSE => Some("another program uses this address: stop it or choose another"),
        Errno::EADDRNOTAVAIL => Some("this host has no such address"),
        Errno::EMFILE | Errno::ENFILE => Some("too many open files: raise the limit (ulimit -n)"),
        _ => None,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: ", self.doing)?;
        match self.source.raw_os_error() {
            Some(number) => write!(f, "{}", Errno::from_raw(number).desc())?,
            None => write!(f, "{}", self.source)?,
        }
        match &self.remedy {
            Some(remedy) => write!(f, " ({remedy})"),
            None => Ok(()),
        }
    }
}

// The text says the source already: an error's chain would say it twice.
impl std::error::Error for Error {}

/// Adds what was being done to a system error.
pub trait Doing<T> {
    /// `doing` is only made when there is an error.
    fn doing<S: Into<String>>(self, doing: impl FnOnce() -> S) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing<S: Into<String>>(self, doing: impl FnOnce() -> S) -> Result<T, Error> {
        self.map_err(|error| Error::new(doing(), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_action_reason_and_remedy() {
        let error = Error::new("bind UDP 127.0.0.1:7001", Errno::EADDRINUSE);
        assert_eq!(
            error.to_string(),
            "cannot bind UDP 127.0.0.1:7001: Address already in use \
             (another program uses this address: stop it or choose another)"
        );
        let error = Error::invalid("read the framing", "`9N1` has no 9 data bits");
        assert_eq!(
            error.to_string(),
            "cannot read the framing: `9N1` has no 9 data bits"
        );
    }
}
