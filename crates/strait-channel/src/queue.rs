//! Frames that wait before a line: what a real link's transmitter has, and what an emulator needs
//! because its applications don't ask for room.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::time::Instant;

/// A frame that waits for the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedFrame {
    /// When it came. The line can take it at this moment or when it is free, whichever is later,
    /// however late the emulator gets to it.
    pub ready: Instant,
    /// Its octets.
    pub octets: Vec<u8>,
}

/// A first-in first-out queue that drops what comes while it is full.
#[derive(Clone, Debug)]
pub struct FrameQueue {
    limit: usize,
    frames: VecDeque<QueuedFrame>,
    octets: u64,
    taken: u64,
    dropped: u64,
}

impl FrameQueue {
    /// A queue for `limit` frames; for one, if `limit` is 0.
    pub const fn new(limit: usize) -> Self {
        Self {
            limit: if limit == 0 { 1 } else { limit },
            frames: VecDeque::new(),
            octets: 0,
            taken: 0,
            dropped: 0,
        }
    }

    /// Takes a frame in that came at `now`; false if the queue was full and the frame is gone.
    pub fn push(&mut self, now: Instant, octets: Vec<u8>) -> bool {
        if self.frames.len() >= self.limit {
            self.dropped += 1;
            return false;
        }
        self.octets += octets.len() as u64;
        self.taken += 1;
        let ready = now;
        self.frames.push_back(QueuedFrame { ready, octets });
        true
    }

    /// The frame that goes next.
    pub fn front(&self) -> Option<&QueuedFrame> {
        self.frames.front()
    }

    /// Takes the frame that goes next.
    pub fn pop(&mut self) -> Option<QueuedFrame> {
        let frame = self.frames.pop_front()?;
        self.octets -= frame.octets.len() as u64;
        Some(frame)
    }

    /// Frames that wait.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Octets that wait.
    pub const fn octets(&self) -> u64 {
        self.octets
    }

    /// Frames taken in so far.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// Frames dropped so far because the queue was full.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn a_full_queue_drops_what_comes_last() {
        let mut queue = FrameQueue::new(2);
        let ms = Instant::from_millis;
        assert!(queue.push(ms(1), vec![1; 10]));
        assert!(queue.push(ms(2), vec![2; 20]));
        assert!(!queue.push(ms(3), vec![3; 30]));
        assert_eq!((queue.len(), queue.octets()), (2, 30));
        assert_eq!((queue.taken(), queue.dropped()), (2, 1));
        let first = queue.pop().unwrap();
        assert_eq!((first.ready, first.octets), (ms(1), vec![1; 10]));
        assert!(queue.push(ms(4), vec![4; 40]));
        assert_eq!(queue.front().unwrap().octets.len(), 20);
        assert_eq!(queue.octets(), 60);
    }

    #[test]
    fn an_empty_queue_gives_nothing_and_takes_one_at_least() {
        let mut queue = FrameQueue::new(0);
        assert_eq!(queue.pop(), None);
        assert!(queue.push(Instant::ZERO, Vec::new()));
        assert!(!queue.push(Instant::ZERO, Vec::new()));
        assert!(!queue.is_empty());
    }
}
