//! Pseudo-terminal pairs: a serial line between two programs of one host.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd;

use crate::error::{Doing, Error};

/// A raw pseudo-terminal whose master is ours.
///
/// The slave stays open here too, so that the master sees no hang-up when the program on the
/// slave ends and starts again: a line doesn't vanish with its user.
#[derive(Debug)]
pub struct PtyPair {
    master: PtyMaster,
    _slave: File,
    path: PathBuf,
    link: Option<PathBuf>,
}

impl PtyPair {
    /// A new pair, without echo or any other treatment of the octets; if `link` is given, it
    /// becomes a symbolic link to the slave, and replaces a symbolic link that stood there.
    ///
    /// # Errors
    /// No pair is free, or the link can't be made.
    pub fn open(link: Option<&Path>) -> Result<Self, Error> {
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags).doing(|| "open a pseudo-terminal")?;
        let path = grantpt(&master)
            .and_then(|()| unlockpt(&master))
            .and_then(|()| ptsname_r(&master))
            .doing(|| "unlock a pseudo-terminal")?;
        let path = PathBuf::from(path);
        let slave = open_slave(&path).doing(|| format!("open {}", path.display()))?;
        let mut pair = Self {
            master,
            _slave: slave,
            path,
            link: None,
        };
        if let Some(link) = link {
            let doing = || format!("link {} to {}", link.display(), pair.path.display());
            replace_link(&pair.path, link).doing(doing)?;
            pair.link = Some(link.to_path_buf());
        }
        Ok(pair)
    }

    /// Where a program opens the slave.
    pub fn slave_path(&self) -> &Path {
        &self.path
    }

    /// Reads what was written to the slave; `WouldBlock` if there is nothing.
    ///
    /// # Errors
    /// Those of `read(2)`.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(unistd::read(&self.master, buffer)?)
    }

    /// Writes octets for the slave to read; may take fewer than all.
    ///
    /// # Errors
    /// Those of `write(2)`.
    pub fn write(&self, octets: &[u8]) -> io::Result<usize> {
        Ok(unistd::write(&self.master, octets)?)
    }
}

impl AsFd for PtyPair {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}

impl Drop for PtyPair {
    fn drop(&mut self) {
        let Some(link) = &self.link else { return };
        // Somebody else's link may stand there by now.
        if fs::read_link(link).is_ok_and(|target| target == self.path) {
            let _ = fs::remove_file(link);
        }
    }
}

fn open_slave(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let slave = nix::fcntl::open(path, flags, nix::sys::stat::Mode::empty())?;
    let mut modes = tcgetattr(&slave)?;
    cfmakeraw(&mut modes);
    tcsetattr(&slave, SetArg::TCSANOW, &modes)?;
    Ok(File::from(slave))
}

/// Links `link` to `target`. Only a symbolic link is ever replaced.
fn replace_link(target: &Path, link: &Path) -> io::Result<()> {
    if fs::symlink_metadata(link).is_ok_and(|found| found.is_symlink()) {
        fs::remove_file(link)?;
    }
    std::os::unix::fs::symlink(target, link)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn octets_pass_untouched_both_ways_and_reopening_is_no_hang_up() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("line");
        let pair = PtyPair::open(Some(&link)).unwrap();
        let all: Vec<u8> = (0..=255).collect();
        for _ in 0..2 {
            let mut slave = fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(&link)
                .unwrap();
            slave.write_all(&all).unwrap();
            // The kernel hands over what was written in pieces, and not at once.
            let (mut came, mut buffer) = (Vec::new(), [0; 512]);
            for _ in 0..10_000 {
                match pair.read(&mut buffer) {
                    Ok(octets) => came.extend_from_slice(&buffer[..octets]),
                    Err(_) => std::thread::sleep(std::time::Duration::from_millis(1)),
                }
                if came.len() >= all.len() {
                    break;
                }
            }
            assert_eq!(came, all);
            assert_eq!(pair.write(&all).unwrap(), 256);
            let mut back = vec![0; 256];
            slave.read_exact(&mut back).unwrap();
            assert_eq!(back, all);
        }
        let error = pair.read(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(pair);
        assert!(fs::symlink_metadata(&link).is_err());
    }

    #[test]
    fn a_file_that_is_no_link_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("precious");
        fs::write(&link, "kept").unwrap();
        assert!(PtyPair::open(Some(&link)).is_err());
        assert_eq!(fs::read_to_string(&link).unwrap(), "kept");
    }
}
