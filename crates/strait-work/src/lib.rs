//! The work that nodes give away ([`strait_core::work`]), done the same in both worlds.
//!
//! It is a crate of its own because simulation and gateways, which never meet, both need it, and
//! because of its library in C, which no other crate should have.

pub mod login;
pub mod password;

use std::io::{self, Read};

use sha2::{Digest, Sha256};
use strait_core::work::{Work, WorkError};
use zstd::bulk::Compressor;
use zstd::stream::read::Decoder;

/// Of Zstandard: its own default, where more time gains little.
const LEVEL: i32 = 3;

/// The logarithm of the largest window that is decompressed.
const WINDOW_LOG_MAX: u32 = 23;

/// Does a piece of work.
///
/// # Errors
/// As [`WorkError`] says, but never that too much waits.
pub fn perform(work: &Work) -> Result<Vec<u8>, WorkError> {
    let broken = |_| WorkError::Broken;
    match work {
        Work::Digest(octets) => Ok(Sha256::digest(octets).to_vec()),
        Work::Compress { octets, behind } => compress(octets, behind).map_err(broken),
        Work::LogIn {
            by, said, users, ..
        } => Ok(login::answer(*by, said, users).encode()),
        // A driver with files does these itself.
        Work::Credential { name, .. } => Ok(login::line(name, login::SIMULATED)),
        Work::Deliver { .. } => Ok(Vec::new()),
        // Nothing at all is no frame, either.
        Work::Decompress { octets, .. } if octets.is_empty() => Err(WorkError::Broken),
        Work::Decompress {
            octets,
            octets_max,
            behind,
        } => {
            let found = decompress(octets, u64::from(*octets_max), behind).map_err(broken)?;
            let fits = found.len() as u64 <= u64::from(*octets_max);
            fits.then_some(found).ok_or(WorkError::TooLong)
        }
    }
}

/// The same where no file has a password: those who name one of the users without any of its
/// own are it.
///
/// # Errors
/// As [`perform`].
pub fn perform_simulated(work: &Work) -> Result<Vec<u8>, WorkError> {
    match work {
        Work::LogIn {
            by, said, users, ..
        } => Ok(login::simulated(*by, said, users).encode()),
        work => perform(work),
    }
}

/// A frame with a check of what is in it: behind something else it would be something else.
fn compress(octets: &[u8], behind: &[u8]) -> io::Result<Vec<u8>> {
    let mut compressor = Compressor::with_dictionary(LEVEL, behind)?;
    compressor.include_checksum(true)?;
    compressor.compress(octets)
}

/// At most one octet more than `most` of what is in frames.
fn decompress(frames: &[u8], most: u64, behind: &[u8]) -> io::Result<Vec<u8>> {
    let mut decoder = Decoder::with_dictionary(frames, behind)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    let mut found = Vec::new();
    decoder.take(most + 1).read_to_end(&mut found)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack(octets: &[u8], octets_max: u32) -> Result<Vec<u8>, WorkError> {
        perform(&Work::Decompress {
            octets: octets.to_vec(),
            octets_max,
            behind: Vec::new(),
        })
    }

    fn pack(octets: &[u8], behind: &[u8]) -> Vec<u8> {
        let (octets, behind) = (octets.to_vec(), behind.to_vec());
        perform(&Work::Compress { octets, behind }).unwrap()
    }

    #[test]
    fn frames_behind_each_other_are_one() {
        let both = [pack(b"one", b""), pack(b"two", b"")].concat();
        assert_eq!(unpack(&both, 6), Ok(b"onetwo".to_vec()));
        assert_eq!(unpack(&both, 5), Err(WorkError::TooLong));
    }

    #[test]
    fn what_both_have_already_costs_little() {
        let behind: Vec<u8> = (0..2000_u32).flat_map(u32::to_be_bytes).collect();
        let octets = behind[2000..6000].to_vec();
        let frame = pack(&octets, &behind);
        assert!(frame.len() < 30, "{}", frame.len());
        let unpack = |behind| Work::Decompress {
            octets: frame.clone(),
            octets_max: 4000,
            behind,
        };
        assert_eq!(perform(&unpack(behind)), Ok(octets));
        // Behind something else it would be something else.
        assert_eq!(perform(&unpack(vec![1; 8000])), Err(WorkError::Broken));
    }

    /// A frame's header names its window: one of 16 MiB is refused before anything is in it.
    #[test]
    fn large_windows_are_refused() {
        let frame = |exponent: u8| {
            let raw = [1 | 1 << 3, 0, 0, b'x'];
            [&[0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3][..], &raw].concat()
        };
        assert_eq!(unpack(&frame(13), 9), Ok(b"x".to_vec()));
        assert_eq!(unpack(&frame(14), 9), Err(WorkError::Broken));
    }
}
