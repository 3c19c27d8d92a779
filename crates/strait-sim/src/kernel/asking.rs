//! Clients that the gateway is asked about before they have their connections.

use strait_core::Instant;
use strait_core::asked::Question;
use strait_core::node::{Listen, Refusal, SocketId, StreamId, StreamOp};
use strait_tcp::reset_for;
use strait_wire::ip::{IcmpError, Syn, build_icmp_error, verify_transport_checksum};

use super::streams::Ends;
use super::{CONNECTION_RESET, Happening, Kernel, NO_BUFFERS, NOT_CONNECTED, Report, TIMED_OUT};

impl Kernel {
    /// Takes a client's packet if its gateway is to be asked, or has been.
    pub(super) fn asks(
        &mut self,
        now: Instant,
        ends: Ends,
        bytes: &[u8],
        (id, listen): (SocketId, Listen),
    ) -> bool {
        let Some(patience) = listen.asks.filter(|_| self.streams.is_free(ends, bytes)) else {
            return false;
        };
        let Some(syn) = Syn::parse(bytes) else {
            return false;
        };
        if verify_transport_checksum(bytes) != Some(true) {
            return true;
        }
        let known = self.questions.repeats(syn.src, syn.dst, bytes);
        // Further clients wait, and ask again.
        if known || !self.streams.has_place(id, listen.streams_max) {
            return true;
        }
        let stream = self.streams.next_client(id.owner);
        let question = Question {
            listener: id,
            src: syn.src,
            dst: syn.dst,
            syn: bytes.to_vec(),
            mark: 0,
        };
        if let Some(oldest) = self.questions.ask(now, patience, stream, question) {
            self.tell(oldest, Happening::Reset(TIMED_OUT));
        }
        self.tell(stream, Happening::Asked(id, syn));
        true
    }

    fn tell(&mut self, stream: StreamId, happening: Happening) {
        self.reports.push(Report::Stream(stream, happening));
    }

    pub(super) fn forget_unanswered(&mut self, now: Instant) {
        for stream in self.questions.expired(now) {
            self.tell(stream, Happening::Reset(TIMED_OUT));
        }
    }

    /// Takes what the gateway wants of a client that it was asked about; false if it wasn't.
    pub(super) fn answer(&mut self, now: Instant, stream: StreamId, op: &StreamOp) -> bool {
        let how = match op {
            StreamOp::Accept => None,
            StreamOp::Refuse(how) => Some(*how),
            StreamOp::Reset(_) => Some(Refusal::Reset),
            _ => return false,
        };
        match (self.questions.answer(stream), how) {
            (Some(question), Some(how)) => self.refuse(now, &question, how),
            (Some(question), None) => {
                if let Err(error) = self.accept(now, stream, &question) {
                    self.tell(stream, Happening::Reset(error));
                }
            }
            (None, None) => {
                let there = self.streams.is_there(stream);
                if !there {
                    self.tell(stream, Happening::Reset(NOT_CONNECTED));
                }
            }
            (None, Some(_)) if self.streams.is_coming(stream) => {
                let reset = StreamOp::Reset(CONNECTION_RESET);
                self.streams.operate(stream, reset, &self.profiles);
            }
            (None, Some(_)) => return false,
        }
        true
    }

    fn accept(&mut self, now: Instant, stream: StreamId, question: &Question) -> Result<(), i32> {
        let id = question.listener;
        let listen = self.sockets.listens(id).ok_or(NOT_CONNECTED)?;
        if !self.streams.has_place(id, listen.streams_max) {
            return Err(NO_BUFFERS);
        }
        let ends = Ends {
            local: question.dst,
            remote: question.src,
        };
        let dscp = Syn::parse(&question.syn).map_or(0, |syn| syn.dscp);
        let listener = Some((id, listen));
        self.streams.hear(now, ends, &question.syn, listener, dscp);
        let named = self.streams.name(ends, stream);
        named.then_some(()).ok_or(NOT_CONNECTED)
    }

    fn refuse(&mut self, now: Instant, question: &Question, how: Refusal) {
        if how == Refusal::Pass && !self.is_own(question.dst.ip()) {
            return self.send(now, question.syn.clone());
        }
        let mut answer = Vec::new();
        let built = match how {
            Refusal::Reset => reset_for(&question.syn, &mut answer),
            Refusal::Unreachable(why) if self.questions.allows_error(now) => {
                let own = self.around.source(question.src.ip());
                own.is_some_and(|own| {
                    let kind = IcmpError::Unreachable(why);
                    build_icmp_error(kind, own, &question.syn, &mut answer)
                })
            }
            Refusal::Unreachable(_) | Refusal::Silence | Refusal::Pass => false,
        };
        if built {
            self.send(now, answer);
        }
    }
}
