//! The IP packets of a capture, and books of all that is none.

use std::io::Read;

use strait_report::table::{Cell, Column, Table};
use strait_wire::frame::{ip_packet, is_known};
use strait_wire::ip::Captured;

use super::capture::{Capture, Frame};

/// A packet as a capture has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    /// Nanoseconds since 1970 or since a run began.
    pub(super) time_ns: i64,
    pub(super) ip: Captured,
    /// What was kept, from the IP header on.
    pub(super) bytes: &'a [u8],
}

/// What a capture held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) frames: u64,
    pub(super) packets: u64,
    /// Frames of link types that aren't known here.
    unknown_link: u64,
    /// Known frames that have no IP packet.
    not_ip: u64,
    /// IP packets whose fixed header isn't there or is none.
    unreadable: u64,
    /// Frames without a time; they take that of the frame before.
    no_time: u64,
    /// Frames that are earlier than the one before.
    backwards: u64,
    /// Packets longer than any link takes: put together, or not yet cut, by a network card.
    pub(super) oversize: u64,
    /// Earliest and latest time of a packet.
    pub(super) span_ns: Option<(i64, i64)>,
}

/// Octets above which a packet can't have been on a wire: jumbo frames end at 9216.
const WIRE_OCTETS_MAX: u32 = 9216;

/// A capture that is being read.
pub struct Source<R> {
    /// Its name in tables.
    name: String,
    capture: Capture<R>,
    /// Name or number of the only interface that counts.
    interface: Option<String>,
    pub(super) counts: Counts,
    /// What ended it early.
    pub(super) broken: Option<String>,
    last_ns: i64,
    present: Option<Present>,
}

/// The packet under way.
struct Present {
    frame: Frame,
    time_ns: i64,
    ip: Captured,
    /// Octets before the IP header.
    head: usize,
}

impl<R: Read> Source<R> {
    /// A source that is called `name` in tables. With `interface`, only frames of that name or
    /// number count.
    pub fn new(name: impl Into<String>, capture: Capture<R>, interface: Option<String>) -> Self {
        Self {
            name: name.into(),
            capture,
            interface,
            counts: Counts::default(),
            broken: None,
            last_ns: 0,
            present: None,
        }
    }

    /// Goes to the next IP packet; false at the end. What can't be read ends it and is told.
    pub(super) fn advance(&mut self) -> bool {
        self.present = None;
        loop {
            let frame = match self.capture.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => return false,
                Err(error) => {
                    self.broken = Some(error.to_string());
                    return false;
                }
            };
            if !self.is_wanted(&frame) {
                continue;
            }
            self.counts.frames += 1;
            let time_ns = self.time(&frame);
            if let Some(present) = self.look_into(frame, time_ns) {
                self.present = Some(present);
                return true;
            }
        }
    }

    fn is_wanted(&self, frame: &Frame) -> bool {
        let Some(wanted) = &self.interface else {
            return true;
        };
        let interface = self.capture.interfaces().get(frame.interface as usize);
        interface.is_some_and(|interface| interface.name == *wanted)
            || frame.interface.to_string() == *wanted
    }

    fn time(&mut self, frame: &Frame) -> i64 {
        match frame.time_ns {
            Some(time_ns) => {
                let time_ns = i64::try_from(time_ns).unwrap_or(i64::MAX);
                self.counts.backwards +=
                    u64::from(time_ns < self.last_ns && self.counts.frames > 1);
                self.last_ns = time_ns;
            }
            None => self.counts.no_time += 1,
        }
        self.last_ns
    }

    fn look_into(&mut self, frame: Frame, time_ns: i64) -> Option<Present> {
        let octets = self.capture.octets(&frame);
        let Some(bytes) = ip_packet(frame.linktype, octets) else {
            if is_known(frame.linktype) {
                self.counts.not_ip += 1;
            } else {
                self.counts.unknown_link += 1;
            }
            return None;
        };
        let head = octets.len() - bytes.len();
        let original_len = frame.original_len.saturating_sub(head as u32);
        let Ok(ip) = Captured::parse(bytes, original_len) else {
            self.counts.unreadable += 1;
            return None;
        };
        self.counts.packets += 1;
        self.counts.oversize += u64::from(ip.octets > WIRE_OCTETS_MAX);
        let (first, last) = self.counts.span_ns.unwrap_or((time_ns, time_ns));
        self.counts.span_ns = Some((first.min(time_ns), last.max(time_ns)));
        Some(Present {
            frame,
            time_ns,
            ip,
            head,
        })
    }

    /// The present packet.
    pub(super) fn packet(&self) -> Option<Packet<'_>> {
        let present = self.present.as_ref()?;
        Some(Packet {
            time_ns: present.time_ns,
            ip: present.ip,
            bytes: self.capture.octets(&present.frame).get(present.head..)?,
        })
    }

    /// When the present packet was seen.
    pub(super) fn time_ns(&self) -> Option<i64> {
        self.present.as_ref().map(|present| present.time_ns)
    }

    /// Seconds between the earliest and the latest packet.
    pub(super) fn span_s(&self) -> Option<f64> {
        let (first, last) = self.counts.span_ns?;
        Some(last.saturating_sub(first) as f64 / 1e9)
    }

    /// What was in it, as a row of [`captures_table`].
    pub(super) fn row(&self) -> Vec<Cell> {
        let counts = &self.counts;
        let counted = [
            counts.frames,
            counts.packets,
            counts.not_ip,
            counts.unknown_link,
            counts.unreadable,
            counts.no_time,
            counts.backwards,
            counts.oversize,
        ];
        let mut row: Vec<Cell> = vec![self.name.as_str().into(), self.capture.format().into()];
        row.extend(counted.map(|count| Cell::from(count as f64)));
        row.push(counts.span_ns.map(|(first, _)| first as f64 / 1e9).into());
        row.push(self.span_s().into());
        row.push(match &self.broken {
            Some(why) => why.as_str().into(),
            None => "yes".into(),
        });
        row
    }
}

/// What was in each capture.
pub(super) fn captures_table(rows: impl IntoIterator<Item = Vec<Cell>>) -> Table {
    let columns = [
        ("capture", ""),
        ("format", ""),
        ("frames", ""),
        ("IP packets", ""),
        ("not IP", ""),
        ("unknown link type", ""),
        ("unreadable", ""),
        ("no time", ""),
        ("backwards", ""),
        ("oversize", ""),
        ("first", "s"),
        ("span", "s"),
        ("whole", ""),
    ];
    let columns = columns.map(|(name, unit)| Column::new(name, unit));
    let mut table = Table::new("captures", columns.into());
    rows.into_iter().for_each(|row| table.push(row));
    table
}
