//! What a gateway's message switch has, and what an operator wants of it.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use strait_core::mail::MailOrder;
use strait_live::status::{self, Format};
use strait_report::mail_text;
use strait_status::MailQueue;

use super::status::{PATIENCE, only_socket};
use crate::exit::BadInput;

/// Ask a running gateway which mail it has, why that waits, and hold, release or reroute some.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait mail queue\n  strait mail queue /run/strait/a.sock --json\n  \
                  strait mail trace 17\n  strait mail hold 17; strait mail release 17\n  strait mail minimize immediate\n  \
                  strait mail reroute 17 10.8.0.2\n  strait mail reroute 10.9.0.2 10.8.0.2\n  strait mail reroute 10.9.0.2 back"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List all messages by next hop, the most urgent first.
    Queue {
        /// Status socket, or a file written by `--json` [default: the only gateway that runs here].
        socket: Option<PathBuf>,
        /// Print one JSON object on stdout.
        #[arg(long)]
        json: bool,
    },
    /// Show one message: its origin, its destinations and the last reply about it.
    Trace {
        /// Number of the message.
        id: u64,
        /// Status socket [default: the only gateway that runs here].
        socket: Option<PathBuf>,
        /// Print a JSON array of its next hops on stdout.
        #[arg(long)]
        json: bool,
    },
    /// Keep a message until it is released.
    Hold {
        /// Number of the message.
        id: u64,
        /// Status socket [default: the only gateway that runs here].
        socket: Option<PathBuf>,
    },
    /// Send only this precedence and higher ones to other switches, until `off`.
    Minimize {
        /// `override`, `flash`, `immediate`, `priority`, `routine`, or `off`.
        precedence: Least,
        /// Status socket [default: the only gateway that runs here].
        socket: Option<PathBuf>,
    },
    /// Move a message, or all messages of a next hop, to another next hop of the route.
    Reroute {
        /// Number of a message, or address of a next hop.
        what: Rerouted,
        /// Address of the other next hop, or `back`.
        to: Way,
        /// Status socket [default: the only gateway that runs here].
        socket: Option<PathBuf>,
    },
    /// Read a password from stdin and print its hash for `[[mail.user]]`.
    Password,
    /// Release a held message.
    Release {
        /// Number of the message.
        id: u64,
        /// Status socket [default: the only gateway that runs here].
        socket: Option<PathBuf>,
    },
}

/// What is to go another way.
#[derive(Clone, Copy, Debug)]
enum Rerouted {
    Message(u64),
    Hop(IpAddr),
}

impl std::str::FromStr for Rerouted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hop = |_| text.parse().map(Self::Hop);
        let found = text.parse().map(Self::Message).or_else(hop);
        found.map_err(|_| "is neither a message's number nor a next hop's address".into())
    }
}

/// Where it is to go.
#[derive(Clone, Copy, Debug)]
enum Way {
    Back,
    Hop(IpAddr),
}

impl std::str::FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "back" {
            return Ok(Self::Back);
        }
        let hop = text.parse().map(Self::Hop);
        hop.map_err(|_| "is no next hop's address, nor `back`".into())
    }
}

/// The least precedence that goes, by its number.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Least {
    Off,
    Routine,
    Priority,
    Immediate,
    Flash,
    Override,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Queue { socket, json } => {
            let (text, queue) = ask(socket.as_deref(), "mail queue")?;
            crate::output::print(&if *json { text } else { mail_text(&queue) });
        }
        What::Trace { id, socket, json } => trace(*id, socket.as_deref(), *json)?,
        What::Hold { id, socket } => order(MailOrder::Hold(*id), socket.as_deref())?,
        What::Minimize { precedence, socket } => {
            let least = *precedence as u64;
            order(MailOrder::Minimize(least), socket.as_deref())?;
        }
        What::Reroute { what, to, socket } => {
            let to = match to {
                Way::Back => None,
                Way::Hop(to) => Some(*to),
            };
            let wanted = match what {
                Rerouted::Message(id) => MailOrder::Reroute(*id, to),
                Rerouted::Hop(from) => MailOrder::Divert(*from, to),
            };
            order(wanted, socket.as_deref())?;
        }
        What::Password => password()?,
        What::Release { id, socket } => order(MailOrder::Release(*id), socket.as_deref())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn path(socket: Option<&Path>, command: &str) -> anyhow::Result<PathBuf> {
    Ok(match socket {
        Some(path) => path.to_path_buf(),
        None => only_socket(command)?,
    })
}

fn ask(socket: Option<&Path>, command: &str) -> anyhow::Result<(String, MailQueue)> {
    let path = path(socket, command)?;
    let text = if path.is_file() {
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())?
    } else {
        status::request(&path, Format::Mail, PATIENCE)?
    };
    let queue = serde_json::from_str(&text).map_err(|error| {
        BadInput(format!(
            "{}: no queue of mail: {error}; write it by `strait mail queue --json`",
            path.display()
        ))
    })?;
    Ok((text, queue))
}

fn trace(id: u64, socket: Option<&Path>, json: bool) -> anyhow::Result<()> {
    let (_, queue) = ask(socket, "mail trace ID")?;
    let rows = queue.messages.iter().filter(|row| row.id == id);
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        let why = format!("there is no message {id} here: it is gone, or never arrived");
        return Err(BadInput(why).into());
    }
    if json {
        crate::output::print(&(serde_json::to_string_pretty(&rows)? + "\n"));
        return Ok(());
    }
    for row in rows {
        let estimate = row
            .estimate_s
            .map_or_else(|| "unknown".into(), |it| format!("{it:.0} s"));
        crate::output::print(&format!(
            "message {} ({}, {} octets{}) from <{}>\n  to {} by {}: {}, {} tries, here for {:.0} s\n  \
             there in: {estimate}\n  last reply: {}\n  {}\n",
            row.id,
            row.precedence,
            row.octets,
            row.by
                .as_ref()
                .map_or_else(String::new, |it| format!(", BY={it}")),
            row.sender,
            row.recipients,
            row.hop,
            row.state,
            row.tries,
            row.age_s,
            row.said,
            row.trace
        ));
    }
    Ok(())
}

fn password() -> anyhow::Result<()> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(BadInput("there is no password on stdin: type it, and Enter".into()).into());
    }
    let hash = strait_live::password::hash(password.as_bytes());
    let hash = hash.context("this host provides no random numbers")?;
    crate::output::print(&(hash + "\n"));
    Ok(())
}

fn order(order: MailOrder, socket: Option<&Path>) -> anyhow::Result<()> {
    let path = path(socket, "mail hold ID")?;
    status::order(&path, order, PATIENCE)?;
    Ok(())
}
