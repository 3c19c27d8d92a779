//! How large the numbers of a study's file may be: guards against slips, which would take all
//! memory, or the rest of a life.

use serde::de::DeserializeOwned;
use strait_core::units::{Octets, Time};
use strait_core::{Duration, time::nanos};
use strait_node::config_text::{self, ConfigError};
use strait_scenario::Scenario;
use toml::{Table, Value};

/// The longest time: a year.
const TIME_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// The longest file.
pub(super) const OCTETS_MAX: u64 = 1_000_000_000;
/// Seeds begin at the latest here.
const SEED_MAX: u64 = u32::MAX as u64;
/// Labs that run at the same time.
const TOGETHER_MAX: u64 = 100;
/// Links in a row: a packet's hop limit is 64.
const LINKS_MAX: u64 = 60;
/// Stations in `scenarios/hf/net.toml`.
const STATIONS_MAX: u64 = 5;

/// What isn't the study's own: its keys have their own limits.
const OTHERS: [&str; 6] = ["link", "port", "policy", "shape", "police", "node"];
const OCTETS: [&str; 5] = ["octets", "octets_full", "buffer", "tcp_octets", "bulk"];
const TIMES: [&str; 23] = [
    "delay",
    "time",
    "time_max",
    "wait",
    "start",
    "limit",
    "limit_full",
    "warm_up",
    "window",
    "window_full",
    "call_start",
    "data_start",
    "stop",
    "duration",
    "ping_period",
    "slope_period",
    "period",
    "valid",
    "gap",
    "timeouts",
    "times",
    "mean",
    "half_interval",
];

/// Numbers of what is counted, each with the least and the most that it may be.
const fn counted(key: &str) -> Option<[u64; 2]> {
    Some(match key.as_bytes() {
        b"seeds" | b"seeds_full" | b"worlds" | b"packets" | b"runs" | b"runs_full"
        | b"slope_count" => [1, Scenario::RUNS_MAX],
        b"cases" | b"cases_full" => [0, Scenario::RUNS_MAX],
        b"seed" => [0, SEED_MAX],
        b"weight" => [0, Scenario::RUNS_MAX],
        b"together" => [1, TOGETHER_MAX],
        b"links" => [1, LINKS_MAX],
        b"stations" => [2, STATIONS_MAX],
        _ => return None,
    })
}

/// Reads a study's file, none of whose numbers is larger than what can be run.
///
/// # Errors
/// What is wrong with it, with its place.
pub(super) fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, ConfigError> {
    let study = config_text::parse(file, text)?;
    let table: Table = config_text::parse(file, text)?;
    match of_table("", &table) {
        Ok(()) => Ok(study),
        Err((path, message)) => Err(config_text::error_at(file, text, &path, &message)),
    }
}

type Odd = Result<(), (String, String)>;

fn of_table(path: &str, table: &Table) -> Odd {
    let own = table.iter();
    let mut own = own.filter(|(key, _)| !OTHERS.contains(&key.as_str()));
    own.try_for_each(|(key, value)| of_value(&format!("{path}{key}"), key, value))
}

fn of_value(path: &str, key: &str, value: &Value) -> Odd {
    let wrong = |least: String, most: String| {
        let message = format!("has to be between {least} and {most}, and is {value}");
        Err((path.to_owned(), message))
    };
    match value {
        Value::Table(table) => of_table(&format!("{path}."), table),
        Value::Array(values) => {
            let mut values = values.iter().enumerate();
            values.try_for_each(|(place, it)| of_value(&format!("{path}.{place}"), key, it))
        }
        Value::Integer(number) => match counted(key) {
            Some([least, most])
                if u64::try_from(*number).is_ok_and(|it| it < least || it > most) =>
            {
                wrong(least.to_string(), most.to_string())
            }
            None if OCTETS.contains(&key) && *number > OCTETS_MAX as i64 => {
                wrong("0 B".into(), Octets(OCTETS_MAX).to_string())
            }
            _ => Ok(()),
        },
        Value::String(text) if OCTETS.contains(&key) => match text.parse() {
            Ok(Octets(octets)) if octets > OCTETS_MAX => {
                wrong("0 B".into(), Octets(OCTETS_MAX).to_string())
            }
            _ => Ok(()),
        },
        Value::String(text) if TIMES.contains(&key) => match text.parse() {
            Ok(Time(time)) if time > TIME_MAX => wrong(
                "0 s".into(),
                format!("{} h", nanos(TIME_MAX) / 3_600_000_000_000),
            ),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_within_its_limit_wherever_it_stands() {
        let odd = |text: &str| {
            parse::<Table>("x.toml", text)
                .map(drop)
                .map_err(|it| it.to_string())
        };
        for good in [
            "seeds = 100000",
            "links = 60",
            "octets = \"1000 MB\"",
            "limit = \"8784 h\"",
            "[swarm]\ncases = 0",
            "[link]\nlimit = \"9000 h\"",
        ] {
            assert_eq!(odd(good), Ok(()), "{good}");
        }
        for (bad, place) in [
            ("seeds = 0", "x.toml:1"),
            ("\nseeds = 100001", "x.toml:2"),
            (
                "[[cell]]\nname = \"one\"\nruns_full = 99999999999",
                "x.toml:3",
            ),
            ("links = 61", "x.toml:1"),
            ("octets = 1000000001", "x.toml:1"),
            ("[[ip]]\noctets = \"1001 MB\"", "x.toml:2"),
            ("limit = \"8785 h\"", "x.toml:1"),
            ("timeouts = [\"1 s\", \"9000 h\"]", "x.toml:1"),
            ("[nets]\nstations = [2, 6]", "x.toml:2"),
        ] {
            let message = odd(bad).unwrap_err();
            assert!(message.starts_with(place), "{bad}: {message}");
            assert!(message.contains("has to be between"), "{bad}: {message}");
        }
    }
}
