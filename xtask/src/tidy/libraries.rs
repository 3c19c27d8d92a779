//! Other people's code: where it comes from, under which licences, and what is there twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{Finding, Tree};
use crate::ci::cargo_command;

/// The only place that libraries come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Licences that ask no more than to be named beside the program.
const LICENCES: &str = "0BSD, Apache-2.0, Apache-2.0 WITH LLVM-exception, BSD-2-Clause, \
    BSD-3-Clause, BSL-1.0, ISC, MIT, Unicode-3.0, Unlicense, Zlib";

/// Versions that are there beside a later one of the same library, and who keeps them.
const DUPLICATES: [(&str, &str); 5] = [
    ("bitflags 1.3.2", "smoltcp and its defmt"),
    ("getrandom 0.2.17", "ring"),
    ("signal-hook 0.3.18", "crossterm"),
    ("syn 2.0.119", "zerocopy-derive"),
    ("windows-sys 0.52.0", "ring, on Windows only"),
];

/// Checks the lock file: each library is from the registry, and there once.
pub(super) fn check_lock(tree: &Tree) -> Vec<Finding> {
    let lock = tree.file("Cargo.lock");
    lock.map_or_else(Vec::new, |file| check_packages(&file.text, &DUPLICATES))
}

fn check_packages(lock: &str, duplicates: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut tell = |rule, what| findings.push(Finding::new(rule, "Cargo.lock", 0, what));
    let (mut latest, mut older) = (BTreeMap::new(), BTreeSet::new());
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let mut lines = package.lines().filter_map(|line| line.split_once(" = "));
            let found = lines.find(|(own, _)| *own == key);
            found.map_or("", |(_, value)| value.trim_matches('"'))
        };
        let (name, version, source) = (value("name"), value("version"), value("source"));
        let ours = name.starts_with("strait") || name == "xtask";
        if source != if ours { "" } else { REGISTRY } {
            tell("source", format!("`{name}` comes from `{source}`"));
        }
        // Of one name, cargo writes the latest version last.
        let before = latest.insert(name, version);
        older.extend(before.map(|before| format!("{name} {before}")));
    }
    let known: BTreeSet<String> = duplicates.iter().map(|(one, _)| (*one).into()).collect();
    for one in older.difference(&known) {
        tell("duplicate", format!("`{one}` is there beside a later one"));
    }
    for one in known.difference(&older) {
        tell("duplicate", format!("`{one}` is a duplicate no more"));
    }
    findings
}

/// Checks the licences of all that is compiled for this host, as cargo knows them.
pub(super) fn check_licences(root: &Path) -> Result<Vec<Finding>> {
    let output = cargo_command(root)
        .args(["tree", "--workspace", "--locked", "--prefix=none"])
        .args(["--edges=normal,build,dev", "--format={p}|{l}|"])
        .output()
        .context("cargo did not start")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`cargo tree` failed: {told}");
    Ok(check_tree(&String::from_utf8_lossy(&output.stdout)))
}

/// Each line is `NAME VERSION|LICENCE|`, and more.
fn check_tree(tree: &str) -> Vec<Finding> {
    let cut = |line: &'_ str| Some(line.rsplit_once('|')?.0.to_owned());
    let packages: BTreeSet<String> = tree.lines().filter_map(cut).collect();
    let cut = packages.iter().filter_map(|line| line.split_once('|'));
    let refused = cut.filter(|(_, terms)| !is_allowed(terms));
    let finding = |(package, terms)| {
        let what = format!("`{package}`: `{terms}` is no licence that xtask allows");
        Finding::new("licence", "Cargo.lock", 0, what)
    };
    refused.map(finding).collect()
}

/// Whether an SPDX expression leaves us a choice of allowed licences only.
fn is_allowed(terms: &str) -> bool {
    let terms = terms.trim();
    for word in [" OR ", "/", " AND "] {
        let mut depth = 0;
        let outside = terms.char_indices().find(|(at, char)| {
            depth += i32::from(*char == '(') - i32::from(*char == ')');
            depth == 0 && terms[*at..].starts_with(word)
        });
        if let Some((at, _)) = outside {
            let (first, rest) = (&terms[..at], &terms[at + word.len()..]);
            return match word {
                " AND " => is_allowed(first) && is_allowed(rest),
                _ => is_allowed(first) || is_allowed(rest),
            };
        }
    }
    let inner = terms.strip_prefix('(').and_then(|it| it.strip_suffix(')'));
    inner.map_or_else(|| LICENCES.split(", ").any(|one| one == terms), is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_is_found_when_no_choice_is_allowed() {
        let told = |tree: &str| check_tree(tree).iter().map(|it| it.what.clone()).collect();
        let told: Vec<String> = told(
            "a v1|MIT|\na v2|MIT/GPL-3.0-only|\na v3|GPL-3.0-only OR ISC| (*)\n\n\
             a v4|(MIT OR GPL-3.0-only) AND Unicode-3.0|\na v5|(ISC AND X) OR (MIT AND ISC)|\n\
             b v1||\nb v2|GPL-3.0-only|\nb v2|GPL-3.0-only| (*)\nb v3|MIT AND GPL-3.0-only|\n\
             b v4|(MIT OR ISC) AND X|\nb v5|X OR MIT AND SSPL-1.0|\nb v6|MIT WITH X|\n",
        );
        let packages: Vec<&str> = told.iter().map(|what| &what[..6]).collect();
        let all = ["`b v1`", "`b v2`", "`b v3`", "`b v4`", "`b v5`", "`b v6`"];
        assert_eq!(packages, all);
    }

    #[test]
    fn other_sources_and_unknown_duplicates_are_found() {
        let package = |name: &str, version: &str, source: &str| {
            let source = format!("source = \"{source}\"\n");
            let source = source.replace("source = \"\"\n", "");
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{source}\n")
        };
        let lock = package("a", "1.0", REGISTRY)
            + &package("a", "2.0", REGISTRY)
            + &package("b", "1.0", "git+https://example.org/b")
            + &package("c", "1.0", "")
            + &package("strait-core", "0.1", "");
        let found = |known: &[(&str, &str)]| -> Vec<String> {
            let findings = check_packages(&lock, known).into_iter();
            findings
                .map(|one| format!("{} {}", one.rule, &one.what[..4]))
                .collect()
        };
        let sources = ["source `b` ", "source `c` "];
        assert_eq!(found(&[("a 1.0", "x")]), sources);
        assert_eq!(found(&[]), [&sources[..], &["duplicate `a 1"]].concat());
        let idle = found(&[("a 1.0", "x"), ("d 1.0", "x")]);
        assert_eq!(idle, [&sources[..], &["duplicate `d 1"]].concat());
    }
}
