//! What tests do to a station from inside.

use super::*;

/// Changes how a station behaves.
pub(super) fn configure(station: &mut Station<u32>, change: impl FnOnce(&mut Settings)) {
    change(&mut station.settings);
    let settings = &station.settings;
    station.access.configure(settings);
    station.ladder.configure(settings);
    let peers = station.peers.iter_mut();
    peers.for_each(|peer| peer.calls.configure(settings));
}

/// Lets a station ask a peer to begin anew.
pub(super) fn begin_reset(station: &mut Station<u32>, number: usize) {
    let (peers, cx) = station.split();
    peers[number].transfer.reset_fully(cx.counts);
}
