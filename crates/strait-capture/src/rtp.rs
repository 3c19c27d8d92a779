//! RTP streams: what RFC 3550 counts at a receiver, here at the place of the capture.

use std::collections::BTreeMap;

use strait_report::table::{Cell, Column, Table};
use strait_wire::hash::hash64;
use strait_wire::ip::Captured;
use strait_wire::rtp::{HEADER_OCTETS, RtpHeader};

use super::rows::{Flow, Key, code_point};
use super::source::Packet;

/// Streams that are followed; a busy exchange has a few thousand at a time.
const STREAMS_MAX: usize = 8192;
/// Places for what may become a stream. Two that meet push each other out, and begin again.
const CANDIDATES: usize = 8192;
/// Packets in sequence that make a stream credible: by chance it happens once in 2^32.
const IN_SEQUENCE_MIN: u32 = 3;
/// Steps of the sequence number that a loss can be (RFC 3550 appendix A.1).
const DROPOUT_MAX: i16 = 3000;
/// Sequence numbers before the highest for which arrival is remembered.
const REMEMBERED: i64 = 64;
/// Clock rates that payload types without a fixed one usually have.
const USUAL_HZ: [u32; 6] = [8000, 16_000, 32_000, 44_100, 48_000, 90_000];
/// How far a measured clock rate may be from a usual one.
const CLOCK_TOLERANCE: f64 = 0.1;

/// The clock rate of a static payload type (RFC 3551 section 6).
const fn static_clock_hz(payload_type: u8) -> Option<u32> {
    Some(match payload_type {
        0 | 3..=5 | 7..=9 | 12 | 13 | 15 | 18 => 8000,
        6 => 16_000,
        10 | 11 => 44_100,
        16 => 11_025,
        17 => 22_050,
        14 | 25 | 26 | 28 | 31..=34 => 90_000,
        _ => return None,
    })
}

/// Interarrival jitter for one clock rate.
#[derive(Clone, Copy, Debug, Default)]
struct Jitter {
    smoothed_s: f64,
    sum_s: f64,
    greatest_s: f64,
}

impl Jitter {
    fn record(&mut self, distance_s: f64) {
        self.smoothed_s += (distance_s.abs() - self.smoothed_s) / 16.0;
        self.sum_s += self.smoothed_s;
        self.greatest_s = self.greatest_s.max(self.smoothed_s);
    }
}

#[derive(Clone, Debug)]
struct Stream {
    flow: Flow,
    ssrc: u32,
    dscp: u8,
    payload_type: u8,
    packets: u64,
    octets: u64,
    in_sequence: u32,
    /// Sequence numbers widened, from where the present counting began.
    first: i64,
    highest: i64,
    /// Arrivals since counting began, without duplicates.
    unique: i64,
    /// Bit n: the number n before the highest has arrived.
    arrived: u64,
    /// Loss before counting began anew.
    lost_before: i64,
    restarts: u64,
    /// The number that would prove a restart.
    awaited: Option<u16>,
    reordered: u64,
    duplicates: u64,
    last_ns: i64,
    last_timestamp: u32,
    gap_ns_max: i64,
    /// For the clock rate: media time and time over packets in order.
    media_ticks: i64,
    media_ns: i64,
    /// One for a known clock rate, else one for each usual rate.
    jitters: [Jitter; USUAL_HZ.len()],
    jitter_packets: u64,
}

impl Stream {
    fn new(flow: Flow, dscp: u8, header: &RtpHeader) -> Self {
        let first = i64::from(header.sequence);
        Self {
            flow,
            ssrc: header.ssrc,
            dscp,
            payload_type: header.payload_type,
            packets: 0,
            octets: 0,
            in_sequence: 1,
            first,
            highest: first,
            unique: 0,
            arrived: 0,
            lost_before: 0,
            restarts: 0,
            awaited: None,
            reordered: 0,
            duplicates: 0,
            last_ns: 0,
            last_timestamp: 0,
            gap_ns_max: 0,
            media_ticks: 0,
            media_ns: 0,
            jitters: Default::default(),
            jitter_packets: 0,
        }
    }

