//! The study `na-local`: questions answered from stored replies.

use strait_report::table::ResultSet;
use strait_sim::study::na_local::LocalStudy;

use super::Options;

pub(super) fn run(options: &Options<'_>) -> anyhow::Result<ResultSet> {
    let (file, text) = options.set_up(
        "scenarios/studies/na-local.toml",
        include_str!("../../../../../scenarios/studies/na-local.toml"),
    );
    Ok(LocalStudy::parse(file, text)?.run()?)
}
