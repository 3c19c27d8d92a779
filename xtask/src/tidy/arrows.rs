//! Which crate may know which: the picture in `ARCHITECTURE.md` says it, the manifests keep to it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::{Finding, Tree, source};

/// Where the picture is.
const PAGE: &str = "ARCHITECTURE.md";

static PICTURE: LazyLock<Picture<'_>> =
    LazyLock::new(|| Picture::read(include_str!("../../../ARCHITECTURE.md")));

/// The crates, by their names without `strait-`, and the arrows between them.
#[derive(Default)]
struct Picture<'a> {
    /// Those that are `no_std` with `alloc`: no clock, socket, thread or file exists there to
    /// misuse.
    pure: BTreeSet<&'a str>,
    /// From, to, and the line it stands in.
    arrows: Vec<(&'a str, &'a str, usize)>,
}

impl<'a> Picture<'a> {
    /// Reads the first picture of a page: `a --> b & c`, in the subgraph `pure` or not.
    fn read(page: &'a str) -> Self {
        let mut picture = Self::default();
        let mut inside_pure = false;
        let lines = page.lines().enumerate();
        let from = lines.skip_while(|(_, line)| line.trim() != "```mermaid");
        for (index, line) in from.skip(1) {
            let line = line.trim();
            if line == "```" {
                break;
            }
            inside_pure = line.starts_with("subgraph pure") || inside_pure && line != "end";
            let Some((from, to)) = line.split_once(" --> ") else {
                continue;
            };
            for to in to.split(" & ") {
                picture.arrows.push((from, to, index + 1));
                if inside_pure {
                    picture.pure.extend([from, to]);
                }
            }
        }
        picture
    }

    fn has(&self, name: &str) -> bool {
        let mut arrows = self.arrows.iter();
        arrows.any(|(from, to, _)| *from == name || *to == name)
    }

    /// Whether a way of arrows leads from one to the other.
    fn leads(&self, from: &str, to: &str) -> bool {
        let mut reached = BTreeSet::from([from]);
        loop {
            let ends = self.arrows.iter().filter(|arrow| reached.contains(arrow.0));
            let more: Vec<_> = ends.map(|arrow| arrow.1).collect();
            let before = reached.len();
            reached.extend(&more);
            if more.contains(&to) || reached.len() == before {
                return more.contains(&to);
            }
        }
    }
}

/// A crate's name in the picture, if it is one of ours.
fn short(name: &str) -> Option<&str> {
    match name {
        "strait" => Some(name),
        _ => name.strip_prefix("strait-"),
    }
}

/// The crates that need no `std`.
pub(crate) fn pure_crates() -> impl Iterator<Item = String> {
    PICTURE.pure.iter().map(|name| format!("strait-{name}"))
}

/// Whether the file at `path` belongs to a pure crate.
pub(super) fn is_pure(path: &str) -> bool {
    let dir = path.strip_prefix("crates/strait-");
    let name = dir.and_then(|rest| rest.split('/').next());
    name.is_some_and(|name| PICTURE.pure.contains(name))
}

/// Checks that the picture shows what is there: each arrow is in a manifest and leads down, each
/// crate has its row below the picture.
pub(super) fn check_picture(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(PAGE) else {
        return vec![Finding::new(
            "picture",
            PAGE,
            0,
            "there is no picture of the crates",
        )];
    };
    let picture = Picture::read(&page.text);
    let mut findings = Vec::new();
    let mut tell = |line, what: String| findings.push(Finding::new("picture", PAGE, line, what));
    for (from, to, line) in &picture.arrows {
        let manifests = tree.files.iter().filter(|file| file.name() == "Cargo.toml");
        let mut own = manifests.filter(|file| crate_of(&file.path).and_then(short) == Some(from));
        let known = own.any(|file| {
            let mut all = dependencies(&file.text).into_iter();
            all.any(|one| !one.test && short(one.name) == Some(to))
        });
        if !known {
            tell(
                *line,
                format!("the manifest of `{from}` doesn't name `{to}`"),
            );
        }
        if picture.leads(to, from) {
            tell(
                *line,
                format!("the arrow from `{from}` to `{to}` is part of a circle"),
            );
        }
    }
    for name in tree.files.iter().filter_map(|file| crate_of(&file.path)) {
        if !page.text.contains(&format!("\n| `{name}` | ")) {
            tell(0, format!("`{name}` has no row in the table of crates"));
        }
    }
    findings
}

