//! A direction of a stream in fewer octets: DEFLATE (RFC 1951) with all that it had before, behind
//! a dictionary of what streams begin with.
//!
//! It goes in pieces: a number of seven bits an octet, as a session's, which is twice the octets
//! that follow, and one more if these are compressed; then the octets. A flush of DEFLATE ends with
//! four octets that are always the same, and aren't sent. What doesn't get shorter goes as it is,
//! and so does what comes behind it for a while: its length is told before it is there, and the
//! direction's end may cut it off.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress, create_comp_flags_from_zip_params,
};
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

use crate::codec::{self, Malformed, NUMBER_OCTETS_MAX};

/// The compressor's effort, of 10.
const LEVEL: i32 = 9;
/// DEFLATE without a header, as zlib counts its windows.
const RAW_WINDOW: i32 = -15;
/// What a flush ends with: an empty block.
const FLUSH: &[u8] = &[0, 0, 0xff, 0xff];
/// Fewer octets tell nothing of what comes behind them, and hardly any get fewer.
const TELLING_OCTETS: usize = 256;
const TRIED_OCTETS: usize = 8;
/// How many octets go as they are behind such that didn't get fewer: at first, and in the end.
const RUN_OCTETS: u64 = 4096;
const RUN_OCTETS_MAX: u64 = 64 * 1024;

/// What both sides know before a stream begins.
pub struct Dictionary {
    compressor: Box<CompressorOxide>,
    inflater: Box<InflateState>,
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dictionary")
    }
}

impl Dictionary {
    /// That of these octets, of which the last 32 KiB count.
    pub fn new(octets: &[u8]) -> Self {
        let flags = create_comp_flags_from_zip_params(LEVEL, RAW_WINDOW, 0);
        let mut compressor = Box::new(CompressorOxide::new(flags));
        let mut packed = vec![0; octets.len() + octets.len() / 8 + 64];
        let (_, _, length) = compress(&mut compressor, octets, &mut packed, TDEFLFlush::Sync);
        let mut inflater = InflateState::new_boxed(DataFormat::Raw);
        let mut known = vec![0; octets.len() + 1];
        let mut from = 0;
        while from < length {
            let done = inflate(
                &mut inflater,
                &packed[from..length],
                &mut known,
                MZFlush::None,
            );
            from += done.bytes_consumed;
            if done.bytes_consumed == 0 && done.bytes_written == 0 {
                break;
            }
        }
        // What it still has to tell of it.
        while inflate(&mut inflater, &[], &mut known, MZFlush::None).bytes_written > 0 {}
        Self {
            compressor,
            inflater,
        }
    }
}

/// The side that sends a direction.
#[derive(Default)]
pub struct Packer {
    history: Option<Box<CompressorOxide>>,
    /// Octets that go as they are, as it was told, and how many the next time.
    run_left: u64,
    run: u64,
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run_left, run, .. } = self;
        write!(f, "Packer {run_left} of {run}")
    }
}

impl Packer {
    /// Whether it remembers what it had, which takes some 300 KiB.
    pub const fn has_history(&self) -> bool {
        self.history.is_some()
    }

    /// Nothing more comes.
    pub fn forget(&mut self) {
        self.history = None;
    }

    /// What goes for these octets, which may be compressed if there is a dictionary.
    pub fn pack(&mut self, dictionary: Option<&Dictionary>, mut octets: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(octets.len() + NUMBER_OCTETS_MAX);
        while !octets.is_empty() {
            if self.run_left > 0 {
                let most = usize::try_from(self.run_left).unwrap_or(usize::MAX);
                let (now, later) = octets.split_at(octets.len().min(most));
                out.extend_from_slice(now);
                self.run_left -= now.len() as u64;
                octets = later;
            } else if self.squeeze(dictionary, octets, &mut out) {
                self.run = 0;
                return out;
            } else if octets.len() < TELLING_OCTETS && dictionary.is_some() {
                codec::write_number(octets.len() as u64 * 2, &mut out);
                out.extend_from_slice(octets);
                return out;
            } else {
                self.run = match dictionary {
                    Some(_) => (self.run * 2).clamp(RUN_OCTETS, RUN_OCTETS_MAX),
                    None => RUN_OCTETS_MAX,
                };
                self.run_left = self.run;
                codec::write_number(self.run * 2, &mut out);
            }
        }
        out
    }

    /// What goes for octets that don't get fewer, as who brings them knows.
    pub fn plain(&mut self, octets: &[u8]) -> Vec<u8> {
        let told = usize::try_from(self.run_left).map_or(octets.len(), |it| it.min(octets.len()));
        let (mut out, later) = (octets[..told].to_vec(), &octets[told..]);
        self.run_left -= told as u64;
        if !later.is_empty() {
            codec::write_number(later.len() as u64 * 2, &mut out);
            out.extend_from_slice(later);
        }
        out
    }

