//! Repeating a node's run from its journal.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use strait_core::hash::RunHash;
use strait_core::node::NodeFactory;
use strait_core::time::Duration;
use strait_core::{Instant, Node, PortId, Room, TxMeta};

use super::reader::{Entry, HeaderError, JournalEnd, JournalReader, Record};
use super::{PROGRAM, VERSION};
use crate::config::{InvalidConfig, NodeConfig};
use crate::config_text::ConfigError;
use crate::gateway::GatewayFactory;

/// What a repeated run was like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayReport {
    /// Inputs that were given.
    pub inputs: u64,
    /// Pulls that were repeated, one that differs included.
    pub pulls: u64,
    /// Octets that the repeated pulls gave.
    pub octets: u64,
    /// Hash of all pulls: when, at which port, which octets.
    pub run_hash: u64,
    /// Time of the last record.
    pub ended: Instant,
    /// The first pull that gave something else than the journal says; nothing behind it was
    /// repeated.
    pub difference: Option<Difference>,
    /// How the journal ends; `None` if a difference kept it from being read so far.
    pub end: Option<JournalEnd>,
}

/// A pull that gave something else than the journal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the record, from 1.
    pub record: u64,
    /// When.
    pub at: Instant,
    /// Where.
    pub port: PortId,
    /// What the journal says.
    pub expected: Pull,
    /// What the node gave now.
    pub got: Option<Pull>,
}

impl Difference {
    /// Number of the first octet that differs, from 0; `None` if only the rest of the pull does,
    /// or it gave nothing at all.
    pub fn octet(&self) -> Option<usize> {
        let (expected, got) = (&self.expected.octets, &self.got.as_ref()?.octets);
        let differs = expected
            .iter()
            .zip(got)
            .position(|(one, other)| one != other);
        let shorter = expected.len().min(got.len());
        differs.or_else(|| (expected.len() != got.len()).then_some(shorter))
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port.0;
        write!(f, "record {} at {:?}, port {port}: ", self.record, self.at)?;
        let expected = self.expected.octets.len();
        let Some(got) = &self.got else {
            return write!(f, "nothing where {expected} octets were");
        };
        if let Some(octet) = self.octet() {
            let got = got.octets.len();
            return write!(
                f,
                "{got} octets where {expected} were, different from number {octet} on"
            );
        }
        write!(
            f,
            "the same octets as {:?} where it was {:?}",
            got.meta, self.expected.meta
        )
    }
}

/// What a pull gave.
#[derive(Clone, PartialEq, Eq)]
pub struct Pull {
    /// What the node said of the octets.
    pub meta: TxMeta,
    /// The octets.
    pub octets: Vec<u8>,
}

impl fmt::Debug for Pull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Thousands of octets help nobody.
        let octets = self.octets.len();
        write!(f, "{octets} octets as {:?}", self.meta)
    }
}

/// Why a journal can't be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It can't be read.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// Its payloads are masked.
    #[error(
        "the journal's payloads are masked by their lengths: it shows a run, but can't repeat it"
    )]
    Masked,
    /// Another version of the program wrote it in another format.
    #[error(
        "strait {0} wrote the journal, in another format: only that version can repeat the run; \
         `--list` shows it"
    )]
    Version(String),
    /// Its configuration can't be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its configuration can't work.
    #[error("the journal's configuration: {0}")]
    Invalid(#[from] InvalidConfig),
}

/// Boots a gateway as the journal says, gives it the same inputs, repeats the same pulls and
/// compares what they give.
///
/// # Errors
/// The file is no journal, is masked, or has a configuration that can't work. A cut or damaged end
/// is no error: the report says so.
pub fn replay(journal: &[u8]) -> Result<ReplayReport, ReplayError> {
    replay_told(journal, Duration::MAX, |_, _, _| {})
}

/// The same; after each `step` of the node's time, and at its end, `told` gets its name, the moment
/// and the node.
///
/// # Errors
/// As [`replay`].
pub fn replay_told(
    journal: &[u8],
    step: Duration,
    mut told: impl FnMut(&str, Instant, &dyn Node),
) -> Result<ReplayReport, ReplayError> {
    let mut reader = JournalReader::new(journal)?;
    let header = reader.header();
    let program = match header.program {
        "" => format!("before {PROGRAM}"),
        program => program.into(),
    };
    if header.version != VERSION {
        return Err(ReplayError::Version(program));
    }
    if header.masked {
        return Err(ReplayError::Masked);
    }
    let config = NodeConfig::from_text("the journal's configuration", header.config)?;
    let name = config.name.clone();
    let mut next = Instant::ZERO + step;
    let mut run = Run {
        node: GatewayFactory::new(config)?.boot(header.boot.clone()),
        hash: RunHash::default(),
        out: Vec::new(),
        report: ReplayReport {
            inputs: 0,
            pulls: 0,
            octets: 0,
            run_hash: 0,
            ended: Instant::ZERO,
            difference: None,
            end: None,
        },
    };
    for entry in reader.by_ref() {
        if matches!(entry.record, Record::Unknown { .. }) {
            return Err(ReplayError::Version(program));
        }
        while entry.now >= next {
            told(&name, next, &*run.node);
            next += step;
        }
        run.repeat(entry);
        if run.report.difference.is_some() {
            break;
        }
    }
    if run.report.ended + step > next {
        told(&name, run.report.ended, &*run.node);
    }
    run.report.end = reader.end();
    run.report.run_hash = run.hash.value();
    Ok(run.report)
}

struct Run {
    node: Box<dyn Node>,
    hash: RunHash,
    out: Vec<u8>,
    report: ReplayReport,
}

impl Run {
    fn repeat(&mut self, entry: Entry<'_>) {
        let now = entry.now;
        self.report.ended = now;
        match entry.record {
            Record::Input(input) => {
                self.report.inputs += 1;
                self.node.handle(now, input);
            }
            Record::Unknown { .. } => {}
            Record::Pulled {
                port,
                room,
                meta,
                octets,
            } => {
                let got = self.pull(now, port, room);
                if got != Some(meta) || self.out != octets {
                    self.report.difference = Some(Difference {
                        record: entry.number,
                        at: now,
                        port,
                        expected: Pull {
                            meta,
                            octets: octets.to_vec(),
                        },
                        got: got.map(|meta| Pull {
                            meta,
                            octets: self.out.clone(),
                        }),
                    });
                }
            }
        }
        // They change no octet, but would pile up.
        while self.node.poll_effect().is_some() {}
    }

    fn pull(&mut self, now: Instant, port: PortId, room: Room) -> Option<TxMeta> {
        self.out.clear();
        let meta = self.node.poll_transmit(now, port, room, &mut self.out);
        self.report.pulls += 1;
        self.report.octets += self.out.len() as u64;
        self.hash.fold(now.as_nanos());
        self.hash.fold(u64::from(port.0));
        self.hash.fold_bytes(&self.out);
        meta
    }
}
