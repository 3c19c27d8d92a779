//! The table of peers: those that are listed, and places for strangers.

use alloc::vec::Vec;

use strait_core::{Duration, Instant};

use super::peer::Peer;
use super::settings::Settings;
use crate::address::Address;

/// Answers to strangers in a row; one more may be given after each [`ANSWER_EVERY`].
const ANSWERS_MAX: u32 = 4;
const ANSWER_EVERY: Duration = Duration::from_secs(15);

/// All stations that one speaks with, by their places.
#[derive(Debug)]
pub(super) struct Peers<T> {
    /// First those that are listed; then places for strangers with links; one for the stranger that
    /// is answered.
    all: Vec<Peer<T>>,
    listed: usize,
    own: Address,
    /// Frames that were sent again to strangers that gave their places up.
    repeated_before: u64,
    /// Answers to strangers are spent until then.
    answers_spent: Instant,
}

impl<T> Peers<T> {
    pub(super) fn new(settings: &Settings, listed: &[Address]) -> Self {
        let vacant = core::iter::repeat_n(&settings.own, settings.guests + 1);
        let places = listed.iter().chain(vacant).enumerate();
        let peer = |(place, address): (usize, &Address)| {
            Peer::new(place, *address, place < listed.len(), settings)
        };
        Self {
            all: places.map(peer).collect(),
            listed: listed.len(),
            own: settings.own,
            repeated_before: 0,
            answers_spent: Instant::ZERO,
        }
    }

    /// How many are listed.
    pub(super) const fn listed(&self) -> usize {
        self.listed
    }

    /// Whether a place is that of one which is listed.
    pub(super) const fn is_listed(&self, place: usize) -> bool {
        place < self.listed
    }

    /// Those that are listed, and places for strangers with links.
    pub(super) const fn places(&self) -> usize {
        self.all.len() - 1
    }

    pub(super) fn at(&self, place: usize) -> Option<&Peer<T>> {
        self.all.get(place)
    }

    pub(super) fn at_mut(&mut self, place: usize) -> Option<&mut Peer<T>> {
        self.all.get_mut(place)
    }

    pub(super) fn iter(&self) -> core::slice::Iter<'_, Peer<T>> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> core::slice::IterMut<'_, Peer<T>> {
        self.all.iter_mut()
    }

    /// Strangers with links.
    pub(super) fn guests_mut(&mut self) -> core::slice::IterMut<'_, Peer<T>> {
        let places = self.listed..self.places();
        self.all[places].iter_mut()
    }

    /// Whether more stations than one are there, as far as is known.
    pub(super) fn are_several(&self) -> bool {
        let there = |peer: &&Peer<T>| !peer.is_group() && !peer.is_absent();
        self.all[..self.listed].iter().filter(there).count() > 1
    }

    /// Frames that were sent again.
    pub(super) fn repeated(&self) -> u64 {
        let now: u64 = self.iter().map(|peer| peer.transfer.send.repeated()).sum();
        self.repeated_before + now
    }

    /// The place of a peer, or of a stranger that has one.
    pub(super) fn place_of(&self, address: Address) -> Option<usize> {
        let mut places = self.all[..self.places()].iter();
        let place = places.position(|peer| peer.address() == address);
        place.filter(|_| address != self.own)
    }

    /// The place of a stranger: its own, or that of the stranger that has used it least, which is
    /// given back; of those that `give` it. One that called and didn't continue gives way before
    /// one that did.
    pub(super) fn admit(
        &mut self,
        address: Address,
        settings: &Settings,
        give: impl Fn(&Peer<T>) -> bool,
    ) -> Option<(usize, Option<Peer<T>>)> {
        if address == self.own {
            return None;
        }
        if let Some(place) = self.place_of(address) {
            return Some((place, None));
        }
        let free = (self.listed..self.places()).filter(|place| give(&self.all[*place]));
        let place = free.min_by_key(|place| self.all[*place].calls.link().standing())?;
        let fresh = Peer::new(place, address, false, settings);
        let gone = core::mem::replace(&mut self.all[place], fresh);
        self.repeated_before += gone.transfer.send.repeated();
        Some((place, Some(gone)))
    }

    /// The place of a stranger that is only answered, if it may be: a caller under ever more names
    /// doesn't keep this station on the air.
    pub(super) fn answer(&mut self, now: Instant, address: Address) -> Option<&mut Peer<T>> {
        let may_answer = self.may_answer(now);
        let stranger = self.all.last_mut()?;
        let again = stranger.address() == address && stranger.calls.link().has_to_say();
        if !again && !may_answer {
            return None;
        }
        stranger.set_address(address);
        if !again {
            self.spend_answer(now);
        }
        self.all.last_mut()
    }

    /// Whether one more stranger is answered.
    pub(super) fn may_answer(&self, now: Instant) -> bool {
        self.answers_spent <= now + ANSWER_EVERY * (ANSWERS_MAX - 1)
    }

    /// One is.
    pub(super) fn spend_answer(&mut self, now: Instant) {
        self.answers_spent = self.answers_spent.max(now) + ANSWER_EVERY;
    }
}

#[cfg(test)]
impl<T> core::ops::Index<usize> for Peers<T> {
    type Output = Peer<T>;

    fn index(&self, place: usize) -> &Peer<T> {
        &self.all[place]
    }
}

#[cfg(test)]
impl<T> core::ops::IndexMut<usize> for Peers<T> {
    fn index_mut(&mut self, place: usize) -> &mut Peer<T> {
        &mut self.all[place]
    }
}
