//! What the two ends of a link tell each other of themselves, in the place of a packet.
//!
//! ```text
//!   octet  0     1       2      3       4        5 … 8        9 … 12   13, 14  15 …
//!       +------+--------+------+-------+-------+-------------+--------+-------+--------+
//!       | 0xF9 | format | least| flags | cids  | incarnation | heard  | mtu   | fields |
//!       +------+--------+------+-------+-------+-------------+--------+-------+--------+
//! ```
//!
//! The first octet begins neither an IP packet nor a packet of robust header compression (RFC 5795
//! section 5.2: it is unused). Numbers are in network byte order. A field is an octet that says
//! what it is, one with its length, and that many octets; an end skips fields that it doesn't know,
//! and octets at a field's end.

use alloc::vec::Vec;

/// The first octet.
pub const MARK: u8 = 0xf9;
/// The most octets of a hello as this version sends it.
pub const OCTETS_MAX: usize = OCTETS_MAX_FORGETFUL + 2 + 1 + 8 * NUMBERS_MAX;
/// The most octets of one that says nothing of remembered flows.
pub const OCTETS_MAX_FORGETFUL: usize = HEAD_OCTETS + 4 + 10 + 6;
/// The most flows that an end remembers in one direction.
pub const NUMBERS_MAX: usize = 8;

/// The longest packets that any end takes have so many octets at least.
pub const MTU_MIN: u16 = 1280;

const HEAD_OCTETS: usize = 15;

const COMPRESSES: u8 = 0x01;
const CONFIRMED: u8 = 0x02;
const COUNTS: u8 = 0x04;
const CHECKSUMS_REBUILT: u8 = 0x40;
const FAR_TIMESTAMPS: u8 = 0x80;

const FIELD_CHECKS: u8 = 1;
const FIELD_KNOWN: u8 = 2;
const FIELD_PAYLOAD: u8 = 3;
const FIELD_REMEMBERED: u8 = 4;

const REAL_TIME_SHORT: u8 = 0x01;
const OTHERS_SHORT: u8 = 0x02;
const URGENT: u8 = 0x04;
const REPAIRS: u8 = 0x08;

/// How an end checks what it sends, and wants to have checked what it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// 16 bits are enough for real-time packets.
    pub real_time_short: bool,
    /// 16 bits are enough for other whole packets.
    pub others_short: bool,
    /// It reads and sends urgent frames.
    pub urgent: bool,
    /// It reads and sends segments with numbers, and repeats those that are lost.
    pub repairs: bool,
    /// The streams on which it sends real-time packets, the lowest bit for stream 0.
    pub real_time_streams: u8,
}

/// Flows whose headers an end knows beforehand: a number for all it knows of them, zero for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownFlows {
    /// Those that it sends.
    pub sent: u32,
    /// Those that it receives.
    pub received: u32,
}

/// Flows that an end remembers, each by a number that isn't zero; zeros behind them.
pub type Numbers = [u32; NUMBERS_MAX];

/// Flows that an end remembers from before its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Those that it sent.
    pub sent: Numbers,
    /// Those that it received.
    pub received: Numbers,
}

/// What an end of a link says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The newest format that it speaks.
    pub format: u8,
    /// The oldest one.
    pub format_least: u8,
    /// It compresses headers, and restores them.
    pub compresses: bool,
    /// It knows that the other end has heard this incarnation of it.
    pub confirmed: bool,
    /// It ends compressed packets with their number in their context, if the other end does: its
    /// medium may deliver them in another order.
    pub counts: bool,
    /// It finds timestamps behind a long silence by the transport checksum.
    pub far_timestamps: bool,
    /// It leaves right UDP checksums out, and rebuilds them, if the other end does.
    pub checksums_rebuilt: bool,
    /// The highest number of a context.
    pub cids_max: u8,
    /// Another number after each start: what it knew before is gone.
    pub incarnation: u32,
    /// The other end's incarnation that it has heard; zero if none.
    pub heard: u32,
    /// The largest packet that it takes, in octets.
    pub mtu: u16,
    /// How it checks. Without the field: nothing short, no urgent frames.
    pub checks: Checks,
    /// Flows that it knows beforehand. Without the field: none.
    pub known: KnownFlows,
    /// It compresses payloads, and restores them, behind a dictionary with this digest.
    pub payload: Option<u32>,
    /// Flows that it remembers. Without the field: it doesn't.
    pub remembered: Option<Remembered>,
}

