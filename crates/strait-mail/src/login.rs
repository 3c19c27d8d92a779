//! How a client says who it is: the lines of AUTH (RFC 4954).

use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use strait_core::work::Secret;

use crate::command::Mechanism;

/// Wrong passwords after which a client is done.
const WRONG_MAX: u32 = 3;

/// What a line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// All.
    Plain,
    /// The name.
    Name,
    /// The password of that.
    Password,
}

/// What came of a line.
#[derive(Debug)]
pub(crate) enum Said {
    /// The next is asked for, by these words.
    Asks(Step, &'static str),
    /// Somebody with a password.
    Is(String, Secret),
    /// Nothing, and this is the reply.
    Nothing(&'static str),
}

/// Who a client says it is.
#[derive(Debug, Default)]
pub(crate) struct Login {
    name: String,
    wrong: u32,
}

/// The first line that a mechanism asks for, and how.
pub(crate) const fn begin(by: Mechanism) -> (Step, &'static str) {
    match by {
        Mechanism::Plain => (Step::Plain, ""),
        // «Username:»
        Mechanism::Login => (Step::Name, "VXNlcm5hbWU6"),
    }
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

impl Login {
    /// A line.
    pub(crate) fn hear(&mut self, step: Step, line: &[u8]) -> Said {
        let Ok(said) = STANDARD.decode(line) else {
            return Said::Nothing("501 5.5.2 no base64");
        };
        match step {
            Step::Plain => plain(&said),
            Step::Name => {
                self.name = text(&said);
                // «Password:»
                Said::Asks(Step::Password, "UGFzc3dvcmQ6")
            }
            Step::Password => Said::Is(core::mem::take(&mut self.name), Secret(said)),
        }
    }

    /// A password was wrong: whether that was once too often.
    pub(crate) const fn is_wrong(&mut self) -> bool {
        self.wrong += 1;
        self.wrong >= WRONG_MAX
    }
}

/// For whom, who, and the password (RFC 4616).
fn plain(said: &[u8]) -> Said {
    let parts: Vec<&[u8]> = said.split(|it| *it == 0).collect();
    match parts[..] {
        [b"", name, password] => Said::Is(text(name), Secret(password.to_vec())),
        [other, name, password] if other == name => Said::Is(text(name), Secret(password.to_vec())),
        [_, _, _] => Said::Nothing("535 5.7.8 nobody speaks for others here"),
        _ => Said::Nothing("501 5.5.2 PLAIN has three parts"),
    }
}
