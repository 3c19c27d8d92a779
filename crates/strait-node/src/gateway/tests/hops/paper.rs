//! The published format between gateways.

use super::*;

/// As `text`, with all its ports in the published format.
fn published(text: &str) -> String {
    text.replace("\"hbh\"", "\"hbh\"\nhbh = { format = \"paper\" }")
}

fn numbered(number: u16) -> Vec<u8> {
    let socket = |text: &str| SocketAddr::new(text.parse::<IpAddr>().unwrap(), 9);
    let (src, dst) = (socket("10.1.0.2"), socket("10.2.0.2"));
    let mut bytes = Vec::new();
    ip::build_udp(src, dst, 0, 64, number, 0, &[1; 472], &mut bytes);
    bytes
}

#[test]
fn a_packet_crosses_two_hops_and_comes_out_as_it_was() {
    let mut nodes = [
        node(&published(END), 1),
        node(&published(RELAY), 2),
        node(&published(END), 3),
    ];
    talk(ms(0), &mut nodes, &CHAIN);
    let bytes = udp("10.1.0.2", "10.2.0.2", 500, 0);
    nodes[0].handle(ms(1), frame(PortId::HOST, &bytes));
    let octets = pull(&mut nodes[0], HOP, ms(1), 2000);
    assert_eq!(octets.len(), 500 + 8);
    assert_eq!(nodes[0].stats().held(), 1);
    nodes[1].handle(ms(2), frame(LEFT, &octets));
    // Asked for, as nothing waits behind it, the acknowledgement goes at once and by itself.
    let ack = pull(&mut nodes[1], LEFT, ms(2), 2000);
    assert_eq!(ack.len(), 8);
    nodes[0].handle(ms(3), frame(HOP, &ack));
    assert_eq!(nodes[0].stats().held(), 0);
    let ended = fates(&mut nodes[0]);
    assert!(matches!(ended[0].fate, Fate::Forwarded { port: HOP, .. }));
    talk(ms(4), &mut nodes, &CHAIN);
    let came = pull_all(&mut nodes[2], PortId::HOST, ms(5));
    assert_eq!(came.len(), 1);
    assert_eq!(ip::digest(&came[0]), ip::digest(&bytes));
}

#[test]
fn a_sender_is_told_of_what_waits_and_slows_down() {
    let mut nodes = [
        node(&published(END), 1),
        node(&published(RELAY), 2),
        node(&published(END), 3),
    ];
    talk(ms(0), &mut nodes, &CHAIN);
    // Nothing leaves to the right: eight are sent, and 20 wait before the word of it goes.
    let near = &CHAIN[..1];
    for number in 0..40 {
        let at = ms(1 + u64::from(number));
        nodes[0].handle(at, frame(PortId::HOST, &numbered(number)));
        talk(at, &mut nodes, near);
    }
    assert_eq!(nodes[1].stats().dropped.total(), 0);
    let (waits, sent) = (nodes[1].stats().held(), nodes[0].stats().held());
    assert!((20..30).contains(&waits), "{waits}");
    assert!(sent > 10, "{sent}");
    // The rate lets some through with time, and never more than the limit of 50 wait.
    for at in 1..400 {
        let number = 40 + at as u16;
        nodes[0].handle(ms(at * 100), frame(PortId::HOST, &numbered(number)));
        talk(ms(at * 100), &mut nodes, near);
    }
    let waits = nodes[1].stats().held();
    assert!((40..=50).contains(&waits), "{waits}");
    assert!(nodes[1].stats().ports[1].hop.refused > 0);
    // What a relay took in it didn't drop: what is given up is with who sends.
    assert_eq!(nodes[1].stats().dropped.total(), 0);
}

#[test]
fn ends_of_different_formats_count_each_others_hellos() {
    let mut nodes = [node(END, 1), node(&published(END), 2)];
    talk(ms(0), &mut nodes, &PAIR);
    let bytes = udp("10.1.0.2", "10.2.0.2", 500, 0);
    nodes[0].handle(ms(1), frame(PortId::HOST, &bytes));
    assert!(pull(&mut nodes[0], HOP, ms(1), 2000).is_empty());
    for node in &nodes {
        assert_eq!(node.stats().ports[1].hop.other_format, 1);
    }
}

#[test]
fn keys_of_the_other_format_are_refused_by_name() {
    let wrong = |keys: &str, more: &str| {
        let keys = format!("\"hbh\"\n{more}hbh = {{ {keys} }}");
        let text = END.replace("\"hbh\"", &keys);
        let config: NodeConfig = config_text::parse("test.toml", &text).unwrap();
        Gateway::new(&config).map(drop).map_err(|it| it.to_string())
    };
    let paper = |keys: &str| format!("format = \"paper\", paper = {{ {keys} }}");
    let usual = paper("window = 4, window_max = 16, retries = 2, timeout = \"110 ms\"");
    assert_eq!(wrong(&usual, ""), Ok(()));
    for (keys, key) in [
        ("format = \"paper\", window = 9".into(), "hbh.window"),
        ("format = \"paper\", in_order = []".into(), "hbh.in_order"),
        ("paper = { retries = 1 }".into(), "hbh.paper"),
        (paper("window = 65"), "hbh.paper.window"),
        (paper("window = 9, window_max = 8"), "hbh.paper.window_max"),
        (paper("notify = 0"), "hbh.paper.notify"),
        (paper("notify = 51"), "hbh.paper.notify"),
    ] {
        let fault = wrong(&keys, "").unwrap_err();
        assert!(fault.contains(key), "{keys}: {fault}");
    }
    let fault = wrong("format = \"paper\"", "check = 32\n").unwrap_err();
    assert!(fault.contains("check"), "{fault}");
}
