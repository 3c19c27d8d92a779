//! Reports of what became of a message (RFC 3464), for whoever sent it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::date::date;
use crate::message::{Message, Recipient};

/// What a report tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It won't arrive.
    Failed,
    /// It lies in its mailbox.
    Delivered,
    /// It went on to somebody who doesn't report.
    Relayed,
    /// It went on, which is to be told.
    Traced,
    /// It is late, and goes on.
    Delayed,
}

impl Action {
    const fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Delivered => "delivered",
            Self::Relayed | Self::Traced => "relayed",
            Self::Delayed => "delayed",
        }
    }

    /// Whether a recipient's sender wants to hear it.
    pub fn is_wanted(self, recipient: &Recipient) -> bool {
        match self {
            Self::Failed => recipient.notify.failure(),
            Self::Delivered | Self::Relayed => recipient.notify.success(),
            Self::Traced => !recipient.notify.never(),
            Self::Delayed => recipient.notify.delay(),
        }
    }
}

/// What became of one recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Who.
    pub recipient: Recipient,
    /// The enhanced code.
    pub status: String,
    /// What a next hop replied, code and all; or why, in words of our own.
    pub text: String,
    /// Which next hop it was tried with.
    pub remote: Option<IpAddr>,
}

/// A report of a message by the switch `name`, with a number and at a time of its own: the message
/// and its text. It has the precedence of what it is about (RFC 6710 section 4.3), and no sender,
/// so that nobody reports about it.
pub fn report(
    name: &str,
    id: u64,
    now_s: u64,
    action: Action,
    about: &Message,
    told: &[Told],
) -> (Message, Vec<u8>) {
    let word = action.word();
    let now = date(now_s);
    let boundary = format!("strait-report-{id}-{now_s}");
    let mut text = format!(
        "From: Mail switch <postmaster@{name}>\r\nTo: <{}>\r\nDate: {now}\r\n\
         Message-ID: <report.{id}.{now_s}@{name}>\r\nSubject: Mail {word}\r\n\
         Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=delivery-status; boundary=\"{boundary}\"\r\n\r\n\
         --{boundary}\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\n\
         Your message of precedence {}: {word}\r\n",
        about.sender,
        about.precedence().name(),
    );
    for one in told {
        text.push_str(&format!(
            "  <{}>: {}\r\n",
            one.recipient.address,
            plain(&one.text)
        ));
    }
    text.push_str(&format!(
        "\r\n--{boundary}\r\nContent-Type: message/delivery-status\r\n\r\n"
    ));
    if let Some(envid) = &about.envid {
        let envid = plain(&decoded(envid));
        text.push_str(&format!("Original-Envelope-Id: {envid}\r\n"));
    }
    text.push_str(&format!("Reporting-MTA: dns; {name}\r\n"));
    if about.accepted_s > 0 {
        text.push_str(&format!("Arrival-Date: {}\r\n", date(about.accepted_s)));
    }
    for one in told {
        text.push_str("\r\n");
        let orcpt = one.recipient.orcpt.iter();
        for (kind, address) in orcpt.filter_map(|it| it.split_once(';')) {
            let address = plain(&decoded(address));
            text.push_str(&format!("Original-Recipient: {kind}; {address}\r\n"));
        }
        text.push_str(&format!(
            "Final-Recipient: rfc822; {}\r\nAction: {word}\r\nStatus: {}\r\n",
            one.recipient.address, one.status,
        ));
        let replied = one.text.starts_with(|it: char| it.is_ascii_digit());
        // RFC 3461 section 6.3 (h) and (i): both, of whoever replied.
        if let Some(remote) = one.remote.filter(|_| replied) {
            text.push_str(&format!("Remote-MTA: dns; {}\r\n", literal(remote)));
        }
        if replied {
            text.push_str(&format!("Diagnostic-Code: smtp; {}\r\n", plain(&one.text)));
        }
    }
    if !about.naming.is_empty() {
        text.push_str(&format!(
            "\r\n--{boundary}\r\nContent-Type: text/rfc822-headers\r\n\r\n"
        ));
        for field in &about.naming {
            text.push_str(&format!("{field}\r\n"));
        }
    }
    text.push_str(&format!("\r\n--{boundary}--\r\n"));
    let message = Message {
        accepted_s: now_s,
        wire: about.wire,
        said: about.said,
        octets: text.len() as u64,
        recipients: alloc::vec![Recipient {
            address: about.sender.clone(),
            ..Recipient::default()
        }],
        ..Message::default()
    };
    (message, text.into_bytes())
}

