//! The lab's folder: node files, link files, sockets, what the programs print.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::Uid;
use strait_live::error::{Doing, Error};

/// Beginning of the names of scratch folders.
const PREFIX: &str = "strait-lab-";
/// Held as long as the folder is in use: the kernel lets go of it however its holder ends.
const LOCK: &str = "lock";
/// A folder without a lock file may just have been made.
const YOUNG: Duration = Duration::from_secs(60);

/// A folder that goes with its lab, unless it is to be kept.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    keep: bool,
    _lock: Option<Flock<File>>,
}

impl Scratch {
    /// A folder of its own below the system's folder for temporary files, or `keep`, which stays.
    /// Folders of labs that were killed are removed first.
    pub(crate) fn create(keep: Option<&Path>) -> Result<Self, Error> {
        let parent = std::env::temp_dir();
        sweep(&parent);
        if let Some(path) = keep {
            let doing = || format!("create folder {}", path.display());
            fs::create_dir_all(path).doing(doing)?;
            return Ok(Self {
                path: fs::canonicalize(path).doing(doing)?,
                keep: true,
                _lock: None,
            });
        }
        let doing = || format!("create a folder in {}", parent.display());
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent);
        let path = folder.doing(doing)?.keep();
        let file = File::create(path.join(LOCK)).doing(doing)?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        Ok(Self {
            path,
            keep: false,
            _lock: Some(lock.map_err(|(_, errno)| errno).doing(doing)?),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.keep
    }

    /// Writes a file and says where it is.
    pub(crate) fn write(&self, name: &str, octets: &[u8]) -> Result<PathBuf, Error> {
        let path = self.file(name);
        let doing = || format!("write {}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).doing(doing)?;
        }
        fs::write(&path, octets).doing(doing)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Removes what labs that were killed left below `parent`.
fn sweep(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if ours && is_abandoned(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether a folder is ours and its lab is gone.
fn is_abandoned(path: &Path) -> bool {
    let Ok(found) = fs::symlink_metadata(path) else {
        return false;
    };
    if !found.is_dir() || found.uid() != Uid::effective().as_raw() {
        return false;
    }
    match File::open(path.join(LOCK)) {
        Ok(file) => Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok(),
        Err(_) => {
            let age = found.modified().ok().and_then(|at| at.elapsed().ok());
            age.is_some_and(|age| age > YOUNG)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_dead_labs_are_swept() {
        let parent = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let dead = folder("strait-lab-dead");
        fs::write(dead.join(LOCK), "").unwrap();
        let alive = folder("strait-lab-alive");
        let held = File::create(alive.join(LOCK)).unwrap();
        let held = Flock::lock(held, FlockArg::LockExclusiveNonblock).unwrap();
        let young = folder("strait-lab-young");
        let foreign = folder("something-else");
        sweep(parent.path());
        assert!(!dead.exists() && alive.exists() && young.exists() && foreign.exists());
        drop(held);
        sweep(parent.path());
        assert!(!alive.exists());
    }

    #[test]
    fn a_scratch_folder_goes_and_a_kept_one_stays() {
        let scratch = Scratch::create(None).unwrap();
        let path = scratch.path().to_path_buf();
        scratch.write("deep/file", b"x").unwrap();
        drop(scratch);
        assert!(!path.exists());
        let parent = tempfile::tempdir().unwrap();
        let keep = parent.path().join("kept");
        drop(Scratch::create(Some(&keep)).unwrap());
        assert!(keep.is_dir());
    }
}
