//! What is done for slow links: traces are thinned, and texts go before attachments.

use super::*;

const DATE: &str = "Sun, 29 Nov 2026 06:12:15 +0000";

/// Site 0 tells site 1 little of a message's way.
fn thin() -> Settings {
    let mut own = settings(0);
    own.routes[0].hops[0].thin = true;
    own
}

fn traces(n: usize) -> String {
    let one = |n| {
        format!(
            "Received: from h{n}.example (h{n}.example [10.0.0.{n}])\r\n\tby s{n}.example with ESMTPS id \
             x{n} for <ops@b.example>; {DATE} (UTC)\r\nAuthentication-Results: s{n}.example; spf=pass\r\n"
        )
    };
    (0..n).map(one).collect()
}

#[test]
fn of_traces_crosses_by_whom_and_when() {
    let mut world = World::of(vec![thin(), settings(1)]);
    let text = format!("{}Subject: x\r\n\r\nhello", traces(3));
    world.submit(1, " MT-PRIORITY=4", "ops@b.example", &text);
    let file = &world.sites[1].delivered[0].2;
    let lines: Vec<&str> = file.lines().collect();
    let right = [
        "Received: by a.example; Fri, 27 Nov 2026 00:00:00 +0000".to_string(),
        format!("Received: by s0.example; {DATE}"),
        format!("Received: by s1.example; {DATE}"),
        format!("Received: by s2.example; {DATE}"),
        "Subject: x".into(),
        String::new(),
        "hello".into(),
    ];
    assert_eq!(lines[2..], right, "{file}");
    // What stays here is as it came.
    world.submit(2, "", "ops@a.example", &text);
    let file = &world.sites[0].delivered[0].2;
    assert!(
        file.ends_with(&format!("{}\n", text.replace("\r\n", "\n"))),
        "{file}"
    );
    assert!(world.is_empty());
}

/// There are as many fields as before, so whoever counts them sees a circle.
#[test]
fn a_circle_with_thin_traces_ends() {
    let mut there = settings(1);
    there.routes[0].hops[0].thin = true;
    there.mailboxes = vec!["x@z.example".into()];
    there.routes[0].domains = vec![".".into()];
    let mut here = thin();
    here.mailboxes = vec!["ops@a.example".into()];
    here.routes[0].domains = vec![".".into()];
    let mut world = World::of(vec![here, there]);
    world.submit(1, "", "ops@c.example", "Subject: x\r\n\r\nhello");
    world.pass(Duration::from_secs(60));
    let taken = [0, 1].map(|at| world.sites[at].switch.stats().accepted);
    assert!((30..36).contains(&(taken[0] + taken[1])), "{taken:?}");
    assert!(world.sites[0].delivered[0].2.contains("5.4.6"));
    assert!(world.is_empty());
}

/// Wherever the line breaks, by whatever pieces it is sent, and whatever the node file says then.
#[test]
fn a_message_with_thin_traces_goes_on_behind_what_has_come() {
    let text = format!("{}Subject: x\r\n\r\n{}", traces(29), noise(300));
    for cut in 0..40_usize {
        let mut world = World::of(vec![thin(), settings(1)]);
        world.up = false;
        world.submit(1, "", "ops@b.example", &text);
        world.up = true;
        world.left = 200 + cut * cut * 15;
        world.run();
        match cut % 3 {
            0 => world.restart_as(0, thin()),
            1 => world.restart_as(0, settings(0)),
            _ => {}
        }
        world.pass(Duration::from_secs(30));
        (world.up, world.left) = (true, usize::MAX);
        world.pass(Duration::from_secs(60));
        assert_eq!(world.files(1), 1, "cut {cut}");
        let file = &world.sites[1].delivered[0].2;
        let end = text[text.find("Subject").unwrap()..].replace("\r\n", "\n");
        let end = format!("Received: by s28.example; {DATE}\n{end}\n");
        assert!(file.ends_with(&end), "cut {cut}: {file}");
        assert_eq!(file.matches("Received: by").count(), 30, "cut {cut}");
        assert!(world.is_empty(), "cut {cut}");
    }
}

/// Texts of messages over 2 kB go first, and all of it follows as Deferred.
fn parting() -> Settings {
    let mut own = settings(0);
    own.routes[0].text_first = Some(TextFirst {
        octets: 2000,
        rest: Precedence::Deferred,
    });
    own
}