    fn record(&mut self, time_ns: i64, octets: u32, header: &RtpHeader, clock_hz: Option<u32>) {
        if self.packets > 0 {
            self.timing(time_ns, header.timestamp, clock_hz);
        }
        self.packets += 1;
        self.octets += u64::from(octets);
        self.last_ns = time_ns;
        self.last_timestamp = header.timestamp;
        self.sequence(header.sequence);
    }

    fn timing(&mut self, time_ns: i64, timestamp: u32, clock_hz: Option<u32>) {
        let gap_ns = time_ns.saturating_sub(self.last_ns);
        let ticks = timestamp.wrapping_sub(self.last_timestamp).cast_signed();
        self.gap_ns_max = self.gap_ns_max.max(gap_ns);
        self.media_ticks = self.media_ticks.saturating_add(ticks.into());
        self.media_ns = self.media_ns.saturating_add(gap_ns);
        self.jitter_packets += 1;
        let gap_s = gap_ns as f64 / 1e9;
        let distance_s = |hz: u32| gap_s - f64::from(ticks) / f64::from(hz);
        match clock_hz {
            Some(hz) => self.jitters[0].record(distance_s(hz.max(1))),
            None => {
                for (jitter, hz) in self.jitters.iter_mut().zip(USUAL_HZ) {
                    jitter.record(distance_s(hz));
                }
            }
        }
    }

    fn sequence(&mut self, sequence: u16) {
        let step = sequence.wrapping_sub(self.highest as u16).cast_signed();
        let at = self.highest + i64::from(step);
        if self.unique == 0 {
            self.unique = 1;
            self.arrived = 1;
        } else if step > 0 && step < DROPOUT_MAX {
            self.in_sequence += u32::from(step == 1);
            self.highest = at;
            self.arrived = self.arrived.checked_shl(step as u32).unwrap_or(0) | 1;
            self.unique += 1;
        } else if step <= 0 && step > -DROPOUT_MAX {
            self.late(self.highest - at, at);
        } else if self.awaited == Some(sequence) {
            self.restart(sequence);
        } else {
            self.awaited = Some(sequence.wrapping_add(1));
            return;
        }
        self.awaited = None;
    }

    /// A number that isn't above the highest.
    fn late(&mut self, before: i64, at: i64) {
        if before < REMEMBERED {
            let bit = 1_u64 << before;
            if self.arrived & bit != 0 {
                self.duplicates += 1;
                return;
            }
            self.arrived |= bit;
        }
        self.reordered += 1;
        self.unique += 1;
        self.first = self.first.min(at);
    }

    /// The sender began anew; the packet before this one was the first of the new count.
    fn restart(&mut self, sequence: u16) {
        self.lost_before += self.lost_since_restart();
        self.restarts += 1;
        self.highest = i64::from(sequence);
        self.first = self.highest - 1;
        self.unique = 2;
        self.arrived = 3;
    }

    fn lost_since_restart(&self) -> i64 {
        (self.highest - self.first + 1 - self.unique).max(0)
    }

    const fn is_credible(&self) -> bool {
        self.in_sequence >= IN_SEQUENCE_MIN
    }

    /// The clock rate by what the stream did: the nearest usual one, if it is near.
    fn measured_clock(&self) -> Option<(usize, u32)> {
        let hz = self.media_ticks as f64 * 1e9 / self.media_ns as f64;
        let distance = |usual: u32| (hz / f64::from(usual) - 1.0).abs();
        let usual = USUAL_HZ.into_iter().enumerate();
        usual
            .min_by(|one, other| distance(one.1).total_cmp(&distance(other.1)))
            .filter(|(_, usual)| distance(*usual) < CLOCK_TOLERANCE)
    }
}

/// The RTP streams of a capture.
#[derive(Debug)]
pub(super) struct Streams {
    /// Clock rates by payload type, as the user says.
    clocks: BTreeMap<u8, u32>,
    known: BTreeMap<u64, Stream>,
    candidates: Vec<Option<(u64, Stream)>>,
    /// Streams for which there was no room.
    pub(super) without_room: u64,
}

impl Streams {
    pub(super) fn new(clocks: BTreeMap<u8, u32>) -> Self {
        Self {
            clocks,
            known: BTreeMap::new(),
            candidates: Vec::new(),
            without_room: 0,
        }
    }

