//! What a node keeps off its links: chatter that it doesn't let out, questions that it answers
//! itself.

use strait_wire::ip::Chatter;

/// Packets and their octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Packets.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
}

impl Volume {
    /// Counts a packet.
    pub const fn count(&mut self, octets: u32) {
        self.packets += 1;
        self.octets += octets as u64;
    }
}

/// A kind of question that a node answers in place of somebody beyond the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Question {
    /// An ICMP echo request.
    Echo,
    /// An ARP request.
    Arp,
    /// An IPv6 neighbour solicitation.
    Neighbour,
    /// An IPv6 router solicitation.
    Router,
    /// A routing protocol's hello, or announcement, that says what the last one said.
    Hello,
}

impl Question {
    /// All kinds, in the order of the arrays indexed by them.
    pub const ALL: [Self; 5] = [
        Self::Echo,
        Self::Arp,
        Self::Neighbour,
        Self::Router,
        Self::Hello,
    ];

    /// The word in tables, status and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Arp => "arp",
            Self::Neighbour => "neighbour",
            Self::Router => "router",
            Self::Hello => "hello",
        }
    }
}

/// Counts of what was kept off the links, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalStats {
    chatter: [Volume; Chatter::ALL.len()],
    answered: [Volume; Question::ALL.len()],
    /// Hellos of routers beyond the links, given to the host side in place of those that were kept
    /// off a link over there.
    pub repeated: Volume,
    /// Replies stored to answer later questions.
    pub stored: u64,
    /// Stored replies given up before their time: the far side was known down, or the way there
    /// changed.
    pub forgotten: u64,
    /// Stored replies given up because there was no place for more.
    pub displaced: u64,
    /// Addresses, askers and words of the local network's own protocols given up for want of place.
    pub crowded: u64,
    /// Times that an address of the local network was another station's than shortly before.
    pub moved: u64,
}

impl LocalStats {
    /// Counts chatter that wasn't let out.
    pub const fn count_chatter(&mut self, kind: Chatter, octets: u32) {
        self.chatter[kind as usize].count(octets);
    }

    /// Counts a question that was answered.
    pub const fn count_answer(&mut self, kind: Question, octets: u32) {
        self.answered[kind as usize].count(octets);
    }

    /// Chatter of one kind that wasn't let out.
    pub const fn chatter(&self, kind: Chatter) -> Volume {
        self.chatter[kind as usize]
    }

    /// Questions of one kind that were answered.
    pub const fn answered(&self, kind: Question) -> Volume {
        self.answered[kind as usize]
    }

    /// What occurred: `chatter`, `answered` or `repeated`, the kind, and how much.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, Volume)> + '_ {
        let chatter = Chatter::ALL.iter().zip(&self.chatter);
        let chatter = chatter.map(|(kind, volume)| ("chatter", kind.name(), *volume));
        let answered = Question::ALL.iter().zip(&self.answered);
        let answered = answered.map(|(kind, volume)| ("answered", kind.name(), *volume));
        let repeated = [("repeated", Question::Hello.name(), self.repeated)];
        let all = chatter.chain(answered).chain(repeated);
        all.filter(|(_, _, volume)| volume.packets > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_occurred_is_listed_by_kind() {
        let mut stats = LocalStats::default();
        stats.count_chatter(Chatter::Mdns, 100);
        stats.count_chatter(Chatter::Mdns, 50);
        stats.count_answer(Question::Echo, 84);
        let volume = |packets, octets| Volume { packets, octets };
        let listed: alloc::vec::Vec<_> = stats.iter().collect();
        assert_eq!(
            listed,
            [
                ("chatter", "mdns", volume(2, 150)),
                ("answered", "echo", volume(1, 84))
            ]
        );
        assert_eq!(stats.chatter(Chatter::Broadcast), Volume::default());
    }
}
