//! Reading a journal, whatever became of its file.

use alloc::vec::Vec;

use strait_core::node::{Boot, WallTime};
use strait_core::{Input, Instant, PortId, Room, TxMeta};

use super::codec::{Take, unframe};
use super::{EndCause, FLAG_MASKED, MAGIC, OLDEST, VERSION, input, kind};

/// The last version whose header had values that were stored, where now their lengths are.
const WITH_VALUES: u8 = 3;

/// What a journal says of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Version of its format.
    pub version: u8,
    /// Version of the program that wrote it; empty where the format didn't say it yet.
    pub program: &'a str,
    /// Payloads are masked by their lengths.
    pub masked: bool,
    /// The resolved configuration, as TOML.
    pub config: &'a str,
    /// What the node found at its start; stored keys are empty if masked.
    pub boot: Boot,
}

/// Why a file is no journal that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// It doesn't begin as journals do.
    #[error("no journal: the file does not begin as one")]
    Magic,
    /// It has a version of the format that can't be read.
    #[error("journal of version {0}, and only versions {OLDEST} to {VERSION} are known")]
    Version(u8),
    /// Its header is cut short or damaged.
    #[error("the journal's header is cut short or damaged")]
    Damaged,
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<'a> {
    /// Number of the record in the file, from 1.
    pub number: u64,
    /// Where in the file it begins.
    pub offset: usize,
    /// When.
    pub now: Instant,
    /// What.
    pub record: Record<'a>,
    /// Octets of its payload, also where the payload itself is masked and so empty.
    pub payload_octets: usize,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Record<'a> {
    /// The node was given this.
    Input(Input<'a>),
    /// The node was pulled and gave octets.
    Pulled {
        /// At which port.
        port: PortId,
        /// What the medium could take.
        room: Room,
        /// What the node said of the octets.
        meta: TxMeta,
        /// The octets.
        octets: &'a [u8],
    },
    /// Something of a kind that this program doesn't know, or no longer.
    Unknown {
        /// The kind's number.
        kind: u8,
    },
}

/// How a journal ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalEnd {
    /// The node was stopped in order.
    Closed,
    /// The journal had reached the size that it was allowed.
    Limit,
    /// After a whole record, without a word: the node was killed, or still runs.
    Open,
    /// In a record that is cut short or damaged: the node was killed while it wrote.
    Torn {
        /// Where the sound part ends.
        offset: usize,
    },
    /// At a sound record of a known kind that no known writer makes.
    Foreign {
        /// Where it begins.
        offset: usize,
    },
}

/// The records of a journal, in order.
#[derive(Clone, Debug)]
pub struct JournalReader<'a> {
    header: Header<'a>,
    file: &'a [u8],
    rest: &'a [u8],
    number: u64,
    last: Instant,
    end: Option<JournalEnd>,
}

impl<'a> JournalReader<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// The file is no journal, of another version, or damaged in its first record.
    pub fn new(file: &'a [u8]) -> Result<Self, HeaderError> {
        let (version, rest) = file
            .strip_prefix(&MAGIC)
            .and_then(|rest| rest.split_first())
            .ok_or(HeaderError::Magic)?;
        if !(OLDEST..=VERSION).contains(version) {
            return Err(HeaderError::Version(*version));
        }
        let mut rest = rest;
        let header = unframe(&mut rest)
            .and_then(|body| take_header(*version, body))
            .ok_or(HeaderError::Damaged)?;
        Ok(Self {
            header,
            file,
            rest,
            number: 0,
            last: Instant::ZERO,
            end: None,
        })
    }

    /// What the journal says of its node.
    pub const fn header(&self) -> &Header<'a> {
        &self.header
    }

    /// How the journal ends; `None` while records may follow.
    pub const fn end(&self) -> Option<JournalEnd> {
        self.end
    }

    /// Octets behind the last record that was read.
    pub const fn rest_octets(&self) -> usize {
        self.rest.len()
    }

    fn read(&mut self) -> Result<Entry<'a>, JournalEnd> {
        if self.rest.is_empty() {
            return Err(JournalEnd::Open);
        }
        let offset = self.file.len() - self.rest.len();
        let mut rest = self.rest;
        let body = unframe(&mut rest).ok_or(JournalEnd::Torn { offset })?;
        let mut take = Take::new(body, self.header.masked);
        let content = take_content(&mut take, self.last).ok_or(JournalEnd::Foreign { offset })?;
        self.rest = rest;
        let (now, content) = content;
        match content {
            Content::Ended(EndCause::Closed) => Err(JournalEnd::Closed),
            Content::Ended(EndCause::Limit) => Err(JournalEnd::Limit),
            Content::Record(record) => {
                self.number += 1;
                self.last = now;
                Ok(Entry {
                    number: self.number,
                    offset,
                    now,
                    record,
                    payload_octets: take.payload_octets,
                })
            }
        }
    }
}

impl<'a> Iterator for JournalReader<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        if self.end.is_some() {
            return None;
        }
        match self.read() {
            Ok(entry) => Some(entry),
            Err(end) => {
                self.end = Some(end);
                None
            }
        }
    }
}

enum Content<'a> {
    Record(Record<'a>),
    Ended(EndCause),
}

fn take_content<'a>(take: &mut Take<'a>, last: Instant) -> Option<(Instant, Content<'a>)> {
    let kind = take.octet()?;
    let now = Instant::from_nanos(last.as_nanos().checked_add(take.number()?)?);
    let content = match kind {
        kind::ENDED => Content::Ended(match take.octet()? {
            0 => EndCause::Closed,
            1 => EndCause::Limit,
            _ => return None,
        }),
        kind::PULLED | kind::PULLED_FOR => {
            let (port, room, meta) = input::take_pull(kind, take, now)?;
            let octets = take.payload()?;
            Content::Record(Record::Pulled {
                port,
                room,
                meta,
                octets,
            })
        }
        kind if !input::is_known(kind) => {
            return Some((now, Content::Record(Record::Unknown { kind })));
        }
        kind => Content::Record(Record::Input(input::take(kind, take)?)),
    };
    take.end()?;
    Some((now, content))
}

fn take_header(version: u8, body: &[u8]) -> Option<Header<'_>> {
    let mut take = Take::new(body, false);
    let program = match version {
        OLDEST => "",
        _ => core::str::from_utf8(take.octets()?).ok()?,
    };
    let masked = match take.octet()? {
        0 => false,
        FLAG_MASKED => true,
        _ => return None,
    };
    let config = core::str::from_utf8(take.octets()?).ok()?;
    take.masked = masked;
    let mut boot = Boot {
        incarnation: take.small()?,
        entropy: take.number()?,
        wall: take.optional(|take| take.number().map(WallTime))?,
        stored: Vec::new(),
    };
    for _ in 0..take.number()? {
        // Each costs at least two octets of the body, so a large count ends soon.
        let key = take.payload()?.into();
        let octets = match version {
            ..=WITH_VALUES => take.payload().map(|_| take.payload_octets as u64)?,
            _ => take.number()?,
        };
        boot.stored.push((key, octets));
    }
    take.end()?;
    Some(Header {
        version,
        program,
        masked,
        config,
        boot,
    })
}
