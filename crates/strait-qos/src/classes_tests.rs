use alloc::format;
use alloc::string::ToString;

use super::*;
use crate::policy::Policy;

fn policy(text: &str) -> Result<Policy, PolicyError> {
    Policy::compile(&toml::from_str(text).unwrap())
}

fn streams(policy: &Policy) -> Vec<u8> {
    policy.classes().iter().map(|class| class.stream).collect()
}

#[test]
fn what_is_wrong_with_a_tree_is_said_with_its_remedy() {
    let htb = "default = \"a\"\ndiscipline = \"htb\"\n[[class]]\nname = \"a\"\n";
    let wdrr = "default = \"a\"\n[[class]]\nname = \"a\"\n";
    let cases = [
        (
            format!("{wdrr}parent = \"b\""),
            "class `a`: `parent` names no class `b`: write one of a",
        ),
        (
            format!("{wdrr}parent = \"b\"\n[[class]]\nname = \"b\"\nparent = \"a\""),
            "class `a` is under too many others, or under itself",
        ),
        (
            "[[class]]\nname = \"root\"".into(),
            "class name `root` is empty, `root` or used twice",
        ),
        (htb.into(), "class `a`: `rate` is missing"),
        (
            format!("{htb}rate = \"1 kbit/s\"\nweight = 2"),
            "class `a`: `weight` is for the children of wdrr and cbwfq: write `prio`",
        ),
        (
            format!("{htb}rate = \"1 kbit/s\"\nprio = 8"),
            "`prio` is 0 (first) to 7",
        ),
        (
            format!("{htb}rate = \"1 kbit/s\"\nquantum = 0"),
            "`quantum` gives no turn",
        ),
        (
            format!("{wdrr}ceil = \"1 kbit/s\""),
            "class `a`: `ceil` is for the children of htb: write `shape`",
        ),
        (
            format!("{wdrr}weight = 2\nrate = \"1 kbit/s\""),
            "class `a`: `weight` and `rate` both give the share",
        ),
        (
            format!("{wdrr}rate = \"1 kbit/s\"\n[[class]]\nname = \"b\"\nweight = 2"),
            "class `b`: `weight` is a share beside those by `rate`",
        ),
        (
            format!("{wdrr}packets = 5\n[[class]]\nname = \"b\"\nparent = \"a\""),
            "class `a`: `packets` is for classes that hold packets",
        ),
        (
            format!("{wdrr}discipline = \"cbwfq\""),
            "class `a`: `discipline` is for classes with others below",
        ),
        (
            format!("{wdrr}r2q = 10"),
            "class `a`: `r2q` is for the class with `discipline = \"htb\"`",
        ),
        (
            format!("{wdrr}shape = {{ rate = \"1 kbit/s\", burst = 0 }}"),
            "class `a`: `shape.burst` holds nothing",
        ),
        (
            format!("{wdrr}shape = {{ rate = \"1 kbit/s\", excess = 1 }}"),
            "class `a`: `shape.excess` is for kind \"average\"",
        ),
        (
            format!("on_rate_change = \"scale\"\n{wdrr}"),
            "class `root`: `on_rate_change` scales from a rate that isn't given: add `line`",
        ),
        (
            format!("line = \"9600 bit/s\"\n{wdrr}"),
            "class `root`: `line` only matters with `on_rate_change = \"scale\"`",
        ),
        (
            format!(
                "{htb}rate = \"1 kbit/s\"\nshape = {{ rate = \"1 kbit/s\" }}\n\
                     [[class]]\nname = \"b\"\nparent = \"a\"\nrate = \"1 kbit/s\""
            ),
            "class `a`: `shape` isn't possible inside a tree of token buckets: write `ceil`",
        ),
        (
            format!("{wdrr}[[class]]\nname = \"b\"\nparent = \"a\"\n[[match]]\nclass = \"a\""),
            "`default` names no class `a`: write one of b",
        ),
    ];
    for (text, message) in cases {
        let error = policy(&text).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn token_buckets_have_no_more_levels_than_linux_gives_them() {
    let chain = |length: usize| {
        let mut text = String::from("default = \"leaf\"\ndiscipline = \"htb\"\n");
        for level in 0..length {
            text += &format!("[[class]]\nname = \"c{level}\"\nrate = \"1 kbit/s\"\n");
            if level > 0 {
                text += &format!("parent = \"c{}\"\n", level - 1);
            }
        }
        text + &format!(
            "[[class]]\nname = \"leaf\"\nrate = \"1 kbit/s\"\nparent = \"c{}\"\n",
            length - 1
        )
    };
    assert!(policy(&chain(7)).is_ok());
    assert!(matches!(
        policy(&chain(8)),
        Err(PolicyError::TooDeep { .. })
    ));
}

#[test]
fn up_to_eight_classes_have_a_stream_each_in_their_order() {
    let text: String = (0..8)
        .map(|n| format!("[[class]]\nname = \"c{n}\"\nband = {}\n", 8 - n))
        .collect();
    let policy = policy(&format!("default = \"c0\"\n{text}")).unwrap();
    assert_eq!(streams(&policy), [0, 1, 2, 3, 4, 5, 6, 7]);
    let ranks: Vec<u8> = policy.classes().iter().map(|class| class.rank).collect();
    assert_eq!(ranks, [7, 6, 5, 4, 3, 2, 1, 0]);
}

#[test]
fn more_classes_share_streams_only_within_their_rank_if_that_can_be() {
    // Ranks of 1, 2 and 12 classes.
    let text: String = (0..15)
        .map(|n| {
            let band = match n {
                0 => 0,
                1 | 2 => 1,
                _ => 2,
            };
            format!("[[class]]\nname = \"c{n}\"\nband = {band}\n")
        })
        .collect();
    let policy = policy(&format!("default = \"c0\"\n{text}")).unwrap();
    assert_eq!(
        streams(&policy),
        [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]
    );
}

#[test]
fn the_worst_ranks_share_a_stream_if_there_are_more_than_eight() {
    let text: String = (0..10)
        .map(|n| format!("[[class]]\nname = \"c{n}\"\nband = {n}\n"))
        .collect();
    let policy = policy(&format!("default = \"c0\"\n{text}")).unwrap();
    assert_eq!(streams(&policy), [0, 1, 2, 3, 4, 5, 6, 7, 7, 7]);
}

#[test]
fn token_buckets_rank_by_priority_across_their_whole_tree() {
    let text = "default = \"be\"\ndiscipline = \"htb\"\n\
        [[class]]\nname = \"ef\"\nrate = \"1 kbit/s\"\nprio = 1\n\
        [[class]]\nname = \"af\"\nrate = \"1 kbit/s\"\n\
        [[class]]\nname = \"af1\"\nparent = \"af\"\nrate = \"1 kbit/s\"\nprio = 2\n\
        [[class]]\nname = \"be\"\nrate = \"1 kbit/s\"\nprio = 0\n";
    let policy = policy(text).unwrap();
    let ranks: Vec<u8> = policy.classes().iter().map(|class| class.rank).collect();
    assert_eq!(ranks, [1, 2, 0]);
}

#[test]
fn rates_follow_percentages_and_the_line() {
    let text = "default = \"a\"\ndiscipline = \"htb-strict\"\n\
        [[class]]\nname = \"all\"\nrate = \"50 %\"\nceil = \"100 %\"\n\
        [[class]]\nname = \"a\"\nparent = \"all\"\nrate = \"30 kbit/s\"\nceil = \"100 %\"\n\
        [[class]]\nname = \"b\"\nparent = \"all\"\nrate = \"25 %\"\n";
    let at = |text: &str, line| {
        let rates = policy(text).unwrap().plan().rates(line);
        rates[1..]
            .iter()
            .map(|rates| (rates.rate_bit_s, rates.ceil_bit_s))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        at(text, 100_000),
        [(50_000, 100_000), (30_000, 100_000), (12_500, 12_500)]
    );
    // What doesn't fit under 20 kbit/s shrinks in proportion: 30 and 5.
    assert_eq!(
        at(text, 40_000),
        [(20_000, 40_000), (17_142, 40_000), (2857, 5000)]
    );
    let exact = text.replace("htb-strict", "htb");
    assert_eq!(
        at(&exact, 40_000),
        [(20_000, 40_000), (30_000, 40_000), (5000, 5000)]
    );
    let scaled = format!("on_rate_change = \"scale\"\nline = \"100 kbit/s\"\n{exact}");
    assert_eq!(
        at(&scaled, 40_000),
        [(20_000, 40_000), (12_000, 40_000), (5000, 5000)]
    );
}

#[test]
fn rules_name_only_classes_that_hold_packets() {
    let text = "default = \"b\"\n[[class]]\nname = \"a\"\n\
        [[class]]\nname = \"b\"\nparent = \"a\"\n[[match]]\nclass = \"a\"\n";
    let error = policy(text).unwrap_err().to_string();
    assert!(
        error.contains("rule 1 names no class `a`: write one of b"),
        "{error}"
    );
}
