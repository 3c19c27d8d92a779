//! How long a station of a net has to wait for its turn by what the rule of access says, when all
//! others have something to say: worked out from the rule and from how long transmissions last.
//! Nothing is run for it, and no run changes it.

use super::hf_nets::Rule;

/// A block of the channel of `scenarios/hf/net.toml`, and as long takes decoding it.
const BLOCK_S: f64 = 0.48;

/// What a transmission takes beside its blocks, from the decision to begin to its end at the
/// others: turnaround and preamble, decoding the last block, propagation.
const AROUND_S: f64 = 0.2 + 0.24 + BLOCK_S + 0.005;

/// From the end of a transmission to the decision to answer.
const GUARD_S: f64 = 0.05;

/// A slot of listening before transmitting.
const SLOT_S: f64 = 0.6;

/// Slots among which is drawn.
const SLOTS: u32 = 16;

/// Whole blocks of the longest turn, of 15 s.
pub(super) const TURN_BLOCKS: u32 = 31;

/// From the decision to begin to when all others have a transmission of so many blocks.
pub(super) fn sent_s(blocks: u32) -> f64 {
    f64::from(blocks) * BLOCK_S + AROUND_S
}

/// From the end of a transmission to when the next one begins in the first slot: the answer, and
/// that slot.
pub(super) fn answered_s() -> f64 {
    GUARD_S + sent_s(1) + SLOT_S
}

/// How long others' turns, each of so many blocks, keep a station of a net from its own, 95 times
/// of a hundred; `None` where the rule doesn't say.
pub(super) fn others_s(rule: Rule, stations: usize, blocks: u32) -> Option<f64> {
    let turn_s = sent_s(blocks) + answered_s();
    let count = stations as f64;
    match rule {
        // Each other station has one turn, and each slot either begins one or costs itself.
        Rule::Address => Some((count - 1.0) * turn_s),
        Rule::Chance => {
            let first = (0..SLOTS).map(|slot| later(slot, 1.0).powf(count - 1.0));
            let alone = first.sum::<f64>() * count / f64::from(SLOTS);
            let drawn: f64 = (0..SLOTS).map(|slot| later(slot, 1.0).powf(count)).sum();
            Some(drawn_s(alone / count, turn_s + drawn * SLOT_S))
        }
        Rule::Jitter => {
            let alone = later(0, 1.0).powf(count);
            let drawn = f64::from(SLOTS) / (count + 1.0);
            Some(drawn_s(alone / count, turn_s + drawn * SLOT_S))
        }
        // Who speaks first after each transmission may do so for ever.
        Rule::Turns | Rule::Slots => None,
    }
}

/// The share of draws that are so many slots later than a slot.
fn later(slot: u32, by: f64) -> f64 {
    1.0 - (f64::from(slot) + by) / f64::from(SLOTS)
}

/// Turns that a station loses before it wins one, 95 times of a hundred, each of which it wins
/// with this probability.
fn drawn_s(wins: f64, turn_s: f64) -> f64 {
    (0.05_f64.ln() / (1.0 - wins).ln()).ceil() * turn_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_addresses_each_other_station_has_one_turn() {
        let two = others_s(Rule::Address, 2, TURN_BLOCKS);
        let five = others_s(Rule::Address, 5, TURN_BLOCKS);
        // 15.8 s until all have it, 1.45 s until all have the answer, and a slot.
        assert!(two.is_some_and(|two| (two - 17.86).abs() < 1e-9), "{two:?}");
        assert_eq!(five, two.map(|two| 4.0 * two));
    }

    #[test]
    fn drawn_waits_are_won_as_often_as_draws_show() {
        let mut chance = strait_core::chance::Stream::new(1, "draws");
        let (draws, mut won, mut least) = (200_000, 0, 0);
        for _ in 0..draws {
            let mut slots = [0; 5].map(|_| chance.below(SLOTS.into()));
            let own = slots[0];
            slots.sort_unstable();
            won += u32::from(own == slots[0] && slots[0] != slots[1]);
            least += slots[0];
        }
        let drawn = least as f64 / f64::from(draws) * SLOT_S;
        let turn_s = sent_s(TURN_BLOCKS) + answered_s() + drawn;
        let shown = drawn_s(f64::from(won) / f64::from(draws), turn_s);
        let derived = others_s(Rule::Chance, 5, TURN_BLOCKS);
        assert!(derived.is_some_and(|derived| (derived / shown - 1.0).abs() < 0.01));
    }
}
