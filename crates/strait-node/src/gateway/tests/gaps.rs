//! The profile `adapter` on frames: other packets in the gaps between a call's.

use super::*;

const FRAMES: &str = r#"
name = "a"
[host]
addresses = ["10.9.0.1/30", "fd00:9::1/64"]
[[port]]
name = "line"
kind = "udp"
profile = "adapter"
"#;

/// 960 octets each second, as 9600 baud has.
const RATE: LineRate = LineRate::new(7680, 8);
const PERIOD: Duration = Duration::from_millis(200);

/// Two gateways and the line from one to the other, which takes a frame when the one before has
/// left.
struct Bench {
    a: Gateway,
    b: Gateway,
    now: Instant,
    free: Instant,
    /// When each packet was out at b, and its octets.
    out: Vec<(Instant, usize)>,
    /// When each frame began to leave, and its octets.
    frames: Vec<(Instant, usize)>,
}

impl Bench {
    fn new(text: &str) -> Self {
        let on = || {
            let mut gateway = gateway(text);
            let event = PortEvent::Changed(state(RATE));
            gateway.handle(Instant::ZERO, Input::Port { port: LINE, event });
            gateway
        };
        Self {
            a: on(),
            b: on(),
            now: Instant::ZERO,
            free: Instant::ZERO,
            out: Vec::new(),
            frames: Vec::new(),
        }
    }

    fn offer(&mut self, at: Instant, bytes: &[u8]) {
        self.run(at);
        self.a.handle(at, frame(PortId::HOST, bytes));
        self.settle(at);
    }

    /// Until `until`, which isn't part of it.
    fn run(&mut self, until: Instant) {
        loop {
            let free = Some(self.free).filter(|free| *free > self.now);
            let wake = self.a.wake().map(|wake| wake.at.max(self.now));
            let Some(at) = free.into_iter().chain(wake).min() else {
                break;
            };
            if at >= until {
                break;
            }
            self.now = at;
            if wake == Some(at) {
                self.a.handle(at, Input::Timeout);
            }
            self.settle(at);
        }
        self.now = until;
    }

    fn settle(&mut self, now: Instant) {
        self.now = now;
        self.a.check();
        if now < self.free {
            return;
        }
        let bytes = pull(&mut self.a, LINE, now, 1400);
        if bytes.is_empty() {
            return;
        }
        self.free = now + RATE.time_for(bytes.len() as u64);
        self.frames.push((now, bytes.len()));
        self.b.handle(self.free, frame(LINE, &bytes));
        for packet in pull_all(&mut self.b, PortId::HOST, self.free) {
            self.out.push((self.free, packet.len()));
        }
    }

    /// A call of 91 octets each 200 ms from 0 on, moved by `shake`, beside a backlog that begins
    /// after its third packet. What each packet waited, in octets of the line.
    fn waits(&mut self, packets: u32, shake: impl Fn(u32) -> Duration) -> Vec<f64> {
        let bulk = udp("10.1.0.2", "10.2.0.2", 1100, 0);
        let mut sent = Vec::new();
        for packet in 0..packets {
            let at = Instant::ZERO + PERIOD * packet + shake(packet);
            if packet > 2 {
                self.offer(at, &bulk);
            }
            self.offer(at, &udp("fd00:1::2", "fd00:2::2", 91, 46));
            sent.push(at);
        }
        self.run(Instant::ZERO + PERIOD * packets);
        let calls = self.out.iter().filter(|(_, octets)| *octets == 91);
        let waits = calls.zip(&sent).map(|((out, _), sent)| {
            // 91 octets, a header and the long check.
            let waited = out.since(*sent).as_secs_f64() - RATE.time_for(96).as_secs_f64();
            waited * 960.0
        });
        let waits: Vec<f64> = waits.collect();
        assert_eq!(waits.len(), sent.len());
        waits
    }
}

fn shaken(packet: u32, most: Duration) -> Duration {
    // A permutation of 0 … 16 that looks like chance.
    most * (packet * 7 % 17) / 16
}

#[test]
fn a_call_on_time_waits_for_nothing_and_the_line_is_full() {
    let mut bench = Bench::new(FRAMES);
    let waits = bench.waits(100, |_| Duration::ZERO);
    let worst = waits[20..].iter().copied().fold(0.0, f64::max);
    assert!(worst < 0.01, "{worst} {waits:?}");
    let after = Instant::from_secs(5);
    let busy: usize = bench
        .frames
        .iter()
        .filter(|it| it.0 >= after)
        .map(|it| it.1)
        .sum();
    // A rest of 3 ms and a part of an octet for each packet of the call.
    assert!(busy as f64 > 0.975 * 960.0 * 15.0, "{busy}");
    let gaps = &bench.a.stats().ports[1].flows.gaps;
    assert_eq!((gaps.unforeseen, gaps.error.count()), (3, 97));
    assert!(
        gaps.fitted > 90 && gaps.rests > 80,
        "{} {}",
        gaps.fitted,
        gaps.rests
    );
}

