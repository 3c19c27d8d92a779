//! How much more clients get than they ask: whoever asks in another's name has it sent to him.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use strait_core::{Duration, Instant};

/// Octets a second that a client gets beyond those that it asks: no resolver needs more.
pub const GAIN_OCTETS_S: u64 = 500_000;
/// Addresses that are counted.
pub const COUNTED_MAX: usize = 1024;

/// What clients got beyond what they asked, running dry with time.
#[derive(Debug, Default)]
pub(crate) struct Gains(BTreeMap<IpAddr, (Instant, u64)>);

impl Gains {
    /// Whether a client may get so many octets more than it asks; takes note of them if so.
    pub(crate) fn allow(&mut self, now: Instant, client: IpAddr, octets: u64) -> bool {
        if self.0.len() >= COUNTED_MAX && !self.0.contains_key(&client) {
            self.0.retain(|_, it| left(now, *it) > 0);
            let least = self.0.iter().min_by_key(|(_, it)| left(now, **it));
            let least = least.map(|(address, _)| *address);
            if let Some(address) = least.filter(|_| self.0.len() >= COUNTED_MAX) {
                self.0.remove(&address);
            }
        }
        let before = self.0.get(&client).map_or(0, |it| left(now, *it));
        let allowed = before + octets <= GAIN_OCTETS_S;
        if allowed {
            self.0.insert(client, (now, before + octets));
        }
        allowed
    }

    /// Asserts that limits hold.
    pub(crate) fn check(&self) {
        assert!(self.0.len() <= COUNTED_MAX, "too many clients are counted");
    }
}

/// What is left of it.
fn left(now: Instant, (at, octets): (Instant, u64)) -> u64 {
    let second = Duration::from_secs(1).as_nanos();
    let gone = now.since(at).as_nanos() * u128::from(GAIN_OCTETS_S) / second;
    octets.saturating_sub(u64::try_from(gone).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_so_much_a_second_and_others_as_much() {
        let (mut gains, now) = (Gains::default(), Instant::from_secs(5));
        let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        assert!(gains.allow(now, one, GAIN_OCTETS_S));
        assert!(!gains.allow(now, one, 1));
        assert!(gains.allow(now, other, 1));
        // An octet is gone after so many nanoseconds.
        let octet = Duration::from_nanos(1_000_000_000 / GAIN_OCTETS_S);
        assert!(!gains.allow(now + octet - Duration::from_nanos(1), one, 1));
        assert!(gains.allow(now + octet, one, 1));
    }

    #[test]
    fn addresses_are_bounded_and_the_greediest_are_kept() {
        let (mut gains, now) = (Gains::default(), Instant::from_secs(5));
        let greedy = IpAddr::from([10, 255, 0, 1]);
        assert!(gains.allow(now, greedy, GAIN_OCTETS_S));
        for number in 0..COUNTED_MAX as u32 * 2 {
            assert!(gains.allow(now, IpAddr::from((0x0a00_0000 + number).to_be_bytes()), 1));
            gains.check();
        }
        assert!(!gains.allow(now, greedy, 1));
    }
}
