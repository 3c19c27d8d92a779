//! AX.25 UI frames (AX.25 version 2.2, 1998, sections 3.12 and 4.3.3.6): who sends to whom, and
//! contents that nobody acknowledges. A modem's own frame check is not part of them.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// A station: a call sign and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Station {
    /// Capital letters and digits, blanks behind them.
    call: [u8; 6],
    /// 0 … 15.
    ssid: u8,
}

/// Text that names no station.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a station is a call sign of 1 to 6 letters and digits, and perhaps -0 to -15: `N0CALL-7`")]
pub struct NotAStation;

impl FromStr for Station {
    type Err = NotAStation;

    fn from_str(text: &str) -> Result<Self, NotAStation> {
        let (call, ssid) = match text.split_once('-') {
            None => (text, 0),
            Some((call, ssid)) => (call, ssid.parse().map_err(|_| NotAStation)?),
        };
        let mut letters = [b' '; 6];
        let fits = (1..=6).contains(&call.len()) && ssid <= 15;
        if !fits || !call.bytes().all(|letter| letter.is_ascii_alphanumeric()) {
            return Err(NotAStation);
        }
        for (place, letter) in letters.iter_mut().zip(call.bytes()) {
            *place = letter.to_ascii_uppercase();
        }
        Ok(Self {
            call: letters,
            ssid,
        })
    }
}

impl fmt::Display for Station {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call: String = self.call.iter().map(|letter| char::from(*letter)).collect();
        match self.ssid {
            0 => write!(out, "{}", call.trim_end()),
            ssid => write!(out, "{}-{ssid}", call.trim_end()),
        }
    }
}

impl Station {
    /// Octets of an address.
    pub const OCTETS: usize = 7;

    /// Everybody: nobody's call sign, by an old convention.
    pub const QST: Self = Self {
        call: *b"QST   ",
        ssid: 0,
    };

    /// Appends the address; `mark` is the command or response bit.
    fn emit(self, mark: bool, last: bool, out: &mut Vec<u8>) {
        out.extend(self.call.iter().map(|letter| letter << 1));
        // The two reserved bits are ones.
        out.push(u8::from(mark) << 7 | 0x60 | self.ssid << 1 | u8::from(last));
    }

    /// Reads an address, and whether it is the last one.
    fn parse(octets: &[u8; Self::OCTETS]) -> Option<(Self, bool)> {
        let [letters @ .., end] = *octets;
        let call = letters.map(|letter| letter >> 1);
        let name = call.iter().position(|letter| *letter == b' ');
        let (name, blanks) = call.split_at(name.unwrap_or(call.len()));
        let is_call = !name.is_empty() && name.iter().all(u8::is_ascii_alphanumeric);
        let fits = is_call && blanks.iter().all(|blank| *blank == b' ');
        let station = Self {
            call,
            ssid: end >> 1 & 0x0f,
        };
        (fits && letters.iter().all(|letter| letter & 1 == 0)).then_some((station, end & 1 == 1))
    }
}

/// A UI frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UiFrame<'a> {
    /// For whom it is.
    pub destination: Station,
    /// From whom.
    pub source: Station,
    /// What the contents are, such as [`NO_LAYER_3`].
    pub protocol: u8,
    /// What it carries.
    pub contents: &'a [u8],
}

/// Octets before the contents, without repeaters.
pub const UI_OCTETS: usize = 2 * Station::OCTETS + 2;
/// Contents of no listed protocol: ours.
pub const NO_LAYER_3: u8 = 0xf0;
/// Contents that are an IPv4 packet.
pub const IP: u8 = 0xcc;
/// Unnumbered information, no poll.
const UI: u8 = 0x03;
/// Poll or final bit of the control octet.
const POLL: u8 = 0x10;
/// Repeaters that a frame may name.
pub const REPEATERS_MAX: usize = 8;

impl<'a> UiFrame<'a> {
    /// Appends the frame as a command that the repeaters `via` are to send on, one by one.
    pub fn emit(&self, via: &[Station], out: &mut Vec<u8>) {
        self.destination.emit(true, false, out);
        self.source.emit(false, via.is_empty(), out);
        for (place, repeater) in via.iter().enumerate() {
            repeater.emit(false, place + 1 == via.len(), out);
        }
        out.extend_from_slice(&[UI, self.protocol]);
        out.extend_from_slice(self.contents);
    }

