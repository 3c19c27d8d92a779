//! Which crate may know which: arrows only point down, and siblings don't know each other.

use std::collections::BTreeSet;

use super::{Finding, Tree, source};

/// A crate and what it may depend on.
struct Room {
    name: &'static str,
    /// `no_std` with `alloc`: no clock, socket, thread or file exists there to misuse.
    pure: bool,
    /// Crates below it.
    below: &'static [&'static str],
}

const ROOMS: [Room; 12] = [
    Room {
        name: "strait-wire",
        pure: true,
        below: &[],
    },
    Room {
        name: "strait-core",
        pure: true,
        below: &["strait-wire"],
    },
    Room {
        name: "strait-qos",
        pure: true,
        below: &["strait-wire", "strait-core"],
    },
    Room {
        name: "strait-link",
        pure: true,
        below: &["strait-wire", "strait-core"],
    },
    Room {
        name: "strait-s5066",
        pure: true,
        below: &["strait-wire", "strait-core"],
    },
    Room {
        name: "strait-channel",
        pure: true,
        below: &["strait-wire", "strait-core"],
    },
    // A node doesn't know media: what it learns of its line comes in by the contract.
    Room {
        name: "strait-node",
        pure: true,
        below: &[
            "strait-wire",
            "strait-core",
            "strait-qos",
            "strait-link",
            "strait-s5066",
        ],
    },
    // What a node says of itself, whichever node and whoever drives it.
    Room {
        name: "strait-status",
        pure: true,
        below: &["strait-wire", "strait-core"],
    },
    Room {
        name: "strait-world",
        pure: false,
        below: BELOW_WORLD,
    },
    // Two worlds that never meet.
    Room {
        name: "strait-sim",
        pure: false,
        below: BELOW_BOTH,
    },
    Room {
        name: "strait-live",
        pure: false,
        below: BELOW_BOTH,
    },
    Room {
        name: "strait",
        pure: false,
        below: BELOW_STRAIT,
    },
];

const BELOW_WORLD: &[&str] = &[
    "strait-wire",
    "strait-core",
    "strait-qos",
    "strait-link",
    "strait-s5066",
    "strait-channel",
    "strait-node",
    "strait-status",
];

const BELOW_BOTH: &[&str] = &[
    "strait-wire",
    "strait-core",
    "strait-qos",
    "strait-link",
    "strait-s5066",
    "strait-channel",
    "strait-node",
    "strait-status",
    "strait-world",
];

const BELOW_STRAIT: &[&str] = &[
    "strait-wire",
    "strait-core",
    "strait-qos",
    "strait-link",
    "strait-s5066",
    "strait-channel",
    "strait-node",
    "strait-status",
    "strait-world",
    "strait-sim",
    "strait-live",
];

/// The crates that need no `std`, lowest first.
pub(crate) fn pure_crates() -> impl Iterator<Item = &'static str> {
    ROOMS.iter().filter(|room| room.pure).map(|room| room.name)
}

/// The pure crate that the file at `path` belongs to.
pub(super) fn pure_crate_of(path: &str) -> Option<&'static str> {
    let name = path.strip_prefix("crates/")?.split('/').next()?;
    pure_crates().find(|pure| *pure == name)
}

/// Checks the manifests, and the top of each crate.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in tree.files.iter().filter(|file| file.name() == "Cargo.toml") {
        if manifest.path == "Cargo.toml" {
            findings.extend(check_reasons(&manifest.text));
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
    let Some(room) = ROOMS.iter().find(|room| room.name == name) else {
        let what = "this crate has no row in the table of xtask's arrows.rs";
        findings.push(Finding::new("arrows", path, 0, what));
        return;
    };
    for dependency in dependencies(text) {
        if !dependency.by_workspace {
            let what = format!("`{}` must come from the workspace's list", dependency.name);
            findings.push(Finding::new("dependency", path, dependency.line, what));
        }
        if dependency.name != "strait" && !dependency.name.starts_with("strait-") {
            continue;
        }
        // A pure crate's tests may put two siblings together; nothing else may.
        let sibling = dependency.test && room.pure && pure_crates().any(|n| n == dependency.name);
        if !sibling && !room.below.contains(&dependency.name) {
            let what = format!("`{name}` must not know `{}`", dependency.name);
            findings.push(Finding::new("arrows", path, dependency.line, what));
        }
    }
}

/// Each dependency is used. One that isn't costs compile time, and the `no-std` probe can't see it:
/// the compiler never loads it.
fn check_use(tree: &Tree, dir: &str, text: &str, path: &str, findings: &mut Vec<Finding>) {
    let prefix = format!("{dir}/");
    let files = tree.rust().filter(|file| file.path.starts_with(&prefix));
    let lines = files.flat_map(|file| source::lines(&file.text));
    let used: BTreeSet<String> = lines
        .flat_map(|line| {
            source::names(&line.code)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    for dependency in dependencies(text) {
        if !used.contains(&dependency.name.replace('-', "_")) {
            let what = format!("`{}` is not used", dependency.name);
            findings.push(Finding::new("unused", path, dependency.line, what));
        }
    }
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
        if pure_crate_of(&root.path).is_some()
            && !root.text.lines().any(|line| line == "#![no_std]")
        {
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
    for file in sources.filter(|file| pure_crate_of(&file.path).is_some()) {
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
        let manifest = "description = \"x\"\n[dependencies]\nstrait-world.workspace = true\n\
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
        let unused = |source| {
            let files = [("fuzz/Cargo.toml", manifest), ("fuzz/src/a.rs", source)];
            let findings = check(&Tree::of(&files)).into_iter();
            let unused = findings.filter(|finding| finding.rule == "unused");
            unused.map(|finding| finding.line).collect::<Vec<_>>()
        };
        assert_eq!(unused("use lib_m::a;\nfn b() { crc::c() }\n"), []);
        assert_eq!(unused("// lib_m\nuse crc as _;\n"), [2]);
    }

    #[test]
    fn every_crate_below_has_a_room_and_stands_above_this_one() {
        for (index, room) in ROOMS.iter().enumerate() {
            for name in room.below {
                let place = ROOMS.iter().position(|room| room.name == *name);
                assert!(
                    place.is_some_and(|place| place < index),
                    "{} below {}",
                    name,
                    room.name
                );
            }
        }
    }
}
