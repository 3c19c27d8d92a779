use proptest::prelude::*;

use super::*;

fn flow(text: &str) -> FlowOptions {
    let script = Script::parse(text).unwrap();
    let (_, _, options) = script.flows().next().expect("a flow");
    options
}

fn wrong(text: &str) -> String {
    Script::parse(text).unwrap_err().to_string()
}

#[test]
fn the_guides_example_with_everything() {
    let text = "\
# MGEN script begins here
0.0 ON 1 UDP SRC 5001 DST 127.0.0.1/5001 PERIODIC [1 1024]
0.0 ON 2 UDP SRC 5002 DST 224.225.1.2/5002 PERIODIC [1 512]
0.0 ON 3 TCP DST 192.168.1.102/5000 PERIODIC [1 1048576] COUNT 1
4.0 MOD 2 POISSON [10 1024]
0.0 LISTEN UDP 5000-5002,6000,6003
0.0 JOIN 224.225.1.2 INTERFACE eth0
0.0 JOIN 224.1.2.5 PORT 5005-5010
0.0 JOIN 232.1.1.1 SRC 25.25.25.1 INTERFACE eth0
5.0 LEAVE 224.225.1.2 INTERFACE eth0
6.0 IGNORE UDP 5000-5001
8.0 IGNORE UDP 5001,6000,6003
10.0 OFF 1
10.0 OFF 2
# MGEN script ends here";
    let script = Script::parse(text).unwrap();
    assert_eq!(script.warnings, []);
    assert_eq!(script.events.len(), 13);
    assert_eq!(script.destinations().len(), 3);
    let listen = What::Listen(Protocol::Udp, vec![5000..=5002, 6000..=6000, 6003..=6003]);
    assert_eq!(script.events[3].what, listen);
    assert_eq!(
        (script.events[7].line, script.events[7].at.as_secs()),
        (5, 4)
    );
    let What::Join(group) = &script.events[6].what else {
        panic!("{:?}", script.events[6]);
    };
    assert_eq!(group.source, Some("25.25.25.1".parse().unwrap()));
}

#[test]
fn keywords_by_their_beginning_in_any_case_over_several_lines() {
    let options = flow(
        "on 7 udp \\\n dst fd00::2/6000 per[2.5 0x64] \\ \n LAB 0xabcde tos 0xb8 seq 9 cou 3 \
         QU 5 TX 4096 data [00ff] ttl 4 int eth1 broad off src 77 conn rx 9",
    );
    let expected = FlowOptions {
        protocol: Some(Protocol::Udp),
        connect: Some(true),
        src: Some(77),
        dst: Some("[fd00::2]:6000".parse().unwrap()),
        pattern: Some(Pattern::Periodic {
            rate: Rate::PerSecond(2.5),
            octets: 100,
        }),
        count: Some(3),
        tos: Some(0xb8),
        label: Some(0xabcde),
        ttl: Some(4),
        interface: Some("eth1".into()),
        sequence: Some(9),
        queue: Some(5),
        tx_buffer: Some(4096),
        rx_buffer: Some(9),
        broadcast: Some(false),
        data: Some(vec![0, 255]),
    };
    assert_eq!(options, expected);
}

#[test]
fn every_pattern() {
    let pattern = |text: &str| {
        let options = flow(&format!("ON 1 UDP DST 10.0.0.1/5 {text}"));
        options.pattern.unwrap()
    };
    assert_eq!(
        pattern("POISSON [-1 28]"),
        Pattern::Poisson {
            rate: Rate::Unlimited,
            octets: 28
        }
    );
    assert_eq!(
        pattern("JIT [0 8192 0.5]"),
        Pattern::Jitter {
            rate: Rate::None,
            octets: 8192,
            fraction: 0.5
        }
    );
    let nested = "BURST [RANDOM 10 BURST [REG 1.0 PERIODIC [10 100] FIX 0.5] EXP 5]";
    let Pattern::Burst {
        random: true,
        inner,
        exponential: true,
        duration_s: 5.0,
        ..
    } = pattern(nested)
    else {
        panic!("{:?}", pattern(nested));
    };
    assert_eq!(
        (inner.octets(), inner.rate()),
        (Some(100), Some(Rate::PerSecond(10.0)))
    );
    let cloned = |repeats| Pattern::Clone {
        file: "a.pcap".into(),
        repeats,
    };
    assert_eq!(pattern("CLONE [tcpdump a.pcap]"), cloned(None));
    assert_eq!(pattern("CLONE [TCPDUMP a.pcap -1]"), cloned(None));
    assert_eq!(pattern("CLONE [tcpdump a.pcap 0]"), cloned(Some(0)));
    let script = Script::parse("ON 1 UDP DST 10.0.0.1/5 CLONE [tcpdump a.pcap 3]").unwrap();
    assert_eq!(
        script.captures().into_iter().collect::<Vec<_>>(),
        ["a.pcap"]
    );
}