#[test]
fn a_shaken_call_waits_for_one_least_piece_at_most() {
    for most_ms in [1, 5, 20, 40] {
        let most = Duration::from_millis(most_ms);
        let mut bench = Bench::new(FRAMES);
        let waits = bench.waits(200, |packet| shaken(packet, most));
        let worst = waits[10..].iter().copied().fold(0.0, f64::max);
        assert!(worst <= 35.0, "{most_ms} ms: {worst} {waits:.0?}");
        let bulk = bench.out.iter().filter(|it| it.1 == 1100).count() as f64;
        let share = bulk * 1100.0 / (960.0 * (40.0 - 0.6) - 197.0 * 96.0);
        assert!(share > 0.85, "{most_ms} ms: {share}");
    }
}

#[test]
fn frames_shorter_than_the_least_piece_go_between_a_calls_packets_too() {
    let mut bench = Bench::new(&format!("{FRAMES}segment = \"20 B\"\n"));
    let waits = bench.waits(200, |packet| shaken(packet, Duration::from_millis(20)));
    let worst = waits[10..].iter().copied().fold(0.0, f64::max);
    assert!(worst <= 24.0, "{worst} {waits:.0?}");
}

#[test]
fn without_a_call_pieces_take_100_ms_and_the_first_packet_waits_for_no_more() {
    let mut bench = Bench::new(FRAMES);
    let bulk = udp("10.1.0.2", "10.2.0.2", 1100, 0);
    bench.offer(Instant::ZERO, &bulk);
    bench.run(Instant::from_millis(1000));
    assert!(
        bench.frames[1..9]
            .iter()
            .all(|(_, octets)| *octets == 96 + 3)
    );
    let call = Instant::from_millis(1001);
    bench.offer(call, &udp("fd00:1::2", "fd00:2::2", 91, 46));
    bench.run(Instant::from_secs(2));
    let (out, _) = bench.out.iter().find(|it| it.1 == 91).unwrap();
    assert!(out.since(call) <= RATE.time_for(99 + 96));
}

#[test]
fn the_line_rests_until_the_call_is_late_by_what_is_usual() {
    let mut bench = Bench::new(FRAMES);
    for packet in 0..50 {
        let call = udp("fd00:1::2", "fd00:2::2", 91, 46);
        bench.offer(Instant::ZERO + PERIOD * packet, &call);
    }
    // Due at 10 s, 3.125 ms early or late.
    let almost = Instant::from_millis(9990);
    bench.offer(almost, &udp("10.1.0.2", "10.2.0.2", 100, 0));
    assert_eq!(bench.a.wake().unwrap().why, WakeReason::Gap);
    let late = Instant::from_nanos(10_003_125_001);
    assert_eq!(bench.a.wake().unwrap().at, late);
    let before = late - Duration::from_nanos(1);
    assert!(pull(&mut bench.a, LINE, before, 1400).is_empty());
    assert!(!pull(&mut bench.a, LINE, late, 1400).is_empty());
    // A call's packet doesn't rest.
    let mut bench = Bench::new(FRAMES);
    for packet in 0..6 {
        let call = udp("fd00:1::2", "fd00:2::2", 91, 46);
        bench.offer(Instant::ZERO + PERIOD * packet, &call);
    }
    assert_eq!(
        bench.frames.last().map(|it| it.0),
        Some(Instant::from_secs(1))
    );
    assert_eq!(bench.a.wake(), None);
}

#[test]
fn flows_are_told_only_where_the_profile_tells_them_apart() {
    let mut bench = Bench::new(FRAMES);
    bench.waits(8, |_| Duration::ZERO);
    let flows = bench.a.flows();
    let natures: Vec<_> = flows.iter().map(|it| (it.port, it.nature)).collect();
    use strait_core::flow::Nature;
    assert_eq!(
        natures,
        [(LINE, Nature::Ruled), (LINE, Nature::Conventional)]
    );
    let mut bench = Bench::new(&FRAMES.replace("adapter", "segments"));
    bench.waits(8, |_| Duration::ZERO);
    assert_eq!(bench.a.flows(), []);
}

