//! Headers of packets that both ends have: what others are said relative to.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_wire::hbh::Headers;

#[derive(Clone, Debug)]
struct Place {
    seq: u16,
    headers: Headers,
    /// The last packet that was said relative to it never came.
    failed: bool,
}

/// Of those places whose numbers `seq` could name, `named`, if another packet may be said relative
/// to it: none like it is among the others, or one of those has the same in what no transport
/// checksum covers. The packet alone may be somebody else's, in the place of one that was lost.
fn reliable<'a>(
    places: impl Iterator<Item = &'a Place>,
    named: &'a Place,
    (seq, distance_max): (u16, u16),
) -> Option<&'a Headers> {
    let headers = &named.headers;
    let near = |it: &&Place| {
        let distance = seq.wrapping_sub(it.seq);
        (1..=distance_max).contains(&distance) && it.seq != named.seq
    };
    let others = places.filter(near).map(|it| &it.headers);
    let mut others = others.filter(|it| it.is_like(headers)).peekable();
    let alone = others.peek().is_none();
    (alone || others.any(|it| it.agrees(headers))).then_some(headers)
}

/// Those that a sender may name: of the packets that were acknowledged last.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    places: VecDeque<Place>,
    /// How far apart the two packets may be for the receiver to understand.
    distance_max: u16,
}

impl Acknowledged {
    /// A packet is said relative to one of its flow. Of fewer flows than this, there is one.
    const PLACES: usize = Headers::NEAR_MAX as usize + 1;

    pub(crate) const fn new() -> Self {
        Self {
            places: VecDeque::new(),
            distance_max: Headers::NEAR_MAX,
        }
    }

    /// Says how far apart two packets may be.
    pub(crate) const fn set_distance_max(&mut self, distance_max: u16) {
        self.distance_max = distance_max;
    }

    /// Takes note of a packet that was acknowledged.
    pub(crate) fn note(&mut self, seq: u16, packet: &[u8]) {
        let Some((headers, _)) = Headers::of(packet) else {
            return;
        };
        if self.places.len() >= Self::PLACES {
            self.places.pop_front();
        }
        self.places.push_back(Place {
            seq,
            headers,
            failed: false,
        });
    }

    /// The last reliable headers before `seq` that are like these, and how many numbers before.
    pub(crate) fn like(&self, headers: &Headers, seq: u16) -> Option<(&Headers, u16)> {
        let range = (seq, self.distance_max);
        self.places.iter().rev().find_map(|place| {
            let distance = seq.wrapping_sub(place.seq);
            let is_near = (1..=self.distance_max).contains(&distance);
            if !is_near || !headers.is_like(&place.headers) {
                return None;
            }
            let found = reliable(self.places.iter(), place, range)?;
            Some((found, distance))
        })
    }

    /// A packet never came that was said relative to another, `again` if more than once. The
    /// receiver may have something else in its place: after two that were sent once, as after one
    /// that was repeated, nothing is said relative to it any more.
    pub(crate) fn fail(&mut self, named: Option<u16>, again: bool) {
        let Some(at) = self.place(named) else {
            return;
        };
        match self.places.get_mut(at) {
            Some(it) if !again && !it.failed => it.failed = true,
            _ => drop(self.places.remove(at)),
        }
    }

    /// A packet came that was said relative to another.
    pub(crate) fn bear_out(&mut self, named: Option<u16>) {
        let at = self.place(named);
        if let Some(place) = at.and_then(|at| self.places.get_mut(at)) {
            place.failed = false;
        }
    }

    fn place(&self, seq: Option<u16>) -> Option<usize> {
        let seq = seq?;
        self.places.iter().rposition(|it| it.seq == seq)
    }

    /// Another life of the other end knows of none.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
    }
}

/// Those that a sender may come to name, by their numbers.
///
/// A sender names what is acknowledged: what it names is behind all that is on its way. So there
/// are as many as twice the longest distance that it named so far, and at the most all that it
/// could name.
#[derive(Debug)]
pub(crate) struct Known {
    places: Vec<Option<Place>>,
}

impl Known {
    const PLACES: usize = 2 * (Headers::NEAR_MAX as usize + 1);
    const PLACES_MAX: usize = Headers::DISTANCE_MAX as usize + 1;

    pub(crate) fn new() -> Self {
        Self {
            places: alloc::vec![None; Self::PLACES],
        }
    }

    /// Takes note of a packet.
    pub(crate) fn note(&mut self, seq: u16, packet: &[u8]) {
        let at = usize::from(seq) % self.places.len();
        if let Some(place) = self.places.get_mut(at) {
            *place = Headers::of(packet).map(|(headers, _)| Place {
                seq,
                headers,
                failed: false,
            });
        }
    }

    /// A packet was said relative to another so many numbers before.
    pub(crate) fn reach(&mut self, distance: u16) {
        let wanted = 2 * usize::from(distance);
        if wanted <= self.places.len() || self.places.len() >= Self::PLACES_MAX {
            return;
        }
        let length = wanted.next_power_of_two().min(Self::PLACES_MAX);
        let before = core::mem::replace(&mut self.places, alloc::vec![None; length]);
        for place in before.into_iter().flatten() {
            let at = usize::from(place.seq) % length;
            if let Some(free) = self.places.get_mut(at) {
                *free = Some(place);
            }
        }
    }

    /// The headers of a packet, if those of `seq` may be said relative to them.
    pub(crate) fn reliable(&self, named: u16, seq: u16) -> Option<&Headers> {
        let range = (seq, Headers::DISTANCE_MAX);
        reliable(self.places.iter().flatten(), self.place(named)?, range)
    }

    /// The headers of a packet.
    pub(crate) fn get(&self, seq: u16) -> Option<&Headers> {
        self.place(seq).map(|place| &place.headers)
    }

    fn place(&self, seq: u16) -> Option<&Place> {
        let place = self.places.get(usize::from(seq) % self.places.len())?;
        place.as_ref().filter(|it| it.seq == seq)
    }

    /// Another life of the other end knows of none.
    pub(crate) fn clear(&mut self) {
        self.places.fill(None);
    }
}