    fn clock_hz(&self, payload_type: u8) -> Option<u32> {
        let told = self.clocks.get(&payload_type).copied();
        told.or_else(|| static_clock_hz(payload_type))
    }

    /// Looks whether a packet is RTP, and counts it if so.
    pub(super) fn record(&mut self, packet: &Packet<'_>) {
        let Some(header) = header(&packet.ip, packet.bytes) else {
            return;
        };
        let flow = Flow::of(&packet.ip);
        let hash = hash64(Key::Flow(flow).hash(), &header.ssrc.to_be_bytes());
        let clock_hz = self.clock_hz(header.payload_type);
        let (time_ns, octets) = (packet.time_ns, packet.ip.octets);
        if let Some(stream) = self.known.get_mut(&hash) {
            stream.record(time_ns, octets, &header, clock_hz);
            return;
        }
        if self.candidates.is_empty() {
            self.candidates.resize_with(CANDIDATES, || None);
        }
        let place = &mut self.candidates[hash as usize % CANDIDATES];
        let (_, stream) = match place {
            Some(held) if held.0 == hash => held,
            _ => place.insert((hash, Stream::new(flow, packet.ip.dscp, &header))),
        };
        stream.record(time_ns, octets, &header, clock_hz);
        if stream.is_credible()
            && let Some((hash, stream)) = place.take()
        {
            if self.known.len() < STREAMS_MAX {
                self.known.insert(hash, stream);
            } else {
                self.without_room += 1;
            }
        }
    }

    /// A row for each stream, the longest first, at most `shown`.
    pub(super) fn table(&self, shown: usize) -> Table {
        let columns = [
            ("stream", ""),
            ("ssrc", ""),
            ("dscp", ""),
            ("payload type", ""),
            ("clock", "Hz"),
            ("clock from", ""),
            ("packets", ""),
            ("lost", ""),
            ("loss", ""),
            ("reordered", ""),
            ("duplicates", ""),
            ("restarts", ""),
            ("jitter mean", "s"),
            ("jitter max", "s"),
            ("gap max", "s"),
        ];
        let columns = columns.map(|(name, unit)| Column::new(name, unit));
        let mut table = Table::new("rtp", columns.into());
        let mut streams: Vec<&Stream> = self.known.values().collect();
        streams.sort_by_key(|stream| (std::cmp::Reverse(stream.packets), stream.flow, stream.ssrc));
        for stream in streams.into_iter().take(shown) {
            table.push(self.row(stream));
        }
        table
    }

    fn row(&self, stream: &Stream) -> Vec<Cell> {
        let told = self.clocks.contains_key(&stream.payload_type);
        let (jitter, clock_hz, from) = match self.clock_hz(stream.payload_type) {
            Some(hz) => (
                Some(stream.jitters[0]),
                Some(hz),
                if told { "option" } else { "payload type" },
            ),
            None => match stream.measured_clock() {
                Some((index, hz)) => (Some(stream.jitters[index]), Some(hz), "estimate"),
                None => (None, None, "unknown"),
            },
        };
        let lost = stream.lost_before + stream.lost_since_restart();
        let unique = stream.packets.saturating_sub(stream.duplicates);
        let loss = lost as f64 / (lost as f64 + unique as f64);
        let packets = stream.jitter_packets.max(1) as f64;
        vec![
            stream.flow.to_string().into(),
            format!("{:#010x}", stream.ssrc).into(),
            code_point(stream.dscp).to_string().into(),
            f64::from(stream.payload_type).into(),
            clock_hz.map(f64::from).into(),
            from.into(),
            (stream.packets as f64).into(),
            (lost as f64).into(),
            loss.into(),
            (stream.reordered as f64).into(),
            (stream.duplicates as f64).into(),
            (stream.restarts as f64).into(),
            jitter.map(|jitter| jitter.sum_s / packets).into(),
            jitter.map(|jitter| jitter.greatest_s).into(),
            (stream.gap_ns_max as f64 / 1e9).into(),
        ]
    }
}

