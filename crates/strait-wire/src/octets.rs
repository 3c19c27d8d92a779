//! Frames on a stream of octets: octet stuffing in the manner of RFC 1662 section 4, around frame
//! contents of our own.
//!
//! [`FLAG`] ends a frame and may begin one; within a frame, [`ESCAPE`] followed by an octet
//! exclusive-or 0x20 stands for that octet. Whoever frames appends the flags; [`stuff_into`] only
//! makes contents transparent. There is no frame check here: contents carry their own.

use alloc::vec::Vec;

/// Ends a frame, and may begin one.
pub const FLAG: u8 = 0x7e;
/// Says that the next octet stands for itself exclusive-or 0x20.
pub const ESCAPE: u8 = 0x7d;
/// Software flow control: go on.
pub const XON: u8 = 0x11;
/// Software flow control: stop.
pub const XOFF: u8 = 0x13;

/// Begins an urgent frame on a line that has such ([`crate::urgent`]).
pub const MARK: u8 = 0x7c;

const FLIP: u8 = 0x20;

/// Which octets are escaped. Both ends of a line agree on it.
///
/// By default only [`FLAG`] and [`ESCAPE`] are. A line with software flow control needs `xon_xoff`:
/// the sender escapes [`XON`] and [`XOFF`] too, and the receiver discards those that come bare,
/// since a modem has put them there (RFC 1662 section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stuffing {
    /// [`XON`] and [`XOFF`] belong to the line, not to frames.
    pub xon_xoff: bool,
    /// [`MARK`] begins an urgent frame.
    pub mark: bool,
}

impl Stuffing {
    const fn escapes(self, octet: u8) -> bool {
        matches!(octet, FLAG | ESCAPE)
            || (self.xon_xoff && matches!(octet, XON | XOFF))
            || (self.mark && octet == MARK)
    }

    /// The octet that `octet` after an escape stands for, if any sender escapes that.
    pub(crate) const fn plain(octet: u8) -> Option<u8> {
        match octet ^ FLIP {
            // A sender may escape for reasons that this end doesn't have.
            plain @ (FLAG | ESCAPE | MARK | XON | XOFF) => Some(plain),
            _ => None,
        }
    }

    /// Appends `bytes` to `out`, escaped; no flag before or after.
    pub fn stuff_into(self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|octet| self.escapes(*octet)) {
            let (plain, special) = rest.split_at(at);
            out.extend_from_slice(plain);
            out.extend_from_slice(&[ESCAPE, special[0] ^ FLIP]);
            rest = &special[1..];
        }
        out.extend_from_slice(rest);
    }

    /// How many octets [`Self::stuff_into`] appends.
    #[must_use]
    pub fn stuffed_len(self, bytes: &[u8]) -> usize {
        bytes.len() + bytes.iter().filter(|octet| self.escapes(**octet)).count()
    }
}

/// Appends `bytes` to `out` with [`FLAG`] and [`ESCAPE`] escaped; no flag before or after.
/// For lines with software flow control see [`Stuffing`].
pub fn stuff_into(bytes: &[u8], out: &mut Vec<u8>) {
    Stuffing::default().stuff_into(bytes, out);
}

/// How many octets [`stuff_into`] appends.
#[must_use]
pub fn stuffed_len(bytes: &[u8]) -> usize {
    Stuffing::default().stuffed_len(bytes)
}

/// Why a frame was given up. Up to the next flag everything is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// More contents than the receiver takes; told at the first octet too many.
    #[error("frame too long")]
    TooLong,
    /// An escape before an octet that no sender escapes; told at that octet.
    #[error("escape before an octet that needs none")]
    BadEscape,
    /// An escape right before the flag: the sender gave up (RFC 1662 section 4.3); told at the
    /// flag.
    #[error("frame aborted by its sender")]
    Abort,
}

