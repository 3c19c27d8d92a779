//! Configuration text: read into types, with errors that say where and what would have been right.
//!
//! An error names file, line, key and, for an unknown one, the nearest valid key:
//! ``x.toml:12: unknown key `bauds` in [[port]]; did you mean `baud`? (valid keys: `baud`, …)``.
//! A table that was merged from several texts has no lines; its errors name the key path.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use serde::de::DeserializeOwned;
use strait_core::keys::KeyError;
use toml::Value;
use toml::de::{DeTable, DeValue};

use crate::config::NodeConfig;

/// What is wrong in a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file as the user named it.
    pub file: String,
    /// Line of the offending key or value, from 1; `None` for a merged table or a missing key of
    /// the whole file.
    pub line: Option<u32>,
    /// Column in characters, from 1.
    pub column: Option<u32>,
    /// Keys from the top to the offending one, joined by dots; an element of an array stands by
    /// its `name` if it has one, else by its number from 0.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// The valid key or word nearest to the one found, if one is near.
    pub nearest: Option<String>,
}

impl core::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match self.line {
            Some(line) => write!(f, ":{line}")?,
            None if self.path.is_empty() => {}
            None => write!(f, ": {}", self.path)?,
        }
        write!(f, ": {}", self.message)
    }
}

impl ConfigError {
    /// An error of a file as a whole: it can't be read, for example.
    pub fn of_file(file: &str, message: impl Into<String>) -> Self {
        Self {
            file: file.to_string(),
            line: None,
            column: None,
            path: String::new(),
            message: message.into(),
            nearest: None,
        }
    }
}

/// Reads TOML text into a type. `file` is only named in errors.
///
/// # Errors
/// Text that is no TOML, unknown or missing keys, values of a wrong type or out of range.
pub fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|error| explain(file, text, &error))
}

/// Reads a table, merged from several texts, into a type. Errors name key paths, not lines.
///
/// # Errors
/// As for [`parse`].
pub fn from_table<T: DeserializeOwned>(file: &str, table: &toml::Table) -> Result<T, ConfigError> {
    let without_line = |mut error: ConfigError| {
        error.line = None;
        error.column = None;
        error
    };
    // Reading the table itself would lose the numbers of array elements in its errors; its text
    // goes through the same code as a file's.
    write(file, table).and_then(|text| parse(file, &text).map_err(without_line))
}

/// What reads or writes a node file calls one of these. The code that does it is long, and a call
/// that is generic has all of it made again in each crate.
impl NodeConfig {
    /// Reads a node file's text: [`parse`].
    ///
    /// # Errors
    /// As for [`parse`].
    pub fn from_text(file: &str, text: &str) -> Result<Self, ConfigError> {
        parse(file, text)
    }

    /// Reads a table: [`from_table`].
    ///
    /// # Errors
    /// As for [`from_table`].
    pub fn from_table(file: &str, table: &toml::Table) -> Result<Self, ConfigError> {
        from_table(file, table)
    }

    /// The text of its node file.
    ///
    /// # Errors
    /// A value that TOML can't express, such as a rate above 2^63 bit/s.
    pub fn to_text(&self) -> Result<String, String> {
        toml::to_string(self).map_err(|error| error.to_string())
    }
}

/// A table as TOML text.
///
/// # Errors
/// A table that TOML can't express; one that was read from TOML always can.
pub fn write(file: &str, table: &toml::Table) -> Result<String, ConfigError> {
    toml::to_string(table).map_err(|error| ConfigError::of_file(file, error.to_string()))
}

/// An error about the value at `path` (`"traffic.1.from"`), which has the right type but can't
/// be right.
pub fn error_at(file: &str, text: &str, path: &str, message: &str) -> ConfigError {
    let document = DeTable::parse(text).ok();
    let place = document
        .as_ref()
        .map_or_else(Place::default, |document| seek(document.get_ref(), path));
    place.error(file, text, place.about(message))
}

/// An error about a word at `path` that should be one of `valid`; `what` is what such a word
/// names: ``no host `hx`; did you mean `ha`? (hosts: `ha`, `hb`)``.
pub fn unknown_name(
    file: &str,
    text: &str,
    path: &str,
    what: &str,
    found: &str,
    valid: &[&str],
) -> ConfigError {
    let (near, hint) = hint(found, valid, &format!("{what}s"));
    let mut error = error_at(file, text, path, &format!("no {what} `{found}`{hint}"));
    error.nearest = near;
    error
}

