//! `again TARGET FILE...` gives inputs to a target once more, built with any compiler.

use std::process::ExitCode;
use std::{env, fs};

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let Some((_, target)) = strait_fuzz::TARGETS
        .iter()
        .find(|(known, _)| *known == name)
    else {
        let names = strait_fuzz::TARGETS.map(|(name, _)| name).join(", ");
        eprintln!("usage: again TARGET FILE...; targets: {names}");
        return ExitCode::from(2);
    };
    for path in arguments {
        match fs::read(&path) {
            Ok(octets) => target(&octets),
            Err(error) => {
                eprintln!("{path}: {error}");
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::SUCCESS
}
