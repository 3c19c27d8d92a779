//! One scenario at many points: which keys take which values, and the scenario at each.
//!
//! A key is a path through the resolved scenario, with names in the place of numbers:
//! `link.line.loss`, `node.a.port.line.segment`, `traffic.file.octets`, `duration`. `*` means every
//! element of that name's kind. Keys of links and nodes are those of their own files. Keys joined
//! by `+` change together: `link.line.baud + node.*.port.line.baud`.

use serde::{Deserialize, Serialize};
use strait_node::config_text::{ConfigError, nearest};
use toml::{Table, Value};

use crate::{Files, Loaded, Scenario};

/// An axis that a scenario brings along.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisConfig {
    /// What changes: a key, or several joined by `+`.
    pub key: String,
    /// The values: a list, or a text such as `"0..0.3/0.05"`. A list of lists has a value for each
    /// of several keys.
    pub values: Value,
}

/// A key, or several joined by `+`, and the values that it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What changes.
    pub key: String,
    /// The values, in order; at least one.
    pub values: Vec<Value>,
}

/// A value for each of some keys, in the order of their axes.
pub type Point = Vec<(String, Value)>;

/// Points of a sweep. A guard against slips.
pub const POINTS_MAX: usize = 100_000;
/// Values of one axis. The same.
const VALUES_MAX: usize = 10_000;

/// An axis that can't be, with the reason and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("axis `{axis}`: {message}")]
pub struct InvalidAxis {
    /// The axis as written.
    pub axis: String,
    /// What is wrong.
    pub message: String,
}

impl Axis {
    /// Reads `KEY=VALUES`. Values are separated by commas; each is a value, or `FROM..TO/STEP` with
    /// both ends in and at most one unit: `0..20/5 %`, `10..50/10 ms`.
    ///
    /// # Errors
    /// A text that is neither.
    pub fn parse(text: &str) -> Result<Self, InvalidAxis> {
        let wrong = |message: &str| InvalidAxis {
            axis: text.to_owned(),
            message: message.to_owned(),
        };
        let (key, values) = text.split_once('=').ok_or_else(|| {
            wrong("has no value: write KEY=VALUES, such as link.line.loss=0..0.3/0.05")
        })?;
        let values = values_of(values.trim()).map_err(|message| wrong(&message))?;
        Self::new(key.trim(), values)
    }

    /// The axis of a scenario file.
    ///
    /// # Errors
    /// A value that is neither a list nor a text of values.
    pub fn from_config(config: &AxisConfig) -> Result<Self, InvalidAxis> {
        let wrong = |message: String| InvalidAxis {
            axis: config.key.clone(),
            message,
        };
        let values = match &config.values {
            Value::Array(values) => values.clone(),
            Value::String(text) => values_of(text.trim()).map_err(wrong)?,
            other => vec![other.clone()],
        };
        Self::new(&config.key, values)
    }

    fn new(key: &str, values: Vec<Value>) -> Result<Self, InvalidAxis> {
        let wrong = |message: String| InvalidAxis {
            axis: key.to_owned(),
            message,
        };
        if keys_of(key).any(|key| key.split('.').any(str::is_empty)) {
            return Err(wrong(
                "needs a key, such as link.line.loss or traffic.file.octets".into(),
            ));
        }
        let keys = keys_of(key).count();
        if let Some(odd) = values.iter().find(|value| !fits(keys, value)) {
            return Err(wrong(format!(
                "`{odd}` isn't a value for each of its {keys} keys"
            )));
        }
        if values.is_empty() || values.len() > VALUES_MAX {
            return Err(wrong(format!("needs 1 to {VALUES_MAX} values")));
        }
        Ok(Self {
            key: key.to_owned(),
            values,
        })
    }
}

impl Axis {
    /// The keys that change together.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        keys_of(&self.key)
    }
}

fn keys_of(key: &str) -> impl Iterator<Item = &str> {
    key.split('+').map(str::trim)
}

/// One value is for all keys together; a list, where there are several, has one for each.
fn fits(keys: usize, value: &Value) -> bool {
    let list = value.as_array().filter(|_| keys > 1);
    list.is_none_or(|values| values.len() == keys)
}

/// Keys and values of one axis at a point.
fn changes<'a>(key: &'a str, value: &'a Value) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let keys = keys_of(key).count();
    let list = value.as_array().filter(|_| keys > 1);
    let of = move |index: usize| list.map_or(Some(value), |values| values.get(index));
    let keys = keys_of(key).enumerate();
    keys.filter_map(move |(index, key)| Some((key, of(index)?)))
}

/// A value's number and its unit, which may be empty: `75 kbit/s`, `0.05`.
pub fn number_of(value: &Value) -> Option<(f64, &str)> {
    match value {
        Value::Integer(number) => Some((*number as f64, "")),
        Value::Float(number) => Some((*number, "")),
        Value::String(text) => number_and_unit(text),
        _ => None,
    }
}

fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let digits = text
        .find(|it: char| !it.is_ascii_digit() && !matches!(it, '.' | '-' | '+' | 'e'))
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits);
    Some((digits.parse().ok()?, unit.trim()))
}

/// Values separated by commas.
fn values_of(text: &str) -> Result<Vec<Value>, String> {
    let mut values = Vec::new();
    for part in text.split(',').map(str::trim) {
        match part.split_once("..") {
            Some((from, rest)) => values.extend(range(from, rest)?),
            None => values.push(value(part)?),
        }
    }
    Ok(values)
}

/// One value as TOML means it; anything else is a text.
fn value(text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return Err("has an empty value".into());
    }
    let parsed: Option<Value> = format!("value = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut table| table.remove("value"));
    Ok(parsed.unwrap_or_else(|| Value::String(text.to_owned())))
}

fn range(from: &str, rest: &str) -> Result<Vec<Value>, String> {
    let form = || format!("`{from}..{rest}` is no range: write FROM..TO/STEP, such as 0..20/5 %");
    let (to, step) = rest.split_once('/').ok_or_else(form)?;
    let mut unit = "";
    let mut numbers = [0.0f64; 3];
    for (number, text) in numbers.iter_mut().zip([from, to, step]) {
        let (parsed, found) = number_and_unit(text).ok_or_else(form)?;
        *number = parsed;
        if !found.is_empty() && !unit.is_empty() && found != unit {
            return Err(format!("has two units, `{unit}` and `{found}`"));
        }
        if !found.is_empty() {
            unit = found;
        }
    }
    let [from, to, step] = numbers;
    // A whole number of steps may come out as a little less.
    let steps = (to - from) / step + 1e-9;
    if !(steps.is_finite() && steps >= 0.0 && steps < VALUES_MAX as f64) {
        return Err(format!(
            "`{from}..{to}/{step}` has no steps, or more than {VALUES_MAX}"
        ));
    }
    let whole = [from, step].iter().all(|number| number.fract() == 0.0);
    let at = |index: usize| {
        // Twelve digits: 0.1 + 0.2 is 0.3.
        let number = from + step * index as f64;
        let number = format!("{number:.12e}").parse().unwrap_or(number);
        match (unit, whole) {
            ("", true) => Value::Integer(number as i64),
            ("", false) => Value::Float(number),
            (unit, _) => Value::String(format!("{number} {unit}")),
        }
    };
    Ok((0..=steps as usize).map(at).collect())
}

/// Every point: the last axis changes first.
///
/// # Errors
/// More than [`POINTS_MAX`].
pub fn points(axes: &[Axis]) -> Result<Vec<Point>, InvalidAxis> {
    let count = axes
        .iter()
        .try_fold(1usize, |count, axis| count.checked_mul(axis.values.len()));
    if count.is_none_or(|count| count > POINTS_MAX) {
        return Err(InvalidAxis {
            axis: axes
                .iter()
                .map(|axis| axis.key.as_str())
                .collect::<Vec<_>>()
                .join(", "),
            message: format!("have more than {POINTS_MAX} points together: take fewer values"),
        });
    }
    let mut points: Vec<Point> = vec![Vec::new()];
    for axis in axes {
        let longer = points.iter().flat_map(|point| {
            axis.values.iter().map(|value| {
                let mut point = point.clone();
                point.push((axis.key.clone(), value.clone()));
                point
            })
        });
        points = longer.collect();
    }
    Ok(points)
}

/// A resolved scenario names no files.
struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &std::path::Path) -> Result<String, String> {
        Err("is named by a key that a sweep changes: change its content instead".to_owned())
    }
}

impl Loaded {
    /// The scenario with other values for some keys, checked like one from a file.
    ///
    /// # Errors
    /// A key that leads nowhere, a value that doesn't fit.
    pub fn at(&self, point: &Point) -> Result<Self, ConfigError> {
        let place = point.iter().map(|(key, value)| format!("{key} = {value}"));
        let place: Vec<String> = place.collect();
        let file = format!("{} with {}", self.file, place.join(", "));
        let mut own = self.clone();
        // Its axes are what brought us here.
        own.scenario.axes.clear();
        let table: Result<Table, _> = own.resolved_text().parse();
        let mut document = table.map_err(|error| ConfigError::of_file(&file, error.to_string()))?;
        for (key, value) in point.iter().flat_map(|(key, value)| changes(key, value)) {
            let path = full_path(key);
            set_in(&mut document, &path, value)
                .map_err(|message| ConfigError::of_file(&file, format!("{key}: {message}")))?;
        }
        let text = strait_node::config_text::write(&file, &document)?;
        let loaded = Scenario::load_text(&NoFiles, std::path::Path::new(&file), &text);
        loaded.map_err(|error| ConfigError {
            // Of a text that nobody has seen.
            line: None,
            column: None,
            ..error
        })
    }
}

