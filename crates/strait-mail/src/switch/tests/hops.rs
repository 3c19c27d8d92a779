//! Routes with several next hops: who has a message, and that it comes once.

use strait_core::mail::MailState;

use super::*;

/// Switch 0 has two next hops for `b.example`: site 1, whose mailbox it is, and site 2, which has
/// the same one. What lies in both came twice.
fn settings_of(at: usize) -> Settings {
    let mut own = settings(at.min(1));
    if at == 0 {
        own.routes[0].hops.push(hop(own_ip(2)));
        return own;
    }
    own.name = ["", "b.example", "c.example"][at].into();
    for listener in &mut own.listeners {
        if listener.lane {
            listener.address.set_ip(own_ip(at));
        } else {
            listener.address.set_port(25 + at as u16);
        }
    }
    own
}

fn world() -> World {
    World::of((0..3).map(settings_of).collect())
}

impl World {
    /// Whether what is said comes to nothing: to a site that takes it and is silent.
    pub(super) fn swallows(
        &mut self,
        from: (usize, (Side, u64)),
        to: (usize, Side, u64),
        octets: &[u8],
    ) -> bool {
        let Some((site, word)) = self.deafens else {
            return false;
        };
        let mut said = octets.windows(word.len());
        if to.0 == site && said.any(|it| it == word.as_bytes()) {
            self.deafened.insert((to.1, to.2));
        }
        let silent = |(at, end): (usize, (Side, u64))| at == site && self.deafened.contains(&end);
        silent(from) || silent((to.0, (to.1, to.2)))
    }

    fn state(&self) -> (String, MailState) {
        let view = self.sites[0].switch.view(self.now);
        let row = &view.messages[0];
        (row.hop.clone(), row.state)
    }

    fn obey(&mut self, order: MailOrder) {
        let now = self.now;
        self.sites[0].switch.obey(now, order);
        self.run();
    }

    fn stats(&self) -> MailStats {
        *self.sites[0].switch.stats()
    }
}

const SECOND: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where a message has begun, by a line of 9600 bit/s.
const ANSWER: Duration = Duration::from_secs(44);

/// A text that gets hardly shorter than some thousand octets.
fn long_text() -> String {
    let words = (0..2000_u32).map(|n| format!("{} ", n * 7919 % 10_007));
    let text: Vec<String> = words.collect();
    let text: Vec<String> = text.chunks(10).map(|line| line.concat()).collect();
    format!("\r\n{}", text.join("\r\n"))
}

#[test]
fn the_second_next_hop_has_messages_while_the_first_is_down() {
    let mut world = world();
    world.submit(1, "", "ops@b.example", "\r\none");
    assert_eq!((world.files(1), world.files(2)), (1, 0));
    world.away.insert(1);
    world.submit(2, " MT-PRIORITY=4", "ops@b.example", "\r\ntwo");
    world.pass(PATIENCE - SECOND);
    assert_eq!(world.state(), ("10.9.0.2".into(), MailState::LinkDown));
    assert_eq!((world.files(2), world.stats().hops_out), (0, 0));
    world.pass(SECOND);
    assert_eq!((world.files(1), world.files(2)), (1, 1));
    assert_eq!((world.stats().moved, world.stats().hops_out), (1, 1));
    world.submit(3, "", "ops@b.example", "\r\nthree");
    assert_eq!(world.files(2), 2);
    // The first is heard again, and has all that comes from now on.
    world.away.clear();
    world.pass(SECOND);
    assert_eq!(world.stats().hops_out, 0);
    world.submit(4, "", "ops@b.example", "\r\nfour");
    assert_eq!((world.files(1), world.files(2)), (2, 2));
    assert!(world.is_empty());
}

/// A way is there, and nobody answers.
#[test]
fn the_second_next_hop_has_messages_while_the_first_is_silent() {
    let mut world = world();
    world.silent.insert(1);
    world.restart_as(0, settings_of(0));
    world.pass(PATIENCE);
    assert_eq!(world.stats().hops_out, 1);
    world.submit(1, "", "ops@b.example", "\r\none");
    assert_eq!((world.files(1), world.files(2)), (0, 1));
    world.silent.clear();
    world.pass(Duration::from_secs(61));
    assert_eq!(world.stats().hops_out, 0);
    world.submit(2, "", "ops@b.example", "\r\ntwo");
    assert_eq!((world.files(1), world.files(2)), (1, 1));
}

/// A kernel that has taken much tells of nothing until that has gone, by a slow line.
#[test]
fn a_next_hop_whose_line_is_busy_is_not_silent() {
    let mut all: Vec<Settings> = (0..3).map(settings_of).collect();
    all[0].routes[0].patience = SECOND;
    let mut world = World::of(all);
    world.keeps = true;
    world.submit(1, " MT-PRIORITY=4", "ops@b.example", &long_text());
    // A piece takes 8 s, and what the kernel has of it and before 13.7 s.
    world.pass(Duration::from_secs(43));
    assert_eq!(world.stats().hops_out, 0);
    world.pass(SECOND);
    assert_eq!(world.stats().hops_out, 1);
}

