//! Times to die, by the calendar (Annex A.3.1.1).
//!
//! A client's data may say until when it is of use: a day, by the last four bits of its number in
//! the year, which begins with 1, and the time of that day in units of two seconds (UTC). Both ends
//! need a clock that is right.

/// When data is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeToDie {
    /// The last four bits of the day of the year.
    day: u8,
    /// Units of that day.
    units: u16,
}

/// A unit, in nanoseconds.
const UNIT_NS: u64 = 2_000_000_000;

/// Units of a day.
const DAY: u16 = 43_200;

/// A day, in nanoseconds.
const DAY_NS: u64 = DAY as u64 * UNIT_NS;

/// No data lives longer than so many days.
const DAYS_MAX: u64 = 15;

/// The number of a day in its year, 1 to 366, from its number since 1970-01-01.
const fn day_of_year(days: u64) -> u64 {
    // Years that begin in March end with the day that only some of them have. The first day of
    // such a year 0 was 719,468 days before 1970; 400 years have 146,097.
    let day = (days + 719_468) % 146_097;
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let leap = year.is_multiple_of(4) && (year == 0 || !year.is_multiple_of(100));
    // The last 59 or 60 days of the year before it are January and February; March is behind 306.
    match day.checked_sub(306) {
        Some(day) => day + 1,
        None => day + 60 + leap as u64,
    }
}

/// The code of a day, given by its number since 1970-01-01.
const fn code(days: u64) -> u8 {
    (day_of_year(days) % 16) as u8
}

impl TimeToDie {
    /// The first that isn't before a moment, given in nanoseconds since 1970.
    #[must_use]
    pub const fn at(unix_ns: u64) -> Self {
        let units = unix_ns.div_ceil(UNIT_NS);
        Self {
            day: code(units / DAY as u64),
            units: (units % DAY as u64) as u16,
        }
    }

    /// The same, if a reader from `now` on can't confuse it with another day: 1 January doesn't
    /// continue the count of the year before it, and some days within 15 of each other look alike.
    #[must_use]
    pub fn readable_at(unix_ns: u64, now_ns: u64) -> Option<Self> {
        let dies = Self::at(unix_ns);
        let meant = unix_ns.div_ceil(UNIT_NS) * UNIT_NS;
        (dies.moment(now_ns) == Some(meant)).then_some(dies)
    }

    /// As an S_PDU has it: the last four bits of the day, and the units of that day. `None` for
    /// units that no day has.
    #[must_use]
    pub const fn from_fields(day: u8, units: u16) -> Option<Self> {
        if units >= DAY {
            return None;
        }
        let day = day & 15;
        Some(Self { day, units })
    }

    /// The last four bits of the day, and the units of that day.
    #[must_use]
    pub const fn fields(self) -> (u8, u16) {
        (self.day, self.units)
    }

