//! A message as it is stored: its envelope. Its text lies beside it, as it came.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::net::IpAddr;

use strait_core::hash::RunHash;

use crate::command::{Body, DeliverBy, Notify, is_address};
use crate::header::thinned;
use crate::precedence::{Precedence, parse_wire};
use crate::text::TEXT_FIRST;

/// The first line of a stored envelope.
const FORM: &str = "strait-mail 1";

/// A message and what is to be done with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// A number that no other message has, be it of an earlier start: its file has it in its name.
    pub token: u64,
    /// Seconds since 1970-01-01 when it was taken; 0 if nobody knew.
    pub accepted_s: u64,
    /// The value of MT-PRIORITY that it goes on with.
    pub wire: i8,
    /// That value was said by somebody before us, and is to be passed on to those who don't know
    /// the parameter (RFC 6758 section 5).
    pub said: bool,
    /// What its octets may be.
    pub body: Body,
    /// Octets of its text.
    pub octets: u64,
    /// Some of it may have been sent: it has been begun, or was stored by an earlier start.
    pub begun: bool,
    /// Nothing is done with it before an operator lets it go.
    pub held: bool,
    /// The next hop by which an operator has it go.
    pub via: Option<IpAddr>,
    /// The return path; empty for a report.
    pub sender: String,
    /// RET, if it was said.
    pub headers_only: Option<bool>,
    /// ENVID, if it was said.
    pub envid: Option<String>,
    /// By when it is to be there, counted from when it was taken.
    pub by: Option<DeliverBy>,
    /// Its sender knows that it is late.
    pub late: bool,
    /// The field `Received` that it goes on with, without the line's end; nothing for our own.
    pub trace: String,
    /// The Message-ID of its text, if that went first.
    pub text: String,
    /// Where fields `MT-Priority` lie in its text.
    pub tunnels: Vec<(u32, u32)>,
    /// Where fields that tell of its way lie in its text, if some next hop isn't told of these.
    pub traces: Vec<(u32, u32)>,
    /// What is left of them, a line each.
    pub thinned: Vec<String>,
    /// The next hops that are told no more.
    pub thin_for: Vec<IpAddr>,
    /// Fields by which its sender knows it again, a line each.
    pub naming: Vec<String>,
    /// Whoever hasn't got it yet.
    pub recipients: Vec<Recipient>,
}

/// One who is to get a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipient {
    /// The address.
    pub address: String,
    /// When the sender is told.
    pub notify: Notify,
    /// ORCPT, if it was said.
    pub orcpt: Option<String>,
    /// The next hop of several that may have it.
    pub at: Option<IpAddr>,
}

impl Message {
    /// The precedence that its value counts as.
    pub const fn precedence(&self) -> Precedence {
        Precedence::of_wire(self.wire)
    }

