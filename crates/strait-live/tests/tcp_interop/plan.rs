//! What the two ends of a case do.

use std::fmt;

/// One connection.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) we_connect: bool,
    pub(crate) ipv4: bool,
    /// Share of packets that are lost, each way.
    pub(crate) loss: f64,
    /// Our profile, and the kernel's congestion control.
    pub(crate) profile: &'static str,
    pub(crate) control: &'static str,
    pub(crate) ending: Ending,
    pub(crate) seed: u64,
}

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Both send at once, and end.
    Both,
    /// The end that connects sends and ends its direction; then the other does.
    Half,
    /// We break off.
    WeReset,
    /// The kernel's end breaks off.
    KernelResets,
}

/// What one end does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) sends: usize,
    /// Sends only when everything has come.
    pub(crate) answers: bool,
    /// Breaks off when so much has come.
    pub(crate) aborts_after: Option<usize>,
}

/// The octet at a place of a stream.
pub(crate) fn octet(at: usize) -> u8 {
    (at ^ at >> 8 ^ at >> 13) as u8
}

impl Case {
    /// Octets of each direction.
    pub(crate) fn octets(&self) -> usize {
        // Small segments, no selective acknowledgements and a first timeout of 3 s take longer.
        if self.profile == "ns3-2012" {
            40_000
        } else {
            200_000
        }
    }

    fn plan(&self, connects: bool, resets: bool) -> Plan {
        Plan {
            sends: self.octets(),
            // An end that breaks off sends nothing: its end of the stream would cross the reset.
            answers: resets || self.ending == Ending::Half && !connects,
            aborts_after: resets.then_some(self.octets() / 4),
        }
    }

    pub(crate) fn ours(&self) -> Plan {
        self.plan(self.we_connect, self.ending == Ending::WeReset)
    }

    pub(crate) fn kernels(&self) -> Plan {
        self.plan(!self.we_connect, self.ending == Ending::KernelResets)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            profile,
            control,
            ending,
            ..
        } = self;
        let family = if self.ipv4 { "IPv4" } else { "IPv6" };
        let [one, other] = if self.we_connect {
            [profile, control]
        } else {
            [control, profile]
        };
        write!(
            f,
            "{one} to {other}, {family}, {} lost, {ending:?}",
            self.loss
        )
    }
}