/// Merges `overlay` into `base`: tables key by key, everything else replaced.
///
/// A table over an array of tables names elements by their `name`: `port = { line = { … } }`
/// changes the element of `[[port]]` whose name is `line`. The paths of those without such an
/// element are returned; whether that is an error is the caller's to say.
pub fn merge(base: &mut toml::Table, overlay: &toml::Table) -> Vec<String> {
    let mut unmatched = Vec::new();
    merge_at("", base, overlay, &mut unmatched);
    unmatched
}

fn merge_at(
    path: &str,
    base: &mut toml::Table,
    overlay: &toml::Table,
    unmatched: &mut Vec<String>,
) {
    for (key, value) in overlay {
        let path = join(path, key);
        match (base.get_mut(key), value) {
            (Some(Value::Table(mine)), Value::Table(theirs)) => {
                merge_at(&path, mine, theirs, unmatched);
            }
            (Some(Value::Array(mine)), Value::Table(theirs)) if named(mine) => {
                merge_named(&path, mine, theirs, unmatched);
            }
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

fn merge_named(
    path: &str,
    elements: &mut [Value],
    overlay: &toml::Table,
    unmatched: &mut Vec<String>,
) {
    for (name, value) in overlay {
        let path = join(path, name);
        let is_it =
            |element: &&mut Value| element.get("name").and_then(Value::as_str) == Some(name);
        match (elements.iter_mut().find(is_it), value) {
            (Some(Value::Table(mine)), Value::Table(theirs)) => {
                merge_at(&path, mine, theirs, unmatched);
            }
            _ => unmatched.push(path),
        }
    }
}

fn named(elements: &[Value]) -> bool {
    elements
        .iter()
        .all(|element| element.get("name").is_some_and(Value::is_str))
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_string()
    } else {
        format!("{path}.{key}")
    }
}

/// One step from a table or array to something in it.
#[derive(Clone, Debug)]
enum Step {
    Key(String),
    /// The element's number, and its `name` if it has one.
    Element(usize, Option<String>),
}

/// A key or value in a text.
#[derive(Clone, Debug, Default)]
struct Place {
    keys: Vec<Step>,
    /// Octets of the text; `None` for the whole text.
    span: Option<Range<usize>>,
    /// No table: an element of an array is then spoken of by the array's key.
    plain: bool,
}

impl Place {
    fn path(&self) -> String {
        let step = |path: String, step: &Step| match step {
            Step::Key(key) | Step::Element(_, Some(key)) => join(&path, key),
            Step::Element(number, None) => join(&path, &number.to_string()),
        };
        self.keys.iter().fold(String::new(), step)
    }

    /// The heading under which a file has this table: `[host]`, `[[port]]`, `[[port.neighbours]]`.
    fn header(&self) -> String {
        let keys: Vec<&str> = self
            .keys
            .iter()
            .filter_map(|step| match step {
                Step::Key(key) => Some(key.as_str()),
                Step::Element(..) => None,
            })
            .collect();
        match self.keys.last() {
            None => String::from("the file's top level"),
            Some(Step::Key(_)) => format!("[{}]", keys.join(".")),
            Some(Step::Element(..)) => format!("[[{}]]", keys.join(".")),
        }
    }

    /// A message with the key or table it is about before it.
    fn about(&self, message: &str) -> String {
        let mut outer = self.clone();
        while self.plain && matches!(outer.keys.last(), Some(Step::Element(..))) {
            outer.keys.pop();
        }
        match outer.keys.last() {
            Some(Step::Key(key)) => format!("`{key}` in {}: {message}", outer.table()),
            Some(Step::Element(..)) => format!("{}: {message}", outer.header()),
            None => message.to_string(),
        }
    }

    /// The heading of the table that this key stands in.
    fn table(&self) -> String {
        let mut outer = self.clone();
        outer.keys.pop();
        outer.header()
    }

    fn error(&self, file: &str, text: &str, message: String) -> ConfigError {
        let position = self.span.as_ref().map(|span| position(text, span.start));
        ConfigError {
            file: file.to_string(),
            line: position.map(|(line, _)| line),
            column: position.map(|(_, column)| column),
            path: self.path(),
            message,
            nearest: None,
        }
    }

    fn child(&self, step: Step, span: Range<usize>) -> Self {
        let mut keys = self.keys.clone();
        keys.push(step);
        let span = Some(span);
        Self {
            keys,
            span,
            plain: true,
        }
    }
}

/// Line and column of an octet, from 1.
fn position(text: &str, offset: usize) -> (u32, u32) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    (
        u32::try_from(line).unwrap_or(u32::MAX),
        u32::try_from(column).unwrap_or(u32::MAX),
    )
}

fn name_of(value: &DeValue<'_>) -> Option<String> {
    let name = value.as_table()?.get("name")?;
    name.get_ref().as_str().map(String::from)
}

/// Visits every key and every array element below a table: its place, the span of its key, the
/// span of its value, the value.
fn walk<F: FnMut(&Place, &DeValue<'_>, Range<usize>)>(
    place: &Place,
    table: &DeTable<'_>,
    f: &mut F,
) {
    for (key, value) in table {
        let place = place.child(Step::Key(key.get_ref().to_string()), key.span());
        f(&place, value.get_ref(), value.span());
        walk_value(&place, value.get_ref(), f);
    }
}

fn walk_value<F: FnMut(&Place, &DeValue<'_>, Range<usize>)>(
    place: &Place,
    value: &DeValue<'_>,
    f: &mut F,
) {
    match value {
        DeValue::Table(table) => walk(place, table, f),
        DeValue::Array(array) => {
            for (number, element) in array.iter().enumerate() {
                let step = Step::Element(number, name_of(element.get_ref()));
                let mut place = place.child(step, element.span());
                place.plain = !element.get_ref().is_table();
                f(&place, element.get_ref(), element.span());
                walk_value(&place, element.get_ref(), f);
            }
        }
        _ => {}
    }
}

/// The place that `path` leads to, or as much of the way as exists.
fn seek(document: &DeTable<'_>, path: &str) -> Place {
    let mut found = Place::default();
    let mut outside = None;
    let steps: Vec<&str> = path.split('.').collect();
    walk(&Place::default(), document, &mut |place, _, _| {
        let same = place
            .keys
            .iter()
            .zip(&steps)
            .all(|(step, wanted)| match step {
                Step::Key(key) => key == wanted,
                Step::Element(number, name) => {
                    name.as_deref() == Some(*wanted) || number.to_string() == *wanted
                }
            });
        let longer = place.keys.len() > found.keys.len() && place.keys.len() <= steps.len();
        if same && longer {
            found = place.clone();
            outside = steps.get(place.keys.len());
        }
    });
    if let (Some(key), Some(span)) = (outside, found.span.clone()) {
        // A key that isn't written is named where it would stand.
        found = found.child(Step::Key((*key).to_string()), span);
    }
    found
}

/// The innermost place that holds the octets of `span`.
fn innermost<'d>(document: &'d DeTable<'d>, span: &Range<usize>) -> (Place, bool) {
    let mut best = (Place::default(), false);
    let mut size = usize::MAX;
    walk(
        &Place::default(),
        document,
        &mut |place, value, value_span| {
            let key_span = place.span.clone().unwrap_or_default();
            for candidate in [key_span, value_span] {
                let holds = candidate.start <= span.start && span.end <= candidate.end;
                if holds && candidate.len() <= size {
                    size = candidate.len();
                    best = (place.clone(), value.is_table());
                    best.0.span = Some(span.clone());
                }
            }
        },
    );
    best
}

