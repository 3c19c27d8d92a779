//! A small first corpus: the golden vectors, the scenario files, and noise for the structured
//! targets.

use std::fs;
use std::path::{Path, PathBuf};

/// A name and its octets.
pub type Seed = (String, Vec<u8>);

/// Pieces of a packet with numbers, out of order, and notes between them.
fn numbered_pieces() -> Vec<u8> {
    let orders: [&[u8]; 6] = [
        &[9, 0xb0, 0, b'a', b' '],
        &[9, 0x72, 2, b'c', b'd'],
        &[10, 0x97, 0, 3, 0, 2],
        &[9, 0x31, 1, b'b', b'c'],
        &[6, 0x12, 5, 9],
        &[0xff],
    ];
    orders.concat()
}

fn numbered(name: &str, all: Vec<Vec<u8>>) -> Vec<Seed> {
    let numbers = (0..).zip(all);
    numbers.map(|(n, it)| (format!("{name}-{n}"), it)).collect()
}

/// The first corpus of a target.
pub fn of(target: &str) -> Vec<Seed> {
    match target {
        "ip_packet" => vectors("ip/packets.txt").into_iter().map(chosen).collect(),
        "ethernet" => crate::ethernet::seeds(),
        "payload" => crate::payload::seeds(),
        "segments" => vectors("link/segments.txt"),
        "repairs" => vec![("pieces".into(), numbered_pieces())],
        "hbh" => vec![("orders".into(), crate::hbh::orders())],
        "s5066" => vec![("exchange".into(), crate::s5066::exchange())],
        "dns" => vec![("exchange".into(), crate::dns::exchange())],
        "dns_frame" => numbered("frame", crate::dns::frames()),
        "dns_message" => numbered("message", crate::dns::messages()),
        "mail" => vec![
            ("dialogue".into(), crate::mail::dialogue()),
            ("replies".into(), crate::mail::dialogue_replies()),
            ("lmtp".into(), crate::mail::lmtp_replies()),
            ("logins".into(), crate::mail::logins()),
            ("envelope".into(), crate::mail::envelope()),
            ("folded".into(), crate::mail::folded()),
        ],
        "proxy_handshake" => numbered("request", crate::proxy::handshakes()),
        "proxy_pack" => numbered("direction", crate::proxy::packed()),
        "proxy_session" => vec![("exchange".into(), crate::proxy::exchange())],
        "sis" => vec![("exchange".into(), crate::sis::exchange())],
        "modem_port" => vec![("exchange".into(), crate::modem_port::exchange())],
        "kiss" => vec![("frames".into(), kiss_frames())],
        "octet_frames" => {
            let stuffed = vectors("link/segments.txt").into_iter();
            let frame = |(name, octets): Seed| chosen((name, stuff(&octets)));
            stuffed.map(frame).collect()
        }
        "rtp" => {
            let payload = |(name, octets): Seed| {
                let (_, payload) = strait_wire::ip::udp_payload(&octets)?;
                Some((name, payload.to_vec()))
            };
            vectors("ip/packets.txt")
                .into_iter()
                .filter_map(payload)
                .collect()
        }
        "mgen_capture" => vec![("capture".into(), capture())],
        "mgen_log" => vec![("log".into(), MGEN_LOG.as_bytes().to_vec())],
        "mgen_message" => vec![("message".into(), mgen_message())],
        "mgen_script" => texts("mgen", &[]),
        "rohc_decompress" => vec![
            ("voice".into(), compressed("01-ipv6-udp-rtp-voice.jsonl")),
            ("ids".into(), compressed("04-ipv4-udp-ipid.jsonl")),
            ("flows".into(), compressed("12-three-rtp-flows.jsonl")),
            (
                "answered".into(),
                compressed("13-omode-ipv6-udp-rtp-voice.jsonl"),
            ),
        ],
        "pcapng" => vec![("capture".into(), capture())],
        "pcap" => vec![("capture".into(), made_up(0))],
        "analyse" => {
            let mut both = vec![("pcapng".into(), capture()), ("pcap".into(), made_up(5))];
            both.extend(packets().iter().map(|(name, packet)| {
                let mut file = capture();
                strait_wire::pcapng::packet(&mut file, 0, 1, packet, packet.len() as u32, None);
                (name.clone(), file)
            }));
            both.into_iter().map(chosen).collect()
        }
        "node_config" => texts("nodes", crate::gateway::CONFIGS),
        "link_config" => texts("links", &[]),
        "policy_config" => texts("policies", &[]),
        "scenario" => {
            let mut all = texts("studies", &[SCENARIO]);
            all.extend(texts("lab", &[]));
            all
        }
        "journal" => (0..4)
            .map(|number| {
                let session = noise(number, 600);
                let (_, file) = crate::gateway::session(&session);
                (format!("session-{number}"), file)
            })
            .collect(),
        _ => (0..24)
            .map(|number| {
                let octets = 1 << (number % 8 + 5);
                (format!("noise-{number}"), noise(number, octets as usize))
            })
            .collect(),
    }
}

/// A small scenario with some of everything.
const SCENARIO: &str = r#"
name = "small"
duration = "5 s"
[[node]]
name = "a"
file = "a.toml"
[[node]]
name = "b"
config = { name = "b", host = {}, port = [{ name = "line", kind = "serial", baud = 9600 }] }
[[host]]
name = "ha"
behind = "a"
addresses = ["10.1.0.2/24"]
[[host]]
name = "hb"
behind = "b"
addresses = ["10.2.0.2/24"]
[[link]]
between = ["a.line", "b.line"]
channel = { kind = "serial", baud = 9600 }
[[traffic]]
name = "voice"
kind = "voice"
from = "ha"
to = "hb"
start = "1 s"
family = 4
payload = "31 B"
period = "200 ms"
stop = "4 s"
[[fault]]
at = "2 s"
kind = "kill"
node = "a"
restart_after = "1 s"
[[variant]]
name = "fifo"
node = { policy = { preset = "fifo" } }
[[expect]]
id = "voice"
metric = "voice.loss"
max = 0.0
"#;

