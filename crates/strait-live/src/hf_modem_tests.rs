//! A port whose modem is reached in datagrams, against a socket that plays the modem.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};

use strait_core::waveform::{self, Bandwidth, Family, Interleaver};

use super::*;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// A modem at a socket, and the port that is to reach it.
fn pair() -> (UdpSocket, ModemPort) {
    let modem = UdpSocket::bind("127.0.0.1:0").unwrap();
    modem.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = port(modem.local_addr().unwrap(), ModemTransport::Udp);
    (modem, port)
}

const PATIENCE: Duration = Duration::from_secs(5);

fn port(address: SocketAddr, transport: ModemTransport) -> ModemPort {
    let family = (Family::default(), Bandwidth::default());
    let mode = waveform::find(family.0, family.1, Interleaver::Short, 2400).unwrap();
    ModemPort::new(HfModem {
        address,
        transport,
        mode: mode.mode,
        lead_in: Duration::from_millis(440),
        decode: Duration::from_millis(480),
        blocks_max: 100,
        ahead: Duration::from_millis(100),
    })
}

fn octets(packets: &[ModemPacket<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    packets.iter().for_each(|packet| packet.emit(&mut out));
    out
}

const fn status(state: TxState) -> ModemPacket<'static> {
    ModemPacket::TxStatus {
        state,
        queued_octets: 0,
        free_octets: 0,
    }
}

/// Gives the port what the modem says; what the node hears of it.
fn hears(port: &mut ModemPort, modem: &UdpSocket, now: Instant, packets: &[u8]) -> Vec<Received> {
    modem.send(packets).unwrap();
    let mut buffer = [0; 4096];
    let mut all = Vec::new();
    loop {
        match port.receive(now, &mut buffer).unwrap() {
            Received::Nothing if all.is_empty() => std::thread::yield_now(),
            Received::Nothing => return all,
            Received::Skipped => all.push(Received::Skipped),
            other => all.push(other),
        }
    }
}

/// Opens the port and lets it have a modem that is ready.
fn ready() -> (UdpSocket, ModemPort) {
    let (modem, mut port) = pair();
    let mut buffer = [0; 4096];
    // Nobody answers at first; each try says that it connects.
    assert!(port.open(at(0)).is_err());
    let (heard, terminal) = modem.recv_from(&mut buffer).unwrap();
    assert_eq!(buffer[..heard], hello());
    modem.connect(terminal).unwrap();
    modem.send(&hello()).unwrap();
    while port.open(at(1000)).is_err() {}
    assert_eq!(port.room(at(1000)), Err(None));
    let setup = ModemPacket::InitialSetup {
        round_trip_ms: 1,
        latency_ms_max: 5000,
        latency_ms_min: 0,
    };
    hears(&mut port, &modem, at(1001), &octets(&[setup]));
    assert!(port.room(at(1001)).is_ok());
    (modem, port)
}

fn begin(port: &mut ModemPort, now: Instant) {
    let turn = strait_core::node::Turn {
        key_up: true,
        blocks: 4,
        last: false,
        mode: None,
    };
    let meta = TxMeta {
        turn: Some(turn),
        ..TxMeta::to_peer(ClassId(0))
    };
    assert_eq!(port.transmit(now, &meta, &[7; 30]).unwrap(), Sent::Taken);
    assert!(port.turn.is_some());
}

#[test]
fn a_status_of_before_ends_no_transmission_and_one_that_was_lost_does_later() {
    let (modem, mut port) = ready();
    begin(&mut port, at(2000));
    let flushed = octets(&[status(TxState::Flushed)]);
    let drained = Received::Event(PortEvent::Drained);
    // It crossed the start.
    assert_eq!(
        hears(&mut port, &modem, at(2010), &flushed),
        [Received::Skipped]
    );
    let started = octets(&[status(TxState::Started)]);
    hears(&mut port, &modem, at(2020), &started);
    assert_eq!(hears(&mut port, &modem, at(2030), &flushed), [drained]);
    // The start got lost: the modem isn't even sending.
    begin(&mut port, at(3000));
    let armed = octets(&[status(TxState::Armed)]);
    assert_eq!(
        hears(&mut port, &modem, at(3999), &armed),
        [Received::Skipped]
    );
    assert_eq!(hears(&mut port, &modem, at(4000), &armed), [drained]);
}

