//! Who may send on a half-duplex medium.

use strait_core::time::{Duration, Instant};

use crate::Side;

/// One side at a time, by turns.
///
/// A turn lasts as long as one side goes on sending before the other one could begin. The other one
/// may begin when it has heard the end (propagation) and the turnaround has passed. A side that
/// asks and is refused has a claim: once the turn under way has lasted `turn_max`, its owner has to
/// let the moment pass in which the claimant may begin. So both sides get their turns whenever both
/// want one, whichever of them is asked first.
///
/// A claimant may have lost interest meanwhile. Its claim lapses if it doesn't begin within
/// [`Half::GRACE`] or a turnaround, whichever is longer.
#[derive(Clone, Debug)]
pub(crate) struct Half {
    turnaround: Duration,
    turn_max: Duration,
    turn: Option<Turn>,
    claims: [bool; 2],
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    side: Side,
    began: Instant,
    ends: Instant,
    /// From when on the other side may begin.
    open: Instant,
}

impl Half {
    /// Longer than an emulator's event loop needs to come round.
    const GRACE: Duration = Duration::from_millis(10);

    pub(crate) const fn new(turnaround: Duration, turn_max: Duration) -> Self {
        Self {
            turnaround,
            turn_max,
            turn: None,
            claims: [false; 2],
        }
    }

    /// The earliest moment at which `side` may begin, as far as known at `now`.
    pub(crate) fn ready(&self, now: Instant, side: Side) -> Instant {
        let Some(turn) = self.turn else {
            return Instant::ZERO;
        };
        if turn.side != side {
            return turn.open;
        }
        let exhausted = turn.ends.since(turn.began) >= self.turn_max;
        if self.claims[side.other().index()] && (exhausted || now >= turn.open) {
            return turn.open + self.turnaround.max(Self::GRACE);
        }
        turn.ends
    }

    /// Notes that `side` was refused.
    pub(crate) const fn claim(&mut self, side: Side) {
        self.claims[side.index()] = true;
    }

    /// Notes a transmission of `side`, heard after `delay`.
    pub(crate) fn took(&mut self, side: Side, starts: Instant, ends: Instant, delay: Duration) {
        let mut began = starts;
        if let Some(turn) = self.turn
            && turn.side == side
        {
            if starts < turn.open {
                began = turn.began;
            } else {
                self.claims[side.other().index()] = false;
            }
        }
        self.claims[side.index()] = false;
        self.turn = Some(Turn {
            side,
            began,
            ends,
            open: ends + delay + self.turnaround,
        });
    }
}
