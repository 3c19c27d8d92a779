//! Files that name files: links in Markdown, scenarios, decisions.

use std::collections::BTreeMap;

use super::{File, Finding, Tree, source};

/// Folders that scenario files live in; beside them stand the scenarios that commands bring along.
const SCENARIO_FOLDERS: [&str; 13] = [
    "dns",
    "hf",
    "lab",
    "links",
    "mail",
    "manet",
    "nets",
    "nodes",
    "policies",
    "proxy",
    "regressions",
    "seeing",
    "studies",
];

/// Checks that each local link of a Markdown file leads somewhere.
pub(super) fn check_markdown(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is("md")) {
        for (line, target) in markdown_links(&file.text) {
            let there = resolve(&file.path, &target)
                .is_some_and(|path| path.is_empty() || tree.paths.contains(&path));
            if !there {
                let what = format!("`{target}` is not there");
                findings.push(Finding::new("link", &file.path, line, what));
            }
        }
    }
    findings
}

/// Targets of local links with their lines; code is no text.
fn markdown_links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // What stands between back-quotes is every second piece.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
        for piece in prose.split("](").skip(1) {
            let target = piece.split([')', ' ']).next().unwrap_or_default();
            let path = target.split('#').next().unwrap_or_default();
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !path.is_empty() && !elsewhere {
                links.push((index + 1, path.to_owned()));
            }
        }
    }
    links
}

/// Where the project's words are explained.
const GLOSSARY: &str = "docs/book/glossary.md";
/// What declares a name.
const DECLARE: [&str; 6] = ["fn", "struct", "enum", "trait", "type", "const"];

/// Checks that each name in the glossary is declared in the file that it leads to.
pub(super) fn check_glossary(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(GLOSSARY) else {
        return vec![Finding::new("glossary", GLOSSARY, 0, "it is not there")];
    };
    let mut findings = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        for piece in line.split("[`").skip(1) {
            let Some((name, rest)) = piece.split_once("`](") else {
                continue;
            };
            let target = rest.split(')').next().unwrap_or_default();
            let file = resolve(GLOSSARY, target).and_then(|path| tree.file(&path));
            if !file.is_some_and(|file| declares(&file.text, name)) {
                let what = format!("`{name}` is not declared in {target}");
                findings.push(Finding::new("glossary", GLOSSARY, index + 1, what));
            }
        }
    }
    findings
}

fn declares(text: &str, name: &str) -> bool {
    source::lines(text).iter().any(|line| {
        let names: Vec<&str> = source::names(&line.code).collect();
        let mut pairs = names.windows(2);
        pairs.any(|pair| DECLARE.contains(&pair[0]) && pair[1] == name)
    })
}

/// The path from the root that `target` means in the file at `from`; `None` if it is outside.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        return None;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Checks that each scenario file stands in a known folder and that something uses it.
pub(super) fn check_scenarios(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let scenarios = tree
        .files
        .iter()
        .filter(|file| file.path.starts_with("scenarios/"));
    for file in scenarios.filter(|file| file.is("toml")) {
        let parts: Vec<&str> = file.path.split('/').collect();
        if parts.len() > 2 && !SCENARIO_FOLDERS.contains(&parts[1]) {
            let what = format!("scenario files live in {}", SCENARIO_FOLDERS.join(", "));
            findings.push(Finding::new("scenario", &file.path, 0, what));
            continue;
        }
        // Two folders may have a file of the same name.
        let name = parts[parts.len() - 2..].join("/");
        let names_it = |other: &&File| other.path != file.path && other.text.contains(&name);
        if !tree.files.iter().any(|other| names_it(&other)) {
            let what = format!("nothing names `{name}`: no test, document or scenario");
            findings.push(Finding::new("scenario", &file.path, 0, what));
        }
    }
    findings
}

/// Checks that decisions are numbered, each number once.
pub(super) fn check_decisions(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut numbers = BTreeMap::new();
    for file in tree
        .files
        .iter()
        .filter(|file| file.path.starts_with("docs/adr/"))
    {
        let name = file.name();
        if name == "README.md" {
            continue;
        }
        let number = name.split('-').next().unwrap_or_default();
        if number.len() != 4 || !number.chars().all(|char| char.is_ascii_digit()) {
            let what = "a decision is called NNNN-what.md";
            findings.push(Finding::new("decision", &file.path, 0, what));
        } else if let Some(other) = numbers.insert(number, name) {
            let what = format!("has the number of `{other}`");
            findings.push(Finding::new("decision", &file.path, 0, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(&'static str, usize)> {
        let tree = Tree::of(files);
        let rules = [check_markdown, check_scenarios, check_decisions];
        let findings = rules.into_iter().flat_map(|rule| rule(&tree));
        findings
            .map(|finding| (finding.rule, finding.line))
            .collect()
    }

    #[test]
    fn a_word_of_the_glossary_lives_where_it_says() {
        let page = "| a | x | [`Room`](../../a.rs), [`settle`](../../a.rs) |\n\
                    | b | x | [`Roo`](../../a.rs) and [`gone`](../../b.rs) |\n[c](../../a.rs)\n";
        let code = "/// struct Roo\npub struct Room;\npub const fn settle(_: Roo) {}\n";
        let files = [(GLOSSARY, page), ("a.rs", code)];
        let found = check_glossary(&Tree::of(&files)).into_iter();
        let found: Vec<_> = found.map(|one| (one.line, one.what)).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], (2, "`Roo` is not declared in ../../a.rs".into()));
        assert_eq!(found[1], (2, "`gone` is not declared in ../../b.rs".into()));
        assert_eq!(check_glossary(&Tree::of(&files[1..])).len(), 1);
    }

    #[test]
    fn a_link_to_nothing_is_found() {
        let book = ("docs/book/a.md", "");
        assert_eq!(
            found(&[("README.md", "\n[a](docs/book/a.md#x) [b](gone.md)"), book]),
            [("link", 2)]
        );
        assert_eq!(
            found(&[("docs/b.md", "[a](book/a.md) [r](../../out.md)"), book]),
            [("link", 1)]
        );
        let fine = "[a](https://a.b/c) `[b](c.md)` [d](#e)\n```\n[f](g.md)\n```\n[r](..)\n";
        assert_eq!(found(&[("docs/b.md", fine)]), []);
    }

    #[test]
    fn a_scenario_that_nothing_names_is_found() {
        let line = ("scenarios/links/s.toml", "");
        let lab = ("scenarios/lab/s.toml", "file = \"../links/s.toml\"");
        assert_eq!(found(&[line, lab]), [("scenario", 0)]);
        let test = ("crates/strait/tests/a.rs", "\"scenarios/lab/s.toml\"");
        assert_eq!(found(&[line, lab, test]), []);
        assert_eq!(found(&[("scenarios/other/s.toml", "")]), [("scenario", 0)]);
    }

    #[test]
    fn decisions_have_numbers_of_their_own() {
        assert_eq!(
            found(&[("docs/adr/0001-a.md", ""), ("docs/adr/0002-b.md", "")]),
            []
        );
        assert_eq!(
            found(&[("docs/adr/0001-a.md", ""), ("docs/adr/0001-b.md", "")]).len(),
            1
        );
        assert_eq!(found(&[("docs/adr/notes.md", "")]), [("decision", 0)]);
    }
}
