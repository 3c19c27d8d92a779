//! TLS, who a client is, and what may be kept of what it says of that.

use alloc::format;
use alloc::vec::Vec;

use strait_core::work::{Login, Sasl, Secret};

use super::{Event, LINE_OCTETS_MAX, Mode, Rules, Session, WRONG_MAX};
use crate::command::{NOT_HERE, secret_of};

impl Session {
    /// What may be kept of octets that are about to be taken: all but what is said by AUTH, in
    /// whose place are others. Nothing here depends on those, but on what comes of them elsewhere.
    /// `None` if there is nothing of the kind.
    pub fn conceal(&self, octets: &[u8], rules: &Rules<'_>) -> Option<Vec<u8>> {
        let mut all = [&self.input[..], octets].concat();
        let auth = |it: &[u8]| it.eq_ignore_ascii_case(b"AUTH");
        let within = matches!(self.mode, Mode::Login | Mode::LongLine | Mode::Closed);
        if !within && !all.windows(4).any(auth) {
            return None;
        }
        let mut ahead = self.clone();
        ahead.take(octets, rules);
        let mut secrets = match self.mode {
            Mode::Closed => alloc::vec![0..usize::MAX],
            _ => ahead.secrets,
        };
        // What isn't looked at yet: the beginning of a line, or commands that wait.
        let mut at = all.len() - ahead.input.len();
        if ahead.mode == Mode::Login {
            secrets.push(at..all.len());
        }
        for line in all[at..].split_inclusive(|it| *it == b'\n') {
            secrets.extend(secret_of(line).map(|start| at + start..at + line.len()));
            at += line.len();
        }
        for secret in secrets {
            let (start, end) = (secret.start.min(all.len()), secret.end.min(all.len()));
            // What ends lines and words, and fields of a header, stays as it is.
            let octets = all[start..end].iter_mut();
            let shown = octets.filter(|it| !matches!(it, b'\r' | b'\n' | b' ' | b':'));
            shown.for_each(|it| *it = b'x');
        }
        Some(all.split_off(self.input.len()))
    }

    /// It is behind TLS from now on. What was said before counts for nothing (RFC 3207).
    pub fn secured(&mut self) {
        self.secured = true;
        self.greeted = None;
        self.forget();
        if self.mode == Mode::Secures {
            self.mode = Mode::Commands;
        }
    }

    pub(super) fn start_tls(&mut self, rules: &Rules<'_>) {
        if !rules.tls || self.secured {
            return self.reply(NOT_HERE.0);
        }
        self.reply("220 2.0.0 begin");
        self.mode = Mode::Secures;
        self.events.push_back(Event::Secure);
    }

    pub(super) fn start_login(&mut self, by: Sasl, initial: Option<Secret>, rules: &Rules<'_>) {
        let refusal = match rules.users {
            false => Some(NOT_HERE.0),
            _ if !self.secured => Some("538 5.7.11 STARTTLS first"),
            _ if self.known || self.mail.is_some() => Some("503 5.5.1 not now"),
            _ => None,
        };
        if let Some(refusal) = refusal {
            return self.reply(refusal);
        }
        self.hear_login(by, initial.into_iter().collect());
    }

    pub(super) fn hear_login(&mut self, by: Sasl, said: Vec<Secret>) {
        self.events.push_back(Event::Login(by, said.clone()));
        self.login = Some((by, said));
        self.mode = Mode::Verifies;
    }

    /// Reads a line of AUTH, if it is whole.
    pub(super) fn read_login(&mut self, at: usize) -> Option<usize> {
        let rest = &self.input[at..];
        let Some(end) = rest.iter().position(|it| *it == b'\n') else {
            if rest.len() >= LINE_OCTETS_MAX {
                self.close("421 4.7.0 too much for a password");
            }
            return None;
        };
        let line = Secret(rest[..end].trim_ascii_end().to_vec());
        self.secrets.push(at..at + end);
        self.mode = Mode::Commands;
        self.commands += 1;
        if let Some((by, mut said)) = self.login.take() {
            said.push(line);
            self.hear_login(by, said);
        }
        Some(end + 1)
    }

    /// What came of what a client says of who it is; nothing if that couldn't be looked at.
    pub fn verified(&mut self, login: Option<Login>, rules: &Rules<'_>) {
        if self.mode != Mode::Verifies {
            return;
        }
        self.mode = Mode::Commands;
        match login {
            Some(Login::Is(_)) => {
                self.known = true;
                self.reply("235 2.7.0 welcome");
            }
            Some(Login::Asks(words)) => {
                self.reply(&format!("334 {words}"));
                self.mode = Mode::Login;
            }
            Some(Login::Garbled) => self.reply("501 5.5.2 malformed credentials"),
            Some(Login::ForOthers) => self.reply("535 5.7.8 no other identity than your own"),
            Some(Login::Wrong) => {
                self.reply("535 5.7.8 wrong name or password");
                self.wrong += 1;
                if self.wrong >= WRONG_MAX {
                    self.close("421 4.7.0 too many wrong passwords");
                }
            }
            None => self.reply("454 4.7.0 try again later"),
        }
        if self.mode != Mode::Login {
            self.login = None;
        }
        self.advance(rules);
    }
}
