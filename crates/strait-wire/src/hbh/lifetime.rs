//! How much longer a packet is worth anything, in one octet.

use core::time::Duration;

/// Time left, rounded down to what one octet can say: four bits of exponent, four of mantissa, in
/// units of 10 ms. From 160 ms on it is at most a sixteenth too short; the longest is 84 minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime(u8);

const UNIT_MS: u64 = 10;
const UNLIMITED: u8 = 0xff;

impl Lifetime {
    /// It never grows too old.
    pub const UNLIMITED: Self = Self(UNLIMITED);

    /// The longest lifetime that isn't longer than `left`.
    #[must_use]
    pub fn of(left: Duration) -> Self {
        let units = u64::try_from(left.as_millis()).unwrap_or(u64::MAX) / UNIT_MS;
        let code = if units < 32 {
            units
        } else {
            let exponent = u64::from(units.ilog2()) - 4;
            ((exponent + 1) << 4) + (units >> exponent) - 16
        };
        // The highest code has another meaning.
        Self(code.min(u64::from(UNLIMITED) - 1) as u8)
    }

    /// The time left; `None` if there is no limit.
    #[must_use]
    pub const fn left(self) -> Option<Duration> {
        if self.0 == UNLIMITED {
            return None;
        }
        let (exponent, mantissa) = (self.0 >> 4, (self.0 & 0x0f) as u64);
        let units = match exponent {
            0 => mantissa,
            _ => (16 + mantissa) << (exponent - 1),
        };
        Some(Duration::from_millis(units * UNIT_MS))
    }

    /// The octet.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// What an octet says.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        Self(code)
    }
}
