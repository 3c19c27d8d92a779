//! Maildirs: a file for each message, written where nobody looks and then moved to where programs
//! look.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use strait_core::work::WorkError;

use crate::fail_points::{FailPoint, pass};

/// Puts a message into a Maildir.
pub(super) fn deliver(folder: &str, name: &str, octets: &[u8]) -> Result<Vec<u8>, WorkError> {
    match write(Path::new(folder), name, octets) {
        Ok(()) => Ok(Vec::new()),
        Err(error) => {
            tracing::warn!(%folder, %error, "a mailbox can't be written");
            Err(WorkError::Host)
        }
    }
}

fn write(folder: &Path, name: &str, octets: &[u8]) -> io::Result<()> {
    let [tmp, new, cur] = ["tmp", "new", "cur"].map(|it| folder.join(it));
    for folder in [&tmp, &new, &cur] {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    // Programs move what has been read to `cur`, and add their flags.
    if new.join(name).exists() || is_read(&cur, name)? {
        return Ok(());
    }
    let path = tmp.join(name);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&path)?;
    file.write_all(octets)?;
    file.sync_all()?;
    pass(FailPoint::FileWritten);
    fs::rename(&path, new.join(name))?;
    pass(FailPoint::FileMoved);
    File::open(&new)?.sync_all()?;
    pass(FailPoint::FileStable);
    Ok(())
}

fn is_read(cur: &Path, name: &str) -> io::Result<bool> {
    for entry in fs::read_dir(cur)? {
        let found = entry?.file_name();
        let found = found.to_string_lossy();
        if found.split(':').next() == Some(name) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_lies_in_new_once() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("a/ops@a.example");
        let to = folder.to_str().unwrap();
        assert_eq!(deliver(to, "1.M1.a", b"text\n"), Ok(Vec::new()));
        assert_eq!(fs::read(folder.join("new/1.M1.a")).unwrap(), b"text\n");
        fs::rename(folder.join("new/1.M1.a"), folder.join("cur/1.M1.a:2,S")).unwrap();
        assert_eq!(deliver(to, "1.M1.a", b"text\n"), Ok(Vec::new()));
        assert_eq!(fs::read_dir(folder.join("new")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(folder.join("tmp")).unwrap().count(), 0);
        fs::write(scratch.path().join("file"), "").unwrap();
        let no_folder = scratch.path().join("file");
        let to = no_folder.to_str().unwrap();
        assert_eq!(deliver(to, "1.M1.a", b"text"), Err(WorkError::Host));
    }
}
