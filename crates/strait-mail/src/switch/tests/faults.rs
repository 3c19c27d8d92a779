//! What was answered for arrives once, whatever fails when: storage that is slow or refuses, power
//! cuts that lose what wasn't answered yet, and a link that goes within any dialogue.

use alloc::collections::BTreeSet;

use strait_core::chance::Stream as Chance;

use super::*;

impl World {
    /// Storage does the next thing that it was asked, or refuses it.
    pub(super) fn serve(&mut self, at: usize, refuses: bool) -> bool {
        let Some(effect) = self.sites[at].asked.pop_front() else {
            return false;
        };
        self.sites[at].busy = refuses.into();
        self.slow = false;
        self.act(at, effect);
        self.slow = true;
        self.sites[at].busy = 0;
        self.run();
        true
    }

    /// A power cut: of what storage was asked and hadn't answered, the first `kept` are there.
    fn cut_power(&mut self, at: usize, kept: usize) {
        let asked = core::mem::take(&mut self.sites[at].asked);
        for effect in asked.into_iter().take(kept) {
            if let Effect::Store { batch, .. } = effect {
                self.sites[at].change(batch);
            }
        }
        self.restart(at);
    }

    /// What crossed a link that is gone is lost: connections end, which the far end may not hear.
    fn lose_connections(&mut self) {
        for at in 0..2 {
            let ends = core::mem::take(&mut self.sites[at].ends);
            let heard = ends
                .into_keys()
                .filter(|it| it.0 == Side::Node || !self.deaf);
            let heard: Vec<_> = heard.collect();
            for (side, n) in heard {
                self.hear(at, side, n, StreamEvent::Reset(110));
            }
        }
        self.run();
    }

    /// Nothing fails any more, and all is done.
    fn heal(&mut self) {
        (self.up, self.left) = (true, usize::MAX);
        while self.serve(0, false) || self.serve(1, false) {}
        self.slow = false;
        self.pass(Duration::from_secs(900));
    }
}

/// The numbers of the messages in a site's mailbox, each of them whole.
fn numbers(world: &World, at: usize, sent: &[String]) -> BTreeSet<u64> {
    let number = |(_, _, text): &(String, String, String)| {
        let (_, end) = text.split_once("Subject: ").unwrap();
        let n: u64 = end.lines().next().unwrap().parse().unwrap();
        let whole = sent[n as usize].replace("\r\n", "\n");
        assert!(text.ends_with(&format!("{whole}\n")), "{n} isn't whole");
        n
    };
    world.sites[at].delivered.iter().map(number).collect()
}

fn play(seed: u64) {
    let mut chance = Chance::new(seed, "mail.faults");
    let mut world = World::new();
    (world.slow, world.deaf) = (true, seed.is_multiple_of(2));
    let mut sent: Vec<String> = Vec::new();
    let mut to = [BTreeSet::new(), BTreeSet::new()];
    for _ in 0..120 {
        let at = chance.below(2) as usize;
        match chance.below(16) {
            0..3 => {
                let n = sent.len() as u64;
                // Every other is stored in several pieces.
                let lines = chance.below(if n.is_multiple_of(2) { 1800 } else { 20 }) as usize;
                sent.push(format!("Subject: {n}\r\n\r\n{}", noise(lines)));
                to[at].insert(n);
                let mailbox = format!("ops@{}.example", ["a", "b"][at]);
                let priority = [-4, -2, 0, 2, 4, 6][chance.below(6) as usize];
                let options = format!(" MT-PRIORITY={priority}");
                world.submit(n, &options, &mailbox, &sent[n as usize]);
            }
            3 => {
                let kept = chance.below(world.sites[at].asked.len() as u64 + 1) as usize;
                world.cut_power(at, kept);
            }
            4 => world.up = !world.up,
            5 => world.left = chance.below(200_000) as usize,
            6 => world.pass(Duration::from_millis(chance.below(5000))),
            _ => drop(world.serve(at, chance.happens(0.2))),
        }
        if !world.up {
            world.lose_connections();
        }
    }
    world.heal();
    let answered = |n: &u64| {
        let mut lines = world.sites[0].heard[&(PROGRAM + n)].lines();
        lines.any(|it| it.starts_with("250 ") && it.ends_with(" stored"))
    };
    for (at, all) in to.iter().enumerate() {
        let there = numbers(&world, at, &sent);
        let lost: Vec<_> = all
            .iter()
            .filter(|n| answered(n) && !there.contains(n))
            .collect();
        assert!(
            lost.is_empty(),
            "seed {seed}: answered for and lost: {lost:?}"
        );
        assert_eq!(world.files(at), there.len(), "seed {seed}: one came twice");
    }
    assert!(world.is_empty(), "seed {seed}: something is stored yet");
}

#[test]
fn what_was_answered_for_arrives_once_whatever_fails() {
    (0..100).for_each(play);
}
