//! Patterns in the text of a script.

use super::parse::{Line, PATTERNS, Parsed};
use super::pattern::{Pattern, Rate};
use super::script::MESSAGE_OCTETS_MAX;
use super::words::keyword;

impl Line<'_, '_> {
    /// The parameters of a pattern of this name, from the bracket on.
    pub(super) fn pattern(&mut self, name: &str, depth: usize) -> Parsed<Pattern> {
        if depth >= Pattern::DEPTH_MAX {
            let message = format!("more than {} bursts within bursts", Pattern::DEPTH_MAX);
            return Err(self.last.wrong(message));
        }
        self.open(name)?;
        let pattern = match name {
            "BURST" => self.burst(depth)?,
            "CLONE" => self.cloned()?,
            name => {
                let rate = self.rate()?;
                let octets = self.number("a size in octets", 28, MESSAGE_OCTETS_MAX)?;
                match name {
                    "PERIODIC" => Pattern::Periodic { rate, octets },
                    "POISSON" => Pattern::Poisson { rate, octets },
                    _ => {
                        let word = self.take("a part, 0 … 0.5")?;
                        let fraction: Option<f64> = word.text.parse().ok();
                        let fraction = fraction.filter(|part| (0.0..=0.5).contains(part));
                        let fraction = fraction.ok_or_else(|| {
                            word.wrong(format!("`{}` is not a part, 0 … 0.5", word.text))
                        })?;
                        Pattern::Jitter {
                            rate,
                            octets,
                            fraction,
                        }
                    }
                }
            }
        };
        self.close()?;
        Ok(pattern)
    }

    fn rate(&mut self) -> Parsed<Rate> {
        let word = self.take("messages a second")?;
        match word.text.parse::<f64>() {
            Ok(0.0) => Ok(Rate::None),
            Ok(-1.0) => Ok(Rate::Unlimited),
            Ok(rate) if rate > 1e-9 && rate <= Rate::MAX => Ok(Rate::PerSecond(rate)),
            _ => Err(word.wrong(format!(
                "`{}` is not a number of messages a second, up to 10 million (0 for none, -1 for as \
                 many as can be sent)",
                word.text
            ))),
        }
    }

    fn burst(&mut self, depth: usize) -> Parsed<Pattern> {
        let word = self.take("REGULAR or RANDOM")?;
        let random = match keyword(&word, &["REGULAR", "RANDOM"])? {
            Some(name) => name == "RANDOM",
            None => return Err(word.wrong(format!("`{}` isn't REGULAR or RANDOM", word.text))),
        };
        let interval_s = self.seconds("an interval in seconds")?.as_secs_f64();
        if interval_s < 1e-6 {
            return Err(self.last.wrong("the interval must be at least 0.000001 s"));
        }
        let word = self.take("a pattern")?;
        let Some(name) = keyword(&word, &PATTERNS)? else {
            let known = PATTERNS.join(", ");
            return Err(word.wrong(format!("`{}` is no pattern: one of {known}", word.text)));
        };
        let inner = Box::new(self.pattern(name, depth + 1)?);
        let word = self.take("FIXED or EXPONENTIAL")?;
        let exponential = match keyword(&word, &["FIXED", "EXPONENTIAL"])? {
            Some(name) => name == "EXPONENTIAL",
            None => return Err(word.wrong(format!("`{}` isn't FIXED or EXPONENTIAL", word.text))),
        };
        let duration_s = self.seconds("a duration in seconds")?.as_secs_f64();
        Ok(Pattern::Burst {
            random,
            interval_s,
            inner,
            exponential,
            duration_s,
        })
    }

    fn cloned(&mut self) -> Parsed<Pattern> {
        let word = self.take("tcpdump")?;
        // Another type of file isn't there, and MGEN takes the word in any case.
        if !word.is("tcpdump") {
            return Err(word.wrong(format!(
                "`{}` isn't `tcpdump`, the only kind of file",
                word.text
            )));
        }
        let file = String::from(self.take("the name of a capture")?.text);
        if file == "]" {
            return Err(self.last.wrong("the name of a capture is missing"));
        }
        let repeats = match self.peek() {
            Some(word) if word.text != "]" => {
                let word = self.take("a number of repetitions")?;
                match word.text.parse::<i64>() {
                    Ok(-1) => None,
                    Ok(count) if (0..=i64::from(u32::MAX)).contains(&count) => Some(count as u32),
                    _ => {
                        let message = format!(
                            "`{}` is no number of repetitions (-1 without end)",
                            word.text
                        );
                        return Err(word.wrong(message));
                    }
                }
            }
            _ => None,
        };
        Ok(Pattern::Clone { file, repeats })
    }
}
