//! Turns of the classes of one band.

use alloc::vec::Vec;

use strait_core::ClassId;

/// Octets that a class can owe. Longer than any IP packet with its framing, so that the shares stay
/// exact, and a bound on the turns that one charge can take.
const DEBT_MAX: i64 = 1 << 17;

/// Deficit round robin in its surplus form: a turn starts with a gain of credit, goes on while the
/// credit is positive, and what is sent beyond it is a debt that the next turns pay first. So the
/// shares hold whatever the sizes of packets, without knowing a size in advance.
///
/// Between calls the front's credit is positive. A class that is passed over, because nothing of it
/// may go, keeps what credit it has but gains none on top. A class without backlog leaves when its
/// turn comes and its debt is paid; it takes no credit with it.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    turns: Vec<Turn>,
}

#[derive(Debug)]
struct Turn {
    class: ClassId,
    gain: i64,
    credit: i64,
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
    /// All turns end: nobody has anything to send.
    pub(crate) fn clear(&mut self) {
        self.turns.clear();
    }

    /// A class that has something to send now takes part. `gain` is its octets a turn, at least 1.
    pub(crate) fn join(&mut self, class: ClassId, gain: i64) {
        if !self.holds(class) {
            self.turns.push(Turn {
                class,
                gain,
                credit: 0,
            });
            if let [only] = &mut self.turns[..] {
                only.begin();
            }
        }
    }

    pub(crate) fn holds(&self, class: ClassId) -> bool {
        self.turns.iter().any(|turn| turn.class == class)
    }

    /// The offer of the class whose turn comes first among those that have one.
    pub(crate) fn first<T>(&self, mut offer: impl FnMut(ClassId) -> Option<T>) -> Option<T> {
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
            let Some(offered) = offer(turn.class) else {
                continue;
            };
            if turns <= 1 {
                return Some(offered);
            }
            best = Some((turns, offered));
        }
        best.map(|(_, offered)| offered)
    }

    /// Takes `octets` from the class's credit, after ending the turns of those passed over.
    pub(crate) fn charge(
        &mut self,
        class: ClassId,
        octets: u32,
        backlogged: impl Fn(ClassId) -> bool,
    ) {
        if !self.holds(class) {
            return;
        }
        let stays = |other| other == class || backlogged(other);
        while !self
            .turns
            .first()
            .is_some_and(|front| front.class == class && front.credit > 0)
        {
            self.pass(stays);
        }
        if let Some(front) = self.turns.first_mut() {
            front.credit = (front.credit - i64::from(octets)).max(-DEBT_MAX);
        }
        while self.turns.first().is_some_and(|front| front.credit <= 0) {
            self.pass(&backlogged);
        }
    }

    /// The front's turn ends and the next begins.
    fn pass(&mut self, backlogged: impl Fn(ClassId) -> bool) {
        let Some(front) = self.turns.first() else {
            return;
        };
        if front.credit < 0 || backlogged(front.class) {
            self.turns.rotate_left(1);
        } else {
            self.turns.remove(0);
        }
        if let Some(front) = self.turns.first_mut() {
            front.begin();
        }
    }

    /// Asserts what holds between calls.
    pub(crate) fn check(&self) {
        for (place, turn) in self.turns.iter().enumerate() {
            assert!(
                place > 0 || turn.credit > 0,
                "the front of a ring has credit"
            );
            assert!(turn.credit <= turn.gain, "no class hoards credit");
            let same = self
                .turns
                .iter()
                .filter(|other| other.class == turn.class)
                .count();
            assert_eq!(same, 1, "a class takes one turn a round");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClassId = ClassId(0);
    const B: ClassId = ClassId(1);
    const C: ClassId = ClassId(2);

    fn all(_: ClassId) -> bool {
        true
    }

    fn turn_of(ring: &Ring) -> Option<ClassId> {
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
            order.push(class.0);
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
            order.push(class.0);
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
        let mut sent = [0u32; 3];
        for _ in 0..4000 {
            let class = ring.first(|class| (class != A).then_some(class)).unwrap();
            let octets = if class == B { 1500 } else { 70 };
            sent[class.index()] += octets;
            ring.charge(class, octets, all);
            ring.check();
        }
        assert_eq!(sent[0], 0);
        assert!(sent[2].abs_diff(3 * sent[1]) <= 3 * 1600, "{sent:?}");
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
    fn an_empty_class_leaves_without_credit_but_pays_its_debt() {
        let mut ring = Ring::default();
        ring.join(A, 100);
        ring.join(B, 100);
        ring.charge(A, 10, all);
        // A has nothing more: its turn ends with 90 octets of credit unused, and it leaves.
        ring.charge(B, 100, |class| class == B);
        assert!(!ring.holds(A));
        ring.join(A, 100);
        ring.charge(A, 150, |class| class == B);
        assert!(ring.holds(A), "in debt");
        ring.charge(B, 100, |class| class == B);
        ring.charge(B, 100, |class| class == B);
        ring.check();
        assert!(!ring.holds(A));
    }

    #[test]
    fn any_charge_ends() {
        let mut ring = Ring::default();
        ring.join(A, 1);
        ring.join(B, 1);
        ring.charge(A, u32::MAX, all);
        ring.charge(C, 5, all);
        ring.charge(B, u32::MAX, |_| false);
        ring.check();
    }
}
