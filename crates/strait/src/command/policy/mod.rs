//! What a policy says, and the same policy for the kernel.

mod export;
mod packet;
mod plot;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use strait_core::ClassId;
use strait_core::rate::LineRate;
use strait_core::time::Duration;
use strait_core::units::{BitRate, Octets};
use strait_link::LinkSettings;
use strait_node::config_text::{self, ConfigError};
use strait_qos::lint::lint;
use strait_qos::plan::{NodeRates, PlanNode};
use strait_qos::wait::{Line, PACKET_OCTETS_MAX, WorstWait, worst_wait};
use strait_qos::{Dscp, Ingress, Policy, PolicyConfig};
use strait_report::table::{Cell, Column, ResultSet, Table};
use strait_scenario::{DiskFiles, Files};

/// Check, explain, draw and export a policy: the order of packets on a link.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "POLICY is a file, or the name of a built-in policy.\n\nExamples:\n  \
                        strait policy check scenarios/policies/default.toml --line \"9600 bit/s\"\n  \
                        strait policy explain default protocol=udp dscp=EF octets=71 \
                        --line \"9600 bit/s\"\n  \
                        strait policy plot insc-1b --line \"1 Mbit/s\" --output tree.svg\n  \
                        strait policy export insc-1b --dev eth1 --apply"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Report errors and doubtful settings, each with its reason.
    Check(Check),
    /// Explain the treatment of a packet: rule, mark, class, limits and longest wait.
    Explain(Explain),
    /// Draw the tree of classes and their rates (SVG).
    Plot(plot::Args),
    /// Export the policy to the Linux kernel: an nftables ruleset and `tc` commands.
    Export(export::Args),
}

/// Which policy, on which line.
#[derive(Debug, clap::Args)]
struct Source {
    /// A policy file, or the name of a built-in policy.
    policy: String,
    /// Rate of the line [default: the policy's `line` or `shape`].
    #[arg(long, value_name = "RATE")]
    line: Option<BitRate>,
}

#[derive(Debug, clap::Args)]
struct Check {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    port: LeavesBy,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Exit with status 1 if anything was reported.
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, clap::Args)]
struct Explain {
    #[command(flatten)]
    source: Source,
    /// The packet, in the keys of rules: protocol, dscp, precedence, source, destination,
    /// source_port, destination_port, flow_label, spi, octets, tcp_control.
    #[arg(value_name = "KEY=VALUE")]
    packet: Vec<String>,
    /// Incoming port of the packet [default: the node itself sends it].
    #[arg(long, value_name = "PORT")]
    ingress: Option<String>,
    #[command(flatten)]
    port: LeavesBy,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

/// The port that packets leave by.
#[derive(Debug, clap::Args)]
struct LeavesBy {
    /// Profile of the outgoing port. It is a serial port unless --unit is given.
    #[arg(long, value_enum, default_value_t)]
    profile: Profile,
    /// Octets that can't be interrupted: the link's segment or its longest frame.
    #[arg(long, value_name = "OCTETS")]
    unit: Option<Octets>,
}

impl LeavesBy {
    /// The line that packets of a class meet.
    fn line(&self, first: bool, bit_s: u64) -> Line {
        let unit_octets = self
            .unit
            .map_or_else(|| self.profile.unit_octets(first, bit_s), |octets| octets.0);
        Line {
            bit_s,
            unit_octets,
            cuts_packets: !matches!(self.profile, Profile::Plain),
        }
    }

    /// How long packets of a class wait.
    fn wait(&self, policy: &Policy, class: ClassId, bit_s: u64) -> WorstWait {
        let rank = policy.classes().get(class.index()).map(|class| class.rank);
        worst_wait(policy, class, self.line(rank == Some(0), bit_s))
    }
}

/// How much of the line a packet has to wait for that has begun to leave.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Profile {
    /// A call's packet goes after the next octet, another urgent one after the next segment.
    #[default]
    Adapter,
    /// A more urgent packet goes after the next segment.
    Segments,
    /// A more urgent packet goes after the packet being sent.
    #[value(aliases = ["hbh", "ip"])]
    Plain,
}

