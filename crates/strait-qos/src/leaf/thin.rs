//! TCP acknowledgements that others make superfluous.
//!
//! An acknowledgement means «I have all up to here». While three of one connection wait, the one in
//! the middle is redundant beside the last, on a line that others need. If it contains more, it
//! stays.

use alloc::collections::VecDeque;

use strait_core::Packet;
use strait_wire::ip::{TcpFlags, protocol, tcp_header};

use crate::repeat::same_flow;

/// The place of a waiting acknowledgement that may be left out once `last` waits behind it.
///
/// It is the newest waiting packet of `last`'s connection, with another of the connection in front
/// of it. All three are segments with ACK and no other flag, no data and no options but timestamps,
/// and acknowledge more and more (so that none is a duplicate, which reports a loss). The two later
/// ones have the same type of service and ECN marks, the window of the last isn't smaller, and
/// neither timestamp runs back. The first stays: its sender may wait for it.
pub(super) fn superfluous(last: &Packet, waiting: &VecDeque<Packet>) -> Option<usize> {
    let last_ack = Acknowledgement::of(last)?;
    let of_connection = |(_, packet): &(usize, &Packet)| same_flow(last, packet);
    let mut earlier = waiting.iter().enumerate().rev().filter(of_connection);
    let (place, middle) = earlier.next()?;
    let middle_ack = Acknowledgement::of(middle)?;
    let first_ack = Acknowledgement::of(earlier.next()?.1)?;
    let alike = (middle.info().dscp, middle.info().ecn) == (last.info().dscp, last.info().ecn);
    (alike && first_ack.advances_to(&middle_ack) && middle_ack.is_said_by(&last_ack))
        .then_some(place)
}

/// The content of a segment without data and flags but ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Acknowledgement {
    ack: u32,
    window: u16,
    /// Value and echo (RFC 7323 section 3.2).
    timestamps: Option<(u32, u32)>,
}

/// Whether `later` is not before `earlier`, in numbers that wrap.
const fn in_order(earlier: u32, later: u32) -> bool {
    later.wrapping_sub(earlier) as i32 >= 0
}

impl Acknowledgement {
    fn of(packet: &Packet) -> Option<Self> {
        if packet.info().protocol != protocol::TCP {
            return None;
        }
        let view = tcp_header(packet.bytes())?;
        if view.flags != TcpFlags::ACK || !view.payload.is_empty() {
            return None;
        }
        let header = packet.bytes().get(view.header.clone())?;
        // The lowest bit of the octet before the flags is the ninth flag (RFC 9768).
        let reserved = header.get(12)? & 0x0f;
        let window = u16::from_be_bytes([*header.get(14)?, *header.get(15)?]);
        let timestamps = only_timestamps(header.get(20..)?)?;
        (reserved == 0).then_some(Self {
            ack: view.ack,
            window,
            timestamps,
        })
    }

    const fn advances_to(&self, later: &Self) -> bool {
        self.ack != later.ack && in_order(self.ack, later.ack)
    }

    fn is_said_by(&self, later: &Self) -> bool {
        let times = match (self.timestamps, later.timestamps) {
            (None, None) => true,
            (Some(old), Some(new)) => in_order(old.0, new.0) && in_order(old.1, new.1),
            _ => false,
        };
        self.advances_to(later) && self.window <= later.window && times
    }
}

/// The timestamps among a segment's options, `Some(None)` without any; `None` if there is any other
/// option than padding.
#[expect(
    clippy::option_option,
    reason = "no options and strange options differ"
)]
fn only_timestamps(mut options: &[u8]) -> Option<Option<(u32, u32)>> {
    let mut found = None;
    loop {
        match options {
            [] | [0, ..] => return Some(found),
            [1, rest @ ..] => options = rest,
            [8, 10, rest @ ..] if found.is_none() => {
                let (value, rest) = rest.split_first_chunk()?;
                let (echo, rest) = rest.split_first_chunk()?;
                found = Some((u32::from_be_bytes(*value), u32::from_be_bytes(*echo)));
                options = rest;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
#[path = "thin_tests.rs"]
mod tests;
