use super::*;
use alloc::format;
use alloc::string::ToString;
use core::net::IpAddr;

fn udp(dscp: &str, ports: (u16, u16), octets: u32) -> PacketInfo {
    let dscp: Dscp = dscp.parse().unwrap();
    PacketInfo {
        src: "10.1.0.2".parse().unwrap(),
        dst: "10.2.0.2".parse().unwrap(),
        protocol: protocol::UDP,
        dscp: dscp.number(),
        ecn: 0,
        hop_limit: 64,
        flow_label: 0,
        ports: Some(ports),
        spi: None,
        tcp_bare: None,
        octets,
        dont_fragment: false,
        later_fragment: false,
    }
}

fn tcp(dscp: &str, bare: Option<TcpFlags>, octets: u32) -> PacketInfo {
    PacketInfo {
        protocol: protocol::TCP,
        tcp_bare: bare,
        ..udp(dscp, (40_000, 443), octets)
    }
}

fn other(protocol: u8, octets: u32) -> PacketInfo {
    PacketInfo {
        protocol,
        ports: None,
        ..udp("DF", (0, 0), octets)
    }
}

fn policy(text: &str) -> Result<Policy, PolicyError> {
    Policy::compile(&toml::from_str(text).unwrap())
}

fn class_of<'a>(policy: &'a Policy, packet: &PacketInfo) -> &'a str {
    &policy.classes()[policy.classify(packet).class.index()].name
}

#[test]
fn the_default_preset_gives_each_kind_of_traffic_its_class() {
    let policy = Policy::compile(&PolicyConfig::default()).unwrap();
    let ack = Some(TcpFlags::ACK);
    let fin = Some(TcpFlags::ACK | TcpFlags::FIN);
    let cases = [
        ("voice", udp("EF", (5004, 5004), 91)),
        ("voice", udp("VA", (5004, 5004), 91)),
        ("preferred", tcp("EF", None, 120)),
        ("interactive", udp("CS6", (698, 698), 200)),
        ("interactive", udp("CS7", (1, 2), 1400)),
        ("interactive", udp("CS5", (5060, 5060), 700)),
        ("bulk", tcp("CS1", ack, 52)),
        ("bulk", udp("LE", (53, 9999), 60)),
        ("bulk", tcp("AF11", None, 1500)),
        ("bulk", tcp("AF13", None, 1500)),
        ("interactive", tcp("DF", ack, 52)),
        ("interactive", tcp("AF21", ack, 72)),
        ("interactive", tcp("DF", Some(TcpFlags::SYN), 60)),
        ("standard", tcp("DF", fin, 52)),
        ("standard", tcp("DF", Some(TcpFlags::RST), 40)),
        ("standard", tcp("DF", None, 53)),
        ("interactive", other(protocol::ICMP, 84)),
        ("interactive", other(protocol::ICMPV6, 256)),
        ("standard", other(protocol::ICMP, 257)),
        ("interactive", udp("DF", (40_000, 53), 70)),
        ("interactive", udp("DF", (53, 40_000), 512)),
        ("standard", udp("DF", (53, 40_000), 513)),
        ("interactive", udp("DF", (123, 123), 76)),
        ("preferred", tcp("AF21", None, 200)),
        ("preferred", udp("AF43", (1, 2), 1400)),
        ("preferred", udp("CS2", (1, 161), 100)),
        ("preferred", udp("CS3", (1, 2), 100)),
        ("preferred", udp("CS4", (1, 2), 100)),
        ("standard", udp("DF", (443, 40_000), 1200)),
        ("standard", udp("5", (1, 2), 100)),
        ("standard", other(protocol::ESP, 100)),
    ];
    for (expected, packet) in cases {
        let found = policy.classify(&packet);
        assert_eq!(class_of(&policy, &packet), expected, "{packet:?}");
        assert_eq!((found.mark, found.filter), (None, false));
    }
    assert_eq!(policy.warnings(), []);
}