impl Profile {
    fn unit_octets(self, first: bool, bit_s: u64) -> u64 {
        let packet = PACKET_OCTETS_MAX as usize;
        let segment = || LinkSettings::for_rate(LineRate::new(bit_s, 8), packet).segment_octets_max;
        match self {
            Self::Adapter if first => 1,
            Self::Adapter | Self::Segments => segment() as u64,
            Self::Plain => PACKET_OCTETS_MAX,
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Check(args) => check(args),
        What::Explain(args) => explain(args),
        What::Plot(args) => plot::run(args),
        What::Export(args) => export::run(args),
    }
}

impl Source {
    /// The policy as written, and ready.
    fn read(&self) -> anyhow::Result<(PolicyConfig, Policy)> {
        let wrong = |error: String| ConfigError::of_file(&self.policy, error);
        let config = match PolicyConfig::preset(&self.policy) {
            Some(config) if !Path::new(&self.policy).exists() => config,
            _ => {
                let path = PathBuf::from(&self.policy);
                let text = DiskFiles.read(&path).map_err(|error| {
                    let presets: Vec<_> = PolicyConfig::presets().collect();
                    let presets = presets.join(", ");
                    wrong(format!("{error}; built-in policies: {presets}"))
                })?;
                config_text::parse(&self.policy, &text)?
            }
        };
        let policy = Policy::compile(&config).map_err(|error| wrong(error.to_string()))?;
        Ok((config, policy))
    }