/// Turns the parser's error into ours.
fn explain(file: &str, text: &str, error: &toml::de::Error) -> ConfigError {
    let message = error.message();
    let Ok(document) = DeTable::parse(text) else {
        let place = Place {
            span: error.span(),
            ..Place::default()
        };
        return place.error(file, text, message.to_string());
    };
    // Without any place it is about the whole file; so is a span that is the whole file's.
    let span = error.span().filter(|span| *span != document.span());
    let (place, is_table) = span.map_or_else(
        || (Place::default(), true),
        |span| innermost(document.get_ref(), &span),
    );
    let words = quoted(message);
    let valid = words.get(1..).unwrap_or_default();
    let first = words.first().copied().unwrap_or_default();
    if message.starts_with("unknown field") {
        let place = inner_key(document.get_ref(), place, is_table, first);
        let (near, hint) = hint(first, valid, "valid keys");
        let header = place.table();
        let message = format!("unknown key `{first}` in {header}{hint}");
        let mut error = place.error(file, text, message);
        error.nearest = near;
        return error;
    }
    if let Some(KeyError { key, why }) = KeyError::of_text(message) {
        let place = inner_key(document.get_ref(), place, is_table, &key);
        return place.error(file, text, place.about(&why));
    }
    if message.starts_with("missing field") {
        let message = format!("missing key `{first}` in {}", place.header());
        return place.error(file, text, message);
    }
    let place = if is_table {
        inner_value(document.get_ref(), place, first)
    } else {
        place
    };
    explain_value(file, text, &place, message, first, valid)
}

