//! `strait policy plot`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use strait_report::tree::{Branch, picture};

use super::Source;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    source: Source,
    /// File for the picture [default: stdout].
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (config, policy) = args.source.read()?;
    let bit_s = args.source.bit_s(&config, &policy);
    let rates = bit_s.map(|bit_s| policy.plan().rates(bit_s));
    let plan = policy.plan();
    let branches = plan.nodes.iter().enumerate().map(|(index, node)| {
        let own = rates.as_ref().and_then(|rates| rates.get(index));
        let parent = node.parent.and_then(|parent| plan.nodes.get(parent));
        let htb = parent.is_some_and(|parent| parent.discipline.is_htb());
        let mut words = Vec::new();
        if parent.is_some() && htb {
            words.push(format!("prio {}", node.prio));
        } else if parent.is_some() {
            words.push(format!("band {}", node.band));
        }
        words.extend(node.weight.map(|weight| format!("weight {weight}")));
        words.extend(node.rate.map(|rate| format!("rate {rate}")));
        words.extend(node.ceil.map(|ceil| format!("ceil {ceil}")));
        words.extend(node.shape.map(|shape| format!("shaped to {}", shape.rate)));
        if node.class.is_none() {
            words.push(node.discipline.name().into());
        }
        let class = node
            .class
            .and_then(|class| policy.classes().get(class.index()));
        words.extend(class.map(|class| format!("{} packets", class.packets)));
        Branch {
            name: node.name.clone(),
            words: words.join(", "),
            parent: node.parent,
            share: own
                .filter(|_| node.rate.is_some())
                .zip(bit_s)
                .map(|(own, bit_s)| own.rate_bit_s as f64 / bit_s.max(1) as f64),
        }
    });
    let branches: Vec<Branch> = branches.collect();
    let svg = picture(&args.source.policy, &branches);
    match &args.output {
        Some(path) => {
            std::fs::write(path, svg)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        None => crate::output::print(&svg),
    }
    Ok(ExitCode::SUCCESS)
}
