//! What a message's header says of its precedence and of its way so far. Only a few fields are
//! looked at, and no octet is changed.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::precedence::{Precedence, parse_common, parse_mmhs, parse_prosign, parse_wire};

/// Octets of a header that are looked at; what is behind them counts as the message's text.
pub const HEADER_OCTETS_MAX: usize = 64 * 1024;
/// Fields of `MT-Priority` that are remembered; a message with more has been tampered with.
const TUNNELS_MAX: usize = 8;
/// Fields that tell of a message's way and are remembered: a message with more is in a circle.
const TRACES_MAX: usize = 64;
/// Octets of such a field's value that are looked at, and of what is left of it.
const TRACE_OCTETS_MAX: usize = 2048;
const THIN_OCTETS_MAX: usize = 300;
/// What switches on the way found out for those behind them.
const FINDINGS: [&str; 6] = [
    "ARC-Authentication-Results",
    "ARC-Message-Signature",
    "ARC-Seal",
    "Authentication-Results",
    "Received-SPF",
    "X-Received",
];
/// By what a person knows a message again.
const NAMING: [&str; 3] = ["Date", "Message-ID", "Subject"];
/// Characters of a field's value that are looked at.
const VALUE_OCTETS_MAX: usize = 256;

/// What a header says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The value of the only `MT-Priority` field, if that is right (RFC 6758 section 2).
    pub tunnelled: Option<i8>,
    /// Where all such fields lie: first octet, and the one behind the last.
    pub tunnels: Vec<(u32, u32)>,
    /// The higher of `MMHS-Primary-Precedence` and `MMHS-Copy-Precedence` (RFC 6477).
    pub mmhs: Option<Precedence>,
    /// `Priority`, or else `X-Priority`. `Importance` is something else (RFC 6758 section 3).
    pub common: Option<Precedence>,
    /// Winlink's mark at the beginning of the subject.
    pub subject: Option<Precedence>,
    /// The first `Date`, `Message-ID` and `Subject`, on a line of plain characters each.
    pub naming: Vec<String>,
    /// How often the message was taken by a switch.
    pub received: u32,
    /// Where fields that tell of its way lie, as far as they can be shortened.
    pub traces: Vec<(u32, u32)>,
    /// What is left of these: by which switch, and when. There are as many, so that a circle shows.
    pub thinned: Vec<String>,
}

/// Reads a header, as much of it as there is.
pub fn parse(octets: &[u8]) -> Header {
    let mut header = Header::default();
    let (mut tunnels, mut priority, mut x_priority) = (0_u32, None, None);
    for (start, end) in fields(octets) {
        let field = &octets[start..end];
        let Some(colon) = field.iter().position(|it| *it == b':') else {
            break;
        };
        let value = || unfolded(&field[colon + 1..]);
        let name = field[..colon].trim_ascii_end();
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let naming = NAMING.into_iter().find(|it| is(it));
        let is_there = |known: &str| header.naming.iter().any(|it| it.starts_with(known));
        if let Some(known) = naming.filter(|known| !is_there(known)) {
            header.naming.push(format!("{known}: {}", shown(&value())));
        }
        let has_room = header.traces.len() < TRACES_MAX;
        if is("Received") {
            header.received += 1;
            if let Some(thin) = thinned(&field[colon + 1..]).filter(|_| has_room) {
                header.traces.push((start as u32, end as u32));
                header.thinned.push(thin);
            }
        } else if has_room && FINDINGS.into_iter().any(is) {
            header.traces.push((start as u32, end as u32));
        } else if is("MT-Priority") {
            tunnels += 1;
            header.tunnelled = parse_wire(without_comments(&value()).as_slice());
            if header.tunnels.len() < TUNNELS_MAX {
                header.tunnels.push((start as u32, end as u32));
            }
        } else if is("MMHS-Primary-Precedence") || is("MMHS-Copy-Precedence") {
            header.mmhs = header.mmhs.max(word(&value()).and_then(parse_mmhs));
        } else if is("Priority") {
            priority = priority.or_else(|| word(&value()).and_then(parse_common));
        } else if is("X-Priority") {
            x_priority = x_priority.or_else(|| word(&value()).and_then(parse_common));
        } else if is("Subject") {
            header.subject = header.subject.or_else(|| marked(&value()));
        }
    }
    header.tunnelled = header.tunnelled.filter(|_| tunnels == 1);
    header.common = priority.or(x_priority);
    header
}

