use super::*;
use alloc::string::ToString;

fn config(text: &str) -> PolicyConfig {
    toml::from_str(text).unwrap()
}

const BUCKETS: &str = r#"
    discipline = "htb"
    default = "rest"
    [[class]]
    name = "all"
    rate = "1 Mbit/s"
    [[class]]
    name = "voice"
    parent = "all"
    rate = "32 kbit/s"
    ceil = "64 kbit/s"
    prio = 1
    packets = 20
    [[class]]
    name = "rest"
    parent = "all"
    rate = "128 kbit/s"
    ceil = "1 Mbit/s"
    quantum = "6056 B"
    prio = 2
    mark = "CS2"
    [[match]]
    class = "voice"
    dscp = ["EF", "VA"]
    [[match]]
    class = "voice"
    protocol = "udp"
    port = [5060, "16384-32767"]
    max_octets = "256 B"
    [[match]]
    filter = true
    destination = ["10.0.0.0/8", "fd00::/16"]
    destination_port = 9
"#;

#[test]
fn token_buckets_become_the_kernels() {
    let export = export(&config(BUCKETS), "eth0.7", None, Queues::Near).unwrap();
    assert_eq!(
        export.tc,
        "qdisc add dev eth0.7 root handle 57a1: htb default 0x4 r2q 10\n\
         class add dev eth0.7 parent 57a1: classid 57a1:2 htb rate 1000000bit ceil 1000000bit \
         burst 1600b cburst 1600b\n\
         class add dev eth0.7 parent 57a1:2 classid 57a1:3 htb rate 32000bit ceil 64000bit \
         burst 1600b cburst 1600b prio 1\n\
         qdisc add dev eth0.7 parent 57a1:3 pfifo limit 20\n\
         class add dev eth0.7 parent 57a1:2 classid 57a1:4 htb rate 128000bit ceil 1000000bit \
         burst 1600b cburst 1600b prio 2 quantum 6056\n\
         qdisc add dev eth0.7 parent 57a1:4 pfifo limit 100\n"
    );
    assert_eq!(export.table, "strait_eth0_7");
    assert_eq!(export.notes, [""; 0]);
}

#[test]
fn rules_become_an_nftables_ruleset() {
    let export = export(&config(BUCKETS), "eth0", None, Queues::Near).unwrap();
    let expected = "table inet strait_eth0 {
\tchain classes {
\t\ttype filter hook postrouting priority 300; policy accept;
\t\toifname != \"eth0\" accept
\t\t# rule 1: voice
\t\tmeta nfproto ipv4 ip dscp { 46, 44 } meta priority set 57a1:3 accept
\t\tmeta nfproto ipv6 ip6 dscp { 46, 44 } meta priority set 57a1:3 accept
\t\t# rule 2: voice
\t\tmeta l4proto 17 meta length <= 256 th sport { 5060, 16384-32767 } meta priority set 57a1:3 accept
\t\tmeta l4proto 17 meta length <= 256 th dport { 5060, 16384-32767 } meta priority set 57a1:3 accept
\t\t# rule 3: filtered
\t\tmeta nfproto ipv4 ip daddr 10.0.0.0/8 meta l4proto { 17, 6 } th dport 9 drop
\t\tmeta nfproto ipv6 ip6 daddr fd00::/16 meta l4proto { 17, 6 } th dport 9 drop
\t\t# packets that match no rule
\t\tmeta nfproto ipv4 ip dscp set 16 meta priority set 57a1:4 accept
\t\tmeta nfproto ipv6 ip6 dscp set 16 meta priority set 57a1:4 accept
\t}
}
table arp strait_eth0 {
\tchain classes {
\t\ttype filter hook output priority 0; policy accept;
\t\toifname \"eth0\" meta priority set 57a1:4
\t}
}
";
    assert_eq!(export.nft, expected);
}

#[test]
fn bands_become_priorities_and_weights_quanta() {
    let text = r#"
        default = "bulk"
        shape = { rate = "64 kbit/s" }
        [[class]]
        name = "voice"
        band = 0
        age = "500 ms"
        [[class]]
        name = "web"
        weight = 3
        [[class]]
        name = "bulk"
        queue = { kind = "fifo", absorb_repeats = true }
    "#;
    let export = export(&config(text), "ppp0", None, Queues::Near).unwrap();
    let classes: Vec<&str> = export
        .tc
        .lines()
        .filter(|line| line.starts_with("class"))
        .collect();
    assert_eq!(classes.len(), 4, "one for all, and three");
    assert!(classes[0].contains("classid 57a1:1 htb rate 64000bit ceil 64000bit"));
    for (line, keys) in classes[1..].iter().zip([
        ["rate 400bit ceil 64000bit", "prio 0 quantum 1514"],
        ["rate 400bit ceil 64000bit", "prio 1 quantum 4542"],
        ["rate 400bit ceil 64000bit", "prio 1 quantum 1514"],
    ]) {
        assert!(keys.iter().all(|key| line.contains(key)), "{line}");
    }
    let notes = export.notes.join("\n");
    assert!(
        notes.contains("`voice`: the kernel has no limit on age (500 ms)"),
        "{notes}"
    );
    assert!(
        notes.contains("`bulk`: the kernel sends repeats"),
        "{notes}"
    );
}

