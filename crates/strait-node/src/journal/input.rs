//! Inputs and pulls as record bodies.

use core::net::IpAddr;

use strait_core::id::TxId;
use strait_core::mail::MailOrder;
use strait_core::node::{
    Command, DatagramMeta, DownCause, FrameMeta, Notice, Owner, PortEvent, PortState, RouteChange,
    RouteEvent, Side, SocketEvent, SocketId, StoreError, StreamEvent, StreamId, Ticket, Turn,
    WallTime,
};
use strait_core::prefix::Prefix;
use strait_core::tls::TlsVersion;
use strait_core::waveform::Mode;
use strait_core::work::WorkError;
use strait_core::{ClassId, Input, Instant, NeighbourId, Neighbours, PortId, Room, TxMeta};
use strait_wire::ip::SynOptions;

use super::codec::{Put, Take};
use super::kind;

/// The kind of the record that holds `input`.
pub(super) const fn kind_of(input: &Input<'_>) -> u8 {
    match input {
        Input::Timeout => kind::TIMEOUT,
        Input::Frame { .. } => kind::FRAME,
        Input::Port {
            event: PortEvent::Neighbour(..),
            ..
        } => kind::NEIGHBOUR,
        Input::Port {
            event: PortEvent::NeighbourRate(..),
            ..
        } => kind::NEIGHBOUR_RATE,
        Input::Port { .. } => kind::PORT,
        Input::TxDone { ok: Some(_), .. } => kind::TX_DONE,
        Input::TxDone { ok: None, .. } => kind::TX_LEFT,
        Input::Route(_) => kind::ROUTE,
        Input::Routed { .. } => kind::ROUTED,
        Input::Stream {
            event: StreamEvent::Asked { .. },
            ..
        } => kind::ASKED,
        Input::Stream {
            event: StreamEvent::Secured { .. },
            ..
        } => kind::SECURED,
        Input::Stream { .. } => kind::STREAM,
        Input::Socket { .. } => kind::SOCKET,
        Input::Datagram { .. } => kind::DATAGRAM,
        Input::Stored { .. } => kind::STORED,
        Input::Loaded { .. } => kind::LOADED,
        Input::Worked { .. } => kind::WORKED,
        Input::Wall(_) => kind::WALL,
        Input::Command(_) => kind::COMMAND,
    }
}

pub(super) fn put(put: &mut Put<'_>, input: &Input<'_>) {
    match input {
        Input::Timeout => {}
        Input::Frame {
            port,
            from,
            bytes,
            meta,
        } => {
            put.octet(port.0);
            put.number(u64::from(from.0));
            put.flag(meta.damaged);
            put.flag(meta.snr_centi_db.is_some());
            if let Some(snr) = meta.snr_centi_db {
                put.signed(i64::from(snr));
            }
            put.flag(meta.rate_bit_s.is_some());
            if let Some(rate) = meta.rate_bit_s {
                put.number(u64::from(rate));
            }
            put.payload(bytes);
        }
        Input::Port { port, event } => {
            put.octet(port.0);
            put_port_event(put, *event);
        }
        Input::TxDone { port, id, to, ok } => {
            put.octet(port.0);
            put.number(id.0);
            put.number(u64::from(to.0));
            if let Some(ok) = ok {
                put.flag(*ok);
            }
        }
        Input::Route(change) => put_route(put, *change),
        Input::Routed { prefix, event } => {
            put.ip(prefix.address);
            put.octet(prefix.length);
            match event {
                RouteEvent::There => put.octet(0),
                RouteEvent::Failed(number) => {
                    put.octet(1);
                    put.signed(i64::from(*number));
                }
            }
        }
        Input::Stream { id, event } => {
            put.number(u64::from(id.owner.0));
            put.flag(id.side == Side::Client);
            put.number(id.n);
            put_stream(put, event);
        }
        Input::Socket { id, event } => {
            put_socket(put, *id);
            match event {
                SocketEvent::Bound(address) => {
                    put.octet(0);
                    put.socket(*address);
                }
                SocketEvent::Failed(number) => {
                    put.octet(1);
                    put.signed(i64::from(*number));
                }
            }
        }
        Input::Datagram {
            socket,
            meta,
            bytes,
        } => {
            put_socket(put, *socket);
            put.socket(meta.src);
            put.socket(meta.dst);
            put.octet(meta.dscp);
            put.octet(meta.hop_limit);
            put.payload(bytes);
        }
        Input::Stored { ticket, result } => {
            put_ticket(put, *ticket);
            put.octet(result.err().map_or(0, store_error_code));
        }
        Input::Loaded { ticket, result } => {
            put_ticket(put, *ticket);
            put.octet(result.err().map_or(0, store_error_code));
            if let Ok(chunk) = result {
                put.flag(chunk.is_some());
                put.payload(chunk.unwrap_or_default());
            }
        }
        Input::Worked { ticket, result } => {
            put_ticket(put, *ticket);
            put.octet(result.err().map_or(0, work_error_code));
            if let Ok(octets) = result {
                put.payload(octets);
            }
        }
        Input::Wall(wall) => put.number(wall.0),
        Input::Command(Command::Stop) => put.octet(0),
        Input::Command(Command::Mail(order)) => {
            put_mail_order(put, *order);
        }
    }
}

