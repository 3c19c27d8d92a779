//! Packets that come back: several gateways on one Ethernet hear from each other what each has
//! brought there, and no hop limit ends what stations pass on.

use alloc::boxed::Box;

use strait_core::{Duration, Instant, Packet, PortId};
use strait_wire::ethernet::Mac;

use super::Gateway;

/// Which packets came lately, and by which port first.
///
/// One that comes again by the same port is sent again, as a router's hello is. By another port it
/// comes back, or a second time by another way. Known are the last few thousand; the newest of a
/// row come first.
#[derive(Debug)]
pub(super) struct Circles {
    seen: Box<[[Seen; Self::ROW]]>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    digest: u64,
    by: PortId,
    until: Instant,
}

impl Default for Circles {
    fn default() -> Self {
        let seen = Seen {
            digest: 0,
            by: PortId::HOST,
            until: Instant::ZERO,
        };
        Self {
            seen: alloc::vec![[seen; Self::ROW]; Self::ROWS].into_boxed_slice(),
        }
    }
}

impl Circles {
    /// With the length of a row, minutes of a narrow link; 96 kB.
    const ROWS: usize = 256;
    const ROW: usize = 16;
    /// How long what the Ethernet said is known, from its last time on: time for a way around by
    /// slow lines, and less than a router's hellos may fail to come (RFC 5340 appendix C: 40 s).
    const FROM_HOST: Duration = Duration::from_secs(30);
    /// The same of what came by a link: somebody there may have said it first to silence the
    /// Ethernet.
    const FROM_LINK: Duration = Duration::from_secs(10);

    /// Takes note of a packet that came by a port, and says whether it comes back.
    fn comes_back(&mut self, now: Instant, packet: &Packet, by: PortId, valid: Duration) -> bool {
        let digest = packet.digest();
        let Some(row) = self.seen.get_mut(digest as usize % Self::ROWS) else {
            return false;
        };
        let known = row.iter().position(|seen| seen.digest == digest);
        if known.is_some_and(|at| row[at].by != by && now < row[at].until) {
            return true;
        }
        let last = known.unwrap_or(Self::ROW - 1);
        row[..=last].rotate_right(1);
        row[0] = Seen {
            digest,
            by,
            until: now + valid,
        };
        false
    }
}

impl Gateway {
    /// Whether a packet for many that is about to be passed on has come by another port before,
    /// where an Ethernet may bring it back. One for a single host is sent again by another way when
    /// the first fails, and a hop limit ends its circles.
    pub(super) fn comes_back(&mut self, now: Instant, packet: &Packet, by: PortId) -> bool {
        let for_many = Mac::of_many(packet.info().dst).is_some();
        let valid = if self.hosts.contains(by) {
            Circles::FROM_HOST
        } else {
            Circles::FROM_LINK
        };
        let circles = self.circles.as_mut().filter(|_| for_many);
        circles.is_some_and(|circles| circles.comes_back(now, packet, by, valid))
    }
}
