//! RFC 5681: half of the window after a loss, a segment more each round trip.

use super::Window;

pub(super) fn threshold(window: &Window) -> u32 {
    (window.segments / 2).max(Window::LEAST_THRESHOLD)
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

/// The same in octets: slow start adds a segment, also if that goes beyond the threshold. What else
/// the acknowledgement covers adds a segment's share in the window, once and in whole octets.
pub(super) fn grow_octets(acked: u32, segment: u32, window: &mut Window) {
    let below = |window: &Window| {
        (window.segments, window.part) < (window.threshold, window.threshold_part)
    };
    let mut left = acked;
    if below(window) && left > 0 {
        window.segments += 1;
        left -= 1;
    }
    if !below(window) && left > 0 {
        let segment = f64::from(segment);
        let octets = segment / (f64::from(window.segments) + window.part);
        window.part += f64::from(octets as u32) / segment;
        let whole = window.part as u32;
        window.segments += whole;
        window.part -= f64::from(whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_pass_the_threshold_and_grow_by_whole_octets() {
        let mut window = Window {
            threshold: 3,
            threshold_part: 0.5,
            ..Window::new(2)
        };
        let mut grown = |acked| {
            grow_octets(acked, 536, &mut window);
            536 * window.segments + (window.part * 536.0).round() as u32
        };
        // Below the threshold a segment, however much is acknowledged; then 536² / 2144.
        assert_eq!([grown(2), grown(1), grown(2)], [1608, 2144, 2144 + 134]);
        assert_eq!(grown(1), 2278 + 126, "126.1");
        assert_eq!(grown(0), 2404);
        // In whole segments it stops at the threshold.
        window = Window {
            threshold: 3,
            ..Window::new(2)
        };
        grow(2, &mut window);
        assert_eq!(window.segments, 3);
    }
}
