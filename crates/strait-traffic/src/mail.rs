//! A message as hosts bring it to a gateway's switch, and as it lies in a mailbox.

use crate::TrafficConfig;

/// Characters of a line of the text (RFC 2045 section 6.8).
const LINE: usize = 76;
/// What the text is of: an attachment is lines of base64.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The message of a traffic: as many octets as it says, if a subject and a line fit in these.
pub fn mail_text(config: &TrafficConfig, seed: u64, octets: u64) -> Vec<u8> {
    let octets = usize::try_from(octets).unwrap_or(usize::MAX);
    let mut text = (subject(config) + "\r\n\r\n").into_bytes();
    let mut content = Vec::new();
    let left = octets.saturating_sub(text.len());
    config.content(seed).append(0, left, &mut content);
    if config.is_binary_mail() {
        text.append(&mut content);
        return text;
    }
    let letter = |octet: &u8| LETTERS[usize::from(octet % 64)];
    let mut letters = content.iter().map(letter);
    while octets > text.len() {
        let left = octets - text.len();
        // A line has one letter at least, and the last one leaves nothing.
        let room = match left - left.min(LINE + 2) {
            1 | 2 => LINE - 2,
            _ => left.saturating_sub(2).min(LINE),
        };
        text.extend(letters.by_ref().take(room));
        text.extend(b"\r\n");
    }
    text
}

fn subject(config: &TrafficConfig) -> String {
    format!("Subject: strait traffic {}", config.name)
}

/// How many octets of a text are wrong in what lies in a mailbox, where lines end by LF unless the
/// text is no lines; `None` if that is another traffic's.
pub fn mail_wrong(config: &TrafficConfig, text: &[u8], delivered: &[u8]) -> Option<u64> {
    let own = subject(config);
    let mut lines = delivered.split(|octet| *octet == b'\n');
    if !lines.any(|line| line.trim_ascii_end() == own.as_bytes()) {
        return None;
    }
    let binary = config.is_binary_mail();
    let kept = text.iter().filter(|octet| binary || **octet != b'\r');
    let text: Vec<u8> = kept.copied().collect();
    let start = delivered.len().saturating_sub(text.len());
    let missing = text.len() - (delivered.len() - start);
    let pairs = delivered[start..].iter().zip(&text);
    let wrong = pairs.filter(|(one, other)| one != other).count();
    Some((wrong + missing) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, TrafficKeys};

    #[test]
    fn a_message_is_as_long_as_it_says_and_found_again() {
        let mut keys = TrafficKeys::plain("flash", Kind::Mail);
        keys.octets = Some(strait_core::units::Octets(1000));
        let config = TrafficConfig::try_from(keys).unwrap();
        for octets in 40..400 {
            let text = mail_text(&config, 1, octets);
            assert_eq!(text.len() as u64, octets);
            let lines = std::str::from_utf8(&text).unwrap();
            assert!(lines.ends_with("\r\n") && lines.lines().all(|line| line.len() <= LINE));
            let mut lies = b"Return-Path: <>\n".to_vec();
            lies.extend(lines.replace("\r\n", "\n").bytes());
            assert_eq!(mail_wrong(&config, &text, &lies), Some(0));
            lies.pop();
            assert!(mail_wrong(&config, &text, &lies).is_some_and(|it| it > 0));
        }
        assert_eq!(
            mail_wrong(&config, b"", b"Subject: strait traffic x\n\n"),
            None
        );
    }

    #[test]
    fn random_octets_lie_there_as_they_are() {
        let mut keys = TrafficKeys::plain("scan", Kind::Mail);
        (keys.octets, keys.text) = (Some(strait_core::units::Octets(1000)), Some(false));
        let config = TrafficConfig::try_from(keys).unwrap();
        let text = mail_text(&config, 1, 1000);
        assert!(text.len() == 1000 && text.contains(&0));
        let lies = [b"Return-Path: <>\r\n", &text[..]].concat();
        assert_eq!(mail_wrong(&config, &text, &lies), Some(0));
        assert!(mail_wrong(&config, &text, &lies[..900]).is_some_and(|it| it > 0));
    }
}
