//! Gives every target its first corpus, what is kept of the corpora that fuzzing found, and noise.

use std::path::{Path, PathBuf};
use std::{fs, thread};

use strait_fuzz::{TARGETS, Target, seeds};

/// Runs a target in a thread that bears the input's name: it stands in the message of a panic, and
/// of an overflow of the stack, which nothing outlives.
fn holds((_, target): Target, input: &str, octets: Vec<u8>) -> bool {
    let thread = thread::Builder::new().name(input.to_owned());
    let running = thread.spawn(move || target(&octets)).expect("a thread");
    running.join().is_ok()
}

/// The files of a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

#[test]
fn every_target_takes_what_is_kept_of_its_corpus() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("kept");
    let mut broken = Vec::new();
    for target in TARGETS {
        let paths = files(&kept.join(target.0));
        assert!(!paths.is_empty(), "{} has nothing kept", target.0);
        for path in paths {
            let octets = fs::read(&path).expect("a readable file");
            let path = path.display().to_string();
            if !holds(target, &path, octets) {
                broken.push(path);
            }
        }
    }
    assert!(broken.is_empty(), "these panic:\n{}", broken.join("\n"));
}

#[test]
fn every_target_takes_its_seeds_and_noise() {
    for target in TARGETS {
        let name = target.0;
        let mut inputs = vec![("nothing".into(), Vec::new())];
        let seeds = seeds::of(name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for (seed, octets) in seeds {
            inputs.push((
                format!("half of {seed}"),
                octets[..octets.len() / 2].to_vec(),
            ));
            inputs.push((seed, octets));
        }
        inputs.extend((0..50).map(|number| (format!("noise {number}"), seeds::noise(number, 700))));
        for (input, octets) in inputs {
            assert!(holds(target, &format!("{name}: {input}"), octets));
        }
    }
}

#[test]
fn what_is_kept_is_of_a_target() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("kept");
    for folder in files(&kept) {
        let of_target = TARGETS.iter().any(|(name, _)| folder.ends_with(name));
        assert!(of_target, "{} is no target's", folder.display());
    }
}