#[test]
fn lower_effort_ranks_below_best_effort_in_the_default_preset() {
    let policy = Policy::compile(&PolicyConfig::default()).unwrap();
    let class = |dscp| policy.classify(&udp(dscp, (1, 2), 100)).class;
    for lower in ["CS1", "LE"] {
        assert!(policy.plan().favours(class("DF"), class(lower)));
        assert!(!policy.plan().favours(class(lower), class("DF")));
    }
}

#[test]
fn the_fifo_preset_is_one_class_of_fifty_packets() {
    let policy = policy("preset = \"fifo\"").unwrap();
    let [class] = policy.classes() else { panic!() };
    assert_eq!((class.packets, class.octets, class.age), (50, None, None));
    for dscp in ["EF", "DF", "CS1"] {
        assert_eq!(policy.classify(&udp(dscp, (1, 2), 100)).class, ClassId(0));
    }
    assert_eq!(policy.class_named("all"), Some(ClassId(0)));
    assert_eq!(policy.class_named("voice"), None);
}

#[test]
fn the_shortest_wait_for_turns_is_that_of_the_policy() {
    let of = |waits: &[&str]| {
        let class = |(number, wait): (usize, &&str)| match *wait {
            "" => format!("[[class]]\nname = \"c{number}\"\n"),
            wait => format!("[[class]]\nname = \"c{number}\"\nwait_max = \"{wait}\"\n"),
        };
        let classes: String = waits.iter().enumerate().map(class).collect();
        let policy = policy(&format!("default = \"c0\"\n{classes}"));
        policy
            .map(|it| it.wait_max())
            .map_err(|error| error.to_string())
    };
    assert_eq!(of(&["", ""]), Ok(None));
    assert_eq!(of(&["", "15 s", "8 s"]), Ok(Some(Duration::from_secs(8))));
    for (edge, outside) in [("1 s", "999 ms"), ("120 s", "120001 ms")] {
        assert!(of(&[edge]).is_ok_and(|wait| wait.is_some()));
        let told = "class `c0`: `wait_max` must be 1 s to 120 s, the longest possible turn";
        assert_eq!(of(&[outside]), Err(told.into()));
    }
}

/// A policy of two classes where packets of `condition` go into the second.
fn hit(condition: &str, packet: &PacketInfo) -> bool {
    let text = format!(
        "default = \"a\"\n[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\n\
         [[match]]\nclass = \"b\"\n{condition}"
    );
    policy(&text).unwrap().classify(packet).class == ClassId(1)
}

