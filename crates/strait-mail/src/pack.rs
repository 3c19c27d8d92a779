//! Texts in fewer octets between switches of ours, piece by piece.
//!
//! A piece is folded first: lines of base64 become the octets they say, where these make exactly
//! the same lines again. What that gives is compressed (Zstandard) behind a dictionary and behind
//! what was folded before, by whoever does a node's work. What doesn't get shorter goes as it is.
//!
//! Folded, a text is a row of pairs: a length and as many octets as they are; then, unless the row
//! ends there, a length, the groups of a line, and as many octets as lines of base64 are made of.
//! Lengths have seven bits an octet, the least first, and a set bit for each that follows.

use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What both ends have to know: how pieces are folded, and the dictionary.
pub const VERSION: &str = "1";
/// Octets of a text that are packed at a time.
pub const PIECE_OCTETS_MAX: usize = 64 * 1024;
/// Octets of a piece that is folded: at worst, a length more.
pub const FOLDED_OCTETS_MAX: usize = PIECE_OCTETS_MAX + 16;
/// Octets of what was folded before that count.
const BEFORE_OCTETS: usize = 32 * 1024;
/// Octets of lines of base64 that are worth their lengths.
const LINES_OCTETS_MIN: usize = 64;
/// Characters of a group of base64, and groups of a line: a line of SMTP has 998 at most.
const GROUP: usize = 4;
const GROUPS_MAX: usize = 249;
/// What each frame of Zstandard begins with (RFC 8878 section 3.1.1), which isn't sent.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What was folded before, at either end of a connection, and of one message.
#[derive(Clone, Debug, Default)]
pub struct Before(Vec<u8>);

impl Before {
    /// Takes what was folded now.
    pub fn take(&mut self, folded: &[u8]) {
        self.0.extend_from_slice(folded);
        let old = self.0.len().saturating_sub(BEFORE_OCTETS);
        self.0.drain(..old);
    }

    /// What a piece is compressed behind.
    pub fn behind(&self, dictionary: &[u8]) -> Vec<u8> {
        [dictionary, &self.0].concat()
    }
}

/// What goes of a frame that was made of a piece of so many octets; `None` if the piece goes as it
/// is, because that is hardly longer.
pub fn sent(frame: &[u8], octets: usize) -> Option<&[u8]> {
    let rest = frame.strip_prefix(&MAGIC)?;
    (rest.len() + octets / 16 < octets).then_some(rest)
}

/// The frame of which that was sent.
pub fn frame(sent: &[u8]) -> Vec<u8> {
    [&MAGIC, sent].concat()
}

/// A text, folded.
pub fn fold(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 16);
    let (mut plain, mut at) = (0, 0);
    while at < text.len() {
        let Some((groups, end, octets)) = lines_of_base64(&text[at..]) else {
            at += line(&text[at..]).map_or(text.len() - at, |it| it.len() + 2);
            continue;
        };
        write_number(at - plain, &mut out);
        out.extend_from_slice(&text[plain..at]);
        write_number(octets.len(), &mut out);
        out.push(groups);
        out.extend_from_slice(&octets);
        at += end;
        plain = at;
    }
    write_number(text.len() - plain, &mut out);
    out.extend_from_slice(&text[plain..]);
    out
}

/// The text of which that was folded, of so many octets at most; `None` if it is no such thing.
pub fn unfold(mut folded: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        let length = read_number(&mut folded)?;
        let plain = take(&mut folded, length)?;
        text.extend_from_slice(plain);
        if folded.is_empty() {
            return (text.len() <= most).then_some(text);
        }
        let length = read_number(&mut folded)?;
        let groups = *take(&mut folded, 1)?.first()?;
        let octets = take(&mut folded, length)?;
        if octets.is_empty() || !(1..=GROUPS_MAX).contains(&usize::from(groups)) {
            return None;
        }
        // Six octets for three at most, so this is bounded by what came.
        make_lines(octets, groups, &mut text);
        if text.len() > most {
            return None;
        }
    }
}

/// A line, if its end is there.
fn line(text: &[u8]) -> Option<&[u8]> {
    let end = text.iter().position(|it| *it == b'\n')?;
    text[..end].strip_suffix(b"\r")
}

/// The lines of base64 that a text begins with: groups of a line, octets of the text, and what they
/// say, if they are worth it and are what that makes again.
fn lines_of_base64(text: &[u8]) -> Option<(u8, usize, Vec<u8>)> {
    let width = line(text).filter(|it| is_base64(it))?.len();
    let groups = u8::try_from(width / GROUP).ok()?;
    let mut letters = Vec::new();
    let mut end = 0;
    while let Some(line) = line(&text[end..]).filter(|it| it.len() <= width && is_base64(it)) {
        letters.extend_from_slice(line);
        end += line.len() + 2;
        // A shorter line is the last, and so is one that is filled up.
        if line.len() < width || line.ends_with(b"=") {
            break;
        }
    }
    if end < LINES_OCTETS_MIN {
        return None;
    }
    // Nothing else is taken than what is made of these octets.
    let octets = STANDARD.decode(&letters).ok()?;
    Some((groups, end, octets))
}

