//! Figures in documents: the output of the commands that stand above them.
//!
//! A document marks a figure by a comment line `<!-- output of: strait ARGS -->`, followed by a
//! fenced block. `cargo xtask docs` runs each command and puts its output into the block.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

const MARK: &str = "<!-- output of: strait ";

/// Makes the figures of the documents anew: of those named, or of all.
pub(crate) fn run(root: &Path, files: &[&str]) -> Result<()> {
    let build = ["build", "--release", "--quiet", "--package", "strait"];
    let status = Command::new("cargo")
        .args(build)
        .current_dir(root)
        .status()?;
    ensure!(status.success(), "strait does not build");
    let named: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
    let paths = if named.is_empty() {
        let mut all = documents(&root.join("docs"))?;
        all.insert(0, root.join("README.md"));
        all
    } else {
        named
    };
    for path in paths {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let made = remake(&text, &|args| output(root, args))
            .with_context(|| path.display().to_string())?;
        if made != text {
            fs::write(&path, made)?;
            println!("{}: made anew", path.display());
        }
    }
    Ok(())
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

fn output(root: &Path, args: &str) -> Result<String> {
    println!("==> strait {args}");
    let binary = root.join("target/release/strait");
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

/// The text with every marked block's content replaced.
fn remake(text: &str, output: &dyn Fn(&str) -> Result<String>) -> Result<String> {
    let mut made = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        made += line;
        made.push('\n');
        let Some(args) = line
            .strip_prefix(MARK)
            .and_then(|rest| rest.strip_suffix(" -->"))
        else {
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
        let made = remake(text, &|args| Ok(format!("new of {args}\n"))).unwrap();
        let expected = text.replace("old\nolder", "new of demo --x");
        assert_eq!(made, expected);
        assert_eq!(
            remake(&made, &|_| Ok("new of demo --x".into())).unwrap(),
            made
        );
    }

    #[test]
    fn a_mark_without_a_block_is_an_error() {
        for text in [
            "<!-- output of: strait x -->\n",
            "<!-- output of: strait x -->\n```\nopen\n",
        ] {
            assert!(remake(text, &|_| Ok(String::new())).is_err());
        }
    }
}
