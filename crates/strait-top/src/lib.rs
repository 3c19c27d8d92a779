//! What gateways say of themselves, on a terminal: why it is slow, and below it links, classes,
//! flows, calls and what else a node has, the worst first.
//!
//! It asks status sockets, as `strait status` does: a terminal that takes nothing costs a gateway
//! nothing. It is for 80 columns and 24 lines, a line of 9600 baud and no colour as well: only
//! cells that changed are sent, in ASCII.

mod app;
mod choices;
mod counters;
mod draw;
mod film;
mod node;
mod table;
mod terminal;
#[cfg(test)]
mod tests;
mod views;

pub use app::{App, Heard, Options};
pub use draw::picture;
pub use film::{Film, SPEED_MAX};
pub use node::Moment;
pub use terminal::{is_plain, play, show, unable};
