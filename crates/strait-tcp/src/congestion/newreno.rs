//! RFC 5681: half of the window after a loss, a segment more each round trip.

use super::Window;

pub(super) fn threshold(window: &Window) -> u32 {
    (window.segments / 2).max(2)
}

pub(super) fn grow(acked: u32, window: &mut Window) {
    let left = if window.in_slow_start() {
        window.slow_start(acked)
    } else {
        acked
    };
    if left > 0 {
        window.avoid(window.segments, left);
    }
}
