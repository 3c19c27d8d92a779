//! A next hop that is no switch: tests say its words.

use super::*;

/// A server that is no site, whose words tests say themselves.
pub(super) const SERVER: [u8; 4] = [10, 9, 0, 9];

impl World {
    /// The server takes a connection.
    pub(super) fn opens(&mut self) -> u64 {
        let stream = self.sites[0].dialled.pop().expect("a connection");
        let (src, dst) = (own_ip(0), SocketAddr::from((SERVER, 24)));
        self.open(
            0,
            (Side::Node, stream),
            None,
            (SocketAddr::new(src, 40_000), dst),
        );
        stream
    }

    /// The server says this, and what it has heard since the last time.
    pub(super) fn answers(&mut self, stream: u64, text: &str) -> String {
        self.hear(0, Side::Node, stream, StreamEvent::Data(text.as_bytes()));
        self.run();
        self.told(stream)
    }

    pub(super) fn told(&mut self, stream: u64) -> String {
        self.sites[0].told.remove(&stream).unwrap_or_default()
    }
}
