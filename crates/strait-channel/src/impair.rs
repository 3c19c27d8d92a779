//! Chance events on a direction: loss, and inverted bits.

use alloc::boxed::Box;
use alloc::format;

use strait_core::chance::Stream;
use strait_core::units::Share;

use crate::LossCause;
use crate::config::{BurstLoss, Direction};

/// Where the random streams of one direction come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) seed: u64,
    pub(crate) link: &'a str,
    pub(crate) way: &'a str,
}

impl Source<'_> {
    pub(crate) fn stream(&self, purpose: &str) -> Stream {
        let name = format!("channel.{}.{}.{purpose}", self.link, self.way);
        Stream::new(self.seed, &name)
    }
}

/// Something that happens to a share of the frames, independently.
#[derive(Clone, Debug)]
pub(crate) struct Chance {
    share: f64,
    stream: Stream,
}

impl Chance {
    /// `None` where it never happens, so that it costs nothing.
    pub(crate) fn new(share: Option<Share>, source: &Source<'_>, purpose: &str) -> Option<Self> {
        let share = share.filter(|share| share.0 > 0.0)?.0;
        let stream = source.stream(purpose);
        Some(Self { share, stream })
    }

    /// Whether it happens to this frame.
    pub(crate) fn happens(&mut self, frame: u64) -> bool {
        self.stream.unit_at(frame) < self.share
    }
}

/// Which frames are lost.
#[derive(Clone, Debug)]
pub(crate) enum Loss {
    Never,
    Each(Box<Chance>),
    Bursts(Box<Bursts>),
}

/// A Gilbert–Elliott chain, moved once for each frame.
#[derive(Clone, Debug)]
pub(crate) struct Bursts {
    model: BurstLoss,
    bad: bool,
    moves: Stream,
    losses: Stream,
}

impl Loss {
    pub(crate) fn new(way: &Direction, source: &Source<'_>) -> Self {
        if let Some(model) = way.burst_loss {
            return Self::Bursts(Box::new(Bursts {
                model,
                bad: false,
                moves: source.stream("burst"),
                losses: source.stream("loss"),
            }));
        }
        Chance::new(way.loss, source, "loss")
            .map_or(Self::Never, |chance| Self::Each(Box::new(chance)))
    }

    /// Why this frame is lost, if it is. Frames are asked for one after another.
    pub(crate) fn draw(&mut self, frame: u64) -> Option<LossCause> {
        match self {
            Self::Never => None,
            Self::Each(chance) => chance.happens(frame).then_some(LossCause::Random),
            Self::Bursts(bursts) => bursts.draw(frame),
        }
    }
}

impl Bursts {
    fn draw(&mut self, frame: u64) -> Option<LossCause> {
        let (loss, cause, leave) = if self.bad {
            (self.model.loss_bad, LossCause::Burst, self.model.leave)
        } else {
            (self.model.loss_good, LossCause::Random, self.model.enter)
        };
        self.bad ^= self.moves.unit_at(frame) < leave.0;
        (self.losses.unit_at(frame) < loss.0).then_some(cause)
    }
}

/// Inverted bits by their position in line time.
///
/// Line time is cut into blocks. The gaps between errors in a block are drawn from the block's own
/// part of the stream, so what happens in it does not depend on what was sent before, in which
/// pieces, or whether anything was. A geometric gap has no memory: to begin anew at each block
/// changes nothing in the statistics.
#[derive(Clone, Debug)]
pub(crate) struct BitErrors {
    /// ln(1 − p), p being the probability of an error.
    log_good: f64,
    stream: Stream,
    block: u64,
    /// Gaps drawn in `block`.
    drawn: u64,
    /// The first error in `block` that was not passed yet, or something beyond the block.
    next: u64,
    /// Where the search was last; a search before it begins the block anew.
    from: u64,
}

/// Bits of a block: few enough that a frame after a long pause costs little at high error rates.
const BLOCK_BITS: u64 = 1 << 13;

impl BitErrors {
    pub(crate) fn new(share: Option<Share>, source: &Source<'_>) -> Option<Self> {
        let share = share.filter(|share| share.0 > 0.0)?.0;
        Some(Self {
            log_good: libm::log1p(-share),
            stream: source.stream("bits"),
            block: u64::MAX,
            drawn: 0,
            next: 0,
            from: 0,
        })
    }