/// The fixed RTP header of a UDP packet that may be RTP. Only the beginning of the packet may have
/// been kept, so contributing sources, extension and padding aren't judged.
fn header(ip: &Captured, bytes: &[u8]) -> Option<RtpHeader> {
    let mut fixed = *ip.udp_payload(bytes)?.first_chunk::<HEADER_OCTETS>()?;
    fixed[0] &= 0xc0;
    // Payload types 72 … 76 are those of RTCP on the same port (RFC 5761 section 4).
    let (header, _) = RtpHeader::parse(&fixed).ok()?;
    (!(72..=76).contains(&header.payload_type)).then_some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(sequences: &[u16]) -> Stream {
        let header = |sequence: &u16| RtpHeader {
            sequence: *sequence,
            timestamp: u32::from(*sequence) * 160,
            ..RtpHeader::default()
        };
        let flow = Flow {
            protocol: 17,
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            ports: Some((1, 2)),
            spi: None,
        };
        let mut stream = Stream::new(flow, 46, &header(&sequences[0]));
        for (index, sequence) in sequences.iter().enumerate() {
            let time_ns = index as i64 * 20_000_000;
            stream.record(time_ns, 60, &header(sequence), Some(8000));
        }
        stream
    }

    fn counted(sequences: &[u16]) -> (i64, u64, u64, u64) {
        let stream = stream(sequences);
        let lost = stream.lost_before + stream.lost_since_restart();
        (lost, stream.reordered, stream.duplicates, stream.restarts)
    }

    #[test]
    fn sequences_are_judged() {
        // Lost, reordered, duplicates, restarts.
        assert_eq!(counted(&[1, 2, 3]), (0, 0, 0, 0));
        assert_eq!(counted(&[1, 2, 5]), (2, 0, 0, 0));
        assert_eq!(counted(&[1, 3, 2, 4]), (0, 1, 0, 0));
        assert_eq!(counted(&[1, 2, 2, 3, 1]), (0, 0, 2, 0));
        assert_eq!(counted(&[65_534, 65_535, 0, 2]), (1, 0, 0, 0));
        // The first to arrive wasn't the first sent.
        assert_eq!(counted(&[2, 1, 3]), (0, 1, 0, 0));
        assert_eq!(counted(&[1, 2, 40_000, 40_001, 40_003]), (1, 0, 0, 1));
        // One stray number changes nothing.
        assert_eq!(counted(&[1, 2, 40_000, 3, 4]), (0, 0, 0, 0));
        // The last number that is remembered, and one before.
        let far: Vec<u16> = [100].into_iter().chain(102..=165).chain([101]).collect();
        assert_eq!(counted(&far), (0, 1, 0, 0));
        assert_eq!(counted(&[100, 101, 164, 101, 100]), (61, 1, 1, 0));
    }

    #[test]
    fn a_stream_is_credible_after_three_in_sequence() {
        assert!(!stream(&[1, 2]).is_credible());
        assert!(!stream(&[1, 2, 4]).is_credible());
        assert!(stream(&[1, 2, 4, 5]).is_credible());
    }

    #[test]
    fn jitter_of_literal_packets() {
        // Media times 0, 20, 60, 80 ms at 0, 20, 40, 60 ms: one distance of 20 ms.
        let stream = stream(&[1, 2, 4, 5]);
        let first = 0.02 / 16.0;
        let second = first - first / 16.0;
        assert!((stream.jitters[0].greatest_s - first).abs() < 1e-12);
        assert!((stream.jitters[0].sum_s - first - second).abs() < 1e-12);
        assert_eq!(stream.gap_ns_max, 20_000_000);
    }

    #[test]
    fn the_clock_is_found_from_the_stream() {
        let plain: Vec<u16> = (0..50).collect();
        assert_eq!(stream(&plain).measured_clock(), Some((0, 8000)));
        let mut slow = stream(&plain);
        slow.media_ns *= 2;
        assert_eq!(slow.measured_clock(), None);
        slow.media_ns = 0;
        assert_eq!(slow.measured_clock(), None);
    }

    #[test]
    fn static_types_have_their_clock() {
        let known = [
            (0, 8000),
            (8, 8000),
            (10, 44_100),
            (14, 90_000),
            (34, 90_000),
        ];
        for (payload_type, hz) in known {
            assert_eq!(static_clock_hz(payload_type), Some(hz));
        }
        assert_eq!(static_clock_hz(96), None);
    }
}
