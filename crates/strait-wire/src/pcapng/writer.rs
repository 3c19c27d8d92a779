//! Writing blocks.

use super::{BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE_DESCRIPTION, SECTION_HEADER, option};
use alloc::vec::Vec;

/// Time resolution of our interfaces: 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// Appends a section header: everything up to the next one belongs together. `application` names
/// the program that writes.
pub fn section(out: &mut Vec<u8>, application: &str) {
    block(out, SECTION_HEADER, |out| {
        out.extend_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
        out.extend_from_slice(&[1, 0, 0, 0]); // version 1.0
        out.extend_from_slice(&u64::MAX.to_le_bytes()); // length not told, the file grows
        text_option(out, option::USER_APPLICATION, application);
        end_of_options(out);
    });
}

/// Appends an interface; the first of a section has number 0. `linktype` as in
/// [`linktype`](super::linktype); `snaplen` is the most octets kept of a packet, 0 for no limit.
pub fn interface(out: &mut Vec<u8>, linktype: u16, snaplen: u32, name: &str) {
    block(out, INTERFACE_DESCRIPTION, |out| {
        out.extend_from_slice(&linktype.to_le_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&snaplen.to_le_bytes());
        text_option(out, option::IF_NAME, name);
        raw_option(out, option::IF_TSRESOL, &[NANOSECONDS]);
        end_of_options(out);
    });
}

/// Appends a packet seen on interface number `interface` at `time_ns`, nanoseconds since 1970 or
/// since a run began. `bytes` is what was kept of `original_len` octets.
pub fn packet(
    out: &mut Vec<u8>,
    interface: u32,
    time_ns: u64,
    bytes: &[u8],
    original_len: u32,
    comment: Option<&str>,
) {
    block(out, ENHANCED_PACKET, |out| {
        out.extend_from_slice(&interface.to_le_bytes());
        out.extend_from_slice(&((time_ns >> 32) as u32).to_le_bytes());
        out.extend_from_slice(&(time_ns as u32).to_le_bytes());
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&original_len.to_le_bytes());
        padded(out, bytes);
        if let Some(comment) = comment {
            text_option(out, option::COMMENT, comment);
            end_of_options(out);
        }
    });
}

/// A block: type, length, `body`, length again.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - start + 4) as u32;
    crate::bytes::put_at(out, start + 4, length.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
}

fn padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    let padding = bytes.len().next_multiple_of(4) - bytes.len();
    out.extend_from_slice(&[0; 3][..padding]);
}

fn raw_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    padded(out, value);
}

/// A text longer than an option can be is cut, between characters.
fn text_option(out: &mut Vec<u8>, code: u16, text: &str) {
    let text = &text[..text.floor_char_boundary(usize::from(u16::MAX))];
    raw_option(out, code, text.as_bytes());
}

fn end_of_options(out: &mut Vec<u8>) {
    raw_option(out, option::END, &[]);
}
