//! Link files, and the traces that they name.

use std::path::Path;

use strait_channel::LinkConfig;
use strait_node::config_text::{self, ConfigError};

use crate::load::{Files, Source, beside, read, unreadable};

/// Loads a link file, with the trace that it names.
///
/// # Errors
/// What can't be read or describes no medium, with its place.
pub fn load_link(files: &dyn Files, path: &Path) -> Result<LinkConfig, ConfigError> {
    let text = read(files, path)?;
    let file = path.display().to_string();
    let mut link: LinkConfig = config_text::parse(&file, &text)?;
    inline_trace(files, path, &mut link)?;
    Ok(link)
}

/// The link file that the text at `place` names or has there; `None` if it has neither, or both.
pub(super) fn named_or_here(
    files: &dyn Files,
    source: &Source<'_>,
    place: &str,
    file: &Option<String>,
    channel: &Option<LinkConfig>,
) -> Result<Option<LinkConfig>, ConfigError> {
    match (file, channel) {
        (Some(name), None) => {
            let path = beside(source.path, name);
            read(files, &path)
                .map_err(|error| unreadable(source, &format!("{place}.file"), &error))?;
            load_link(files, &path).map(Some)
        }
        (None, Some(channel)) => {
            let mut channel = channel.clone();
            inline_trace(files, source.path, &mut channel)?;
            Ok(Some(channel))
        }
        _ => Ok(None),
    }
}

/// Puts a trace in place of its file's name, in a link that the file at `path` describes.
pub(super) fn inline_trace(
    files: &dyn Files,
    path: &Path,
    link: &mut LinkConfig,
) -> Result<(), ConfigError> {
    let Some(hf) = link.hf_config_mut() else {
        return Ok(());
    };
    let Some(name) = hf.trace_file.clone() else {
        return Ok(());
    };
    let path = beside(path, &name);
    let text = read(files, &path)?;
    let file = path.display().to_string();
    hf.read_trace(&text)
        .map_err(|error| ConfigError::of_file(&file, error.to_string()))
}