/// Some lines of a log of MGEN's.
const MGEN_LOG: &str = "\
04:53:46.108348 START Mgen Version 5.02b
04:53:46.308604 JOIN group>224.1.2.3 interface>lo
04:53:46.561835 RERR type>length src>127.0.0.1/58232
04:53:46.568501 ON flow>1 srcPort>0 dst>127.0.0.1/6023
04:39:36.047541 SEND proto>UDP flow>3 seq>0 srcPort>7001 dst>::1/6011 size>100
04:38:54.878545 RECV proto>UDP flow>4 seq>0 src>127.0.0.1/35593 dst>127.0.0.1/6011 \
sent>04:38:54.878311 size>100 gps>INVALID,999.000000,999.000000,4294966297 data>2:ABCD
04:38:54.978598 OFF src>127.0.0.1/38925 dstPort>6010
";

fn mgen_message() -> Vec<u8> {
    use strait_wire::mgen::{Message, SentAt};
    let dst = std::net::SocketAddr::from(([192, 0, 2, 1], 5000));
    let mut message = Message::new(7, 1, SentAt::from_ns(1_795_227_410_063_730_000), dst);
    message.data = &[1, 2, 3];
    let mut out = Vec::new();
    let _ = message.emit(100, &mut out);
    out
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Lines of `name: hexadecimal`.
fn vectors(file: &str) -> Vec<Seed> {
    let text = fs::read_to_string(root().join("vectors").join(file)).unwrap_or_default();
    let seed = |line: &str| {
        let (name, hex) = line.split_once(": ")?;
        let octet = |at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
        let octets: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(octet).collect();
        Some((name.to_string(), octets?))
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(seed).collect()
}

/// The compressed packets and feedback of one stream of the vectors, each behind its length.
fn compressed(file: &str) -> Vec<u8> {
    let path = root().join("vectors/rohc").join(file);
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut seed = vec![0];
    for line in text.lines() {
        let keys = ["\"rohc\":\"", "\"feedback\":\""];
        let hex = keys.iter().find_map(|key| line.split_once(key));
        let hex = hex.and_then(|(_, rest)| rest.split_once('"'));
        let octets: Vec<u8> = hex
            .map_or("", |(hex, _)| hex)
            .as_bytes()
            .chunks(2)
            .map_while(octet)
            .collect();
        if let (Ok(length), false) = (u8::try_from(octets.len()), octets.is_empty()) {
            seed.push(length);
            seed.extend(octets);
        }
    }
    seed
}

/// Two hexadecimal digits.
fn octet(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()
}

/// The files of one folder of `scenarios/`, and texts from here.
fn texts(folder: &str, more: &[&str]) -> Vec<Seed> {
    let entries = fs::read_dir(root().join("scenarios").join(folder));
    let mut paths: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    paths.sort();
    let file = |path: &PathBuf| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some((name, fs::read(path).ok()?))
    };
    let mut all: Vec<Seed> = paths.iter().filter_map(file).collect();
    for (number, text) in more.iter().enumerate() {
        all.push((format!("text-{number}"), text.as_bytes().to_vec()));
    }
    all
}

/// With the octet in front that some targets take their choices from.
fn chosen((name, mut octets): Seed) -> Seed {
    octets.insert(0, 0x40);
    (name, octets)
}

fn stuff(octets: &[u8]) -> Vec<u8> {
    let mut out = vec![strait_wire::octets::FLAG];
    strait_wire::octets::stuff_into(octets, &mut out);
    out.push(strait_wire::octets::FLAG);
    out
}

fn capture() -> Vec<u8> {
    let mut out = Vec::new();
    strait_wire::pcapng::section(&mut out, "strait");
    strait_wire::pcapng::interface(&mut out, strait_wire::pcapng::linktype::RAW, 65_535, "line");
    strait_wire::pcapng::packet(
        &mut out,
        0,
        1_234_567_890,
        &[0x45; 20],
        1500,
        Some("dropped"),
    );
    out
}

/// A capture of a few packets in the older format.
fn made_up(delay_ns: u64) -> Vec<u8> {
    let mut file = Vec::new();
    let mut made = strait_capture::Synthetic::new(1, 12, 300, delay_ns);
    // Reading from memory can't fail.
    let _ = std::io::Read::read_to_end(&mut made, &mut file);
    file
}

/// Octets without a pattern, the same for the same number.
pub fn noise(number: u64, octets: usize) -> Vec<u8> {
    let mut stream = strait_core::chance::Stream::new(number, "fuzz/noise");
    (0..octets).map(|_| stream.draw() as u8).collect()
}

/// Packets for targets that need some.
pub fn packets() -> &'static [Seed] {
    static PACKETS: std::sync::OnceLock<Vec<Seed>> = std::sync::OnceLock::new();
    PACKETS.get_or_init(|| vectors("ip/packets.txt"))
}

/// A number, then frames of a modem: a UI frame, one to be acknowledged, an empty and a broken one.
fn kiss_frames() -> Vec<u8> {
    let mut out = vec![64];
    out.extend_from_slice(
        b"\xc0\x00\x9c\x94\x6e\xa0\x40\x40\xe0\x9c\x6e\x98\x8a\x9a\x40\x63\x03\xf0hi\xc0",
    );
    out.extend_from_slice(
        b"\xc0\x5c\x00\x07a\xdb\xdcb\xdb\xddc\xc0\xc0\xc0\x00\xdb\x01\xc0\x00\x01\xc0",
    );
    out
}
