//! What a node works with in real time: its ports, and the hands for its effects.

use std::collections::VecDeque;
use std::io;

use strait_core::drive::Media;
use strait_core::id::{NeighbourId, Neighbours, PortId, TxId};
use strait_core::node::{
    Effect, Input, Room, RouteEvent, SocketEvent, SocketId, StoreError, StreamEvent, StreamId,
    StreamOp, Ticket, TxMeta,
};
use strait_core::prefix::Prefix;
use strait_core::stats::Agreement;
use strait_core::storage::{Answer, Asked};
use strait_core::time::{Duration, Instant};
use strait_core::work::WorkError;
use strait_status::JournalStatus;

use super::service::PortStatus;
use super::taps::Taps;
use crate::fail_points;
use crate::files::storage::Storage;
use crate::kernel::led_routes::{Interfaces, LedRoutes};
use crate::ports::{Found, PortIo, Sent};
use crate::sockets::Sockets;
use crate::work::Workshop;

/// Sees everything that goes into a node and every pull, in order: enough to repeat its run.
pub trait Recorder {
    /// The node is about to be given this.
    fn input(&mut self, now: Instant, input: &Input<'_>);

    /// The node was pulled, and gave octets.
    fn pulled(&mut self, now: Instant, port: PortId, room: Room, meta: &TxMeta, octets: &[u8]);

    /// How it is, if it writes a journal.
    fn status(&self) -> Option<JournalStatus> {
        None
    }
}

/// A port is asked again no sooner than this after it had no room.
const SPIN_MIN: Duration = Duration::from_micros(10);

/// Answers to effects that may wait for the node; more means that it answers answers.
const REPLIES_MAX: usize = 4096;

/// What a node works with: its ports, and the hands for its effects.
pub(crate) struct Bench {
    pub(crate) slots: Vec<Slot>,
    /// Who sees the end of each packet's stay.
    pub(crate) taps: Taps,
    pub(crate) recorder: Option<Box<dyn Recorder>>,
    pub(crate) storage: Option<Storage>,
    pub(crate) workshop: Workshop,
    pub(crate) replies: VecDeque<Reply>,
    /// Sockets of the node's own.
    pub(crate) sockets: Sockets,
    /// What the host reaches by the node.
    pub(crate) routes: LedRoutes,
}

pub(crate) struct Slot {
    pub(crate) io: Box<dyn PortIo>,
    pub(crate) open: bool,
    pub(crate) blocked: bool,
    pub(crate) again: Option<Instant>,
    pub(crate) failed: Option<io::Error>,
    pub(crate) retry_at: Option<Instant>,
    pub(crate) problem: Option<String>,
    /// What was said last of what the ends of the link have agreed on.
    pub(crate) agreement: Agreement,
    /// What was said last of what the port has found out of its device.
    pub(crate) found: Option<Found>,
    /// It was said that a time to die was by another clock or calendar.
    pub(crate) misdated: bool,
}

/// An answer that waits until the node has settled.
pub(crate) enum Reply {
    TxFailed(PortId, TxId, NeighbourId),
    Reset(StreamId, i32),
    Socket(SocketId, SocketEvent),
    Storage(Ticket, Answer),
    Worked(Ticket, Result<Vec<u8>, WorkError>),
}

impl Media for Bench {
    fn room(&mut self, now: Instant, port: PortId) -> Option<Room> {
        self.room_for(now, port, 0)
    }

    fn room_for(&mut self, now: Instant, port: PortId, committed: usize) -> Option<Room> {
        let slot = self.slots.get_mut(port.index())?;
        if !slot.open || slot.failed.is_some() {
            return None;
        }
        match slot.io.room_for(now, committed) {
            Ok(room) => {
                let again = match room.to {
                    Neighbours::ALL => None,
                    _ => slot.io.room_again(now),
                };
                slot.again = again.map(|at| at.max(now + SPIN_MIN));
                Some(room)
            }
            Err(again) => {
                slot.blocked = true;
                // Asking at once again would only spin.
                slot.again = again.map(|at| at.max(now + SPIN_MIN));
                None
            }
        }
    }

    fn transmit(
        &mut self,
        now: Instant,
        port: PortId,
        room: Room,
        meta: TxMeta,
        frame: &mut Vec<u8>,
    ) {
        if let Some(recorder) = &mut self.recorder {
            recorder.pulled(now, port, room, &meta, frame);
        }
        let Some(slot) = self.slots.get_mut(port.index()) else {
            return;
        };
        match slot.io.transmit(now, &meta, frame) {
            Ok(Sent::Taken) => {}
            Ok(Sent::Refused) => self.reply(Reply::TxFailed(port, meta.id, meta.to)),
            Err(error) => slot.failed = Some(error),
        }
    }