/// What is left of the value of a field `Received`: by which switch the message was taken, and when
/// (RFC 5322 section 3.6.7 asks for no more). Nothing if it doesn't say so.
pub fn thinned(value: &[u8]) -> Option<String> {
    let value = value.get(..value.len().min(TRACE_OCTETS_MAX))?;
    let text = String::from_utf8(without_comments(value)).ok()?;
    let (tokens, date) = text.rsplit_once(';')?;
    let mut tokens = tokens.split_ascii_whitespace();
    tokens.find(|it| it.eq_ignore_ascii_case("by"))?;
    let date: Vec<&str> = date.split_ascii_whitespace().collect();
    let thin = format!("Received: by {}; {}", tokens.next()?, date.join(" "));
    let plain = thin.bytes().all(|it| it == b' ' || it.is_ascii_graphic());
    (plain && !date.is_empty() && thin.len() <= THIN_OCTETS_MAX).then_some(thin)
}

/// Where fields lie, with the lines that continue them and the end of the last.
pub(crate) fn fields(octets: &[u8]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let mut at = 0;
    core::iter::from_fn(move || {
        let start = at;
        if octets.len() == start || octets[start..].starts_with(b"\r\n") {
            return None;
        }
        loop {
            let line = octets[at..].iter().position(|it| *it == b'\n');
            at += line.map_or(octets.len() - at, |end| end + 1);
            if !matches!(octets.get(at), Some(b' ' | b'\t')) {
                return Some((start, at));
            }
        }
    })
}

/// A field's name, if it is a field.
pub(crate) fn name_of(field: &[u8]) -> Option<&[u8]> {
    let colon = field.iter().position(|it| *it == b':')?;
    Some(field[..colon].trim_ascii_end())
}

/// A value on one line.
pub(crate) fn unfolded(value: &[u8]) -> Vec<u8> {
    let octets = value.iter().take(VALUE_OCTETS_MAX);
    let octets = octets.filter(|it| !matches!(it, b'\r' | b'\n'));
    let octets: Vec<u8> = octets.copied().collect();
    octets.trim_ascii().to_vec()
}

/// What a report may have of it.
fn shown(value: &[u8]) -> String {
    let plain = |it: &u8| {
        if it.is_ascii_graphic() {
            char::from(*it)
        } else {
            ' '
        }
    };
    value.iter().map(plain).collect()
}

/// A value without what stands in round brackets.
fn without_comments(value: &[u8]) -> Vec<u8> {
    let (mut depth, mut rest) = (0_u32, Vec::new());
    for octet in value {
        match octet {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            octet if depth == 0 => rest.push(*octet),
            _ => {}
        }
    }
    rest.trim_ascii().to_vec()
}

/// The precedence of a subject such as `//WL2K P/ Fuel`, also of an answer to it.
fn marked(subject: &[u8]) -> Option<Precedence> {
    let mut rest = subject;
    let after = |rest: &[u8], word: &str| {
        let (start, end) = rest.split_at_checked(word.len())?;
        let is = start.eq_ignore_ascii_case(word.as_bytes());
        is.then(|| end.trim_ascii_start().to_vec())
    };
    let mut answered;
    while let Some(inner) = ["Re:", "Fwd:", "Fw:"]
        .into_iter()
        .find_map(|it| after(rest, it))
    {
        answered = inner;
        rest = &answered;
    }
    match after(rest, "//WL2K ")?.as_slice() {
        [letter, b'/', ..] => parse_prosign(*letter),
        _ => None,
    }
}

