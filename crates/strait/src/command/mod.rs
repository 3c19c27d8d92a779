//! One file a command.

mod agreement;
mod bench;
mod check;
mod completions;
mod demo;
mod dissector;
mod dns;
mod emulate;
mod ipfix;
mod lab;
mod mail;
mod measure;
mod picture;
mod policy;
mod proxy;
mod recorded;
mod replay;
mod run;
mod sim;
mod simulated;
mod status;
mod study;
mod sweep;
mod top;
mod web;
mod why;

use std::process::ExitCode;

use clap::Subcommand;

use crate::events::Form;

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the main use case, with no set-up: a call, a web page, a file and pings on one narrow
    /// line.
    Demo(demo::Args),
    /// Run a scenario in virtual time.
    Sim(sim::Args),
    /// Run a scenario in virtual time for many values of its keys.
    Sweep(sweep::Args),
    /// Run a scenario live, in network namespaces on this host.
    Lab(lab::Args),
    /// Run a gateway on this host.
    Run(run::Args),
    /// Show the state of a running gateway.
    Status(status::Args),
    /// Watch gateways on a terminal: links, classes, flows and calls, the worst first.
    Top(top::Args),
    /// Show running gateways in a browser, or save a recording of them as one HTML file.
    Web(web::Args),
    /// Export the flows of running gateways to an IPFIX collector.
    Ipfix(ipfix::Args),
    /// Name the cause of a delay, at a running gateway or in a scenario.
    Why(why::Args),
    /// Show the names that a running gateway's DNS proxy knows or asks for.
    Dns(dns::Args),
    /// Show, hold, reroute and release the mail of a running gateway.
    Mail(mail::Args),
    /// Emulate a link between two ports of this host.
    Emulate(emulate::Args),
    /// Repeat a gateway's run from its journal.
    Replay(replay::Args),
    /// Check a node, link, policy, scenario or study file.
    Check(check::Args),
    /// Check, explain, draw and export a policy: the order of packets on a link.
    Policy(policy::Args),
    /// Prepare this host for the TCP proxy, or check that it is ready.
    Proxy(proxy::Args),
    /// Run a study: published figures, simulation and this host side by side.
    Study(study::Args),
    /// Measure calls, TCP transfers, the available rate, MGEN flows and captures.
    Measure(measure::Args),
    /// Measure the speed of the engine on this machine.
    Bench(bench::Args),
    Dissector(dissector::Args),
    /// Print shell completions.
    Completions(completions::Args),
}

impl Command {
    /// The form of the log that was asked for.
    pub(crate) const fn log(&self) -> Option<Form> {
        match self {
            Self::Run(args) => args.log,
            _ => Some(Form::Text),
        }
    }

    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Demo(args) => demo::run(&args),
            Self::Sim(args) => sim::run(&args),
            Self::Sweep(args) => sweep::run(&args),
            Self::Lab(args) => lab::run(&args),
            Self::Run(args) => run::run(&args),
            Self::Status(args) => status::run(&args),
            Self::Top(args) => top::run(&args),
            Self::Web(args) => web::run(args),
            Self::Ipfix(args) => ipfix::run(&args),
            Self::Why(args) => why::run(&args),
            Self::Dns(args) => dns::run(&args),
            Self::Mail(args) => mail::run(&args),
            Self::Emulate(args) => emulate::run(&args),
            Self::Replay(args) => replay::run(&args),
            Self::Check(args) => check::run(&args),
            Self::Policy(args) => policy::run(&args),
            Self::Proxy(args) => proxy::run(&args),
            Self::Study(args) => study::run(&args),
            Self::Measure(args) => measure::run(&args),
            Self::Bench(args) => bench::run(&args),
            Self::Dissector(args) => dissector::run(&args),
            Self::Completions(args) => Ok(completions::run(&args)),
        }
    }
}
