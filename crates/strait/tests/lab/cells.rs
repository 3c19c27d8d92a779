//! Cells of packet radio.

use std::path::Path;

use super::{can_run, has, lab, lab_that, shortened};

#[test]
fn a_cell_of_three_stations_carries_a_call_over_two_hops() {
    if !can_run("lab cell") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let changes = [
        ("duration = \"14 s\"", "duration = \"9 s\""),
        ("stop = \"12 s\"", "stop = \"8 s\""),
        ("stop = \"11 s\"", "stop = \"7 s\""),
        ("stop = \"10 s\"", "stop = \"7 s\""),
    ];
    let path = shortened(folder.path(), "cell.toml", &changes);
    let told = lab(folder.path(), &path, &["--only", "voice,ping"]);
    told.expect_all(&["cell-voice-loss", "cell-voice-p99", "cell-ping-loss"]);
}

#[test]
fn a_far_receiver_does_not_slow_the_near_ones() {
    if !can_run("lab far station") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let scenario =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/manet/far-station.toml");
    let text = std::fs::read_to_string(scenario).unwrap();
    let text = text
        .replace("\"30 s\"", "\"14 s\"")
        .replace("\"28 s\"", "\"13 s\"");
    let path = folder.path().join("far-station.toml");
    std::fs::write(&path, text).unwrap();
    let told = lab(folder.path(), &path, &[]);
    told.expect_all(&["far-near-rate", "far-far-rate", "lab-nothing-left"]);
}

#[test]
fn a_station_walks_live_as_its_file_says() {
    if !can_run("lab cell walk") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lab");
    let told = lab(folder.path(), &scenarios.join("cell-walk.toml"), &[]);
    told.expect_all(&["cell-walk-away", "cell-walk-back", "lab-nothing-left"]);
}

#[test]
fn calls_over_three_waveforms_are_as_prompt_as_in_simulation() {
    if !can_run("lab waveforms") {
        return;
    }
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lab");
    let told = lab_that(&scenarios.join("waveforms.toml"), &[], |told| {
        told.checks().iter().all(|it| it["ok"] == true)
    });
    told.expect_all(&[
        "waveforms-g-voice-p99",
        "waveforms-t-voice-loss",
        "waveforms-s-data",
        "lab-nothing-left",
    ]);
}