    /// The line's rate, if anything tells it.
    fn bit_s(&self, config: &PolicyConfig, policy: &Policy) -> Option<u64> {
        let root = policy.plan().nodes.first().and_then(|root| root.shape);
        let shaped = root.and_then(|shape| match shape.rate {
            strait_qos::plan::Rate::Fixed(bit_s) => Some(bit_s),
            strait_qos::plan::Rate::Share(_) => None,
        });
        let told = self.line.or(config.line).map(|line| line.0);
        told.or(shaped)
    }
}

fn check(args: &Check) -> anyhow::Result<ExitCode> {
    let (config, policy) = args.source.read()?;
    let bit_s = args.source.bit_s(&config, &policy);
    let lints = lint(&policy, bit_s.map(|bit_s| args.port.line(false, bit_s)));
    let mut table = Table::new("lints", [Column::new("lint", "")].into());
    for lint in &lints {
        table.push(vec![lint.to_string().into()]);
    }
    let result = ResultSet {
        tables: vec![classes(&policy, bit_s, &args.port), table],
        ..ResultSet::default()
    };
    if args.json {
        crate::output::result(&result, true, false);
    } else {
        crate::output::print(&result.tables[0].to_text());
        for lint in &lints {
            crate::output::print(&format!("\n- {lint}\n"));
        }
        if bit_s.is_none() {
            let note = "\nRates and waits weren't checked: give the line's rate by --line.\n";
            crate::output::print(note);
        }
    }
    let failed = args.strict && !lints.is_empty();
    Ok(ExitCode::from(if failed {
        crate::exit::CHECK_FAILED
    } else {
        0
    }))
}

/// All classes with what each gets and how long it waits.
fn classes(policy: &Policy, bit_s: Option<u64>, port: &LeavesBy) -> Table {
    let columns = [
        ("class", ""),
        ("band or prio", ""),
        ("rate", "bit/s"),
        ("ceiling", "bit/s"),
        ("gets at least", "bit/s"),
        ("waits at most, alone", "s"),
        ("behind a full class", "s"),
    ];
    let columns = columns.map(|(name, unit)| Column::new(name, unit));
    let mut table = Table::new("classes", columns.into());
    let rates = bit_s.map(|bit_s| policy.plan().rates(bit_s));
    for (index, node) in policy.plan().nodes.iter().enumerate() {
        let own = rates.as_ref().and_then(|rates| rates.get(index));
        let wait = bit_s.zip(node.class);
        let wait = wait.map(|(bit_s, class)| port.wait(policy, class, bit_s));
        table.push(row(policy, index, node, own, wait.as_ref()));
    }
    table
}

fn row(
    policy: &Policy,
    index: usize,
    node: &PlanNode,
    rates: Option<&NodeRates>,
    wait: Option<&WorstWait>,
) -> Vec<Cell> {
    let depth = policy.plan().up(index).count().saturating_sub(1);
    let parent = node
        .parent
        .and_then(|parent| policy.plan().nodes.get(parent));
    let htb = parent.is_some_and(|parent| parent.discipline.is_htb());
    let rank = match (parent, htb) {
        (None, _) => Cell::Empty,
        (_, true) => f64::from(node.prio).into(),
        (_, false) => f64::from(node.band).into(),
    };
    let number = |rate: Option<u64>| Cell::from(rate.map(|rate| rate as f64));
    let rate = rates
        .filter(|_| node.rate.is_some())
        .map(|it| it.rate_bit_s);
    let shaped = rates.and_then(|rates| rates.shape_bit_s);
    let ceil = rates.filter(|_| htb).map(|it| it.ceil_bit_s).or(shaped);
    let wait_s = |wait: Option<Duration>| Cell::from(wait.map(|wait| wait.as_secs_f64()));
    vec![
        format!("{}{}", "  ".repeat(depth), node.name).into(),
        rank,
        number(rate),
        number(ceil),
        number(wait.and_then(|wait| wait.rate_bit_s)),
        wait_s(wait.and_then(|wait| wait.alone)),
        wait_s(wait.and_then(|wait| wait.full)),
    ]
}

fn explain(args: &Explain) -> anyhow::Result<ExitCode> {
    let (config, policy) = args.source.read()?;
    let mut packet = packet::read(&args.packet)?;
    let port = args.ingress.as_deref();
    let from = port.map_or_else(Ingress::default, |port| policy.ingress(port));
    if !policy.trusts(from) {
        packet.dscp = 0;
    }
    let verdict = policy.classify_from(&packet, from);
    let rule = policy.matching_rule(&packet, from);
    let class = policy.classes().get(verdict.class.index());
    let expanded = config.expand().unwrap_or_else(|_| config.clone());
    let mut facts: Vec<(&str, String)> = Vec::new();
    facts.push(("packet", packet::text(&packet)));
    facts.push((
        "rule",
        rule.map_or_else(
            || String::from("none matches: the default class"),
            |rule| match expanded.rules.get(rule) {
                Some(config) => format!("{}: {}", rule + 1, packet::rule_text(config)),
                None => (rule + 1).to_string(),
            },
        ),
    ));
    if verdict.filter {
        facts.push(("it", "is dropped: the rule filters".into()));
    } else {
        let mark = verdict.mark.and_then(Dscp::new);
        facts.push((
            "mark",
            mark.map_or_else(|| "stays as it is".into(), |mark| mark.to_string()),
        ));
        if let Some(class) = class {
            let way: Vec<&str> = policy
                .plan()
                .up(policy.plan().leaf(verdict.class))
                .map(|(_, node)| node.name.as_str())
                .collect();
            let way: Vec<&str> = way.into_iter().rev().collect();
            facts.push(("class", way.join(" > ")));
            facts.push(("limits", limits(class)));
        }
        facts.extend(waiting(args, &config, &policy, verdict.class));
        let observed = policy.observed().filter(|_| !verdict.ruled);
        if let Some(class) = observed.and_then(|class| policy.classes().get(class.index())) {
            let text = format!(
                "goes to class `{}` while its flow keeps the pace of a call: UDP or ESP, at most 400 \
                 octets each 10 to 250 ms for 2 s",
                class.name
            );
            facts.push(("unless it", text));
        }
    }
    print(&facts, args.json)
}

fn limits(class: &strait_qos::Class) -> String {
    let octets = class.octets.map(|octets| format!(", {octets} octets"));
    let age = class
        .age
        .map(|age| format!(", {} s of age", age.as_secs_f64()));
    let (octets, age) = (octets.unwrap_or_default(), age.unwrap_or_default());
    format!("{} packets{octets}{age}", class.packets)
}

fn waiting(
    args: &Explain,
    config: &PolicyConfig,
    policy: &Policy,
    class: ClassId,
) -> Vec<(&'static str, String)> {
    let Some(bit_s) = args.source.bit_s(config, policy) else {
        let text = "not known without the line's rate: give it by --line";
        return vec![("waits", text.into())];
    };
    let wait = args.port.wait(policy, class, bit_s);
    let seconds = |wait: Option<Duration>| match wait {
        Some(wait) => format!("{:.3} s at most", wait.as_secs_f64()),
        None => String::from("without bound"),
    };
    let rate = match wait.rate_bit_s {
        Some(rate) => format!("{rate} bit/s"),
        None => String::from("nothing for sure"),
    };
    let mut facts = vec![
        ("gets at least", rate),
        ("waits, alone in its class", seconds(wait.alone)),
        ("waits behind a full class", seconds(wait.full)),
    ];
    facts.extend(wait.because.into_iter().map(|reason| ("because", reason)));
    facts
}

fn print(facts: &[(&str, String)], json: bool) -> anyhow::Result<ExitCode> {
    let columns = ["what", "value"].map(|name| Column::new(name, ""));
    let mut table = Table::new("explanation", columns.into());
    for (what, value) in facts {
        table.push(vec![(*what).into(), value.as_str().into()]);
    }
    if json {
        let result = ResultSet {
            tables: vec![table],
            ..ResultSet::default()
        };
        return Ok(crate::output::result(&result, true, false));
    }
    let width = facts.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
    for (what, value) in facts {
        crate::output::print(&format!("{what:<width$}  {value}\n"));
    }
    Ok(ExitCode::SUCCESS)
}
