use super::*;
use crate::config::PolicyConfig;
use alloc::string::ToString;

fn lints(text: &str, bit_s: Option<u64>) -> Vec<Lint> {
    let config: PolicyConfig = toml::from_str(text).unwrap();
    let line = bit_s.map(|bit_s| Line {
        bit_s,
        unit_octets: 1500,
        cuts_packets: false,
    });
    lint(&Policy::compile(&config).unwrap(), line)
}

fn one(text: &str, bit_s: Option<u64>) -> String {
    let all = lints(text, bit_s);
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].to_string()
}

#[test]
fn rates_above_the_parents_are_told() {
    let text = |rate: &str, discipline: &str| {
        alloc::format!(
            "discipline = \"{discipline}\"\ndefault = \"a\"\nclass = [\
             {{ name = \"all\", rate = \"1 Mbit/s\" }},\
             {{ name = \"a\", parent = \"all\", rate = \"500 kbit/s\", quantum = \"1500 B\" }},\
             {{ name = \"b\", parent = \"all\", rate = \"{rate}\", quantum = \"1500 B\" }}]"
        )
    };
    let told = one(&text("501 kbit/s", "htb"), None);
    assert!(
        told.contains("below `all` add up to 1001000 bit/s"),
        "{told}"
    );
    assert_eq!(lints(&text("500 kbit/s", "htb"), None), []);
    assert_eq!(lints(&text("501 kbit/s", "htb-strict"), None), []);
}

#[test]
fn who_can_starve_is_told_with_the_reason() {
    let text = |limit: &str| {
        alloc::format!(
            "default = \"b\"\n[[class]]\nname = \"a\"\nband = 0\n{limit}\n[[class]]\nname = \"b\"\n"
        )
    };
    let told = one(&text(""), Some(9600));
    assert!(
        told.contains("`b` can starve: `a` goes before it"),
        "{told}"
    );
    assert_eq!(lints(&text(""), None), []);
    let shaped = "shape = { rate = \"4800 bit/s\" }";
    assert_eq!(lints(&text(shaped), Some(9600)), []);
    let policed = "police = { kind = \"bucket\", rate = \"4800 bit/s\" }";
    assert_eq!(lints(&text(policed), Some(9600)), []);
    let too_much = "shape = { rate = \"9600 bit/s\" }";
    assert!(one(&text(too_much), Some(9600)).contains("nothing is left"));
}

#[test]
fn bursts_and_quanta_out_of_proportion_are_told() {
    let text = |burst: &str, quantum: &str| {
        alloc::format!(
            "discipline = \"htb\"\ndefault = \"a\"\nclass = [{{ name = \"a\", \
             rate = \"100 kbit/s\", burst = \"{burst}\", quantum = \"{quantum}\" }}]"
        )
    };
    let told = one(&text("64 kB", "1500 B"), Some(512_000));
    assert!(
        told.contains("burst of `a` is 64000 octets, 1000 ms of the line"),
        "{told}"
    );
    let told = one(&text("1600 B", "1499 B"), Some(512_000));
    assert!(
        told.contains("quantum of `a` is 1499 octets, less than a packet"),
        "{told}"
    );
    assert_eq!(lints(&text("1600 B", "1500 B"), Some(512_000)), []);
}

#[test]
fn a_queue_that_is_full_before_early_drop_is_told() {
    let text = |packets: u32| {
        alloc::format!(
            "[[class]]\nname = \"a\"\npackets = {packets}\n\
             queue = {{ kind = \"wred\", profile = {{ CS2 = {{ min = 40, max = 60 }} }} }}\n"
        )
    };
    let told = one(&text(60), None);
    assert!(
        told.contains("holds 60 packets") && told.contains("hold 90 or more"),
        "{told}"
    );
    assert_eq!(lints(&text(61), None), []);
}

#[test]
fn what_compiling_noticed_is_among_it() {
    let text = "default = \"b\"\nclass = [{ name = \"a\", band = 0 }, { name = \"b\" }]\n\
                match = [{ class = \"a\", dscp = \"CS1\" }]";
    assert!(one(text, None).contains("rule 1 puts CS1 before best effort"));
}
