//! The formats of the RTP profile (RFC 3095 section 5.7).

use alloc::vec::Vec;

use super::Cid;
use super::chain::mode_bits;
use super::encode::{Encoder, Needs, Stamp, put_uo0};
use super::fields::Fields;
use super::numbers::{Bits, Number, SDVL_WIDTHS, low_mask, put_sdvl, sdvl_width};

impl Encoder {
    /// The shortest format that says what `needs` asks for. `false`, and nothing is appended, if
    /// none does.
    pub(super) fn put_rtp(
        &mut self,
        needs: Needs,
        header: &[u8],
        cid: Cid,
        out: &mut Vec<u8>,
    ) -> bool {
        let fields = self.known.fields;
        let sequence = fields.sequence;
        let marker = u8::from(fields.marker);
        let counts = self.known.counts_ids();
        let (width, kind) = if counts { (5, 0x20) } else { (6, 0) };
        if needs.extension_3() {
            return self.put_rtp_long(needs, width, header, cid, out);
        }
        let follows = matches!(needs.timestamp, Stamp::Follows(_));
        let offset = u32::from(needs.id_offset);
        let stamp_fits = |k| match needs.timestamp {
            Stamp::Follows(scaled) | Stamp::Scaled(scaled) => {
                self.scaled_fits(scaled, k).then_some(scaled)
            }
            Stamp::Plain => None,
        };
        let id_by_five = counts && follows && self.id_fits(needs.id_offset, 5);
        let short = self.sequence_fits(4);
        let tail = (sequence << 3) as u8 & 0x78;
        if short && follows && needs.id_same && !fields.marker {
            put_uo0(sequence, self.sums.crc3(header, needs.spans), cid, out);
            return true;
        }
        if short && id_by_five && !fields.marker {
            cid.put(0x80 | (offset & 0x1f) as u8, out);
            out.push(tail | self.sums.crc3(header, needs.spans));
            return true;
        }
        let found = |k| match needs.timestamp {
            Stamp::Scaled(scaled) if needs.far_timestamps => {
                self.scaled_found(scaled, k).then_some(scaled)
            }
            _ => None,
        };
        if short
            && needs.id_same
            && let Some(scaled) = stamp_fits(width).or_else(|| found(width))
        {
            cid.put(0x80 | kind | (scaled & low_mask(width)) as u8, out);
            out.push(marker << 7 | tail | self.sums.crc3(header, needs.spans));
            return true;
        }
        let second = marker << 6 | (sequence & 0x3f) as u8;
        if self.sequence_fits(6) {
            if id_by_five {
                cid.put(0xc0 | (offset & 0x1f) as u8, out);
                out.extend_from_slice(&[second, self.sums.crc7(header, needs.spans)]);
                return true;
            }
            if needs.id_same
                && let Some(scaled) = stamp_fits(width)
            {
                put_uor2_ts(Bits::new(scaled, width), second, cid, out);
                out.push(self.sums.crc7(header, needs.spans));
                return true;
            }
        }
        if self.sequence_fits(9)
            && needs.id_same
            && let Some(scaled) = stamp_fits(width + 3)
        {
            // Extension 0: three more bits of each.
            let second = marker << 6 | (sequence >> 3 & 0x3f) as u8;
            put_uor2_ts(Bits::new(scaled >> 3, width), second, cid, out);
            out.push(0x80 | self.sums.crc7(header, needs.spans));
            out.push((sequence << 3) as u8 & 0x38 | scaled as u8 & 7);
            return true;
        }
        self.put_rtp_long(needs, width, header, cid, out)
    }

    /// UOR-2 or UOR-2-TS with extension 3.
    fn put_rtp_long(
        &mut self,
        needs: Needs,
        width: u8,
        header: &[u8],
        cid: Cid,
        out: &mut Vec<u8>,
    ) -> bool {
        let Fields {
            sequence,
            timestamp,
            marker,
            padding,
            extension,
            payload_type,
            ..
        } = self.known.fields;
        if !self.sequence_fits(14) {
            return false;
        }
        let more_sequence = !self.sequence_fits(6);
        let widths = SDVL_WIDTHS.map(|sdvl| width + sdvl);
        let (value, scaled, total) = match needs.timestamp {
            Stamp::Follows(value) | Stamp::Scaled(value) => {
                let fits = |&k: &u8| self.scaled_fits(value, k);
                let widths = core::iter::once(width).chain(widths);
                (value, true, widths.into_iter().find(fits))
            }
            Stamp::Plain => {
                let fits = |&k: &u8| {
                    self.window
                        .all(|sent| Number::Timestamp.fits(sent.timestamp, timestamp, k))
                };
                (timestamp, false, widths.into_iter().find(fits))
            }
        };
        let Some(total) = total else {
            return false;
        };
        let sdvl = total - width;
        let stride = (!scaled)
            .then(|| sdvl_width(self.known.stride))
            .flatten()
            .filter(|_| self.known.stride != 0);
        let above = if more_sequence {
            sequence >> 8
        } else {
            sequence
        };
        let second = u8::from(marker) << 6 | (above & 0x3f) as u8;
        let base = if sdvl >= 32 { 0 } else { value >> sdvl };
        put_uor2_ts(Bits::new(base, width), second, cid, out);
        out.push(0x80 | self.sums.crc7(header, needs.spans));
        let rtp = stride.is_some() || needs.rtp;
        out.push(
            0xc0 | u8::from(more_sequence) << 5
                | u8::from(sdvl > 0) << 4
                | u8::from(scaled) << 3
                | u8::from(!needs.id_same) << 2
                | u8::from(needs.ip.is_some()) << 1
                | u8::from(rtp),
        );
        out.extend(needs.ip.map(|ip| ip.flags));
        if more_sequence {
            out.push(sequence as u8);
        }
        if sdvl > 0 {
            put_sdvl(value, sdvl, out);
        }
        if let Some(ip) = needs.ip {
            ip.put_fields(out);
        }
        if !needs.id_same {
            out.extend_from_slice(&needs.id_offset.to_be_bytes());
        }
        if rtp {
            // What says that there is no padding isn't a flag, but that the type's octet lacks
            // (RFC 4815 section 6.4).
            let kind = padding || needs.rtp;
            out.push(
                mode_bits(self.known.optimistic) << 6
                    | u8::from(kind) << 5
                    | u8::from(marker) << 4
                    | u8::from(extension) << 3
                    | u8::from(stride.is_some()) << 1,
            );
            if kind {
                out.push(u8::from(padding) << 7 | payload_type);
            }
        }
        if let Some(stride_width) = stride {
            put_sdvl(self.known.stride, stride_width, out);
            self.stride_left = self.stride_left.saturating_sub(1);
        }
        true
    }
}

/// The first two octets of UOR-2 with six bits of the timestamp, or of UOR-2-TS with five
/// (section 5.7.4).
fn put_uor2_ts(timestamp: Bits, second: u8, cid: Cid, out: &mut Vec<u8>) {
    let value = timestamp.value as u8;
    if timestamp.width == 6 {
        cid.put(0xc0 | value >> 1, out);
        out.push(value << 7 | second);
    } else {
        cid.put(0xc0 | value, out);
        out.push(0x80 | second);
    }
}
