//! Proof that the pure crates need no `std`.
//!
//! Where a bare target is installed, they are checked for it: there is no `std` to find. Elsewhere
//! a probe crate depends on all of them and brings a panic handler of its own. `std` brings one
//! too, and no program may have two (E0152): the probe compiles only if nothing below it uses
//! `std`. A dependency that is named in a manifest only is never loaded, so `tidy` looks for those.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::ci::{cargo, cargo_command};
use crate::tidy::arrows;

/// Targets without an operating system, the wished one first.
pub(crate) const BARE_TARGETS: [&str; 2] = ["x86_64-unknown-none", "thumbv7em-none-eabihf"];

/// The first bare target whose core library is installed.
pub(crate) fn bare_target() -> Option<&'static str> {
    BARE_TARGETS.into_iter().find(|target| {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(rustc)
            .args(["--print", "target-libdir", "--target", target])
            .output();
        output.is_ok_and(|output| {
            let dir = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
            output.status.success() && has_core(&dir)
        })
    })
}

fn has_core(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| {
        entries.any(|entry| {
            entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("libcore-"))
        })
    })
}

/// Checks the pure crates for a bare target, or falls back to the probe.
pub(crate) fn run(root: &Path) -> Result<()> {
    let Some(target) = bare_target() else {
        return probe(root);
    };
    let pure: Vec<String> = arrows::pure_crates().collect();
    // Without code: names are all that is to be resolved.
    let mut args = vec!["check", "--lib", "--quiet", "--target", target];
    for name in &pure {
        args.extend(["--package", name]);
    }
    cargo(root, &args)?;
    println!("the pure crates compile for {target}");
    Ok(())
}

/// Checks the probe crate on the host's target, and that it does refuse `std`.
pub(crate) fn probe(root: &Path) -> Result<()> {
    let pure: Vec<String> = arrows::pure_crates().collect();
    write_probe(root, "no-std-probe", &pure, "")?;
    ensure!(
        check_probe(root, "no-std-probe", true)?,
        "the probe does not compile; E0152 above names the crate that uses `std`"
    );
    // A proof that can't fail proves nothing.
    write_probe(root, "no-std-counterproof", &[], "extern crate std;\n")?;
    ensure!(
        !check_probe(root, "no-std-counterproof", false)?,
        "the probe accepts `std`: it proves nothing with this compiler"
    );
    println!("the pure crates compile beside a second panic handler: no `std` below them");
    Ok(())
}

fn write_probe(root: &Path, name: &str, pure: &[String], extra: &str) -> Result<()> {
    let dir = root.join("target").join(name);
    fs::create_dir_all(dir.join("src")).context("the probe's folder")?;
    fs::write(dir.join("Cargo.toml"), manifest(name, pure)).context("the probe's manifest")?;
    fs::write(dir.join("src/lib.rs"), source(pure, extra)).context("the probe's source")?;
    // The same versions as the workspace, and no look at a registry.
    fs::copy(root.join("Cargo.lock"), dir.join("Cargo.lock")).context("the probe's lock file")?;
    Ok(())
}

fn check_probe(root: &Path, name: &str, show: bool) -> Result<bool> {
    let mut command = cargo_command(&root.join("target").join(name));
    command.args(["check", "--quiet", "--offline", "--target-dir"]);
    command.arg(root.join("target").join("no-std"));
    if show {
        return Ok(command.status().context("cargo did not start")?.success());
    }
    let output = command.output().context("cargo did not start")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success() || errors.contains("E0152"),
        "the counter-proof failed for another reason:\n{errors}"
    );
    Ok(output.status.success())
}

fn manifest(name: &str, pure: &[String]) -> String {
    let mut text = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         # A workspace of its own.\n[workspace]\nresolver = \"3\"\n\n[dependencies]\n"
    );
    for name in pure {
        let _ = writeln!(text, "{name} = {{ path = \"../../crates/{name}\" }}");
    }
    text
}

fn source(pure: &[String], extra: &str) -> String {
    let mut text = format!("#![no_std]\n{extra}");
    for name in pure {
        let _ = writeln!(text, "extern crate {};", name.replace('-', "_"));
    }
    text.push_str(
        "#[panic_handler]\nfn panic(_: &core::panic::PanicInfo<'_>) -> ! {\n    loop {}\n}\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_names_every_crate_and_brings_a_panic_handler() {
        let text = source(&["strait-wire", "strait-core"].map(String::from), "");
        assert!(
            text.starts_with("#![no_std]\nextern crate strait_wire;\nextern crate strait_core;")
        );
        assert!(text.contains("#[panic_handler]"));
        let text = manifest("probe", &["strait-wire".into()]);
        assert!(text.ends_with("strait-wire = { path = \"../../crates/strait-wire\" }\n"));
    }
}
