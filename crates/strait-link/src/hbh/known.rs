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
    places: Box<[Option<(u16, Headers)>]>,
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
            *place = Headers::of(packet).map(|(headers, _)| (seq, headers));
        }
    }

    /// The headers of a packet, if another may be said relative to them: none like them is among
    /// those that `seq` could name, or one of those has the same in what no transport checksum
    /// covers. The packet alone may be somebody else's, in the place of one that was lost.
    pub(crate) fn reliable(&self, named: u16, seq: u16) -> Option<&Headers> {
        let headers = self.get(named)?;
        let near = |it: &&(u16, Headers)| {
            let distance = seq.wrapping_sub(it.0);
            (1..=Headers::DISTANCE_MAX).contains(&distance) && it.0 != named
        };
        let others = self.places.iter().flatten().filter(near);
        let mut others = others.filter(|it| it.1.is_like(headers)).peekable();
        let alone = others.peek().is_none();
        (alone || others.any(|it| it.1.agrees(headers))).then_some(headers)
    }

    /// The headers of a packet.
    pub(crate) fn get(&self, seq: u16) -> Option<&Headers> {
        let place = self.places.get(usize::from(seq) % self.places.len());
        let (own, headers) = place?.as_ref()?;
        (*own == seq).then_some(headers)
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

    /// Nothing is said relative to a packet any more.
    pub(crate) fn forget(&mut self, seq: Option<u16>) {
        let is_it = |place: &&mut Option<(u16, Headers)>| {
            place.as_ref().is_some_and(|(own, _)| Some(*own) == seq)
        };
        self.places.iter_mut().find(is_it).map(Option::take);
    }

    /// Another life of the other end knows of none.
    pub(crate) fn clear(&mut self) {
        self.places.fill(None);
    }
}