fn put_mail_order(put: &mut Put<'_>, order: MailOrder) {
    let address = |put: &mut Put<'_>, to: Option<IpAddr>| {
        put.flag(to.is_some());
        to.into_iter().for_each(|to| put.ip(to));
    };
    match order {
        MailOrder::Hold(id) => {
            put.octet(1);
            put.number(id);
        }
        MailOrder::Release(id) => {
            put.octet(2);
            put.number(id);
        }
        MailOrder::Minimize(least) => {
            put.octet(3);
            put.number(least);
        }
        MailOrder::Reroute(id, to) => {
            put.octet(4);
            put.number(id);
            address(put, to);
        }
        MailOrder::Divert(from, to) => {
            put.octet(5);
            put.ip(from);
            address(put, to);
        }
    }
}

fn put_socket(put: &mut Put<'_>, id: SocketId) {
    put.number(u64::from(id.owner.0));
    put.number(u64::from(id.n));
}

fn take_socket(take: &mut Take<'_>) -> Option<SocketId> {
    Some(SocketId {
        owner: Owner(take.small()?),
        n: take.small()?,
    })
}

fn put_ticket(put: &mut Put<'_>, ticket: Ticket) {
    put.number(u64::from(ticket.owner.0));
    put.number(ticket.n);
}

fn take_ticket(take: &mut Take<'_>) -> Option<Ticket> {
    Some(Ticket {
        owner: Owner(take.small()?),
        n: take.number()?,
    })
}

const fn store_error_code(error: StoreError) -> u8 {
    match error {
        StoreError::Full => 1,
        StoreError::Absent => 2,
        StoreError::Failed => 3,
        StoreError::Busy => 4,
    }
}

const fn work_error_code(error: WorkError) -> u8 {
    match error {
        WorkError::TooLong => 1,
        WorkError::Broken => 2,
        WorkError::Busy => 3,
        WorkError::Host => 4,
    }
}

fn take_work_result<'a>(take: &mut Take<'a>) -> Option<Result<&'a [u8], WorkError>> {
    Some(match take.octet()? {
        0 => Ok(take.payload()?),
        1 => Err(WorkError::TooLong),
        2 => Err(WorkError::Broken),
        3 => Err(WorkError::Busy),
        4 => Err(WorkError::Host),
        _ => return None,
    })
}

fn take_store_result(take: &mut Take<'_>) -> Option<Result<(), StoreError>> {
    Some(match take.octet()? {
        0 => Ok(()),
        1 => Err(StoreError::Full),
        2 => Err(StoreError::Absent),
        3 => Err(StoreError::Failed),
        4 => Err(StoreError::Busy),
        _ => return None,
    })
}

/// Added to the kind of a port's state that has the times of [`Notice`].
const NOTICED: u8 = 16;
const NOTICED_CHANGE: u8 = NOTICED + 1;

fn put_port_event(put: &mut Put<'_>, event: PortEvent) {
    let state = |put: &mut Put<'_>, kind: u8, state: PortState| {
        let noticed = state.notice != Notice::NONE;
        put.octet(if noticed { kind + NOTICED } else { kind });
        put.rate(state.tx_rate);
        put.rate(state.rx_rate);
        put.number(u64::from(state.frame_octets_max));
        put.duration(state.block);
        put.duration(state.latency);
        if noticed {
            put.duration(state.notice.begin);
            put.duration(state.notice.end);
        }
    };
    match event {
        PortEvent::Up(offer) => state(put, 0, offer),
        PortEvent::Changed(offer) => state(put, 1, offer),
        PortEvent::Carrier(false) => put.octet(2),
        PortEvent::Carrier(true) => put.octet(3),
        PortEvent::Drained => put.octet(4),
        PortEvent::Neighbour(neighbour, there) => {
            put.number(u64::from(neighbour.0));
            put.flag(there);
        }
        PortEvent::NeighbourRate(neighbour, rate) => {
            put.number(u64::from(neighbour.0));
            put.rate(rate);
        }
        PortEvent::Down(DownCause::Device) => put.octet(5),
        PortEvent::Down(DownCause::Carrier) => put.octet(6),
    }
}

