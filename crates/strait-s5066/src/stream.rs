//! D_PDUs out of the octets of a transmission.

use alloc::vec::Vec;

use crate::d_pdu::{DPdu, NoDPdu, OCTETS_MAX, SYNC, parse};

/// Finds D_PDUs among octets, some of which are wrong. Keeps at most the octets of one D_PDU that
/// isn't there yet.
#[derive(Debug, Default)]
pub struct Finder {
    kept: Vec<u8>,
}

impl Finder {
    /// Takes the next octets; `tell` gets each D_PDU whose header is right.
    pub fn feed(&mut self, bytes: &[u8], tell: impl FnMut(&DPdu<'_>)) {
        self.kept.extend_from_slice(bytes);
        self.search(false, tell);
    }

    /// The transmission is over: data that had begun doesn't end any more.
    pub fn end(&mut self, tell: impl FnMut(&DPdu<'_>)) {
        self.search(true, tell);
        self.kept.clear();
    }

    fn search(&mut self, ended: bool, mut tell: impl FnMut(&DPdu<'_>)) {
        let mut at = 0;
        while let Some(found) = next_sync(&self.kept[at..]) {
            at += found;
            match parse(&self.kept[at..], ended) {
                Ok((d_pdu, octets)) => {
                    tell(&d_pdu);
                    at += octets.max(1);
                }
                Err(NoDPdu::Incomplete) if !ended => break,
                Err(_) => at += 1,
            }
        }
        let rest = self.kept.len() - at;
        // A sync may begin in the last octet. An incomplete D_PDU is shorter than the longest one.
        let keep = match next_sync(&self.kept[at..]) {
            Some(_) => rest.min(OCTETS_MAX),
            None => usize::from(self.kept.last() == SYNC.first()).min(rest),
        };
        self.kept.drain(..self.kept.len() - keep);
    }
}

fn next_sync(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|pair| pair == SYNC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;
    use crate::d_pdu::{Body, Data, Segment};
    use proptest::prelude::*;

    fn data(number: u16, octets: &[u8], out: &mut Vec<u8>) {
        let data = Data {
            start: true,
            end: true,
            in_order: false,
            dropped: false,
            upper: false,
            lower: false,
            number,
            segment: Segment::whole(octets),
        };
        let d_pdu = DPdu {
            eow: 0,
            eot: 0,
            to: Address::new(1),
            from: Address::new(2),
            body: Body::Data(data, None),
        };
        d_pdu.put(out);
    }

    fn numbers(d_pdu: &DPdu<'_>) -> Option<(u16, bool)> {
        match d_pdu.body {
            Body::Data(data, _) => Some((data.number, data.segment.intact)),
            _ => None,
        }
    }

    #[test]
    fn a_damaged_header_costs_its_own_d_pdu_and_no_other() {
        let mut octets = Vec::from([0x90, 0x00, 0x90]);
        data(1, b"one", &mut octets);
        let second = octets.len();
        data(2, &[0x90, 0xeb, 0x90, 0xeb], &mut octets);
        data(3, b"three", &mut octets);
        octets[second + 6] ^= 4;
        octets.extend_from_slice(&[0, 0, 0x90]);
        let mut finder = Finder::default();
        let mut seen = Vec::new();
        finder.feed(&octets, |d_pdu| seen.extend(numbers(d_pdu)));
        finder.end(|d_pdu| seen.extend(numbers(d_pdu)));
        assert_eq!(seen, [(1, true), (3, true)]);
        assert!(finder.kept.is_empty());
    }

    #[test]
    fn a_cut_off_segment_is_told_of_at_the_end() {
        let mut octets = Vec::new();
        data(7, b"seven", &mut octets);
        octets.truncate(octets.len() - 2);
        let mut finder = Finder::default();
        let mut seen = Vec::new();
        finder.feed(&octets, |d_pdu| seen.extend(numbers(d_pdu)));
        assert_eq!(seen, []);
        finder.end(|d_pdu| seen.extend(numbers(d_pdu)));
        assert_eq!(seen, [(7, false)]);
    }

    proptest! {
        #[test]
        fn however_octets_are_cut_the_same_d_pdus_are_found(
            pieces in proptest::collection::vec(1usize..40, 1..30),
            noise in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut octets = noise;
            for number in 0..6u16 {
                data(number, &[number as u8; 30], &mut octets);
            }
            let mut whole = Vec::new();
            let mut finder = Finder::default();
            finder.feed(&octets, |d_pdu| whole.extend(numbers(d_pdu)));
            finder.end(|d_pdu| whole.extend(numbers(d_pdu)));
            let (mut seen, mut rest) = (Vec::new(), &octets[..]);
            for octets in pieces.iter().cycle() {
                let (now, later) = rest.split_at(rest.len().min(*octets));
                finder.feed(now, |d_pdu| seen.extend(numbers(d_pdu)));
                prop_assert!(finder.kept.len() <= OCTETS_MAX + 40);
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            finder.end(|d_pdu| seen.extend(numbers(d_pdu)));
            prop_assert_eq!(seen, whole);
        }
    }
}