    /// Adds a compressed piece, if that is shorter by a sixteenth. What isn't sent compressed isn't
    /// remembered, as the other side doesn't.
    fn squeeze(
        &mut self,
        dictionary: Option<&Dictionary>,
        octets: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(dictionary) = dictionary.filter(|_| octets.len() >= TRIED_OCTETS) else {
            return false;
        };
        let mut next = self
            .history
            .as_ref()
            .unwrap_or(&dictionary.compressor)
            .clone();
        let mut packed = vec![0; octets.len() + FLUSH.len()];
        let (status, taken, length) = compress(&mut next, octets, &mut packed, TDEFLFlush::Sync);
        packed.truncate(length);
        let whole = status == TDEFLStatus::Okay && taken == octets.len();
        let Some(packed) = packed.strip_suffix(FLUSH).filter(|_| whole) else {
            return false;
        };
        if (packed.len() + 2) * 16 > octets.len() * 15 {
            return false;
        }
        codec::write_number(packed.len() as u64 * 2 + 1, out);
        out.extend_from_slice(packed);
        self.history = Some(next);
        true
    }
}

/// Where a direction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Before a piece.
    #[default]
    Between,
    /// So many octets of one that is as it is are to come.
    Plain(u64),
    /// So many of a compressed one, and so many of what a flush ends with have been read.
    Packed(u64, usize),
}

/// The side that a direction comes to.
#[derive(Default)]
pub struct Unpacker {
    place: Place,
    history: Option<Box<InflateState>>,
    /// What has come and hasn't been read.
    inbox: Vec<u8>,
    read: usize,
    /// There may be more of what was read.
    more: bool,
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unpacker {:?}", self.place)
    }
}

impl Unpacker {
    /// Whether it remembers what it had, which takes some 50 KiB.
    pub const fn has_history(&self) -> bool {
        self.history.is_some()
    }

    /// Takes what has come, when all before it [is read](Self::is_empty).
    pub fn feed(&mut self, octets: &[u8]) {
        self.inbox.drain(..self.read);
        self.read = 0;
        self.inbox.extend_from_slice(octets);
    }

    /// Whether it has nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.rest().is_empty() && !self.more
    }

    /// Whether the direction may end here: in no compressed piece, and in no number.
    pub fn is_whole(&self) -> bool {
        self.is_empty() && !matches!(self.place, Place::Packed(..))
    }

    fn rest(&self) -> &[u8] {
        &self.inbox[self.read..]
    }

    /// The next octets of the direction, at most so many; none if more has to come first. It may
    /// begin to remember if there is a dictionary.
    pub fn take(
        &mut self,
        dictionary: Option<&Dictionary>,
        octets_max: usize,
    ) -> Result<Vec<u8>, Malformed> {
        let mut out = Vec::new();
        while out.len() < octets_max {
            let before = (self.read, out.len(), self.place);
            match self.place {
                Place::Between => self.begin(dictionary)?,
                Place::Plain(left) => {
                    let most = usize::try_from(left).unwrap_or(usize::MAX);
                    let most = most.min(octets_max - out.len()).min(self.rest().len());
                    out.extend_from_slice(&self.rest()[..most]);
                    self.read += most;
                    self.place = match left - most as u64 {
                        0 => Place::Between,
                        left => Place::Plain(left),
                    };
                }
                Place::Packed(left, flushed) => {
                    self.unpack(left, flushed, octets_max, &mut out)?;
                }
            }
            if before == (self.read, out.len(), self.place) {
                break;
            }
        }
        // It is unknown whether that was all.
        self.more = out.len() >= octets_max && matches!(self.place, Place::Packed(..));
        Ok(out)
    }

    /// Reads the number of a piece, if it is there.
    fn begin(&mut self, dictionary: Option<&Dictionary>) -> Result<(), Malformed> {
        let rest = self.rest();
        let end = rest.iter().position(|it| it & 0x80 == 0);
        let Some(end) = end else {
            let endless = rest.len() >= NUMBER_OCTETS_MAX;
            return if endless { Err(Malformed) } else { Ok(()) };
        };
        let number = codec::read_number(&rest[..=end]).ok_or(Malformed)?;
        self.read += end + 1;
        let length = number / 2;
        if number % 2 == 0 {
            self.place = Place::Plain(length);
            return if length == 0 { Err(Malformed) } else { Ok(()) };
        }
        if self.history.is_none() {
            self.history = Some(dictionary.ok_or(Malformed)?.inflater.clone());
        }
        self.place = Place::Packed(length, 0);
        Ok(())
    }

    fn unpack(
        &mut self,
        left: u64,
        flushed: usize,
        octets_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let Some(history) = &mut self.history else {
            return Err(Malformed);
        };
        let rest = &self.inbox[self.read..];
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
        let input = if left > 0 {
            &rest[..most]
        } else {
            &FLUSH[flushed..]
        };
        let from = out.len();
        out.resize(octets_max, 0);
        let done = inflate(history, input, &mut out[from..], MZFlush::None);
        out.truncate(from + done.bytes_written);
        match done.status {
            Ok(MZStatus::Ok) | Err(MZError::Buf) => {}
            // Directions don't end in DEFLATE's way.
            Ok(_) | Err(_) => return Err(Malformed),
        }
        if left > 0 {
            self.read += done.bytes_consumed;
            self.place = Place::Packed(left - done.bytes_consumed as u64, 0);
            return Ok(());
        }
        let flushed = flushed + done.bytes_consumed;
        let all = flushed == FLUSH.len() && out.len() < octets_max;
        self.place = if all {
            Place::Between
        } else {
            Place::Packed(0, flushed)
        };
        Ok(())
    }
}

#[cfg(test)]
#[path = "pack_tests.rs"]
mod tests;
