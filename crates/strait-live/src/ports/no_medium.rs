//! A port without a device: what it has to say goes by streams of the node.

use std::io;
use std::os::fd::BorrowedFd;

use strait_core::node::{PortState, Room, TxMeta};
use strait_core::time::Instant;

use super::{IoCounts, PortIo, Received, Sent, unpaced};
use crate::error::Error;

/// Always open, never ready.
#[derive(Debug)]
pub(crate) struct NoMedium;

impl PortIo for NoMedium {
    fn open(&mut self, _now: Instant) -> Result<PortState, Error> {
        Ok(unpaced())
    }

    fn close(&mut self) {}

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn room(&mut self, _now: Instant) -> Result<Room, Option<Instant>> {
        Err(None)
    }

    fn transmit(&mut self, _now: Instant, _meta: &TxMeta, _octets: &[u8]) -> io::Result<Sent> {
        Ok(Sent::Refused)
    }

    fn holds(&self) -> bool {
        false
    }

    fn flush(&mut self, _now: Instant) -> io::Result<()> {
        Ok(())
    }

    fn drained(&mut self, _now: Instant) -> bool {
        true
    }

    fn receive(&mut self, _now: Instant, _buffer: &mut [u8]) -> io::Result<Received> {
        Ok(Received::Nothing)
    }

    fn counts(&self) -> IoCounts {
        IoCounts::default()
    }
}
