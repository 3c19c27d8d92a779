//! Link files, and the traces that they name.

use std::path::Path;

use strait_channel::LinkConfig;
use strait_channel::cell::CellConfig;
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
    if let Some(cell) = link.cell_config_mut() {
        return inline_paths(files, path, cell);
    }
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

/// Puts stations' ways in place of their file's name, likewise.
fn inline_paths(files: &dyn Files, path: &Path, cell: &mut CellConfig) -> Result<(), ConfigError> {
    let Some(name) = &cell.path_file else {
        return Ok(());
    };
    let path = beside(path, name);
    let text = read(files, &path)?;
    cell.read_paths(&text).map_err(|error| ConfigError {
        line: Some(error.line),
        ..ConfigError::of_file(&path.display().to_string(), error.message)
    })
}

#[cfg(test)]
mod tests {
    use strait_channel::LinkKind;

    use super::*;

    /// A file of ways beside the link file.
    struct Beside<'a>(&'a str);

    impl Files for Beside<'_> {
        fn read(&self, path: &Path) -> Result<String, String> {
            match path.to_str() {
                Some("dir/link.toml") => Ok("kind = \"cell\"\nrate = \"1 Mbit/s\"\n[cell]\n\
                     places = [[0, 0], [9, 0]]\npath_file = \"ways/w.csv\"\n"
                    .into()),
                Some("dir/ways/w.csv") => Ok(self.0.into()),
                _ => Err("can't be read: no such file".into()),
            }
        }
    }

    #[test]
    fn ways_come_from_a_file_beside_and_errors_name_its_line() {
        let load = |text| load_link(&Beside(text), Path::new("dir/link.toml"));
        let link = load("0,1,5,6\n8,1,7,6\n").unwrap();
        let LinkKind::Cell(cell) = &link.kind else {
            panic!("it is no cell");
        };
        assert_eq!(
            cell.way(1),
            [[0.0, 5.0, 6.0], [0.0, 5.0, 6.0], [8.0, 7.0, 6.0]]
        );
        assert_eq!(cell.path_file, None);
        let error = load("0,1,5,6\n8,1,7\n").unwrap_err().to_string();
        assert!(
            error.starts_with("dir/ways/w.csv:2: write `SECONDS"),
            "{error}"
        );
    }
}
