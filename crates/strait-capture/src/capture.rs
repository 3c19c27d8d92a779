//! Captures as a stream of frames, whatever their format and size.

use std::io::{self, Read};
use std::ops::Range;

use strait_wire::pcap::{FILE_HEADER_OCTETS, FileHeader, PcapError, RECORD_HEADER_OCTETS};
use strait_wire::pcapng::{Block, Decoder, PcapngError};

/// Octets read at once.
const READ_OCTETS: usize = 256 * 1024;
/// The longest block or packet that is taken: many times a packet's largest size, and little enough
/// that a wrong length takes no memory to speak of.
const BLOCK_OCTETS_MAX: usize = 16 * 1024 * 1024;
/// The first octets of a pcapng file.
const SECTION_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Why a capture can't be read, or not any further.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The octets don't come.
    #[error("it can't be read: {0}")]
    Read(#[from] io::Error),
    /// Neither format.
    #[error("it is no capture: neither pcap nor pcapng")]
    NoCapture,
    /// Wrong in the older format.
    #[error("{0}")]
    Pcap(#[from] PcapError),
    /// Wrong in the newer format.
    #[error("{0}")]
    Pcapng(#[from] PcapngError),
    /// A packet or block that is too long.
    #[error("{0} octets in one piece, of at most {BLOCK_OCTETS_MAX}")]
    TooLong(usize),
    /// The last packet or block isn't complete.
    #[error("it ends within a packet")]
    Truncated,
}

/// A frame of a capture; its octets are [`Capture::octets`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Number of its interface in the capture's present section; 0 in the older format.
    pub interface: u32,
    /// What its octets are; see [`linktype`](strait_wire::frame::linktype).
    pub linktype: u16,
    /// When, in nanoseconds since 1970 or since a run began, if told.
    pub time_ns: Option<u64>,
    /// Octets that it had.
    pub original_len: u32,
    place: Range<usize>,
}

#[derive(Debug)]
enum Format {
    Pcap(FileHeader),
    Pcapng(Decoder),
}

/// An interface of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// What its frames are.
    pub linktype: u16,
    /// Its name; empty if not told.
    pub name: String,
}

/// A capture that is read frame by frame, in memory of at most 16 MiB.
#[derive(Debug)]
pub struct Capture<R> {
    input: R,
    buffer: Vec<u8>,
    /// The part of the buffer that is read and not yet used.
    start: usize,
    end: usize,
    format: Format,
    interfaces: Vec<Interface>,
}

impl<R: Read> Capture<R> {
    /// Begins to read: pcap in either order of octets with micro- or nanoseconds, or pcapng.
    ///
    /// # Errors
    /// It is no capture.
    pub fn open(input: R) -> Result<Self, CaptureError> {
        let mut capture = Self {
            input,
            buffer: vec![0; READ_OCTETS],
            start: 0,
            end: 0,
            format: Format::Pcapng(Decoder::default()),
            interfaces: Vec::new(),
        };
        capture.fill(FILE_HEADER_OCTETS)?;
        let head = &capture.buffer[..capture.end];
        if head.starts_with(&SECTION_MAGIC) {
            return Ok(capture);
        }
        let header = FileHeader::parse(head).map_err(|error| match error {
            PcapError::BadVersion => CaptureError::Pcap(error),
            PcapError::BadMagic | PcapError::Truncated => CaptureError::NoCapture,
        })?;
        capture.start = FILE_HEADER_OCTETS;
        capture.interfaces.push(Interface {
            linktype: header.linktype,
            name: String::new(),
        });
        capture.format = Format::Pcap(header);
        Ok(capture)
    }

    /// The format's name.
    pub const fn format(&self) -> &'static str {
        match self.format {
            Format::Pcap(_) => "pcap",
            Format::Pcapng(_) => "pcapng",
        }
    }

    /// The interfaces of the present section, as far as they were described.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The next frame; `None` at the end.
    ///
    /// # Errors
    /// The rest can't be read.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, CaptureError> {
        match self.format {
            Format::Pcap(header) => self.next_record(header),
            Format::Pcapng(_) => self.next_packet_block(),
        }
    }

    /// What was kept of the frame that [`Self::next_frame`] gave last.
    pub fn octets(&self, frame: &Frame) -> &[u8] {
        self.buffer.get(frame.place.clone()).unwrap_or_default()
    }

    fn next_record(&mut self, header: FileHeader) -> Result<Option<Frame>, CaptureError> {
        if !self.fill(RECORD_HEADER_OCTETS)? {
            return self.nothing_left();
        }
        let record = header.record(&self.buffer[self.start..self.end])?;
        let whole = RECORD_HEADER_OCTETS.saturating_add(record.captured as usize);
        if !self.fill(whole)? {
            return Err(CaptureError::Truncated);
        }
        let place = self.start + RECORD_HEADER_OCTETS..self.start + whole;
        self.start = place.end;
        Ok(Some(Frame {
            interface: 0,
            linktype: header.linktype,
            time_ns: Some(record.time_ns),
            original_len: record.original_len,
            place,
        }))
    }

    fn next_packet_block(&mut self) -> Result<Option<Frame>, CaptureError> {
        loop {
            if !self.fill(1)? {
                return Ok(None);
            }
            // First the head of the block, which tells its length, then all of it.
            for _ in 0..2 {
                let Format::Pcapng(decoder) = &self.format else {
                    return Ok(None);
                };
                let needed = decoder.block_octets(&self.buffer[self.start..self.end])?;
                if !self.fill(needed)? {
                    return Err(CaptureError::Truncated);
                }
            }
            if let Some(frame) = self.block()? {
                return Ok(Some(frame));
            }
        }
    }

    /// Takes the block that the buffer has next; it is all there.
    fn block(&mut self) -> Result<Option<Frame>, CaptureError> {
        let Format::Pcapng(decoder) = &mut self.format else {
            return Ok(None);
        };
        let available = &self.buffer[self.start..self.end];
        let mut rest = available;
        let block = decoder.block(&mut rest)?;
        let base = self.start;
        self.start = self.end - rest.len();
        match block {
            Block::Section { .. } => self.interfaces.clear(),
            Block::Interface(described) => self.interfaces.push(Interface {
                linktype: described.linktype,
                name: described.name.unwrap_or_default().to_owned(),
            }),
            Block::Packet(packet) => {
                let offset = packet.bytes.as_ptr().addr() - available.as_ptr().addr();
                let interface = self.interfaces.get(packet.interface as usize);
                return Ok(Some(Frame {
                    interface: packet.interface,
                    linktype: interface.map_or(u16::MAX, |interface| interface.linktype),
                    time_ns: packet.time_ns,
                    original_len: packet.original_len,
                    place: base + offset..base + offset + packet.bytes.len(),
                }));
            }
            Block::Other { .. } => {}
        }
        Ok(None)
    }

    const fn nothing_left(&self) -> Result<Option<Frame>, CaptureError> {
        if self.start < self.end {
            return Err(CaptureError::Truncated);
        }
        Ok(None)
    }

    /// Reads until at least so many octets are there; false if the input ends before.
    fn fill(&mut self, needed: usize) -> Result<bool, CaptureError> {
        if self.end - self.start >= needed {
            return Ok(true);
        }
        if needed > BLOCK_OCTETS_MAX {
            return Err(CaptureError::TooLong(needed));
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < needed {
            // The room grows with what really comes, not with what a length field says.
            if self.end == self.buffer.len() {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(octets) => self.end += octets,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}