    /// As it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = format!(
            "{FORM}\ntoken {}\naccepted {}\n",
            self.token, self.accepted_s
        );
        let mut line = |key: &str, value: &str| {
            // Writing to a string doesn't fail.
            let _ = writeln!(text, "{key} {value}");
        };
        let flags = [
            ("said", self.said),
            ("held", self.held),
            ("late", self.late),
        ];
        for (key, set) in flags {
            if set {
                line(key, "yes");
            }
        }
        line("body", self.body.name());
        line("wire", &self.wire.to_string());
        line("octets", &self.octets.to_string());
        let via = self.via.iter();
        via.for_each(|it| line("via", &it.to_string()));
        line("from", &self.sender);
        if let Some(headers_only) = self.headers_only {
            line("ret", if headers_only { "HDRS" } else { "FULL" });
        }
        self.envid.iter().for_each(|it| line("envid", it));
        self.by.iter().for_each(|it| line("by", &it.text()));
        line("trace", &self.trace);
        if !self.text.is_empty() {
            line("text", &self.text);
        }
        for (key, places) in [("tunnel", &self.tunnels), ("cut", &self.traces)] {
            let places = places.iter();
            places.for_each(|(start, end)| line(key, &format!("{start} {end}")));
        }
        self.thinned.iter().for_each(|it| line("thinned", it));
        let thin_for = self.thin_for.iter();
        thin_for.for_each(|it| line("thin", &it.to_string()));
        self.naming.iter().for_each(|it| line("naming", it));
        for recipient in &self.recipients {
            let orcpt = recipient.orcpt.as_deref().unwrap_or_default();
            let notify = recipient.notify.text();
            line("to", &format!("{notify} {orcpt} {}", recipient.address));
            let at = recipient.at.iter();
            at.for_each(|it| line("at", &it.to_string()));
        }
        text.into_bytes()
    }

    /// Reads what [`Self::encode`] wrote. `None` if it is something else.
    pub fn decode(octets: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(octets).ok()?;
        let mut lines = text.strip_suffix('\n')?.split('\n');
        if lines.next() != Some(FORM) {
            return None;
        }
        let mut message = Self {
            begun: true,
            ..Self::default()
        };
        for line in lines {
            let (key, value) = line.split_once(' ')?;
            match key {
                "token" => message.token = value.parse().ok()?,
                "accepted" => message.accepted_s = value.parse().ok()?,
                "wire" => message.wire = parse_wire(value.as_bytes())?,
                "said" => message.said = true,
                // As earlier versions have it.
                "eight-bit" => message.body = Body::EightBit,
                "body" => message.body = Body::named(value)?,
                "held" => message.held = true,
                "late" => message.late = true,
                "by" => message.by = Some(DeliverBy::parse(value)?),
                "octets" => message.octets = value.parse().ok()?,
                "from" => message.sender = value.into(),
                "ret" => message.headers_only = Some(value == "HDRS"),
                "envid" => message.envid = Some(value.into()),
                "trace" => message.trace = value.into(),
                "text" => message.text = value.into(),
                "tunnel" => message.tunnels.push(place(value)?),
                "cut" => message.traces.push(place(value)?),
                "thinned" => message.thinned.push(value.into()),
                "thin" => message.thin_for.push(value.parse().ok()?),
                "naming" => message.naming.push(value.into()),
                "via" => message.via = Some(value.parse().ok()?),
                "to" => message.recipients.push(recipient(value)?),
                "at" => message.recipients.last_mut()?.at = Some(value.parse().ok()?),
                _ => return None,
            }
        }
        Some(message)
    }

    /// Whether a next hop is told no more of its way than by whom it was taken, and when.
    pub fn is_thin_for(&self, hop: Option<IpAddr>) -> bool {
        hop.is_some_and(|hop| self.thin_for.contains(&hop))
    }

    /// What of its text isn't sent, in order: fields `MT-Priority`, and those that tell of its way.
    pub fn cuts(&self, tunnel: bool, thin: bool) -> Cuts {
        let tunnels = if tunnel { &self.tunnels[..] } else { &[] };
        let traces = if thin { &self.traces[..] } else { &[] };
        let mut all = [tunnels, traces].concat();
        all.sort_unstable();
        Cuts(all)
    }

    /// What goes before its text: the trace, the name of a text that went first, and for those who
    /// don't know MT-PRIORITY the value.
    pub fn prefix(&self, tunnel: bool, thin: bool) -> Vec<u8> {
        let mut text = String::new();
        if !self.trace.is_empty() {
            let value = self.trace.strip_prefix("Received:").filter(|_| thin);
            let own = value.and_then(|it| thinned(it.as_bytes()));
            text.push_str(own.as_ref().unwrap_or(&self.trace));
            text.push_str("\r\n");
        }
        for line in self.thinned.iter().filter(|_| thin) {
            text.push_str(line);
            text.push_str("\r\n");
        }
        if !self.text.is_empty() {
            text.push_str(&format!("{TEXT_FIRST}: {}\r\n", self.text));
        }
        if tunnel && (self.said || !self.tunnels.is_empty()) {
            text.push_str(&format!("MT-Priority: {}\r\n", self.wire));
        }
        text.into_bytes()
    }

    /// What another switch of ours knows it by, sent to these. One that is for others is another.
    pub fn known_by(&self, recipients: &[Recipient]) -> u64 {
        let mut hash = RunHash::default();
        hash.fold(self.token);
        let addresses = recipients.iter().map(|it| it.address.as_bytes());
        addresses.for_each(|it| hash.fold_bytes(it));
        hash.value()
    }
}

/// Places in a text that aren't sent, in order: each from its first octet to the one behind its
/// last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts(Vec<(u32, u32)>);

impl Cuts {
    fn each(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let all = self.0.iter();
        all.map(|(start, end)| (u64::from(*start), u64::from(*end)))
    }

    /// What is sent of a piece of the text from `offset` on.
    pub fn without(&self, offset: u64, octets: &[u8]) -> Vec<u8> {
        let (mut kept, mut at) = (Vec::new(), 0);
        for (start, end) in self.each() {
            let place = |it: u64| (it.saturating_sub(offset) as usize).min(octets.len());
            kept.extend_from_slice(&octets[at..place(start).max(at)]);
            at = place(end).max(at);
        }
        kept.extend_from_slice(&octets[at..]);
        kept
    }

    /// Where in the text it goes on when so many octets of it have been sent.
    pub fn behind(&self, sent: u64) -> u64 {
        let cut = |at: u64, (start, end): (u64, u64)| {
            if start <= at { at + (end - start) } else { at }
        };
        self.each().fold(sent, cut)
    }

    /// Octets of all.
    pub fn octets(&self) -> u64 {
        self.each().map(|(start, end)| end - start).sum()
    }
}