#[test]
fn a_tree_that_nothing_limits_is_refused() {
    let flat = config("preset = \"default\"");
    assert_eq!(
        export(&flat, "eth0", None, Queues::Near),
        Err(ExportError::NoRate)
    );
    assert!(export(&flat, "eth0", Some(BitRate(9600)), Queues::Near).is_ok());
    for name in ["", "a b", "sixteen-letters-", "x/y", "a\"; drop"] {
        let error = export(&flat, name, Some(BitRate(9600)), Queues::Near).unwrap_err();
        assert!(
            error.to_string().contains("is no interface name"),
            "{error}"
        );
    }
}

#[test]
fn every_preset_is_exported() {
    for name in PolicyConfig::presets() {
        let preset = PolicyConfig {
            preset: Some(name.into()),
            ..PolicyConfig::default()
        };
        let export = export(&preset, "eth0", Some(BitRate(512_000)), Queues::Near).unwrap();
        let classes = export.tc.lines().filter(|line| line.contains(" htb rate "));
        assert!(classes.count() >= 1, "{name}");
        // Every packet is sent to a class that is there.
        for line in export
            .nft
            .lines()
            .filter(|line| line.contains("priority set"))
        {
            let class = line.split("priority set ").nth(1).unwrap();
            let class = class.split_whitespace().next().unwrap();
            let there = export.tc.contains(&format!("classid {class} "));
            // A band of PRIO has a queue and no class.
            let is_band = class.starts_with("57a2:");
            let there = there || is_band && export.tc.contains(&format!("parent {class} "));
            assert!(there || class.ends_with(":0"), "{name}: {line}");
        }
    }
}

#[test]
fn what_the_kernel_lacks_is_said() {
    let text = r#"
        default = "a"
        [[class]]
        name = "a"
        octets = "10 kB"
        queue = { kind = "wred", exponent = 5 }
        shape = { kind = "average", rate = "100 kbit/s", burst = "12500 B" }
        [[class]]
        name = "b"
        queue = { kind = "fq-codel", thin_acks = true }
        [[match]]
        class = "b"
        tcp_control = true
    "#;
    let export = export(&config(text), "eth0", Some(BitRate(512_000)), Queues::Near).unwrap();
    let notes = export.notes.join("\n");
    for note in [
        "no early drop by code point",
        "by credit once an interval",
        "superseded TCP acknowledgements",
        "rule 1: the kernel knows bare TCP segments by their length",
    ] {
        assert!(notes.contains(note), "{note}: {notes}");
    }
}

#[test]
fn a_leaf_of_token_buckets_has_its_shaper_and_a_policer_its_burst() {
    let config = |burst: &str| {
        let text = format!(
            "discipline = \"htb\"\ndefault = \"b\"\nclass = [\
             {{ name = \"all\", rate = \"512 kbit/s\" }},\
             {{ name = \"a\", parent = \"all\", rate = \"32 kbit/s\", packets = 10, \
               shape = {{ rate = \"16 kbit/s\", burst = \"2 kB\" }}, \
               police = {{ kind = \"bucket\", rate = \"16 kbit/s\", burst = \"{burst}\" }} }},\
             {{ name = \"b\", parent = \"all\", rate = \"32 kbit/s\" }}]\n\
             match = [{{ class = \"a\", dscp = \"EF\" }}]"
        );
        export(&config(&text), "eth0", None, Queues::Near).unwrap()
    };
    let whole = config("3 kB");
    assert!(
        whole.tc.contains(
            "qdisc add dev eth0 parent 57a1:3 handle 57a5: tbf rate 16000bit burst 2000b \
             limit 10mb\nqdisc add dev eth0 parent 57a5:1 pfifo limit 10\n"
        ),
        "{}",
        whole.tc
    );
    let policed = "limit rate over 2000 bytes/second burst 1000 bytes drop";
    assert!(whole.nft.contains(policed), "{}", whole.nft);
    assert_eq!(whole.notes, [""; 0]);
    // A bucket of less than a second isn't to be had.
    let least = config("1999 B");
    let policed = "limit rate over 2000 bytes/second burst 0 bytes drop";
    assert!(least.nft.contains(policed), "{}", least.nft);
    assert!(least.notes[0].contains("lets 2000 octets through at once"));
    assert_eq!(config("2 kB").notes, [""; 0]);
}

/// The quantum of each class that holds packets, and the rates that it is guaranteed.
fn quanta(export: &Export) -> Vec<(u64, String)> {
    let word = |line: &str, key: &str| {
        let mut words = line.split(' ').skip_while(|word| *word != key);
        String::from(words.nth(1).unwrap())
    };
    let classes = export.tc.lines().filter(|line| line.contains(" prio "));
    let read = |line| (word(line, "quantum").parse().unwrap(), word(line, "rate"));
    classes.map(read).collect()
}

