//! What came at an end and waits for the line.

use std::collections::VecDeque;

use strait_channel::{FrameQueue, LinkConfig, LinkKind, Side};
use strait_core::time::Instant;

/// Octets that wait before a serial line: as many as a UART's driver takes from its program
/// before it makes it wait.
const OCTETS_MAX: usize = 4096;

/// What waits for one direction of the line.
#[derive(Debug)]
pub(super) struct Flow {
    waiting: Waiting,
    /// The line has no room before this.
    not_before: Instant,
    frame_octets_max: usize,
    too_long: u64,
}

#[derive(Debug)]
enum Waiting {
    /// Octets, with the moment at which they came.
    Octets {
        chunks: VecDeque<(Instant, VecDeque<u8>)>,
        octets: usize,
    },
    Frames(FrameQueue),
}

impl Flow {
    pub(super) fn new(link: &LinkConfig, from: Side) -> Self {
        let way = link.direction(from);
        let frame_octets_max = way.frame_octets_max;
        Self {
            waiting: match link.kind {
                LinkKind::Serial(_) => Waiting::Octets {
                    chunks: VecDeque::new(),
                    octets: 0,
                },
                LinkKind::Frames | LinkKind::Hf(_) | LinkKind::Cell(_) => {
                    Waiting::Frames(FrameQueue::new(link.queue_frames(from)))
                }
            },
            not_before: Instant::ZERO,
            frame_octets_max: frame_octets_max.unwrap_or(LinkConfig::FRAME_OCTETS_MAX) as usize,
            too_long: 0,
        }
    }

    /// Octets that may be read now: a serial line makes its program wait, a queue for frames takes
    /// them all and drops what it has no place for.
    pub(super) fn room_octets(&self) -> usize {
        match &self.waiting {
            Waiting::Octets { octets, .. } => OCTETS_MAX - *octets,
            Waiting::Frames(_) => usize::MAX,
        }
    }

    /// Takes what came at `now`; false for a frame that finds no place.
    pub(super) fn push(&mut self, now: Instant, came: &[u8]) -> bool {
        match &mut self.waiting {
            Waiting::Octets { chunks, octets } => {
                chunks.push_back((now, came.iter().copied().collect()));
                *octets += came.len();
                true
            }
            Waiting::Frames(_) if came.len() > self.frame_octets_max => {
                self.too_long += 1;
                false
            }
            Waiting::Frames(queue) => queue.push(now, came.to_vec()),
        }
    }

    /// When what goes next could begin to leave, as far as known.
    pub(super) fn begins(&self) -> Option<Instant> {
        let ready = match &self.waiting {
            Waiting::Octets { chunks, .. } => chunks.front()?.0,
            Waiting::Frames(queue) => queue.front()?.ready,
        };
        Some(ready.max(self.not_before))
    }

    /// The line has no room before `at`.
    pub(super) fn not_before(&mut self, at: Instant) {
        self.not_before = self.not_before.max(at);
    }

    /// Takes what leaves at `at`: octets that were there by then, or a frame.
    pub(super) fn take(&mut self, at: Instant, octets_max: usize) -> Vec<u8> {
        let (chunks, held) = match &mut self.waiting {
            Waiting::Octets { chunks, octets } => (chunks, octets),
            Waiting::Frames(queue) => {
                return queue.pop().map_or_else(Vec::new, |frame| frame.octets);
            }
        };
        let mut taken = Vec::new();
        while let Some((_, chunk)) = chunks.front_mut().filter(|chunk| chunk.0 <= at) {
            let count = chunk.len().min(octets_max - taken.len());
            taken.extend(chunk.drain(..count));
            if !chunk.is_empty() {
                break;
            }
            chunks.pop_front();
        }
        *held -= taken.len();
        taken
    }

    /// Frames dropped because the queue was full.
    pub(super) const fn dropped(&self) -> u64 {
        match &self.waiting {
            Waiting::Octets { .. } => 0,
            Waiting::Frames(queue) => queue.dropped(),
        }
    }

    /// Frames dropped because the medium takes none so long.
    pub(super) const fn too_long(&self) -> u64 {
        self.too_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::time::Duration;

    const fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn octets_leave_when_they_were_there_and_the_line_is_free() {
        let mut flow = Flow::new(&LinkConfig::serial(9600), Side::A);
        assert_eq!(flow.begins(), None);
        flow.push(ms(1), b"abc");
        flow.push(ms(5), b"de");
        assert_eq!(flow.begins(), Some(ms(1)));
        assert_eq!(flow.take(ms(1), 2), b"ab");
        flow.not_before(ms(3));
        assert_eq!(flow.begins(), Some(ms(3)));
        assert_eq!(flow.take(ms(3), 2), b"c");
        flow.not_before(ms(4));
        assert_eq!(flow.begins(), Some(ms(5)));
        assert_eq!(flow.take(ms(5), 2), b"de");
        assert_eq!((flow.begins(), flow.room_octets()), (None, OCTETS_MAX));
    }

    #[test]
    fn a_serial_line_makes_its_program_wait() {
        let mut flow = Flow::new(&LinkConfig::serial(9600), Side::A);
        flow.push(ms(1), &[0; OCTETS_MAX]);
        assert_eq!(flow.room_octets(), 0);
        assert_eq!(flow.take(ms(1), 1).len(), 1);
        assert_eq!(flow.room_octets(), 1);
    }

    #[test]
    fn frames_that_find_no_place_or_are_too_long_are_counted() {
        let mut link = LinkConfig::frames(9600, Duration::ZERO);
        (link.queue, link.frame_octets_max) = (Some(1), Some(10));
        let mut flow = Flow::new(&link, Side::B);
        flow.push(ms(1), &[0; 11]);
        assert_eq!((flow.begins(), flow.too_long()), (None, 1));
        flow.push(ms(2), &[1; 10]);
        flow.push(ms(3), &[2; 10]);
        assert_eq!(flow.dropped(), 1);
        assert_eq!(flow.take(ms(4), 10), [1; 10]);
    }
}
