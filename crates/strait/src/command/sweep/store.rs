//! Results of a sweep in a file, a line of JSON for each run, so that a sweep that was ended goes
//! on where it was.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Mutex;

use anyhow::Context;
use serde_json::{Value, json};
use strait_scenario::sweep::Point;
use strait_sim::sweep::Measured;
use strait_wire::hash::hash64;

/// What tells runs apart: hashes of the program and of the scenario at the point, variant, seed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Another program may give another result.
    pub(super) program: u64,
    pub(super) scenario: u64,
    pub(super) variant: String,
    pub(super) seed: u64,
}

/// The file, open for more.
pub(super) struct Store {
    file: Mutex<File>,
    known: BTreeMap<Key, Measured>,
}

impl Store {
    /// Reads what is there. Lines that aren't whole, as the last one of a run that was killed, are
    /// left out.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        let mut text = String::new();
        file.read_to_string(&mut text)
            .with_context(|| format!("{} is not a store of results", path.display()))?;
        let whole = text.is_empty() || text.ends_with('\n');
        if !whole {
            file.write_all(b"\n")?;
        }
        Ok(Self {
            known: text.lines().filter_map(parse).collect(),
            file: Mutex::new(file),
        })
    }

    pub(super) fn find(&self, key: &Key) -> Option<&Measured> {
        self.known.get(key)
    }

    /// Adds a line; it is with the system when this returns.
    pub(super) fn add(&self, key: &Key, point: &Point, measured: &Measured) -> std::io::Result<()> {
        let point: BTreeMap<&str, String> = point
            .iter()
            .map(|(key, value)| (key.as_str(), value.to_string()))
            .collect();
        let line = json!({
            "program": hex(key.program),
            "scenario": hex(key.scenario),
            "variant": key.variant,
            "seed": key.seed,
            "point": point,
            "run_hash": hex(measured.hash),
            "unexplained": measured.unexplained,
            "metrics": measured.metrics,
        });
        let mut file = self.file.lock().map_err(|_| std::io::ErrorKind::Other)?;
        file.write_all(format!("{line}\n").as_bytes())
    }
}

/// A hash of the program that runs.
pub(super) fn program() -> u64 {
    let octets = std::env::current_exe().and_then(std::fs::read);
    octets.map_or(0, |octets| hash64(0, &octets))
}

fn hex(number: u64) -> String {
    format!("{number:016x}")
}

fn parse(line: &str) -> Option<(Key, Measured)> {
    let line: Value = serde_json::from_str(line).ok()?;
    let hash = |key: &str| u64::from_str_radix(line[key].as_str()?, 16).ok();
    let metrics = line["metrics"].as_object()?.iter();
    let metrics = metrics.map(|(name, value)| Some((name.clone(), value.as_f64()?)));
    let key = Key {
        program: hash("program")?,
        scenario: hash("scenario")?,
        variant: line["variant"].as_str()?.to_owned(),
        seed: line["seed"].as_u64()?,
    };
    let measured = Measured {
        hash: hash("run_hash")?,
        metrics: metrics.collect::<Option<_>>()?,
        unexplained: line["unexplained"].as_u64()?,
    };
    Some((key, measured))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_there_and_a_torn_line_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        let key = |seed| Key {
            program: 1,
            scenario: u64::MAX,
            variant: "strait".into(),
            seed,
        };
        let measured = Measured {
            hash: 7,
            metrics: [("file.time_s".to_owned(), 0.1)].into(),
            unexplained: 0,
        };
        let store = Store::open(&path).unwrap();
        for seed in [1, 2] {
            let point = vec![("link.*.loss".to_owned(), 0.25.into())];
            store.add(&key(seed), &point, &measured).unwrap();
        }
        let octets = std::fs::read(&path).unwrap();
        std::fs::write(&path, &octets[..octets.len() - 5]).unwrap();
        let store = Store::open(&path).unwrap();
        assert_eq!(store.find(&key(1)), Some(&measured));
        assert_eq!(store.find(&key(2)), None);
        store.add(&key(2), &Vec::new(), &measured).unwrap();
        let store = Store::open(&path).unwrap();
        assert_eq!(store.find(&key(2)), Some(&measured));
        let other = Key {
            program: 2,
            ..key(1)
        };
        assert_eq!(store.find(&other), None);
    }
}