/// The name of the crate whose manifest is at `path`.
fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")
}

/// Checks the manifests, and the top of each crate.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in tree.files.iter().filter(|file| file.name() == "Cargo.toml") {
        if manifest.path == "Cargo.toml" {
            findings.extend(check_reasons(&manifest.text));
            findings.extend(check_list(tree, &manifest.text));
        } else if let Some(dir) = manifest.path.strip_suffix("/Cargo.toml") {
            check_description(&manifest.text, &manifest.path, &mut findings);
            check_use(tree, dir, &manifest.text, &manifest.path, &mut findings);
            if let Some(name) = dir.strip_prefix("crates/") {
                check_arrows(name, &manifest.text, &manifest.path, &mut findings);
                check_top(tree, name, &mut findings);
            }
        }
    }
    findings
}

fn check_arrows(name: &str, text: &str, path: &str, findings: &mut Vec<Finding>) {
    let Some(own) = short(name).filter(|own| PICTURE.has(own)) else {
        let what = "this crate isn't in the picture of ARCHITECTURE.md";
        findings.push(Finding::new("arrows", path, 0, what));
        return;
    };
    for dependency in dependencies(text) {
        if !dependency.by_workspace {
            let what = format!("`{}` must come from the workspace's list", dependency.name);
            findings.push(Finding::new("dependency", path, dependency.line, what));
        }
        let Some(other) = short(dependency.name) else {
            continue;
        };
        // A pure crate's tests may put two siblings together; nothing else may.
        let sibling = dependency.test && [own, other].iter().all(|it| PICTURE.pure.contains(it));
        if !sibling && !PICTURE.leads(own, other) {
            let what = format!("`{name}` must not know `{}`", dependency.name);
            findings.push(Finding::new("arrows", path, dependency.line, what));
        }
    }
}

/// Each dependency is used, by more than tests unless it is for them. One that isn't costs compile
/// time, and the `no-std` probe can't see it: the compiler never loads it.
fn check_use(tree: &Tree, dir: &str, text: &str, path: &str, findings: &mut Vec<Finding>) {
    let names = |folders: &[&str]| -> BTreeSet<String> {
        let inside = |path: &str| {
            let rest = path
                .strip_prefix(dir)
                .and_then(|rest| rest.strip_prefix('/'));
            rest.is_some_and(|rest| !folders.iter().any(|folder| rest.starts_with(folder)))
        };
        let files = tree.rust().filter(|file| inside(&file.path));
        let lines = files.flat_map(|file| source::lines(&file.text));
        let names = |line: source::Line| source::names(&line.code).map(str::to_owned).collect();
        lines.flat_map::<Vec<_>, _>(names).collect()
    };
    let (all, outside_tests) = (names(&[]), names(&["tests/", "benches/"]));
    for dependency in dependencies(text) {
        let used = if dependency.test {
            &all
        } else {
            &outside_tests
        };
        if !used.contains(&dependency.name.replace('-', "_")) {
            let what = format!("`{}` is not used", dependency.name);
            findings.push(Finding::new("unused", path, dependency.line, what));
        }
    }
}

