//! Rules of this repository that no compiler checks.

pub(crate) mod arrows;
mod conformance;
mod libraries;
mod links;
mod prose;
mod source;
mod types;
mod words;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Findings that are as they should be: rule, file, reason. One that finds nothing is a finding.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// Folders that hold what tools made.
const MADE: [&str; 6] = [
    ".git",
    "target",
    "corpus",
    "artifacts",
    "coverage",
    "node_modules",
];

/// Endings of files that rules read.
const TEXT: [&str; 10] = [
    "rs", "md", "toml", "lock", "py", "sh", "json", "yml", "html", "js",
];

/// A text file of the repository.
pub(crate) struct File {
    /// From the root, with `/`.
    path: String,
    text: String,
}

impl File {
    fn is(&self, ending: &str) -> bool {
        self.path
            .rsplit_once('.')
            .is_some_and(|(_, own)| own == ending)
    }

    fn name(&self) -> &str {
        self.path
            .rsplit_once('/')
            .map_or(&self.path, |(_, name)| name)
    }
}

/// The repository as the rules see it.
#[derive(Default)]
pub(crate) struct Tree {
    files: Vec<File>,
    /// Every file and folder, text or not.
    paths: BTreeSet<String>,
}

impl Tree {
    fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.walk(root, "")?;
        Ok(tree)
    }

    fn walk(&mut self, dir: &Path, prefix: &str) -> Result<()> {
        let entries = fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
        let mut entries = entries.collect::<std::io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && !MADE.contains(&name.as_str()) {
                self.walk(&entry.path(), &format!("{path}/"))?;
                self.paths.insert(path);
            } else if kind.is_file() {
                self.paths.insert(path.clone());
                let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
                if TEXT.contains(&ending) || path == ".ci/run" {
                    let text = fs::read_to_string(entry.path())
                        .with_context(|| format!("{path} is not readable as UTF-8"))?;
                    self.files.push(File { path, text });
                }
            }
        }
        Ok(())
    }

    fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is("rs"))
    }

    fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// A tree for a test of a rule.
    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Self {
        let own = |(path, text): &(&str, &str)| File {
            path: (*path).into(),
            text: (*text).into(),
        };
        let paths = files.iter().map(|(path, _)| (*path).into()).collect();
        Self {
            files: files.iter().map(own).collect(),
            paths,
        }
    }
}

/// A place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    rule: &'static str,
    path: String,
    /// From 1; 0 for the file as a whole.
    line: usize,
    what: String,
}

impl Finding {
    fn new(rule: &'static str, path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            rule,
            path: path.into(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rule,
            path,
            line,
            what,
        } = self;
        match line {
            0 => write!(f, "{path}: {what} [{rule}]"),
            _ => write!(f, "{path}:{line}: {what} [{rule}]"),
        }
    }
}

/// Checks the repository at `root`.
pub(crate) fn run(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    let mut findings = findings(&tree);
    findings.extend(libraries::check_licences(root)?);
    let findings = excused(findings, EXCEPTIONS);
    if findings.is_empty() {
        println!("{} text files are tidy", tree.files.len());
        return Ok(());
    }
    for finding in &findings {
        println!("{finding}");
    }
    bail!("{} places are not tidy", findings.len())
}

fn findings(tree: &Tree) -> Vec<Finding> {
    let rules = [
        arrows::check,
        arrows::check_picture,
        libraries::check_lock,
        words::check_code,
        words::check_sizes,
        words::check_machine_paths,
        types::check,
        links::check_markdown,
        links::check_glossary,
        links::check_scenarios,
        links::check_decisions,
        conformance::check,
        prose::check,
    ];
    rules.into_iter().flat_map(|rule| rule(tree)).collect()
}

/// What is left when the exceptions are taken away, and the exceptions that took nothing away.
fn excused(findings: Vec<Finding>, exceptions: &[(&str, &str, &str)]) -> Vec<Finding> {
    let covers = |(rule, path, _): &(&str, &str, &str), finding: &Finding| {
        finding.rule == *rule && finding.path == *path
    };
    let idle = exceptions
        .iter()
        .filter(|exception| !findings.iter().any(|finding| covers(exception, finding)))
        .map(|(rule, path, _)| {
            Finding::new(
                "exception",
                path,
                0,
                format!("nothing breaks `{rule}` here any more"),
            )
        })
        .collect::<Vec<_>>();
    let excused = |finding: &Finding| exceptions.iter().any(|one| covers(one, finding));
    findings
        .into_iter()
        .filter(|finding| !excused(finding))
        .chain(idle)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_covers_its_rule_and_file_and_must_be_needed() {
        let found = vec![
            Finding::new("size", "a.rs", 1, "long"),
            Finding::new("size", "b.rs", 2, ""),
        ];
        let left = excused(
            found.clone(),
            &[("size", "a.rs", "a table"), ("unsafe", "a.rs", "")],
        );
        assert_eq!(left.len(), 2);
        assert_eq!((left[0].path.as_str(), left[1].rule), ("b.rs", "exception"));
        assert_eq!(excused(found.clone(), &[]), found);
        assert_eq!(found[1].to_string(), "b.rs:2:  [size]");
    }
}
