//! Messages that are to be there by some time (RFC 2852).

use super::*;

const SECOND: Duration = Duration::from_secs(1);

impl World {
    /// What came of a report to `ops@a.example`: its action and status.
    fn reported(&self) -> Vec<(String, String)> {
        let texts = self.sites[0].delivered.iter().map(|it| it.2.as_str());
        let field = |text: &str, name: &str| {
            let mut lines = text.lines();
            let found = lines.find_map(|line| line.strip_prefix(name));
            found.unwrap_or_default().trim().to_string()
        };
        let report = |text| (field(text, "Action:"), field(text, "Status:"));
        texts.map(report).collect()
    }
}

fn told(action: &str, status: &str) -> Vec<(String, String)> {
    vec![(action.into(), status.into())]
}

#[test]
fn a_message_returns_when_it_would_be_late() {
    let mut world = World::new();
    world.up = false;
    world.submit(1, " BY=60;R", "ops@b.example", "\r\none");
    world.pass(Duration::from_secs(59));
    assert_eq!(world.reported(), []);
    world.pass(SECOND);
    assert_eq!(world.reported(), told("failed", "5.4.7"));
    world.up = true;
    world.pass(SECOND);
    assert_eq!(world.files(1), 0);
    assert!(world.is_empty());
}

/// Held or not: what its sender doesn't want to come late doesn't.
#[test]
fn a_held_message_returns_as_well() {
    let mut world = World::new();
    world.up = false;
    world.submit(1, " BY=60;R", "ops@b.example", "\r\none");
    let now = world.now;
    world.sites[0].switch.obey(now, MailOrder::Hold(1));
    world.pass(Duration::from_secs(60));
    assert_eq!(world.reported(), told("failed", "5.4.7"));
    assert!(world.is_empty());
}

#[test]
fn a_late_message_goes_on_and_its_sender_is_told_once() {
    let mut world = World::new();
    world.up = false;
    world.submit(1, " BY=60;N", "ops@b.example", "\r\none");
    world.pass(Duration::from_secs(60));
    assert_eq!(world.reported(), told("delayed", "4.4.7"));
    world.restart(0);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.reported(), told("delayed", "4.4.7"));
    world.up = true;
    world.pass(SECOND);
    assert_eq!(world.files(1), 1);
    assert!(world.is_empty());
}

/// An operator who asks meanwhile isn't told that the queue is empty.
#[test]
fn what_is_stored_is_counted_before_it_is_read() {
    let mut world = World::new();
    world.up = false;
    for n in 1..3 {
        world.submit(n, "", "ops@b.example", "\r\none");
    }
    let stored = world.sites[0].store.iter();
    let stored: Vec<_> = stored
        .map(|(key, it)| (key.clone(), it.len() as u64))
        .collect();
    let view = Switch::new(OWNER, settings(0), 9, &stored).view(world.now);
    assert_eq!((view.messages.len(), view.unread), (0, 2));
}

/// The next switch hears what is left, and it is traced by each.
#[test]
fn each_switch_passes_on_what_is_left() {
    let mut world = World::new();
    world.up = false;
    world.submit(1, " BY=60;RT", "ops@b.example", "\r\none");
    world.pass(Duration::from_secs(25));
    let row = world.sites[0].switch.view(world.now).messages;
    assert_eq!(row[0].by.as_deref(), Some("35;RT"));
    (world.slow, world.up) = (true, true);
    world.pass(SECOND);
    let mut heard = None;
    while world.serve(0, false) || world.serve(1, false) {
        let there = world.sites[1].switch.view(world.now).messages;
        heard = heard.or_else(|| there.first()?.by.clone());
    }
    assert_eq!(heard.as_deref(), Some("35;RT"));
    assert_eq!((world.files(1), world.files(0)), (1, 1));
    assert_eq!(world.reported(), told("relayed", "2.0.0"));
}

/// A switch that knows nothing of times gets none that is to return, and others' senders hear that
/// nobody watches any more.
#[test]
fn a_next_hop_without_the_extension_gets_what_need_not_return() {
    for (options, outcome, files) in [
        (" BY=60;R", told("failed", "5.3.3"), 0),
        (" BY=60;N", told("relayed", "2.0.0"), 1),
    ] {
        let mut world = World::new();
        world.forgets = Some("250-DELIVERBY\r\n");
        world.restart(0);
        world.submit(1, options, "ops@b.example", "\r\none");
        assert_eq!(world.reported(), outcome);
        assert_eq!(world.files(1), files);
    }
}