/// Each library in the workspace's list is named by a manifest.
fn check_list(tree: &Tree, text: &str) -> Vec<Finding> {
    let manifests = tree.files.iter().filter(|file| file.name() == "Cargo.toml");
    let members = manifests.filter(|file| file.path != "Cargo.toml");
    let named: BTreeSet<&str> = members
        .flat_map(|file| dependencies(&file.text))
        .map(|dependency| dependency.name)
        .collect();
    let idle = dependencies(text).into_iter();
    idle.filter(|one| !named.contains(one.name))
        .map(|one| {
            let what = format!("no manifest names `{}`", one.name);
            Finding::new("unused", "Cargo.toml", one.line, what)
        })
        .collect()
}

fn check_description(text: &str, path: &str, findings: &mut Vec<Finding>) {
    let described = text.lines().any(|line| {
        line.strip_prefix("description")
            .is_some_and(|rest| !rest.trim_matches([' ', '=', '"']).is_empty())
    });
    if !described {
        findings.push(Finding::new(
            "description",
            path,
            0,
            "a crate says what it is for",
        ));
    }
}

fn check_top(tree: &Tree, name: &str, findings: &mut Vec<Finding>) {
    let paths = ["lib.rs", "main.rs"].map(|file| format!("crates/{name}/src/{file}"));
    for root in paths.iter().filter_map(|path| tree.file(path)) {
        if !root.text.starts_with("//!") {
            findings.push(Finding::new(
                "top",
                &root.path,
                1,
                "a crate begins with its `//!`",
            ));
        }
        if is_pure(&root.path) && !root.text.lines().any(|line| line == "#![no_std]") {
            findings.push(Finding::new(
                "no-std",
                &root.path,
                0,
                "a pure crate is `#![no_std]`",
            ));
        }
    }
    // Only sources: a crate's `tests` folder is a program on the host.
    let prefix = format!("crates/{name}/src/");
    let sources = tree.rust().filter(|file| file.path.starts_with(&prefix));
    for file in sources.filter(|file| is_pure(&file.path)) {
        let lines = source::lines(&file.text);
        for (index, line) in lines.iter().enumerate() {
            let for_tests = index > 0 && lines[index - 1].code.trim() == "#[cfg(test)]";
            if line.code.contains("extern crate std") && !for_tests {
                let what = "`std` in a pure crate, outside its tests";
                findings.push(Finding::new("no-std", &file.path, line.number, what));
            }
        }
    }
}

/// Each library that the workspace takes has one line of reason.
fn check_reasons(text: &str) -> Vec<Finding> {
    let mut inside = false;
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            inside = line.trim() == "[workspace.dependencies]";
        } else if inside && line.contains('=') && !line.starts_with('#') {
            let ours = line.contains("path = \"crates/");
            if !ours && !line.contains(" # ") {
                let what = "a dependency without a reason";
                findings.push(Finding::new("dependency", "Cargo.toml", index + 1, what));
            }
        }
    }
    findings
}

struct Dependency<'a> {
    name: &'a str,
    line: usize,
    /// For tests, examples and benches only.
    test: bool,
    by_workspace: bool,
}

/// The dependencies that a manifest names, in all its tables of them.
fn dependencies(text: &str) -> Vec<Dependency<'_>> {
    let mut found: Vec<Dependency<'_>> = Vec::new();
    let mut table = "";
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let number = index + 1;
        if let Some(header) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            table = header;
            // `[dependencies.x]`: the name stands in the header, the rest below.
            if let Some((kind, name)) = header.rsplit_once('.').filter(|(kind, _)| is_table(kind)) {
                let test = kind.ends_with("dev-dependencies");
                found.push(Dependency {
                    name,
                    line: number,
                    test,
                    by_workspace: false,
                });
            }
        } else if is_table(table) && line.contains('=') && !line.starts_with('#') {
            let name = line
                .split(['.', ' ', '='])
                .next()
                .unwrap_or(line)
                .trim_matches('"');
            let test = table.ends_with("dev-dependencies");
            let by_workspace = line.replace(' ', "").contains("workspace=true");
            found.push(Dependency {
                name,
                line: number,
                test,
                by_workspace,
            });
        } else if line.replace(' ', "") == "workspace=true"
            && table
                .rsplit_once('.')
                .is_some_and(|(kind, _)| is_table(kind))
            && let Some(last) = found.last_mut()
        {
            last.by_workspace = true;
        }
    }
    found
}

