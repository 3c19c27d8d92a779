//! Stations' ways from a file: where each is at some moments, or the movements that generators of
//! mobile networks write for ns-2 (`setdest`, BonnMotion, SUMO).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use strait_core::units::Time;

use super::config::{CellConfig, Move};

/// What is wrong in a file of ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    /// The line, from 1 on.
    pub line: u32,
    /// What it should be.
    pub message: String,
}

/// Legs of all stations in a file.
const LEGS_MAX: usize = 20_000;
/// Seconds and metres of a leg, at most.
const RANGE: f64 = 1e9;

/// What a line says of a station: at a time, in s, it is there or sets out for there.
enum Said {
    /// At the time it is there.
    Is([f64; 2]),
    /// It begins there.
    Begins { axis: usize, at: f64 },
    /// It sets out, at a speed in m/s.
    Goes([f64; 2], f64),
}

impl CellConfig {
    /// Takes the content of its `path_file`.
    ///
    /// # Errors
    /// The first line that says nothing of a station, or not in order of time.
    pub fn read_paths(&mut self, text: &str) -> Result<(), PathError> {
        let mut moves: Vec<Move> = Vec::new();
        // By station, when it was seen last; before its first line it is where that says.
        let mut last: Vec<Option<f64>> = alloc::vec![None; self.places.len()];
        for (number, line) in (1..).zip(text.lines()) {
            let wrong = |message: &str| PathError {
                line: number,
                message: message.to_string(),
            };
            let line = line.split('#').next().unwrap_or_default().trim();
            // Cells are flat, and distances are what they are.
            if line.is_empty() || line.contains(" set Z_ ") || line.starts_with("$god_") {
                continue;
            }
            let (at, station, said) = said(line).ok_or_else(|| wrong(FORMS))?;
            let Some(before) = last.get_mut(station) else {
                let message = format!("`places` has {} stations, 0 first", self.places.len());
                return Err(wrong(&message));
            };
            if before.is_some_and(|before| before > at) {
                return Err(wrong("it is before the station's line above it"));
            }
            if moves.len() >= LEGS_MAX {
                return Err(wrong("there may be 20000 lines"));
            }
            match said {
                Said::Begins { axis, at } => self.places[station][axis] = at,
                Said::Is(place) => match before.replace(at) {
                    None => self.places[station] = place,
                    Some(before) if before < at => moves.push(leg(station, [before, at], place)),
                    Some(_) => return Err(wrong("the station has a line of this time already")),
                },
                Said::Goes(to, speed) => {
                    *before = Some(at);
                    let from = self.stop(&mut moves, station, at);
                    let metres = libm::hypot(to[0] - from[0], to[1] - from[1]);
                    if metres > 0.0 && speed > 0.0 {
                        moves.push(leg(station, [at, at + metres / speed], to));
                    }
                }
            }
        }
        // Ends and beginnings are nanoseconds; a leg that is none was no way.
        moves.retain(|it| it.until.0 > it.from.0);
        self.moves.extend(moves);
        self.path_file = None;
        Ok(())
    }

    /// Ends a station's last leg where it is at a time, and says where that is.
    fn stop(&self, moves: &mut [Move], station: usize, at: f64) -> [f64; 2] {
        let mut own = moves.iter_mut().filter(|it| it.station == station);
        let Some(leg) = own.next_back() else {
            return self.places[station];
        };
        let before = own.next_back().map(|it| it.to);
        let began = before.unwrap_or(self.places[station]);
        let [from, until] = [leg.from, leg.until].map(|time| time.0.as_secs_f64());
        if at < until {
            let share = (at - from) / (until - from);
            leg.to = [0, 1].map(|axis| began[axis] + (leg.to[axis] - began[axis]) * share);
            leg.until = time(at);
        }
        leg.to
    }
}

const FORMS: &str = "write `SECONDS,STATION,X,Y`, or as for ns-2: \
                     `$ns_ at SECONDS \"$node_(STATION) setdest X Y SPEED\"`";

fn time(seconds: f64) -> Time {
    Time(Duration::from_secs_f64(seconds))
}

fn leg(station: usize, [from, until]: [f64; 2], to: [f64; 2]) -> Move {
    Move {
        station,
        from: time(from),
        until: time(until.min(RANGE)),
        to,
    }
}