    /// Reads a frame; `None` if it is none, or if a repeater has yet to send it on: what is heard
    /// on its way there comes again.
    #[must_use]
    pub fn parse(octets: &'a [u8]) -> Option<Self> {
        let (destination, rest) = octets.split_first_chunk()?;
        let (source, mut rest) = rest.split_first_chunk()?;
        let (destination, alone) = Station::parse(destination)?;
        let (source, mut last) = Station::parse(source)?;
        let (mut repeaters, mut arrived) = (0, true);
        while !last && repeaters < REPEATERS_MAX {
            let (repeater, behind) = rest.split_first_chunk()?;
            last = Station::parse(repeater)?.1;
            // The mark of a repeater says that it has sent the frame on.
            arrived = repeater[Station::OCTETS - 1] & 0x80 != 0;
            rest = behind;
            repeaters += 1;
        }
        let ([control, protocol], contents) = rest.split_first_chunk()?;
        (!alone && last && arrived && control & !POLL == UI).then_some(Self {
            destination,
            source,
            protocol: *protocol,
            contents,
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn station(text: &str) -> Station {
        text.parse().unwrap()
    }

    #[test]
    fn stations_are_read_and_written() {
        for (text, again) in [("n0call-7", "N0CALL-7"), ("W1AW", "W1AW"), ("A-0", "A")] {
            assert_eq!(station(text).to_string(), again);
        }
        for text in [
            "", "-1", "SEVENCH", "A-16", "A-", "A-x", "A_B", "Ä", "A-1-2",
        ] {
            assert_eq!(text.parse::<Station>(), Err(NotAStation), "{text}");
        }
    }

    #[test]
    fn literal_octets() {
        let frame = UiFrame {
            destination: station("NJ7P"),
            source: station("N7LEM-1"),
            protocol: NO_LAYER_3,
            contents: b"hi",
        };
        let mut out = Vec::new();
        frame.emit(&[], &mut out);
        // The standard's example of an address, as a command.
        let expected = [
            0x9c, 0x94, 0x6e, 0xa0, 0x40, 0x40, 0xe0, 0x9c, 0x6e, 0x98, 0x8a, 0x9a, 0x40, 0x63,
            0x03, 0xf0, b'h', b'i',
        ];
        assert_eq!(out, expected);
        assert_eq!(out.len(), UI_OCTETS + 2);
        assert_eq!(UiFrame::parse(&out), Some(frame));
        for length in 0..UI_OCTETS {
            assert_eq!(UiFrame::parse(&out[..length]), None);
        }
    }

    #[test]
    fn frames_have_gone_over_all_their_repeaters_and_others_are_none() {
        let mut out = Vec::new();
        station("B").emit(true, false, &mut out);
        station("A").emit(false, false, &mut out);
        station("R-1").emit(true, false, &mut out);
        station("R-2").emit(true, true, &mut out);
        out.extend_from_slice(&[UI | POLL, 0xcc, 1]);
        let frame = UiFrame::parse(&out).unwrap();
        assert_eq!((frame.protocol, frame.contents), (0xcc, &[1][..]));
        let control = out.len() - 3;
        // An information frame; an address with a low bit; a destination that is the last; a
        // repeater that has yet to send it on.
        for (place, octet) in [(control, 0x00), (0, 0x85), (6, 0xe1), (27, 0x65)] {
            let mut other = out.clone();
            other[place] = octet;
            assert_eq!(UiFrame::parse(&other), None, "{place}");
        }
        let endless = [0x82, 0x40, 0x40, 0x40, 0x40, 0x40, 0x60].repeat(12);
        assert_eq!(UiFrame::parse(&endless), None);
    }

    #[test]
    fn repeaters_stand_behind_the_source_until_they_have_sent_it_on() {
        let frame = UiFrame {
            destination: station("B"),
            source: station("A"),
            protocol: IP,
            contents: &[0x45],
        };
        let mut out = Vec::new();
        frame.emit(&[station("R-1"), station("R-2")], &mut out);
        let repeaters = [
            0xa4, 0x40, 0x40, 0x40, 0x40, 0x40, 0x62, 0xa4, 0x40, 0x40, 0x40, 0x40, 0x40, 0x65,
        ];
        assert_eq!((out[13], &out[14..28]), (0x60, &repeaters[..]));
        assert_eq!(out[28..], [UI, IP, 0x45]);
        assert_eq!(UiFrame::parse(&out), None);
        // The first repeater sends it on, then the second.
        out[20] |= 0x80;
        assert_eq!(UiFrame::parse(&out), None);
        out[27] |= 0x80;
        assert_eq!(UiFrame::parse(&out), Some(frame));
    }

    proptest::proptest! {
        #[test]
        fn any_octets_are_read(
            octets in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..99),
        ) {
            if let Some(frame) = UiFrame::parse(&octets) {
                let mut out = Vec::new();
                frame.emit(&[], &mut out);
                assert_eq!(UiFrame::parse(&out), Some(frame));
            }
        }
    }
}