/// A frame's contents, or what went wrong instead of one.
pub type Unstuffed<'a> = Result<&'a [u8], FrameFault>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Contents follow.
    Inside,
    /// The last octet was an escape.
    Escaped,
    /// A fault was told; the next flag ends it.
    Skipping,
}

/// Finds frames in a stream that may be cut anywhere, also between an escape and its octet.
///
/// It holds at most `max` octets. The stream may begin with or without a flag; if it begins in the
/// middle of a frame, the contents come out short and their own check must find it.
#[derive(Clone, Debug)]
pub struct Unstuffer {
    stuffing: Stuffing,
    max: usize,
    frame: Vec<u8>,
    /// The frame held has been handed out and goes with the next octet.
    told: bool,
    state: State,
}

impl Unstuffer {
    /// A receiver of frames with up to `max` octets of contents, without software flow control.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self::with_stuffing(max, Stuffing::default())
    }

    /// A receiver of frames with up to `max` octets of contents.
    #[must_use]
    pub fn with_stuffing(max: usize, stuffing: Stuffing) -> Self {
        Self {
            stuffing,
            max,
            frame: Vec::new(),
            told: false,
            state: State::Inside,
        }
    }

    /// The most octets of contents it takes.
    #[must_use]
    pub const fn max(&self) -> usize {
        self.max
    }

    /// Forgets a frame begun, as after the line was down.
    pub fn reset(&mut self) {
        self.frame.clear();
        self.told = false;
        self.state = State::Inside;
    }

    /// Gives up a frame begun, as after a piece of it went elsewhere: the next flag ends it.
    pub fn skip(&mut self) {
        self.reset();
        self.state = State::Skipping;
    }

    /// Whether a frame has begun and not ended.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        matches!(self.state, State::Escaped) || (!self.told && !self.frame.is_empty())
    }

    /// Takes one octet; answers with the frame that it ends or the fault that it shows.
    /// Flags with nothing between them are silent.
    pub fn push(&mut self, octet: u8) -> Option<Unstuffed<'_>> {
        self.forget_told();
        if octet == FLAG {
            return self.end();
        }
        if self.stuffing.xon_xoff && matches!(octet, XON | XOFF) {
            return None;
        }
        match (self.state, octet) {
            (State::Skipping, _) => None,
            (State::Inside, ESCAPE) => {
                self.state = State::Escaped;
                None
            }
            (State::Inside, _) => self.keep(octet),
            (State::Escaped, _) => {
                self.state = State::Inside;
                match Stuffing::plain(octet) {
                    Some(plain) => self.keep(plain),
                    None => self.give_up(FrameFault::BadEscape),
                }
            }
        }
    }

    /// Takes any number of octets and tells each frame and each fault in order.
    pub fn feed(&mut self, bytes: &[u8], mut tell: impl FnMut(Unstuffed<'_>)) {
        let mut rest = bytes;
        while let Some((first, after)) = rest.split_first() {
            let plain = self.plain_run(rest);
            if plain > 0 {
                self.forget_told();
                self.frame.extend_from_slice(&rest[..plain]);
                rest = &rest[plain..];
                continue;
            }
            if let Some(outcome) = self.push(*first) {
                tell(outcome);
            }
            rest = after;
        }
    }

    /// How many octets from the front can be kept as they are, without a limit or a state to mind.
    fn plain_run(&self, bytes: &[u8]) -> usize {
        if self.state != State::Inside {
            return 0;
        }
        let held = if self.told { 0 } else { self.frame.len() };
        let room = self.max.saturating_sub(held).min(bytes.len());
        let window = &bytes[..room];
        window
            .iter()
            .position(|octet| self.stuffing.escapes(*octet))
            .unwrap_or(room)
    }

    fn forget_told(&mut self) {
        if self.told {
            self.frame.clear();
            self.told = false;
        }
    }

    fn end(&mut self) -> Option<Unstuffed<'_>> {
        match core::mem::replace(&mut self.state, State::Inside) {
            State::Skipping => None,
            State::Escaped => {
                self.frame.clear();
                Some(Err(FrameFault::Abort))
            }
            State::Inside if self.frame.is_empty() => None,
            State::Inside => {
                self.told = true;
                Some(Ok(&self.frame))
            }
        }
    }

    fn keep(&mut self, octet: u8) -> Option<Unstuffed<'_>> {
        if self.frame.len() >= self.max {
            return self.give_up(FrameFault::TooLong);
        }
        self.frame.push(octet);
        None
    }

    fn give_up(&mut self, fault: FrameFault) -> Option<Unstuffed<'_>> {
        self.frame.clear();
        self.state = State::Skipping;
        Some(Err(fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    type Told = Vec<Result<Vec<u8>, FrameFault>>;

    fn by_push(unstuffer: &mut Unstuffer, bytes: &[u8]) -> Told {
        let mut told = Told::new();
        for octet in bytes {
            told.extend(unstuffer.push(*octet).map(|outcome| outcome.map(Vec::from)));
        }
        told
    }

    fn by_feed(unstuffer: &mut Unstuffer, bytes: &[u8]) -> Told {
        let mut told = Told::new();
        unstuffer.feed(bytes, |outcome| told.push(outcome.map(Vec::from)));
        told
    }

    /// Both ways in, which must agree.
    fn told(max: usize, bytes: &[u8]) -> Told {
        let pushed = by_push(&mut Unstuffer::new(max), bytes);
        assert_eq!(by_feed(&mut Unstuffer::new(max), bytes), pushed);
        pushed
    }

    #[test]
    fn only_flag_and_escape_are_escaped() {
        let mut out = vec![];
        stuff_into(&[0x7e, 0x31, 0x7d, 0x11, 0x13, 0x00], &mut out);
        assert_eq!(out, [0x7d, 0x5e, 0x31, 0x7d, 0x5d, 0x11, 0x13, 0x00]);
        assert_eq!(stuffed_len(&[0x7e, 0x31, 0x7d, 0x11, 0x13, 0x00]), 8);
    }

    #[test]
    fn flow_control_octets_are_escaped_on_request_and_bare_ones_discarded() {
        let stuffing = Stuffing {
            xon_xoff: true,
            mark: false,
        };
        let mut out = vec![];
        stuffing.stuff_into(&[0x11, 0x41, 0x13], &mut out);
        assert_eq!(out, [0x7d, 0x31, 0x41, 0x7d, 0x33]);
        assert_eq!(stuffing.stuffed_len(&[0x11, 0x41, 0x13]), 5);
        // The line puts XOFF and XON anywhere, even between an escape and its octet.
        let line = [0x7d, 0x13, 0x31, 0x11, 0x41, 0x7d, 0x33, 0x7e];
        let mut unstuffer = Unstuffer::with_stuffing(8, stuffing);
        assert_eq!(by_feed(&mut unstuffer, &line), [Ok(vec![0x11, 0x41, 0x13])]);
        // A receiver without the option understands the escapes all the same.
        assert_eq!(told(8, &[0x7d, 0x31, 0x7e]), [Ok(vec![0x11])]);
    }

    #[test]
    fn frames_come_out_and_empty_ones_are_silent() {
        let line = [0x7e, 0x7e, 1, 2, 0x7e, 0x7e, 0x7e, 3, 0x7e];
        assert_eq!(told(4, &line), [Ok(vec![1, 2]), Ok(vec![3])]);
        assert_eq!(told(4, &[1, 2]), []);
    }

    #[test]
    fn a_frame_of_the_limit_passes_and_one_octet_more_does_not() {
        assert_eq!(told(3, &[1, 2, 3, 0x7e]), [Ok(vec![1, 2, 3])]);
        assert_eq!(told(3, &[1, 2, 0x7d, 0x5e, 0x7e]), [Ok(vec![1, 2, 0x7e])]);
        let long = [1, 2, 3, 4, 5, 0x7d, 0x5e, 0x7e, 6, 0x7e];
        assert_eq!(told(3, &long), [Err(FrameFault::TooLong), Ok(vec![6])]);
        let long = [1, 2, 3, 0x7d, 0x5e, 5, 0x7e, 6, 0x7e];
        assert_eq!(told(3, &long), [Err(FrameFault::TooLong), Ok(vec![6])]);
    }

    #[test]
    fn too_long_is_told_at_the_first_octet_too_many() {
        let mut unstuffer = Unstuffer::new(2);
        assert_eq!(by_push(&mut unstuffer, &[1, 2]), []);
        assert_eq!(by_push(&mut unstuffer, &[3]), [Err(FrameFault::TooLong)]);
        assert_eq!(by_push(&mut unstuffer, &[4, 0x7e]), []);
    }

    #[test]
    fn faults_last_to_the_next_flag() {
        let line = [1, 0x7d, 0x41, 2, 0x7d, 0x7e, 3, 0x7e];
        assert_eq!(told(9, &line), [Err(FrameFault::BadEscape), Ok(vec![3])]);
        let line = [1, 0x7d, 0x7e, 3, 0x7e];
        assert_eq!(told(9, &line), [Err(FrameFault::Abort), Ok(vec![3])]);
        let line = [1, 0x7d, 0x7d, 0x7e, 3, 0x7e];
        assert_eq!(told(9, &line), [Err(FrameFault::BadEscape), Ok(vec![3])]);
    }

    #[test]
    fn reset_forgets_the_frame_begun() {
        let mut unstuffer = Unstuffer::new(9);
        assert_eq!(by_feed(&mut unstuffer, &[1, 2, 0x7d]), []);
        unstuffer.reset();
        assert_eq!(by_feed(&mut unstuffer, &[0x5e, 0x7e]), [Ok(vec![0x5e])]);
    }

    /// Octets in which the special ones are common.
    fn lively() -> impl Strategy<Value = Vec<u8>> {
        let octet = prop_oneof![
            3 => any::<u8>(),
            1 => proptest::sample::select(&[0x7e, 0x7d, 0x7c, 0x11, 0x13, 0x5e, 0x5d, 0x5c][..]),
        ];
        proptest::collection::vec(octet, 0..80)
    }

    proptest! {
        #[test]
        fn any_stream_gives_the_same_by_octet_and_in_bulk(
            bytes in lively(), cut: usize, max in 0..20_usize, xon_xoff: bool, mark: bool,
        ) {
            let fresh = Unstuffer::with_stuffing(max, Stuffing { xon_xoff, mark });
            let pushed = by_push(&mut fresh.clone(), &bytes);
            let (left, right) = bytes.split_at(cut % (bytes.len() + 1));
            let mut fed = fresh;
            let mut pieces = by_feed(&mut fed, left);
            pieces.extend(by_feed(&mut fed, right));
            prop_assert!(fed.frame.len() <= max);
            prop_assert_eq!(pieces, pushed);
        }

        #[test]
        fn contents_come_back(
            frames in proptest::collection::vec(lively(), 0..8), xon_xoff: bool, mark: bool,
            noise in lively(),
        ) {
            let stuffing = Stuffing { xon_xoff, mark };
            let mut line = vec![];
            for frame in &frames {
                let before = line.len();
                stuffing.stuff_into(frame, &mut line);
                prop_assert_eq!(line.len() - before, stuffing.stuffed_len(frame));
                prop_assert!(!line[before..].contains(&FLAG));
                line.push(FLAG);
            }
            let sent: Told = frames.into_iter().filter(|frame| !frame.is_empty()).map(Ok).collect();
            let mut unstuffer = Unstuffer::with_stuffing(80, stuffing);
            by_feed(&mut unstuffer, &noise);
            unstuffer.push(FLAG);
            prop_assert_eq!(by_feed(&mut unstuffer, &line), sent);
        }
    }
}
