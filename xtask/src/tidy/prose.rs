//! Prose of documents and help texts: sentences name their subjects, and phrases stay away.

use super::{File, Finding, Tree};

/// Words that make a clause of a sentence's subject, unless the sentence is a question.
const OPENERS: [&str; 4] = ["Who", "What", "Whoever", "Whatever"];

/// Phrases that were in the prose, in lower case, and what to write instead.
const PHRASES: [(&str, &str); 49] = [
    (" anybody", "any station, or a noun"),
    (" everybody", "all stations, or a noun"),
    (" go on ", "continue"),
    (" goes on ", "continues"),
    (" nobody", "no station, no program, or a passive"),
    (" our ", "of `strait`, or the subject's name"),
    (" ours", "of `strait`, or the subject's name"),
    (" stands beside", "is beside, or has"),
    (" stands in ", "is in"),
    (" stood in", "was in"),
    (" taken for", "considered, or recognised as"),
    (" we ", "the subject's name"),
    ("by itself", "alone, automatically, or nothing"),
    ("come anew", "be repeated, or renewed"),
    ("comes and goes", "fades, or goes down and up"),
    ("comes anew", "is repeated, or renewed"),
    ("for want of", "for lack of"),
    ("goes in circles", "loops"),
    ("in the place of", "instead of"),
    ("is leaving", "is being sent"),
    ("is there twice", "is in use twice"),
    ("lays side by side", "compares"),
    ("left away", "left out"),
    ("one's own", "your own"),
    ("others than", "all but"),
    ("said of itself", "its status, or its report"),
    ("says of itself", "its status, or its report"),
    ("somebody", "another program, or a noun"),
    ("tells of", "reports, or names"),
    ("the way back", "the return path"),
    ("told by", "derived from, or named by"),
    ("told of", "reported"),
    ("what arrives", "received packets, or a noun"),
    ("what became of", "the outcome of"),
    ("what came of", "the outcome of"),
    ("what came", "received packets, or a noun"),
    ("what comes", "received packets, or a noun"),
    ("what crosses", "octets on the link, or a noun"),
    ("what doesn't", "a noun, such as packets"),
    ("what is lost", "losses"),
    ("what is there", "a noun, such as the content"),
    ("what is told", "a noun, such as the report"),
    ("what isn't", "a noun, such as packets"),
    ("what left", "sent packets, or a noun"),
    ("what stands", "the content"),
    ("what stood", "the content"),
    ("what waits", "waiting packets"),
    ("where the time went", "the parts of the delay"),
    ("whoever", "a noun, such as a station"),
];

/// Where commands and their arguments are.
const COMMANDS: &str = "crates/strait/src/command/";

/// Derived traits of items whose documentation is help text.
const DEFINING: [&str; 3] = ["Args", "Subcommand", "ValueEnum"];

/// Checks each page and each command.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let prose = if is_page(file) {
            file.text.clone()
        } else if file.path.starts_with(COMMANDS) && file.is("rs") {
            help(&file.text)
        } else {
            continue;
        };
        for (line, sentence) in sentences(&prose) {
            let all = complaints(&sentence).into_iter();
            findings.extend(all.map(|what| Finding::new("prose", &file.path, line, what)));
        }
    }
    findings
}

fn is_page(file: &File) -> bool {
    let listed = [
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "README.md",
    ];
    listed.contains(&file.path.as_str()) || file.is("md") && file.path.starts_with("docs/")
}

/// Help texts: the documentation inside items that define arguments, each on its line.
fn help(source: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for line in source.lines() {
        let derives = line.starts_with("#[derive(");
        inside |= derives && DEFINING.iter().any(|name| line.contains(name));
        inside &= line != "}";
        if let Some(words) = line.trim().strip_prefix("///").filter(|_| inside) {
            text.push_str(words.trim());
        }
        text.push('\n');
    }
    text
}

/// What is wrong with a sentence.
fn complaints(sentence: &str) -> Vec<String> {
    let end = sentence.trim_end_matches(|char: char| !char.is_alphanumeric() && char != '?');
    if end.ends_with('?') {
        return Vec::new();
    }
    let mut words = sentence.split(|char: char| !char.is_alphanumeric());
    let first = words.find(|word| !word.is_empty()).unwrap_or_default();
    let mut found = Vec::new();
    if OPENERS.contains(&first) {
        found.push(format!("`{first}` begins a sentence: name its subject"));
    }
    // Names in code may have any words.
    let plain: Vec<&str> = sentence.split('`').step_by(2).collect();
    let lower = format!(" {} ", plain.join("`")).to_lowercase();
    for (phrase, instead) in PHRASES {
        if lower.contains(phrase) {
            found.push(format!("`{phrase}`: write {instead}"));
        }
    }
    found
}

/// Sentences and cells with the lines on which they begin; not headings, fenced blocks and marks.
fn sentences(text: &str) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    let mut open = String::new();
    let mut begin = 0;
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let fence = line.starts_with("```");
        let silent = fence || fenced || line.starts_with('#') || line.starts_with("<!--");
        fenced ^= fence;
        if silent || line.is_empty() || line.starts_with(['|', '-', '*']) {
            all.push((begin, std::mem::take(&mut open)));
        }
        if silent {
            continue;
        }
        for word in line.replace('|', " | ").split_whitespace() {
            if open.is_empty() {
                begin = index + 1;
            }
            open.push_str(word);
            open.push(' ');
            let bare = word.trim_end_matches(['*', '_', ')', '"', '»']);
            if word == "|" || bare.ends_with(['.', '?', '!']) {
                all.push((begin, std::mem::take(&mut open)));
            }
        }
    }
    all.push((begin, open));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let findings = check(&Tree::of(&[("docs/book/a.md", text)]));
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn clauses_that_begin_sentences_are_found() {
        assert_eq!(lines("It waits. Who asks\nfirst is served.\n"), [1]);
        assert_eq!(lines("\nIt\nwaits.\nWhat a host says counts.\n"), [4]);
        assert_eq!(lines("It waits\n- **Whatever** it says.\n"), [2]);
        assert_eq!(lines("| a |\n|---|\n| b | Who sends |\n"), [3]);
        assert!(check(&Tree::of(&[("fuzz/a.md", "What it is.\n")])).is_empty());
    }

    #[test]
    fn questions_headings_and_blocks_pass() {
        assert!(lines("What is\nlost? **Who sends?** A host.\n").is_empty());
        assert!(lines("## What is lost\n<!-- What -->\n```text\nWhat waits.\n```\n").is_empty());
    }

    #[test]
    fn help_texts_are_checked_and_other_comments_pass() {
        let command = "/// What it is.\n#[derive(Debug, clap::Args)]\nstruct Args {\n    \
                       /// What to measure.\n    names: Vec<String>,\n}\n\n\
                       /// What is told by us.\nfn run() {}\n";
        let path = "crates/strait/src/command/bench.rs";
        let findings = check(&Tree::of(&[(path, command)]));
        assert_eq!(findings.iter().map(|it| it.line).collect::<Vec<_>>(), [4]);
        assert!(check(&Tree::of(&[("crates/strait/src/main.rs", command)])).is_empty());
    }

    #[test]
    fn names_in_code_pass() {
        assert_eq!(lines("`nobody` is heard, and nobody hears.\n"), [1]);
        assert!(lines("It is `a_word nobody hears`, in code.\n").is_empty());
    }

    #[test]
    fn phrases_are_found_across_lines() {
        assert_eq!(lines("A key. If it is left\naway, it is 1.\n"), [1]);
        assert!(lines("It is left\n\naway.\n").is_empty());
    }
}
