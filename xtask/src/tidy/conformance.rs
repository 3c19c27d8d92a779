//! Pages that go through a standard clause by clause: each row names a test that is there, or says
//! why there is none.

use std::collections::BTreeSet;

use super::{File, Finding, Tree};

/// Where these pages stand.
const FOLDER: &str = "docs/conformance/";

/// How a row begins its last column that names no test.
const REASON: &str = "Not here:";

/// Checks the third column of each table of these pages, but for the page about them.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pages: Vec<&File> = tree.files.iter().filter(|file| is_page(file)).collect();
    if pages.is_empty() {
        return Vec::new();
    }
    let code = tree.rust().filter(|file| file.path.starts_with("crates/"));
    let tests: BTreeSet<&str> = code.flat_map(|file| tests_in(&file.text)).collect();
    let rows = pages.iter().flat_map(|page| {
        let rows = rows(&page.text).into_iter();
        rows.map(|(line, cells)| (page.path.as_str(), line, cells))
    });
    let mut findings = Vec::new();
    for (path, line, cells) in rows {
        let complaints = judge(&cells, &tests).into_iter();
        findings.extend(complaints.map(|what| Finding::new("conformance", path, line, what)));
    }
    findings
}

fn is_page(file: &File) -> bool {
    file.path.starts_with(FOLDER) && file.is("md") && file.name() != "README.md"
}

/// Names of functions that are tests.
fn tests_in(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        is_test |= line.starts_with("#[test]");
        let function = line.split_once("fn ").filter(|(before, _)| {
            let mut words = before.split_whitespace();
            words.all(|word| ["#[test]", "pub", "async", "unsafe"].contains(&word))
        });
        if let Some((_, rest)) = function {
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            if std::mem::take(&mut is_test) {
                names.push(name);
            }
        }
    }
    names
}

/// The rows of a page's tables with their lines, without those that head them.
fn rows(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut rows = Vec::new();
    // Rows of a table so far.
    let mut above = 0;
    for (index, line) in text.lines().enumerate() {
        let Some(inner) = line.trim().strip_prefix('|') else {
            above = 0;
            continue;
        };
        above += 1;
        if above > 2 {
            let inner = inner.strip_suffix('|').unwrap_or(inner);
            rows.push((index + 1, inner.split('|').map(str::trim).collect()));
        }
    }
    rows
}

/// What is wrong with a row.
fn judge(cells: &[&str], tests: &BTreeSet<&str>) -> Vec<String> {
    let [clause, _, shown] = cells else {
        return vec![format!("a row has {} columns, not three", cells.len())];
    };
    if let Some(reason) = shown.strip_prefix(REASON) {
        let empty = reason.trim().is_empty();
        let what = format!("{clause}: no reason behind `{REASON}`");
        return empty.then_some(what).into_iter().collect();
    }
    let names: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
    if names.is_empty() {
        let what = format!("{clause}: neither a test nor a reason that begins with `{REASON}`");
        return vec![what];
    }
    let gone = names.into_iter().filter(|name| !tests.contains(name));
    gone.map(|name| format!("{clause}: no test is called `{name}`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: (&str, &str) = (
        "crates/a/src/b.rs",
        "/// A.\n#[test]\n/// B.\n#[should_panic]\nfn one() {}\nfn helper() {}\n    #[test]\n    fn two(\n        #[test] fn three() {}\n",
    );

    fn found(rows: &str) -> Vec<String> {
        let page = format!("# Page\n\n| clause | what | test |\n|---|---|---|\n{rows}");
        let tree = Tree::of(&[CODE, ("docs/conformance/annex-x.md", &page)]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_row_names_tests_that_are_there_or_gives_a_reason() {
        let fine =
            "| 1 | a | `one`, `two` |\n| 2 | b | Not here: the modem's |\n| 3 | c | `three` |\n";
        assert_eq!(found(fine), Vec::<String>::new());
        assert_eq!(
            found("| 1 | a | `one`, `gone` |\n| 2 | b | `helper` |\n"),
            [
                "docs/conformance/annex-x.md:5: 1: no test is called `gone` [conformance]",
                "docs/conformance/annex-x.md:6: 2: no test is called `helper` [conformance]",
            ]
        );
        assert_eq!(
            found("| 1 | a | somewhere |\n| 2 | b | Not here: |\n| 3 | c |\n"),
            [
                "docs/conformance/annex-x.md:5: 1: neither a test nor a reason that begins with `Not here:` [conformance]",
                "docs/conformance/annex-x.md:6: 2: no reason behind `Not here:` [conformance]",
                "docs/conformance/annex-x.md:7: a row has 2 columns, not three [conformance]",
            ]
        );
    }

    #[test]
    fn the_page_about_the_pages_and_pages_elsewhere_may_have_any_tables() {
        let table = "| a |\n|---|\n| b |\n";
        let tree = Tree::of(&[
            CODE,
            ("docs/conformance/README.md", table),
            ("docs/b.md", table),
        ]);
        assert_eq!(check(&tree), []);
    }
}
