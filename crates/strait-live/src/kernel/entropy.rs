//! Randomness from the kernel.

use std::fs::File;
use std::io::{self, Read};

/// A number that nobody else knows.
///
/// # Errors
/// Those of `/dev/urandom`.
pub(crate) fn entropy() -> io::Result<u64> {
    let mut octets = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut octets)?;
    Ok(u64::from_le_bytes(octets))
}
