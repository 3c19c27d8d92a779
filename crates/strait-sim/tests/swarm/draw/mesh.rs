//! A mesh of gateways with reliable hops, up to thirty: several ways between most of them, whose
//! routes change when links are cut, and everything that such links are to stand.

#![allow(dead_code, reason = "the determinism test draws no mesh")]

use std::fmt::Write as _;

use super::{Draw, Drawn, Edge, HEAL_MS};

/// Gateways at most.
const GATEWAYS_MAX: u64 = 30;
/// Links of one gateway at most; it may have 16 ports.
const DEGREE_MAX: usize = 12;

/// Draws the mesh of a seed.
pub(crate) fn draw_mesh(seed: u64) -> Drawn {
    let mut draw = Draw::new(seed, "swarm mesh");
    draw.gateways = draw.range(3, GATEWAYS_MAX) as usize;
    draw.mesh();
    for node in 0..draw.gateways {
        draw.mesh_gateway(node);
    }
    for index in 0..draw.edges.len() {
        draw.mesh_link(index);
    }
    // Everybody behind one gateway and the way between two of them.
    draw.hops_max = draw.gateways as u64 + 3;
    draw.mesh_hosts();
    draw.faults();
    let repair_ms = draw.range(500, 3_000);
    draw.line(&format!("[routing]\nrepair = \"{repair_ms} ms\"\n"));
    draw.finish(seed)
}

impl Draw {
    /// A tree, and a third as many links beside it.
    fn mesh(&mut self) {
        for b in 1..self.gateways {
            let a = self.range(b.saturating_sub(4) as u64, b as u64 - 1) as usize;
            self.mesh_edge(a, b);
        }
        for _ in 0..self.gateways.div_ceil(3) {
            let count = self.gateways as u64;
            let (a, b) = (self.below(count) as usize, self.below(count) as usize);
            let joined = |edge: &Edge| (edge.a, edge.b) == (a.min(b), a.max(b));
            if a != b && !self.edges.iter().any(joined) {
                self.mesh_edge(a.min(b), a.max(b));
            }
        }
    }

    fn mesh_edge(&mut self, a: usize, b: usize) {
        let degree = |node: usize| {
            let edges = self.edges.iter();
            edges
                .filter(|edge| edge.a == node || edge.b == node)
                .count()
        };
        // The tree never has more than four links down and one up.
        if degree(a) >= DEGREE_MAX || degree(b) >= DEGREE_MAX {
            return;
        }
        let rate_bit_s = self.range(8_000, 1_000_000);
        self.rate_min_bit_s = self.rate_min_bit_s.min(rate_bit_s);
        self.edges.push(Edge {
            a,
            b,
            serial: false,
            shared: false,
            apart: false,
            rate_bit_s,
            weak: false,
            damages: false,
            profile: "hbh",
            published: false,
            check: "check = 32\n",
            compression: "",
            mtu: 1400,
        });
    }

    fn mesh_gateway(&mut self, node: usize) {
        let mut text = format!(
            "name = \"g{node}\"\nrouting = \"kernel\"\n[host]\n\
             addresses = [\"10.{node}.0.1/24\", \"fd00:{node}::1/64\"]\n"
        );
        let preset = self.pick(&["default", "default", "fifo", "precedence"]);
        for (index, edge) in self.edges.iter().enumerate() {
            if edge.a != node && edge.b != node {
                continue;
            }
            let kind = if index % 2 == 0 { "udp" } else { "ip" };
            let _ = write!(
                text,
                "[[port]]\nname = \"e{index}\"\nkind = \"{kind}\"\nprofile = \"hbh\"\n{}\
                 mtu = \"{} B\"\n",
                edge.check, edge.mtu
            );
            if preset == "default" {
                let parity =
                    |class: &str, most| format!("{{ class = \"{class}\", parity = {most} }}");
                let [voice, standard] = [parity("voice", index % 4 + 1), parity("standard", 6)];
                let _ = writeln!(text, "hbh = {{ reliability = [{voice}, {standard}] }}");
            }
        }
        let _ = write!(text, "[policy]\npreset = \"{preset}\"\n");
        let file = format!("nodes/g{node}.toml");
        self.files.insert(file.clone(), text);
        self.line(&format!(
            "[[node]]\nname = \"g{node}\"\nfile = \"{file}\"\n"
        ));
    }

    fn mesh_link(&mut self, index: usize) {
        let (a, b, rate) = {
            let edge = &self.edges[index];
            (edge.a, edge.b, edge.rate_bit_s)
        };
        let mut keys = format!("kind = \"frames\"\nrate = \"{rate} bit/s\"\n");
        if self.percent(80) {
            let _ = writeln!(keys, "delay = \"{} us\"", self.range(1, 200_000));
        }
        if self.percent(20) {
            let _ = writeln!(keys, "bit_errors = \"{}e-5\"", self.range(1, 3));
        }
        self.frame_faults(&mut keys, true);
        // Long ones are known to the routing, short ones are stood.
        let mut at = 0;
        for _ in 0..self.below(3) {
            at += self.range(200, 9_000);
            let lasts = self.pick(&[300, 1_000, 4_000, 7_000]);
            if at + lasts >= HEAL_MS {
                break;
            }
            let _ = write!(
                keys,
                "[[link.channel.outage]]\nat = \"{at} ms\"\nlasts = \"{lasts} ms\"\n"
            );
            at += lasts;
        }
        let addresses = match index % 2 {
            0 => String::new(),
            _ if index % 4 == 1 => {
                format!("addresses = [\"10.200.{index}.1/30\", \"10.200.{index}.2/30\"]\n")
            }
            _ => format!("addresses = [\"fd00:200:{index}::1/64\", \"fd00:200:{index}::2/64\"]\n"),
        };
        self.line(&format!(
            "[[link]]\nname = \"m{index}\"\nbetween = [\"g{a}.e{index}\", \"g{b}.e{index}\"]\n\
             {addresses}[link.channel]\n{keys}"
        ));
    }

    fn mesh_hosts(&mut self) {
        let count = self.gateways as u64;
        let first = self.below(count);
        for host in 0..self.range(2, 6) {
            // At least two are apart.
            let gateway = match host {
                0 => first,
                1 => (first + self.range(1, count - 1)) % count,
                _ => self.below(count),
            };
            let at = host + 10;
            self.line(&format!(
                "[[host]]\nname = \"h{host}\"\nbehind = \"g{gateway}\"\naddresses = \
                 [\"10.{gateway}.0.{at}/24\", \"fd00:{gateway}::{at}/64\"]\n"
            ));
            self.hosts.push((format!("h{host}"), 0));
        }
    }
}
