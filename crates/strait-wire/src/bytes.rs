//! Reads of fixed width that answer `None` beyond the end, so that no parser can index too far.

/// The `N` octets at `at`.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

/// The big-endian 16-bit value at `at`.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_be_bytes)
}

/// The big-endian 32-bit value at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_be_bytes)
}

/// Overwrites octets at `at` where they exist; a write beyond the end changes nothing.
pub(crate) fn put_at<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(place) = bytes
        .get_mut(at..)
        .and_then(|rest| rest.first_chunk_mut::<N>())
    {
        *place = value;
    }
}
