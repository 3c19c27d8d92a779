//! The needs of a peer's machines from the station.

use alloc::collections::VecDeque;

use strait_core::Instant;
use strait_core::stats::HfCounts;

use super::access::MediaAccess;
use super::inbox::Inbox;
use super::ladder::Ladder;
use super::settings::Settings;
use super::transfer::Transfer;
use super::{Identity, Outcome};

/// The needs of a peer's machines from the station.
#[derive(Debug)]
pub(super) struct Context<'a, T> {
    pub(super) now: Instant,
    pub(super) settings: &'a Settings,
    pub(super) access: &'a MediaAccess,
    pub(super) ladder: &'a Ladder,
    pub(super) identity: &'a mut Identity,
    pub(super) inbox: &'a mut Inbox,
    pub(super) outcomes: &'a mut VecDeque<Outcome<T>>,
    pub(super) counts: &'a mut HfCounts,
    /// The only peer that is served.
    pub(super) exclusive: Option<usize>,
}

impl<T> Context<'_, T> {
    /// Makes outcomes of finished data.
    pub(super) fn collect(&mut self, to: usize, transfer: &mut Transfer<T>) {
        while let Some(done) = transfer.poll_done() {
            self.outcomes.push_back(Outcome {
                to,
                ticket: done.ticket,
                delivered: done.acked,
                began: done.began,
                sent: done.sent,
                left: done.left,
            });
        }
    }
}
