//! The text of a message with attachments, as a message of its own that goes first.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::header::{Header, fields, name_of, unfolded};

/// Parts within parts that are looked into.
const DEPTH_MAX: u32 = 4;
/// A line that is longer goes on in another.
const LINE_OCTETS_MAX: usize = 900;
/// The field of the whole message that names it: no switch sends the text again.
pub const TEXT_FIRST: &str = "X-Text-First";
/// What the subject says of it.
const MARK: &str = " (text first)";
/// Fields that it has of the whole message, beside those of MMHS (RFC 6477).
const KEPT: [&str; 9] = [
    "Received",
    "From",
    "Sender",
    "Reply-To",
    "To",
    "Cc",
    "Date",
    "Auto-Submitted",
    "Importance",
];

/// The first plain text of a message of several parts, as a message named `name` that refers to the
/// whole one. Nothing if there is none, or its end isn't among these octets, or it went already.
pub fn text_first(octets: &[u8], header: &Header, name: &str) -> Option<Vec<u8>> {
    let part = text_of(octets, 0)?;
    let (mut text, mut subject) = (Vec::new(), Vec::new());
    for (start, end) in fields(octets) {
        let field = &octets[start..end];
        let of = name_of(field)?;
        let is = |known: &str| of.eq_ignore_ascii_case(known.as_bytes());
        if is(TEXT_FIRST) {
            return None;
        }
        if KEPT.into_iter().any(is) || of.to_ascii_lowercase().starts_with(b"mmhs-") {
            text.extend_from_slice(field);
        } else if is("Subject") && subject.is_empty() {
            subject.extend_from_slice(field.trim_ascii_end());
        }
    }
    if subject.is_empty() {
        subject.extend_from_slice(b"Subject:");
    }
    if subject.rsplit(|it| *it == b'\n').next()?.len() > LINE_OCTETS_MAX {
        subject.extend_from_slice(b"\r\n");
    }
    text.extend(subject);
    let whole = header.naming.iter();
    let whole = whole.filter_map(|it| it.strip_prefix("Message-ID: "));
    let whole = whole.map(|it| format!("References: {it}\r\n"));
    let whole: String = whole.collect();
    let fields = format!("{MARK}\r\nMessage-ID: <{name}>\r\n{whole}MIME-Version: 1.0\r\n");
    text.extend(fields.into_bytes());
    part.fields.iter().for_each(|it| text.extend_from_slice(it));
    text.extend_from_slice(b"\r\n");
    text.extend_from_slice(part.body);
    if !part.body.ends_with(b"\r\n") {
        text.extend_from_slice(b"\r\n");
    }
    Some(text)
}

struct Part<'a> {
    /// What its octets are.
    fields: Vec<&'a [u8]>,
    body: &'a [u8],
}

/// The first plain text of a message, or of a part, that has more than one.
fn text_of(octets: &[u8], depth: u32) -> Option<Part<'_>> {
    let (mut kind, mut kept, mut end) = (None, Vec::new(), 0);
    for (start, behind) in fields(octets) {
        let field = &octets[start..behind];
        let name = name_of(field)?;
        let value = || {
            unfolded(
                &field[field
                    .iter()
                    .position(|it| *it == b':')
                    .map_or(0, |it| it + 1)..],
            )
        };
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("Content-Type") {
            kind = Some(String::from_utf8(value()).ok()?);
            kept.push(field);
        } else if is("Content-Transfer-Encoding") {
            kept.push(field);
        } else if is("Content-Disposition") && depth > 0 {
            let attached = value().to_ascii_lowercase().starts_with(b"attachment");
            if attached {
                return None;
            }
        }
        end = behind;
    }
    let body = octets[end..].strip_prefix(b"\r\n")?;
    let kind = kind.unwrap_or_else(|| "text/plain".into());
    let is = |known: &str| {
        let start = kind.get(..known.len());
        start.is_some_and(|it| it.eq_ignore_ascii_case(known))
    };
    if is("text/plain") && depth > 0 {
        return Some(Part { fields: kept, body });
    }
    if !is("multipart/") || depth == DEPTH_MAX {
        return None;
    }
    let boundary = boundary_of(&kind)?;
    let mut parts = parts(body, boundary.as_bytes());
    parts.find_map(|part| text_of(part, depth + 1))
}

/// The parameter `boundary` of a value of Content-Type (RFC 2046 section 5.1.1).
fn boundary_of(kind: &str) -> Option<&str> {
    let mut parameters = kind.split(';').skip(1);
    let value = parameters.find_map(|it| {
        let (name, value) = it.trim().split_once('=')?;
        name.eq_ignore_ascii_case("boundary").then_some(value)
    })?;
    let value = value.trim().trim_matches('"');
    (1..=70).contains(&value.len()).then_some(value)
}