/// It greets, and never answers for a message: it binds some once, then one in ever more time.
#[test]
fn a_next_hop_that_greets_and_never_answers_gets_hardly_anything() {
    let mut world = world();
    // It hears what it is told from the first message on, and says nothing to that.
    world.deafens = Some((1, "MAIL FROM"));
    for n in 1..=20 {
        world.submit(n, " MT-PRIORITY=4", "ops@b.example", "\r\none");
    }
    world.pass(ANSWER);
    let bound = |world: &World| {
        let rows = world.sites[0].switch.view(world.now).messages;
        rows.iter().filter(|it| it.hop == "10.9.0.2").count()
    };
    assert_eq!((bound(&world), world.files(2)), (8, 12));
    assert_eq!(world.stats().hops_out, 1);
    // It is tried again now and then, by what it may have already; new messages go by the other.
    for n in 21..=80 {
        world.submit(n, " MT-PRIORITY=4", "ops@b.example", "\r\none");
        world.pass(Duration::from_secs(60));
    }
    assert!(bound(&world) <= 14, "{}", bound(&world));
    // It answers again, and has its messages, each once.
    world.deafens = None;
    world.pass(Duration::from_secs(3700));
    assert_eq!(world.files(1) + world.files(2), 80);
    assert_eq!(world.stats().hops_out, 0);
    assert!(world.is_empty());
}

/// What may have come there stays, and comes once: only its next hop can tell.
#[test]
fn what_a_next_hop_may_have_stays_with_it() {
    let mut world = world();
    // It takes the message, and its answer is lost.
    world.mute.insert(1);
    world.submit(1, " MT-PRIORITY=4", "ops@b.example", "\r\none");
    world.pass(ANSWER);
    let stays = ("10.9.0.2".into(), MailState::Doubtful);
    assert_eq!(world.state(), stays);
    assert_eq!((world.files(1), world.files(2)), (1, 0));
    world.restart_as(0, settings_of(0));
    world.pass(ANSWER);
    assert_eq!(world.state(), stays);
    // What it can't have goes by the other.
    world.submit(2, " MT-PRIORITY=4", "ops@b.example", "\r\ntwo");
    assert_eq!((world.files(1), world.files(2)), (1, 1));
    world.mute.clear();
    world.pass(Duration::from_secs(61));
    assert_eq!((world.files(1), world.files(2)), (1, 1));
    assert!(world.is_empty());
}

/// A message that broke off can't have come.
#[test]
fn what_broke_off_goes_by_another_next_hop() {
    let mut world = world();
    world.left = 600;
    world.submit(1, " MT-PRIORITY=4", "ops@b.example", &long_text());
    assert_eq!(world.left, 0);
    (world.up, world.left) = (true, usize::MAX);
    world.away.insert(1);
    world.pass(PATIENCE);
    assert_eq!((world.files(1), world.files(2)), (0, 1));
    assert!(world.sites[0].switch.view(world.now).messages.is_empty());
}

#[test]
fn an_operator_has_a_message_go_another_way_over_a_restart_too() {
    let mut world = world();
    world.away.extend([1, 2]);
    world.submit(1, "", "ops@b.example", "\r\none");
    world.submit(2, "", "ops@b.example", "\r\ntwo");
    world.obey(MailOrder::Reroute(2, Some(own_ip(2))));
    // Nowhere, as it isn't of that route.
    world.obey(MailOrder::Reroute(1, Some(own_ip(7))));
    world.restart_as(0, settings_of(0));
    let rows = world.sites[0].switch.view(world.now).messages;
    let hops: Vec<_> = rows.iter().map(|it| (it.id, it.hop.as_str())).collect();
    assert_eq!(hops, [(1, "10.9.0.2"), (2, "10.9.0.3")]);
    world.obey(MailOrder::Reroute(2, None));
    assert_eq!(
        world.sites[0].switch.view(world.now).messages[1].hop,
        "10.9.0.2"
    );
    world.obey(MailOrder::Reroute(2, Some(own_ip(2))));
    world.away.clear();
    world.pass(SECOND);
    assert_eq!((world.files(1), world.files(2)), (1, 1));
}

#[test]
fn an_operator_has_one_next_hop_in_the_place_of_another() {
    let mut world = world();
    let (first, second) = (own_ip(1), own_ip(2));
    world.obey(MailOrder::Divert(first, Some(second)));
    world.obey(MailOrder::Divert(first, Some(own_ip(7))));
    world.submit(1, "", "ops@b.example", "\r\none");
    world.restart_as(0, settings_of(0));
    world.submit(2, "", "ops@b.example", "\r\ntwo");
    assert_eq!((world.files(1), world.files(2)), (0, 2));
    let hops = world.sites[0].switch.view(world.now).hops;
    assert_eq!((hops[0].instead, hops[1].used), (Some(second), true));
    // The one in its place is down: the first that is there has them all the same.
    world.away.insert(2);
    world.pass(PATIENCE);
    world.submit(3, "", "ops@b.example", "\r\nthree");
    assert_eq!((world.files(1), world.files(2)), (0, 2));
    world.obey(MailOrder::Divert(first, None));
    world.pass(SECOND);
    assert_eq!((world.files(1), world.files(2)), (1, 2));
    let kept = world.sites[0].store.keys();
    assert!(!kept.clone().any(|key| key.starts_with(b"mail/divert/")));
}

/// Where a message goes isn't stored: it waits, and nothing before it goes.
#[test]
fn a_message_is_begun_when_storage_knows_where() {
    let mut world = world();
    world.up = false;
    world.submit(1, "", "ops@b.example", "\r\none");
    world.sites[0].full = true;
    world.up = true;
    world.pass(SECOND);
    assert_eq!(world.files(1) + world.files(2), 0);
    assert!(world.stats().unstored > 0);
    world.sites[0].full = false;
    world.pass(Duration::from_secs(2));
    assert_eq!((world.files(1), world.files(2)), (1, 0));
    assert!(world.is_empty());
}
