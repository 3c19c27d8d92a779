//! The HF modem of a port, live: where it is, and the times by which a turn is planned.

use alloc::string::String;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::node::Notice;
use strait_core::units::Time;
use strait_core::waveform::{self, Bandwidth, Family, Interleaver, Mode};

use super::PortConfig;

/// Blocks before the start at most: what a modem's queue takes.
const START_BLOCKS_MAX: u32 = 16;

/// How a modem's data port is reached.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ModemTransport {
    /// By TCP, as MIL-STD-188-110D Appendix A has it.
    #[default]
    Tcp,
    /// In datagrams, by the same standard's protocol for them.
    Udp,
}

/// A modem with a data port (MIL-STD-188-110D Appendix A). The simulator's has the keys of its
/// link.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct HfModemConfig {
    /// Where its data port is.
    pub address: Option<SocketAddr>,
    /// By TCP or UDP; TCP if absent.
    pub transport: ModemTransport,
    /// Where its control is, a TCP address, by which a station chooses the rate of each
    /// transmission at a modem of `strait emulate`. Without it, a modem over TCP sends by the rate
    /// that it is set to; in datagrams it is at the data port's address if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<SocketAddr>,
    /// Which waveforms; `110d` if absent. The port's `rate` chooses one of them.
    pub family: Family,
    /// The channel's width.
    pub bandwidth: Bandwidth,
    /// How far blocks spread their bits over time.
    pub interleaver: Interleaver,
    /// From keying to power on the air; 200 ms if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turnaround: Option<Time>,
    /// What receivers find a transmission by; 240 ms if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preamble: Option<Time>,
    /// How long power has to be there, or to be gone, before a modem says so; 300 ms if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier_detect: Option<Time>,
    /// Propagation to the farthest station of a net; 20 ms if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Time>,
    /// From the end of a block to its octets; the length of a block if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode: Option<Time>,
    /// The longest turn; 127.5 s if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_max: Option<Time>,
    /// A block's octets are given to the modem this long before it begins; 100 ms if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<Time>,
    /// Blocks that the modem is given before it starts; 3 if absent, as the standard has it
    /// (A.5.1.2.5). A modem that starts with one leaves the node up to two blocks longer to choose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_blocks: Option<u32>,
}

/// The times of a modem, looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HfModem {
    /// Its data port.
    pub address: SocketAddr,
    /// How that is reached.
    pub transport: ModemTransport,
    /// Its control, where that is elsewhere.
    pub control: Option<SocketAddr>,
    /// The waveform.
    pub mode: Mode,
    /// From keying to the first block.
    pub lead_in: Duration,
    /// When other stations notice what this one does.
    pub notice: Notice,
    /// From the end of a block to its octets.
    pub decode: Duration,
    /// Blocks of the longest turn.
    pub blocks_max: u32,
    /// How long before a block its octets are given to the modem.
    pub ahead: Duration,
    /// Blocks that the modem is given before it starts.
    pub start_blocks: u32,
}

impl HfModemConfig {
    /// Whether a station can tell it by which rate to send: the simulator's can be told, and those
    /// with a control.
    pub fn takes_rates(&self) -> bool {
        let controlled = self.control.is_some() || self.transport == ModemTransport::Udp;
        self.address.is_none() || controlled
    }
}

impl PortConfig {
    /// The modem of a port with a radio.
    ///
    /// # Errors
    /// The key that lacks, or has no possible value, and the remedy.
    pub fn hf_modem(&self) -> Result<HfModem, (&'static str, String)> {
        let keys = self.hf().and_then(|hf| hf.modem.clone());
        let keys = keys.unwrap_or_default();
        let Some(address) = keys.address else {
            let message = "needed on a host: the modem's data port, such as 127.0.0.1:3000";
            return Err(("hf.modem.address", message.into()));
        };
        let rate = self.rate.and_then(|rate| u32::try_from(rate.0).ok());
        let find = |rate| waveform::find(keys.family, keys.bandwidth, keys.interleaver, rate);
        let Some(found) = rate.and_then(find) else {
            let message = "needed on a host: the rate of one of the modem's waveforms, such as \
                           \"9600 bit/s\"";
            return Err(("rate", message.into()));
        };
        let mode = found.mode;
        let start_blocks = keys.start_blocks.unwrap_or(3);
        if !(1..=START_BLOCKS_MAX).contains(&start_blocks) {
            let message = "has to be from 1 to 16: blocks that the modem is given before it starts";
            return Err(("hf.modem.start_blocks", message.into()));
        }
        let time =
            |time: Option<Time>, ms| time.map_or_else(|| Duration::from_millis(ms), |time| time.0);
        let turnaround = time(keys.turnaround, 200);
        let turn_ns = time(keys.turn_max, 127_500).as_nanos();
        let blocks = turn_ns / mode.block().as_nanos().max(1);
        Ok(HfModem {
            address,
            transport: keys.transport,
            control: keys.control,
            mode,
            lead_in: turnaround + time(keys.preamble, 240),
            notice: Notice::of(
                turnaround,
                time(keys.carrier_detect, 300),
                time(keys.delay, 20),
            ),
            decode: keys.decode.map_or_else(|| mode.block(), |time| time.0),
            blocks_max: u32::try_from(blocks).unwrap_or(u32::MAX).max(1),
            ahead: time(keys.ahead, 100),
            start_blocks,
        })
    }
}
