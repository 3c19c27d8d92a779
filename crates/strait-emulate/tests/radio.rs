//! The emulator as an HF channel between modems with data ports, over TCP.

#![cfg(test)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use strait_channel::LinkConfig;
use strait_core::units::Time;
use strait_emulate::{
    AirEmulator, EmulateConfig, EmulateError, EmulateReport, EndSpec, ModemSpec, NetConfig, NetPath,
};
use strait_live::signals::Stopper;
use strait_wire::modem_port::{ModemPacket, ModemReader, NackCause, Order, TxState, VERSION};

const PATIENCE: Duration = Duration::from_secs(10);

/// 240 kbit/s in blocks of 160 ms and 4800 octets; times as short as those of a fast radio.
fn link() -> LinkConfig {
    let mut link = LinkConfig::hf(240_000);
    let hf = link.hf_config_mut().unwrap();
    hf.bandwidth = "48 kHz".parse().unwrap();
    hf.interleaver = strait_core::waveform::Interleaver::UltraShort;
    let ms = |ms| Some(Time(Duration::from_millis(ms)));
    (hf.turnaround, hf.preamble, hf.carrier_detect) = (ms(60), ms(100), ms(20));
    link
}

struct Running {
    stopper: Stopper,
    thread: JoinHandle<EmulateReport>,
    modems: Vec<SocketAddr>,
}

/// A modem at an address of the system's choice.
fn any() -> EndSpec {
    EndSpec::Modem(ModemSpec::tcp(([127, 0, 0, 1], 0).into()))
}

fn start_pair(link: LinkConfig) -> Running {
    start(EmulateConfig {
        link,
        ends: [any(), any()],
        name: "air".into(),
        seed: 1,
    })
}

fn start(config: impl Into<NetConfig>) -> Running {
    let (sender, receiver) = channel();
    let config = config.into();
    let thread = thread::spawn(move || {
        let mut emulator = AirEmulator::open(config).unwrap();
        sender
            .send((emulator.stopper(), emulator.ready_line()))
            .unwrap();
        emulator.run().unwrap();
        emulator.report()
    });
    let (stopper, line) = receiver.recv().unwrap();
    let found = line.split("modem:").skip(1).map(|rest| {
        let end = rest.find([',', ';']).unwrap();
        rest[..end].parse().unwrap()
    });
    Running {
        stopper,
        thread,
        modems: found.collect(),
    }
}

/// What a terminal was told, in words.
#[derive(Debug, PartialEq)]
enum Told {
    Carrier(bool),
    Octets(usize),
    State(TxState),
    Nack(NackCause),
    Error,
}

/// A terminal that knows nothing but the packets.
struct Terminal {
    stream: TcpStream,
    reader: ModemReader,
    told: Vec<(Instant, Told)>,
    octets: Vec<u8>,
    greeted: bool,
}

impl Terminal {
    fn connect(modem: SocketAddr) -> Self {
        let stream = TcpStream::connect(modem).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let mut terminal = Self {
            stream,
            reader: ModemReader::default(),
            told: Vec::new(),
            octets: Vec::new(),
            greeted: false,
        };
        terminal.say(&[ModemPacket::Connect { version: VERSION }]);
        terminal.until(|terminal| terminal.greeted);
        terminal
    }

    fn say(&mut self, packets: &[ModemPacket<'_>]) {
        let mut out = Vec::new();
        packets.iter().for_each(|packet| packet.emit(&mut out));
        self.stream.write_all(&out).unwrap();
    }

    fn until(&mut self, done: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !done(self) {
            assert!(began.elapsed() < PATIENCE, "told {:?}", self.told);
            self.listen();
        }
    }

    fn listen(&mut self) {
        let mut buffer = [0; 8192];
        let Ok(count) = self.stream.read(&mut buffer) else {
            return;
        };
        let mut answers = Vec::new();
        let (told, octets, greeted) = (&mut self.told, &mut self.octets, &mut self.greeted);
        let mut tell = |what| told.push((Instant::now(), what));
        self.reader.feed(&buffer[..count], |packet| match packet {
            ModemPacket::Connect { version } => {
                ModemPacket::ConnectAck { version }.emit(&mut answers);
            }
            ModemPacket::Probe => packet.emit(&mut answers),
            ModemPacket::InitialSetup { .. } => *greeted = true,
            ModemPacket::Carrier { on, .. } => tell(Told::Carrier(on)),
            ModemPacket::Data { octets: came, .. } => {
                octets.extend_from_slice(came);
                tell(Told::Octets(came.len()));
            }
            ModemPacket::TxStatus(status) => tell(Told::State(status.state)),
            ModemPacket::Nack { cause, .. } => tell(Told::Nack(cause)),
            ModemPacket::Error => tell(Told::Error),
            _ => {}
        });
        self.stream.write_all(&answers).unwrap();
    }

    fn at(&self, what: &Told) -> Option<Instant> {
        self.told.iter().rfind(|it| it.1 == *what).map(|it| it.0)
    }
}

const fn data_of(order: Order, octets: &[u8]) -> ModemPacket<'_> {
    ModemPacket::Data {
        order,
        id: [0; 12],
        octets,
    }
}

