//! Octet lines that damage what they carry.

use strait_wire::ip::is_packet;

use super::*;

const OCTET: Duration = Duration::from_nanos(1_041_667);
const ADAPTER: &str = "profile = \"adapter\"\ncompression = \"rohc\"\n";

/// Two gateways with an octet line between them, one octet time after another.
struct Line {
    ends: [Gateway; 2],
    now: Instant,
    octets: u64,
    /// One of so many octets is damaged.
    each: u64,
    /// By end, packets that came and when.
    came: [Vec<(Instant, Vec<u8>)>; 2],
    sent: [u64; 2],
}

impl Line {
    fn new(texts: [&str; 2], each: u64) -> Self {
        let text = |keys: &str| String::from(SERIAL) + keys;
        Self {
            ends: texts.map(|keys| gateway(&text(keys))),
            now: Instant::ZERO,
            octets: 0,
            each,
            came: [const { Vec::new() }; 2],
            sent: [0; 2],
        }
    }

    fn put(&mut self, from: usize, packet: &[u8]) {
        self.ends[from].handle(self.now, frame(PortId::HOST, packet));
    }

    fn run(&mut self, octets: u64) {
        for _ in 0..octets {
            self.now += OCTET;
            for from in [0, 1] {
                let to = 1 - from;
                let due = self.ends[from]
                    .wake()
                    .is_some_and(|wake| wake.at <= self.now);
                if due {
                    self.ends[from].handle(self.now, Input::Timeout);
                }
                let mut octet = pull(&mut self.ends[from], LINE, self.now, 1);
                self.octets += 1;
                self.sent[from] += octet.len() as u64;
                if self.each > 0 && self.octets.is_multiple_of(self.each) {
                    octet.iter_mut().for_each(|octet| *octet ^= 0x10);
                }
                if !octet.is_empty() {
                    self.ends[to].handle(self.now, frame(LINE, &octet));
                }
                for packet in pull_all(&mut self.ends[to], PortId::HOST, self.now) {
                    self.came[to].push((self.now, packet));
                }
            }
            if self.octets % 1000 < 2 {
                self.ends.iter().for_each(Gateway::check);
            }
        }
    }

    /// Packets for the other end, one each so many octet times; how many of the last half came.
    fn put_each(&mut self, packets: usize, octets: u64) -> usize {
        for number in 0..packets {
            let packet = bulk(number);
            self.put(0, &packet);
            self.run(octets);
        }
        self.run(3000);
        let came: Vec<usize> = self.came[1].iter().filter_map(|it| number(&it.1)).collect();
        assert!(came.is_sorted(), "{came:?}");
        came.into_iter().filter(|it| *it >= packets / 2).count()
    }

    fn repairs(&self, end: usize) -> strait_core::stats::RepairStats {
        self.ends[end].stats().ports[1].repairs
    }
}

/// A packet with a number in it.
fn bulk(number: usize) -> Vec<u8> {
    let [from, to] = ["10.1.0.2:9999", "10.2.0.2:9999"].map(|it| it.parse().unwrap());
    let mut payload = vec![0xa5; 1000];
    payload[0] = number as u8;
    let mut out = Vec::new();
    ip::build_udp(from, to, 0, 64, 7, 0, &payload, &mut out);
    out
}

/// The number of such a packet.
fn number(packet: &[u8]) -> Option<usize> {
    (packet.len() == 1028).then(|| usize::from(packet[28]))
}

#[test]
fn a_line_with_errors_loses_nothing_once_they_were_seen() {
    for keys in [ADAPTER, "compression = \"rohc\"\n", ""] {
        let mut line = Line::new([keys, keys], 979);
        assert_eq!(line.put_each(40, 1500), 20, "{keys}");
        let (a, b) = (line.repairs(0), line.repairs(1));
        assert!(a.sends && b.wishes, "{keys}");
        assert!(a.repeated > 20 && b.segments_in > 200, "{a:?} {b:?}");
        assert_eq!((a.window_octets, b.held_octets), (0, 0));
        assert_eq!((a.forged, b.skipped, b.refused), (0, 0, 0));
        // Each packet has one fate, told when it has come.
        let fates = fates(&mut line.ends[0]);
        let gone = fates
            .iter()
            .filter(|it| matches!(it.fate, Fate::Forwarded { .. }));
        assert_eq!(gone.count(), 40);
        assert_eq!(line.ends[0].stats().held(), 0);
    }
}

#[test]
fn a_call_waits_for_no_repetition() {
    let mut line = Line::new([ADAPTER, ADAPTER], 487);
    let voice = udp("fd00:1::2", "fd00:2::2", 91, 46);
    (0..20).for_each(|number| line.put(0, &bulk(number)));
    let mut began = Vec::new();
    for _ in 0..120 {
        line.run(190);
        began.push(line.now);
        line.put(0, &voice);
    }
    line.run(500);
    assert!(line.repairs(0).repeated > 20);
    let calls = line.came[1].iter().filter(|(_, packet)| packet.len() == 91);
    let calls: Vec<Instant> = calls.map(|(at, _)| *at).collect();
    // At 490 octets an error, one of 12 packets with 40 octets is damaged.
    assert!(calls.len() > 100, "{}", calls.len());
    let late = |at: &Instant| at.since(*began.iter().rfind(|began| *began < at).unwrap());
    // Its headers go whole at first, and it waits for the octet that is leaving.
    let most = calls.iter().skip(20).map(late).max().unwrap();
    assert!(most <= OCTET * 52, "{most:?}");
    let parts = line.ends[0].stats().ports[1].urgent;
    assert_eq!(parts.frames, 120);
}

