//! What an inverted bit on a serial line does to its octet.

use strait_core::framing::Framing;

/// What a bit on a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    /// This data bit, the lowest being 0.
    Data(u8),
    /// The parity bit.
    Parity,
    /// A start or stop bit.
    Frame,
}

impl Hit {
    /// A hit on bit `place` of an octet on the line; the start bit, if there is one, is 0.
    pub(crate) const fn on(framing: Framing, place: u8) -> Self {
        let Framing::Async(character) = framing else {
            return Self::Data(place & 7);
        };
        match place {
            0 => Self::Frame,
            place if place <= character.data => Self::Data(place - 1),
            place if character.has_parity() && place == character.data + 1 => Self::Parity,
            _ => Self::Frame,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn hits(framing: Framing) -> Vec<Hit> {
        let bits = 0..framing.bits_per_octet();
        bits.map(|bit| Hit::on(framing, bit)).collect()
    }

    #[test]
    fn bits_of_an_octet_have_their_places() {
        let hits_7e2 = hits("7E2".parse().unwrap());
        assert_eq!(hits_7e2[0], Hit::Frame);
        assert_eq!(hits_7e2[1], Hit::Data(0));
        assert_eq!(hits_7e2[7], Hit::Data(6));
        assert_eq!(hits_7e2[8..], [Hit::Parity, Hit::Frame, Hit::Frame]);
        let all: Vec<Hit> = (0..8).map(Hit::Data).collect();
        assert_eq!(hits(Framing::Sync), all);
    }
}