fn explain_value(
    file: &str,
    text: &str,
    place: &Place,
    message: &str,
    first: &str,
    valid: &[&str],
) -> ConfigError {
    let (near, message) = if message.starts_with("unknown variant") {
        let (near, hint) = hint(first, valid, "valid words");
        (near, format!("unknown word `{first}`{hint}"))
    } else {
        (None, message.to_string())
    };
    let mut error = place.error(file, text, place.about(&message));
    error.nearest = near;
    error
}

/// A type that is chosen by a key loses the places inside its table: finds the key again.
fn inner_key(document: &DeTable<'_>, outer: Place, is_table: bool, key: &str) -> Place {
    if !is_table || matches!(outer.keys.last(), Some(Step::Key(last)) if last == key) {
        return outer;
    }
    let path = join(&outer.path(), key);
    let mut found = seek(document, &path);
    if found.keys.is_empty() {
        found = outer.child(Step::Key(key.to_string()), 0..0);
        found.span = None;
    }
    found
}

/// The same for a value: the first text in the table that the message quotes.
fn inner_value(document: &DeTable<'_>, outer: Place, quoted: &str) -> Place {
    let mut found = None;
    walk(&Place::default(), document, &mut |place, value, _| {
        let below = place.keys.len() == outer.keys.len() + 1
            && place.path().starts_with(outer.path().as_str());
        if found.is_none() && below && value.as_str() == Some(quoted) {
            found = Some(place.clone());
        }
    });
    found.unwrap_or(outer)
}

/// The words between backticks.
fn quoted(message: &str) -> Vec<&str> {
    message.split('`').skip(1).step_by(2).collect()
}

/// ``; did you mean `baud`? (valid keys: `baud`, `framing`)``, and the word meant.
fn hint(found: &str, valid: &[&str], title: &str) -> (Option<String>, String) {
    if valid.is_empty() {
        return (None, String::new());
    }
    let near = nearest(found, valid);
    let question = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    let list: Vec<String> = valid.iter().map(|word| format!("`{word}`")).collect();
    let text = format!("{question} ({title}: {})", list.join(", "));
    (near.map(String::from), text)
}

/// The candidate that a typing error most likely turned into `word`, if any is near enough.
pub fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).clamp(1, 4);
    candidates
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Typing errors between two words, cases alike: letters left out, added, changed, or two
/// neighbours swapped.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().map(|c| c.to_ascii_lowercase()).collect();
    let b: Vec<char> = b.chars().map(|c| c.to_ascii_lowercase()).collect();
    let mut above: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut next = Vec::with_capacity(b.len() + 1);
        next.push(i + 1);
        for (j, right) in b.iter().enumerate() {
            let changed = row[j] + usize::from(left != right);
            let mut best = changed.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *left == b[j - 1] && a[i - 1] == *right {
                best = best.min(above[j - 1] + 1);
            }
            next.push(best);
        }
        above = core::mem::replace(&mut row, next);
    }
    row[b.len()]
}

/// What is wrong with a node file, in one sentence.
#[cfg(test)]
pub(crate) fn complaint_about(text: &str) -> Option<String> {
    match NodeConfig::from_text("a.toml", text) {
        Ok(config) => config.validate().err().map(|error| error.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
#[path = "config_text_tests.rs"]
mod tests;
