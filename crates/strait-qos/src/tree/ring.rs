//! Turns of the nodes of one band.

use alloc::vec::Vec;

use super::Slot;

/// Parts of an octet that credit is counted in, so that shares of any proportion are exact enough.
pub(super) const UNITS: i64 = 64;

/// The greatest debt of a node: more than any IP packet with its framing, so that the shares stay
/// exact, and a bound on the turns that one charge can take.
const DEBT_MAX: i64 = UNITS << 17;

/// Deficit round robin in its surplus form: a turn starts with a gain of credit, continues while
/// the credit is positive, and octets beyond it are a debt that the next turns pay first. The
/// shares therefore hold whatever the sizes of packets, without knowing a size in advance.
///
/// A node that was idle goes next: a node with little traffic waits for the packet being sent, not
/// for the others' turns. It does so once a round: a node that has sent stays until its turn comes
/// again, and only one that has not sent since its last turn, and has no debt, leaves.
///
/// Between calls the front's credit is positive. A node that is passed over, because none of its
/// packets may go, keeps its credit but gains none on top, and one without backlog keeps none.
#[derive(Debug, Default)]
pub(super) struct Ring {
    turns: Vec<Turn>,
}

#[derive(Debug)]
struct Turn {
    slot: Slot,
    gain: i64,
    credit: i64,
    /// It goes before those that were not idle.
    new: bool,
    /// It has sent since its turn began.
    sent: bool,
}

impl Turn {
    fn begin(&mut self) {
        if self.credit <= 0 {
            self.credit += self.gain;
        }
    }

    /// How many turns from now, the running one not counted, it has credit.
    const fn turns_until_credit(&self) -> i64 {
        if self.credit > 0 {
            1
        } else {
            -self.credit / self.gain + 1
        }
    }
}

impl Ring {
    /// All turns end: no node has a packet.
    pub(super) fn clear(&mut self) {
        self.turns.clear();
    }

    /// A node that has something to send now takes part. `gain` is its credit a turn, at least 1.
    pub(super) fn join(&mut self, slot: Slot, gain: i64) {
        if !self.holds(slot) {
            let place = self.turns.iter().take_while(|turn| turn.new).count();
            let turn = Turn {
                slot,
                gain,
                credit: gain,
                new: true,
                sent: false,
            };
            self.turns.insert(place, turn);
        }
    }

    /// Changes a node's octets a turn, from its next turn on.
    pub(super) fn set_gain(&mut self, slot: Slot, gain: i64) {
        if let Some(turn) = self.turns.iter_mut().find(|turn| turn.slot == slot) {
            turn.gain = gain;
            turn.credit = turn.credit.min(gain);
        }
    }

    pub(super) fn holds(&self, slot: Slot) -> bool {
        self.turns.iter().any(|turn| turn.slot == slot)
    }

    /// The offer of the node whose turn comes first among those that have one.
    pub(super) fn first<T>(&self, mut offer: impl FnMut(Slot) -> Option<T>) -> Option<T> {
        let mut best: Option<(i64, T)> = None;
        for (place, turn) in self.turns.iter().enumerate() {
            let turns = if place == 0 {
                0
            } else {
                turn.turns_until_credit()
            };
            if best.as_ref().is_some_and(|(least, _)| *least <= turns) {
                continue;
            }
            let Some(offered) = offer(turn.slot) else {
                continue;
            };
            if turns <= 1 {
                return Some(offered);
            }
            best = Some((turns, offered));
        }
        best.map(|(_, offered)| offered)
    }

    /// Takes `amount` from the node's credit, after ending the turns of those passed over.
    pub(super) fn charge(&mut self, slot: Slot, amount: i64, backlogged: impl Fn(Slot) -> bool) {
        if !self.holds(slot) {
            return;
        }
        let stays = |other| other == slot || backlogged(other);
        while !self
            .turns
            .first()
            .is_some_and(|front| front.slot == slot && front.credit > 0)
        {
            self.pass(stays);
        }
        if let Some(front) = self.turns.first_mut() {
            front.credit = front.credit.saturating_sub(amount).max(-DEBT_MAX);
            front.sent = true;
        }
        while self.turns.first().is_some_and(|front| front.credit <= 0) {
            self.pass(&backlogged);
        }
    }

    /// The front's turn ends and the next begins.
    fn pass(&mut self, backlogged: impl Fn(Slot) -> bool) {
        let Some(front) = self.turns.first_mut() else {
            return;
        };
        let waits = backlogged(front.slot);
        if waits || front.sent || front.credit < 0 {
            if !waits {
                front.credit = front.credit.min(0);
            }
            (front.new, front.sent) = (false, false);
            self.turns.rotate_left(1);
        } else {
            self.turns.remove(0);
        }
        if let Some(front) = self.turns.first_mut() {
            front.begin();
        }
    }