    fn effect(&mut self, now: Instant, effect: Effect) {
        match effect {
            Effect::Fate(record) => self.taps.show(&record),
            Effect::Stream { id, op } => {
                let answers = matches!(
                    op,
                    StreamOp::Connect { .. }
                        | StreamOp::Accept
                        | StreamOp::StartTls { .. }
                        | StreamOp::Send(_)
                );
                let sends = fail_points::sends(&op);
                let refused = self.sockets.operate(now, id, op).err();
                fail_points::pass_told(id, sends);
                if let Some(number) = refused.filter(|_| answers) {
                    self.reply(Reply::Reset(id, number));
                }
            }
            Effect::Socket { id, op } => {
                if let Some(event) = self.sockets.open(now, id, op) {
                    self.reply(Reply::Socket(id, event));
                }
            }
            Effect::Store { ticket, batch } => self.ask(ticket, Asked::Store(batch)),
            Effect::Load {
                ticket,
                key,
                offset,
                octets,
            } => {
                let asked = Asked::Load {
                    key,
                    offset,
                    octets,
                };
                self.ask(ticket, asked);
            }
            Effect::Work { ticket, work } => {
                if let Err(error) = self.workshop.ask(ticket, work) {
                    self.reply(Reply::Worked(ticket, Err(error)));
                }
            }
            Effect::Datagram {
                socket,
                meta,
                bytes,
            } => self.sockets.send(socket, &meta, &bytes),
            Effect::Route { prefix, op } => self.routes.ask(now, prefix, op),
        }
    }
}

impl Bench {
    fn reply(&mut self, reply: Reply) {
        if self.replies.len() < REPLIES_MAX {
            self.replies.push_back(reply);
        }
    }

    /// Asks storage for something.
    fn ask(&mut self, ticket: Ticket, asked: Asked) {
        let begun = match &mut self.storage {
            Some(storage) => storage.ask(ticket, asked),
            None => Err(asked.fails(StoreError::Absent)),
        };
        if let Err(answer) = begun {
            self.reply(Reply::Storage(ticket, answer));
        }
    }

    /// Makes what storage has to say answers.
    pub(crate) fn hear_storage(&mut self) {
        while let Some((ticket, answer)) = self.storage.as_mut().and_then(Storage::poll) {
            self.reply(Reply::Storage(ticket, answer));
        }
    }

    /// Makes answers of what has been worked.
    pub(crate) fn hear_workshop(&mut self) {
        while let Some((ticket, done)) = self.workshop.poll() {
            self.reply(Reply::Worked(ticket, done));
        }
    }

    /// Does what is due for the host's routes; what the node is to be told.
    pub(crate) fn tend_routes(&mut self, now: Instant) -> Vec<(Prefix, RouteEvent)> {
        if self.routes.wake().is_none_or(|at| at > now) {
            return Vec::new();
        }
        let interfaces = interfaces(&self.slots);
        self.routes.tick(now, &interfaces)
    }

    /// Lets go of all ports, and of the routes that outlive them.
    pub(crate) fn close(&mut self) {
        self.routes.take_back(&interfaces(&self.slots));
        for slot in &mut self.slots {
            slot.io.close();
            slot.open = false;
        }
    }

    pub(crate) fn statuses(&self) -> Vec<PortStatus> {
        let status = |slot: &Slot| PortStatus {
            open: slot.open,
            problem: slot.problem.clone(),
            found: slot.io.found().filter(|_| slot.open),
            counts: slot.io.counts(),
        };
        self.slots.iter().map(status).collect()
    }
}

fn interfaces(slots: &[Slot]) -> Interfaces<'_> {
    let open = (0..).map(PortId).zip(slots).filter(|(_, slot)| slot.open);
    open.filter_map(|(port, slot)| Some((port, slot.io.interface()?)))
        .collect()
}

/// A reply as an input.
pub(crate) fn reply_input(reply: &Reply) -> Input<'_> {
    match *reply {
        Reply::TxFailed(port, id, to) => Input::TxDone {
            port,
            id,
            to,
            ok: Some(false),
        },
        Reply::Reset(id, number) => Input::Stream {
            id,
            event: StreamEvent::Reset(number),
        },
        Reply::Socket(id, event) => Input::Socket { id, event },
        Reply::Storage(ticket, ref answer) => answer.input(ticket),
        Reply::Worked(ticket, ref done) => Input::Worked {
            ticket,
            result: done.as_deref().map_err(|error| *error),
        },
    }
}
