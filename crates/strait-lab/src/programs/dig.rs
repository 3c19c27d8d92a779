//! Look-ups by `dig`, answered by `dnsmasq`.

use std::process::Command;

use nix::sys::signal::Signal;
use strait_core::time::{Duration, Instant};
use strait_traffic::{DNS_PORT, DNS_ZONE, FlowLog, LookUps, Side, Traffic, dns_name, report};

use super::{Collected, Flow, Origin, Program};
use crate::ground::net::is_bound;
use crate::ground::process::{Running, require};
use crate::{LabError, Stage};

/// `dig` once for each look-up on the host that begins, and a server on the other.
#[derive(Debug)]
pub(crate) struct Dig {
    period: Duration,
    count: u64,
    manner: LookUps,
    server: Option<Running>,
    client: Option<Running>,
}

impl Dig {
    pub(crate) fn new(flow: &Flow) -> Result<Self, LabError> {
        let Traffic::Dns {
            period,
            count,
            manner,
        } = flow.traffic.clone()
        else {
            return Err(flow.wrong("it is no dns"));
        };
        if flow.traffic_class() != 0 {
            return Err(flow.wrong("dig marks nothing: leave out `dscp`"));
        }
        require("dig", "bind9-dnsutils")?;
        require("dnsmasq", "dnsmasq-base")?;
        let fitting = flow.span().as_nanos().div_ceil(period.as_nanos().max(1));
        let fitting = u64::try_from(fitting).unwrap_or(u64::MAX);
        Ok(Self {
            period,
            count: count.map_or(fitting, |count| count.min(fitting)),
            manner,
            server: None,
            client: None,
        })
    }

    /// A shell's orders: each look-up by itself, so that none waits for another's answer. A line
    /// for each says its number, when it began, and how long it took in microseconds.
    fn orders(&self, server: &str, patience_s: u64) -> String {
        let name = dns_name(0);
        let zone = name.trim_start_matches("n00000");
        let waits = &self.manner.waits;
        let first_s = waits
            .first()
            .map_or(patience_s as f64, Duration::as_secs_f64);
        // dig itself waits for whole seconds, the same in each try.
        let even = waits.iter().all(|it| it.as_secs_f64() == first_s) && first_s % 1.0 == 0.0;
        let digs: Vec<(usize, f64)> = match even {
            true => vec![(waits.len().max(1), first_s)],
            false => waits.iter().map(|it| (1, it.as_secs_f64())).collect(),
        };
        // A process has to start, too.
        let start_s = if even { 1.0 } else { 0.02 };
        let most_s = |(tries, wait_s): &(usize, f64)| *tries as f64 * wait_s + start_s;
        let digs = digs.iter().map(|dig| {
            let (tries, whole_s) = (dig.0, dig.1.ceil());
            format!(
                "said=$(timeout {} dig +noedns +tries={tries} +time={whole_s} -u @{server} \
                 -p {DNS_PORT} $name {kind})\n",
                most_s(dig),
                kind = self.manner.kind.0,
            )
        });
        let digs: Vec<String> = digs.collect();
        let digs = digs.join("case \"$said\" in *'status: NOERROR'*) ;; *)\n");
        let ends = " ;; esac\n".repeat(waits.len().max(1) - 1);
        let ends = if even { "" } else { &ends };
        format!(
            "n=0\n\
             while [ $n -lt {count} ]; do\n\
             (at=$(date +%s%N)\n\
             name=$(printf 'n%05d{zone}' $((n % {names})))\n\
             {digs}{ends}\
             end=$(date +%s%N)\n\
             took=$(echo \"$said\" | sed -n 's/^;; Query time: \\([0-9]*\\) usec$/\\1/p')\n\
             # That is the time of the last try.\n\
             [ $((end-at)) -lt {first_ns} ] || took=$(((end-at)/1000))\n\
             case \"$said\" in *'status: NOERROR'*) ;; *) took=;; esac\n\
             echo $n $at $took) &\n\
             n=$((n+1))\n\
             sleep {period}\n\
             done\n\
             wait\n",
            count = self.count,
            first_ns = (first_s * 1e9) as u64,
            names = self.manner.names.unwrap_or(100_000),
            period = self.period.as_secs_f64(),
        )
    }
}

