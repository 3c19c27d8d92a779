//! Calendar time as mail writes it (RFC 5322 section 3.3).

use alloc::format;
use alloc::string::String;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
/// 1970-01-01 was the first of these.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// Seconds since 1970-01-01 UTC as a date.
pub fn date(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let weekday = WEEKDAYS[(days % 7) as usize];
    let (year, month, day) = civil(days);
    let month = MONTHS[month];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} +0000")
}

/// Year, month from 0, and day of a number of days since 1970-01-01. Years are counted from March,
/// so that the day that isn't in each of them is the last.
fn civil(days: u64) -> (u64, usize, u64) {
    let days = days.saturating_add(719_468);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leaps = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = year_of_era + 400 * era + u64::from(month >= 10);
    (year, ((month + 2) % 12) as usize, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_s, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 +0000"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 +0000"),
            (1_196_121_599, "Mon, 26 Nov 2007 23:59:59 +0000"),
            (1_795_737_600, "Fri, 27 Nov 2026 00:00:00 +0000"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 +0000"),
        ] {
            assert_eq!(date(unix_s), text);
        }
        date(u64::MAX);
    }
}
