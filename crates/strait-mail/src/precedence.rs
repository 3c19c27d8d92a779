//! The six precedences of STANAG 4406, and what they are in other words: values of MT-PRIORITY
//! (RFC 6710 appendix A), names of MMHS (RFC 6477), and what ordinary mail programs write.

use serde::{Deserialize, Serialize};
use strait_core::Duration;

/// How urgent a message is, the least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Precedence {
    /// May wait for hours.
    Deferred,
    /// Ordinary mail.
    #[default]
    Routine,
    /// Before ordinary mail.
    Priority,
    /// Within minutes.
    Immediate,
    /// As fast as possible.
    Flash,
    /// Before all others.
    Override,
}

impl Precedence {
    /// All of them, the least first.
    pub const ALL: [Self; 6] = [
        Self::Deferred,
        Self::Routine,
        Self::Priority,
        Self::Immediate,
        Self::Flash,
        Self::Override,
    ];

    /// As a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deferred => "deferred",
            Self::Routine => "routine",
            Self::Priority => "priority",
            Self::Immediate => "immediate",
            Self::Flash => "flash",
            Self::Override => "override",
        }
    }

    /// Its place, from 0.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// By its word.
    pub fn named(word: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|it| it.name().eq_ignore_ascii_case(word))
    }

    /// Its value of MT-PRIORITY.
    pub const fn wire(self) -> i8 {
        2 * self as i8 - 4
    }

    /// The precedence that a value of MT-PRIORITY counts as: the next higher one that there is
    /// (RFC 6710 section 4.1). What is relayed is the value itself.
    pub const fn of_wire(value: i8) -> Self {
        match value {
            ..=-4 => Self::Deferred,
            -3..=-2 => Self::Routine,
            -1..=0 => Self::Priority,
            1..=2 => Self::Immediate,
            3..=4 => Self::Flash,
            5.. => Self::Override,
        }
    }

    /// How long the first wait is behind a refusal that isn't final, and the longest.
    pub const fn retries(self) -> (Duration, Duration) {
        let (first_s, most_s) = match self {
            Self::Override | Self::Flash => (15, 60),
            Self::Immediate => (30, 300),
            Self::Priority => (60, 900),
            Self::Routine => (300, 3600),
            Self::Deferred => (1800, 14_400),
        };
        (Duration::from_secs(first_s), Duration::from_secs(most_s))
    }

    /// How long a message is tried: whoever sent something urgent is to hear soon that it failed.
    pub const fn expiry(self) -> Duration {
        Duration::from_secs(match self {
            Self::Override | Self::Flash => 4 * 3600,
            Self::Immediate => 12 * 3600,
            Self::Priority | Self::Routine | Self::Deferred => 5 * 86_400,
        })
    }
}

/// A value of MT-PRIORITY (`priority-value` of RFC 6710 section 7).
pub fn parse_wire(text: &[u8]) -> Option<i8> {
    match text {
        b"0" => Some(0),
        [digit @ b'1'..=b'9'] => Some((digit - b'0') as i8),
        [b'-', digit @ b'1'..=b'9'] => Some(-((digit - b'0') as i8)),
        _ => None,
    }
}

/// A precedence by the letter that radio operators send for it.
pub const fn parse_prosign(letter: u8) -> Option<Precedence> {
    Some(match letter.to_ascii_uppercase() {
        b'R' => Precedence::Routine,
        b'P' => Precedence::Priority,
        b'O' => Precedence::Immediate,
        b'Z' => Precedence::Flash,
        _ => return None,
    })
}

/// A precedence of MMHS (RFC 6477 section 4): a name, or a number. Numbers beyond the six belong
/// to nations and count as the highest.
pub fn parse_mmhs(text: &str) -> Option<Precedence> {
    if text.is_empty() || text.bytes().any(|it| !it.is_ascii_digit()) {
        return Precedence::named(text);
    }
    let number = text.parse::<usize>().unwrap_or(usize::MAX);
    let known = Precedence::ALL.get(number).copied();
    Some(known.unwrap_or(Precedence::Override))
}

/// What mail programs write: `Priority` of RFC 2156, or `X-Priority`. Nothing of it is for those
/// who mean it (Override), so the most that it can say is Flash, as MIXER has it.
pub fn parse_common(text: &str) -> Option<Precedence> {
    let word = text.split_ascii_whitespace().next()?;
    let is = |words: &[&str]| words.iter().any(|it| it.eq_ignore_ascii_case(word));
    if is(&["urgent"]) {
        Some(Precedence::Flash)
    } else if is(&["1"]) {
        Some(Precedence::Immediate)
    } else if is(&["2", "normal"]) {
        Some(Precedence::Priority)
    } else if is(&["3"]) {
        Some(Precedence::Routine)
    } else if is(&["4", "5", "non-urgent"]) {
        Some(Precedence::Deferred)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_up_to_the_next_precedence() {
        let names = |range: core::ops::RangeInclusive<i8>| range.map(Precedence::of_wire);
        assert!(names(-9..=-4).all(|it| it == Precedence::Deferred));
        assert!(names(-3..=-2).all(|it| it == Precedence::Routine));
        assert!(names(-1..=0).all(|it| it == Precedence::Priority));
        assert!(names(1..=2).all(|it| it == Precedence::Immediate));
        assert!(names(3..=4).all(|it| it == Precedence::Flash));
        assert!(names(5..=9).all(|it| it == Precedence::Override));
        for precedence in Precedence::ALL {
            assert_eq!(Precedence::of_wire(precedence.wire()), precedence);
            assert_eq!(Precedence::named(precedence.name()), Some(precedence));
        }
    }

    #[test]
    fn a_value_is_one_digit_with_no_plus_and_no_minus_zero() {
        for value in -9..=9_i8 {
            let text = alloc::format!("{value}");
            assert_eq!(parse_wire(text.as_bytes()), Some(value));
        }
        for wrong in ["", "-", "-0", "+3", "03", "10", "-10", " 3", "3 ", "x"] {
            assert_eq!(parse_wire(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn mmhs_has_names_and_numbers() {
        assert_eq!(parse_mmhs("Flash"), Some(Precedence::Flash));
        assert_eq!(parse_mmhs("3"), Some(Precedence::Immediate));
        assert_eq!(parse_mmhs("31"), Some(Precedence::Override));
        assert_eq!(
            parse_mmhs("99999999999999999999"),
            Some(Precedence::Override)
        );
        for wrong in ["", "-1", "urgent", "4a"] {
            assert_eq!(parse_mmhs(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ordinary_words_never_mean_override() {
        assert_eq!(parse_common("urgent"), Some(Precedence::Flash));
        assert_eq!(parse_common("1 (Highest)"), Some(Precedence::Immediate));
        assert_eq!(parse_common("Non-Urgent"), Some(Precedence::Deferred));
        assert_eq!(parse_common("6"), None);
        assert_eq!(parse_common(""), None);
    }
}