#[test]
fn commands_that_hold_for_all_of_it() {
    let text = "START 23:59:01.5GMT\nOFFSET 12.5\nTOS 16\nLABEL 7\nTTL 3\nTXBUFFER 100\n\
                RXBUFFER 200\nLOCALTIME\nQUEUE 4\nDATA [ab]\nINTERFACE eth0\nINPUT other.mgn\n\
                OUTPUT a.drc\nLOG b.drc\nLOGDATA off\nSAVE c\nBROADCAST on\n\
                ON 1 UDP DST 10.0.0.1/5 PER [1 100] TOS 32";
    let script = Script::parse(text).unwrap();
    let globals = &script.globals;
    let start = globals.start.unwrap();
    assert_eq!((start.at.as_secs_f64(), start.gmt), (86_341.5, true));
    assert_eq!(globals.offset.as_secs_f64(), 12.5);
    assert_eq!((globals.local_time, globals.log_data), (true, Some(false)));
    assert_eq!(globals.save.as_deref(), Some("c"));
    let (_, _, flow) = script.flows().next().unwrap();
    assert_eq!(
        (flow.tos, flow.label, flow.ttl),
        (Some(32), Some(7), Some(3))
    );
    assert_eq!((flow.queue, flow.data), (Some(4), Some(vec![0xab])));
    let local = Script::parse("START 1:2:3").unwrap().globals.start.unwrap();
    assert!(!local.gmt);
    assert!(
        Script::parse("START 1:2:3 gmt")
            .unwrap()
            .globals
            .start
            .unwrap()
            .gmt
    );
}

