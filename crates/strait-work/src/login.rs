//! Who somebody is by what it says: the mechanisms of SASL (RFC 4422) from the side that asks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use strait_core::work::{Login, Sasl, Secret};

use crate::password;

/// The password that simulated hosts have: they read no files.
pub(crate) const SIMULATED: &[u8] = b"simulated";

/// The line by which somebody says who it is (PLAIN).
pub fn line(name: &str, password: &[u8]) -> Vec<u8> {
    let said = [b"\0", name.as_bytes(), b"\0", password].concat();
    STANDARD.encode(said).into_bytes()
}

/// What comes of what somebody has said so far, with the password of simulated hosts or a real one.
pub(crate) fn simulated(by: Sasl, said: &[Secret], users: &[(String, String)]) -> Login {
    let own = |(name, _): &(String, String)| Secret(line(name, SIMULATED));
    let found = users.iter().position(|it| said == [own(it)]);
    match found.filter(|_| by == Sasl::Plain) {
        Some(found) => Login::Is(found),
        None => answer(by, said, users),
    }
}

/// What comes of what somebody has said so far.
pub(crate) fn answer(by: Sasl, said: &[Secret], users: &[(String, String)]) -> Login {
    let lines = said.iter().map(|line| match &line.0[..] {
        // An empty one (RFC 4954 section 4).
        b"=" => Ok(Vec::new()),
        line => STANDARD.decode(line),
    });
    let Ok(lines) = lines.collect::<Result<Vec<_>, _>>() else {
        return Login::Garbled;
    };
    let asks = |words: &str| Login::Asks(STANDARD.encode(words));
    match (by, &lines[..]) {
        (Sasl::Plain, []) => asks(""),
        (Sasl::Plain, [line]) => plain(line, users),
        (Sasl::Login, []) => asks("Username:"),
        (Sasl::Login, [_]) => asks("Password:"),
        (Sasl::Login, [name, password]) => verify(name, password, users),
        _ => Login::Garbled,
    }
}

/// For whom, who, and the password.
fn plain(said: &[u8], users: &[(String, String)]) -> Login {
    let parts: Vec<&[u8]> = said.split(|it| *it == 0).collect();
    match parts[..] {
        [b"", name, password] => verify(name, password, users),
        [other, name, password] if other == name => verify(name, password, users),
        [_, _, _] => Login::ForOthers,
        _ => Login::Garbled,
    }
}

/// Has a password looked at. That of nobody takes as long.
fn verify(name: &[u8], password: &[u8], users: &[(String, String)]) -> Login {
    let at = users.iter().position(|(own, _)| own.as_bytes() == name);
    let kept = users.get(at.unwrap_or(0));
    let right = kept.is_some_and(|(_, kept)| password::verify(kept, password));
    at.filter(|_| right).map_or(Login::Wrong, Login::Is)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users() -> Vec<(String, String)> {
        let kept = |password: &[u8]| password::hash(password).unwrap();
        vec![
            ("ops".into(), kept(b"secret")),
            ("x".into(), kept(b"other")),
        ]
    }

    fn said(by: Sasl, lines: &[&str]) -> Login {
        let lines: Vec<Secret> = lines.iter().map(|it| Secret((*it).into())).collect();
        answer(by, &lines, &users())
    }

    #[test]
    fn plain_has_three_parts_and_speaks_for_itself() {
        let plain = |text: &str| said(Sasl::Plain, &[&STANDARD.encode(text)]);
        assert_eq!(plain("\0ops\0secret"), Login::Is(0));
        assert_eq!(plain("x\0x\0other"), Login::Is(1));
        assert_eq!(plain("\0ops\0other"), Login::Wrong);
        assert_eq!(plain("\0nobody\0secret"), Login::Wrong);
        assert_eq!(plain("x\0ops\0secret"), Login::ForOthers);
        for garbled in ["", "ops", "\0ops", "\0ops\0secret\0"] {
            assert_eq!(plain(garbled), Login::Garbled, "{garbled}");
        }
        assert_eq!(said(Sasl::Plain, &["*"]), Login::Garbled);
        assert_eq!(said(Sasl::Plain, &[]), Login::Asks(String::new()));
    }

    #[test]
    fn simulated_hosts_have_a_password_of_their_own() {
        let said = [Secret(line("x", SIMULATED))];
        assert_eq!(answer(Sasl::Plain, &said, &users()), Login::Wrong);
        assert_eq!(simulated(Sasl::Plain, &said, &users()), Login::Is(1));
        let real = [Secret(line("ops", b"secret"))];
        assert_eq!(simulated(Sasl::Plain, &real, &users()), Login::Is(0));
    }

    #[test]
    fn login_asks_for_one_after_the_other() {
        let (name, password) = ("b3Bz", "c2VjcmV0");
        assert_eq!(said(Sasl::Login, &[]), Login::Asks("VXNlcm5hbWU6".into()));
        assert_eq!(
            said(Sasl::Login, &[name]),
            Login::Asks("UGFzc3dvcmQ6".into())
        );
        assert_eq!(said(Sasl::Login, &[name, password]), Login::Is(0));
        assert_eq!(said(Sasl::Login, &[name, "="]), Login::Wrong);
        assert_eq!(said(Sasl::Login, &[name, name, name]), Login::Garbled);
    }

    #[test]
    fn where_there_are_no_users_nobody_is_one() {
        let line = Secret(STANDARD.encode("\0ops\0secret").into());
        assert_eq!(answer(Sasl::Plain, &[line], &[]), Login::Wrong);
    }
}
