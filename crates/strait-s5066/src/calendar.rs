//! Times to die, by the calendar (Annex A).
//!
//! A client's data may say until when it is of use: a day, by the last four bits of its Julian day
//! number, and the time of that day in units of two seconds (UTC). Both ends need a clock that is
//! right.

/// When data is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeToDie {
    /// Units since a midnight that all agree on, of [`CYCLE`].
    units: u32,
}

/// A unit, in nanoseconds.
const UNIT_NS: u64 = 2_000_000_000;

/// Units of a day.
const DAY: u32 = 43_200;

/// After so many units the same times come again.
const CYCLE: u32 = 16 * DAY;

/// The Julian day number of 1970-01-01, its last four bits.
const JULIAN_1970: u32 = 2_440_588 % 16;

/// Units since midnight of a day whose number ends with four zeros, and nanoseconds beyond them.
const fn units(unix_ns: u64) -> (u32, u64) {
    let all = unix_ns / UNIT_NS + (JULIAN_1970 * DAY) as u64;
    ((all % CYCLE as u64) as u32, unix_ns % UNIT_NS)
}

impl TimeToDie {
    /// The first that isn't before a moment, given in nanoseconds since 1970.
    #[must_use]
    pub const fn at(unix_ns: u64) -> Self {
        let (units, beyond) = units(unix_ns);
        Self {
            units: (units + (beyond > 0) as u32) % CYCLE,
        }
    }

    /// As an S_PDU has it: the last four bits of the day, and the units of that day. `None` for
    /// units that no day has.
    #[must_use]
    pub const fn from_fields(day: u8, units: u16) -> Option<Self> {
        if units as u32 >= DAY {
            return None;
        }
        Some(Self {
            units: (day & 15) as u32 * DAY + units as u32,
        })
    }

    /// The last four bits of the day, and the units of that day.
    #[must_use]
    pub const fn fields(self) -> (u8, u16) {
        ((self.units / DAY) as u8, (self.units % DAY) as u16)
    }

    /// Whether it has come, less than a day ago. No data lives longer than 15 days, so what seems
    /// to die later than that has died.
    #[must_use]
    pub const fn is_over(self, unix_ns: u64) -> bool {
        let (now, _) = units(unix_ns);
        (now + CYCLE - self.units) % CYCLE < DAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;
    const DAY_S: u64 = 86_400;

    #[test]
    fn a_time_to_die_is_a_julian_day_and_two_second_units_of_utc() {
        // The Julian day that began at noon of 1970-01-01 is 2440588, which ends with 1100.
        assert_eq!(TimeToDie::at(0).fields(), (12, 0));
        // Rounded up: nothing dies before its time.
        assert_eq!(TimeToDie::at(1).fields(), (12, 1));
        assert_eq!(TimeToDie::at(2 * SECOND).fields(), (12, 1));
        assert_eq!(TimeToDie::at(2 * SECOND + 1).fields(), (12, 2));
        // 2026-11-21 12:34:56 UTC; its Julian day is 2461366.
        let noon = 1_795_264_496 * SECOND;
        assert_eq!(
            TimeToDie::at(noon).fields(),
            ((2_461_366u32 % 16) as u8, 22_648)
        );
    }

    #[test]
    fn it_has_come_at_its_second_and_not_one_nanosecond_before() {
        let at = 1_000_000 * SECOND;
        let dies = TimeToDie::at(at);
        assert!(!dies.is_over(at - 1));
        assert!(dies.is_over(at));
    }

    #[test]
    fn midnight_and_the_sixteenth_day_are_like_any_other() {
        let day = DAY_S * SECOND;
        for days in 0..17 {
            let midnight = (20_000 + days) * day;
            let last = TimeToDie::at(midnight - 2 * SECOND);
            assert_eq!(last.fields().1, 43_199);
            let next = TimeToDie::at(midnight - SECOND);
            assert_eq!(next.fields().1, 0);
            assert_eq!(next.fields().0, (last.fields().0 + 1) % 16);
            assert!(last.is_over(midnight - SECOND) && !next.is_over(midnight - SECOND));
            assert!(next.is_over(midnight));
            // From before midnight to after it.
            let ten = TimeToDie::at(midnight + 4 * SECOND);
            assert!(!ten.is_over(midnight - 6 * SECOND));
        }
    }

    #[test]
    fn fifteen_days_are_ahead_and_all_but_a_day_is_past() {
        let (now, day) = (40_000 * DAY_S * SECOND, DAY_S * SECOND);
        assert!(!TimeToDie::at(now + 15 * day).is_over(now));
        assert!(TimeToDie::at(now - day + 2 * SECOND).is_over(now));
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
            late_ns in 0u64..DAY_S * SECOND - 2 * SECOND,
        ) {
            let end = now + lives_s * SECOND;
            let (day, units) = TimeToDie::at(end).fields();
            let dies = TimeToDie::from_fields(day, units).expect("a time");
            prop_assert!(!dies.is_over(end - 1));
            // Rounded up to two seconds.
            prop_assert!(dies.is_over(end.next_multiple_of(UNIT_NS) + late_ns));
        }
    }
}