/// ENVID's and ORCPT's text (RFC 3461 section 4) as it was meant.
fn decoded(xtext: &str) -> String {
    let mut parts = xtext.split('+');
    let mut octets = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        octets.extend(u8::from_str_radix(code, 16).ok());
        octets.extend(rest.as_bytes());
    }
    String::from_utf8_lossy(&octets).into_owned()
}

/// An address in the place of a host's name (RFC 5321 section 4.1.3).
fn literal(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("[{address}]"),
        IpAddr::V6(address) => format!("[IPv6:{address}]"),
    }
}

/// Text that fits in a field.
fn plain(text: &str) -> String {
    let plain = |it: char| if it.is_ascii_graphic() { it } else { ' ' };
    text.chars()
        .take(400)
        .map(plain)
        .collect::<String>()
        .trim()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Notify;

    #[test]
    fn a_report_names_who_and_why_at_the_messages_precedence() {
        let about = Message {
            wire: 4,
            sender: "a@a.example".into(),
            envid: Some("QQ+2B314159+0D+0AX:+20y".into()),
            accepted_s: 951_782_400,
            naming: alloc::vec!["Subject: Fuel".into()],
            ..Message::default()
        };
        let told = Told {
            recipient: Recipient {
                address: "b@b.example".into(),
                notify: Notify::UNSAID,
                orcpt: Some("rfc822;B+2Bb+3D1@x".into()),
                at: None,
            },
            status: "5.1.1".into(),
            text: "550 5.1.1 nobody\u{e9}\r\nX: y".into(),
            remote: Some([10, 9, 0, 2].into()),
        };
        let (message, text) = report("s.example", 9, 951_782_401, Action::Failed, &about, &[told]);
        let text = String::from_utf8(text).unwrap();
        assert_eq!((message.wire, message.sender.as_str()), (4, ""));
        assert_eq!(message.recipients[0].address, "a@a.example");
        assert_eq!(message.octets, text.len() as u64);
        for line in [
            "Original-Envelope-Id: QQ+314159  X: y",
            "Reporting-MTA: dns; s.example",
            "Arrival-Date: Tue, 29 Feb 2000 00:00:00 +0000",
            "Original-Recipient: rfc822; B+b=1@x",
            "Final-Recipient: rfc822; b@b.example",
            "Action: failed",
            "Status: 5.1.1",
            "Remote-MTA: dns; [10.9.0.2]",
            "Diagnostic-Code: smtp; 550 5.1.1 nobody   X: y",
            "Content-Type: text/rfc822-headers",
            "Subject: Fuel",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        assert!(!text.replace("\r\n", "").contains(['\r', '\n']));
    }

    /// What nobody replied is no diagnosis (RFC 3461 section 6.3).
    #[test]
    fn words_of_our_own_are_no_reply() {
        let told = Told {
            recipient: Recipient::default(),
            status: "5.4.7".into(),
            text: "too late".into(),
            remote: Some("fd00::1".parse().unwrap()),
        };
        let about = Message::default();
        let (_, text) = report("s.example", 9, 951_782_401, Action::Failed, &about, &[told]);
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("<>: too late\r\n"), "{text}");
        assert!(
            !text.contains("Diagnostic-Code")
                && !text.contains("Remote-MTA")
                && !text.contains("rfc822-headers"),
            "{text}"
        );
    }
}