#[test]
fn quanta_of_groups_add_up_to_the_groups_shares() {
    let text = r#"
        default = "lone"
        [[class]]
        name = "one"
        weight = 3
        [[class]]
        name = "a"
        parent = "one"
        weight = 1
        [[class]]
        name = "b"
        parent = "one"
        weight = 2
        [[class]]
        name = "other"
        weight = 2
        [[class]]
        name = "c"
        parent = "other"
        weight = 7
        [[class]]
        name = "lone"
        weight = 1
    "#;
    let export = export(&config(text), "eth0", Some(BitRate(512_000)), Queues::Near).unwrap();
    let quanta: Vec<u64> = quanta(&export).into_iter().map(|(it, _)| it).collect();
    // From the top: lone has 1 of 6, a and b share 3 as 1 and 2, c has 2.
    assert_eq!(quanta, [1514, 1514, 2 * 1514, 2 * 1514]);
    let notes = export.notes.join("\n");
    assert!(
        notes.contains("`other`: the rate that one of its classes leaves"),
        "{notes}"
    );
}

#[test]
fn a_share_given_as_a_rate_is_no_guarantee() {
    let text = r#"
        discipline = "cbwfq"
        default = "rest"
        [[class]]
        name = "voice"
        band = 0
        [[class]]
        name = "video"
        rate = "384 kbit/s"
        [[class]]
        name = "rest"
        rate = "128 kbit/s"
    "#;
    let export = export(&config(text), "eth0", Some(BitRate(512_000)), Queues::Near).unwrap();
    let least = String::from("400bit");
    assert_eq!(
        quanta(&export),
        [
            (1514, least.clone()),
            (3 * 1514, least.clone()),
            (1514, least)
        ]
    );
}

#[test]
fn plain_queues_need_nothing_that_a_kernel_may_lack() {
    for name in PolicyConfig::presets() {
        let preset = config(&format!("preset = \"{name}\""));
        let made = |queues| export(&preset, "eth0", Some(BitRate(512_000)), queues).unwrap();
        let (near, plain) = (made(Queues::Near), made(Queues::Plain));
        let has = |export: &Export, what: &str| export.tc.contains(what);
        let kernel_made = has(&near, " sfq ") || has(&near, " fq_codel ");
        assert!(!has(&plain, " sfq ") && !has(&plain, " fq_codel "));
        let said = plain.notes.iter().any(|note| note.contains("no turns"));
        assert_eq!(kernel_made, said, "{name}");
        assert!(!has(&plain, " prio bands "));
        let bands = made(Queues::PlainBands);
        assert_eq!(bands.nft, near.nft);
        assert_eq!(
            has(&bands, " prio bands "),
            bands.nft != plain.nft,
            "{name}"
        );
    }
}

#[test]
fn a_strict_band_before_token_buckets_is_a_prio_above_htb() {
    let preset = config("preset = 'insc-prio'");
    let made = |queues| export(&preset, "eth0", Some(BitRate(1_000_000)), queues).unwrap();
    let prio = made(Queues::PlainBands);
    let lines: Vec<&str> = prio.tc.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "qdisc add dev eth0 root handle 57a1: htb default 0x1",
            "class add dev eth0 parent 57a1: classid 57a1:1 htb rate 1000000bit ceil 1000000bit \
             burst 1600b cburst 1600b quantum 1514",
            "qdisc add dev eth0 parent 57a1:1 handle 57a2: prio bands 2 priomap \
             1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
            "qdisc add dev eth0 parent 57a2:2 handle 57a3: htb default 0x16 r2q 10",
        ],
        "{}",
        prio.tc
    );
    assert!(
        prio.tc
            .contains("qdisc add dev eth0 parent 57a2:1 pfifo limit 10\n")
    );
    let link = "class add dev eth0 parent 57a3: classid 57a3:4 htb rate 1000000bit";
    assert!(prio.tc.contains(link), "{}", prio.tc);
    // Audio by its band, others by their classes of token buckets.
    assert!(
        prio.nft.contains("meta priority set 57a2:1 "),
        "{}",
        prio.nft
    );
    assert!(
        prio.nft.contains("meta priority set 57a3:16"),
        "{}",
        prio.nft
    );
    assert!(made(Queues::Near).tc.contains(" prio bands 2 "));
    let plain = made(Queues::Plain);
    assert!(!plain.tc.contains(" prio bands") && plain.tc.contains("root handle 57a1: htb"));
    // Without it audio is within its rate: others borrow from each other before it could.
    let first = "classid 57a1:2 htb rate 1000000bit ceil 1000000bit ";
    assert!(plain.tc.contains(first), "{}", plain.tc);
    // Two classes of one band share, which PRIO can't.
    let shared = config("preset = 'precedence'");
    let shared = export(&shared, "eth0", Some(BitRate(1_000_000)), Queues::Near).unwrap();
    assert!(!shared.tc.contains(" prio bands"));
}