/// Whether a table's name ends as those of dependencies do, `target.*.dependencies` too.
fn is_table(name: &str) -> bool {
    let last = name.rsplit_once('.').map_or(name, |(_, last)| last);
    ["dependencies", "dev-dependencies", "build-dependencies"].contains(&last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(files: &[(&str, &str)]) -> Vec<(&'static str, usize)> {
        let findings = check(&Tree::of(files));
        let other = findings.iter().filter(|finding| finding.rule != "unused");
        other.map(|finding| (finding.rule, finding.line)).collect()
    }

    const SIM: &str = "crates/strait-sim/Cargo.toml";

    #[test]
    fn an_arrow_that_points_up_or_sideways_is_found() {
        let manifest = "description = \"x\"\n[dependencies]\nstrait-scenario.workspace = true\n\
                        strait-live.workspace = true\n";
        assert_eq!(rules(&[(SIM, manifest)]), [("arrows", 4)]);
        let by_target = "description = \"x\"\n[target.'cfg(unix)'.dependencies]\n\
                         strait = { workspace = true }\n";
        assert_eq!(rules(&[(SIM, by_target)]), [("arrows", 3)]);
        let by_header = "description = \"x\"\n[dependencies.strait-live]\nworkspace = true\n";
        assert_eq!(rules(&[(SIM, by_header)]), [("arrows", 2)]);
        assert_eq!(
            rules(&[("crates/strait-new/Cargo.toml", manifest)]),
            [("arrows", 0)]
        );
    }

    #[test]
    fn tests_of_a_pure_crate_may_meet_a_sibling_but_no_world() {
        let manifest = "description = \"x\"\n[dev-dependencies]\nstrait-channel.workspace = true\n\
                        strait-sim.workspace = true\n";
        assert_eq!(
            rules(&[("crates/strait-link/Cargo.toml", manifest)]),
            [("arrows", 4)]
        );
        let normal = "description = \"x\"\n[dependencies]\nstrait-channel.workspace = true\n";
        assert_eq!(
            rules(&[("crates/strait-link/Cargo.toml", normal)]),
            [("arrows", 3)]
        );
    }

    #[test]
    fn a_dependency_has_one_home_and_a_reason() {
        let manifest = "description = \"x\"\n[dependencies]\nlibm = \"0.2\"\n";
        assert_eq!(rules(&[(SIM, manifest)]), [("dependency", 3)]);
        let root = "[workspace.dependencies]\nstrait-x = { path = \"crates/strait-x\" }\n\
                    libm = \"0.2\" # the same result everywhere\ncrc = \"3\"\n";
        assert_eq!(rules(&[("Cargo.toml", root)]), [("dependency", 4)]);
    }

    #[test]
    fn the_top_of_a_crate_is_checked() {
        let manifest = ("crates/strait-core/Cargo.toml", "description = \"x\"\n");
        let good = ("crates/strait-core/src/lib.rs", "//! Core.\n#![no_std]\n");
        assert_eq!(rules(&[manifest, good]), []);
        assert_eq!(
            rules(&[
                ("crates/strait-core/Cargo.toml", "description = \"\"\n"),
                good
            ])
            .len(),
            1
        );
        let bare = ("crates/strait-core/src/lib.rs", "pub mod a;\n");
        assert_eq!(rules(&[manifest, bare]), [("top", 1), ("no-std", 0)]);
        let std = ("crates/strait-core/src/a.rs", "extern crate std;\n");
        assert_eq!(rules(&[manifest, good, std]), [("no-std", 1)]);
        let in_tests = (
            "crates/strait-core/src/a.rs",
            "#[cfg(test)]\nextern crate std;\n",
        );
        assert_eq!(rules(&[manifest, good, in_tests]), []);
    }

    #[test]
    fn a_dependency_that_no_source_names_is_found() {
        let manifest = "[dependencies]\nlib-m.workspace = true\n[dev-dependencies]\ncrc = \"3\"\n";
        let list =
            "[workspace.dependencies]\nlib-m = \"1\" # x\ncrc = \"3\" # x\ncsv = \"1\" # x\n";
        let unused = |path, source| {
            let files = [
                ("x/Cargo.toml", manifest),
                (path, source),
                ("Cargo.toml", list),
            ];
            let findings = check(&Tree::of(&files)).into_iter();
            let unused = findings.filter(|finding| finding.rule == "unused");
            unused.map(|one| (one.path, one.line)).collect::<Vec<_>>()
        };
        let idle = ("Cargo.toml".to_owned(), 4);
        let named = "use lib_m::a;\nfn b() { crc::c() }\n";
        assert_eq!(unused("x/src/a.rs", named), std::slice::from_ref(&idle));
        let only_tests = [("x/Cargo.toml".to_owned(), 2), idle];
        assert_eq!(unused("x/tests/a.rs", named), only_tests);
        assert_eq!(
            unused("x/src/a.rs", "// lib_m\nuse crc as _;\n"),
            only_tests
        );
        assert_eq!(unused("xy/src/a.rs", named).len(), 3);
    }

    #[test]
    fn a_picture_that_shows_something_else_is_found() {
        let page = "```mermaid\nsubgraph pure[\"p\"]\nb --> a\nend\nc --> b & a\n```\n\
                    c --> d\n\n| `strait-a` | x |\n| `strait-b` | x |\n";
        let of_a = ("crates/strait-a/Cargo.toml", "");
        let of_b = (
            "crates/strait-b/Cargo.toml",
            "[dependencies]\nstrait-a.workspace = true\n",
        );
        let of_c = "[dependencies]\nstrait-b.workspace = true\n[dev-dependencies]\n\
                    strait-a.workspace = true\n";
        let found = |page: &str| {
            let files = [
                ("ARCHITECTURE.md", page),
                of_a,
                of_b,
                ("crates/strait-c/Cargo.toml", of_c),
            ];
            let findings = check_picture(&Tree::of(&files)).into_iter();
            findings
                .map(|finding| (finding.line, finding.what))
                .collect::<Vec<_>>()
        };
        let said = |line, what: &str| (line, what.to_owned());
        let no_row = said(0, "`strait-c` has no row in the table of crates");
        let no_name = said(5, "the manifest of `c` doesn't name `a`");
        assert_eq!(found(page), [no_name, no_row.clone()]);
        let arrow_less = found(&page.replace(" & a", ""));
        assert_eq!(arrow_less, std::slice::from_ref(&no_row));
        let circle = found(&page.replace("c --> b & a", "a --> b"));
        let in_circle = |line, from, to| {
            said(
                line,
                &format!("the arrow from `{from}` to `{to}` is part of a circle"),
            )
        };
        let up = said(5, "the manifest of `a` doesn't name `b`");
        assert_eq!(
            circle,
            [in_circle(3, "b", "a"), up, in_circle(5, "a", "b"), no_row]
        );
    }

    #[test]
    fn the_picture_is_read_to_its_end() {
        let page =
            "x --> y\n```mermaid\nsubgraph pure[\"p\"]\nb --> a\nend\nc --> b\n```\nd --> c\n";
        let picture = Picture::read(page);
        assert_eq!(picture.arrows, [("b", "a", 4), ("c", "b", 6)]);
        assert_eq!(picture.pure, BTreeSet::from(["a", "b"]));
        assert!(picture.leads("c", "a") && !picture.leads("a", "c") && !picture.leads("a", "a"));
        assert!(picture.has("a") && picture.has("c") && !picture.has("d"));
    }
}