/// The first word of a value.
fn word(value: &[u8]) -> Option<&str> {
    let text = core::str::from_utf8(value).ok()?;
    let mut words = text.split(|it: char| it.is_ascii_whitespace() || matches!(it, '(' | ';'));
    words.find(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnelled_priority_counts_once_and_if_right() {
        for (text, value, places) in [
            ("MT-Priority: 4 (ultra)\r\n\r\n", Some(4), 1),
            ("mt-priority:\r\n\t(a (b)) -4\r\nX: y\r\n\r\n", Some(-4), 1),
            ("MT-Priority: 4\r\nMT-Priority: 4\r\n\r\n", None, 2),
            ("MT-Priority: 10\r\n\r\n", None, 1),
            ("MT-Priority: high\r\n\r\n", None, 1),
            ("\r\nMT-Priority: 4\r\n", None, 0),
        ] {
            let header = parse(text.as_bytes());
            assert_eq!(
                (header.tunnelled, header.tunnels.len()),
                (value, places),
                "{text}"
            );
        }
        let header = parse(b"A: b\r\nMT-Priority:\r\n 4\r\nC: d\r\n\r\n");
        assert_eq!(header.tunnels, [(6, 24)]);
    }

    #[test]
    fn fields_of_others_are_read() {
        let header = parse(
            b"Received: from a\r\n by b\r\nreceived : x\r\nMMHS-Primary-Precedence: 2\r\n\
              MMHS-Copy-Precedence: flash (x)\r\nX-Priority: 5 (Lowest)\r\nPriority: urgent\r\n\
              Importance: high\r\n\r\nReceived: no\r\n",
        );
        assert_eq!(header.received, 2);
        assert_eq!(header.mmhs, Some(Precedence::Flash));
        assert_eq!(header.common, Some(Precedence::Flash));
        let header = parse(b"Importance: high\r\nX-Priority: 1\r\n\r\n");
        assert_eq!(header.common, Some(Precedence::Immediate));
    }

    #[test]
    fn of_a_trace_stays_by_whom_and_when() {
        let date = "Sun, 29 Nov 2026 06:12:15 +0000";
        let long = format!(
            "from a (by b ([10.0.0.1]))\r\n\tby c.example (x; y) with ESMTPS id 1\r\n\tfor <d@e>; {date} (UTC)\r\n"
        );
        let thin = format!("Received: by c.example; {date}");
        assert_eq!(thinned(long.as_bytes()), Some(thin));
        for wrong in [
            "by c",
            "from a; date",
            "by; date",
            "by c;",
            "by c; \u{e9}",
            "",
        ] {
            assert_eq!(thinned(wrong.as_bytes()), None, "{wrong}");
        }
        let text = format!(
            "Received: by a; {date}\r\nReceived: x\r\nArc-Seal: y\r\n z\r\nDKIM-Signature: s\r\n\r\n"
        );
        let header = parse(text.as_bytes());
        assert_eq!((header.received, header.thinned.len()), (2, 1));
        let cut = header
            .traces
            .iter()
            .map(|(from, to)| &text[*from as usize..*to as usize]);
        let cut: Vec<&str> = cut.collect();
        assert_eq!(cut.len(), 2);
        assert!(cut[0].starts_with("Received: by a;") && cut[1] == "Arc-Seal: y\r\n z\r\n");
        let many = parse("Received: by a; date\r\n".repeat(100).as_bytes());
        assert_eq!((many.received, many.thinned.len()), (100, TRACES_MAX));
    }

    #[test]
    fn a_message_is_named_by_plain_lines() {
        let text = "Subject: a\r\n\tb\u{e9}\u{7}\r\nsubject: c\r\nMESSAGE-ID:<x@y>\r\nX: y\r\n\r\nDate: z\r\n";
        let naming = parse(text.as_bytes()).naming;
        assert_eq!(naming, ["Subject: a b   ", "Message-ID: <x@y>"]);
        let long = format!("Date: {}\r\n\r\n", "9".repeat(1000));
        // One of these is the space behind the colon.
        assert_eq!(parse(long.as_bytes()).naming[0].len(), 5 + VALUE_OCTETS_MAX);
    }

    #[test]
    fn a_mark_of_winlink_begins_the_subject() {
        let of = |subject: &str| parse(format!("Subject: {subject}\r\n\r\n").as_bytes()).subject;
        for (subject, precedence) in [
            ("//WL2K R/ Fuel", Some(Precedence::Routine)),
            ("//WL2K P/Fuel", Some(Precedence::Priority)),
            ("//wl2k o/ Fuel", Some(Precedence::Immediate)),
            ("//WL2K  Z/", Some(Precedence::Flash)),
            ("Re: //WL2K Z/ Fuel", Some(Precedence::Flash)),
            ("RE:Fwd: fw: //WL2K Z/ Fuel", Some(Precedence::Flash)),
            ("//WL2K Fuel", None),
            ("//WL2K Y/ Fuel", None),
            ("//WL2K Z Fuel", None),
            ("//WL2KZ/ Fuel", None),
            ("Fuel //WL2K Z/", None),
            ("Re:", None),
            ("", None),
        ] {
            assert_eq!(of(subject), precedence, "{subject}");
        }
    }

    #[test]
    fn a_header_ends_at_its_empty_line() {
        let received = |text: &[u8]| parse(text).received;
        assert_eq!(received(b"Received: a\r\n\r\nReceived: b\r\n"), 1);
        assert_eq!(received(b"Received: a\r\nRece"), 1);
        // What is no field ends it too.
        assert_eq!(parse(b"no field\r\nReceived: x\r\n\r\n").received, 0);
    }

    #[test]
    fn any_octets_are_read_to_their_end() {
        let bits = [b'\r', b'\n', b' ', b':', b'(', b'a', 0xff];
        for n in 0..7_usize.pow(5) {
            let octets: Vec<u8> = (0..5).map(|at| bits[n / 7_usize.pow(at) % 7]).collect();
            parse(&octets);
        }
    }
}
