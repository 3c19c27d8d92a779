//! Files that a gateway writes: what its node stores, the journal, a line for each packet.

pub mod journal;
mod own_file;
pub mod packets;
pub mod storage;
