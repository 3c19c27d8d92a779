//! A net file: modems of this host, and who hears whom by which link.

use std::path::Path;

use serde::Deserialize;
use strait_channel::{LinkConfig, LinkKind};
use strait_node::config_text::{self, ConfigError};
use strait_scenario::{Files, load_link};
use strait_wire::ax25::Station;

use super::end::EndSpec;
use super::{EmulateConfig, report};

/// Modems that share a channel.
#[derive(Clone, Debug)]
pub struct NetConfig {
    /// The net's name.
    pub name: String,
    /// Each modem's name and what it is attached to.
    pub ends: Vec<(String, EndSpec)>,
    /// Of a cell, the AX.25 stations of ends, as far as they are known beforehand.
    pub calls: Vec<(Station, usize)>,
    /// Who hears whom.
    pub paths: Vec<NetPath>,
    /// The run's seed.
    pub seed: u64,
}

/// Two modems that hear each other.
#[derive(Clone, Debug)]
pub struct NetPath {
    /// The path's name, which with the seed selects its randomness.
    pub name: String,
    /// The places of its ends in [`NetConfig::ends`].
    pub between: [usize; 2],
    /// The channel; of the first path that a modem has also the modem itself.
    pub link: LinkConfig,
}

impl From<EmulateConfig> for NetConfig {
    fn from(config: EmulateConfig) -> Self {
        let names = strait_channel::Side::BOTH.map(report::side_name);
        let ends = names.into_iter().zip(config.ends);
        Self {
            ends: ends.map(|(name, end)| (name.to_owned(), end)).collect(),
            calls: Vec::new(),
            paths: vec![NetPath {
                name: config.name.clone(),
                between: [0, 1],
                link: config.link,
            }],
            name: config.name,
            seed: config.seed,
        }
    }
}

/// As the file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NetFile {
    /// The link file by which any two hear each other that have no path of their own.
    all: Option<String>,
    end: Vec<EndEntry>,
    #[serde(default)]
    path: Vec<PathEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndEntry {
    name: String,
    at: String,
    /// Of a cell: its AX.25 station, which the others needn't learn then.
    call: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathEntry {
    name: Option<String>,
    between: [String; 2],
    file: String,
}

/// More modems than that are no net on one channel.
const ENDS_MAX: usize = 32;

impl NetConfig {
    /// Reads a net file and the link files that it names, which lie beside it.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn load(files: &dyn Files, path: &Path, seed: u64) -> Result<Self, ConfigError> {
        let file = path.display().to_string();
        let wrong = |message: String| ConfigError::of_file(&file, message);
        let text = files.read(path).map_err(wrong)?;
        let net: NetFile = config_text::parse(&file, &text)?;
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        let link = |name: &String| {
            let link = load_link(files, &folder.join(name))?;
            match link.kind {
                LinkKind::Hf(_) | LinkKind::Cell(_) => Ok(link),
                _ => Err(wrong(format!(
                    "{name}: write a link of kind = \"hf\" or \"cell\""
                ))),
            }
        };
        if !(2..=ENDS_MAX).contains(&net.end.len()) {
            return Err(wrong(format!("[[end]]: must be 2 to {ENDS_MAX}")));
        }
        let mut ends: Vec<(String, EndSpec)> = Vec::new();
        let mut calls = Vec::new();
        for end in net.end {
            if ends.iter().any(|(name, _)| *name == end.name) {
                return Err(wrong(format!("[[end]]: two are named `{}`", end.name)));
            }
            let spec = end.at.parse::<EndSpec>();
            let spec = spec.map_err(|error| wrong(format!("end {}: {error}", end.name)))?;
            if let Some(call) = end.call {
                let call = call.parse::<Station>();
                let call = call.map_err(|error| wrong(format!("end {}: {error}", end.name)))?;
                calls.push((call, ends.len()));
            }
            ends.push((end.name, spec));
        }
        let mut paths = Vec::new();
        for entry in &net.path {
            let place = |name: &String| {
                let found = ends.iter().position(|(other, _)| other == name);
                found.ok_or_else(|| wrong(format!("[[path]]: no end is named `{name}`")))
            };
            let [a, b] = &entry.between;
            let between = [place(a)?, place(b)?];
            if a == b || is_joined(&paths, between) {
                return Err(wrong(format!(
                    "[[path]]: `{a}` and `{b}` must be two ends without another path"
                )));
            }
            paths.push(NetPath {
                name: entry.name.clone().unwrap_or_else(|| format!("{a}-{b}")),
                between,
                link: link(&entry.file)?,
            });
        }
        if let Some(all) = &net.all {
            let link = link(all)?;
            let pairs = (0..ends.len()).flat_map(|b| (0..b).map(move |a| [a, b]));
            for between in pairs {
                if !is_joined(&paths, between) {
                    let [a, b] = between.map(|end| &ends[end].0);
                    paths.push(NetPath {
                        name: format!("{a}-{b}"),
                        between,
                        link: link.clone(),
                    });
                }
            }
        }
        let lone = |end: usize| !paths.iter().any(|path| path.between.contains(&end));
        if let Some(end) = (0..ends.len()).find(|end| lone(*end)) {
            let message = format!("`{}` has no path: add a [[path]] or `all`", ends[end].0);
            return Err(wrong(message));
        }
        let stem = path.file_stem().map(|stem| stem.to_string_lossy());
        Ok(Self {
            name: stem.unwrap_or_default().into_owned(),
            ends,
            calls,
            paths,
            seed,
        })
    }
}

