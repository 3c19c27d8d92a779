//! What the hosts of a drawn scenario send.

use super::{Draw, HEAL_MS};

impl Draw {
    /// Two hosts that can reach each other.
    fn pair(&mut self) -> (String, String) {
        loop {
            let count = self.hosts.len() as u64;
            let (a, b) = (self.below(count) as usize, self.below(count) as usize);
            if a != b && self.hosts[a].1 == self.hosts[b].1 {
                return (self.hosts[a].0.clone(), self.hosts[b].0.clone());
            }
        }
    }

    fn flow(&mut self, name: &str, kind: &str, start_ms: u64, more: &str) {
        let way = self.way();
        self.line(&format!(
            "[[traffic]]\nname = \"{name}\"\nkind = \"{kind}\"\nstart = \"{start_ms} ms\"\n{way}{more}"
        ));
    }

    /// From where to where, and how.
    fn way(&mut self) -> String {
        let (from, to) = self.pair();
        let family = self.pick(&[4, 6]);
        let dscp = self.pick(&[
            "",
            "",
            "dscp = \"EF\"\n",
            "dscp = \"AF41\"\n",
            "dscp = \"CS1\"\n",
        ]);
        format!("from = \"{from}\"\nto = \"{to}\"\nfamily = {family}\n{dscp}")
    }

    fn endpoint(&mut self) -> String {
        let profile = self.pick(&strait_tcp::PROFILES);
        format!("endpoint = \"{profile}\"\n")
    }

    /// Traffic under faults, then transfers, then echo requests; and how long they may take.
    ///
    /// A packet waits at most for all that was ever sent to leave by the slowest medium, at each
    /// hop. A transfer needs that, and for each lost segment at most a minute, to which
    /// retransmission timers back off; of what it sends, a full queue may refuse some.
    pub(super) fn traffic(&mut self) -> (u64, u64, u64) {
        let rate = self.rate_min_bit_s;
        // Octets that the slowest medium carries in a second.
        let second = (rate / 10).max(12);
        for index in 0..self.range(2, 5) {
            let name = format!("t{index}");
            let start = self.below(HEAL_MS / 2);
            let stop = self.range(start + 1_000, HEAL_MS);
            let stop_key = format!("stop = \"{stop} ms\"\n");
            let payload = self.range(4, (second * 2).min(1_440));
            let lasts_s = (stop - start).div_ceil(1000);
            match self.below(6) {
                0 => {
                    let both = self.percent(50);
                    let period = self.pick(&[20, 60, 200, 500]);
                    let payload = payload.min(60);
                    let more = format!(
                        "{stop_key}payload = \"{payload} B\"\nperiod = \"{period} ms\"\n\
                         both_ways = {both}\n"
                    );
                    self.octets += 2 * (payload + 100) * lasts_s * 1000 / period;
                    self.flow(&name, "voice", start, &more);
                }
                1 | 2 => {
                    let load = (second * 8 * self.range(10, 300) / 100).min(60_000);
                    let poisson = self.percent(50);
                    let more = format!(
                        "{stop_key}payload = \"{payload} B\"\nrate = \"{load} bit/s\"\n\
                         poisson = {poisson}\n"
                    );
                    // Headers count: a datagram of four octets is twenty times as long with them.
                    self.octets += 2 * load / 8 * lasts_s * (payload + 100) / payload;
                    self.flow(&name, "udp", start, &more);
                }
                3 => {
                    let period = self.pick(&[200, 1000, 3000]);
                    let more =
                        format!("{stop_key}payload = \"{payload} B\"\nperiod = \"{period} ms\"\n");
                    self.octets += 2 * (payload + 100) * lasts_s * 1000 / period;
                    self.flow(&name, "ping", start, &more);
                }
                4 => {
                    let octets = self.range(1, (second * 15).min(40_000));
                    self.octets += 4 * octets;
                    let more = format!("octets = \"{octets} B\"\n{}", self.endpoint());
                    self.flow(&name, "tcp", start, &more);
                }
                _ => {
                    let octets = self.range(100, (second * 15).clamp(200, 20_000));
                    let (objects, connections) = (self.range(1, 5), self.range(1, 4));
                    self.octets += 4 * octets + 2_000 * objects;
                    let more = format!(
                        "octets = \"{octets} B\"\nobjects = {objects}\n\
                         connections = {connections}\n{}",
                        self.endpoint()
                    );
                    self.flow(&name, "page", start, &more);
                }
            }
        }
        let carry_ms = (self.octets + 20_000) * 1_000 / second;
        // A neighbour that was away is probed for again after 20 s at the latest.
        let probed_ms = if self.hops_anywhere() { 60_000 } else { 0 };
        let drained_ms = HEAL_MS + 1_000 + probed_ms + carry_ms;
        let octets = self.range(1, (second * 10).min(20_000));
        let segments = 10 + (self.octets + octets) / 500;
        let complete_ms = drained_ms + 4 * carry_ms + segments * 60_000;
        let more = format!(
            "octets = \"{octets} B\"
{}",
            self.endpoint()
        );
        self.flow("last-tcp", "tcp", drained_ms, &more);
        let each_ms = 1_000 + self.hops_max * (1_000 + 200 * 1_000 / second);
        // An end whose start nobody has heard of, since its hello was lost, says so to whoever
        // sends it what it can't read: that is one packet a link and direction.
        let waking = 2 * self.gateways as u64;
        let way = self.way();
        for (name, count, start_ms) in [
            ("waking-ping", waking, complete_ms),
            ("last-ping", 3, complete_ms + waking * each_ms),
        ] {
            self.line(&format!(
                "[[traffic]]\nname = \"{name}\"\nkind = \"ping\"\nstart = \"{start_ms} ms\"\n\
                 {way}payload = \"16 B\"\ncount = {count}\nperiod = \"{each_ms} ms\"\n"
            ));
        }
        let end_ms = complete_ms + (waking + 5) * each_ms;
        (drained_ms, complete_ms, end_ms)
    }
}