    /// The first inverted bit in the half-open span.
    pub(crate) fn first(&mut self, mut from: u64, to: u64) -> Option<u64> {
        while from < to {
            let block = from / BLOCK_BITS;
            if block != self.block || from < self.from {
                self.block = block;
                self.drawn = 0;
                self.next = self.gap_after(block * BLOCK_BITS);
            }
            while self.next < from {
                self.next = self.gap_after(self.next + 1);
            }
            self.from = from;
            let over = (block * BLOCK_BITS).saturating_add(BLOCK_BITS);
            if self.next < over {
                return (self.next < to).then_some(self.next);
            }
            from = over;
        }
        None
    }

    /// The position of the error after a drawn number of good bits from `begin`.
    fn gap_after(&mut self, begin: u64) -> u64 {
        // At most one gap more than there are bits: blocks never share a number.
        let counter = self
            .block
            .wrapping_mul(2 * BLOCK_BITS)
            .wrapping_add(self.drawn);
        self.drawn += 1;
        let gap = libm::log(1.0 - self.stream.unit_at(counter)) / self.log_good;
        begin.saturating_add(gap as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const SOURCE: Source<'_> = Source {
        seed: 3,
        link: "x",
        way: "ab",
    };

    fn positions(share: f64, spans: &[(u64, u64)]) -> Vec<u64> {
        let mut errors = BitErrors::new(Some(Share(share)), &SOURCE).unwrap();
        let mut found = Vec::new();
        for (from, to) in spans {
            let mut at = *from;
            while let Some(bit) = errors.first(at, *to) {
                found.push(bit);
                at = bit + 1;
            }
        }
        found
    }

    #[test]
    fn positions_don_t_depend_on_the_pieces_asked_for() {
        let whole = positions(1e-3, &[(0, 100_000)]);
        assert!(whole.is_sorted() && whole.len() > 60, "{}", whole.len());
        let pieces: Vec<(u64, u64)> = (0..10_000).map(|n| (n * 10, n * 10 + 10)).collect();
        assert_eq!(positions(1e-3, &pieces), whole);
        let late: Vec<u64> = whole.iter().copied().filter(|bit| *bit >= 77_777).collect();
        assert_eq!(positions(1e-3, &[(77_777, 100_000)]), late);
        let back = positions(1e-3, &[(50_000, 50_100), (49_000, 100_000)]);
        let again: Vec<u64> = whole.iter().copied().filter(|bit| *bit >= 49_000).collect();
        assert!(back.ends_with(&again));
    }

    #[test]
    fn extreme_probabilities_hit_all_or_nothing() {
        assert_eq!(
            positions(1.0, &[(8190, 8195)]),
            (8190..8195).collect::<Vec<_>>()
        );
        assert_eq!(positions(1e-300, &[(0, 1_000_000)]), []);
        assert!(BitErrors::new(Some(Share(0.0)), &SOURCE).is_none());
        let end = u64::MAX;
        assert_eq!(positions(1.0, &[(end - 2, end)]), [end - 2, end - 1]);
    }

    #[test]
    fn a_gilbert_elliott_link_stays_bad_for_one_over_leave_frames() {
        let model = BurstLoss {
            enter: Share(0.01),
            leave: Share(0.25),
            loss_good: Share(0.0),
            loss_bad: Share(1.0),
        };
        let way = Direction {
            burst_loss: Some(model),
            ..Direction::default()
        };
        let mut loss = Loss::new(&way, &SOURCE);
        let lost: Vec<bool> = (0..400_000)
            .map(|frame| loss.draw(frame).is_some())
            .collect();
        let count = lost.iter().filter(|lost| **lost).count() as f64;
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        // The bad share is enter / (enter + leave) = 1 / 26; a burst lasts 4 frames on average.
        // A burst's length has a deviation of sqrt(0.75) / 0.25 = 3.46, over about 3846 bursts.
        assert!(
            (count / bursts - 4.0).abs() < 3.0 * 3.46 / 62.0,
            "{}",
            count / bursts
        );
        let stationary = count / lost.len() as f64;
        // Variance of the share: p (1-p) / n, times (1 + r) / (1 - r) with r = 1 - 0.26.
        let sigma = libm::sqrt(1.0 / 26.0 * (25.0 / 26.0) / 400_000.0 * (1.74 / 0.26));
        assert!(
            (stationary - 1.0 / 26.0).abs() < 3.0 * sigma,
            "{stationary}"
        );
        assert_eq!(Loss::new(&way, &SOURCE).draw(0), None, "it starts good");
    }
}