#[test]
fn arm_set_up_and_start_go_in_one_datagram() {
    let (modem, mut port) = ready();
    let mut buffer = [0; 4096];
    // What was said before.
    modem.set_nonblocking(true).unwrap();
    while modem.recv(&mut buffer).is_ok() {}
    modem.set_nonblocking(false).unwrap();
    begin(&mut port, at(2000));
    let heard = modem.recv(&mut buffer).unwrap();
    let mut kinds = Vec::new();
    let mut reader = ModemReader::default();
    let told = reader.feed(&buffer[..heard], |packet| {
        kinds.push(match packet {
            ModemPacket::Arm => "arm",
            ModemPacket::TxSetup {
                rate_bit_s: 2400, ..
            } => "set-up",
            ModemPacket::Start => "start",
            ModemPacket::TxData { .. } => "data",
            _ => "other",
        });
    });
    assert_eq!(told, Ok(()));
    assert_eq!(kinds, ["arm", "set-up", "start", "data"]);
}

#[test]
fn it_gives_signs_of_life_and_leaves_a_silent_modem() {
    let (modem, mut port) = ready();
    let mut buffer = [0; 4096];
    modem.set_nonblocking(true).unwrap();
    while modem.recv(&mut buffer).is_ok() {}
    modem.set_nonblocking(false).unwrap();
    let said = port.wake().unwrap();
    assert!(said <= at(1001) + KEEP_ALIVE);
    port.tick(said).unwrap();
    let heard = modem.recv(&mut buffer).unwrap();
    assert_eq!(buffer[..heard], octets(&[ModemPacket::KeepAlive]));
    let gone = at(1001) + WATCHDOG;
    port.tick(Instant::from_nanos(gone.as_nanos() - 1)).unwrap();
    assert!(port.tick(gone).is_err());
    // Nonsense is passed over, and the next datagram read.
    let (modem, mut port) = ready();
    assert_eq!(
        hears(&mut port, &modem, at(1500), b"nonsense"),
        [Received::Skipped]
    );
    let carrier = ModemPacket::Carrier {
        on: true,
        rate_bit_s: 0,
        block_bits: 0,
    };
    let heard = hears(&mut port, &modem, at(1501), &octets(&[carrier]));
    assert_eq!(heard, [Received::Event(PortEvent::Carrier(true))]);
}

#[test]
fn over_tcp_too_a_terminal_that_only_hears_gives_signs_of_life() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut port = port(listener.local_addr().unwrap(), ModemTransport::Tcp);
    port.open(at(0)).unwrap();
    let (mut modem, _) = listener.accept().unwrap();
    modem.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut heard = vec![0; hello().len()];
    modem.read_exact(&mut heard).unwrap();
    assert_eq!(heard, hello());
    // Before the modem takes commands there is nothing to say.
    assert_eq!(port.wake(), Some(at(0) + WATCHDOG));
    let setup = ModemPacket::InitialSetup {
        round_trip_ms: 1,
        latency_ms_max: 5000,
        latency_ms_min: 0,
    };
    modem.write_all(&octets(&[setup])).unwrap();
    let mut buffer = [0; 4096];
    while !port.ready {
        port.receive(at(1000), &mut buffer).unwrap();
    }
    port.tick(at(1999)).unwrap();
    assert_eq!(port.wake(), Some(at(2000)));
    port.tick(at(2000)).unwrap();
    let mut heard = vec![0; octets(&[ModemPacket::KeepAlive]).len()];
    modem.read_exact(&mut heard).unwrap();
    assert_eq!(heard, octets(&[ModemPacket::KeepAlive]));
    assert_eq!(port.wake(), Some(at(4000)));
}
