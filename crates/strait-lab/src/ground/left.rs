//! What a lab leaves behind: nothing, and here it is looked for.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;

use nix::sys::stat::fstat;

use super::net::own_interfaces;
use crate::Ground;

/// What was found after a lab had ended, in words. Empty if all is as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left(pub Vec<String>);

/// By what the parts of a lab are recognised after its end.
#[derive(Debug)]
pub(crate) struct Traces {
    /// Links of `/proc/PID/ns/net` that stand for the lab's namespaces.
    namespaces: BTreeSet<String>,
    /// Interfaces of the host's own namespace, where the lab makes none.
    interfaces: Vec<String>,
    scratch: PathBuf,
    kept: bool,
}

impl Traces {
    pub(crate) fn of(ground: &Ground) -> Self {
        let link = |namespace: &strait_live::kernel::namespace::Namespace| {
            let found = fstat(namespace.as_fd()).ok()?;
            Some(format!("net:[{}]", found.st_ino))
        };
        Self {
            namespaces: ground.net.all().filter_map(link).collect(),
            interfaces: own_interfaces().unwrap_or_default(),
            scratch: ground.scratch.path().to_path_buf(),
            kept: ground.scratch.is_kept(),
        }
    }

    /// Everything that is still there.
    pub(crate) fn found(&self) -> Vec<String> {
        let mut found = self.processes();
        let interfaces = own_interfaces().unwrap_or_default();
        let new = interfaces
            .iter()
            .filter(|name| !self.interfaces.contains(name) && name.starts_with("strait"));
        found.extend(new.map(|name| format!("interface `{name}`")));
        let held = links_in("/proc/self/fd").filter(|link| self.namespaces.contains(link));
        found.extend(held.map(|link| format!("namespace {link}")));
        let scratch = self.scratch.display().to_string();
        let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let sockets = sockets.lines().filter(|line| line.contains(&scratch));
        found.extend(sockets.map(|line| format!("socket {line}")));
        if !self.kept && self.scratch.exists() {
            found.push(format!("folder {scratch}"));
        }
        found
    }

    /// Processes that are in one of the namespaces.
    fn processes(&self) -> Vec<String> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let inside = entries.filter(|entry| {
            let link = fs::read_link(entry.path().join("ns/net"));
            link.is_ok_and(|link| self.namespaces.contains(&*link.to_string_lossy()))
        });
        inside
            .map(|entry| format!("process {}", entry.file_name().to_string_lossy()))
            .collect()
    }
}

/// Where the links in a folder lead.
fn links_in(folder: &str) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.map(|link| link.to_string_lossy().into_owned())
}
