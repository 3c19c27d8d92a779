//! The little of HTTP/1.1 (RFC 9112) that a page needs, at the sizes that real requests have.

/// Octets of each request.
pub(super) const REQUEST_OCTETS: usize = 300;
/// Octets of each response's header.
pub(super) const RESPONSE_HEAD_OCTETS: usize = 200;

/// Fills a header up to `octets` with a field that nobody reads, and ends it.
fn pad(mut head: String, octets: usize) -> Vec<u8> {
    head.push_str("X-Fill: ");
    while head.len() + 4 < octets {
        head.push('x');
    }
    head.push_str("\r\n\r\n");
    head.into_bytes()
}

/// A request for object `index`; the path says how many octets it has, so that the server needs no
/// configuration.
pub(super) fn request(index: u32, octets: u64) -> Vec<u8> {
    pad(
        format!("GET /{index}/{octets} HTTP/1.1\r\nHost: page\r\n"),
        REQUEST_OCTETS,
    )
}

/// Reads a request: object and octets. `None` if it is none of ours.
pub(super) fn parse_request(bytes: &[u8]) -> Option<(u32, u64)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let path = text.strip_prefix("GET /")?.split_once(' ')?.0;
    let (index, octets) = path.split_once('/')?;
    Some((index.parse().ok()?, octets.parse().ok()?))
}

/// The header of a response with a body of `octets`.
pub(super) fn response_head(octets: u64) -> Vec<u8> {
    pad(
        format!("HTTP/1.1 200 OK\r\nContent-Length: {octets}\r\n"),
        RESPONSE_HEAD_OCTETS,
    )
}

/// Where in the page's content an object begins.
pub(super) const fn object_place(index: u32) -> u64 {
    (index as u64) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_size_and_read_back() {
        for (index, octets) in [(0, 0), (19, 4897), (u32::MAX, u64::MAX)] {
            let request = request(index, octets);
            assert_eq!(request.len(), REQUEST_OCTETS);
            assert!(request.ends_with(b"\r\n\r\n"));
            assert_eq!(parse_request(&request), Some((index, octets)));
            assert_eq!(response_head(octets).len(), RESPONSE_HEAD_OCTETS);
        }
        for wrong in [
            &b""[..],
            b"GET /",
            b"GET /1/ HTTP",
            b"GET /1 HTTP/1.1",
            b"\xff",
            b"GET /-1/2 ",
        ] {
            assert_eq!(parse_request(wrong), None);
        }
    }
}