impl Hello {
    /// Appends the hello.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[
            MARK,
            self.format,
            self.format_least,
            flag(self.compresses, COMPRESSES)
                | flag(self.confirmed, CONFIRMED)
                | flag(self.counts, COUNTS)
                | flag(self.checksums_rebuilt, CHECKSUMS_REBUILT)
                | flag(self.far_timestamps, FAR_TIMESTAMPS),
            self.cids_max,
        ]);
        out.extend_from_slice(&self.incarnation.to_be_bytes());
        out.extend_from_slice(&self.heard.to_be_bytes());
        out.extend_from_slice(&self.mtu.to_be_bytes());
        let checks = self.checks;
        let bits = flag(checks.real_time_short, REAL_TIME_SHORT)
            | flag(checks.others_short, OTHERS_SHORT)
            | flag(checks.urgent, URGENT)
            | flag(checks.repairs, REPAIRS);
        put_field(FIELD_CHECKS, &[bits, checks.real_time_streams], out);
        if self.known != KnownFlows::default() {
            let [a, b, c, d] = self.known.sent.to_be_bytes();
            let [e, f, g, h] = self.known.received.to_be_bytes();
            put_field(FIELD_KNOWN, &[a, b, c, d, e, f, g, h], out);
        }
        if let Some(digest) = self.payload {
            put_field(FIELD_PAYLOAD, &digest.to_be_bytes(), out);
        }
        if let Some(remembered) = &self.remembered {
            put_remembered(remembered, out);
        }
    }

    /// Reads a hello, which `octets` hold whole. Flags and fields that nobody knows yet have no
    /// effect. `None`: they hold none, a field goes beyond the end, or no end is like that.
    #[must_use]
    pub fn parse(octets: &[u8]) -> Option<Self> {
        let (head, mut fields) = octets.split_first_chunk::<HEAD_OCTETS>()?;
        let &[
            mark,
            format,
            format_least,
            flags,
            cids_max,
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            i,
            j,
        ] = head;
        if mark != MARK {
            return None;
        }
        let mut hello = Self {
            format,
            format_least,
            compresses: flags & COMPRESSES != 0,
            confirmed: flags & CONFIRMED != 0,
            counts: flags & COUNTS != 0,
            far_timestamps: flags & FAR_TIMESTAMPS != 0,
            checksums_rebuilt: flags & CHECKSUMS_REBUILT != 0,
            cids_max,
            incarnation: u32::from_be_bytes([a, b, c, d]),
            heard: u32::from_be_bytes([e, f, g, h]),
            mtu: u16::from_be_bytes([i, j]),
            checks: Checks::default(),
            known: KnownFlows::default(),
            payload: None,
            remembered: None,
        };
        while let [kind, length, rest @ ..] = fields {
            let (value, after) = rest.split_at_checked(usize::from(*length))?;
            hello.take_field(*kind, value);
            fields = after;
        }
        (fields.is_empty() && hello.is_possible()).then_some(hello)
    }

    /// Whether another says the same of its end, whatever that has heard.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let said = |hello: &Self| Self {
            confirmed: false,
            heard: 0,
            ..*hello
        };
        said(self) == said(other)
    }

    /// Whether an end can be as it says: each takes packets of 1280 octets (RFC 8200 section 5),
    /// and zero is nobody's incarnation.
    const fn is_possible(&self) -> bool {
        self.mtu >= MTU_MIN && self.incarnation != 0 && self.format_least <= self.format
    }

    /// Takes in a field; what is shorter than it should be says nothing.
    fn take_field(&mut self, kind: u8, value: &[u8]) {
        match (kind, value) {
            (FIELD_CHECKS, &[bits, real_time_streams, ..]) => {
                self.checks = Checks {
                    real_time_short: bits & REAL_TIME_SHORT != 0,
                    others_short: bits & OTHERS_SHORT != 0,
                    urgent: bits & URGENT != 0,
                    repairs: bits & REPAIRS != 0,
                    real_time_streams,
                };
            }
            (FIELD_KNOWN, &[a, b, c, d, e, f, g, h, ..]) => {
                self.known = KnownFlows {
                    sent: u32::from_be_bytes([a, b, c, d]),
                    received: u32::from_be_bytes([e, f, g, h]),
                };
            }
            (FIELD_PAYLOAD, &[a, b, c, d, ..]) => {
                self.payload = Some(u32::from_be_bytes([a, b, c, d]));
            }
            (FIELD_REMEMBERED, &[sent, ref numbers @ ..]) => {
                let (sent, received) = numbers
                    .split_at_checked(usize::from(sent) * 4)
                    .unwrap_or_default();
                self.remembered = Some(Remembered {
                    sent: read_numbers(sent),
                    received: read_numbers(received),
                });
            }
            _ => {}
        }
    }
}