fn put_route(put: &mut Put<'_>, change: RouteChange) {
    match change {
        RouteChange::Add {
            prefix,
            length,
            port,
            via,
        } => {
            put.octet(0);
            put.ip(prefix);
            put.octet(length);
            put.octet(port.0);
            put.number(u64::from(via.0));
        }
        RouteChange::Remove { prefix, length } => {
            put.octet(1);
            put.ip(prefix);
            put.octet(length);
        }
    }
}

fn put_stream(put: &mut Put<'_>, event: &StreamEvent<'_>) {
    match event {
        StreamEvent::Asked {
            listener,
            src,
            dst,
            dscp,
            options,
        } => {
            put_socket(put, *listener);
            put.socket(*src);
            put.socket(*dst);
            put.octet(*dscp);
            put.flag(options.mss.is_some());
            if let Some(mss) = options.mss {
                put.number(u64::from(mss));
            }
            put.flag(options.window_scale.is_some());
            if let Some(bits) = options.window_scale {
                put.octet(bits);
            }
            put.flag(options.sack);
            put.flag(options.timestamps);
        }
        StreamEvent::Opened {
            listener,
            src,
            dst,
            dscp,
        } => {
            put.octet(0);
            put.flag(listener.is_some());
            if let Some(listener) = listener {
                put_socket(put, *listener);
            }
            put.socket(*src);
            put.socket(*dst);
            put.octet(*dscp);
        }
        StreamEvent::Secured { peer, version } => {
            put.octet(match version {
                TlsVersion::V1_2 => 2,
                TlsVersion::V1_3 => 3,
            });
            put.flag(peer.is_some());
            if let Some(peer) = peer {
                put.octets(peer.as_bytes());
            }
        }
        StreamEvent::Data(bytes) => {
            put.octet(1);
            put.payload(bytes);
        }
        StreamEvent::Writable(octets) => {
            put.octet(2);
            put.number(u64::from(*octets));
        }
        StreamEvent::Fin => put.octet(3),
        StreamEvent::Reset(errno) => {
            put.octet(4);
            put.signed(i64::from(*errno));
        }
    }
}

/// Whether records of this kind hold an input.
pub(super) const fn is_known(kind: u8) -> bool {
    use kind::{
        ASKED, COMMAND, DATAGRAM, FRAME, LOADED, NEIGHBOUR, NEIGHBOUR_RATE, PORT, ROUTE, ROUTED,
        SECURED, SOCKET, STORED, STREAM, TIMEOUT, TX_DONE, TX_LEFT, WALL, WORKED,
    };
    matches!(
        kind,
        TIMEOUT
            | FRAME
            | PORT
            | NEIGHBOUR
            | NEIGHBOUR_RATE
            | TX_DONE
            | TX_LEFT
            | ROUTE
            | ROUTED
            | WALL
            | COMMAND
            | SOCKET
            | STREAM
            | ASKED
            | SECURED
            | STORED
            | DATAGRAM
            | LOADED
            | WORKED
    )
}

