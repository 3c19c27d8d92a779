//! Link files: those that are shipped, and what is wrong with others.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use strait_channel::hf::Air;
use strait_channel::{Channel, Line, LinkConfig, LinkError, Side};
use strait_core::time::Instant;

fn read(text: &str) -> Result<LinkConfig, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

/// What is said of a file that reads but describes no medium.
fn complaint(text: &str) -> String {
    let config = read(text).unwrap();
    Line::new(&config, "line", 1)
        .map(|_| ())
        .unwrap_err()
        .to_string()
}

/// Whether the medium has room at once: a line, or a path between two stations.
fn has_room(config: &LinkConfig) -> Result<bool, LinkError> {
    if !config.kind.is_shared() {
        let mut line = Line::new(config, "line", 1)?;
        return Ok(line.room(Instant::ZERO, Side::A).is_ok());
    }
    let mut air = Air::default();
    let a = air.add_station(config, Side::A, "a", 1)?;
    let b = air.add_station(config, Side::B, "b", 1)?;
    air.add_path([a, b], config, "path", 1)?;
    Ok(air.room(Instant::ZERO, a).is_ok())
}

#[test]
fn every_shipped_link_file_makes_a_medium() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/links");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let config = read(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let room = has_room(&config).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(room, "{}", path.display());
        // The resolved configuration is written beside results and reads back.
        let written = toml::Table::try_from(&config).unwrap();
        assert_eq!(written.try_into::<LinkConfig>().unwrap(), config);
        count += 1;
    }
    assert!(count >= 5, "{count}");
}

#[test]
fn unknown_keys_and_wrong_values_are_named_with_their_line() {
    let error = read("kind = \"serial\"\nbaud = 9600\nframeing = \"8N1\"\n").unwrap_err();
    assert!(
        error.contains("line 3") && error.contains("frameing"),
        "{error}"
    );
    let error = read("kind = \"serial\"\nbaud = 9600\nframing = \"8N4\"\n").unwrap_err();
    assert!(
        error.contains("line 3") && error.contains("like \"8N1\""),
        "{error}"
    );
    let error = read("kind = \"frames\"\nrate = \"9600 bit/s\"\nloss = \"120 %\"\n").unwrap_err();
    assert!(
        error.contains("line 3") && error.contains("120 %"),
        "{error}"
    );
    let reverse = "kind = \"serial\"\n[reverse]\nhalf_duplex = true\n";
    assert!(read(reverse).unwrap_err().contains("half_duplex"));
    assert!(read("kind = \"smoke\"\n").unwrap_err().contains("serial"));
}

#[test]
fn what_keys_exclude_is_said_with_a_remedy() {
    let serial = "kind = \"serial\"\nbaud = 9600\nframing = \"8N1\"\n";
    let frames = "kind = \"frames\"\nrate = \"9600 bit/s\"\n";
    let cases = [
        (
            "kind = \"serial\"\nframing = \"8N1\"",
            "`baud` is missing: write",
        ),
        (
            "kind = \"serial\"\nbaud = 9600",
            "`framing` is missing: write",
        ),
        (
            "kind = \"serial\"\nbaud = 0\nframing = \"8N1\"",
            "`baud` has no possible",
        ),
        ("kind = \"frames\"", "`rate` is missing: write"),
        (
            "kind = \"frames\"\nrate = \"1 bit/s\"\nframing = \"8N1\"",
            "`framing` does not",
        ),
        (
            &format!("{serial}rate = \"9600 bit/s\""),
            "`rate` does not belong",
        ),
        (
            &format!("{serial}loss = \"1 %\""),
            "`loss` does not belong here: a serial line has",
        ),
        (
            &format!("{serial}jitter = \"1 ms\""),
            "`jitter` does not belong",
        ),
        (
            &format!("{serial}duplicate = \"1 %\""),
            "`duplicate` does not belong",
        ),
        (
            &format!("{serial}reorder = \"1 %\""),
            "`reorder` does not belong",
        ),
        (
            &format!("{serial}[reverse]\nloss = \"1 %\""),
            "`reverse.loss` does not belong",
        ),
        (
            &format!("{serial}[[change]]\nat = \"1 s\"\nrate = \"1 bit/s\""),
            "`change.rate` does",
        ),
        (
            &format!("{serial}[[change]]\nat = \"1 s\""),
            "`change.baud` is missing",
        ),
        (
            &format!("{serial}[[change]]\nat = \"0 s\"\nbaud = 1"),
            "`change.at` has",
        ),
        (&format!("{frames}baud = 9600"), "`baud` does not belong"),
        (
            &format!("{frames}reorder = \"1 %\""),
            "`reorder_delay` is missing",
        ),
        (
            &format!("{frames}reorder_delay = \"1 s\""),
            "`reorder_delay` does not",
        ),
        (
            &format!("{frames}turnaround = \"1 s\""),
            "`turnaround` does not belong",
        ),
        (&format!("{frames}queue = 0"), "`queue` has no possible"),
        (
            &format!("{frames}frame_octets_max = 0"),
            "`frame_octets_max` has",
        ),
        (
            &format!("{frames}loss = \"1 %\"\n[burst_loss]\nenter = 0.1\nleave = 0.1"),
            "`burst_loss` does not belong here: choose",
        ),
        (
            &format!("{frames}[burst_loss]\nenter = 0.1\nleave = 0.0"),
            "`burst_loss.leave` has",
        ),
        (
            &format!("{frames}[[outage]]\nat = \"1 s\"\nlasts = \"0 s\""),
            "`outage.lasts` has",
        ),
        (
            &format!(
                "{frames}[[outage]]\nat = \"1 s\"\nlasts = \"2 s\"\n\
                 [[outage]]\nat = \"2 s\"\nlasts = \"1 s\""
            ),
            "`outage.at` has",
        ),
    ];
    for (text, expected) in cases {
        let said = complaint(text);
        assert!(
            said.contains(expected),
            "{text}\n  said {said}\n  not  {expected}"
        );
    }
}