/// Whether there is a path between two ends.
fn is_joined(paths: &[NetPath], [a, b]: [usize; 2]) -> bool {
    let same = |path: &NetPath| path.between == [a, b] || path.between == [b, a];
    paths.iter().any(same)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;

    struct Texts(BTreeMap<PathBuf, String>);

    impl Files for Texts {
        fn read(&self, path: &Path) -> Result<String, String> {
            let text = self.0.get(path).cloned();
            text.ok_or_else(|| format!("{} isn't there", path.display()))
        }
    }

    fn load(net: &str) -> Result<NetConfig, String> {
        let files = [
            ("nets/net.toml", net),
            (
                "nets/hf.toml",
                "kind = \"hf\"\nrate = \"9600 bit/s\"\n[hf]\n",
            ),
            (
                "nets/bad.toml",
                "kind = \"hf\"\nrate = \"1200 bit/s\"\n[hf]\n",
            ),
            (
                "nets/line.toml",
                "kind = \"frames\"\nrate = \"1200 bit/s\"\n",
            ),
        ];
        let files = files.map(|(name, text)| (name.into(), text.to_owned()));
        let files = Texts(files.into_iter().collect());
        NetConfig::load(&files, Path::new("nets/net.toml"), 7).map_err(|error| error.to_string())
    }

    const ENDS: &str = "[[end]]\nname = \"a\"\nat = \"modem:127.0.0.1:1\"\n\
                        [[end]]\nname = \"b\"\nat = \"modem:127.0.0.1:2\"\n\
                        [[end]]\nname = \"c\"\nat = \"modem:127.0.0.1:3\"\n";

    #[test]
    fn all_hear_each_other_but_by_paths_of_their_own() {
        let own = "[[path]]\nbetween = [\"c\", \"a\"]\nfile = \"bad.toml\"\n";
        let net = load(&format!("all = \"hf.toml\"\n{ENDS}{own}")).expect("a net");
        let paths = net.paths.iter();
        let paths: Vec<_> = paths
            .map(|path| (path.name.as_str(), path.between, path.link.rate))
            .collect();
        let rate = |bit_s| Some(strait_core::units::BitRate(bit_s));
        assert_eq!(
            paths,
            [
                ("c-a", [2, 0], rate(1200)),
                ("a-b", [0, 1], rate(9600)),
                ("b-c", [1, 2], rate(9600)),
            ]
        );
        assert_eq!((net.name.as_str(), net.seed), ("net", 7));
    }

    #[test]
    fn the_shipped_net_has_three_that_hear_each_other() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../scenarios/nets/hf-three.toml"
        );
        let net = NetConfig::load(&strait_scenario::DiskFiles, Path::new(file), 1).unwrap();
        assert_eq!((net.ends.len(), net.paths.len()), (3, 3));
    }

    #[test]
    fn wrong_nets_say_what_would_be_right() {
        let path = |a: &str, b: &str, file: &str| {
            format!("{ENDS}[[path]]\nbetween = [\"{a}\", \"{b}\"]\nfile = \"{file}\"\n")
        };
        for (net, why) in [
            (ENDS.to_owned(), "`a` has no path"),
            (path("a", "b", "hf.toml"), "`c` has no path"),
            (path("a", "x", "hf.toml"), "no end is named `x`"),
            (path("a", "a", "hf.toml"), "without another path"),
            (path("a", "b", "line.toml"), "kind = \"hf\""),
            (path("a", "b", "no.toml"), "isn't there"),
            (format!("all = \"hf.toml\"\n{ENDS}{ENDS}"), "two are named"),
            (ENDS.replace("modem", "model"), "unknown kind"),
            (format!("{ENDS}call = \"radio seven\"\n"), "`N0CALL-7`"),
            ("end = []\n".to_owned(), "2 to 32"),
        ] {
            let error = load(&net).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }
}