/// The policy of S. Gulder and M. Déziel, by gateways and by this kernel, with the flows of their
/// Table 3 by `mgen` and a page: audio comes through both, and best effort gets what is left.
#[test]
fn a_policy_works_in_gateways_and_in_this_kernel_side_by_side() {
    let programs = ["mgen", "nft", "tc"];
    if !can_run("lab kernel") || !programs.into_iter().all(has) {
        eprintln!("lab kernel: skipped without root, `mgen`, `nft` or `tc`");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let changes = [("\"62 s\"", "\"12 s\""), ("\"61 s\"", "\"11 s\"")];
    let path = shortened(folder.path(), "../manet/two-hop.toml", &changes);
    let page = "\n[[traffic]]\nname = \"page\"\nkind = \"tcp\"\nfamily = 4\nfrom = \"ha\"\nto = \"hb\"\n\
                start = \"2 s\"\noctets = \"60 kB\"\ndscp = \"AF21\"\n";
    let text = std::fs::read_to_string(&path).unwrap() + page;
    std::fs::write(&path, text).unwrap();
    let options = ["--variant", "1b", "--with-kernel", "2900 kbit/s"];
    let told = lab(folder.path(), &path, &options);
    told.expect_all(&["lab-nothing-left"]);
    for column in [2, 3] {
        let number = |metric: &str| told.number("two-hop", metric, column);
        let all = (number("audio.loss"), number("audio.delay_p99_s"));
        // Of so few the first count, which wait for ARP; best effort waits seconds.
        assert!(all.0 < 0.03 && all.1 < 0.2, "{column}: {all:?}");
        assert!(number("video.loss") < 0.05, "{column}");
        assert!(number("data1.loss") > 0.5, "{column}");
        assert!(
            (number("page.complete") - 1.0).abs() < f64::EPSILON,
            "{column}"
        );
        let flows = ["audio", "video", "data1", "data2", "data3"];
        let sum: f64 = flows
            .map(|it| number(&format!("{it}.rate_bit_s")))
            .iter()
            .sum();
        assert!((2.0e6..3.5e6).contains(&sum), "{column}: {sum}");
    }
    // Marked by the host, so in the class of pages and files.
    assert!(told.number("delay-parts in a", "af21", 1) > 40.0);
}

/// Three calls where the air has room for two, as each packet takes it twice.
#[test]
fn a_call_over_two_hops_is_admitted_by_the_air_of_both() {
    if !can_run("lab cell calls") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let changes = [
        ("\"24 s\"", "\"14 s\""),
        ("\"20 s\"", "\"13 s\""),
        ("\"22 s\"", "\"13 s\""),
    ];
    let path = shortened(folder.path(), "cell-calls.toml", &changes);
    let told = lab_that(&path, &[], |told| {
        told.checks().iter().all(|it| it["ok"] == true)
    });
    told.expect_all(&["cell-calls-first", "cell-calls-second", "cell-calls-third"]);
}

#[test]
fn on_a_cell_a_file_is_repaired_hop_by_hop_and_a_call_is_not() {
    if !can_run("lab hbh cell") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let changes = [
        ("\"40 s\"", "\"16 s\""),
        ("\"18 s\"", "\"13 s\""),
        ("300 kB", "120 kB"),
    ];
    let path = shortened(folder.path(), "../manet/hbh.toml", &changes);
    let told = lab(folder.path(), &path, &[]);
    told.expect_all(&["hbh-cell-file", "hbh-cell-call", "lab-nothing-left"]);
    let loss = told.number("hbh-cell", "call.loss", 2);
    assert!(loss > 0.01, "{loss}");
}

/// The test of S. Gulder and M. Déziel with programs in use, shorter: `mgen`, `wget` from nginx and
/// from an FTP server, each in its class of their policy.
#[test]
fn pages_and_files_of_real_servers_cross_a_cell_in_their_class() {
    let programs = ["mgen", "nft", "nginx", "vsftpd", "wget"];
    if !can_run("lab steps") || !programs.into_iter().all(has) {
        eprintln!("lab steps: skipped without root, or one of {programs:?}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("steps.mgn");
    let changes = [
        ("\"275 s\"", "\"26 s\""),
        ("start = \"30 s\"", "start = \"10 s\""),
        ("start = \"90 s\"", "start = \"13 s\""),
        ("150 MB", "400 kB"),
    ];
    let path = shortened(folder.path(), "../manet/steps-one.toml", &changes);
    let text = std::fs::read_to_string(&path).unwrap();
    let whole = text.lines().find_map(|line| line.strip_prefix("script = "));
    let whole = whole.unwrap().trim_matches('"');
    std::fs::write(&path, text.replace(whole, script.to_str().unwrap())).unwrap();
    let short = std::fs::read_to_string(whole).unwrap();
    let short = short
        .replace("\n120.0 ", "\n5.0 ")
        .replace("\n180.0 ", "\n7.0 ");
    std::fs::write(&script, short.replace("\n240.0 ", "\n14.0 ")).unwrap();
    let told = lab(folder.path(), &path, &["--variant", "1b"]);
    told.expect_all(&["lab-wrong-octets", "lab-nothing-left"]);
    let number = |metric: &str| told.number("steps-one", metric, 2);
    for transfer in ["http", "ftp"] {
        let complete = number(&format!("{transfer}.complete"));
        assert!((complete - 1.0).abs() < f64::EPSILON, "{transfer}");
    }
    // Audio, video, and what sets clocks; best effort has what is left.
    let losses = [1, 2, 3, 6].map(|flow| number(&format!("flows.{flow}.loss")));
    assert!(losses[0] < 0.05 && losses[1] < 0.02, "{losses:?}");
    assert!(losses[2] > 0.1, "{losses:?}");
    let packets = |class: &str| told.number("delay-parts in a", class, 1);
    let all = ["ef", "af31", "af21", "be"].map(packets);
    // Of 400 kB each 280 packets or more, those that ask and acknowledge the other way.
    assert!(
        all[2] > 560.0 && all.iter().all(|it| *it > 100.0),
        "{all:?}"
    );
}
