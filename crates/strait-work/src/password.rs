//! What is kept of passwords: PBKDF2 of HMAC-SHA-256 (RFC 8018), as
//! `pbkdf2-sha256$ROUNDS$SALT$HASH`, the last two in base64.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::pbkdf2::{self, PBKDF2_HMAC_SHA256};
use ring::rand::{SecureRandom, SystemRandom};

/// The word that it begins with.
const KIND: &str = "pbkdf2-sha256";
/// Rounds of what is made here: some tens of milliseconds of a small machine, for each try.
const ROUNDS: u32 = 100_000;
/// More of them would hold up other work for seconds.
const ROUNDS_MAX: u32 = 5_000_000;
const SALT_OCTETS: usize = 16;
const HASH_OCTETS: usize = 32;

/// What is kept of a password; `None` if the host has no randomness.
pub fn hash(password: &[u8]) -> Option<String> {
    let mut salt = [0; SALT_OCTETS];
    SystemRandom::new().fill(&mut salt).ok()?;
    let rounds = NonZeroU32::new(ROUNDS)?;
    let mut hash = [0; HASH_OCTETS];
    pbkdf2::derive(PBKDF2_HMAC_SHA256, rounds, &salt, password, &mut hash);
    let [salt, hash] = [&salt[..], &hash].map(|it| STANDARD_NO_PAD.encode(it));
    Some(format!("{KIND}${ROUNDS}${salt}${hash}"))
}

/// Whether a password is the one of which this was made.
pub fn verify(kept: &str, password: &[u8]) -> bool {
    parse(kept).is_some_and(|(rounds, salt, hash)| {
        pbkdf2::verify(PBKDF2_HMAC_SHA256, rounds, &salt, password, &hash).is_ok()
    })
}

fn parse(kept: &str) -> Option<(NonZeroU32, Vec<u8>, Vec<u8>)> {
    let mut words = kept.split('$');
    words.next().filter(|it| *it == KIND)?;
    let rounds: NonZeroU32 = words.next()?.parse().ok()?;
    let salt = STANDARD_NO_PAD.decode(words.next()?).ok()?;
    let hash = STANDARD_NO_PAD.decode(words.next()?).ok()?;
    let fits = rounds.get() <= ROUNDS_MAX && hash.len() == HASH_OCTETS && words.next().is_none();
    fits.then_some((rounds, salt, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_its_own_alone() {
        let kept = hash(b"secret").unwrap();
        assert!(verify(&kept, b"secret") && !verify(&kept, b"Secret"));
        assert_ne!(kept, hash(b"secret").unwrap());
        // Of PBKDF2-HMAC-SHA-256 with "password", "salt" and 4096 rounds, as others have it.
        let known = "pbkdf2-sha256$4096$c2FsdA$xeR41ZKIyEGqUw22hFxMjZYok6ABzk4RpJY4c6qYE0o";
        assert!(verify(known, b"password"));
    }

    #[test]
    fn what_is_nothing_of_the_kind_fits_no_password() {
        let hash = "A".repeat(43);
        for wrong in [
            "",
            "secret",
            "pbkdf2-sha256$0$c2FsdA$",
            &format!("pbkdf2-sha256$9999999$c2FsdA${hash}"),
            &format!("md5$1$c2FsdA${hash}"),
            &format!("pbkdf2-sha256$1$?${hash}"),
            &format!("pbkdf2-sha256$1$c2FsdA${hash}$x"),
        ] {
            assert!(!verify(wrong, b"") && !verify(wrong, b"secret"), "{wrong}");
        }
    }
}
