//! Two live stations on an emulated HF channel, and programs that know nothing but the octets of
//! the standard.
#![cfg(test)]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant as Wall};

use strait_channel::LinkConfig;
use strait_core::id::PortId;
use strait_core::node::{Boot, Node, NodeFactory, PortState, Room, TxMeta};
use strait_core::time::Instant;
use strait_core::units::Time;
use strait_emulate::{AirEmulator, EmulateConfig, EndSpec, ModemSpec};
use strait_live::clock::Clock;
use strait_live::error::Error;
use strait_live::gateway::ports::ports;
use strait_live::node_loop::Runner;
use strait_live::ports::{IoCounts, PortIo, Received, Sent};
use strait_live::signals::Stopper;
use strait_node::GatewayFactory;
use strait_node::config_text::parse;

const PATIENCE: Duration = Duration::from_secs(20);

/// The host side, which isn't there.
struct Nowhere;

impl PortIo for Nowhere {
    fn open(&mut self, _: Instant) -> Result<PortState, Error> {
        Err(Error::invalid("open the host side", "it isn't there"))
    }
    fn close(&mut self) {}
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn room(&mut self, _: Instant) -> Result<Room, Option<Instant>> {
        Err(None)
    }
    fn transmit(&mut self, _: Instant, _: &TxMeta, _: &[u8]) -> io::Result<Sent> {
        Ok(Sent::Refused)
    }
    fn holds(&self) -> bool {
        false
    }
    fn flush(&mut self, _: Instant) -> io::Result<()> {
        Ok(())
    }
    fn drained(&mut self, _: Instant) -> bool {
        true
    }
    fn receive(&mut self, _: Instant, _: &mut [u8]) -> io::Result<Received> {
        Ok(Received::Nothing)
    }
    fn counts(&self) -> IoCounts {
        IoCounts::default()
    }
}

struct Running {
    stoppers: Vec<Stopper>,
    threads: Vec<JoinHandle<()>>,
    /// Where the stations' clients connect to.
    clients: Vec<SocketAddr>,
}

impl Running {
    /// A fast channel with short blocks, and two stations on it.
    fn start(datagrams: bool) -> Self {
        let mut link = LinkConfig::hf(240_000);
        let hf = link.hf_config_mut().unwrap();
        hf.bandwidth = "48 kHz".parse().unwrap();
        hf.interleaver = strait_core::waveform::Interleaver::UltraShort;
        let ms = |ms| Some(Time(Duration::from_millis(ms)));
        (hf.turnaround, hf.preamble, hf.carrier_detect) = (ms(60), ms(100), ms(20));
        let mut running = Self {
            stoppers: Vec::new(),
            threads: Vec::new(),
            clients: Vec::new(),
        };
        let (sender, receiver) = channel();
        running.threads.push(thread::spawn(move || {
            let any = EndSpec::Modem(ModemSpec {
                datagrams,
                ..ModemSpec::tcp(([127, 0, 0, 1], 0).into())
            });
            let config = EmulateConfig {
                link,
                ends: [any.clone(), any],
                name: "air".into(),
                seed: 1,
            };
            let mut emulator = AirEmulator::open(config).unwrap();
            let told = (emulator.stopper(), emulator.ready_line());
            sender.send(told).unwrap();
            emulator.run().unwrap();
        }));
        let (stopper, line) = receiver.recv().unwrap();
        running.stoppers.push(stopper);
        let kind = if datagrams { "modem-udp:" } else { "modem:" };
        let modems = line.split(kind).skip(1).map(|rest| {
            let end = rest.find([',', ';']).unwrap();
            rest[..end].parse().unwrap()
        });
        for (number, modem) in (1..).zip(modems) {
            running.add_station(number, modem, datagrams);
        }
        running
    }

    fn add_station(&mut self, number: u8, modem: SocketAddr, datagrams: bool) {
        let transport = if datagrams { "udp" } else { "tcp" };
        let text = format!(
            "name = \"n{number}\"\nhost = {{}}\n[[port]]\nname = \"hf\"\nkind = \"hf\"\n\
             rate = \"240 kbit/s\"\nneighbours = [{{ name = \"far\", hf = \"0.0.0.{}\" }}]\n\
             [port.hf]\naddress = \"0.0.0.{number}\"\nanswer_margin = \"300 ms\"\n\
             sis = {{ listen = \"127.0.0.1:0\" }}\n[port.hf.modem]\naddress = \"{modem}\"\n\
             transport = \"{transport}\"\n\
             bandwidth = \"48 kHz\"\ninterleaver = \"ultra-short\"\nturnaround = \"60 ms\"\n\
             preamble = \"100 ms\"\n",
            3 - number
        );
        let (sender, receiver) = channel();
        self.threads.push(thread::spawn(move || {
            let config: strait_node::NodeConfig = parse("node.toml", &text).unwrap();
            let mut ports = ports(&config).unwrap();
            ports[0] = Box::new(Nowhere);
            let boot = Boot {
                entropy: u64::from(number),
                ..Boot::default()
            };
            let node = GatewayFactory::new(config).unwrap().boot(boot);
            let mut runner: Runner<dyn Node> = Runner::new(Clock::start(), node, ports).unwrap();
            let failures = runner.open_ports();
            assert!(failures.iter().all(|(port, _)| *port == PortId::HOST));
            sender
                .send((runner.stopper(), runner.listens_at()[0]))
                .unwrap();
            runner.run().unwrap();
        }));
        let (stopper, address) = receiver.recv().unwrap();
        self.stoppers.push(stopper);
        self.clients.push(address);
    }