fn is_base64(line: &[u8]) -> bool {
    let letters = line.strip_suffix(b"==").or_else(|| line.strip_suffix(b"="));
    let letter = |it: &u8| it.is_ascii_alphanumeric() || matches!(it, b'+' | b'/');
    let fits = (1..=GROUPS_MAX).contains(&(line.len() / GROUP)) && line.len().is_multiple_of(GROUP);
    fits && letters.unwrap_or(line).iter().all(letter)
}

fn make_lines(octets: &[u8], groups: u8, text: &mut Vec<u8>) {
    for line in octets.chunks(3 * usize::from(groups)) {
        text.extend_from_slice(STANDARD.encode(line).as_bytes());
        text.extend_from_slice(b"\r\n");
    }
}

fn write_number(mut number: usize, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn read_number(octets: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    // Three have more than any piece.
    for at in 0..3 {
        let (octet, rest) = octets.split_first()?;
        *octets = rest;
        number |= usize::from(octet & 0x7f) << (7 * at);
        if *octet < 0x80 {
            return Some(number);
        }
    }
    None
}

fn take<'a>(octets: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = octets.split_at_checked(length)?;
    *octets = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn attachment(octets: usize, groups: u8, end: &str) -> Vec<u8> {
        let content: Vec<u8> = (0..octets).map(|at| ((at * at) >> 3) as u8).collect();
        let mut text = b"Content-Transfer-Encoding: base64\r\n\r\n".to_vec();
        make_lines(&content, groups, &mut text);
        text.extend_from_slice(end.as_bytes());
        text
    }

    #[test]
    fn lines_of_base64_are_folded_and_come_back_as_they_were() {
        for octets in [57, 58, 59, 1000, 3000] {
            let text = attachment(octets, 19, "--end--\r\n");
            let folded = fold(&text);
            assert!(
                folded.len() <= 37 + octets + 9 + 8,
                "{octets}: {}",
                folded.len()
            );
            assert_eq!(unfold(&folded, text.len()), Some(text));
        }
    }

    #[test]
    fn what_would_not_come_back_is_left_as_it_is() {
        let texts = [
            &b""[..],
            b"a",
            b"\r\n\r\n",
            b"no end",
            b"AAAA\r\n",
            // The last group isn't what its octets make: two letters say eight bits, and four more.
            &[b"AAAA".repeat(19), b"\r\nAB==\r\n".to_vec()].concat(),
            // Lines that end by LF alone, and none that is whole.
            &b"AAAA".repeat(40),
            &[b"AAAA".repeat(19), b"\n".to_vec()].concat().repeat(3),
        ];
        for text in texts {
            let folded = fold(text);
            assert!(folded.len() <= text.len() + 3);
            assert_eq!(unfold(&folded, text.len()).as_deref(), Some(text));
        }
    }

    #[test]
    fn any_octets_unfold_within_their_limit_or_not_at_all() {
        let text = attachment(1000, 1, "x");
        let folded = fold(&text);
        assert_eq!(unfold(&folded, text.len() - 1), None);
        for end in 0..folded.len() {
            let cut = unfold(&folded[..end], text.len());
            assert!(cut.is_none_or(|it| it.len() <= text.len()));
        }
        for (wrong, why) in [
            (vec![], "nothing"),
            (vec![5, 1], "too few"),
            (vec![0, 3, 0, 1, 2, 3, 0], "no groups"),
            (vec![0, 3, 250, 1, 2, 3, 0], "too many groups"),
            (vec![0x80, 0x80, 0x80, 0], "a long number"),
        ] {
            assert_eq!(unfold(&wrong, 1000), None, "{why}");
        }
    }

    #[test]
    fn a_frame_that_is_hardly_shorter_is_not_sent() {
        let frame = [&MAGIC[..], &[7; 93]].concat();
        assert_eq!(sent(&frame, 100), Some(&[7; 93][..]));
        assert_eq!(sent(&frame, 99), None);
        assert_eq!(sent(b"no frame", 100), None);
        assert_eq!(super::frame(&[7; 93]), frame);
    }

    #[test]
    fn what_was_before_counts_for_its_last_octets_alone() {
        let mut before = Before::default();
        before.take(&[1; 10]);
        before.take(&[2; BEFORE_OCTETS - 1]);
        let behind = before.behind(b"words");
        assert_eq!(behind.len(), 5 + BEFORE_OCTETS);
        assert_eq!(behind[..7], *b"words\x01\x02");
    }
}