/// Parts between lines that begin by this boundary, of which the end is there.
fn parts<'a, 'b>(
    body: &'a [u8],
    boundary: &'b [u8],
) -> impl Iterator<Item = &'a [u8]> + use<'a, 'b> {
    let mut at = 0;
    let mut begun: Option<usize> = None;
    core::iter::from_fn(move || {
        while at < body.len() {
            let start = at;
            let line = body[at..].iter().position(|it| *it == b'\n');
            at += line.map_or(body.len() - at, |end| end + 1);
            let line = body[start..at].strip_prefix(b"--");
            let Some(rest) = line.and_then(|it| it.strip_prefix(boundary)) else {
                continue;
            };
            let last = match rest.trim_ascii() {
                b"" => false,
                b"--" => true,
                _ => continue,
            };
            let before = begun.take();
            if !last {
                begun = Some(at);
            }
            if let Some(from) = before {
                return Some(&body[from..start]);
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::parse;

    fn first(message: &str) -> Option<String> {
        let octets = message.replace('\n', "\r\n").into_bytes();
        let text = text_first(&octets, &parse(&octets), "text.1@a")?;
        Some(String::from_utf8(text).unwrap().replace("\r\n", "\n"))
    }

    const HEAD: &str = "Received: by x; date\nX-Mailer: m\nFrom: a@a\nTo: b@b,\n c@c\nSubject: Fuel\n\
                        Message-ID: <1@a>\nMMHS-Subject-Indicator-Codes: ABC\nMIME-Version: 1.0\n";

    #[test]
    fn a_text_is_a_message_that_refers_to_the_whole_one() {
        let nested = "Content-Type: multipart/alternative; boundary=b\n\n--b\n\
                      Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\nContent-ID: x\n\n\
                      h\u{e9}llo\n\n--b\nContent-Type: text/html\n\n<p>\n--b--\n";
        let message = format!(
            "{HEAD}Content-Type: multipart/mixed;\n boundary=\"a b\"\n\npreamble\n--a b\n{nested}\n--a b\n\
             Content-Type: image/png\n\nxxxx"
        );
        let right = "Received: by x; date\nFrom: a@a\nTo: b@b,\n c@c\nMMHS-Subject-Indicator-Codes: ABC\n\
                     Subject: Fuel (text first)\nMessage-ID: <text.1@a>\nReferences: <1@a>\nMIME-Version: 1.0\n\
                     Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\nh\u{e9}llo\n\n";
        assert_eq!(first(&message).unwrap(), right);
        let bare = "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nhello\n--b--\n";
        let right = "Subject: (text first)\nMessage-ID: <text.1@a>\nMIME-Version: 1.0\n\nhello\n";
        assert_eq!(first(bare).unwrap(), right);
        let long = format!("Subject: {}\n{bare}", "x".repeat(950));
        assert!(first(&long).unwrap().contains("xx\n (text first)\n"));
    }

    #[test]
    fn what_has_no_whole_text_goes_as_it_is() {
        for message in [
            "",
            "Subject: x\n\nhello\n",
            "Content-Type: text/plain\n\nhello\n",
            "Content-Type: multipart/mixed\n\n--b\n\nhello\n--b--\n",
            "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nhello\n",
            "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nhello\n--bc\n",
            "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Disposition: attachment\n\nx\n--b--\n",
            "Content-Type: multipart/encrypted; boundary=b\n\n--b\nContent-Type: application/pgp-encrypted\n\nx\n--b--\n",
        ] {
            assert_eq!(first(message), None, "{message}");
        }
        // As deep as it is looked into, and deeper.
        for (depth, found) in [(4, true), (5, false)] {
            let open = |n: u32| format!("Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n");
            let close = |n: u32| format!("\n--b{n}--\n");
            let opened: String = (0..depth).map(open).collect();
            let closed: String = (0..depth).rev().map(close).collect();
            let text = first(&format!("{opened}\nhello{closed}"));
            assert_eq!(text.is_some(), found, "{depth}");
        }
    }

    #[test]
    fn any_octets_are_looked_through_to_their_end() {
        let bits = [
            "--b",
            "\r\n",
            "Content-Type: multipart/x; boundary=b",
            ":",
            "-",
            "\n",
        ];
        for n in 0..6_usize.pow(5) {
            let text: String = (0..5).map(|at| bits[n / 6_usize.pow(at) % 6]).collect();
            let octets =
                format!("Content-Type: multipart/x; boundary=b\r\n\r\n{text}").into_bytes();
            text_first(&octets, &parse(&octets), "x");
        }
    }
}