#[test]
fn each_condition_is_met_or_not() {
    let packet = udp("AF21", (1000, 2000), 100);
    let fragment = PacketInfo {
        ports: None,
        later_fragment: true,
        ..packet
    };
    let esp = PacketInfo {
        spi: Some(256),
        ..other(protocol::ESP, 100)
    };
    let six: IpAddr = "fd00:1::2".parse().unwrap();
    let labelled = PacketInfo {
        src: six,
        dst: six,
        flow_label: 7,
        ..packet
    };
    let cases = [
        ("", &packet, true),
        ("dscp = \"AF21\"", &packet, true),
        ("dscp = [\"AF22\", 46]", &packet, false),
        ("precedence = \"immediate\"", &packet, true),
        ("precedence = [1, 3]", &packet, false),
        ("precedence = 2\ndscp = [\"AF21\", \"EF\"]", &packet, true),
        ("precedence = 2\ndscp = [\"CS2\", \"EF\"]", &packet, false),
        ("protocol = [\"tcp\", 17]", &packet, true),
        ("protocol = \"tcp\"", &packet, false),
        ("port = 1000", &packet, true),
        ("port = \"1999-2001\"", &packet, true),
        ("port = \"2001-3000\"", &packet, false),
        ("source_port = 1000", &packet, true),
        ("source_port = 2000", &packet, false),
        ("destination_port = 2000", &packet, true),
        ("destination_port = 1000", &packet, false),
        ("port = 1000\nprotocol = \"tcp\"", &packet, false),
        ("port = 1000", &fragment, false),
        ("protocol = \"udp\"", &fragment, true),
        ("port = 0", &esp, false),
        ("source = \"10.1.0.0/16\"", &packet, true),
        ("source = [\"10.2.0.0/16\", \"::/0\"]", &packet, false),
        ("destination = \"10.2.0.2\"", &packet, true),
        ("destination = \"10.1.0.0/16\"", &packet, false),
        ("source = [\"10.2.0.0/16\", \"::/0\"]", &labelled, true),
        ("flow_label = [6, 7]", &labelled, true),
        ("flow_label = 7", &packet, false),
        ("flow_label = 0", &packet, true),
        ("spi = [1, 256]", &esp, true),
        ("spi = 255", &esp, false),
        ("spi = 256", &packet, false),
        ("min_octets = 100", &packet, true),
        ("min_octets = 101", &packet, false),
        ("max_octets = 100", &packet, true),
        ("max_octets = 99", &packet, false),
        ("max_octets = \"5 GB\"\nmin_octets = 1", &packet, true),
        ("tcp_control = true", &packet, false),
        (
            "tcp_control = true",
            &tcp("DF", Some(TcpFlags::SYN), 60),
            true,
        ),
        ("tcp_control = true", &tcp("DF", None, 60), false),
    ];
    for (condition, packet, expected) in cases {
        let condition = condition.replace("5 GB", "5000 MB");
        assert_eq!(hit(&condition, packet), expected, "{condition} {packet:?}");
    }
}

