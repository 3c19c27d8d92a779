use super::*;
use alloc::string::ToString;

fn read(text: &str) -> Result<QueueConfig, toml::de::Error> {
    toml::from_str(text)
}

#[test]
fn every_kind_reads_back_and_has_the_defaults_of_its_source() {
    let kinds = ["fifo", "fair", "sfq", "fq-codel", "wred"];
    let packets = [100, 100, 127, 10_240, 64];
    for (kind, packets) in kinds.into_iter().zip(packets) {
        let config = read(&alloc::format!("kind = \"{kind}\"")).unwrap();
        assert_eq!(config.packets_default(), packets);
        assert_eq!(
            (config.absorbs_repeats(), config.thins_acks()),
            (false, false)
        );
        assert_eq!(config.fault(), None);
        assert_eq!(read(&toml::to_string(&config).unwrap()), Ok(config));
        let saving = alloc::format!("kind = \"{kind}\"\nabsorb_repeats = true\nthin_acks = true");
        let config = read(&saving).unwrap();
        assert_eq!(
            (config.absorbs_repeats(), config.thins_acks()),
            (true, true)
        );
    }
    let QueueConfig::Sfq(sfq) = read("kind = \"sfq\"").unwrap() else {
        panic!()
    };
    assert_eq!((sfq.flows, sfq.buckets, sfq.depth), (128, 1024, 127));
    let QueueConfig::FqCodel(codel) = read("kind = \"fq-codel\"").unwrap() else {
        panic!()
    };
    assert_eq!((codel.flows, codel.ecn), (1024, true));
}

#[test]
fn thresholds_default_by_code_point() {
    let QueueConfig::Wred(wred) =
        read("kind = \"wred\"\nprofile.CS1 = { min = 5, max = 15, denominator = 2 }").unwrap()
    else {
        panic!()
    };
    let limits = |name: &str| {
        let profile = wred.profile_of(name.parse().unwrap());
        (profile.min, profile.max, profile.denominator)
    };
    assert_eq!(limits("CS1"), (5, 15, 2));
    let names = [
        "CS0", "CS2", "CS3", "CS4", "CS5", "CS6", "CS7", "EF", "AF11", "AF22", "AF43",
    ];
    let min = [20, 24, 26, 28, 30, 32, 34, 36, 32, 28, 24];
    for (name, min) in names.into_iter().zip(min) {
        assert_eq!(limits(name), (min, 40, 10), "{name}");
    }
}

#[test]
fn what_cannot_work_is_named() {
    let faults = [
        ("kind = \"sfq\"\nflows = 0", "flows"),
        ("kind = \"sfq\"\nflows = 1025", "flows"),
        ("kind = \"sfq\"\nbuckets = 0", "buckets"),
        ("kind = \"sfq\"\ndepth = 0", "depth"),
        ("kind = \"sfq\"\nquantum = 63", "quantum"),
        ("kind = \"sfq\"\nperturb = \"0 s\"", "perturb"),
        ("kind = \"fq-codel\"\nflows = 65537", "flows"),
        ("kind = \"fq-codel\"\nquantum = \"65 kB\"", "quantum"),
        ("kind = \"fq-codel\"\ninterval = \"0 ms\"", "interval"),
        ("kind = \"wred\"\nexponent = 0", "exponent"),
        ("kind = \"wred\"\nexponent = 17", "exponent"),
        ("kind = \"wred\"\ntypical_packet = 0", "typical_packet"),
        (
            "kind = \"wred\"\nprofile.EF = { min = 9, max = 9 }",
            "profile",
        ),
        (
            "kind = \"wred\"\nprofile.EF = { min = 8, max = 9, denominator = 0 }",
            "profile",
        ),
    ];
    for (text, key) in faults {
        assert_eq!(
            read(text).unwrap().fault().map(|(key, _)| key),
            Some(key),
            "{text}"
        );
    }
    let errors = [
        (
            "kind = \"codel\"",
            "unknown variant `codel`, expected one of `fifo`, `fair`",
        ),
        ("flows = 3", "missing field `kind`"),
        ("kind = \"fifo\"\nflows = 3", "unknown field `flows`"),
        ("kind = \"sfq\"\nperturb = 10", "`10` is no time"),
        (
            "kind = \"wred\"\nprofile.AF55 = { min = 1, max = 2 }",
            "`AF55` is no code point",
        ),
        (
            "kind = \"wred\"\nprofile.EF = { min = 1 }",
            "missing field `max`",
        ),
    ];
    for (text, message) in errors {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}
