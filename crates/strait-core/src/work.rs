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
    /// Somebody says who it is: which of the users that is. It gives a [`Login`]. A name that
    /// nobody has takes as long as a wrong password.
    LogIn {
        /// How it says so.
        by: Sasl,
        /// The lines that it has said so far, in base64 as they came.
        said: Vec<Secret>,
        /// What nobody has said before, for mechanisms that want such a thing.
        nonce: String,
        /// Names, and what was made of their passwords: a word, rounds, salt and hash with `$`
        /// between.
        users: Vec<(String, String)>,
    },
    /// A line by which this host says who it is (PLAIN), with the password in a file. It gives the
    /// line, which is for nobody else's eyes.
    Credential {
        /// The name.
        name: String,
        /// The file.
        file: String,
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

/// How somebody says who it is (RFC 4422).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sasl {
    /// Name and password at once (RFC 4616).
    Plain,
    /// One after the other: it is in no standard, and in many programs.
    Login,
}

impl Sasl {
    /// All of them, the best first.
    pub const ALL: [Self; 2] = [Self::Plain, Self::Login];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Login => "LOGIN",
        }
    }

    /// By its name.
    pub fn named(word: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|it| it.name().eq_ignore_ascii_case(word))
    }
}

/// What came of what somebody said of who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// It is this one of the users.
    Is(usize),
    /// It is to say more, and is asked by this, in base64.
    Asks(String),
    /// It said nothing that the mechanism has.
    Garbled,
    /// It wants to speak for somebody else.
    ForOthers,
    /// The name or the password is wrong.
    Wrong,
}

impl Login {
    /// As octets: what a driver answers.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Is(n) => [&[0][..], &(*n as u32).to_le_bytes()].concat(),
            Self::Asks(words) => [&[1][..], words.as_bytes()].concat(),
            Self::Garbled => alloc::vec![2],
            Self::ForOthers => alloc::vec![3],
            Self::Wrong => alloc::vec![4],
        }
    }

    /// What [`Self::encode`] wrote; `None` if it is something else.
    pub fn decode(octets: &[u8]) -> Option<Self> {
        let (kind, rest) = octets.split_first()?;
        Some(match (kind, rest) {
            (0, rest) => Self::Is(u32::from_le_bytes(rest.try_into().ok()?) as usize),
            (1, words) => Self::Asks(core::str::from_utf8(words).ok()?.into()),
            (2, []) => Self::Garbled,
            (3, []) => Self::ForOthers,
            (4, []) => Self::Wrong,
            _ => return None,
        })
    }
}

/// Octets that nothing shows.
#[derive(Clone, Default, PartialEq, Eq)]
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
            Self::Credential { name, file } => name.len() + file.len(),
            Self::LogIn { said, users, .. } => {
                let said: usize = said.iter().map(|it| it.0.len()).sum();
                let users = users.iter().map(|(name, kept)| name.len() + kept.len());
                said + users.sum::<usize>()
            }
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
    /// The octets aren't whole frames.
    Broken,
    /// Too much waits to be done already.
    Busy,
    /// The host's files can't be read or written.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_a_login_reads_back() {
        let all = [
            Login::Is(255),
            Login::Asks("VXNlcm5hbWU6".into()),
            Login::Asks(String::new()),
            Login::Garbled,
            Login::ForOthers,
            Login::Wrong,
        ];
        for login in all {
            assert_eq!(Login::decode(&login.encode()), Some(login));
        }
        for wrong in [&[][..], &[0, 1], &[2, 0], &[5], &[1, 0xff]] {
            assert_eq!(Login::decode(wrong), None, "{wrong:?}");
        }
    }
}
