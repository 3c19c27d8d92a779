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

const TEXT: &str = "Subject: 0\r\n\r\na line\r\nanother";

/// Once in the far mailbox if it was answered for, and nowhere else.
fn came_once(world: &mut World, what: &str) {
    world.heal();
    let mut lines = world.sites[0].heard[&PROGRAM].lines();
    let answered = lines.any(|it| it.starts_with("250 ") && it.ends_with(" stored"));
    let there = numbers(world, 1, &[TEXT.into()]).len();
    assert!(there == 1 || !answered && there == 0, "{what}: lost");
    assert_eq!(world.files(1), there, "{what}: it came twice");
    assert!(world.is_empty(), "{what}: something is stored yet");
}

/// Messages that go one behind the other, of which the first is refused: the next is no part of it.
#[test]
fn a_message_behind_a_refused_one_is_a_message_of_its_own() {
    let mut world = World::new();
    world.up = false;
    for (n, to) in [(0, "nobody"), (1, "ops"), (2, "nobody"), (3, "ops")] {
        let text = format!("Subject: {n}\r\n\r\nx");
        world.submit(n, "", &format!("{to}@b.example"), &text);
    }
    world.up = true;
    world.pass(Duration::from_secs(60));
    assert_eq!((world.files(0), world.files(1)), (2, 2));
    let reports = world.sites[0].delivered.iter();
    let refused = reports.filter(|it| it.2.contains("550 5.1.1 no such mailbox"));
    assert_eq!(refused.count(), 2);
    assert!(world.is_empty());
}

/// The link is gone behind each octet of a dialogue: within each command, and each reply.
#[test]
fn a_cut_behind_any_octet_loses_and_repeats_nothing() {
    for left in 0.. {
        for deaf in [false, true] {
            let mut world = World::new();
            (world.deaf, world.left) = (deaf, left);
            world.submit(0, " MT-PRIORITY=-2", "ops@b.example", TEXT);
            if world.up {
                let said: usize = world.crossed.iter().map(|it| it.1).sum();
                assert!(left > said && said > 300, "{left} {said}");
                return;
            }
            world.lose_connections();
            came_once(&mut world, &format!("behind {left} octets"));
        }
    }
}

/// A power cut at each thing that either storage is asked, of which the first ones are done.
#[test]
fn a_power_cut_at_any_step_loses_and_repeats_nothing() {
    let mut steps = 0;
    loop {
        let mut all = true;
        for (at, kept) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)] {
            let mut world = World::new();
            world.slow = true;
            world.submit(0, " MT-PRIORITY=4", "ops@b.example", TEXT);
            let served = |_: &usize| world.serve(0, false) || world.serve(1, false);
            all &= (0..steps).take_while(served).count() < steps;
            world.cut_power(at, kept);
            came_once(&mut world, &format!("at step {steps}, {kept} done at {at}"));
        }
        if steps > 0 && all {
            break;
        }
        steps += 1;
    }
    assert!(steps > 5, "{steps} steps");
}

#[test]
fn each_message_that_was_answered_for_arrives_over_any_restart() {
    for kill in 0..40 {
        let mut world = World::new();
        let mut answered = 0;
        for n in 0..4_u64 {
            let text = format!("\r\nnumber {n}");
            let heard = world.submit(n, "", "ops@b.example", &text);
            answered += u64::from(heard.contains("stored"));
            if kill % 4 == n {
                world.restart((kill / 4 % 2) as usize);
            }
            world.up = (kill + n) % 3 > 0;
        }
        world.up = true;
        world.pass(Duration::from_secs(600));
        let texts = world.sites[1]
            .delivered
            .iter()
            .map(|it| it.2.lines().last().unwrap());
        let texts: BTreeSet<String> = texts.map(ToString::to_string).collect();
        assert_eq!((texts.len() as u64, answered), (4, 4), "kill {kill}");
        assert_eq!(world.files(1), 4, "kill {kill}: a message came twice");
        assert!(world.is_empty());
    }
}
