//! How long octets take on a line.

use crate::time::{Duration, Instant};

/// The speed of a line: signalling rate and how many signal bits carry one octet.
///
/// 9600 baud 8N1 is 9600 bit/s with 10 bits an octet, so 960 octets/s; a synchronous or packet
/// link has 8 bits an octet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRate {
    /// Bits (symbols of one bit) each second; never 0.
    bit_s: u64,
    /// Bits on the line for one octet, start and stop bits included.
    bits_per_octet: u8,
}

impl LineRate {
    /// A line of `bit_s` bits each second and `bits_per_octet` bits an octet.
    ///
    /// A rate of 0 stands for «1 bit/s»: a port that can't send says so by going down, and a
    /// divisor of zero must not exist.
    pub const fn new(bit_s: u64, bits_per_octet: u8) -> Self {
        Self {
            bit_s: if bit_s == 0 { 1 } else { bit_s },
            bits_per_octet: if bits_per_octet == 0 {
                8
            } else {
                bits_per_octet
            },
        }
    }

    /// Signalling rate in bit/s.
    pub const fn bit_s(self) -> u64 {
        self.bit_s
    }

    /// Bits on the line for one octet.
    pub const fn bits_per_octet(self) -> u8 {
        self.bits_per_octet
    }

    /// Payload bits each second: eight of the bits of each octet.
    pub const fn payload_bit_s(self) -> u64 {
        (self.bit_s as u128 * 8 / self.bits_per_octet as u128) as u64
    }

    /// Time that `octets` take, rounded up: a deadline is never early.
    pub const fn time_for(self, octets: u64) -> Duration {
        let bits = octets as u128 * self.bits_per_octet as u128;
        let ns = (bits * 1_000_000_000).div_ceil(self.bit_s as u128);
        Duration::from_nanos(if ns > u64::MAX as u128 {
            u64::MAX
        } else {
            ns as u64
        })
    }

    /// Whole octets that fit into `span`, rounded down.
    pub const fn octets_in(self, span: Duration) -> u64 {
        let ns = span.as_nanos();
        let octets = ns * self.bit_s as u128 / (self.bits_per_octet as u128 * 1_000_000_000);
        if octets > u64::MAX as u128 {
            u64::MAX
        } else {
            octets as u64
        }
    }
}

/// Octets that leave back to back: their end follows from the start by one formula, so that
/// rounding never adds up octet by octet.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    rate: LineRate,
    start: Instant,
    octets: u64,
    /// What the medium adds to each push.
    header_octets: u64,
    /// When the last octet so far has left.
    end: Instant,
}

impl Burst {
    /// A burst that has sent nothing and is over at `start`.
    pub const fn new(rate: LineRate, start: Instant) -> Self {
        Self {
            rate,
            start,
            octets: 0,
            header_octets: 0,
            end: start,
        }
    }

    /// The same on a medium that adds so many octets to each frame, which is one push.
    #[must_use]
    pub const fn with_headers(self, header_octets: u64) -> Self {
        Self {
            header_octets,
            ..self
        }
    }

    const fn begin(&mut self, rate: LineRate, start: Instant) {
        (self.rate, self.start, self.end, self.octets) = (rate, start, start, 0);
    }

    /// The line's rate.
    pub const fn rate(&self) -> LineRate {
        self.rate
    }

    /// When the last octet so far has left.
    pub const fn end(&self) -> Instant {
        self.end
    }

    /// Appends `octets` that are ready at `now` and returns when the last of them has left.
    /// A pause since the last octet starts a new burst.
    pub fn push(&mut self, now: Instant, octets: u64) -> Instant {
        if now > self.end {
            self.begin(self.rate, now);
        }
        self.octets += octets + self.header_octets;
        self.end = self.start + self.rate.time_for(self.octets);
        self.end
    }

    /// Changes the rate; octets already pushed keep their times.
    pub fn set_rate(&mut self, rate: LineRate) {
        if rate != self.rate {
            self.begin(rate, self.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn async_9600_8n1_is_960_octets_a_second() {
        let line = LineRate::new(9600, 10);
        assert_eq!(line.time_for(960), Duration::from_secs(1));
        assert_eq!(line.time_for(1), Duration::from_nanos(1_041_667));
        assert_eq!(line.payload_bit_s(), 7680);
        assert_eq!(line.octets_in(Duration::from_secs(1)), 960);
        assert_eq!(line.octets_in(Duration::from_nanos(1_041_666)), 0);
        assert_eq!(line.octets_in(Duration::from_nanos(1_041_667)), 1);
    }

    #[test]
    fn rounding_does_not_add_up_within_a_burst() {
        let mut burst = Burst::new(LineRate::new(9600, 10), Instant::ZERO);
        for _ in 0..960 {
            burst.push(burst.end(), 1);
        }
        assert_eq!(burst.end(), Instant::from_secs(1));
    }

    #[test]
    fn a_pause_starts_a_new_burst_and_a_rate_change_keeps_the_past() {
        let mut burst = Burst::new(LineRate::new(8000, 8), Instant::ZERO);
        assert_eq!(
            burst.push(Instant::from_secs(2), 1000),
            Instant::from_secs(3)
        );
        burst.set_rate(LineRate::new(4000, 8));
        assert_eq!(
            burst.push(Instant::from_millis(2500), 500),
            Instant::from_secs(4)
        );
    }

    #[test]
    fn headers_count_with_each_push_whatever_the_rate() {
        let mut burst = Burst::new(LineRate::new(8000, 8), Instant::ZERO).with_headers(20);
        assert_eq!(burst.push(Instant::ZERO, 80), Instant::from_millis(100));
        assert_eq!(burst.push(Instant::ZERO, 80), Instant::from_millis(200));
        burst.set_rate(LineRate::new(16_000, 8));
        assert_eq!(burst.push(Instant::ZERO, 80), Instant::from_millis(250));
        assert_eq!(
            burst.push(Instant::from_secs(1), 180).as_nanos(),
            1_100_000_000
        );
    }

    #[test]
    fn no_rate_divides_by_zero() {
        assert_eq!(LineRate::new(0, 0).time_for(1), Duration::from_secs(8));
        assert_eq!(LineRate::new(u64::MAX, 8).time_for(u64::MAX).as_secs(), 8);
    }
}
