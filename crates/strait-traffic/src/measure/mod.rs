//! Measured transfers over TCP: what `strait measure tcp` does over real sockets, and what a
//! `tcp` traffic with `sizes` does in a simulation.
//!
//! A transfer has a connection of its own. The client sends a short [`Request`], the server
//! answers at once with a [`Greeting`] and the content flows one way; the server ends with a
//! [`Report`] of what it alone could see. [`Client`] and [`Server`] are machines without sockets
//! or clocks, so that both worlds run the same octets and get the same [`TransferRecord`].
//!
//! What is measured, all on the client's clock and from its call to connect on:
//!
//! * *connect*: until the client may send;
//! * *total*: until the receiving application has the last octet of content;
//! * *last octet*: from when the sender's TCP took the last octet of content from the application
//!   until the receiving application has it: the time that data spends in buffers and on the way
//!   when a transfer ends;
//! * *use*: octets of content times 8 over the link's rate times the total time.
//!
//! The server's times come on its own clock. On one host that is the client's (the greeting says
//! which clock it is). Otherwise the request and the greeting give the difference, as the four
//! times of an exchange do in NTP (RFC 5905 section 8), and half of what the exchange took is
//! told as the error that this may have.

mod client;
mod flow;
mod record;
mod server;
mod table;
mod timeline;
mod wire;

use std::collections::BTreeSet;

use strait_core::Duration;

pub use self::client::Client;
pub use self::record::{Facts, Failure, TransferRecord};
pub use self::server::{Due, Server};
pub use self::table::{label, measurements, metric_labels, tables};
pub use self::timeline::{Bin, Timeline};
pub use self::wire::{Direction, Garbled, Greeting, Report, Request, Verdict};

/// Several transfers one after another: every size in every direction, so many times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// Octets of content.
    pub sizes: Vec<u32>,
    /// Which way.
    pub directions: Vec<Direction>,
    /// How often each.
    pub runs: u32,
    /// Length of the intervals in which progress is noted.
    pub interval: Duration,
    /// How long a transfer may take.
    pub timeout: Duration,
    /// Code point that both ends send with.
    pub dscp: u8,
    /// Congestion control of the sending end; the system's own choice if empty.
    pub congestion: String,
    /// Seed of the content.
    pub seed: u32,
}

impl Campaign {
    /// Transfers of one campaign. A traffic of a scenario has so many ports for its connections.
    pub const TRANSFERS_MAX: usize = 64;
    /// How long a transfer may take if nothing else is said: longer than the longest of those
    /// that were measured over HF radio with such a tool.
    pub const TIMEOUT: Duration = Duration::from_secs(7200);
    /// The longest progress interval.
    pub const INTERVAL_MAX: Duration = Duration::from_secs(3600);

    /// How the transfers are called in metrics, each name once.
    pub fn labels(&self) -> Vec<String> {
        let sizes = self.sizes.iter();
        let labels = sizes.flat_map(|octets| {
            let directions = self.directions.iter();
            directions.map(|direction| label(*octets, *direction))
        });
        let labels: BTreeSet<String> = labels.collect();
        labels.into_iter().collect()
    }

    /// The transfers in order.
    pub fn plans(&self) -> Vec<Plan> {
        let mut plans: Vec<Plan> = Vec::new();
        for &octets in &self.sizes {
            for &direction in &self.directions {
                for run in 1..=self.runs {
                    let seed = self.seed.wrapping_add(plans.len() as u32);
                    plans.push(Plan {
                        run,
                        timeout: self.timeout,
                        request: Request {
                            direction,
                            octets,
                            seed,
                            dscp: self.dscp,
                            interval_ms: interval_ms(self.interval),
                            congestion: self.congestion.clone(),
                        },
                    });
                }
            }
        }
        plans
    }
}

fn interval_ms(interval: Duration) -> u32 {
    let ms = interval.min(Campaign::INTERVAL_MAX).as_millis();
    u32::try_from(ms).unwrap_or(u32::MAX).max(1)
}

/// One transfer to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Which of several with the same size and direction, from 1.
    pub run: u32,
    /// How long it may take.
    pub timeout: Duration,
    /// What the server is asked for.
    pub request: Request,
}

#[cfg(test)]
mod tests;
