//! What operators order and set, and who may bring what.

use strait_core::mail::MailState;

use super::*;

#[test]
fn an_operator_has_only_urgent_messages_go_over_a_restart_too() {
    let mut world = World::new();
    world.sites[0]
        .switch
        .obey(world.now, MailOrder::Minimize(3));
    world.submit(1, " MT-PRIORITY=0", "ops@b.example", "\r\nlater");
    world.submit(2, " MT-PRIORITY=2", "ops@b.example", "\r\nnow");
    world.submit(3, "", "ops@a.example", "\r\nhere");
    world.restart(0);
    world.pass(Duration::from_secs(60));
    assert_eq!((world.files(0), world.files(1)), (1, 1));
    let entries = world.sites[0].switch.view(world.now).messages;
    assert_eq!(entries[0].state, MailState::Minimized);
    assert_eq!(world.sites[0].switch.stats().minimize, 3);
    let now = world.now;
    world.sites[0].switch.obey(now, MailOrder::Minimize(0));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.files(1), 2);
}

#[test]
fn a_precedence_has_its_hours() {
    let mut world = World::new();
    // The calendar says midnight when the test begins.
    let (from, to) = (3600, 7200);
    let lanes = &mut world.sites[0].switch.queue.settings.lanes;
    lanes[1].hours = Some(Hours { from, to });
    world.submit(1, " MT-PRIORITY=-2", "ops@b.example", "\r\nlater");
    let start = world.now;
    world.pass(Duration::from_secs(3500));
    let entries = world.sites[0].switch.view(world.now).messages;
    assert_eq!(entries[0].state, MailState::Closed);
    world.pass(Duration::from_secs(200));
    assert_eq!(world.files(1), 1, "{:?}", world.now.since(start));
    let night = Hours {
        from: 79_200,
        to: 3600,
    };
    assert!(night.contains(79_200) && night.contains(0) && !night.contains(3600));
    assert_eq!(
        (night.next(0), night.next(3600), night.next(79_200)),
        (3600, 79_200, 90_000)
    );
}

#[test]
fn an_urgent_message_that_is_here_for_too_long_is_an_alarm() {
    let mut world = World::new();
    world.up = false;
    world.submit(1, " MT-PRIORITY=4", "ops@b.example", "\r\nhello");
    world.submit(2, "", "ops@b.example", "\r\nhello");
    world.pass(Duration::from_secs(299));
    assert_eq!(world.sites[0].switch.stats().overdue, 0);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.sites[0].switch.stats().overdue, 1);
    world.up = true;
    world.pass(Duration::from_secs(1));
    assert_eq!(world.sites[0].switch.stats().overdue, 0);
}

#[test]
fn a_message_is_too_long_for_its_precedence() {
    let mut world = World::new();
    let heard = world.submit(1, " MT-PRIORITY=4 SIZE=200001", "ops@b.example", "\r\nx");
    assert!(heard.contains("552 5.7.16"), "{heard}");
    let text = "x".repeat(900).repeat(230);
    let heard = world.submit(
        2,
        "",
        "ops@b.example",
        &format!("Priority: urgent\r\n\r\n{text}"),
    );
    assert!(heard.contains("552 5.7.16"), "{heard}");
    let heard = world.submit(3, "", "ops@b.example", &text);
    assert!(heard.contains("stored") && world.files(1) == 1, "{heard}");
}

/// Clients of one who may ask for Immediate at most, and TLS on the way to the next hop.
#[test]
fn users_log_in_and_have_their_precedence() {
    let mut world = World::new();
    let mut settings = settings(0);
    settings.users = vec![UserSettings {
        name: "ops".into(),
        hash: "AG9wcwBzZWNyZXQ=".into(),
        most: Precedence::Immediate,
    }];
    let tls = Tls {
        profile: "mail".into(),
        at_once: true,
    };
    (settings.listeners[0].tls, settings.listeners[0].users) = (Some(tls), true);
    settings.routes[0].hops[0].tls = Some(("outside".into(), "b.example".into()));
    settings.routes[0].hops[0].login = Some(("a".into(), "a.password".into()));
    world.sites[1].switch.queue.settings.users = vec![UserSettings {
        name: "a".into(),
        hash: "a@a.password".into(),
        most: Precedence::Override,
    }];
    for other in &mut world.sites[1].switch.queue.settings.listeners {
        let profile = "mail".into();
        other.tls = Some(Tls {
            profile,
            at_once: false,
        });
        other.users = true;
    }
    world.sites.iter_mut().for_each(|it| it.ends.clear());
    world.sites[0].switch = Switch::new(OWNER, settings, 1, &[]);
    world.run();
    // Both ends of lanes that stay open.
    for profile in ["mail", "outside"] {
        assert!(world.secured.iter().any(|it| it == profile));
    }
    world.secured.clear();
    let mail = "MAIL FROM:<ops@a.example> MT-PRIORITY=4\r\nRCPT TO:<ops@b.example>\r\nDATA\r\n";
    world.say(0, 1, "127.0.0.1", "");
    let wrong = world.say(0, 1, "127.0.0.1", "EHLO x\r\nAUTH PLAIN AG9wcwB4\r\n");
    assert!(
        wrong.ends_with("535 5.7.8 wrong name or password\r\n"),
        "{wrong}"
    );
    let nobody = world.say(0, 1, "127.0.0.1", "AUTH PLAIN AHgAc2VjcmV0\r\n");
    assert!(nobody.ends_with("535 5.7.8 wrong name or password\r\n"));
    let nobody = world.say(0, 1, "127.0.0.1", "MAIL FROM:<>\r\n");
    assert!(nobody.ends_with("530 5.7.0 log in first\r\n"), "{nobody}");
    world.say(0, 1, "127.0.0.1", "AUTH PLAIN AG9wcwBzZWNyZXQ=\r\n");
    let right = world.say(0, 1, "127.0.0.1", &format!("{mail}\r\nx\r\n.\r\n"));
    assert!(
        right.contains("235 2.7.0") && right.contains("250 2.3.6 2 is the new"),
        "{right}"
    );
    assert_eq!(world.sites[0].switch.stats().wrong_passwords, 2);
    assert_eq!(world.sites[1].delivered.len(), 1);
    assert_eq!(world.secured, ["mail"], "that of the client");
}
