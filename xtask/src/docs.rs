//! Figures and samples in documents: the output of the commands that stand above them.
//!
//! A document marks one by a comment line `<!-- output of: strait ARGS -->`, followed by a fenced
//! block. `cargo xtask docs` runs each command and puts its output into the block. `quick output
//! of:` says that the command takes a second at most; these are what `--check` runs and compares.
//! `, after: strait ARGS` behind a command names one that makes what it reads. The check also finds
//! commands that documents name and that aren't there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::ci::cargo;

const MARK: &str = "<!-- output of: strait ";
const QUICK: &str = "<!-- quick output of: strait ";

/// Makes the figures of the documents anew: of those named, or of all.
pub(crate) fn run(root: &Path, files: &[&str]) -> Result<()> {
    cargo(root, &["build", "--release", "--quiet", "--package=strait"])?;
    let binary = root.join("target/release/strait");
    for (path, text) in texts(root, files)? {
        let made = remake(&text, &[MARK, QUICK], &|line| output(root, &binary, line))
            .with_context(|| path.display().to_string())?;
        if made != text {
            fs::write(&path, made)?;
            println!("{}: made anew", path.display());
        }
    }
    Ok(())
}

/// Compares the documents with what their quick commands say now.
pub(crate) fn check(root: &Path, files: &[&str]) -> Result<()> {
    // As it is built for all tests, so that CI builds it once.
    let build = ["test", "--quiet", "--workspace", "--no-run", "--test=check"];
    cargo(root, &build)?;
    let binary = root.join("target/debug/strait");
    let commands = Commands::of(&|args| says(root, &binary, args))?;
    let mut stale = 0;
    for (path, text) in texts(root, files)? {
        let made = remake(&text, &[QUICK], &|line| output(root, &binary, line))
            .with_context(|| path.display().to_string())?;
        if let Some(what) = first_difference(&text, &made) {
            println!("{}:{what}", path.display());
            stale += 1;
        }
        for (line, command) in commands.unknown(&text) {
            println!("{}:{line}: there is no `strait {command}`", path.display());
            stale += 1;
        }
    }
    ensure!(
        stale == 0,
        "{stale} places are stale: run `cargo xtask docs`, with their names for them alone"
    );
    Ok(())
}

/// The commands that there are, each with those below it.
struct Commands(BTreeMap<String, BTreeSet<String>>);

impl Commands {
    /// As their help says, which `says` gives.
    fn of(says: &dyn Fn(&str) -> Result<String>) -> Result<Self> {
        let listed = |help: &str| -> BTreeSet<String> {
            let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
            let lines = lines.take_while(|line| line.starts_with(' '));
            lines
                .filter_map(|line| line.split_whitespace().next())
                .map(str::to_owned)
                .collect()
        };
        let below = |name: String| {
            let help = if name == "help" {
                String::new()
            } else {
                says(&format!("{name} --help"))?
            };
            Ok((name, listed(&help)))
        };
        let names = listed(&says("--help")?);
        names
            .into_iter()
            .map(below)
            .collect::<Result<_>>()
            .map(Self)
    }

    /// Those that a document names in code and that aren't there, each with its line.
    fn unknown(&self, text: &str) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let prompted = ["$ strait ", "# strait "].map(|prompt| text.strip_prefix(prompt));
            let quoted = text.split("`strait ").skip(1);
            let quoted = quoted.filter_map(|rest| rest.split('`').next());
            for named in quoted.chain(prompted.into_iter().flatten()) {
                let mut words = named.split(' ').map(command_word);
                let (first, second) = (words.next().flatten(), words.next().flatten());
                let Some(first) = first else { continue };
                match (self.0.get(first), second) {
                    (None, _) => found.push((line, first.to_owned())),
                    (Some(below), Some(second)) if !below.is_empty() && !below.contains(second) => {
                        found.push((line, format!("{first} {second}")));
                    }
                    _ => {}
                }
            }
        }
        found
    }
}

/// The name of a command that a word begins with; `None` if it is an option, a file or a value.
fn command_word(word: &str) -> Option<&str> {
    let end = word.find(|char: char| !char.is_ascii_lowercase());
    let (name, rest) = word.split_at(end.unwrap_or(word.len()));
    (rest.is_empty() && !name.is_empty()).then_some(name)
}

/// The documents named, or all, with their texts.
fn texts(root: &Path, files: &[&str]) -> Result<Vec<(PathBuf, String)>> {
    let named: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
    let paths = if named.is_empty() {
        let mut all = documents(&root.join("docs"))?;
        all.insert(0, root.join("README.md"));
        all
    } else {
        named
    };
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok((path, text))
    };
    paths.into_iter().map(read).collect()
}

