//! What a lab stands on: namespaces and the cables between them, processes, files; and what is left
//! of them.

pub(crate) mod left;
pub(crate) mod net;
pub(crate) mod process;
pub(crate) mod scratch;
