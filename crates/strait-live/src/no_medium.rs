//! A port without a device: what it has to say goes by streams of the node.

use std::io;
use std::os::fd::BorrowedFd;

use strait_core::node::{PortState, Room, TxMeta};
use strait_core::rate::LineRate;
use strait_core::time::{Duration, Instant};

use crate::error::Error;
use crate::port_io::{IoCounts, PortIo, Received, Sent};

/// Always open, never ready.
#[derive(Debug)]
pub(crate) struct NoMedium;

impl PortIo for NoMedium {
    fn open(&mut self, _now: Instant) -> Result<PortState, Error> {
        let rate = LineRate::new(1_000_000_000, 8);
        Ok(PortState {
            tx_rate: rate,
            rx_rate: rate,
            frame_octets_max: u32::MAX,
            block: Duration::ZERO,
            latency: Duration::ZERO,
        })
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
