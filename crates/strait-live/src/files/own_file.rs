//! Files that a gateway makes for itself.
//!
//! It runs as root, and what it writes holds what users said: a file is its owner's alone, and is
//! nothing but a file. A pipe that nobody reads would hold the gateway up; a link would have it
//! write over what somebody else chose.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::libc;
use nix::unistd::geteuid;

use crate::error::Error;

/// Opens the file at `path` for writing from its beginning, and makes it if it isn't there.
///
/// # Errors
/// Something else than a file is there, or the system says no.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let file = adopt(path)?;
    file.set_len(0)?;
    Ok(file)
}

/// Opens the file at `path` for writing, and makes it if it isn't there. What it holds stays.
///
/// # Errors
/// As [`create`].
pub(crate) fn adopt(path: &Path) -> io::Result<File> {
    check(path)?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    // Should it have become something else meanwhile.
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.open(path)?;
    let found = file.metadata()?;
    refuse_others(&found)?;
    refuse_shared(&found)?;
    // One that was there keeps its mode otherwise.
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Opens the file at `path` for reading.
///
/// # Errors
/// As [`create`], and if it isn't there.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    check(path)?;
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.open(path)?;
    refuse_others(&file.metadata()?)?;
    Ok(file)
}

/// Whether a file is at `path`; an error if it is something else.
pub(crate) fn check(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) => refuse_others(&found).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn refuse_others(found: &fs::Metadata) -> io::Result<()> {
    let kind = found.file_type();
    let what = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_symlink() => "a symbolic link is there",
        _ if kind.is_fifo() => "a pipe is there",
        _ if kind.is_dir() => "a directory is there",
        _ if kind.is_socket() => "a socket is there",
        _ => "a device is there",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// What is written to a file is everybody's who has it by another name, or made it.
fn refuse_shared(found: &fs::Metadata) -> io::Result<()> {
    let what = match (found.uid(), found.nlink()) {
        (owner, _) if owner != geteuid().as_raw() => "another user's file is there",
        (_, 2..) => "a file with another hard link is there",
        _ => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// What helps against an error of these functions.
pub(crate) fn with_remedy(error: Error) -> Error {
    if error.kind() == io::ErrorKind::InvalidInput {
        return error.with_remedy("the gateway writes only to its own files: name another path");
    }
    error
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn only_a_file_will_do_and_it_is_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "old").unwrap();
        fs::set_permissions(path("file"), Permissions::from_mode(0o644)).unwrap();
        symlink(path("file"), path("link")).unwrap();
        symlink(path("nothing"), path("dangling")).unwrap();
        mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
        fs::create_dir(path("folder")).unwrap();
        let others = ["link", "dangling", "pipe", "folder"].map(path);
        for other in others
            .iter()
            .map(|it| &**it)
            .chain([Path::new("/dev/full")])
        {
            for error in [create(other).unwrap_err(), open(other).unwrap_err()] {
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{other:?}");
            }
        }
        assert!(!path("nothing").exists());
        assert_eq!(fs::read(path("file")).unwrap(), b"old");
        assert_eq!(
            open(&path("new")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        fs::write(path("named"), "twice").unwrap();
        fs::hard_link(path("named"), path("again")).unwrap();
        let mut refused = vec!["again"];
        if geteuid().is_root() {
            fs::write(path("other's"), "twice").unwrap();
            std::os::unix::fs::chown(path("other's"), Some(65_534), None).unwrap();
            refused.push("other's");
        }
        for name in refused {
            let error = create(&path(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
            assert_eq!(fs::read(path(name)).unwrap(), b"twice");
        }
        for name in ["file", "new"] {
            let file = create(&path(name)).unwrap();
            let found = file.metadata().unwrap();
            assert_eq!(
                (found.permissions().mode() & 0o777, found.len()),
                (0o600, 0)
            );
        }
    }
}
