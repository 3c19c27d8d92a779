//! A scenario of many gateways: a grid whose edges meet, each gateway with a host and four links.

use std::fmt::Write as _;

/// How large it is.
#[derive(Clone, Copy, Debug)]
pub struct Torus {
    /// Rows of gateways, at least three and at most 200.
    pub rows: usize,
    /// Gateways of a row, at least three and at most 200.
    pub columns: usize,
    /// Flows from each host: 1.2 packets of 200 octets a second, each to a host further away.
    pub flows: usize,
    /// Length of the run in seconds.
    pub seconds: u64,
}

impl Torus {
    /// 200 gateways, 400 links and 1000 flows.
    pub const TARGET: Self = Self {
        rows: 10,
        columns: 20,
        flows: 5,
        seconds: 60,
    };

    /// The scenario file. Links have 1 Mbit/s and 10 ms; packets go along the column first.
    #[must_use]
    pub fn scenario(&self) -> String {
        let mut text = format!(
            "name = \"torus\"\nabout = \"a grid of {} by {} gateways whose edges meet\"\n\
             duration = \"{} s\"\n",
            self.rows, self.columns, self.seconds
        );
        for (row, column) in self.places() {
            self.put_node(&mut text, row, column);
        }
        for (row, column) in self.places() {
            self.put_links(&mut text, row, column);
        }
        for (row, column) in self.places() {
            self.put_flows(&mut text, row, column);
        }
        text
    }

    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        let columns = self.columns;
        (0..self.rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
    }

    fn put_node(&self, text: &mut String, row: usize, column: usize) {
        let mut routes = String::new();
        for other in (0..self.rows).filter(|other| *other != row) {
            let port = toward(row, other, self.rows, ["south", "north"]);
            let _ = write!(
                routes,
                "{{ prefix = \"10.{other}.0.0/16\", port = \"{port}\" }}, "
            );
        }
        for other in (0..self.columns).filter(|other| *other != column) {
            let port = toward(column, other, self.columns, ["east", "west"]);
            let _ = write!(
                routes,
                "{{ prefix = \"10.{row}.{other}.0/24\", port = \"{port}\" }}, "
            );
        }
        let ports = ["east", "south", "west", "north"];
        let ports = ports
            .map(|name| format!("{{ name = \"{name}\", kind = \"udp\", any_source = true }}, "));
        let _ = write!(
            text,
            "[[node]]\nname = \"n{row}-{column}\"\n[node.config]\nname = \"n\"\n\
             host = {{ addresses = [\"10.{row}.{column}.1/24\"] }}\nport = [{}]\nroute = [{routes}]\n\
             [[host]]\nname = \"h{row}-{column}\"\nbehind = \"n{row}-{column}\"\n\
             addresses = [\"10.{row}.{column}.2/24\"]\n",
            ports.concat(),
        );
    }

    fn put_links(&self, text: &mut String, row: usize, column: usize) {
        let (below, right) = ((row + 1) % self.rows, (column + 1) % self.columns);
        for (name, from, to, other) in [
            ("e", "east", "west", (row, right)),
            ("s", "south", "north", (below, column)),
        ] {
            let _ = write!(
                text,
                "[[link]]\nname = \"{name}{row}-{column}\"\n\
                 between = [\"n{row}-{column}.{from}\", \"n{}-{}.{to}\"]\n\
                 channel = {{ kind = \"frames\", rate = \"1 Mbit/s\", delay = \"10 ms\" }}\n",
                other.0, other.1
            );
        }
    }

    fn put_flows(&self, text: &mut String, row: usize, column: usize) {
        for flow in 1..=self.flows {
            let (to_row, to_column) = (
                (row + 2 * flow) % self.rows,
                (column + 3 * flow) % self.columns,
            );
            // Not all at once.
            let start_ms = (row * self.columns + column) * 5 % 1000;
            let _ = write!(
                text,
                "[[traffic]]\nname = \"f{row}-{column}-{flow}\"\nkind = \"udp\"\nfamily = 4\n\
                 from = \"h{row}-{column}\"\nto = \"h{to_row}-{to_column}\"\n\
                 start = \"{start_ms} ms\"\npayload = \"172 B\"\nrate = \"1600 bit/s\"\n"
            );
        }
    }
}

/// The shorter way round from one place to another: onward, or back.
const fn toward(from: usize, to: usize, around: usize, ways: [&str; 2]) -> &str {
    let onward = (to + around - from) % around;
    ways[(onward * 2 > around) as usize]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use strait_core::Instant;
    use strait_scenario::{DiskFiles, Scenario};

    use super::*;
    use crate::{build, check};

    #[test]
    fn two_hundred_gateways_deliver_what_is_sent_and_their_books_are_right() {
        let torus = Torus {
            flows: 1,
            seconds: 3,
            ..Torus::TARGET
        };
        let text = torus.scenario();
        let loaded = Scenario::load_text(&DiskFiles, Path::new("torus.toml"), &text).unwrap();
        assert_eq!((loaded.nodes.len(), loaded.links.len()), (200, 400));
        let mut built = build(&loaded, Scenario::BASE, 1).unwrap();
        let world = built.world_mut();
        world.keep_fates();
        world.run_until(Instant::from_secs(3));
        assert_eq!(check::violations(world), [""; 0]);
        // Each 0.86 s from each host, to one two rows and three columns further.
        let sent = world.stats().filter(|(name, _)| name.starts_with('h'));
        let delivered: u64 = sent.map(|(_, stats)| stats.delivered).sum();
        assert!((500..=800).contains(&delivered), "{delivered}");
        assert!(world.hops() >= 5 * delivered, "{}", world.hops());
    }
}
