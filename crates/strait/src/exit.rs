//! How commands end.

use std::process::ExitCode;

use strait_node::InvalidConfig;
use strait_node::config_text::ConfigError;

/// It ran, and with `--strict` a check failed.
pub(crate) const CHECK_FAILED: u8 = 1;
/// Wrong usage or configuration.
pub(crate) const BAD_INPUT: u8 = 2;
/// It could not run.
pub(crate) const CANNOT_RUN: u8 = 3;

/// The input is wrong, for a reason that has no type of its own.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// Tells the user what went wrong and gives the exit status for it.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    crate::output::say(&format!("strait: {error:#}"));
    let wrong_input =
        error.is::<ConfigError>() || error.is::<InvalidConfig>() || error.is::<BadInput>();
    ExitCode::from(if wrong_input { BAD_INPUT } else { CANNOT_RUN })
}