/// The steps of a key. What a link's and a node's own file says stands a table deeper.
fn full_path(key: &str) -> Vec<&str> {
    let mut path: Vec<&str> = key.split('.').collect();
    let inner = match path.first() {
        Some(&"link" | &"medium") => Some("channel"),
        Some(&"node") => Some("config"),
        _ => None,
    };
    if let Some(inner) = inner.filter(|inner| path.len() > 2 && path[2] != *inner) {
        path.insert(2, inner);
    }
    path
}

fn set_in(table: &mut Table, path: &[&str], new: &Value) -> Result<(), String> {
    let Some((key, rest)) = path.split_first() else {
        return Err("the key ends too early".into());
    };
    if rest.is_empty() {
        table.insert((*key).to_owned(), new.clone());
        return Ok(());
    }
    let entry = table
        .entry(*key)
        .or_insert_with(|| Value::Table(Table::new()));
    match entry {
        Value::Table(inner) => set_in(inner, rest, new),
        Value::Array(elements) => set_in_elements(key, elements, rest, new),
        _ => Err(format!("`{key}` has no keys of its own")),
    }
}

fn set_in_elements(
    kind: &str,
    elements: &mut [Value],
    path: &[&str],
    new: &Value,
) -> Result<(), String> {
    let Some((name, rest)) = path.split_first() else {
        return Err("the key ends too early".into());
    };
    let mut found = false;
    let mut names = Vec::new();
    for element in elements {
        let Value::Table(element) = element else {
            return Err(format!("`{kind}` is a list of values: set all of it"));
        };
        let own = element.get("name").and_then(Value::as_str).unwrap_or("");
        if *name == "*" || own == *name {
            found = true;
            set_in(element, rest, new)?;
        } else {
            names.push(own.to_owned());
        }
    }
    if found {
        return Ok(());
    }
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let near =
        nearest(name, &known).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    Err(format!(
        "no {kind} `{name}`{near} ({kind}s: {}, or * for all)",
        known.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        let axis = Axis::parse(&format!("key={text}")).unwrap();
        axis.values.iter().map(Value::to_string).collect()
    }

    #[test]
    fn ranges_have_both_ends_and_round_values() {
        assert_eq!(values("0..0.3/0.1"), ["0.0", "0.1", "0.2", "0.3"]);
        assert_eq!(values("1..9/4"), ["1", "5", "9"]);
        assert_eq!(values("1..8/4"), ["1", "5"]);
        assert_eq!(
            values("10..30/10 ms"),
            ["\"10 ms\"", "\"20 ms\"", "\"30 ms\""]
        );
        assert_eq!(values("5..0/-2.5"), ["5.0", "2.5", "0.0"]);
        assert_eq!(values("3..3/1"), ["3"]);
        assert_eq!(
            values("0, 0.01,5..6/1,75 kbit/s, true, adapter"),
            [
                "0",
                "0.01",
                "5",
                "6",
                "\"75 kbit/s\"",
                "true",
                "\"adapter\""
            ]
        );
    }

    #[test]
    fn what_is_no_axis_says_why() {
        for (text, reason) in [
            ("loss", "KEY=VALUES"),
            ("=1", "needs a key"),
            ("a..b=1", "needs a key"),
            ("a=", "empty value"),
            ("a=1..2", "FROM..TO/STEP"),
            ("a=1..2/0", "no steps"),
            ("a=1..2/-1", "no steps"),
            ("a=0..1/0.00001", "more than"),
            ("a=1 ms..2 s/1", "two units"),
            ("a+=1", "needs a key"),
        ] {
            let message = Axis::parse(text).unwrap_err().to_string();
            assert!(message.contains(reason), "{text}: {message}");
        }
    }

    #[test]
    fn points_are_every_pair_the_last_axis_first() {
        let axes = ["a=1,2", "b=x,y"].map(|text| Axis::parse(text).unwrap());
        let told: Vec<String> = points(&axes)
            .unwrap()
            .iter()
            .map(|point| point.iter().map(|it| it.1.to_string()).collect())
            .collect();
        assert_eq!(told, ["1\"x\"", "1\"y\"", "2\"x\"", "2\"y\""]);
        assert_eq!(points(&[]).unwrap(), [Vec::new()]);
        let many = ["a=1..1000/1", "b=1..1000/1"].map(|text| Axis::parse(text).unwrap());
        assert!(points(&many).is_err());
    }

    const SCENARIO: &str = r#"
        name = "two"
        duration = "5 s"
        [[host]]
        name = "ha"
        addresses = ["10.0.0.1/24"]
        [[host]]
        name = "hb"
        addresses = ["10.0.0.2/24"]
        [[link]]
        name = "line"
        between = ["ha", "hb"]
        [link.channel]
        kind = "frames"
        rate = "300 kbit/s"
        [[traffic]]
        name = "ping"
        kind = "ping"
        from = "ha"
        to = "hb"
        family = 4
        [[axis]]
        key = "link.*.loss"
        values = "0..20/10 %"
    "#;

    fn loaded() -> Loaded {
        Scenario::load_text(&NoFiles, std::path::Path::new("two.toml"), SCENARIO).unwrap()
    }

    fn at(key: &str, value: impl Into<Value>) -> Result<Loaded, ConfigError> {
        loaded().at(&vec![(key.to_owned(), value.into())])
    }

    #[test]
    fn a_point_changes_what_its_keys_name() {
        let lossy = at("link.line.loss", 0.25).unwrap();
        assert_ne!(lossy.links[0].channel.loss, loaded().links[0].channel.loss);
        assert_eq!(at("link.*.loss", "25 %").unwrap().links, lossy.links);
        assert_eq!(
            at("link.line.channel.loss", 0.25).unwrap().links,
            lossy.links
        );
        let slow = at("traffic.ping.period", "3 s").unwrap();
        assert_ne!(slow.scenario.traffic, loaded().scenario.traffic);
        assert_eq!(
            at("duration", "7 s")
                .unwrap()
                .scenario
                .duration
                .0
                .as_millis(),
            7000
        );
        // Nothing else did.
        let mut same = lossy;
        same.links = loaded().links;
        let mut own = loaded();
        own.scenario.axes.clear();
        assert_eq!(same.scenario.traffic, own.scenario.traffic);
    }

    #[test]
    fn joined_keys_change_together() {
        let both = at("link.line.loss + traffic.ping.loss", 0.25);
        assert!(both.unwrap_err().to_string().contains("traffic.ping.loss"));
        let both = at("duration+traffic.ping.period", "3 s").unwrap();
        assert_eq!(both.scenario.duration.0.as_millis(), 3000);
        let one = at("traffic.ping.period", "3 s").unwrap();
        assert_eq!(both.scenario.traffic, one.scenario.traffic);
        let config = |values: Vec<&str>| AxisConfig {
            key: "duration + traffic.ping.period".into(),
            values: Value::Array(vec![Value::from(values)]),
        };
        let each = Axis::from_config(&config(vec!["9 s", "3 s"])).unwrap();
        let each = loaded().at(&points(&[each]).unwrap()[0]).unwrap();
        assert_eq!(each.scenario.duration.0.as_millis(), 9000);
        assert_eq!(each.scenario.traffic, one.scenario.traffic);
        let odd = Axis::from_config(&config(vec!["9 s"])).unwrap_err();
        assert!(odd.message.contains("each of its 2 keys"), "{odd}");
    }

    #[test]
    fn numbers_are_told_from_their_units() {
        for (value, expected) in [
            (Value::from("75 kbit/s"), Some((75.0, "kbit/s"))),
            (Value::from("1e3"), Some((1000.0, ""))),
            (Value::from(9600), Some((9600.0, ""))),
            (Value::from("adapter"), None),
            (Value::from(true), None),
        ] {
            assert_eq!(number_of(&value), expected, "{value}");
        }
    }

    #[test]
    fn keys_that_lead_nowhere_say_so() {
        for (key, value, reason) in [
            ("link.lime.loss", Value::Float(0.1), "did you mean `line`?"),
            ("link.line.los", Value::Float(0.1), "loss"),
            ("link.line.loss", Value::Float(1.5), "loss"),
            ("duration.x", Value::Integer(1), "no keys of its own"),
            ("host.ha.addresses.x.y", Value::Integer(1), "list of values"),
            ("link.line", Value::Integer(1), ""),
        ] {
            let error = at(key, value).unwrap_err().to_string();
            assert!(error.contains(reason), "{key}: {error}");
            assert!(error.contains("two.toml with"), "{error}");
        }
    }

    #[test]
    fn a_scenario_brings_axes_along() {
        let axis = Axis::from_config(&loaded().scenario.axes[0]).unwrap();
        let texts: Vec<&str> = axis.values.iter().filter_map(Value::as_str).collect();
        assert_eq!(texts, ["0 %", "10 %", "20 %"]);
        let other = SCENARIO.replace("link.*.loss", "link.*.lozz");
        let path = std::path::Path::new("two.toml");
        let error = Scenario::load_text(&NoFiles, path, &other).unwrap_err();
        assert!(error.to_string().contains("lozz"), "{error}");
    }
}