#[test]
fn a_call_that_nobody_marked_goes_first() {
    // For a piece of 100 ms, and its own 80 octets and those around; whole packets take 1.15 s.
    for (profile, waits_s) in [("adapter", 0.21), ("segments", 0.21), ("plain", 1.3)] {
        let mut bench = Bench::new(&FRAMES.replace("adapter", profile));
        let bulk = udp("10.1.0.2", "10.2.0.2", 1100, 0);
        let mut sent = Vec::new();
        for packet in 0..60 {
            let at = Instant::ZERO + PERIOD * packet;
            // Almost three times what the line takes, and less than 30 s of it in all.
            if packet > 20 && packet % 2 == 0 {
                bench.offer(at, &bulk);
            }
            bench.offer(at, &udp("fd00:1::2", "fd00:2::2", 80, 0));
            sent.push(at);
        }
        bench.run(Instant::from_secs(13));
        let calls = bench.out.iter().filter(|(_, octets)| *octets == 80);
        let waits = calls.zip(&sent).map(|((out, _), sent)| out.since(*sent));
        let worst = waits.skip(21).max().unwrap().as_secs_f64();
        assert!(worst <= waits_s, "{profile}: {worst} s");
        assert_eq!(bench.a.stats().dropped.total(), 0);
        let flows = bench.a.flows();
        let call = flows.iter().find(|flow| flow.octets < 200);
        let nature = call.map(|call| (call.nature, call.class.0, call.dscp));
        let first = Some((strait_core::flow::Nature::Observed, 0, 0));
        assert_eq!(nature, first, "{profile}");
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_and_the_bound_of_a_piece_holds_whatever_comes(
        gaps in prop::collection::vec((0..400u64, 0..3u8), 1..80),
    ) {
        let mut bench = Bench::new(FRAMES);
        let mut at = Instant::ZERO;
        for (gap, kind) in &gaps {
            at += Duration::from_millis(*gap);
            let bytes = match kind {
                0 => udp("fd00:1::2", "fd00:2::2", 91, 46),
                1 => udp("10.1.0.2", "10.2.0.2", 60, 40),
                _ => udp("10.1.0.2", "10.2.0.2", 700, 0),
            };
            bench.offer(at, &bytes);
        }
        bench.run(at + Duration::from_secs(100));
        bench.a.check();
        prop_assert_eq!(bench.a.stats().held(), 0);
        let (a, b) = (bench.a.stats(), bench.b.stats());
        prop_assert_eq!(a.forwarded, b.delivered);
        let ended = a.forwarded + a.dropped.total() + a.absorbed;
        prop_assert_eq!(ended, gaps.len() as u64 + a.originated);
        prop_assert!(bench.frames.iter().all(|(_, octets)| *octets <= 101));
    }
}

#[test]
fn who_calls_where_there_is_no_room_is_told_in_both_families() {
    for (src, dst, own) in [
        ("10.1.0.2", "10.2.0.2", "10.9.0.1"),
        ("fd00:1::2", "fd00:2::2", "fd00:9::1"),
    ] {
        for (text, told) in [
            (String::from(FRAMES), true),
            (
                String::from(FRAMES) + "admission = { refuse = \"drop\" }\n",
                false,
            ),
            (
                String::from(FRAMES) + "admission = { enabled = false }\n",
                false,
            ),
        ] {
            let mut bench = Bench::new(&text);
            // 500 octets each 100 ms.
            let call = udp(src, dst, 495, 46);
            for packet in 0..3 {
                let at = Instant::from_millis(100 * packet);
                bench.a.handle(at, frame(PortId::HOST, &call));
            }
            let dropped = bench.a.stats().dropped.by(DropCause::NotAdmitted);
            assert_eq!(dropped, u64::from(!text.contains("enabled")));
            let answers = pull_all(&mut bench.a, PortId::HOST, Instant::from_millis(200));
            let answers: Vec<_> = answers
                .iter()
                .map(|bytes| {
                    (
                        ip::parse_icmp_error(bytes).unwrap().0,
                        PacketInfo::parse(bytes),
                    )
                })
                .collect();
            let prohibited = IcmpError::Unreachable(Unreachable::AdminProhibited);
            match &answers[..] {
                [(error, Ok(info))] if told => {
                    assert_eq!(*error, prohibited);
                    assert_eq!(
                        (info.src, info.dst),
                        (own.parse().unwrap(), src.parse().unwrap())
                    );
                }
                others => assert!(!told && others.is_empty(), "{others:?}"),
            }
            bench.a.check();
        }
    }
}

#[test]
fn admission_is_for_the_adapter_and_for_shared_radios() {
    let made = |profile: &str| {
        let text = FRAMES.replace("adapter", profile) + "admission = {}\n";
        let config: NodeConfig = config_text::parse("test.toml", &text).unwrap();
        Gateway::new(&config).map_err(|error| error.place)
    };
    let place = "[[port]] line admission";
    assert_eq!(made("hbh").map(drop), Err(place.into()));
    assert!(made("plain").is_ok() && made("segments").is_ok());
}

#[test]
fn a_third_call_harms_none_of_two() {
    let mut bench = Bench::new(FRAMES);
    let call = |number: u8| udp(&alloc::format!("10.1.0.{number}"), "10.2.0.2", 65, 46);
    let mut sent = Vec::new();
    for packet in 0..100 {
        let start = Instant::ZERO + PERIOD * packet;
        for number in 2..5 {
            let at = start + Duration::from_millis(80) * u32::from(number - 2);
            if number < 4 || packet > 20 {
                bench.offer(at, &call(number));
            }
            if number < 4 {
                sent.push(at);
            }
        }
    }
    bench.run(Instant::from_secs(21));
    assert_eq!(bench.a.stats().dropped.by(DropCause::NotAdmitted), 77);
    let out: Vec<_> = bench.out.iter().map(|(out, _)| *out).collect();
    assert_eq!(out.len(), sent.len() + 2);
    let waits = bench.a.stats().classes[0].parts;
    assert_eq!(waits.part_ns(DelayPart::Class), 0);
}
