//! A message as hosts bring it to a gateway's switch, and as it lies in a mailbox.

use crate::TrafficConfig;

/// Characters of a line of the text.
const LINE: usize = 70;

/// The message of a traffic: as many octets as it says, if a subject and a line fit in these.
pub fn mail_text(config: &TrafficConfig, seed: u64, octets: u64) -> String {
    let octets = usize::try_from(octets).unwrap_or(usize::MAX);
    let mut text = subject(config) + "\r\n\r\n";
    let mut content = config.content(seed);
    let mut letters = Vec::new();
    content.append(0, octets.saturating_sub(text.len()), &mut letters);
    let letter = |octet: &u8| char::from(b'a' + octet % 26);
    let mut letters = letters.iter().map(letter);
    while octets > text.len() {
        let left = octets - text.len();
        // A line has one letter at least, and the last one leaves nothing.
        let room = match left - left.min(LINE + 2) {
            1 | 2 => LINE - 2,
            _ => left.saturating_sub(2).min(LINE),
        };
        text.extend(letters.by_ref().take(room));
        text.push_str("\r\n");
    }
    text
}

fn subject(config: &TrafficConfig) -> String {
    format!("Subject: strait traffic {}", config.name)
}

/// How many octets of a text are wrong in what lies in a mailbox, where lines end by LF; `None` if
/// that is another traffic's.
pub fn mail_wrong(config: &TrafficConfig, text: &str, delivered: &[u8]) -> Option<u64> {
    let own = subject(config);
    let mut lines = delivered.split(|octet| *octet == b'\n');
    if !lines.any(|line| line == own.as_bytes()) {
        return None;
    }
    let text = text.replace("\r\n", "\n");
    let start = delivered.len().saturating_sub(text.len());
    let missing = text.len() - (delivered.len() - start);
    let pairs = delivered[start..].iter().zip(text.as_bytes());
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
            assert!(text.ends_with("\r\n") && text.lines().all(|line| line.len() <= LINE));
            let mut lies = b"Return-Path: <>\n".to_vec();
            lies.extend(text.replace("\r\n", "\n").bytes());
            assert_eq!(mail_wrong(&config, &text, &lies), Some(0));
            lies.pop();
            assert!(mail_wrong(&config, &text, &lies).is_some_and(|it| it > 0));
        }
        assert_eq!(
            mail_wrong(&config, "", b"Subject: strait traffic x\n\n"),
            None
        );
    }
}
