//! What a port's device is.

use strait_node::config::{LinkProfile, PortConfig, PortKind};
use strait_wire::segment::SegmentCheck;

/// What captures and nodes see of a port's device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Device {
    /// The check of its urgent frames, if it is an octet stream with such: a capture holds their
    /// octets as they are.
    pub(crate) urgent: Option<SegmentCheck>,
    /// Its frames are those of reliable hops.
    pub(crate) hops: bool,
    /// What it tells of a frame that the medium is done with.
    pub(crate) told: Told,
}

/// What a device tells its node of a frame that the medium is done with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Told {
    /// Whether it arrived, as a card does.
    #[default]
    Fate,
    /// That it has left, as a KISS modem does that gives notice.
    Left,
    /// Nothing.
    Nothing,
}

impl Device {
    /// That of a port.
    pub(crate) fn of(port: &PortConfig) -> Self {
        Self {
            urgent: port.urgent_check(),
            hops: port.profile == LinkProfile::Hbh,
            told: match &port.kind {
                PortKind::Kiss(kiss) if kiss.modem.notice == Some(true) => Told::Left,
                PortKind::Kiss(_) => Told::Nothing,
                _ => Told::Fate,
            },
        }
    }
}