    /// Asserts the conditions that hold between calls.
    pub(super) fn check(&self) {
        for (place, turn) in self.turns.iter().enumerate() {
            assert!(
                place > 0 || turn.credit > 0,
                "the front of a ring has credit"
            );
            assert!(turn.credit <= turn.gain, "no node hoards credit");
            let same = self
                .turns
                .iter()
                .filter(|other| other.slot == turn.slot)
                .count();
            assert_eq!(same, 1, "a node takes one turn a round");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Slot = 0;
    const B: Slot = 1;
    const C: Slot = 2;

    fn all(_: Slot) -> bool {
        true
    }

    fn turn_of(ring: &Ring) -> Option<Slot> {
        ring.first(Some)
    }

    #[test]
    fn a_turn_lasts_until_its_credit_is_used() {
        let mut ring = Ring::default();
        ring.join(A, 100);
        ring.join(B, 200);
        let mut order = Vec::new();
        for _ in 0..9 {
            let class = turn_of(&ring).unwrap();
            order.push(class);
            ring.charge(class, 100, all);
            ring.check();
        }
        assert_eq!(order, [0, 1, 1, 0, 1, 1, 0, 1, 1]);
    }

    #[test]
    fn what_a_turn_took_too_much_is_paid_from_the_next() {
        let mut ring = Ring::default();
        ring.join(A, 100);
        ring.join(B, 100);
        ring.charge(A, 350, all);
        let mut order = Vec::new();
        for _ in 0..4 {
            let class = turn_of(&ring).unwrap();
            order.push(class);
            ring.charge(class, 100, all);
            ring.check();
        }
        assert_eq!(order, [1, 1, 1, 0]);
    }

    #[test]
    fn those_who_may_go_share_rightly_beside_one_who_may_not() {
        let mut ring = Ring::default();
        for (class, gain) in [(A, 100), (B, 100), (C, 300)] {
            ring.join(class, gain);
        }
        let mut sent = [0i64; 3];
        for _ in 0..4000 {
            let class = ring.first(|class| (class != A).then_some(class)).unwrap();
            let octets = if class == B { 1500i64 } else { 70 };
            sent[class] += octets;
            ring.charge(class, octets, all);
            ring.check();
        }
        assert_eq!(sent[0], 0);
        assert!((sent[2] - 3 * sent[1]).abs() <= 3 * 1600, "{sent:?}");
        // The one left out comes back without a hoard.
        let mut burst = 0;
        while turn_of(&ring) == Some(A) || burst == 0 {
            let class = turn_of(&ring).unwrap();
            burst += u32::from(class == A) * 10;
            ring.charge(class, 10, all);
        }
        assert!(burst <= 110, "{burst}");
    }

    #[test]
    fn who_was_idle_goes_next() {
        let mut ring = Ring::default();
        ring.join(A, 1000);
        ring.charge(A, 1100, all);
        ring.join(B, 100);
        ring.join(C, 100);
        let mut order = Vec::new();
        for _ in 0..4 {
            let class = turn_of(&ring).unwrap();
            order.push(class);
            ring.charge(class, 100, all);
            ring.check();
        }
        assert_eq!(order, [B, C, A, A], "in the order in which they came");
    }

    /// B is empty after each packet and comes back at once: what it gets is its share.
    #[test]
    fn who_is_idle_again_and_again_gets_no_more_than_its_share() {
        let mut ring = Ring::default();
        ring.join(A, 300);
        let mut sent = [0i64; 2];
        for _ in 0..4000 {
            ring.join(B, 100);
            let class = turn_of(&ring).unwrap();
            let octets = if class == A { 20 } else { 70 };
            sent[class] += octets;
            ring.charge(class, octets, |class| class == A);
            ring.check();
        }
        assert!(sent[0] >= 3 * sent[1] - 300, "{sent:?}");
        assert!(sent[1] > 10_000, "{sent:?}");
    }

    #[test]
    fn an_empty_class_stays_for_a_round_without_credit_and_pays_its_debt() {
        let mut ring = Ring::default();
        ring.join(A, 100);
        ring.join(B, 100);
        ring.charge(A, 10, all);
        // A has nothing more: its turn ends with 90 octets of credit unused.
        ring.charge(B, 100, |class| class == B);
        assert!(ring.holds(A), "it has sent");
        ring.charge(B, 100, |class| class == B);
        assert!(!ring.holds(A));
        ring.join(A, 100);
        ring.charge(A, 250, |class| class == B);
        for _ in 0..3 {
            assert!(ring.holds(A), "in debt");
            ring.charge(B, 100, |class| class == B);
            ring.check();
        }
        assert!(!ring.holds(A));
    }

    #[test]
    fn any_charge_ends() {
        let mut ring = Ring::default();
        ring.join(A, 1);
        ring.join(B, 1);
        ring.charge(A, i64::MAX, all);
        ring.charge(C, 5, all);
        ring.charge(B, i64::MAX, |_| false);
        ring.check();
    }
}
