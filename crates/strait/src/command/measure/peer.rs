//! The other host of a measurement, and when to begin.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::thread;

use anyhow::Context;
use strait_core::time::{Duration, Instant};
use strait_live::clock::monotonic;
use strait_live::signals::Stop;

/// `host`, `host:port`, `192.0.2.1`, `2001:db8::1`, `[2001:db8::1]:5211`; without a port, `port`.
pub(super) fn resolved(text: &str, port: u16) -> anyhow::Result<SocketAddr> {
    let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    if let Ok(address) = bare.unwrap_or(text).parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, port));
    }
    let found = match text.rsplit_once(':') {
        Some(_) => text.to_socket_addrs(),
        None => (text, port).to_socket_addrs(),
    };
    let mut found = found.with_context(|| format!("cannot find the host `{text}`"))?;
    let first = found.next();
    first.with_context(|| format!("the host `{text}` has no address"))
}

/// Waits for a moment of the kernel's monotonic clock, if there is one.
pub(super) fn wait_until(start: Option<Instant>, stop: &Stop) {
    let Some(start) = start else {
        return;
    };
    while monotonic() < start && !stop.is_asked() {
        // Short enough to see a request to stop.
        let left = start.since(monotonic());
        thread::sleep(left.min(Duration::from_millis(100)));
    }
}