/// The first line that isn't as it would be made, if any.
fn first_difference(text: &str, made: &str) -> Option<String> {
    if text == made {
        return None;
    }
    let pairs = text.lines().zip(made.lines());
    let same = pairs.take_while(|(old, new)| old == new).count();
    let of = |text: &str| text.lines().nth(same).unwrap_or_default().to_owned();
    Some(format!(
        "{}:\n  stands: {}\n  is now: {}",
        same + 1,
        of(text),
        of(made)
    ))
}

fn documents(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(documents(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// What a marked line's command says, after the one that makes what it reads.
fn output(root: &Path, binary: &Path, line: &str) -> Result<String> {
    println!("==> strait {line}");
    let (args, before) = match line.split_once(", after: strait ") {
        Some((args, before)) => (args, Some(before)),
        None => (line, None),
    };
    before.map_or(Ok(String::new()), |args| says(root, binary, args))?;
    says(root, binary, args)
}

fn says(root: &Path, binary: &Path, args: &str) -> Result<String> {
    let output = Command::new(binary)
        .args(args.split_whitespace())
        .current_dir(root)
        .output()
        .context("strait can't be started")?;
    ensure!(
        output.status.success(),
        "`strait {args}` failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// The text with every block's content replaced that stands below one of the marks.
fn remake(text: &str, marks: &[&str], output: &dyn Fn(&str) -> Result<String>) -> Result<String> {
    let mut made = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        made += line;
        made.push('\n');
        let marked = marks.iter().find_map(|mark| line.strip_prefix(mark));
        let Some(args) = marked.and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let fence = lines.next().unwrap_or_default();
        if !fence.starts_with("```") || !lines.any(|line| line == "```") {
            bail!("no fenced block follows `{line}`");
        }
        let content = output(args)?;
        made += &format!("{fence}\n{}\n```\n", content.trim_end());
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_block_is_replaced_and_nothing_else() {
        let text =
            "a\n<!-- output of: strait demo --x -->\n```text\nold\nolder\n```\nb\n```\nc\n```\n";
        let made = remake(text, &[MARK], &|args| Ok(format!("new of {args}\n"))).unwrap();
        let expected = text.replace("old\nolder", "new of demo --x");
        assert_eq!(made, expected);
        assert_eq!(
            remake(&made, &[MARK], &|_| Ok("new of demo --x".into())).unwrap(),
            made
        );
    }

    #[test]
    fn a_mark_without_a_block_is_an_error() {
        for text in [
            "<!-- output of: strait x -->\n",
            "<!-- output of: strait x -->\n```\nopen\n",
        ] {
            assert!(remake(text, &[MARK], &|_| Ok(String::new())).is_err());
        }
    }

    #[test]
    fn only_what_is_marked_as_quick_is_compared() {
        let text = "<!-- output of: strait a -->\n```\nold\n```\n\
                    <!-- quick output of: strait b -->\n```\nold\n```\n";
        let made = remake(text, &[QUICK], &|args| Ok(format!("new of {args}"))).unwrap();
        assert_eq!(made.matches("new of").count(), 1);
        let what = first_difference(text, &made).unwrap();
        assert_eq!(what, "7:\n  stands: old\n  is now: new of b");
        assert_eq!(first_difference(&made, &made), None);
        // A line that is gone, or one that came.
        assert!(first_difference("a\nb\n", "a\n").unwrap().starts_with("2:"));
        assert!(
            first_difference("a\n", "a\nb\n")
                .unwrap()
                .ends_with("is now: b")
        );
    }

    #[test]
    fn commands_that_are_named_have_to_be_there() {
        let says = |args: &str| {
            let listed = match args {
                "--help" => {
                    "Commands:\n  policy  Ask\n  run     Run\n  help    Help\n\nOptions:\n  x"
                }
                "policy --help" => "Ask.\n\nCommands:\n  explain  Explain\n\nOptions:",
                _ => "Run.\n",
            };
            Ok(listed.to_owned())
        };
        let commands = Commands::of(&says).unwrap();
        let unknown = |text: &str| commands.unknown(text);
        for known in [
            "`strait run a.toml`, `strait run`",
            "`strait policy explain x`",
            "`strait policy --help`, `strait policy`, and `strait policy` asks",
            "$ strait run x\n# strait run",
            "strait draws",
            "`strait --help`",
            "`strait-run` and `strait COMMAND`",
        ] {
            assert_eq!(unknown(known), [], "{known}");
        }
        assert_eq!(unknown("a\n`strait draw x`"), [(2, "draw".to_owned())]);
        assert_eq!(unknown("$ strait walk"), [(1, "walk".to_owned())]);
        assert_eq!(
            unknown("`strait policy draw`"),
            [(1, "policy draw".to_owned())]
        );
        assert_eq!(unknown("`strait options`").len(), 1);
    }
}