/// The input in a record of this kind; `None` also for kinds that are no input.
pub(super) fn take<'a>(kind: u8, take: &mut Take<'a>) -> Option<Input<'a>> {
    Some(match kind {
        kind::TIMEOUT => Input::Timeout,
        kind::FRAME => {
            let port = PortId(take.octet()?);
            let from = NeighbourId(take.small()?);
            let meta = FrameMeta {
                damaged: take.flag()?,
                snr_centi_db: take.optional(|take| i16::try_from(take.signed()?).ok())?,
                rate_bit_s: take.optional(Take::small)?,
            };
            let bytes = take.payload()?;
            Input::Frame {
                port,
                from,
                bytes,
                meta,
            }
        }
        kind::PORT => Input::Port {
            port: PortId(take.octet()?),
            event: take_port_event(take)?,
        },
        kind::TX_DONE | kind::TX_LEFT => Input::TxDone {
            port: PortId(take.octet()?),
            id: TxId(take.number()?),
            to: NeighbourId(take.small()?),
            ok: match kind {
                kind::TX_DONE => Some(take.flag()?),
                _ => None,
            },
        },
        kind::NEIGHBOUR => Input::Port {
            port: PortId(take.octet()?),
            event: PortEvent::Neighbour(NeighbourId(take.small()?), take.flag()?),
        },
        kind::NEIGHBOUR_RATE => Input::Port {
            port: PortId(take.octet()?),
            event: PortEvent::NeighbourRate(NeighbourId(take.small()?), take.rate()?),
        },
        kind::ROUTE => Input::Route(take_route(take)?),
        kind::ROUTED => Input::Routed {
            prefix: Prefix::new(take.ip()?, take.octet()?)?,
            event: match take.octet()? {
                0 => RouteEvent::There,
                1 => RouteEvent::Failed(i32::try_from(take.signed()?).ok()?),
                _ => return None,
            },
        },
        kind::STREAM => Input::Stream {
            id: take_stream_id(take)?,
            event: take_stream(take)?,
        },
        kind::ASKED => Input::Stream {
            id: take_stream_id(take)?,
            event: take_asked(take)?,
        },
        kind::SECURED => Input::Stream {
            id: take_stream_id(take)?,
            event: take_secured(take)?,
        },
        kind::SOCKET => Input::Socket {
            id: take_socket(take)?,
            event: match take.octet()? {
                0 => SocketEvent::Bound(take.socket()?),
                1 => SocketEvent::Failed(i32::try_from(take.signed()?).ok()?),
                _ => return None,
            },
        },
        kind::DATAGRAM => Input::Datagram {
            socket: take_socket(take)?,
            meta: DatagramMeta {
                src: take.socket()?,
                dst: take.socket()?,
                dscp: take.octet()?,
                hop_limit: take.octet()?,
            },
            bytes: take.payload()?,
        },
        kind::STORED => Input::Stored {
            ticket: take_ticket(take)?,
            result: take_store_result(take)?,
        },
        kind::LOADED => Input::Loaded {
            ticket: take_ticket(take)?,
            result: match take_store_result(take)? {
                Ok(()) => {
                    let known = take.flag()?;
                    let chunk = take.payload()?;
                    Ok(known.then_some(chunk))
                }
                Err(error) => Err(error),
            },
        },
        kind::WORKED => Input::Worked {
            ticket: take_ticket(take)?,
            result: take_work_result(take)?,
        },
        kind::WALL => Input::Wall(WallTime(take.number()?)),
        kind::COMMAND => match take.octet()? {
            0 => Input::Command(Command::Stop),
            1 => Input::Command(Command::Mail(MailOrder::Hold(take.number()?))),
            2 => Input::Command(Command::Mail(MailOrder::Release(take.number()?))),
            3 => Input::Command(Command::Mail(MailOrder::Minimize(take.number()?))),
            4 => {
                let (id, to) = (take.number()?, take.optional(Take::ip)?);
                Input::Command(Command::Mail(MailOrder::Reroute(id, to)))
            }
            5 => {
                let (from, to) = (take.ip()?, take.optional(Take::ip)?);
                Input::Command(Command::Mail(MailOrder::Divert(from, to)))
            }
            _ => return None,
        },
        _ => return None,
    })
}

fn take_port_event(take: &mut Take<'_>) -> Option<PortEvent> {
    let kind = take.octet()?;
    Some(match kind {
        0 | 1 | NOTICED | NOTICED_CHANGE => {
            let mut state = PortState {
                tx_rate: take.rate()?,
                rx_rate: take.rate()?,
                frame_octets_max: take.small()?,
                block: take.duration()?,
                latency: take.duration()?,
                notice: Notice::NONE,
            };
            if kind >= NOTICED {
                state.notice = Notice {
                    begin: take.duration()?,
                    end: take.duration()?,
                };
            }
            if kind % NOTICED == 0 {
                PortEvent::Up(state)
            } else {
                PortEvent::Changed(state)
            }
        }
        2 => PortEvent::Carrier(false),
        3 => PortEvent::Carrier(true),
        4 => PortEvent::Drained,
        5 => PortEvent::Down(DownCause::Device),
        6 => PortEvent::Down(DownCause::Carrier),
        _ => return None,
    })
}

