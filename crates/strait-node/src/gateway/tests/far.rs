//! Reports between gateways.

use strait_core::stats::FarStats;

use super::*;

fn end(own: u8, far: u8, kind: &str) -> String {
    alloc::format!(
        "name = \"n{own}\"\n[host]\naddresses = [\"10.9.0.{own}/30\"]\n[far]\n\
         partners = [\"10.9.0.{far}\"]\n[[port]]\nname = \"line\"\n{kind}\n"
    )
}

fn serial(own: u8, far: u8) -> Gateway {
    gateway(&end(own, far, "kind = \"serial\"\nbaud = 9600"))
}

fn far(gateway: &Gateway) -> &FarStats {
    &gateway.stats().far[0]
}

/// Runs both for some seconds, and whatever leaves one comes to the other.
fn run(ends: &mut [Gateway; 2], from_s: u64, until_s: u64) -> u64 {
    let mut octets = 0;
    for s in from_s..until_s {
        let now = Instant::from_secs(s);
        for at in 0..2 {
            ends[at].handle(now, Input::Timeout);
            for sent in pull_all(&mut ends[at], LINE, now) {
                octets += sent.len() as u64;
                ends[1 - at].handle(now, frame(LINE, &sent));
            }
        }
    }
    octets
}

#[test]
fn both_ends_know_each_other_for_a_hundredth_of_the_line() {
    let mut ends = [serial(1, 2), serial(2, 1)];
    let octets = run(&mut ends, 0, 300);
    for (at, gateway) in ends.iter().enumerate() {
        let far = far(gateway);
        assert!(far.reports_in >= 30, "{far:?}");
        assert_eq!(far.brief.name, ["n2", "n1"][at]);
        assert!(far.age_max <= Duration::from_secs(10), "{far:?}");
        assert_eq!(far.malformed, 0);
    }
    // Two ways, 300 s, 7680 bit/s of octets.
    assert!(octets <= 2 * 300 * 7680 / 8 / 100, "{octets} octets");
}

#[test]
fn a_far_end_that_begins_anew_is_no_older_for_it() {
    let text = end(2, 1, "kind = \"serial\"\nbaud = 9600");
    let config: NodeConfig = config_text::parse("test.toml", &text).unwrap();
    let mut ends = [serial(1, 2), serial(2, 1)];
    run(&mut ends, 0, 50);
    // Its clock stands 20 s back, which is less than the half of what a report's clock counts.
    let mut far_end = up(Gateway::seeded(&config, 2, &[]).unwrap(), &text);
    for s in 50..150 {
        let (here, there) = (Instant::from_secs(s), Instant::from_secs(s - 20));
        ends[0].handle(here, Input::Timeout);
        far_end.handle(there, Input::Timeout);
        for sent in pull_all(&mut far_end, LINE, there) {
            ends[0].handle(here, frame(LINE, &sent));
        }
        let age = far(&ends[0]).as_of.map(|at| here.since(at));
        assert!(age.unwrap() <= Duration::from_secs(12), "{s} s: {age:?}");
    }
    assert!(far(&ends[0]).reports_in >= 15);
}

#[test]
fn a_report_is_taken_from_the_partner_alone_and_read_with_care() {
    let mut gateway = serial(1, 2);
    let at = |host: u8| SocketAddr::new([10, 9, 0, host].into(), 7482);
    for (from, cause) in [(3, Some(DropCause::WrongSource)), (2, None)] {
        let mut packet = Vec::new();
        let built = ip::build_udp(at(from), at(1), 1, 64, 0, 0, b"\x09odd", &mut packet);
        assert!(built);
        let mut sender = serial(2, 1);
        sender.handle(Instant::ZERO, frame(PortId::HOST, &packet));
        for sent in pull_all(&mut sender, LINE, Instant::ZERO) {
            gateway.handle(Instant::ZERO, frame(LINE, &sent));
        }
        let dropped = fates(&mut gateway)
            .into_iter()
            .find_map(|it| match it.fate {
                Fate::Dropped(cause) => Some(cause),
                _ => None,
            });
        assert_eq!(dropped, cause, "from {from}");
    }
    assert_eq!((far(&gateway).reports_in, far(&gateway).malformed), (1, 1));
    assert_eq!(far(&gateway).as_of, None);
}

#[test]
fn on_a_radio_with_turns_no_report_goes_alone() {
    let kind = "kind = \"hf\"\nneighbours = [{ name = \"b\", hf = \"0.0.0.2\" }]\n\
                hf = { address = \"0.0.0.1\" }\n[[route]]\nprefix = \"10.9.0.2/32\"\nport = \"line\"";
    let mut gateway = gateway(&end(1, 2, kind));
    for s in 0..100 {
        gateway.handle(Instant::from_secs(s), Input::Timeout);
    }
    assert_eq!(far(&gateway).reports_out, 0);
}

#[test]
fn a_file_names_partners_as_they_can_be() {
    let bad = |keys: &str| {
        let text = end(1, 2, "kind = \"serial\"\nbaud = 9600");
        let text = text.replace("partners = [\"10.9.0.2\"]", keys);
        let config: NodeConfig = config_text::parse("test.toml", &text).unwrap();
        Gateway::new(&config).unwrap_err().to_string()
    };
    for (keys, word) in [
        ("partners = []", "1 to 16"),
        ("partners = [\"10.9.0.1\"]", "gateway's own"),
        ("partners = [\"fd00::2\"]", "of its family"),
        ("partners = [\"224.0.0.1\"]", "no gateway's address"),
        (
            "partners = [\"10.9.0.2\"]\nshare = \"20 %\"",
            "10 % at most",
        ),
        ("partners = [\"10.9.0.2\"]\nport = 0", "1 to 65535"),
    ] {
        assert!(bad(keys).contains(word), "{keys}: {}", bad(keys));
    }
}