fn place(value: &str) -> Option<(u32, u32)> {
    let (start, end) = value.split_once(' ')?;
    let place: (u32, u32) = (start.parse().ok()?, end.parse().ok()?);
    (place.0 <= place.1).then_some(place)
}

fn recipient(value: &str) -> Option<Recipient> {
    let (notify, rest) = value.split_once(' ')?;
    let (orcpt, address) = rest.split_once(' ')?;
    let notify = match notify {
        "" => Notify::UNSAID,
        words => Notify::parse(words)?,
    };
    is_address(address).then(|| Recipient {
        address: address.into(),
        notify,
        orcpt: (!orcpt.is_empty()).then(|| orcpt.into()),
        at: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn message() -> Message {
        Message {
            token: u64::MAX,
            accepted_s: 1_795_737_600,
            wire: 3,
            said: true,
            body: Body::Binary,
            octets: 1000,
            begun: true,
            held: true,
            via: Some([10, 9, 0, 2].into()),
            sender: "a@a.example".into(),
            headers_only: Some(true),
            envid: Some("QQ".into()),
            by: DeliverBy::parse("-5;NT"),
            late: true,
            trace: "Received: from a by b; date".into(),
            text: "<text.1@b>".into(),
            tunnels: vec![(6, 24)],
            traces: vec![(0, 6), (30, 40)],
            thinned: vec!["Received: by c; date".into()],
            thin_for: vec![[10, 9, 0, 2].into(), [10, 9, 0, 3].into()],
            naming: vec!["Subject: a  b ".into(), "Date: ".into()],
            recipients: vec![
                Recipient {
                    address: "\"b c\"@b.example".into(),
                    notify: Notify::parse("SUCCESS,DELAY").unwrap(),
                    orcpt: Some("rfc822;b@x".into()),
                    at: Some([10, 8, 0, 2].into()),
                },
                Recipient {
                    address: "d@b.example".into(),
                    ..Recipient::default()
                },
            ],
        }
    }

    #[test]
    fn what_is_stored_reads_back() {
        let least = Message {
            begun: true,
            ..Message::default()
        };
        for message in [message(), least] {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
    }

    #[test]
    fn anything_else_is_no_envelope() {
        let right = message().encode();
        for end in 0..right.len() {
            let cut = Message::decode(&right[..end]);
            assert_ne!(cut, Some(message()), "{end}");
        }
        for wrong in [
            "",
            "strait-mail 2\n",
            "strait-mail 1\nfax 1\n",
            "strait-mail 1\nto  x\n",
            "strait-mail 1\nat 10.9.0.2\n",
        ] {
            assert_eq!(Message::decode(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn values_travel_in_the_header_where_the_parameter_is_unknown() {
        let text = b"A: b\r\nMT-Priority:\r\n 4\r\nC: d\r\n\r\n";
        let message = message();
        assert_eq!(message.precedence(), Precedence::Flash);
        let prefix = message.prefix(true, false);
        let own = "Received: from a by b; date\r\nX-Text-First: <text.1@b>\r\n";
        assert_eq!(message.prefix(false, false), own.as_bytes());
        assert_eq!(prefix, format!("{own}MT-Priority: 3\r\n").into_bytes());
        let cuts = message.cuts(true, false);
        assert_eq!(cuts.without(0, text), b"A: b\r\nC: d\r\n\r\n");
        assert_eq!(cuts.without(20, &text[20..]), b"C: d\r\n\r\n");
        assert_eq!(cuts.octets(), 18);
        // Who said nothing has no header from us.
        assert!(Message::default().prefix(true, false).is_empty());
    }

    /// Wherever a piece begins and ends, and wherever a message goes on.
    #[test]
    fn what_is_cut_is_in_no_piece() {
        let text: Vec<u8> = (0..60).collect();
        let message = message();
        let cuts = message.cuts(true, true);
        let whole = cuts.without(0, &text);
        let kept = |it: &u8| !matches!(it, 0..24 | 30..40);
        let right: Vec<u8> = text.iter().copied().filter(kept).collect();
        assert_eq!((&whole, cuts.octets()), (&right, 34));
        for from in 0..=60 {
            for to in from..=60 {
                let piece = cuts.without(from as u64, &text[from..to]);
                let right = text[from..to].iter().copied().filter(kept);
                assert_eq!(piece, right.collect::<Vec<u8>>());
            }
        }
        for sent in 0..whole.len() {
            let at = cuts.behind(sent as u64) as usize;
            assert_eq!(cuts.without(at as u64, &text[at..]), whole[sent..]);
        }
        assert_eq!(cuts.behind(whole.len() as u64), 60);
        let prefix = "Received: by b; date\r\nReceived: by c; date\r\nX-Text-First: <text.1@b>\r\n";
        assert_eq!(message.prefix(false, true), prefix.as_bytes());
    }
}
