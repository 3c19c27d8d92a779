//! Inputs and pulls of all kinds, drawn from a list of numbers.

use core::net::{IpAddr, SocketAddr};

use strait_core::id::TxId;
use strait_core::mail::MailOrder;
use strait_core::node::{
    Command, DatagramMeta, DownCause, FrameMeta, Notice, Owner, PortEvent, PortState, RouteChange,
    RouteEvent, Side, SocketEvent, SocketId, StoreError, StreamEvent, StreamId, Ticket, Turn,
    WallTime,
};
use strait_core::prefix::Prefix;
use strait_core::rate::LineRate;
use strait_core::tls::TlsVersion;
use strait_core::waveform::Mode;
use strait_core::work::WorkError;
use strait_core::{
    ClassId, Duration, Input, Instant, NeighbourId, Neighbours, PortId, Room, TxMeta,
};
use strait_wire::ip::SynOptions;

/// Values from a list of numbers: a shorter list gives a smaller input.
pub(super) struct Dice<'a>(pub(super) core::slice::Iter<'a, u64>);

impl Dice<'_> {
    pub(super) fn word(&mut self) -> u64 {
        self.0.next().copied().unwrap_or(0)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound
    }

    pub(super) fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    fn ip(&mut self) -> IpAddr {
        if self.flag() {
            IpAddr::from((self.word() as u32).to_be_bytes())
        } else {
            let word = u128::from(self.word()) << 64 | u128::from(self.word());
            IpAddr::from(word.to_be_bytes())
        }
    }

    fn socket(&mut self) -> SocketAddr {
        let mut address = SocketAddr::new(self.ip(), self.word() as u16);
        if let SocketAddr::V6(v6) = &mut address {
            v6.set_flowinfo(self.word() as u32);
            v6.set_scope_id(self.word() as u32);
        }
        address
    }

    fn owner(&mut self) -> Owner {
        Owner(self.word() as u16)
    }

    fn socket_id(&mut self) -> SocketId {
        SocketId {
            owner: self.owner(),
            n: self.word() as u32,
        }
    }

    fn ticket(&mut self) -> Ticket {
        Ticket {
            owner: self.owner(),
            n: self.word(),
        }
    }

    fn duration(&mut self) -> Duration {
        Duration::new(self.word(), self.below(1_000_000_000) as u32)
    }

    fn state(&mut self) -> PortState {
        PortState {
            tx_rate: LineRate::new(self.word(), self.word() as u8),
            rx_rate: LineRate::new(self.word(), self.word() as u8),
            frame_octets_max: self.word() as u32,
            block: self.duration(),
            latency: self.duration(),
            notice: match self.below(2) {
                0 => Notice::NONE,
                _ => Notice {
                    begin: self.duration(),
                    end: self.duration(),
                },
            },
        }
    }

    fn port_event(&mut self) -> PortEvent {
        match self.below(8) {
            7 => PortEvent::NeighbourRate(
                NeighbourId(self.word() as u16),
                LineRate::new(self.word(), self.word() as u8),
            ),
            0 => PortEvent::Up(self.state()),
            1 => PortEvent::Changed(self.state()),
            2 => PortEvent::Carrier(self.flag()),
            3 => PortEvent::Drained,
            6 => PortEvent::Neighbour(NeighbourId(self.word() as u16), self.flag()),
            4 => PortEvent::Down(DownCause::Device),
            _ => PortEvent::Down(DownCause::Carrier),
        }
    }

    fn stream_event<'a>(&mut self, bytes: &'a [u8]) -> StreamEvent<'a> {
        match self.below(7) {
            6 => StreamEvent::Secured {
                peer: self.flag().then_some("mail.example"),
                version: [TlsVersion::V1_2, TlsVersion::V1_3][usize::from(self.flag())],
            },
            5 => StreamEvent::Asked {
                listener: self.socket_id(),
                src: self.socket(),
                dst: self.socket(),
                dscp: self.word() as u8,
                options: SynOptions {
                    mss: self.flag().then(|| self.word() as u16),
                    window_scale: self.flag().then(|| self.word() as u8),
                    sack: self.flag(),
                    timestamps: self.flag(),
                },
            },
            0 => StreamEvent::Opened {
                listener: self.flag().then(|| self.socket_id()),
                src: self.socket(),
                dst: self.socket(),
                dscp: self.word() as u8,
            },
            1 => StreamEvent::Data(bytes),
            2 => StreamEvent::Writable(self.word() as u32),
            3 => StreamEvent::Fin,
            _ => StreamEvent::Reset(self.word() as i32),
        }
    }

    pub(super) fn input<'a>(&mut self, bytes: &'a [u8]) -> Input<'a> {
        match self.below(14) {
            0 => Input::Timeout,
            1 => Input::Frame {
                port: PortId(self.word() as u8),
                from: NeighbourId(self.word() as u16),
                bytes,
                meta: FrameMeta {
                    damaged: self.flag(),
                    snr_centi_db: self.flag().then(|| self.word() as i16),
                    rate_bit_s: self.flag().then(|| self.word() as u32),
                },
            },
            2 => Input::Port {
                port: PortId(self.word() as u8),
                event: self.port_event(),
            },
            3 => Input::TxDone {
                port: PortId(self.word() as u8),
                id: TxId(self.word()),
                to: NeighbourId(self.word() as u16),
                ok: self.flag().then(|| self.flag()),
            },
            4 if self.flag() => Input::Route(RouteChange::Add {
                prefix: self.ip(),
                length: self.word() as u8,
                port: PortId(self.word() as u8),
                via: NeighbourId(self.word() as u16),
            }),
            4 => Input::Route(RouteChange::Remove {
                prefix: self.ip(),
                length: self.word() as u8,
            }),
            5 => Input::Stream {
                id: StreamId {
                    owner: self.owner(),
                    side: if self.flag() {
                        Side::Client
                    } else {
                        Side::Node
                    },
                    n: self.word(),
                },
                event: self.stream_event(bytes),
            },
            6 => Input::Datagram {
                socket: self.socket_id(),
                meta: DatagramMeta {
                    src: self.socket(),
                    dst: self.socket(),
                    dscp: self.word() as u8,
                    hop_limit: self.word() as u8,
                },
                bytes,
            },
            11 => Input::Socket {
                id: self.socket_id(),
                event: if self.flag() {
                    SocketEvent::Bound(self.socket())
                } else {
                    SocketEvent::Failed(self.word() as i32)
                },
            },
            7 => Input::Stored {
                ticket: self.ticket(),
                result: [
                    Ok(()),
                    Err(StoreError::Full),
                    Err(StoreError::Absent),
                    Err(StoreError::Failed),
                    Err(StoreError::Busy),
                ][self.below(5) as usize],
            },
            8 => Input::Loaded {
                ticket: self.ticket(),
                result: match self.below(3) {
                    0 => Err(StoreError::Busy),
                    1 => Ok(None),
                    _ => Ok(Some(bytes)),
                },
            },
            12 => Input::Worked {
                ticket: self.ticket(),
                result: [
                    Ok(bytes),
                    Err(WorkError::TooLong),
                    Err(WorkError::Broken),
                    Err(WorkError::Busy),
                    Err(WorkError::Host),
                ][self.below(5) as usize],
            },
            13 => Input::Routed {
                prefix: Prefix {
                    address: self.ip(),
                    length: self.below(33) as u8,
                },
                event: if self.flag() {
                    RouteEvent::There
                } else {
                    RouteEvent::Failed(self.word() as i32)
                },
            },
            9 => Input::Wall(WallTime(self.word())),
            _ => Input::Command(match self.below(6) {
                0 => Command::Stop,
                1 => Command::Mail(MailOrder::Hold(self.word())),
                2 => Command::Mail(MailOrder::Release(self.word())),
                3 => Command::Mail(MailOrder::Minimize(self.word())),
                4 => {
                    let (id, to) = (self.word(), self.flag().then(|| self.ip()));
                    Command::Mail(MailOrder::Reroute(id, to))
                }
                _ => {
                    let (from, to) = (self.ip(), self.flag().then(|| self.ip()));
                    Command::Mail(MailOrder::Divert(from, to))
                }
            }),
        }
    }

    pub(super) fn room(&mut self) -> Room {
        Room {
            octets: self.word() as usize,
            starts: Instant::from_nanos(self.word()),
            until: self.flag().then(|| Instant::from_nanos(self.word())),
            to: match self.flag() {
                true => Neighbours::ALL,
                false => Neighbours::from_bits(self.word()),
            },
        }
    }

    pub(super) fn meta(&mut self) -> TxMeta {
        TxMeta {
            to: NeighbourId(self.word() as u16),
            class: ClassId(self.word() as u8),
            id: TxId(self.word()),
            turn: self.flag().then(|| Turn {
                key_up: self.flag(),
                blocks: self.word() as u32,
                last: self.flag(),
                mode: self.flag().then(|| Mode {
                    rate_bit_s: self.word() as u32,
                    block_bits: self.word() as u32,
                }),
            }),
        }
    }
}
