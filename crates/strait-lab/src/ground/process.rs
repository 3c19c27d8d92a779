//! Programs of a lab: started in a namespace, with what they print in files.

use std::fmt::Display;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use nix::sys::signal::Signal;
use strait_core::time::Duration;
use strait_live::error::Error;
use strait_live::kernel::namespace::{Namespace, Process, capture};

use crate::{LabError, Stage};

/// A running program.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    name: String,
    process: Process,
    out: PathBuf,
    err: PathBuf,
}

impl Stage<'_> {
    /// A path in /run as that of a file of the lab's: machines of a lab share the file system.
    pub(crate) fn of_run(&self, machine: &str, path: &str) -> String {
        path.strip_prefix("/run/").map_or_else(
            || path.to_owned(),
            |name| {
                let file = format!("{machine}-{}", name.replace('/', "-"));
                self.scratch.file(&file).display().to_string()
            },
        )
    }

    /// Starts a program in a namespace, without a terminal: in a process group of its own, so
    /// that an interrupt from the keyboard reaches only us, and we end them in order.
    pub(crate) fn start(
        &self,
        namespace: &Namespace,
        name: &str,
        mut command: Command,
    ) -> Result<Running, LabError> {
        capture(&mut command, self.scratch.path(), name)?;
        command.stdin(Stdio::null()).process_group(0);
        let process = self.nursery.spawn(Some(namespace), command)?;
        Ok(Running {
            name: name.to_owned(),
            process,
            out: self.scratch.file(&format!("{name}.out")),
            err: self.scratch.file(&format!("{name}.err")),
        })
    }
}

impl Running {
    /// What it printed so far.
    pub(crate) fn output(&self) -> String {
        let octets = fs::read(&self.out).unwrap_or_default();
        String::from_utf8_lossy(&octets).into_owned()
    }

    /// What it complained about so far.
    pub(crate) fn complaints(&self) -> String {
        let octets = fs::read(&self.err).unwrap_or_default();
        String::from_utf8_lossy(&octets).trim().to_owned()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Sends a signal, if it still runs.
    pub(crate) fn signal(&self, signal: Signal) {
        // It may have ended meanwhile, which is what most signals are about.
        let _ = self.process.signal(signal);
    }

    /// Waits for its end; false if it still runs after `patience`.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        matches!(self.process.wait(patience), Ok(Some(_)))
    }

    /// Sends a signal and waits for its end, as [`Running::wait`] does.
    pub(crate) fn end_by(&self, signal: Signal, patience: Duration) -> bool {
        self.signal(signal);
        self.wait(patience)
    }

    /// An end before its time is an error, told with the last of its complaints.
    pub(crate) fn expect_alive(&self) -> Result<(), LabError> {
        match self.ended() {
            None => Ok(()),
            Some(status) => {
                let complaints = self.complaints();
                let last = complaints.lines().last().unwrap_or_default();
                let why = format!("it ended with {status}: {last}");
                Err(Error::invalid(format!("keep `{}` running", self.name), why).into())
            }
        }
    }
}

/// Asks all of them to end, and then waits so long for each.
pub(crate) fn end_together(all: &[Running], patience: Duration) {
    for running in all {
        running.signal(Signal::SIGTERM);
    }
    for running in all {
        running.wait(patience);
    }
}

/// A configuration that can't be written as a file of its own.
pub(crate) fn unwritable(name: &str, error: impl Display) -> LabError {
    LabError::Scenario(format!("the configuration of `{name}`: {error}"))
}

/// Complains about a program that isn't in the PATH, with the package of Debian that has it.
///
/// # Errors
/// If it isn't there.
pub fn require(program: &str, package: &str) -> Result<(), Error> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    if found {
        return Ok(());
    }
    let error = Error::invalid(format!("start `{program}`"), "it isn't in the PATH");
    Err(error.with_remedy(format!("on Debian: apt install {package}")))
}
