//! MGEN: messages, scripts, logs, captures.

use std::collections::BTreeMap;

use strait_core::{Duration, Instant};
use strait_traffic::mgen::{Action, Line, Player, Script, read_capture};
use strait_wire::mgen::{Message, piece_octets};

/// Messages: what is read can be written again, and then reads the same.
pub fn message(data: &[u8]) {
    if let Ok(Some(octets)) = piece_octets(data)
        && let Some(piece) = data.get(..octets)
    {
        let _ = Message::parse(piece);
    }
    let Ok(message) = Message::parse(data) else {
        return;
    };
    let mut out = Vec::new();
    if message.emit(data.len(), &mut out).is_ok() {
        let again = Message::parse(&out).expect("a written message");
        assert_eq!(
            (again.flow, again.sequence),
            (message.flow, message.sequence)
        );
        assert_eq!((again.sent, again.dst), (message.sent, message.dst));
    }
}

/// Scripts: an error with a place that is there, or one that can be played.
pub fn script(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let script = match Script::parse(text) {
        Ok(script) => script,
        Err(error) => {
            assert!(error.line >= 1 && error.line as usize <= text.lines().count().max(1));
            assert!(error.column >= 1 && !error.message.is_empty());
            return;
        }
    };
    let mut player = Player::new(&script, BTreeMap::new(), Instant::ZERO, 1, "fuzz");
    let end = Instant::ZERO + Duration::from_secs(100);
    for _ in 0..2000 {
        match player.poll(end) {
            Some(Action::Send { flow, due, .. }) => {
                assert!(due <= end && player.flow(flow).is_some());
            }
            Some(_) => {}
            None => break,
        }
    }
}

/// Logs: a line that is read is written so that it reads the same.
pub fn log(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    for line in text.lines() {
        if let Ok(Some(read)) = Line::parse(line) {
            let written = read.to_string();
            let again = Line::parse(&written)
                .expect("a written line")
                .expect("no comment");
            assert_eq!(again.to_string(), written);
        }
    }
}

/// Captures.
pub fn capture(data: &[u8]) {
    if let Ok(messages) = read_capture(data) {
        assert!(!messages.is_empty() && messages.len() <= data.len());
    }
}
