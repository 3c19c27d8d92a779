//! Work that isn't for a node's thread, as a voice packet would wait for it: what is asked of a
//! driver, and how much may wait.
//!
//! One piece is done at a time, and they are answered in the order in which they were asked for.
//! What is asked for beyond [`WAITING_MAX`] or [`WAITING_OCTETS_MAX`] is refused at once, before
//! what waits. Of what an incarnation asked for, a later one hears nothing.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Pieces of work of a node that wait to be done, at most: more would only wait longer.
pub const WAITING_MAX: usize = 256;

/// Octets of those, what they may give included. One larger piece goes alone.
pub const WAITING_OCTETS_MAX: usize = 16 << 20;

/// The octets of a digest.
pub const DIGEST_OCTETS: usize = 32;

/// A piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Octets become a frame of Zstandard (RFC 8878). The same octets give the same frame.
    Compress {
        /// The octets.
        octets: Vec<u8>,
        /// What whoever decompresses them has already: they may repeat some of it.
        behind: Vec<u8>,
    },
    /// Frames of Zstandard become the octets in them. Windows of more than 8 MiB are refused, as
    /// the RFC recommends (section 3.1.1.1.2).
    Decompress {
        /// The frames.
        octets: Vec<u8>,
        /// The most octets that may be in them.
        octets_max: u32,
        /// What they were compressed behind.
        behind: Vec<u8>,
    },
    /// The SHA-256 of octets (FIPS 180-4).
    Digest(Vec<u8>),
    /// A password is the one of which this was made. It gives nothing.
    Verify {
        /// What was made of it: a word, rounds, salt and hash with `$` between.
        hash: String,
        /// What somebody says it is.
        password: Secret,
    },
    /// A file with these octets in `new` of a Maildir, which is made if it isn't there. It gives
    /// nothing, and when it is done the file is on stable storage. A name that is there already has
    /// been delivered before, and is left as it is. A simulated node has no folders: it is as if.
    Deliver {
        /// The Maildir.
        folder: String,
        /// The file's name, one component of a path.
        name: String,
        /// What is in it.
        octets: Vec<u8>,
    },
}

/// Octets that nothing shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Work {
    /// Octets that it brings, or may give.
    pub fn octets(&self) -> usize {
        match self {
            Self::Digest(octets) | Self::Deliver { octets, .. } => octets.len(),
            Self::Verify { hash, password } => hash.len() + password.0.len(),
            Self::Compress { octets, behind } => octets.len() + behind.len(),
            Self::Decompress {
                octets,
                octets_max,
                behind,
            } => octets.len().max(*octets_max as usize) + behind.len(),
        }
    }
}

/// Why work wasn't done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkError {
    /// There are more octets in the frames than may be.
    TooLong,
    /// The octets aren't whole frames; or a password is another one.
    Broken,
    /// Too much waits to be done already.
    Busy,
    /// The host's files can't be written.
    Host,
}

/// How much waits at a driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    pieces: usize,
    octets: usize,
}

impl Waiting {
    /// Takes a piece of so many octets if it may wait too.
    ///
    /// # Errors
    /// It is too much.
    pub const fn take(&mut self, octets: usize) -> Result<(), WorkError> {
        let after = self.octets.saturating_add(octets);
        let alone = self.pieces == 0;
        if !alone && (self.pieces >= WAITING_MAX || after > WAITING_OCTETS_MAX) {
            return Err(WorkError::Busy);
        }
        self.pieces += 1;
        self.octets = after;
        Ok(())
    }

    /// A piece of so many octets is done.
    pub const fn done(&mut self, octets: usize) {
        self.pieces -= 1;
        self.octets -= octets;
    }
}
