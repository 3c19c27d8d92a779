//! Puts an exported policy into the kernel, and takes away exactly that.
//!
//! What is ours is known by its names: the nftables table and the handle of the root queueing
//! discipline, both of which an [`Export`] states.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use strait_live::error::{Doing, Error};
use strait_live::kernel::namespace::Namespace;
use strait_qos::export::Export;

/// What was found before, so that an error leaves things as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Nothing of ours was there.
    New,
    /// An earlier policy of ours was replaced.
    Replaced,
}

/// Puts a policy on the interface that it was exported for, in place of an earlier one of ours.
///
/// # Errors
/// A program is missing, the interface isn't there or has a queueing discipline of somebody else,
/// or the kernel lacks a discipline or classifier; then nothing of the policy stays.
pub fn apply(export: &Export, namespace: &Namespace) -> Result<Applied, Error> {
    let root = Root::of(&export.interface, namespace)?;
    if let Root::Foreign(kind) = &root {
        let doing = format!("set a queueing discipline on `{}`", export.interface);
        let why = format!("it has one of another program: {kind}");
        let remedy = format!(
            "remove it first: tc qdisc del dev {} root",
            export.interface
        );
        return Err(Error::invalid(doing, why).with_remedy(remedy));
    }
    let had = remove(&export.interface, &export.table, namespace)?;
    // Marks first: what is queued before its class is known would go unshaped.
    let done = run(namespace, "nft", &["-f", "-"], &export.nft)
        .and_then(|()| run(namespace, "tc", &["-batch", "-"], &export.tc));
    match done {
        Ok(()) if had => Ok(Applied::Replaced),
        Ok(()) => Ok(Applied::New),
        Err(error) => {
            // The first error says more than one of taking away what isn't there.
            let _ = remove(&export.interface, &export.table, namespace);
            Err(error)
        }
    }
}

/// Takes away what [`apply`] set on that interface, and nothing else; whether there was anything.
///
/// # Errors
/// A program is missing, or the kernel refuses.
pub fn remove(interface: &str, table: &str, namespace: &Namespace) -> Result<bool, Error> {
    let mut had = false;
    if let Root::Ours(handle) = Root::of(interface, namespace)? {
        had = true;
        let arguments = ["qdisc", "del", "dev", interface, "root", "handle", &handle];
        run(namespace, "tc", &arguments, "")?;
    }
    let tables = output(namespace, "nft", &["list", "tables"], "")?;
    for family in Export::FAMILIES {
        let wanted = format!("table {family} {table}");
        if tables.lines().any(|line| line.trim() == wanted) {
            had = true;
            run(namespace, "nft", &["delete", "table", family, table], "")?;
        }
    }
    Ok(had)
}

/// The root queueing discipline of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Root {
    /// What the kernel gives an interface by itself.
    Default,
    Ours(String),
    Foreign(String),
}

impl Root {
    fn of(interface: &str, namespace: &Namespace) -> Result<Self, Error> {
        let arguments = ["qdisc", "show", "dev", interface, "root"];
        let text = output(namespace, "tc", &arguments, "")?;
        Ok(Self::read(&text))
    }

    /// Reads `qdisc htb 57a1: root refcnt 2 …`. The kernel's own have the handle `0:`.
    fn read(text: &str) -> Self {
        let mut words = text.split_whitespace().skip(1);
        let (kind, handle) = (words.next(), words.next());
        match (kind, handle) {
            (Some(_), Some("0:")) | (None, _) | (_, None) => Self::Default,
            (Some(_), Some(handle)) if handle == format!("{:x}:", Export::HANDLE) => {
                Self::Ours(handle.into())
            }
            (Some(kind), Some(handle)) => Self::Foreign(format!("{kind} {handle}")),
        }
    }
}

/// Runs a program in the namespace, with `input` on its standard input.
pub(crate) fn run(
    namespace: &Namespace,
    program: &str,
    arguments: &[&str],
    input: &str,
) -> Result<(), Error> {
    output(namespace, program, arguments, input).map(drop)
}

/// What a program printed. It runs in the namespace, with `input` on its standard input.
fn output(
    namespace: &Namespace,
    program: &str,
    arguments: &[&str],
    input: &str,
) -> Result<String, Error> {
    let doing = || format!("run `{program} {}`", arguments.join(" "));
    let ended = namespace.enter(|| ended(program, arguments, input))?;
    let ended = ended.doing(doing).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => error.with_remedy(package(program)),
        _ => error,
    })?;
    if ended.status.success() {
        return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
    }
    let complaints = String::from_utf8_lossy(&ended.stderr);
    // What the kernel only warns of stands before what it refuses.
    let complaint = complaints
        .lines()
        .find(|line| !line.is_empty() && !line.starts_with("Warning"));
    let why = complaint.unwrap_or("it failed without a message");
    let error = Error::invalid(doing(), why);
    Err(if why.contains("unknown") || why.contains("not found") {
        error.with_remedy(
            "this kernel may lack it; `strait policy export --plain-queues` needs no SFQ, FQ-CoDel or \
             PRIO",
        )
    } else {
        error
    })
}

/// Runs a program that ends by itself at once.
fn ended(program: &str, arguments: &[&str], input: &str) -> std::io::Result<Output> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends early says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output()
}

fn package(program: &str) -> &'static str {
    match program {
        "nft" => "on Debian: apt install nftables",
        _ => "on Debian: apt install iproute2",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_known_by_its_handle() {
        let ours = format!("qdisc htb {:x}: root refcnt 2 r2q 10", Export::HANDLE);
        let cases = [
            ("", Root::Default),
            ("qdisc noqueue 0: root refcnt 2", Root::Default),
            ("qdisc mq 0: root", Root::Default),
            ("qdisc htb 1: root refcnt 2", Root::Foreign("htb 1:".into())),
            (&ours, Root::Ours(format!("{:x}:", Export::HANDLE))),
        ];
        for (text, root) in cases {
            assert_eq!(Root::read(text), root, "{text}");
        }
    }
}