impl Program for Dig {
    fn prepare(&mut self, stage: &Stage<'_>, flow: &Flow) -> Result<(), LabError> {
        let mut command = Command::new("dnsmasq");
        command.args(["--no-daemon", "--conf-file=/dev/null", "--no-resolv"]);
        command.args(["--no-hosts", "--bind-interfaces", "--pid-file="]);
        command.args(["--user=root", "--group=root"]);
        command.arg(format!("--port={DNS_PORT}"));
        command.arg(format!("--listen-address={}", flow.address(1)));
        command.arg(format!("--address=/{DNS_ZONE}/192.0.2.1"));
        // Of other types it says that there is nothing.
        command.arg(format!("--local=/{DNS_ZONE}/"));
        command.arg(format!("--local-ttl={}", self.manner.life_s));
        let name = format!("{}-server", flow.config.name);
        self.server = Some(stage.start(flow.host(stage, 1), &name, command)?);
        Ok(())
    }

    fn is_prepared(&self, stage: &Stage<'_>, flow: &Flow) -> Result<bool, LabError> {
        if let Some(server) = &self.server {
            server.expect_alive()?;
        }
        Ok(is_bound(flow.host(stage, 1), false, DNS_PORT)?)
    }

    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, _: Origin) -> Result<(), LabError> {
        let patience_s = stage.duration.as_secs().max(1);
        let mut command = Command::new("sh");
        let asked = self.manner.resolver.unwrap_or_else(|| flow.address(1));
        let orders = self.orders(&asked.to_string(), patience_s);
        command.args(["-c", &orders]);
        let name = &flow.config.name;
        self.client = Some(stage.start(flow.host(stage, 0), name, command)?);
        Ok(())
    }

    fn client(&self) -> Option<&Running> {
        self.client.as_ref()
    }

    fn finish(&mut self) {
        for running in [&self.client, &self.server].into_iter().flatten() {
            running.end_by(Signal::SIGTERM, Duration::from_millis(500));
        }
    }

    fn collect(&self, _: &Stage<'_>, flow: &Flow, origin: Origin) -> Collected {
        let output = self.client.as_ref().map(Running::output);
        let mut lookups: Vec<Lookup> = output
            .unwrap_or_default()
            .lines()
            .filter_map(read)
            .collect();
        lookups.sort_by_key(|lookup| lookup.sequence);
        let mut log = FlowLog::new(&flow.config.name, Side::From);
        let mut answers = Vec::new();
        for sequence in 0..self.count {
            let lookup = lookups.iter().find(|it| it.sequence == sequence);
            let after_ns = sequence.saturating_mul(self.period.as_nanos() as u64);
            let nominal = Instant::ZERO + flow.start + Duration::from_nanos(after_ns);
            let sent = lookup.map_or(nominal, |it| Instant::from_nanos(origin.of_wall(it.at_ns)));
            log.sent(sent, sequence, 0);
            if let Some(took_ns) = lookup.and_then(|it| it.took_ns) {
                let came = sent + Duration::from_nanos(took_ns);
                log.received(came, sequence, 0);
                answers.push((sent.as_secs_f64(), came.as_secs_f64()));
            }
        }
        let complaints = self.client.as_ref().map(Running::complaints);
        let complaints = complaints.filter(|_| lookups.is_empty());
        let notes = complaints
            .into_iter()
            .map(|why| format!("{}: no look-up ended: {why}", flow.config.name));
        Collected {
            reports: vec![report(
                &flow.config,
                &log,
                &FlowLog::new(&flow.config.name, Side::To),
            )],
            answers,
            notes: notes.collect(),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Lookup {
    sequence: u64,
    /// When it began, in nanoseconds since 1970.
    at_ns: u64,
    /// Nothing without an answer.
    took_ns: Option<u64>,
}

fn read(line: &str) -> Option<Lookup> {
    let mut words = line.split_whitespace().map(str::parse::<u64>);
    let (sequence, at_ns) = (words.next()?.ok()?, words.next()?.ok()?);
    let took_us = words.next().transpose().ok()?;
    Some(Lookup {
        sequence,
        at_ns,
        took_ns: took_us.map(|took_us| took_us.saturating_mul(1000)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_an_answer_or_without() {
        let lookup = |took_ns| Lookup {
            sequence: 3,
            at_ns: 1_795_227_410_063_730_123,
            took_ns,
        };
        let line = "3 1795227410063730123 2861234";
        assert_eq!(read(line), Some(lookup(Some(2_861_234_000))));
        assert_eq!(read("3 1795227410063730123"), Some(lookup(None)));
        for wrong in ["", "3", "dig: not found", "3 4 five"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
