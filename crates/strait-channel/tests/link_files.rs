//! Link files: those that are shipped, and what is wrong with others.
#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]

use strait_channel::hf::Air;
use strait_channel::{Channel, Line, LinkConfig, Side};
use strait_core::keys::KeyError;
use strait_core::time::Instant;

fn read(text: &str) -> Result<LinkConfig, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

/// What is said of a file that describes no medium.
fn complaint(text: &str) -> String {
    read(text).map(|_| ()).unwrap_err()
}

/// Whether the medium has room at once: a line, or a path between two stations.
fn has_room(config: &LinkConfig) -> Result<bool, KeyError> {
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
        ("kind = \"serial\"\nframing = \"8N1\"", "key `baud`: needed"),
        ("kind = \"serial\"\nbaud = 9600", "key `framing`: needed"),
        (
            "kind = \"serial\"\nbaud = 0\nframing = \"8N1\"",
            "key `baud`: needed",
        ),
        ("kind = \"frames\"", "key `rate`: needed"),
        (
            "kind = \"frames\"\nrate = \"1 bit/s\"\nframing = \"8N1\"",
            "key `framing`: is for kind = \"serial\", and this link's is \"frames\": remove it",
        ),
        (
            &format!("{serial}rate = \"9600 bit/s\""),
            "key `rate`: is for kind = \"frames\" or \"hf\" or \"cell\", and this link's is \"serial\": \
             write `baud`",
        ),
        (
            &format!("{serial}loss = \"1 %\""),
            "key `loss`: is for kind = \"frames\" or \"cell\", and this link's is \"serial\": octets \
             are lost by `bit_errors`",
        ),
        (
            &format!("{serial}jitter = \"1 ms\""),
            "key `jitter`: is for kind = \"frames\"",
        ),
        (
            &format!("{serial}duplicate = \"1 %\""),
            "key `duplicate`: is for kind",
        ),
        (
            &format!("{serial}reorder = \"1 %\""),
            "key `reorder`: is for kind",
        ),
        (
            &format!("{serial}[reverse]\nloss = \"1 %\""),
            "key `reverse.loss`: is for kind",
        ),
        (
            &format!("{serial}[[change]]\nat = \"1 s\"\nrate = \"1 bit/s\""),
            "key `change.rate`: a serial line",
        ),
        (
            &format!("{serial}[[change]]\nat = \"1 s\""),
            "key `change.baud`: needed",
        ),
        (
            &format!("{serial}[[change]]\nat = \"0 s\"\nbaud = 1"),
            "key `change.at`: changes must be",
        ),
        (
            &format!("{frames}baud = 9600"),
            "key `baud`: is for kind = \"serial\", and this link's is \"frames\": write `rate`",
        ),
        (
            &format!("{frames}reorder = \"1 %\""),
            "key `reorder_delay`: needed",
        ),
        (
            &format!("{frames}reorder_delay = \"1 s\""),
            "key `reorder_delay`: write the share",
        ),
        (
            &format!("{frames}turnaround = \"1 s\""),
            "key `turnaround`: is for half_duplex",
        ),
        (&format!("{frames}queue = 0"), "key `queue`: it must be"),
        (
            &format!("{frames}frame_octets_max = 0"),
            "key `frame_octets_max`: it must",
        ),
        (
            &format!("{frames}loss = \"1 %\"\n[burst_loss]\nenter = 0.1\nleave = 0.1"),
            "key `burst_loss`: choose",
        ),
        (
            &format!("{frames}[burst_loss]\nenter = 0.1\nleave = 0.0"),
            "key `burst_loss.leave`: it must",
        ),
        (
            &format!("{frames}[[outage]]\nat = \"1 s\"\nlasts = \"0 s\""),
            "key `outage.lasts`: it must",
        ),
        (
            &format!(
                "{frames}[[outage]]\nat = \"1 s\"\nlasts = \"2 s\"\n\
                 [[outage]]\nat = \"2 s\"\nlasts = \"1 s\""
            ),
            "key `outage.at`: outages",
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
