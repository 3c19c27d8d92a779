//! How long an answer takes (RFC 6298, without its clock).

use strait_core::Duration;

/// Round trips as measured so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    /// The smoothed mean, and by how much single ones differ.
    known: Option<(Duration, Duration)>,
}

impl Rtt {
    pub(crate) fn measure(&mut self, sample: Duration) {
        self.known = Some(match self.known {
            None => (sample, sample / 2),
            Some((mean, spread)) => {
                let error = mean.abs_diff(sample);
                ((mean * 7 + sample) / 8, (spread * 3 + error) / 4)
            }
        });
    }

    /// How long to wait for an answer: at least `least`, which holds as long as none has come.
    pub(crate) fn patience(&self, least: Duration) -> Duration {
        self.known
            .map_or(least, |(mean, spread)| (mean + spread * 4).max(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_the_mean_and_four_times_the_spread() {
        let mut rtt = Rtt::default();
        let ms = Duration::from_millis;
        assert_eq!(rtt.patience(ms(700)), ms(700));
        rtt.measure(ms(400));
        assert_eq!(rtt.patience(ms(700)), ms(1200));
        assert_eq!(rtt.patience(ms(1300)), ms(1300));
        rtt.measure(ms(400));
        assert_eq!(rtt.patience(ms(700)), ms(1000));
    }
}
