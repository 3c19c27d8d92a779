//! Headers of packets that both ends have: what others are said relative to.

use alloc::boxed::Box;

use strait_wire::hbh::Headers;

/// By their sequence numbers, those of the last packets.
///
/// A sender says headers relative to those of a packet that is acknowledged, at most
/// [`Headers::DISTANCE_MAX`] numbers before. It sends nothing more than a window ahead of what the
/// receiver misses first: so a receiver that keeps twice as many always has them, whatever was lost
/// or came late.
#[derive(Debug)]
pub(crate) struct Known {
    places: Box<[Option<Place>]>,
}

#[derive(Clone, Debug)]
struct Place {
    seq: u16,
    headers: Headers,
    /// The last packet that was said relative to it never came.
    failed: bool,
}

impl Known {
    /// Those that a sender may name.
    pub(crate) fn of_sender() -> Self {
        Self::new(usize::from(Headers::DISTANCE_MAX) + 1)
    }

    /// Those that a sender may come to name.
    pub(crate) fn of_receiver() -> Self {
        Self::new(2 * (usize::from(Headers::DISTANCE_MAX) + 1))
    }

    fn new(places: usize) -> Self {
        Self {
            places: (0..places).map(|_| None).collect(),
        }
    }

    /// Takes note of a packet.
    pub(crate) fn note(&mut self, seq: u16, packet: &[u8]) {
        let place = usize::from(seq) % self.places.len();
        if let Some(place) = self.places.get_mut(place) {
            *place = Headers::of(packet).map(|(headers, _)| Place {
                seq,
                headers,
                failed: false,
            });
        }
    }

    /// The headers of a packet, if another may be said relative to them: none like them is among
    /// those that `seq` could name, or one of those has the same in what no transport checksum
    /// covers. The packet alone may be somebody else's, in the place of one that was lost.
    pub(crate) fn reliable(&self, named: u16, seq: u16) -> Option<&Headers> {
        let headers = self.get(named)?;
        let near = |it: &&Place| {
            let distance = seq.wrapping_sub(it.seq);
            (1..=Headers::DISTANCE_MAX).contains(&distance) && it.seq != named
        };
        let others = self.places.iter().flatten().filter(near);
        let others = others.map(|it| &it.headers);
        let mut others = others.filter(|it| it.is_like(headers)).peekable();
        let alone = others.peek().is_none();
        (alone || others.any(|it| it.agrees(headers))).then_some(headers)
    }

    /// The headers of a packet.
    pub(crate) fn get(&self, seq: u16) -> Option<&Headers> {
        let place = self.places.get(usize::from(seq) % self.places.len());
        let place = place?.as_ref()?;
        (place.seq == seq).then_some(&place.headers)
    }

    /// The last reliable headers before `seq` that are like these, and how many numbers before.
    pub(crate) fn like(&self, headers: &Headers, seq: u16) -> Option<(&Headers, u16)> {
        let mut distances = 1..=Headers::DISTANCE_MAX;
        distances.find_map(|distance| {
            let named = seq.wrapping_sub(distance);
            self.get(named).filter(|known| headers.is_like(known))?;
            Some((self.reliable(named, seq)?, distance))
        })
    }

    /// A packet never came that was said relative to another, `again` if more than once. The
    /// receiver may have something else in its place: after two that were sent once, as after one
    /// that was repeated, nothing is said relative to it any more.
    pub(crate) fn fail(&mut self, named: Option<u16>, again: bool) {
        if let Some(place) = self.place_mut(named) {
            match place {
                Some(it) if !again && !it.failed => it.failed = true,
                _ => *place = None,
            }
        }
    }

    /// A packet came that was said relative to another.
    pub(crate) fn bear_out(&mut self, named: Option<u16>) {
        if let Some(Some(place)) = self.place_mut(named) {
            place.failed = false;
        }
    }

    fn place_mut(&mut self, seq: Option<u16>) -> Option<&mut Option<Place>> {
        let at = usize::from(seq?) % self.places.len();
        let place = self.places.get_mut(at)?;
        place
            .as_ref()
            .is_some_and(|it| Some(it.seq) == seq)
            .then_some(place)
    }

    /// Another life of the other end knows of none.
    pub(crate) fn clear(&mut self) {
        self.places.fill(None);
    }
}
