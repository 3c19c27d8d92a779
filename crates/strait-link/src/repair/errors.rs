//! Whether a line has errors, by what came damaged.

use super::When;

/// Errors of a line, with hysteresis: two that are close together turn repairs on, and a long way
/// without any turns them off.
#[derive(Debug)]
pub(super) struct Errors {
    when: When,
    on: bool,
    /// Octets since the last error; no more is known before the first.
    since: u64,
}

impl Errors {
    /// Two errors as close as this turn repairs on: where they are further apart, a packet of 1500
    /// octets is lost less often than one time in 85. A single one is no reason: an end that
    /// starts in the middle of a frame sees one.
    const ON_OCTETS: u64 = 128 * 1024;
    /// So many octets without an error turn them off.
    const OFF_OCTETS: u64 = 512 * 1024;

    pub(super) const fn new(when: When) -> Self {
        Self {
            when,
            on: false,
            since: u64::MAX,
        }
    }

    /// Whether repairs are wanted.
    pub(super) const fn are_on(&self) -> bool {
        self.on || matches!(self.when, When::Always)
    }

    /// Octets came.
    pub(super) const fn count(&mut self, octets: u64) {
        self.since = self.since.saturating_add(octets);
        if self.since > Self::OFF_OCTETS {
            self.on = false;
        }
    }

    /// Something among them was damaged.
    pub(super) const fn add(&mut self) {
        self.on |= self.since <= Self::ON_OCTETS;
        self.since = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_errors_close_together_turn_repairs_on_and_a_long_way_without_any_off() {
        let mut errors = Errors::new(When::Errors);
        errors.count(10);
        errors.add();
        assert!(!errors.are_on());
        errors.count(Errors::ON_OCTETS + 1);
        errors.add();
        assert!(!errors.are_on());
        errors.count(Errors::ON_OCTETS);
        errors.add();
        assert!(errors.are_on());
        errors.count(Errors::OFF_OCTETS);
        assert!(errors.are_on());
        errors.count(1);
        assert!(!errors.are_on());
        assert!(Errors::new(When::Always).are_on());
    }
}
