//! How a station behaves.

use alloc::vec::Vec;

use strait_core::Duration;

use super::Access;
use crate::address::Address;
use crate::d_pdu::SEGMENT_OCTETS_MAX;
use crate::rate::Adapt;

/// How a station behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its address.
    pub own: Address,
    /// Groups that it belongs to.
    pub groups: Vec<Address>,
    /// A link that it made is broken after this time without data.
    pub idle: Duration,
    /// The longest transmission.
    pub turn_max: Duration,
    /// The longest that a message may wait for others' turns: this station's acknowledgements say
    /// how long theirs may be.
    pub wait_max: Option<Duration>,
    /// How long a transmission has room for new data, before it repeats the same in it.
    pub gathers: Duration,
    /// From the end of another's transmission to the beginning of this station's.
    pub guard: Duration,
    /// How long an answer may be late.
    pub answer_margin: Duration,
    /// Turns without an answer after which a link is considered lost, as many again if its other
    /// end uses it meanwhile.
    pub unanswered_max: u32,
    /// Times that a management message goes again without an answer.
    pub message_repeats: u32,
    /// Calls in a row before a pause.
    pub calls_max: u32,
    /// The pause after them, in a net twice that from the second row on.
    pub call_pause: Duration,
    /// Long numbers are offered to peers, and accepted, and with them data that comes with calls.
    pub long_numbers: bool,
    /// Peers with which there are none, whatever they say: they may mean something else by the bits
    /// that Edition 3 reserves.
    pub edition_3: Vec<Address>,
    /// Peers whose links are made by other means, such as automatic link establishment: data is
    /// sent, and accepted, without a call before it (B.3).
    pub without_calls: Vec<Address>,
    /// Data goes with calls to peers that are known to take it.
    pub early_data: bool,
    /// Edition 3's window, 1 to 128.
    pub window: u32,
    /// The longest segment.
    pub segment_octets_max: usize,
    /// Calls of stations that aren't peers are rejected, and their data without ARQ is accepted;
    /// without, they are only counted.
    pub strangers: bool,
    /// Stations that aren't peers with which there are links at a time, made by either end; a call
    /// of one more takes the place of the one that has been idle longest, or is rejected.
    pub guests: usize,
    /// It has no links: all that it sends goes without ARQ, and calls are rejected.
    pub broadcast_only: bool,
    /// How it shares the air.
    pub access: Access,
    /// The data rate follows receptions; without, it is the medium's own.
    pub adapt: Option<Adapt>,
}

impl Settings {
    /// Settings for two stations with a modern modem. The standard leaves all of these free.
    #[must_use]
    pub const fn new(own: Address) -> Self {
        Self {
            own,
            groups: Vec::new(),
            idle: Duration::from_secs(120),
            turn_max: Duration::from_secs(120),
            wait_max: None,
            gathers: Duration::ZERO,
            guard: Duration::from_millis(50),
            answer_margin: Duration::from_secs(1),
            unanswered_max: 6,
            message_repeats: 3,
            calls_max: 4,
            call_pause: Duration::from_secs(30),
            long_numbers: true,
            edition_3: Vec::new(),
            without_calls: Vec::new(),
            early_data: true,
            window: crate::arq::SHORT_WINDOW_MAX,
            segment_octets_max: SEGMENT_OCTETS_MAX,
            strangers: true,
            guests: 0,
            broadcast_only: false,
            access: Access::Turns,
            adapt: None,
        }
    }
}
