//! How a call sounds, by the E-model (ITU-T G.107), as far as a gateway can know.

use serde::Serialize;

use crate::figures::rounded;
use crate::span::Span;

/// Impairment of G.729A with silence suppression (G.113 Appendix I).
const IMPAIRMENT: f64 = 11.0;
/// How well it bears losses by chance.
const ROBUSTNESS: f64 = 19.0;
/// Coder, one packet's filling and a buffer against jitter.
const AROUND_S: f64 = 0.06;
/// A call that is silent for so long isn't judged.
const SILENT_S: f64 = 10.0;

/// The rating R, 0 to 93, of a delay one way and a share of packets lost.
pub fn rating(delay_s: f64, lost: f64) -> f64 {
    let ms = delay_s * 1000.0;
    let delay = 0.024 * ms + 0.11 * (ms - 177.3).max(0.0);
    let percent = lost * 100.0;
    let equipment = IMPAIRMENT + (95.0 - IMPAIRMENT) * percent / (percent + ROBUSTNESS);
    (93.2 - delay - equipment).max(0.0)
}

/// The mean opinion score that R stands for, 1 to 4.4.
pub fn opinion(r: f64) -> f64 {
    if r <= 0.0 {
        return 1.0;
    }
    1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6
}

/// The same with what it means to a listener, in four digits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the fields mean what they mean in Quality")]
pub struct Judged {
    pub stay_s: f64,
    pub lost: f64,
    pub r: f64,
    /// The mean opinion score that R stands for.
    pub opinion: f64,
}

impl From<Quality> for Judged {
    fn from(it: Quality) -> Self {
        Self {
            stay_s: rounded(it.stay_s),
            lost: rounded(it.lost),
            r: rounded(it.r),
            opinion: rounded(opinion(it.r)),
        }
    }
}

/// How a call of a node may sound. Delay: the mean stay of its class here, and what is around it.
/// Loss: what the node dropped of the class, and frames of the link that came damaged. What the far
/// end adds isn't in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// Mean stay of its class.
    pub stay_s: f64,
    /// Share of packets lost.
    pub lost: f64,
    /// The rating.
    pub r: f64,
}

impl Quality {
    /// Of a call in a class and on a port, unless it is silent.
    pub fn new((class, port): (&str, &str), idle_s: f64, span: &Span<'_>) -> Option<Self> {
        if idle_s > SILENT_S {
            return None;
        }
        let classes = span.classes();
        let class = classes.iter().find(|it| it.class.name == class)?;
        let stay_s = class.stay_s()?;
        let link = span.links.iter().find(|it| it.port.name == port);
        let damaged = link.map_or(0.0, |it| it.damaged());
        let lost = 1.0 - (1.0 - class.lost().unwrap_or(0.0)) * (1.0 - damaged);
        let r = rating(stay_s + AROUND_S, lost);
        Some(Self { stay_s, lost, r })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratings_are_those_of_the_model() {
        // 93.2 less Ie, less 0.024 a millisecond, less 0.11 a millisecond above 177.3.
        assert!((rating(0.0, 0.0) - 82.2).abs() < 1e-9);
        assert!((rating(0.1773, 0.0) - (82.2 - 4.2552)).abs() < 1e-9);
        assert!((rating(0.4, 0.0) - (82.2 - 9.6 - 24.497)).abs() < 1e-9);
        // Ie,eff at 19 % lost is half way from Ie to 95.
        assert!((rating(0.0, 0.19) - (93.2 - 53.0)).abs() < 1e-9);
        assert!(rating(10.0, 1.0) == 0.0);
    }

    #[test]
    fn opinions_are_those_of_annex_b() {
        for (r, expected) in [
            (0.0, 1.0),
            (50.0, 2.575),
            (60.0, 3.1),
            (80.0, 4.024),
            (93.2, 4.409),
        ] {
            assert!((opinion(r) - expected).abs() < 1e-3, "{r}: {}", opinion(r));
        }
    }
}