const fn flag(set: bool, bit: u8) -> u8 {
    if set { bit } else { 0 }
}

fn put_field(kind: u8, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[kind, value.len() as u8]);
    out.extend_from_slice(value);
}

/// How many are sent, their numbers, and those of what is received.
fn put_remembered(remembered: &Remembered, out: &mut Vec<u8>) {
    let some = |numbers: &Numbers| numbers.iter().filter(|&&number| number != 0).count();
    let sent = some(&remembered.sent);
    let octets = 1 + 4 * (sent + some(&remembered.received));
    out.extend_from_slice(&[FIELD_REMEMBERED, octets as u8, sent as u8]);
    let numbers = remembered.sent.iter().chain(&remembered.received);
    for number in numbers.filter(|&&number| number != 0) {
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// The first numbers; an end may remember more than there is room for here.
fn read_numbers(octets: &[u8]) -> Numbers {
    let mut numbers = Numbers::default();
    for (number, octets) in numbers.iter_mut().zip(octets.as_chunks().0) {
        *number = u32::from_be_bytes(*octets);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HELLO: Hello = Hello {
        format: 2,
        format_least: 1,
        compresses: true,
        confirmed: false,
        counts: true,
        far_timestamps: true,
        checksums_rebuilt: false,
        cids_max: 15,
        incarnation: 0x0102_0304,
        heard: 0xa0b0_c0d0,
        mtu: 1500,
        checks: Checks {
            real_time_short: true,
            others_short: false,
            urgent: true,
            repairs: true,
            real_time_streams: 0x81,
        },
        known: KnownFlows {
            sent: 0x1122_3344,
            received: 0x5566_7788,
        },
        payload: Some(0x0a0b_0c0d),
        remembered: Some(Remembered {
            sent: [0x0102_0304, 0, 0, 0, 0, 0, 0, 0],
            received: [0x0506_0708, 0x090a_0b0c, 0, 0, 0, 0, 0, 0],
        }),
    };

    fn octets() -> Vec<u8> {
        let mut octets = Vec::new();
        HELLO.emit(&mut octets);
        octets
    }

    #[test]
    fn a_hello_literally() {
        let expected = [
            0xf9, 2, 1, 0x85, 15, 1, 2, 3, 4, 0xa0, 0xb0, 0xc0, 0xd0, 0x05, 0xdc, 1, 2, 13, 0x81,
            2, 8, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 3, 4, 10, 11, 12, 13, 4, 13, 1,
            1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
        ];
        let mut octets = octets();
        assert_eq!(octets, expected);
        assert_eq!(Hello::parse(&octets), Some(HELLO));
        octets[0] = 0xf8;
        assert_eq!(Hello::parse(&octets), None);
    }

    #[test]
    fn a_hello_cut_short_is_none_but_where_a_field_ends() {
        let octets = octets();
        let forgetful = Hello {
            remembered: None,
            ..HELLO
        };
        let without_payload = Hello {
            payload: None,
            ..forgetful
        };
        let unknowing = Hello {
            known: KnownFlows::default(),
            ..without_payload
        };
        let bare = Hello {
            checks: Checks::default(),
            ..unknowing
        };
        for left in 0..octets.len() {
            let expected = match left {
                HEAD_OCTETS => Some(bare),
                19 => Some(unknowing),
                29 => Some(without_payload),
                OCTETS_MAX_FORGETFUL => Some(forgetful),
                _ => None,
            };
            assert_eq!(Hello::parse(&octets[..left]), expected, "{left}");
        }
    }

    #[test]
    fn a_hello_has_room_for_all_that_may_be_remembered() {
        let full = Hello {
            remembered: Some(Remembered {
                sent: [u32::MAX; NUMBERS_MAX],
                received: [1; NUMBERS_MAX],
            }),
            ..HELLO
        };
        let mut octets = Vec::new();
        full.emit(&mut octets);
        assert_eq!(octets.len(), OCTETS_MAX);
        assert_eq!(Hello::parse(&octets), Some(full));
    }

    #[test]
    fn more_than_there_is_room_for_and_a_wrong_count_are_cut() {
        let read = |field: &[u8]| {
            let bare = Hello {
                remembered: None,
                ..HELLO
            };
            let mut octets = Vec::new();
            bare.emit(&mut octets);
            put_field(FIELD_REMEMBERED, field, &mut octets);
            Hello::parse(&octets).and_then(|hello| hello.remembered)
        };
        let many = [&[9][..], &[7; 9 * 4], &[8; 4]].concat();
        let eight = Remembered {
            sent: [0x0707_0707; 8],
            received: [0x0808_0808, 0, 0, 0, 0, 0, 0, 0],
        };
        assert_eq!(read(&many), Some(eight));
        // Two are announced, and one is there.
        assert_eq!(read(&[2, 1, 2, 3, 4]), Some(Remembered::default()));
        assert_eq!(read(&[0]), Some(Remembered::default()));
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn what_no_end_can_be_like_is_no_hello() {
        let read = |hello: Hello| {
            let mut octets = Vec::new();
            hello.emit(&mut octets);
            Hello::parse(&octets)
        };
        for mtu in [0, 68, 1279] {
            assert_eq!(read(Hello { mtu, ..HELLO }), None);
        }
        let narrow = Hello { mtu: 1280, ..HELLO };
        assert_eq!(read(narrow), Some(narrow));
        let nobody = Hello {
            incarnation: 0,
            ..HELLO
        };
        let backward = Hello {
            format_least: 3,
            ..HELLO
        };
        assert_eq!([read(nobody), read(backward)], [None, None]);
    }

    #[test]
    fn what_an_end_says_of_itself_is_not_what_it_heard() {
        let later = Hello {
            confirmed: true,
            heard: 1,
            ..HELLO
        };
        let other = Hello { mtu: 1400, ..HELLO };
        assert!(HELLO.is_like(&later) && !HELLO.is_like(&other));
    }

    #[test]
    fn flags_and_fields_that_nobody_knows_have_no_effect() {
        let mut octets = octets();
        octets[3] |= 0x38;
        // One without contents, one with, and one octet more in a known one.
        octets.extend_from_slice(&[0, 0, 200, 3, 9, 9, 9]);
        octets.splice(15..19, [1, 3, 0xfd, 0x81, 0xff]);
        assert_eq!(Hello::parse(&octets), Some(HELLO));
        octets.extend_from_slice(&[7, 1]);
        assert_eq!(Hello::parse(&octets), None);
    }

    proptest! {
        #[test]
        fn any_octets_are_judged(fields: Vec<u8>) {
            let _ = Hello::parse(&fields);
            let _ = Hello::parse(&[&octets()[..], &fields].concat());
        }
    }
}
