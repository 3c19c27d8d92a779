//! The study `na-local`: questions answered from stored replies.

use strait_report::table::ResultSet;
use strait_sim::study::na_local::LocalStudy;

use super::Options;

pub(super) fn run(_: &Options<'_>) -> anyhow::Result<ResultSet> {
    let text = include_str!("../../../../../scenarios/studies/na-local.toml");
    Ok(LocalStudy::parse("scenarios/studies/na-local.toml", text)?.run()?)
}
