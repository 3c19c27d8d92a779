//! MGEN 5, the traffic generator of the Naval Research Laboratory: its scripts, its patterns and
//! its text logs, as simulated hosts, the lab and `strait measure flows` use them.
//!
//! A [`Script`] says which flows send what and when; a [`Player`] plays it: it tells its driver at
//! each moment which flow begins, changes, sends or ends. The driver has the sockets. So a script
//! means the same in virtual time and live, to the last random gap. [`Line`] is a line of a log.

mod capture;
mod log;
mod parse;
mod parse_pattern;
mod pattern;
mod player;
mod review;
mod script;
mod words;

pub use capture::{CaptureError, Cloned, read_capture};
pub use log::{Ending, Entry, Line, LogError, Recv, Send, micros_of_day};
pub use parse::ScriptError;
pub use pattern::{Gaps, Pattern, Rate};
pub use player::{Action, Flow, Player};
pub use script::{
    Event, FlowOptions, Globals, Group, MESSAGE_OCTETS_MAX, PortRange, Protocol, Script, Start,
    Warning, What,
};

#[cfg(test)]
mod parse_tests;
#[cfg(test)]
mod player_tests;