fn take_route(take: &mut Take<'_>) -> Option<RouteChange> {
    let kind = take.octet()?;
    let prefix = take.ip()?;
    let length = take.octet()?;
    match kind {
        0 => Some(RouteChange::Add {
            prefix,
            length,
            port: PortId(take.octet()?),
            via: NeighbourId(take.small()?),
        }),
        1 => Some(RouteChange::Remove { prefix, length }),
        _ => None,
    }
}

fn take_stream_id(take: &mut Take<'_>) -> Option<StreamId> {
    Some(StreamId {
        owner: Owner(take.small()?),
        side: if take.flag()? {
            Side::Client
        } else {
            Side::Node
        },
        n: take.number()?,
    })
}

fn take_asked<'a>(take: &mut Take<'_>) -> Option<StreamEvent<'a>> {
    Some(StreamEvent::Asked {
        listener: take_socket(take)?,
        src: take.socket()?,
        dst: take.socket()?,
        dscp: take.octet()?,
        options: SynOptions {
            mss: take.optional(Take::small)?,
            window_scale: take.optional(Take::octet)?,
            sack: take.flag()?,
            timestamps: take.flag()?,
        },
    })
}

fn take_secured<'a>(take: &mut Take<'a>) -> Option<StreamEvent<'a>> {
    let version = match take.octet()? {
        2 => TlsVersion::V1_2,
        3 => TlsVersion::V1_3,
        _ => return None,
    };
    let name = |take: &mut Take<'a>| core::str::from_utf8(take.octets()?).ok();
    let peer = take.optional(name)?;
    Some(StreamEvent::Secured { peer, version })
}

fn take_stream<'a>(take: &mut Take<'a>) -> Option<StreamEvent<'a>> {
    Some(match take.octet()? {
        0 => StreamEvent::Opened {
            listener: take.optional(take_socket)?,
            src: take.socket()?,
            dst: take.socket()?,
            dscp: take.octet()?,
        },
        1 => StreamEvent::Data(take.payload()?),
        2 => StreamEvent::Writable(take.small()?),
        3 => StreamEvent::Fin,
        4 => StreamEvent::Reset(i32::try_from(take.signed()?).ok()?),
        _ => return None,
    })
}

/// The kind of the record that holds a pull with `room`.
pub(super) fn kind_of_pull(room: Room) -> u8 {
    match room.to {
        Neighbours::ALL => kind::PULLED,
        _ => kind::PULLED_FOR,
    }
}

/// A pull that was answered: everything but the octets, which follow. Room that isn't for all says
/// for whom it is, ahead of the rest.
pub(super) fn put_pull(put: &mut Put<'_>, now: Instant, port: PortId, room: Room, meta: &TxMeta) {
    if room.to != Neighbours::ALL {
        put.number(room.to.bits());
    }
    put.octet(port.0);
    put.number(room.octets as u64);
    put.moment(now, room.starts);
    put.flag(room.until.is_some());
    if let Some(until) = room.until {
        put.moment(now, until);
    }
    put.number(u64::from(meta.to.0));
    put.octet(meta.class.0);
    put.number(meta.id.0);
    put.flag(meta.turn.is_some());
    if let Some(turn) = meta.turn {
        put.flag(turn.key_up);
        put.number(u64::from(turn.blocks));
        put.flag(turn.last);
        put.flag(turn.mode.is_some());
        if let Some(mode) = turn.mode {
            put.number(u64::from(mode.rate_bit_s));
            put.number(u64::from(mode.block_bits));
        }
    }
}

pub(super) fn take_pull(
    kind: u8,
    take: &mut Take<'_>,
    now: Instant,
) -> Option<(PortId, Room, TxMeta)> {
    let to = match kind {
        kind::PULLED_FOR => Neighbours::from_bits(take.number()?),
        _ => Neighbours::ALL,
    };
    let port = PortId(take.octet()?);
    let room = Room {
        octets: take.small()?,
        starts: take.moment(now)?,
        until: take.optional(|take| take.moment(now))?,
        to,
    };
    let meta = TxMeta {
        to: NeighbourId(take.small()?),
        class: ClassId(take.octet()?),
        id: TxId(take.number()?),
        turn: take.optional(|take| {
            Some(Turn {
                key_up: take.flag()?,
                blocks: take.small()?,
                last: take.flag()?,
                mode: take.optional(|take| {
                    Some(Mode {
                        rate_bit_s: take.small()?,
                        block_bits: take.small()?,
                    })
                })?,
            })
        })?,
    };
    Some((port, room, meta))
}