#[test]
fn a_clean_line_carries_the_same_octets_but_for_a_bit_of_the_hello() {
    for keys in [ADAPTER, ""] {
        let without = String::from(keys) + "repair = \"never\"\n";
        let mut with = Line::new([keys, keys], 0);
        let mut plain = Line::new([&without, &without], 0);
        for line in [&mut with, &mut plain] {
            assert_eq!(line.put_each(10, 1500), 5);
        }
        assert_eq!(with.sent, plain.sent);
        assert_eq!(with.repairs(0), strait_core::stats::RepairStats::default());
    }
}

#[test]
fn an_end_that_forbids_it_or_does_not_know_of_it_has_none() {
    let never = String::from(ADAPTER) + "repair = \"never\"\n";
    for keys in [[&never, ADAPTER], [ADAPTER, &never]] {
        let mut line = Line::new(keys, 979);
        assert!(line.put_each(40, 1500) < 15);
        let both = [line.repairs(0), line.repairs(1)];
        assert!(both.iter().all(|it| !it.sends && it.segments_in == 0));
    }
}

#[test]
fn what_is_always_repaired_is_so_from_the_start_and_on_one_line_of_two_profiles() {
    let always = "repair = \"always\"\n";
    let adapter = String::from(ADAPTER) + always;
    let mut line = Line::new([&adapter, "compression = \"rohc\"\n"], 0);
    assert_eq!(line.put_each(6, 1500), 3);
    let (a, b) = (line.repairs(0), line.repairs(1));
    // Only the end that is told so wants it.
    assert!(a.wishes && !a.sends && b.sends && !b.wishes);
    let mut line = Line::new([&adapter, &adapter], 0);
    assert_eq!(line.put_each(6, 1500), 3);
    assert!(line.repairs(0).sends && line.repairs(1).segments_in > 10);
    assert_eq!(line.repairs(0).repeated, 0);
}

#[test]
fn repairs_go_on_after_either_end_was_started_anew() {
    for reborn in [0, 1] {
        let mut line = Line::new([ADAPTER, ADAPTER], 979);
        line.put_each(20, 1500);
        line.put(0, &bulk(0));
        line.run(300);
        let text = String::from(SERIAL) + ADAPTER;
        let config: NodeConfig = config_text::parse("test.toml", &text).unwrap();
        line.ends[reborn] = up(Gateway::seeded(&config, 99, &[]).unwrap(), &text);
        line.came[1].clear();
        assert_eq!(line.put_each(40, 1500), 20, "{reborn}");
        assert!(line.repairs(0).sends && line.repairs(0).repeated > 0);
        assert_eq!(line.ends[0].stats().held(), 0);
    }
}

#[test]
fn packets_that_are_kept_go_with_the_port() {
    let mut line = Line::new([ADAPTER, ADAPTER], 979);
    line.put_each(20, 1500);
    assert!(line.repairs(0).sends);
    line.put(0, &bulk(1));
    line.run(1150);
    assert!(line.ends[0].stats().held() > 0);
    let event = PortEvent::Down(DownCause::Carrier);
    line.ends[0].handle(line.now, Input::Port { port: LINE, event });
    assert_eq!(line.ends[0].stats().held(), 0);
    line.ends[0].check();
    assert_eq!(line.ends[0].wake(), None);
}

#[test]
fn keys_that_cannot_work_are_refused() {
    let complaint = |keys: &str| {
        let text = String::from(SERIAL) + keys;
        let config: Result<NodeConfig, _> = config_text::parse("test.toml", &text);
        match config {
            Err(error) => error.to_string(),
            Ok(config) => Gateway::new(&config).unwrap_err().to_string(),
        }
    };
    for (keys, part) in [
        ("profile = \"plain\"\nrepair = \"never\"\n", "repair"),
        ("way_back = false\nrepair = \"always\"\n", "way_back"),
        ("repair = \"sometimes\"\n", "errors"),
    ] {
        let told = complaint(keys);
        assert!(told.contains(part), "{told}");
    }
    let udp = SERIAL.replace(
        "kind = \"serial\"\nbaud = 9600",
        "kind = \"udp\"\nrepair = \"never\"",
    );
    let error = config_text::parse::<NodeConfig>("test.toml", &udp).unwrap_err();
    assert!(error.to_string().contains("repair"), "{error}");
}

#[test]
fn what_stands_for_no_packet_begins_like_none() {
    let marks = [
        strait_wire::hello::MARK,
        strait_wire::repair::MARK,
        strait_link::payload::MARK,
    ];
    for (place, mark) in marks.iter().enumerate() {
        assert!(!marks[..place].contains(mark));
        // Padding, context numbers, feedback, IR-DYN; the TCP profile's `co_common` and IR.
        assert!(!(0xe0..=0xf8).contains(mark) && !(0xfa..=0xfd).contains(mark));
        // Other types of packets have a zero among their first four bits.
        assert!(*mark >= 0xf0 && !is_packet(&[*mark; 1500]));
    }
}