#[test]
fn what_one_terminal_sends_the_other_gets_after_the_channel_s_times() {
    let running = start_pair(link());
    let mut near = Terminal::connect(running.modems[0]);
    let mut far = Terminal::connect(running.modems[1]);
    let data: Vec<u8> = (0..9000u32).map(|n| n as u8).collect();
    near.say(&[data_of(Order::First, b"?")]);
    near.until(|near| near.at(&Told::Nack(NackCause::NotArmed)).is_some());
    let keyed = Instant::now();
    let send = data_of;
    near.say(&[
        ModemPacket::Arm,
        send(Order::First, &data[..4000]),
        ModemPacket::Start,
        send(Order::Continuation, &data[4000..8000]),
        send(Order::Last, &data[8000..]),
    ]);
    far.until(|far| far.octets.len() >= 9000);
    // Turnaround, preamble, two blocks, and the decoding of the second.
    let took = keyed.elapsed();
    let least = Duration::from_millis(60 + 100 + 2 * 160 + 160);
    assert!(
        (least..least + Duration::from_millis(400)).contains(&took),
        "{took:?}"
    );
    far.until(|far| {
        far.told
            .last()
            .is_some_and(|it| it.1 == Told::Carrier(false))
    });
    assert_eq!(
        far.octets, data,
        "and nothing of what filled the last block"
    );
    near.until(|near| {
        near.told
            .last()
            .is_some_and(|it| it.1 == Told::State(TxState::Flushed))
    });
    let carrier = far.at(&Told::Carrier(true)).unwrap();
    assert!(carrier < far.at(&Told::Carrier(false)).unwrap());

    // Both key at once: nobody hears the other.
    for terminal in [&mut near, &mut far] {
        terminal.octets.clear();
        terminal.told.clear();
        terminal.say(&[
            ModemPacket::Arm,
            send(Order::Only, b"me"),
            ModemPacket::Start,
        ]);
    }
    for terminal in [&mut near, &mut far] {
        terminal.until(|it| {
            it.told
                .last()
                .is_some_and(|it| it.1 == Told::State(TxState::Flushed))
        });
    }
    thread::sleep(Duration::from_millis(200));
    near.listen();
    far.listen();
    assert!(near.octets.is_empty() && far.octets.is_empty());

    // Whoever speaks something else is told so and left.
    let mut stranger = near;
    stranger.say(&[ModemPacket::TxSetup {
        rate_bit_s: 1,
        block_bits: 1,
    }]);
    stranger.until(|it| it.at(&Told::Error).is_some());
    let mut again = Terminal::connect(running.modems[0]);
    again.say(&[ModemPacket::RequestStatus]);
    again.until(|it| {
        it.told
            .iter()
            .filter(|it| it.1 == Told::State(TxState::Flushed))
            .count()
            > 1
    });

    running.stopper.stop();
    let report = running.thread.join().unwrap();
    let [there, back] = &report.directions[..] else {
        panic!("two directions");
    };
    assert_eq!((there.frames, there.octets), (3, 9002));
    assert_eq!(
        (there.lost.get("collision"), back.lost.get("collision")),
        (Some(&1), Some(&1))
    );
}

#[test]
fn of_three_modems_each_hears_those_that_it_has_a_path_with() {
    let path = |name: &str, between| NetPath {
        name: name.into(),
        between,
        link: link(),
    };
    // `a` and `c` don't hear each other.
    let running = start(NetConfig {
        name: "net".into(),
        ends: ["a", "b", "c"].map(|name| (name.into(), any())).into(),
        calls: Vec::new(),
        paths: vec![path("a-b", [0, 1]), path("b-c", [1, 2])],
        seed: 1,
    });
    let modems = running.modems.iter();
    let mut terminals: Vec<Terminal> = modems.map(|modem| Terminal::connect(*modem)).collect();
    let say = |terminal: &mut Terminal, octets: &[u8]| {
        terminal.say(&[
            ModemPacket::Arm,
            data_of(Order::Only, octets),
            ModemPacket::Start,
        ]);
    };
    // Heard from its beginning to its end.
    let silent = |terminal: &Terminal| {
        let began = terminal.at(&Told::Carrier(true));
        began.is_some_and(|began| terminal.at(&Told::Carrier(false)) > Some(began))
    };
    say(&mut terminals[1], b"to both");
    for heard in [0, 2] {
        terminals[heard].until(|it| it.octets == b"to both" && silent(it));
    }
    // Neither knows of the other, and in the middle nothing is understood.
    terminals[1].told.clear();
    say(&mut terminals[0], b"from a");
    say(&mut terminals[2], b"from c");
    terminals[1].until(silent);
    assert!(terminals[1].octets.is_empty());
    terminals[1].told.clear();
    say(&mut terminals[2], b"from c again");
    terminals[1].until(|it| it.octets == b"from c again" && silent(it));
    terminals[0].listen();
    assert_eq!(terminals[0].octets, b"to both");

    running.stopper.stop();
    let report = running.thread.join().unwrap();
    let ways = report.directions.iter();
    let ways: Vec<_> = ways
        .map(|way| {
            (
                way.path.as_str(),
                way.from.as_str(),
                way.to.as_str(),
                way.frames,
            )
        })
        .collect();
    assert_eq!(
        ways,
        [
            ("a-b", "a", "b", 1),
            ("a-b", "b", "a", 1),
            ("b-c", "b", "c", 1),
            ("b-c", "c", "b", 2),
        ]
    );
    let met: Vec<_> = report
        .modems
        .iter()
        .map(|it| (it.turns, it.collisions))
        .collect();
    assert_eq!(met, [(1, 0), (1, 2), (2, 0)]);
    assert!(report.to_text().contains("collisions"));
}

#[test]
fn ends_that_no_radio_has_are_refused() {
    let pty = |path: &str| EndSpec::Pty(path.into());
    let config = |ends| EmulateConfig {
        link: link(),
        ends,
        name: "air".into(),
        seed: 1,
    };
    let refused = AirEmulator::open(config([pty("/tmp/x-a"), pty("/tmp/x-b")]));
    let Err(EmulateError::End(error)) = refused else {
        panic!("a pty keyed by nobody was taken");
    };
    assert!(error.to_string().contains("keyed_by = \"data\""), "{error}");
}
