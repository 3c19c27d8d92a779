//! Words, sizes and paths: what a reader shall not meet.

use super::{File, Finding, Tree, arrows, source};

/// Lines of a Rust file; above it a reader loses the thread.
const FILE_LINES_MAX: usize = 900;
/// Characters of a line, as rustfmt is set up; rustfmt doesn't wrap comments.
const LINE_CHARS_MAX: usize = 100;

/// Beginnings of function names that say nothing.
const PREFIXES: [&str; 3] = ["get_", "do_", "process_"];
/// Parts of names that say nothing.
const PARTS: [&str; 5] = ["manager", "helper", "helpers", "util", "utils"];
/// Code that isn't finished.
const UNFINISHED: [&str; 4] = ["todo!", "unimplemented!", "dbg!", "#[ignore"];
/// Comments that say so.
const NOTES: [&str; 3] = ["FIXME", "XXX", "TODO"];
/// Types whose order differs from run to run.
const UNORDERED: [&str; 3] = ["HashMap", "HashSet", "hashbrown"];

/// The only crate that may hold `unsafe`: it is where the system begins.
const UNSAFE_ROOM: &str = "crates/strait-live/";

/// Checks the words of every Rust file.
pub(super) fn check_code(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |rule, line, what: String| {
        findings.push(Finding::new(rule, &file.path, line, what));
    };
    let stem = file.name().trim_end_matches(".rs");
    if let Some(part) = empty_part(stem) {
        find("words", 0, format!("`{part}` names nothing"));
    }
    let pure = arrows::is_pure(&file.path);
    // The word before the first name of a line stands on the line before.
    let mut before = String::new();
    for line in source::lines(&file.text) {
        for name in source::names(&line.code) {
            if let Some(what) = empty_name(&before, name) {
                find("words", line.number, what);
            }
            if name == "unsafe" && !file.path.starts_with(UNSAFE_ROOM) {
                find(
                    "unsafe",
                    line.number,
                    format!("`unsafe` outside {UNSAFE_ROOM}"),
                );
            }
            if pure && UNORDERED.contains(&name) {
                find("order", line.number, format!("`{name}` in a pure crate"));
            }
            name.clone_into(&mut before);
        }
        for word in UNFINISHED.iter().filter(|word| line.code.contains(**word)) {
            find("unfinished", line.number, format!("`{word}`"));
        }
        for word in NOTES
            .iter()
            .filter(|word| source::names(&line.comment).any(|n| n == **word))
        {
            find("unfinished", line.number, format!("`{word}` in a comment"));
        }
    }
    findings
}

/// Why the name declared after the keyword `before` says nothing, if so.
fn empty_name(before: &str, name: &str) -> Option<String> {
    if before == "fn"
        && let Some(prefix) = PREFIXES.iter().find(|prefix| name.starts_with(**prefix))
    {
        return Some(format!(
            "`{prefix}` before `{}` says nothing",
            &name[prefix.len()..]
        ));
    }
    let declares = ["fn", "struct", "enum", "trait", "mod", "type"].contains(&before);
    let part = empty_part(name).filter(|_| declares)?;
    Some(format!("`{part}` in `{name}` names nothing"))
}

fn empty_part(name: &str) -> Option<&'static str> {
    let mut snake = String::new();
    for char in name.chars() {
        if char.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(char.to_ascii_lowercase());
    }
    PARTS
        .into_iter()
        .find(|part| snake.split('_').any(|word| word == *part))
}

/// Checks the lengths of files and lines.
pub(super) fn check_sizes(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            let what = format!("{lines} lines, of at most {FILE_LINES_MAX}");
            findings.push(Finding::new("size", &file.path, 0, what));
        }
        for line in source::lines(&file.text) {
            let address = line.comment.contains("://");
            if line.width > LINE_CHARS_MAX && !line.literal && !address {
                let what = format!("{} characters, of at most {LINE_CHARS_MAX}", line.width);
                findings.push(Finding::new("size", &file.path, line.number, what));
            }
        }
    }
    findings
}

/// Checks that no file knows where one machine keeps it.
pub(super) fn check_machine_paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(path) = machine_path(line) {
                let what = format!("`/{path}` is a place on one machine");
                findings.push(Finding::new("path", &file.path, index + 1, what));
            }
        }
    }
    findings
}