/// What a line says, of which station, and when.
fn said(line: &str) -> Option<(f64, usize, Said)> {
    let apart = |c: char| c == ',' || c == '"' || c.is_whitespace();
    let words: Vec<&str> = line.split(apart).filter(|word| !word.is_empty()).collect();
    let number = |word: &str| -> Option<f64> {
        let number: f64 = word.parse().ok()?;
        (number.abs() <= RANGE).then_some(number)
    };
    let time = |word| number(word).filter(|time| *time >= 0.0);
    let node = |word: &str| {
        let number = word.strip_prefix("$node_(")?.strip_suffix(')')?;
        number.parse().ok()
    };
    Some(match *words.as_slice() {
        [at, station, x, y] if !line.starts_with('$') => {
            let place = [number(x)?, number(y)?];
            (time(at)?, station.parse().ok()?, Said::Is(place))
        }
        [station, "set", axis @ ("X_" | "Y_"), at] => {
            let (axis, at) = (usize::from(axis == "Y_"), number(at)?);
            (0.0, node(station)?, Said::Begins { axis, at })
        }
        ["$ns_", "at", at, station, "setdest", x, y, speed] => {
            let speed = number(speed).filter(|speed| *speed >= 0.0)?;
            (
                time(at)?,
                node(station)?,
                Said::Goes([number(x)?, number(y)?], speed),
            )
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> CellConfig {
        CellConfig {
            places: alloc::vec![[0.0, 0.0], [100.0, 0.0]],
            path_file: Some("walk.csv".into()),
            ..CellConfig::default()
        }
    }

    fn read(text: &str) -> Result<CellConfig, PathError> {
        let mut cell = cell();
        cell.read_paths(text).map(|()| cell)
    }

    fn wrong(text: &str) -> (u32, String) {
        let error = read(text).unwrap_err();
        (error.line, error.message)
    }

    #[test]
    fn a_station_is_where_its_lines_say_and_goes_straight_between_them() {
        let text = "# s, station, m, m\n5,1,10,20\n\n7, 1, 30, 20\n7.5,0,1,2 # it stays\n";
        let cell = read(text).unwrap();
        assert_eq!(cell.places, [[1.0, 2.0], [10.0, 20.0]]);
        assert_eq!(cell.moves, [leg(1, [5.0, 7.0], [30.0, 20.0])]);
        assert_eq!(cell.path_file, None);
    }

    #[test]
    fn movements_of_ns_2_end_where_the_next_begins() {
        let text = "$node_(1) set X_ 10.0\n$node_(1) set Y_ 0.0\n$node_(1) set Z_ 0.0\n\
                    $god_ set-dist 0 1 1\n\
                    $ns_ at 2.0 \"$node_(1) setdest 30.0 0.0 5.0\"\n\
                    $ns_ at 4.0 \"$node_(1) setdest 20.0 40.0 10.0\"\n\
                    $ns_ at 9.0 \"$node_(1) setdest 20.0 40.0 0.0\"\n";
        let cell = read(text).unwrap();
        assert_eq!(cell.places[1], [10.0, 0.0]);
        let legs = [
            leg(1, [2.0, 4.0], [20.0, 0.0]),
            leg(1, [4.0, 8.0], [20.0, 40.0]),
        ];
        assert_eq!(cell.moves, legs);
        assert!(cell.validate().is_ok());
    }

    #[test]
    fn what_a_line_does_not_say_is_an_error_of_that_line() {
        for text in [
            "x",
            "1,2,3",
            "-1,0,1,1",
            "nan,0,1,1",
            "1,0,1,inf",
            "1,0,1,1,1",
        ] {
            assert_eq!(wrong(&format!("0,0,0,0\n{text}\n")), (2, FORMS.into()));
        }
        for end in ["setdest 1 1 -1\"", "setdest 1 1\"", "walk 1 1 1\""] {
            let text = format!("$ns_ at 1.0 \"$node_(0) {end}");
            assert_eq!(wrong(&text), (1, FORMS.into()));
        }
        let few = "`places` has 2 stations, 0 first";
        assert_eq!(wrong("0,2,1,1"), (1, few.into()));
        let before = "it is before the station's line above it";
        assert_eq!(wrong("3,0,1,1\n2,1,1,1\n2,0,1,1"), (3, before.into()));
        let twice = "the station has a line of this time already";
        assert_eq!(wrong("3,0,1,1\n3,0,1,1"), (2, twice.into()));
    }
}
