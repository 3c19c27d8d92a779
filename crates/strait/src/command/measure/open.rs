//! Files that may be compressed, and stdin.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// Memory that decompression may ask for: the largest presets of the usual programs take less, and
/// a hostile file gets no more.
const DECODE_OCTETS_MAX: u32 = 256 * 1024 * 1024;

/// Octets read from the system at once.
const READ_OCTETS: usize = 128 * 1024;

/// A file's octets, decompressed if need be.
pub(super) type Opened = Box<dyn Read>;

/// Counts the octets that come from the file, as they are there.
struct Counted<R> {
    inner: R,
    octets: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let octets = self.inner.read(room)?;
        self.octets.fetch_add(octets as u64, Ordering::Relaxed);
        Ok(octets)
    }
}

/// Opens a file, or stdin for `-`; `octets` counts what is read. Gives its length too, if it has
/// one.
pub(super) fn open(path: &Path, octets: &Arc<AtomicU64>) -> anyhow::Result<(Opened, Option<u64>)> {
    let (inner, length): (Box<dyn Read>, _) = if path.as_os_str() == "-" {
        (Box::new(io::stdin()), None)
    } else {
        let told = || format!("cannot read {}", path.display());
        let file = File::open(path).with_context(told)?;
        let metadata = file.metadata().with_context(told)?;
        (Box::new(file), metadata.is_file().then_some(metadata.len()))
    };
    let octets = Arc::clone(octets);
    let counted = BufReader::with_capacity(READ_OCTETS, Counted { inner, octets });
    let opened =
        decompressed(counted).with_context(|| format!("cannot read {}", path.display()))?;
    Ok((opened, length))
}

/// Decompresses what its first octets say is compressed.
fn decompressed(mut input: impl BufRead + 'static) -> io::Result<Opened> {
    Ok(match input.fill_buf()? {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            let limit_kib = DECODE_OCTETS_MAX / 1024;
            Box::new(lzma_rust2::XzReader::new_mem_limit(input, true, limit_kib))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Box::new(Zstandard {
            state: ZstandardState::Between(input),
        }),
        _ => Box::new(input),
    })
}

/// All frames of a Zstandard file, one after the other.
struct Zstandard<R: Read> {
    state: ZstandardState<R>,
}

enum ZstandardState<R: Read> {
    Between(R),
    Frame(Box<StreamingDecoder<R, FrameDecoder>>),
    Ended,
}

impl<R: BufRead> Read for Zstandard<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            if let ZstandardState::Frame(frame) = &mut self.state {
                let octets = frame.read(room)?;
                if octets > 0 || room.is_empty() {
                    return Ok(octets);
                }
            }
            let source = match std::mem::replace(&mut self.state, ZstandardState::Ended) {
                ZstandardState::Between(source) => source,
                ZstandardState::Frame(frame) => frame.into_inner(),
                ZstandardState::Ended => return Ok(0),
            };
            self.begin(source)?;
        }
    }
}

impl<R: BufRead> Zstandard<R> {
    /// Goes to the next frame that has contents.
    fn begin(&mut self, mut source: R) -> io::Result<()> {
        match source.fill_buf()? {
            [] => return Ok(()),
            [0x50..=0x5f, ..] => {
                let mut head = [0; 8];
                source.read_exact(&mut head)?;
                let octets = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
                io::copy(&mut (&mut source).take(octets.into()), &mut io::sink())?;
                self.state = ZstandardState::Between(source);
            }
            _ => {
                let limit = DECODE_OCTETS_MAX.into();
                let frame = StreamingDecoder::new_with_max_window_size(source, limit);
                self.state = ZstandardState::Frame(Box::new(frame.map_err(io::Error::other)?));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// «strait strait strait», as the usual programs compress it.
    const GZIP: &[u8] = b"\
        \x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x2b\x2e\x29\x4a\xcc\x2c\x51\x28\x46\xa6\
        \x00\x7c\x2c\x77\x26\x14\x00\x00\x00";
    const XZ: &[u8] = b"\
        \xfd\x37\x7a\x58\x5a\x00\x00\x04\xe6\xd6\xb4\x46\x02\x00\x21\x01\x16\x00\x00\x00\
        \x74\x2f\xe5\xa3\xe0\x00\x13\x00\x0d\x5d\x00\x39\x9d\x0a\x8c\x3b\xcc\xc8\x8a\xdd\
        \x2d\xe5\x00\x00\x00\x00\x00\x00\x2a\x6b\x63\x74\xca\x7e\x90\x18\x00\x01\x29\x14\
        \xbd\xfe\x1a\x7e\x1f\xb6\xf3\x7d\x01\x00\x00\x00\x00\x04\x59\x5a";
    const ZSTD: &[u8] = b"\
        \x28\xb5\x2f\xfd\x04\x58\x6d\x00\x00\x38\x73\x74\x72\x61\x69\x74\x20\x01\x00\x3a\
        \x8a\x11\xa1\xd5\xa6\xe1";
    /// A frame of two octets to be skipped.
    const SKIPPED: &[u8] = b"\x50\x2a\x4d\x18\x02\x00\x00\x00??";

    fn read(octets: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        decompressed(io::Cursor::new(octets.to_vec()))?.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn each_compression_is_known_by_its_beginning() {
        for octets in [GZIP, XZ, ZSTD, b"strait strait strait"] {
            assert_eq!(read(octets).unwrap(), "strait strait strait");
        }
        assert_eq!(read(b"").unwrap(), "");
    }

    #[test]
    fn several_parts_are_read_as_one() {
        let twice = "strait strait straitstrait strait strait";
        assert_eq!(read(&[GZIP, GZIP].concat()).unwrap(), twice);
        assert_eq!(read(&[XZ, XZ].concat()).unwrap(), twice);
        let parts = [SKIPPED, ZSTD, SKIPPED, ZSTD].concat();
        assert_eq!(read(&parts).unwrap(), twice);
    }

    #[test]
    fn a_part_that_breaks_off_is_an_error() {
        for octets in [GZIP, XZ, ZSTD, SKIPPED] {
            let cut = &octets[..octets.len() - 3];
            assert!(read(cut).is_err() || octets == SKIPPED, "{octets:x?}");
        }
        assert!(read(b"\x28\xb5\x2f\xfd\xff\xff\xff\xff").is_err());
    }
}