fn attached(lines: usize) -> String {
    format!(
        "Subject: Fuel\r\nMessage-ID: <1@a>\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n\
         hello\r\n--b\r\nContent-Type: image/png\r\n\r\n{}--b--",
        noise(lines)
    )
}

#[test]
fn a_text_goes_first_and_the_whole_message_follows() {
    let mut world = World::of(vec![parting(), settings(1)]);
    world.up = false;
    let text = attached(100);
    let all = format!(
        "EHLO x\r\nMAIL FROM:<ops@a.example> MT-PRIORITY=4\r\nRCPT TO:<ops@b.example> NOTIFY=SUCCESS\r\n\
         DATA\r\n{text}\r\n.\r\n"
    );
    let heard = world.say(0, 2, "127.0.0.1", &all);
    let said =
        "250 2.3.6 -4 is the new priority assigned to the message, 1 stored, its text goes first";
    assert!(heard.contains(said), "{heard}");
    assert_eq!(world.sites[0].switch.stats().slow.texts_first, 1);
    world.restart_as(0, parting());
    let rows = world.sites[0].switch.view(world.now).messages;
    let lanes: Vec<&str> = rows.iter().map(|it| it.precedence).collect();
    assert_eq!(lanes, ["flash", "deferred"]);
    world.up = true;
    world.pass(Duration::from_secs(10));
    let files: Vec<&str> = world.sites[1]
        .delivered
        .iter()
        .map(|it| &it.2[..])
        .collect();
    let [first, whole] = files[..] else {
        panic!("{files:?}");
    };
    assert!(first.contains("PRIORITY 4;") && whole.contains("PRIORITY -4;"));
    let body = "Subject: Fuel (text first)\nMessage-ID: <text.1.1795737600@a.example>\n\
                References: <1@a>\nMIME-Version: 1.0\n\nhello\n";
    assert!(first.ends_with(body), "{first}");
    let text = text.replace("\r\n", "\n");
    let end = format!("\nX-Text-First: <text.1.1795737600@a.example>\n{text}\n");
    assert!(whole.ends_with(&end), "{whole}");
    // The whole message alone is reported.
    let reports: Vec<&str> = world.sites[0]
        .delivered
        .iter()
        .map(|it| &it.2[..])
        .collect();
    assert!(
        matches!(reports[..], [it] if it.contains("delivered")),
        "{reports:?}"
    );
    assert!(world.is_empty());
    let heard = world.say(0, 3, "127.0.0.1", &all);
    assert!(heard.ends_with("250 2.6.0 1 stored before\r\n"), "{heard}");
}

/// At a further switch, whose attachments have a lower precedence yet.
#[test]
fn a_text_that_went_first_does_not_go_again() {
    let mut first = parting();
    first.routes[0].text_first = first.routes[0].text_first.map(|it| TextFirst {
        rest: Precedence::Routine,
        ..it
    });
    let mut world = World::of(vec![first, settings(1)]);
    world.submit(1, " MT-PRIORITY=4", "ops@b.example", &attached(100));
    world.pass(Duration::from_secs(10));
    let files = world.sites[1].delivered.iter();
    let whole = files.filter(|it| it.2.contains("PRIORITY -2;"));
    let whole: Vec<String> = whole.map(|it| it.2.replace('\n', "\r\n")).collect();
    let mut world = World::of(vec![parting(), settings(1)]);
    world.submit(1, " MT-PRIORITY=-2", "ops@b.example", &whole[0]);
    world.pass(Duration::from_secs(10));
    assert_eq!((whole.len(), world.files(1)), (1, 1));
    assert!(world.sites[1].delivered[0].2.contains("PRIORITY -2;"));
}

#[test]
fn what_has_no_rule_goes_as_it_is() {
    for (options, to, lines) in [
        ("", "ops@b.example", 20),
        (" MT-PRIORITY=-4", "ops@b.example", 100),
        ("", "ops@a.example", 100),
        (" BY=100;R", "ops@b.example", 100),
    ] {
        let mut world = World::of(vec![parting(), settings(1)]);
        let heard = world.submit(1, options, to, &attached(lines));
        assert!(heard.contains(" stored\r\n"), "{heard}");
        assert_eq!(world.files(0) + world.files(1), 1, "{options} {to} {lines}");
    }
}
