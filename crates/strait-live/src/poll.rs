//! Waiting for descriptors.

use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use strait_core::time::Duration;

/// Waits until one of the descriptors is ready or `patience` has passed, without one for as long as
/// it takes. A signal ends the wait.
///
/// # Errors
/// The system can't wait for them.
pub fn wait(descriptors: &mut [PollFd<'_>], patience: Option<Duration>) -> Result<(), Errno> {
    match ppoll(descriptors, patience.map(TimeSpec::from_duration), None) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Waits until there is something to read, as [`wait`] does.
///
/// # Errors
/// The system can't wait for them.
pub fn wait_to_read(descriptors: &[BorrowedFd<'_>], patience: Duration) -> Result<(), Errno> {
    let of = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
    let mut ready: Vec<PollFd<'_>> = descriptors.iter().copied().map(of).collect();
    wait(&mut ready, Some(patience))
}