    /// The moment that is meant, in nanoseconds since 1970: the first of less than a day ago or
    /// within the next 15 days. `None` around New Year, if none of these days has that number.
    #[must_use]
    pub fn moment(self, now_ns: u64) -> Option<u64> {
        let today = now_ns / DAY_NS;
        let days = today.saturating_sub(1)..=today + DAYS_MAX;
        let same = days.filter(|day| code(*day) == self.day);
        let mut moments = same.map(|day| day * DAY_NS + u64::from(self.units) * UNIT_NS);
        moments.find(|moment| moment + DAY_NS > now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;
    const DAY_S: u64 = 86_400;

    /// Days since 1970 of 1 January, by counting.
    fn new_year(year: u64) -> u64 {
        let since = |year: u64| year / 4 - year / 100 + year / 400;
        (year - 1970) * 365 + since(year - 1) - since(1969)
    }

    fn is_over(dies: TimeToDie, now_ns: u64) -> bool {
        dies.moment(now_ns).is_some_and(|moment| moment <= now_ns)
    }

    /// Annex A.3.1.1, the clause of the time to die and its footnote: days are counted from 001 on
    /// 1 January to 365, or 366 in leap years.
    #[test]
    fn a_time_to_die_is_a_day_of_the_year_and_two_second_units_of_utc() {
        assert_eq!(TimeToDie::at(0).fields(), (1, 0));
        // Rounded up: nothing dies before its time.
        assert_eq!(TimeToDie::at(1).fields(), (1, 1));
        assert_eq!(TimeToDie::at(2 * SECOND).fields(), (1, 1));
        assert_eq!(TimeToDie::at(2 * SECOND + 1).fields(), (1, 2));
        // 2026-11-21 12:34:56 UTC: the 325th day.
        let noon = 1_795_264_496 * SECOND;
        assert_eq!(TimeToDie::at(noon).fields(), (5, 22_648));
    }

    /// Annex A.3.1.1, footnote 3.
    #[test]
    fn every_year_begins_with_day_1_and_ends_with_365_or_366() {
        for year in 1971..2500 {
            let days = new_year(year + 1) - new_year(year);
            for day in [0, 30, 31, 58, 59, 60, 180, days - 1] {
                assert_eq!(day_of_year(new_year(year) + day), day + 1, "{year}");
            }
        }
        assert_eq!(new_year(2026), 20_454);
        assert_eq!(day_of_year(new_year(2029) - 1), 366);
        assert_eq!(day_of_year(new_year(2027) - 1), 365);
    }

    /// Annex A.3.1.1, footnote 3: from 31 December to 1 January, after common and leap years, and
    /// with clocks that are some seconds apart.
    #[test]
    fn data_lives_across_new_year() {
        for (year, last) in [(2027, 13), (2029, 14)] {
            let midnight = new_year(year) * DAY_S * SECOND;
            let before = TimeToDie::at(midnight - 10 * SECOND);
            let after = TimeToDie::at(midnight + 10 * SECOND);
            assert_eq!((before.fields().0, after.fields()), (last, (1, 5)));
            for ahead in 0..8 {
                let now = midnight - 5 * SECOND + ahead * SECOND;
                assert!(is_over(before, now) && !is_over(after, now));
            }
            assert!(!is_over(before, midnight - 11 * SECOND));
            assert!(is_over(after, midnight + 10 * SECOND));
            assert!(is_over(before, midnight + DAY_NS - 11 * SECOND));
        }
    }

    /// Annex A.3.1.1: what another day looks like isn't said, and a day that isn't near isn't
    /// heeded.
    #[test]
    fn days_around_new_year_that_look_alike_are_not_taken_for_each_other() {
        let new_year = new_year(2027) * DAY_NS;
        // 19 December is day 353, as 1 January 1 modulo 16.
        let now = new_year - 13 * DAY_NS + DAY_NS / 2;
        assert_eq!(TimeToDie::at(now).fields().0, TimeToDie::at(new_year).day);
        assert_eq!(TimeToDie::readable_at(new_year, now), None);
        assert!(TimeToDie::readable_at(new_year - DAY_NS, now).is_some());
        // From 20 December on, day 14 is neither among those past nor those to come.
        let odd = TimeToDie::from_fields(14, 0).expect("a time");
        assert_eq!(odd.moment(now + 2 * DAY_NS), None);
    }

    #[test]
    fn it_has_come_at_its_second_and_not_one_nanosecond_before() {
        let at = 1_000_000 * SECOND;
        let dies = TimeToDie::at(at);
        assert!(!is_over(dies, at - 1));
        assert!(is_over(dies, at));
    }

    #[test]
    fn midnight_is_like_any_other_time() {
        for days in 0..400 {
            let midnight = (20_000 + days) * DAY_NS;
            let last = TimeToDie::at(midnight - 2 * SECOND);
            assert_eq!(last.fields().1, 43_199);
            let next = TimeToDie::at(midnight - SECOND);
            assert_eq!(next.fields().1, 0);
            assert!(is_over(last, midnight - SECOND) && !is_over(next, midnight - SECOND));
            assert!(is_over(next, midnight));
            // From before midnight to after it.
            let ten = TimeToDie::at(midnight + 4 * SECOND);
            assert!(!is_over(ten, midnight - 6 * SECOND));
        }
    }

    #[test]
    fn fifteen_days_are_ahead_and_all_but_a_day_is_past() {
        // In summer.
        let now = 20_600 * DAY_NS;
        assert!(!is_over(TimeToDie::at(now + 15 * DAY_NS), now));
        assert!(is_over(TimeToDie::at(now - DAY_NS + 2 * SECOND), now));
    }

    #[test]
    fn units_that_no_day_has_are_no_time() {
        assert_eq!(TimeToDie::from_fields(3, 43_200), None);
        let last = TimeToDie::from_fields(3, 43_199).expect("a time");
        assert_eq!(last.fields(), (3, 43_199));
    }

    proptest! {
        #[test]
        fn data_is_good_for_as_long_as_it_lives(
            now in 0u64..1 << 62,
            lives_s in 1u64..=15 * DAY_S,
            later in 0.0..1.0,
            late_ns in 0u64..DAY_S * SECOND - 2 * SECOND,
        ) {
            let end = now + lives_s * SECOND;
            if let Some(dies) = TimeToDie::readable_at(end, now) {
                let (day, units) = dies.fields();
                let dies = TimeToDie::from_fields(day, units).expect("a time");
                prop_assert!(!is_over(dies, end - 1));
                prop_assert!(!is_over(dies, now + ((end - 1 - now) as f64 * later) as u64));
                // Rounded up to two seconds.
                prop_assert!(is_over(dies, end.next_multiple_of(UNIT_NS) + late_ns));
            }
        }

        /// Only around New Year a time can't be said.
        #[test]
        fn days_within_a_year_all_can_be_said(
            year in 1971u64..2500,
            day in 1u64..350,
            lives_s in 1u64..=15 * DAY_S,
        ) {
            let now = (new_year(year) + day) * DAY_NS;
            let end = now + lives_s * SECOND;
            prop_assert_eq!(
                TimeToDie::readable_at(end, now).is_some(),
                TimeToDie::at(end).moment(now) == Some(end.next_multiple_of(UNIT_NS))
            );
            if day + 16 < 365 {
                prop_assert!(TimeToDie::readable_at(end, now).is_some());
            }
        }
    }
}