    fn stop(self) {
        // The stations first: their modems go last.
        self.stoppers.iter().rev().for_each(Stopper::stop);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

/// A program beside the gateway.
struct Client(TcpStream);

impl Client {
    fn connect(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    /// Connects and gets an access point.
    fn bound(to: SocketAddr, sap: u8) -> Self {
        let mut client = Self::connect(to);
        client.say(&[0x90, 0xeb, 0, 0, 4, 1, sap << 4, 0x12, 0]);
        client.hears(&[0x90, 0xeb, 0, 0, 4, 3, sap << 4, 8, 0]);
        client
    }

    fn say(&mut self, octets: &[u8]) {
        self.0.write_all(octets).unwrap();
    }

    fn hears(&mut self, octets: &[u8]) {
        let mut heard = vec![0; octets.len()];
        self.0.read_exact(&mut heard).unwrap();
        assert_eq!(heard, octets);
    }
}

/// Gateways and modems by MIL-STD-188-110D A.5.1.
#[test]
fn strangers_exchange_data_by_the_octets_of_the_standard() {
    exchange(false);
}

/// The same by its A.5.2.
#[test]
fn strangers_exchange_data_by_modems_in_datagrams() {
    exchange(true);
}

fn exchange(datagrams: bool) {
    let running = Running::start(datagrams);
    let begun = Wall::now();
    let mut near = Client::bound(running.clients[0], 4);
    let mut far = Client::bound(running.clients[1], 5);
    // Five and more at a time, one of whom talks nonsense.
    let others: Vec<Client> = [1, 2, 3, 6, 7]
        .map(|sap| Client::bound(running.clients[0], sap))
        .into();
    let mut odd = Client::connect(running.clients[0]);
    odd.say(b"GET / HTTP/1.0\r\n\r\n");
    odd.hears(b"\x90\xeb\0\0\x02\x05\x03");
    assert_eq!(odd.0.read(&mut [0]).unwrap_or(0), 0);
    // With ARQ, confirmed by the node, worth 120 s.
    near.say(b"\x90\xeb\0\0\x11\x14\x25\xe0\0\0\x02\x16\0\0\x3c\0\x05hello");
    far.hears(b"\x90\xeb\0\0\x12\x15\x25\xe0\0\0\x02\x14\xe0\0\0\x01\0\x05hello");
    near.hears(b"\x90\xeb\0\0\x0d\x16\x05\xe0\0\0\x02\0\x05hello");
    // Back expedited, confirmed by the client, and without ARQ.
    far.say(b"\x90\xeb\0\0\x0f\x18\x04\xe0\0\0\x01\x1a\0\0\x3c\0\x03now");
    near.hears(b"\x90\xeb\0\0\x10\x19\x04\xe0\0\0\x01\x15\xe0\0\0\x02\0\x03now");
    far.hears(b"\x90\xeb\0\0\x0b\x1a\x04\xe0\0\0\x01\0\x03now");
    far.say(b"\x90\xeb\0\0\x0f\x14\x94\xe0\0\0\x01\x22\0\0\x3c\0\x03any");
    near.hears(b"\x90\xeb\0\0\x10\x15\x94\xe0\0\0\x01\x25\xe0\0\0\x02\0\x03any");
    // For nobody.
    near.say(b"\x90\xeb\0\0\x0e\x14\x2b\xe0\0\0\x02\x1a\0\0\x3c\0\x02no");
    near.hears(b"\x90\xeb\0\0\x0a\x17\x2b\xe0\0\0\x02\0\x02no");
    // A link for the node, and its end.
    near.say(b"\x90\xeb\0\0\x06\x06\x10\xe0\0\0\x02");
    near.hears(b"\x90\xeb\0\0\x07\x08\x01\x10\xe0\0\0\x02");
    near.say(b"\x90\xeb\0\0\x05\x07\xe0\0\0\x02");
    near.say(b"\x90\xeb\0\0\x01\x11");
    near.hears(b"\x90\xeb\0\0\x01\x11");
    drop(others);
    assert!(begun.elapsed() < PATIENCE * 2);
    running.stop();
}

/// Who sends no more is answered by the end, and one that is told to go has so long for it.
#[test]
fn stations_end_what_their_clients_end() {
    let running = Running::start(false);
    let to = running.clients[0];
    let mut ends = Client::bound(to, 4);
    ends.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(ends.0.read(&mut [0]).unwrap(), 0);
    // Its access point is free.
    let _next = Client::bound(to, 4);
    let mut stays = Client::connect(to);
    stays.say(b"GET / HTTP/1.0\r\n\r\n");
    stays.hears(b"\x90\xeb\0\0\x02\x05\x03");
    let told = Wall::now();
    assert_eq!(stays.0.read(&mut [0]).unwrap(), 0);
    while stays.0.write_all(b"GET").is_ok() {
        assert!(told.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(100));
    }
    assert!(told.elapsed() > Duration::from_secs(4));
    running.stop();
}

/// Connections that say nothing keep neither clients nor those who want to become one out.
#[test]
fn idle_connections_keep_nobody_out_of_the_socket() {
    let running = Running::start(false);
    let to = running.clients[0];
    let mut bound = Client::bound(to, 4);
    let idle: Vec<Client> = (0..40).map(|_| Client::connect(to)).collect();
    let _late = Client::bound(to, 5);
    bound.say(b"\x90\xeb\0\0\x01\x11");
    bound.hears(b"\x90\xeb\0\0\x01\x11");
    // The first of them made room.
    assert_eq!((&idle[0].0).read(&mut [0]).unwrap_or(0), 0);
    running.stop();
}