#[test]
fn the_first_match_decides_and_its_mark_wins_over_the_class() {
    let policy = policy(
        "default = \"b\"\n[[class]]\nname = \"a\"\nmark = \"EF\"\n[[class]]\nname = \"b\"\nmark = 1\n\
         [[match]]\nclass = \"a\"\nport = 1\nmark = \"VA\"\n\
         [[match]]\nclass = \"a\"\nport = [1, 2]\n\
         [[match]]\nfilter = true\nport = 3\n[[match]]\nclass = \"a\"\nport = 3",
    )
    .unwrap();
    let verdict = |port| {
        let Verdict {
            class,
            mark,
            filter,
            rate_bit_s: _,
            ruled: _,
        } = policy.classify(&udp("DF", (port, 9), 50));
        (class.0, mark, filter)
    };
    assert_eq!(verdict(1), (0, Some(44), false));
    assert_eq!(verdict(2), (0, Some(46), false));
    assert_eq!(verdict(3), (1, Some(1), true));
    assert_eq!(verdict(4), (1, Some(1), false));
    assert_eq!(
        policy.matching_rule(&udp("DF", (3, 9), 50), Ingress::default()),
        Some(2)
    );
    assert_eq!(
        policy.matching_rule(&udp("DF", (4, 9), 50), Ingress::default()),
        None
    );
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    let one = "[[class]]\nname = \"a\"\n";
    let rule = |conditions| format!("{one}[[match]]\nclass = \"a\"\n{conditions}");
    let cases = [
        ("file = \"x\"".into(), "policy file `x` was not read"),
        ("preset = \"x\"".into(), "no preset `x`"),
        (
            format!("preset = \"fifo\"\n{one}"),
            "leave out [[class]] or the preset",
        ),
        (
            format!("{one}{one}"),
            "class name `a` is empty, `root` or used twice",
        ),
        ("[[class]]\nname = \"\"".into(), "class name `` is empty"),
        (format!("{one}weight = 0"), "class `a` has weight 0"),
        (format!("{one}weight = 1001"), "class `a` has weight 1001"),
        (format!("{one}packets = 0"), "raise `packets` above zero"),
        (format!("{one}octets = 0"), "raise `octets` above zero"),
        (format!("{one}age = \"0 s\""), "raise `age` above zero"),
        (
            format!("{one}[[class]]\nname = \"b\""),
            "match no rule (a, b)",
        ),
        (
            format!("default = \"c\"\n{one}"),
            "`default` names no class `c`: write one of a",
        ),
        (
            format!("{one}[[match]]\nclass = \"c\""),
            "rule 1 names no class `c`: write one of a",
        ),
        (format!("{one}[[match]]\nport = 1"), "rule 1 does nothing"),
        (
            rule("min_octets = 2\nmax_octets = 1"),
            "rule 1 matches nothing: `min_octets`",
        ),
        (rule("flow_label = 0x100000"), "20 bits"),
        (rule("port = 1\nprotocol = [\"icmp\"]"), "have ports"),
        (
            rule("tcp_control = true\nprotocol = \"udp\""),
            "of protocol \"tcp\"",
        ),
        (rule("spi = 1\nprotocol = \"udp\""), "only \"esp\""),
        (rule("spi = 1\nport = 1"), "shows no ports"),
        (rule("dscp = \"EF\"\nprecedence = 3"), "of its `precedence`"),
    ];
    for (text, message) in cases {
        let error = policy(&text).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
    let many = |table: &str, count: usize| {
        let each = |n| {
            format!(
                "[[{table}]]\n{} = \"c{n}\"\n",
                if table == "class" { "name" } else { "class" }
            )
        };
        (0..count).map(each).collect::<String>()
    };
    let classes = |count| format!("default = \"c0\"\n{}", many("class", count));
    assert!(policy(&classes(CLASSES_MAX)).is_ok());
    assert_eq!(
        policy(&classes(CLASSES_MAX + 1)).unwrap_err(),
        PolicyError::TooManyClasses {
            leaves: 65,
            groups: 0
        }
    );
    let rule = "[[match]]\nclass = \"a\"\ndscp = 1\n";
    assert!(policy(&format!("{one}{}", rule.repeat(RULES_MAX))).is_ok());
    assert_eq!(
        policy(&format!("{one}{}", rule.repeat(RULES_MAX + 1))).unwrap_err(),
        PolicyError::TooManyRules { count: 129 }
    );
}

#[test]
fn putting_lower_effort_first_is_warned_of() {
    let text = |rule: &str| {
        format!(
            "default = \"routine\"\n[[class]]\nname = \"priority\"\nband = 0\n\
             [[class]]\nname = \"routine\"\n[[match]]\nclass = \"priority\"\n{rule}"
        )
    };
    let trap = policy(&text("dscp = [\"CS2\", \"CS1\"]")).unwrap();
    let warning = PolicyWarning::LowerEffortFirst {
        rule: 1,
        dscp: Dscp::CS1,
    };
    assert_eq!(trap.warnings(), [warning]);
    assert!(
        trap.warnings()[0]
            .to_string()
            .contains("CS1 before best effort")
    );
    assert_eq!(
        policy(&text("dscp = \"CS1\"\nmark = \"CS2\""))
            .unwrap()
            .warnings(),
        []
    );
    assert_eq!(policy(&text("dscp = \"CS2\"")).unwrap().warnings(), []);
    let hidden = PolicyWarning::HidesLater { rule: 1 };
    assert_eq!(policy(&text("")).unwrap().warnings(), []);
    let later = "[[match]]\nclass = \"routine\"\n";
    assert_eq!(policy(&text(later)).unwrap().warnings(), [hidden]);
}

#[test]
fn bare_segments_are_known_by_their_octets() {
    // IPv4, 10.1.0.2 to 10.2.0.2; TCP, port 80 to 40000; header of five words, ACK.
    let ack = [
        0x45, 0x00, 0x00, 0x28, 0x00, 0x01, 0x40, 0x00, 0x40, 0x06, 0x26, 0xc9, 10, 1, 0, 2, 10, 2,
        0, 2, 0x00, 0x50, 0x9c, 0x40, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0x20, 0x00, 0, 0, 0, 0,
    ];
    let policy = Policy::compile(&PolicyConfig::default()).unwrap();
    let class = |bytes: &[u8]| class_of(&policy, &PacketInfo::parse(bytes).unwrap()).to_string();
    assert_eq!(class(&ack), "interactive");
    let mut fin = ack;
    fin[33] = 0x11;
    assert_eq!(class(&fin), "standard");
    let mut data = ack.to_vec();
    data.push(b'x');
    (data[3], data[11]) = (0x29, 0xc8);
    assert_eq!(class(&data), "standard");
}

#[test]
fn rules_ask_by_which_port_a_packet_came_and_some_ports_are_not_believed() {
    let policy = policy(
        "default = 'rest'\nuntrusted = ['wlan']\n[[class]]\nname = 'rest'\n[[class]]\nname = 'voice'
        [[match]]\nclass = 'voice'\ningress = ['host', 'wlan']\nport = 5000
        [[match]]\nclass = 'voice'\ndscp = 'EF'",
    )
    .unwrap();
    assert_eq!(policy.ports(), ["wlan", "host"]);
    let class = |packet: &PacketInfo, port: &str| {
        let verdict = policy.classify_from(packet, policy.ingress(port));
        policy.classes()[verdict.class.index()].name.clone()
    };
    let unmarked = udp("DF", (1, 5000), 100);
    for (port, expected) in [("host", "voice"), ("wlan", "voice"), ("line", "rest")] {
        assert_eq!(class(&unmarked, port), expected, "{port}");
    }
    // What the node makes came by no port.
    assert_eq!(policy.classify(&unmarked).class, ClassId(0));
    assert_eq!(class(&udp("EF", (1, 2), 100), "line"), "voice");
    let believed = ["wlan", "host", "line"].map(|port| policy.trusts(policy.ingress(port)));
    assert_eq!(believed, [false, true, true]);
    assert!(policy.trusts(Ingress::default()));
}

#[test]
fn presets_for_mobile_networks_keep_marks_and_spare_routing_from_best_effort() {
    let names = ["1a", "1b", "1c", "2a", "2b", "prio"].map(|it| format!("insc-{it}"));
    for name in names.iter().map(String::as_str) {
        let policy = Policy::compile(&PolicyConfig::preset(name).unwrap()).unwrap();
        let found = |packet: &PacketInfo| {
            let verdict = policy.classify(packet);
            (class_of(&policy, packet), verdict.mark)
        };
        // Audio by its port only where nobody has marked it.
        assert_eq!(
            found(&udp("AF43", (1, 5000), 168)),
            ("af43", None),
            "{name}"
        );
        assert!(found(&udp("DF", (1, 5000), 168)).1.is_some(), "{name}");
        let af21 = Some(Dscp::af(2, 1).number());
        for port in [21, 80] {
            let mut file = tcp("DF", None, 1500);
            file.ports = Some((port, 40_000));
            assert_eq!(found(&file), ("af21", af21), "{name}");
        }
        for routing in [
            other(protocol::ICMPV6, 64),
            other(89, 100),
            udp("DF", (698, 698), 100),
            udp("CS6", (1, 2), 100),
        ] {
            assert_eq!(found(&routing), ("af11", None), "{name}");
        }
        assert_eq!(found(&udp("DF", (1, 2), 100)).0, "be", "{name}");
        // At the next gateway what the first has marked is in the same class.
        for port in [5000, 5002] {
            let mut packet = udp("DF", (1, port), 900);
            let (class, mark) = found(&packet);
            packet.dscp = mark.unwrap_or(packet.dscp);
            assert_eq!(found(&packet).0, class, "{name}");
        }
    }
}

#[test]
fn nobodys_bulk_goes_before_routine_messages() {
    let policy = Policy::compile(&PolicyConfig::preset("precedence").unwrap()).unwrap();
    let class = |dscp| class_of(&policy, &udp(dscp, (1, 2), 1000));
    assert_eq!(class("CS1"), class("DF"));
    assert_eq!(policy.classify(&udp("CS1", (1, 2), 1000)).mark, None);
    assert_eq!(class("AF21"), "priority");
}
