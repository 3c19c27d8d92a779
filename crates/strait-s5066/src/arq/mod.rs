//! Data transfer with repeats: numbered frames, a window, selective acknowledgements (Annex C).
//!
//! Edition 3 numbers frames modulo 256 with a window of 128. With frames short enough for a bad
//! channel that is some 20 s of air at 9600 bit/s, and one lost frame keeps the window from moving.
//! Two nodes of `strait` use numbers of 16 bits instead.

mod expedited;
mod receive;
mod send;

pub(crate) use self::expedited::Expedited;
pub use self::receive::Receiver;
pub use self::send::{Done, Left, Sender};

/// How frames are numbered, and how many may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbering {
    mask: u16,
    window: u32,
}

/// Edition 3's largest window.
pub const SHORT_WINDOW_MAX: u32 = 128;

/// Of `strait`: the frames of a turn of two minutes at 240 kbit/s. An end holds at most as many
/// segments of 1023 octets.
pub const LONG_WINDOW: u32 = 4096;

impl Numbering {
    /// Edition 3's, with a window of at most [`SHORT_WINDOW_MAX`].
    #[must_use]
    pub const fn short(window: u32) -> Self {
        let window = if window > SHORT_WINDOW_MAX {
            SHORT_WINDOW_MAX
        } else if window == 0 {
            1
        } else {
            window
        };
        Self { mask: 0xff, window }
    }

    /// Of `strait`.
    #[must_use]
    pub const fn long() -> Self {
        Self {
            mask: 0xffff,
            window: LONG_WINDOW,
        }
    }

    /// Whether numbers have 16 bits.
    #[must_use]
    pub const fn is_long(self) -> bool {
        self.mask == 0xffff
    }

    /// The most frames under way.
    #[must_use]
    pub const fn window(self) -> u32 {
        self.window
    }

    /// The window that the other end may have: a receiver allows the largest.
    const fn receive_window(self) -> u32 {
        if self.is_long() {
            LONG_WINDOW
        } else {
            SHORT_WINDOW_MAX
        }
    }

    const fn add(self, number: u16, by: u32) -> u16 {
        number.wrapping_add(by as u16) & self.mask
    }

    /// How far `to` lies ahead of `from`.
    const fn ahead(self, from: u16, to: u16) -> u32 {
        (to.wrapping_sub(from) & self.mask) as u32
    }
}

/// Numbers that can't be: the ends have lost one another (the sync tests of Annex C).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("numbers outside of both windows")]
pub struct OutOfSync;

#[cfg(test)]
mod tests;