#[test]
fn errors_name_place_and_remedy() {
    let cases = [
        (
            "0 FLY 1",
            "line 1, column 3: `FLY` is no command: one of ON",
        ),
        (
            "\n\n  O 1",
            "line 3, column 3: `O` may be ON or OFF: write more",
        ),
        ("1.x ON", "line 1, column 1: `1.x` is no time in seconds"),
        ("-1 OFF 1", "line 1, column 1: `-1` is no time in seconds"),
        (
            "0 ON",
            "line 1, column 3: after `ON`, a flow's number, from 1 on is missing",
        ),
        ("ON 0", "line 1, column 4: `0` is not a flow's number"),
        (
            "ON 1 UDP PER [1 100]",
            "line 1, column 4: flow 1: ON needs DST",
        ),
        ("ON 1 DST 1.2.3.4/5 PER [1 100]", "ON needs UDP or TCP"),
        (
            "ON 1 UDP DST 1.2.3.4/5",
            "ON needs a pattern, as PERIODIC [1 1024]",
        ),
        (
            "ON 1 UDP DST localhost/5",
            "column 14: `localhost/5` is no address and port: write numbers",
        ),
        ("ON 1 UDP DST 1.2.3.4/0", "is no address and port"),
        ("ON 1 UDP D 1.2.3.4/5", "`D` may be DST or DATA"),
        (
            "ON 1 UDP DST 1.2.3.4/5 PER 1 100",
            "PERIODIC needs its parameters in brackets",
        ),
        (
            "ON 1 UDP DST 1.2.3.4/5 PER [1 100",
            "after `100`, `]` is missing",
        ),
        (
            "ON 1 UDP DST 1.2.3.4/5 PER [1 100 2]",
            "`2` is one parameter too many",
        ),
        (
            "ON 1 UDP DST 1.2.3.4/5 PER [1 27]",
            "`27` is not a size in octets",
        ),
        (
            "ON 1 UDP DST 1.2.3.4/5 PER [1 8193]",
            "over UDP at most 8192",
        ),
        (
            "ON 1 UDP DST ::1/5 PER [1 39]",
            "to an IPv6 address at least 40",
        ),
        ("ON 1 TCP DST ::1/5 PER [1 75]", "over TCP at least 76"),
        (
            "ON 1 UDP DST ::1/5 PER [-2 50]",
            "`-2` is not a number of messages",
        ),
        (
            "ON 1 UDP DST ::1/5 JIT [1 50 .6]",
            "column 30: `.6` is not a part",
        ),
        (
            "ON 1 UDP DST ::1/5 PER [1 50] TOS 256",
            "`256` is not the octet of the header",
        ),
        (
            "ON 1 UDP DST ::1/5 PER [1 50] LABEL 0x100000",
            "is not a flow label",
        ),
        (
            "ON 1 UDP DST ::1/5 BURST [REG 0 PER [1 50] FIX 1]",
            "at least 0.000001 s",
        ),
        ("ON 1 UDP DST ::1/5 CLONE [other f]", "isn't `tcpdump`"),
        (
            "ON 1 UDP DST ::1/5 CLONE [tcpdump]",
            "the name of a capture is missing",
        ),
        (
            "0 LISTEN UDP 5000-4000",
            "are no ports: write them as 5000-5002,6000",
        ),
        ("0 LISTEN ICMP 5", "`ICMP` isn't UDP or TCP"),
        ("0 JOIN 10.0.0.1", "is no multicast address"),
        ("0 OFF 1 2", "line 1, column 9: `2` is one too many"),
        ("0 TOS 5", "column 3: `TOS` applies to the whole script"),
        ("START 24:00:00", "is no time of the day"),
        ("DATA [abc]", "two hexadecimal digits each"),
        (
            "ON 1 UDP DST 1.2.3.4/5 PER [1 100]\n1 MOD 1 PER [1 9000]",
            "line 2, column 7: flow 1: messages",
        ),
    ];
    for (text, expected) in cases {
        let told = wrong(text);
        assert!(told.contains(expected), "{text}\n{told}\n{expected}");
    }
    let deep = format!("ON 1 UDP DST 1.2.3.4/5 {}", "BURST [REG 1 ".repeat(20_000));
    assert!(wrong(&deep).contains("more than 8 bursts"));
}

#[test]
fn what_is_probably_not_meant_is_said() {
    let text = "0 ON 1 UDP SRC 5000 DST 1.2.3.4/5 PER [1 100] TOS 3\n\
                1 ON 1 UDP DST 1.2.3.4/5 PER [1 100]\n\
                0 ON 2 UDP SRC 5000 DST 1.2.3.4/6 PER [1 100]\n5 OFF 3\n6 MOD 4 TOS 4";
    let script = Script::parse(text).unwrap();
    let told: Vec<(u32, &str)> = script
        .warnings
        .iter()
        .map(|warning| (warning.line, warning.message.split(':').next().unwrap()))
        .collect();
    let expected = [
        (1, "the lower two bits of TOS are those of ECN"),
        (2, "flow 1 is on already"),
        (3, "flows 1 and 2 share source port 5000"),
        (4, "flow 3 isn't on"),
        (5, "flow 4 isn't on"),
    ];
    assert_eq!(told, expected);
}

proptest! {
    #[test]
    fn any_text_is_judged(text: String) {
        let _ = Script::parse(&text);
    }

    #[test]
    fn words_of_scripts_are_judged(words in prop::collection::vec(prop::sample::select(vec![
        "0", "1", "-1", "0.5", "ON", "MOD", "OFF", "LISTEN", "UDP", "TCP", "DST", "1.2.3.4/5",
        "::1/6", "PER", "POI", "JIT", "BURST", "REG", "RAN", "FIX", "EXP", "[", "]", "100", "\n",
        "\\\n", "#", "TOS", "COUNT", "5000-5002", "JOIN", "224.1.2.3", "START", "DATA", "CLONE",
        "tcpdump", "SRC", "OFFSET", "é",
    ]), 0..40)) {
        if let Err(error) = Script::parse(&words.join(" ")) {
            prop_assert!(error.line >= 1 && error.column >= 1 && !error.message.is_empty());
        }
    }
}
