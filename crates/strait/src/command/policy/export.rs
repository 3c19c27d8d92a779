//! `strait policy export`.

use std::process::ExitCode;

use strait_core::units::BitRate;
use strait_lab::kernel::{self, Applied};
use strait_live::kernel::namespace::Namespace;
use strait_qos::export::{Export, Queues, export};

use super::Source;
use crate::exit::BadInput;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without --apply or --remove, both texts are printed: the ruleset is for \
                  `nft -f -`, the commands for `tc -batch -`.\n\nExamples:\n  \
                  strait policy export default --dev eth1 --line \"512 kbit/s\"\n  \
                  strait policy export default --dev eth1 --line \"512 kbit/s\" --only nft | nft -f -\n  \
                  strait policy export default --dev eth1 --line \"512 kbit/s\" --apply\n  \
                  strait policy export default --dev eth1 --line \"512 kbit/s\" --plain-queues --apply\n  \
                  strait policy export --dev eth1 --remove"
)]
pub(super) struct Args {
    /// A policy file, or the name of a built-in policy.
    #[arg(required_unless_present = "remove")]
    policy: Option<String>,
    /// Rate of the line [default: the policy's `line` or `shape`].
    #[arg(long, value_name = "RATE")]
    line: Option<BitRate>,
    /// Outgoing interface.
    #[arg(long, value_name = "INTERFACE")]
    dev: String,
    /// Use a FIFO in each class and no PRIO, for kernels without SFQ, FQ-CoDel or PRIO.
    #[arg(long, conflicts_with = "remove")]
    plain_queues: bool,
    /// Print only one of the two texts.
    #[arg(long, value_enum, conflicts_with_all = ["apply", "remove"])]
    only: Option<Only>,
    /// Install the policy in the kernel, in place of one installed earlier. Needs root.
    #[arg(long, conflicts_with = "remove")]
    apply: bool,
    /// Remove what --apply installed on this interface, and nothing else. Needs root.
    #[arg(long)]
    remove: bool,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    /// The nftables ruleset.
    Nft,
    /// The `tc` commands.
    Tc,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.remove {
        return remove(args);
    }
    let source = Source {
        policy: args.policy.clone().unwrap_or_default(),
        line: args.line,
    };
    let (config, _) = source.read()?;
    let queues = if args.plain_queues {
        Queues::Plain
    } else {
        Queues::Near
    };
    let exported = export(&config, &args.dev, source.line, queues)
        .map_err(|error| BadInput(format!("{}: {error}", source.policy)))?;
    let done = if args.apply {
        match kernel::apply(&exported, &Namespace::current()?)? {
            Applied::New => "applied",
            Applied::Replaced => "applied, in place of an earlier one",
        }
    } else {
        "printed only"
    };
    if args.json {
        let json = serde_json::json!({
            "interface": exported.interface,
            "table": exported.table,
            "nft": exported.nft,
            "tc": exported.tc,
            "notes": exported.notes,
            "done": done,
        });
        crate::output::print(&format!("{json:#}\n"));
        return Ok(ExitCode::SUCCESS);
    }
    for note in &exported.notes {
        eprintln!("strait: {note}");
    }
    if args.apply {
        eprintln!("strait: {}: {done}", args.dev);
    } else {
        crate::output::print(&text(&exported, args.only));
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(args: &Args) -> anyhow::Result<ExitCode> {
    let table = Export::table(&args.dev);
    let done = match kernel::remove(&args.dev, &table, &Namespace::current()?)? {
        true => "removed",
        false => "there was nothing to remove",
    };
    if args.json {
        let json = serde_json::json!({"interface": args.dev, "done": done});
        crate::output::print(&format!("{json:#}\n"));
    } else {
        eprintln!("strait: {}: {done}", args.dev);
    }
    Ok(ExitCode::SUCCESS)
}

fn text(export: &Export, only: Option<Only>) -> String {
    match only {
        Some(Only::Nft) => export.nft.clone(),
        Some(Only::Tc) => export.tc.clone(),
        None => format!("# nft -f -\n{}\n# tc -batch -\n{}", export.nft, export.tc),
    }
}
