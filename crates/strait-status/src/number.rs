//! Numbers in few letters, and all of it in ASCII: consoles of serial lines show no more.

use alloc::format;
use alloc::string::String;

/// What isn't known.
pub const NONE: &str = "-";

/// Three figures: `0`, `7`, `7.5`, `960`, `9.60k`, `1.20M`.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let whole = size < 999.5 && (size >= 99.95 || size % 1.0 < 1e-9);
    match size {
        _ if !size.is_finite() => NONE.into(),
        _ if whole => format!("{value:.0}"),
        it if it < 99.95 => format!("{value:.1}"),
        it if it < 999_500.0 => three(value / 1e3, 'k'),
        it if it < 999.5e6 => three(value / 1e6, 'M'),
        it if it < 999.5e9 => three(value / 1e9, 'G'),
        _ => format!("{value:.1e}"),
    }
}

fn three(value: f64, unit: char) -> String {
    match value.abs() {
        it if it < 9.995 => format!("{value:.2}{unit}"),
        it if it < 99.95 => format!("{value:.1}{unit}"),
        _ => format!("{value:.0}{unit}"),
    }
}

/// `0s`, `56ms`, `5.6s`, `99s`, `12m05`, `3h20`, `5d`.
pub fn time(s: f64) -> String {
    let minutes = (s / 60.0) as u64;
    match s {
        it if !it.is_finite() => NONE.into(),
        it if it <= 0.0 => "0s".into(),
        it if it < 0.000_95 => "<1ms".into(),
        it if it < 0.9995 => format!("{:.0}ms", it * 1e3),
        it if it < 9.95 => format!("{it:.1}s"),
        it if it < 99.5 => format!("{it:.0}s"),
        it if it < 6_000.0 => format!("{minutes}m{:02}", it as u64 % 60),
        it if it < 360_000.0 => format!("{}h{:02}", minutes / 60, minutes % 60),
        it => format!("{:.0}d", it / 86_400.0),
    }
}

/// `0%`, `<.1%`, `2.5%`, `93%`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        it if !it.is_finite() => NONE.into(),
        it if it <= 0.0 => "0%".into(),
        it if it < 0.05 => "<.1%".into(),
        it if it < 9.95 => format!("{it:.1}%"),
        it => format!("{it:.0}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_figures_and_five_letters_at_most() {
        let numbers = [
            0.0, 7.0, 7.5, 99.96, 960.0, 999.7, 9600.0, 999_499.0, 1.2e6, 5e9,
        ];
        let texts = numbers.map(short);
        let expected = [
            "0", "7", "7.5", "100", "960", "1.00k", "9.60k", "999k", "1.20M", "5.00G",
        ];
        assert_eq!(texts, expected);
        let times = [0.0, 0.000_1, 0.056, 5.6, 98.0, 725.0, 12_000.0, 432_000.0].map(time);
        let expected = ["0s", "<1ms", "56ms", "5.6s", "98s", "12m05", "3h20", "5d"];
        assert_eq!(times, expected);
        let shares = [0.0, 0.0001, 0.025, 0.93, f64::NAN].map(percent);
        assert_eq!(shares, ["0%", "<.1%", "2.5%", "93%", "-"]);
        for size in -9..15 {
            let value = 9.9996 * 10f64.powi(size);
            assert!(short(value).len() <= 6, "{}", short(value));
            assert!(time(value).len() <= 6 || value > 1e9, "{}", time(value));
        }
    }
}