fn machine_path(line: &str) -> Option<&'static str> {
    line.match_indices('/').find_map(|(at, _)| {
        let inside = |char: char| char.is_ascii_alphanumeric() || "_-.~/}>)".contains(char);
        if line[..at].ends_with(inside) {
            return None;
        }
        let name = line[at + 1..]
            .split(|char: char| !char.is_ascii_alphanumeric())
            .next()?;
        ["work", "root", "home"]
            .into_iter()
            .find(|place| *place == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<(&'static str, usize)> {
        let tree = Tree::of(&[(path, text)]);
        let all = [check_code, check_sizes, check_machine_paths];
        let findings = all.into_iter().flat_map(|rule| rule(&tree));
        findings
            .map(|finding| (finding.rule, finding.line))
            .collect()
    }

    const PLAIN: &str = "crates/strait-sim/src/a.rs";
    const PURE: &str = "crates/strait-qos/src/a.rs";

    #[test]
    fn empty_words_are_found_where_they_are_declared() {
        assert_eq!(rules(PLAIN, "fn get_rate() {}\n"), [("words", 1)]);
        assert_eq!(rules(PLAIN, "pub fn\n  do_it() {}\n"), [("words", 2)]);
        assert_eq!(rules(PLAIN, "struct LinkManager;\n"), [("words", 1)]);
        assert_eq!(rules(PLAIN, "mod util;\n"), [("words", 1)]);
        assert_eq!(
            rules("crates/strait-sim/src/helpers.rs", ""),
            [("words", 0)]
        );
        assert_eq!(
            rules(
                PLAIN,
                "fn get(&self) {}\nfn utility() {}\nlet a = map.get_mut(1);\n"
            ),
            []
        );
    }

    #[test]
    fn unsafe_has_one_room() {
        let text = "unsafe { x() }\n";
        assert_eq!(rules(PLAIN, text), [("unsafe", 1)]);
        assert_eq!(rules("crates/strait-live/src/a.rs", text), []);
        assert_eq!(
            rules(
                PLAIN,
                "// unsafe\n#![deny(unsafe_code)]\nlet a = \"unsafe\";\n"
            ),
            []
        );
    }

    #[test]
    fn unfinished_code_is_found() {
        assert_eq!(rules(PLAIN, "\ntodo!()\n"), [("unfinished", 2)]);
        assert_eq!(rules(PLAIN, "unimplemented!()\n"), [("unfinished", 1)]);
        assert_eq!(rules(PLAIN, "#[ignore = \"slow\"]\n"), [("unfinished", 1)]);
        assert_eq!(rules(PLAIN, "/* FIXME later */\n"), [("unfinished", 1)]);
        assert_eq!(rules(PLAIN, "let a = 1; // XXX\n"), [("unfinished", 1)]);
        assert_eq!(rules(PLAIN, "let a = \"todo!\"; let b = XXX;\n"), []);
    }

    #[test]
    fn pure_crates_keep_an_order() {
        assert_eq!(rules(PURE, "use alloc::x::HashMap;\n"), [("order", 1)]);
        assert_eq!(rules(PLAIN, "use a::HashMap;\n"), []);
    }

    #[test]
    fn long_lines_and_files_are_found_at_the_limit() {
        let code = |chars: usize| format!("{}\n", "x".repeat(chars));
        assert_eq!(rules(PLAIN, &code(100)), []);
        assert_eq!(rules(PLAIN, &code(101)), [("size", 1)]);
        assert_eq!(
            rules(PLAIN, &format!("// {}\n", "ö".repeat(98))),
            [("size", 1)]
        );
        assert_eq!(
            rules(PLAIN, &format!("let a = \"{}\";\n", "x".repeat(98))),
            []
        );
        assert_eq!(
            rules(PLAIN, &format!("// https://{}\n", "x".repeat(98))),
            []
        );
        assert_eq!(rules(PLAIN, &"\n".repeat(900)), []);
        assert_eq!(rules(PLAIN, &"\n".repeat(901)), [("size", 0)]);
    }

    #[test]
    fn places_on_one_machine_are_found() {
        for place in ["root", "home", "work"] {
            assert_eq!(rules("a.md", &format!("see /{place}/x\n")), [("path", 1)]);
            assert_eq!(
                rules("a.toml", &format!("a = \"/{place}\"\n")),
                [("path", 1)]
            );
        }
        assert_eq!(
            rules("a.md", "docs/work, /workspace, ../root, a/home\n"),
            []
        );
    }
}
