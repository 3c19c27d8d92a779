//! Names in few octets.
//!
//! Letters, digits, `-`, `_` and the dot between labels are digits to the base of 40; three of them
//! make two octets. Numbers from 40³ on stand for whole beginnings and ends of names. A name with
//! other octets goes as in a message (RFC 1035 section 3.1), behind a number that says so.

use alloc::string::String;
use alloc::vec::Vec;

use hickory_proto::rr::Name;
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder, BinEncodable};

/// Digits 1 to 39; 0 fills up.
const DIGITS: &[u8; 39] = b"abcdefghijklmnopqrstuvwxyz0123456789-_.";
const BASE: u16 = 40;
/// The first number that is none of three digits.
const WHOLE: u16 = BASE * BASE * BASE;
/// What numbers from [`WHOLE`] on stand for.
const BEGINNINGS: [&str; 3] = ["www.", "api.", "mail."];
const ENDS: [&str; 12] = [
    ".com",
    ".net",
    ".org",
    ".mil",
    ".gov",
    ".edu",
    ".int",
    ".info",
    ".co.uk",
    ".in-addr.arpa",
    ".ip6.arpa",
    ".example",
];
/// Octets of a message follow.
const AS_IN_MESSAGE: u16 = u16::MAX;

/// Octets of text that a name has at most.
const TEXT_OCTETS_MAX: usize = 255;

/// Appends a name.
pub fn write(name: &Name, out: &mut Vec<u8>) {
    let lower = name.to_lowercase();
    let digits = text(&lower).and_then(|text| shortest(&text));
    if let Some(numbers) = digits {
        out.extend(numbers.into_iter().flat_map(u16::to_be_bytes));
        return;
    }
    out.extend_from_slice(&AS_IN_MESSAGE.to_be_bytes());
    // A name that was read can be written.
    out.extend_from_slice(&lower.to_bytes().unwrap_or_default());
}

/// The name that all of `octets` are; `None` if they are none.
pub fn read(octets: &[u8]) -> Option<Name> {
    if let Some((first, rest)) = octets.split_first_chunk::<2>()
        && u16::from_be_bytes(*first) == AS_IN_MESSAGE
    {
        let mut decoder = BinDecoder::new(rest);
        let name = Name::read(&mut decoder).ok()?;
        return decoder.is_empty().then(|| name.to_lowercase());
    }
    let mut text = Vec::new();
    let numbers = octets.chunks(2).map(|pair| pair.try_into().ok());
    for number in numbers {
        expand(u16::from_be_bytes(number?), &mut text)?;
        if text.len() > TEXT_OCTETS_MAX {
            return None;
        }
    }
    let labels = text.split(|octet| *octet == b'.');
    // The root has no labels.
    Name::from_labels(labels.filter(|_| !text.is_empty())).ok()
}

/// The name that somebody writes, with a dot at its end or without.
pub fn parse(text: &str) -> Option<Name> {
    let labels = text.strip_suffix('.').unwrap_or(text);
    let split = labels.split('.').filter(|_| !labels.is_empty());
    let right = labels
        .bytes()
        .all(|it| digit(it.to_ascii_lowercase()).is_some());
    let name = Name::from_labels(split.map(str::as_bytes)).ok()?;
    right.then(|| name.to_lowercase())
}

/// The text of a name whose labels have digits alone, without a dot at its end.
fn text(name: &Name) -> Option<String> {
    let mut text = String::new();
    for label in name.iter() {
        if !text.is_empty() {
            text.push('.');
        }
        for octet in label {
            digit(*octet).filter(|_| *octet != b'.')?;
            text.push(char::from(*octet));
        }
    }
    Some(text)
}

fn digit(octet: u8) -> Option<u16> {
    let at = DIGITS.iter().position(|it| *it == octet)?;
    Some(at as u16 + 1)
}

