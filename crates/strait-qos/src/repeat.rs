//! TCP segments sent again while their first copy still waits.
//!
//! On a slow line, a queue can hold more than a sender's retransmission timeout. The sender then
//! repeats segments that were never lost, and the repetition would cost line time again. The first
//! copy contains all of the repetition, and earlier; its older timestamp also lets the sender find
//! out that its timeout was premature (RFC 3522).

use alloc::collections::VecDeque;

use strait_core::Packet;
use strait_wire::ip::{TcpFlags, TcpView, protocol, tcp_header};

/// The place of the first copy among the waiting packets, in their order of arrival: the one that
/// contains all of `packet`.
pub(crate) fn first_copy(packet: &Packet, waiting: &VecDeque<Packet>) -> Option<usize> {
    let new = segment(packet)?;
    // Mostly a segment follows the last one that waits, and nothing needs to be searched.
    let follows = |last: TcpView| (new.seq.wrapping_sub(last.seq) as i32) > 0;
    let of_flow = |other: &&Packet| same_flow(packet, other);
    if waiting
        .iter()
        .rev()
        .find(of_flow)
        .and_then(segment)
        .is_none_or(follows)
    {
        return None;
    }
    waiting.iter().position(|other| repeats(packet, other))
}

/// Whether `packet` is a TCP segment contained in `first`.
#[must_use]
pub fn repeats(packet: &Packet, first: &Packet) -> bool {
    if !same_flow(packet, first) {
        return false;
    }
    let (Some(new), Some(old)) = (segment(packet), segment(first)) else {
        return false;
    };
    // The push flag is in the last segment of a burst, which may be another one now.
    let flags = |view: &TcpView| view.flags.0 & !TcpFlags::PSH.0;
    old.seq == new.seq
        && old.ack == new.ack
        && flags(&old) == flags(&new)
        && packet.bytes().get(new.payload) == first.bytes().get(old.payload)
}

/// The header of a segment that is repeated until it is acknowledged: one with data, or a SYN.
fn segment(packet: &Packet) -> Option<TcpView> {
    if packet.info().protocol != protocol::TCP {
        return None;
    }
    let view = tcp_header(packet.bytes())?;
    (!view.payload.is_empty() || view.flags.contains(TcpFlags::SYN)).then_some(view)
}

/// Whether both have the same addresses, protocol and ports.
#[must_use]
pub fn same_flow(a: &Packet, b: &Packet) -> bool {
    let (a, b) = (a.info(), b.info());
    (a.protocol, a.ports, a.src, a.dst) == (b.protocol, b.ports, b.src, b.dst)
}