/// The numbers of a text: with whole beginning and end, one of them, or none, as is shortest.
fn shortest(text: &str) -> Option<Vec<u16>> {
    let whole = |n: usize| WHOLE + n as u16;
    let beginning = (0..).zip(BEGINNINGS).find(|(_, it)| text.starts_with(it));
    let end = (0..).zip(ENDS).find(|(_, it)| text.ends_with(it));
    let beginnings = [None, beginning.map(|(n, it)| (whole(n), it))];
    let ends = [None, end.map(|(n, it)| (whole(BEGINNINGS.len() + n), it))];
    let pairs = beginnings
        .into_iter()
        .flat_map(|beginning| ends.map(|end| (beginning, end)));
    let written = pairs.filter_map(|(beginning, end)| {
        let (skip, cut) = (
            beginning.map_or(0, |it| it.1.len()),
            end.map_or(0, |it| it.1.len()),
        );
        let middle = text.get(skip..text.len().checked_sub(cut)?)?;
        let digits: Option<Vec<u16>> = middle.bytes().map(digit).collect();
        let mut numbers: Vec<u16> = beginning.map(|it| it.0).into_iter().collect();
        numbers.extend(digits?.chunks(3).map(|three| {
            let digit = |at: usize| three.get(at).copied().unwrap_or(0);
            (digit(0) * BASE + digit(1)) * BASE + digit(2)
        }));
        numbers.extend(end.map(|it| it.0));
        Some(numbers)
    });
    written.min_by_key(Vec::len)
}

/// Appends what a number stands for.
fn expand(number: u16, text: &mut Vec<u8>) -> Option<()> {
    if let Some(n) = number.checked_sub(WHOLE) {
        let words = BEGINNINGS.iter().chain(&ENDS);
        text.extend_from_slice(words.copied().nth(usize::from(n))?.as_bytes());
        return Some(());
    }
    let digits = [number / BASE / BASE, number / BASE % BASE, number % BASE];
    let octet = |digit: u16| DIGITS.get(usize::from(digit.checked_sub(1)?)).copied();
    text.extend(digits.into_iter().filter_map(octet));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    use core::str::FromStr;

    use proptest::prelude::*;

    fn written(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write(&Name::from_str(text).unwrap(), &mut out);
        out
    }

    #[test]
    fn three_letters_are_two_octets_and_words_too() {
        // (1 · 40 + 2) · 40 + 3, and 64,000 and the fourth number behind it.
        assert_eq!(written("abc."), [0x06, 0x93]);
        assert_eq!(
            written("WWW.abc.com."),
            [0xfa, 0x00, 0x06, 0x93, 0xfa, 0x03]
        );
        assert_eq!(written("."), [0u8; 0]);
        assert_eq!(written("n00007.hf.example.").len(), 8);
    }

    #[test]
    fn other_octets_go_as_in_a_message() {
        let name = Name::from_labels([&b"a b"[..], b"c"]).unwrap();
        let mut out = Vec::new();
        write(&name, &mut out);
        assert_eq!(out, b"\xff\xff\x03a b\x01c\x00");
        assert_eq!(read(&out), Some(name));
        let dot = Name::from_labels([&b"a.b"[..]]).unwrap();
        let mut out = Vec::new();
        write(&dot, &mut out);
        assert_eq!(read(&out), Some(dot));
    }

    #[test]
    fn what_is_no_name_is_none() {
        let long = [0x06, 0x93].repeat(22);
        for wrong in [
            &[0x06][..],
            // Beyond the last word, an empty label, a label of 66 octets.
            &[0xfa, 0x0f],
            &[0xfa, 0x03],
            &long,
            // A pointer to itself, and octets behind the root.
            b"\xff\xff\xc0\x00",
            b"\xff\xff\x00\x00",
            b"\xff\xff\x05ab",
        ] {
            assert_eq!(read(wrong), None, "{wrong:x?}");
        }
    }

    proptest! {
        #[test]
        fn names_come_back_in_lower_case(
            labels in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 0..9),
        ) {
            let name = Name::from_labels(labels.iter().map(|it| &it[..])).unwrap();
            let mut out = Vec::new();
            write(&name, &mut out);
            let back = read(&out).unwrap();
            prop_assert!(back.eq_case(&name.to_lowercase()));
        }

        #[test]
        fn any_octets_are_judged(octets in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(name) = read(&octets) {
                let mut out = Vec::new();
                write(&name, &mut out);
                prop_assert_eq!(read(&out), Some(name));
            }
        }
    }
}
