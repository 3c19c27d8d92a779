//! What a DNS proxy counts.

/// A DNS proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DnsStats {
    /// Questions of clients.
    pub questions: u64,
    /// Of these, those that were answered from what was known.
    pub hits: u64,
    /// Those that were answered by what had outlived its life.
    pub stale: u64,
    /// Those that were on their way across a link already.
    pub joined: u64,
    /// Those that a client had asked before, and waits for.
    pub repeats: u64,
    /// Answers that say that nothing is known, as none came in time.
    pub late: u64,
    /// Questions not taken, as too much waited.
    pub full: u64,
    /// Messages of clients that may not ask.
    pub refused: u64,
    /// Messages of clients that are no questions, and frames of partners that are none.
    pub malformed: u64,
    /// Questions sent across links, for the first time.
    pub asked: u64,
    /// Those sent again.
    pub asked_again: u64,
    /// Questions given up without an answer.
    pub lost: u64,
    /// Answers of partners.
    pub answered: u64,
    /// Answers of partners to what wasn't asked.
    pub unasked: u64,
    /// Octets of frames given to links, without headers of IP and UDP.
    pub octets_out: u64,
    /// Octets of frames that came.
    pub octets_in: u64,
    /// Names and types that are known.
    pub known: u64,
    /// Octets that these take.
    pub known_octets: u64,
    /// Names and types that had to go for want of room.
    pub evicted: u64,
    /// Questions of partners.
    pub served: u64,
    /// Those that a partner sent again.
    pub served_again: u64,
    /// Those not taken: too many, or no resolver is configured.
    pub unserved: u64,
    /// What it says of its own.
    pub own: OwnAnswerStats,
    /// What is kept fresh.
    pub fresh: FreshStats,
    /// What resolvers were asked.
    pub resolvers: ResolverStats,
}

impl DnsStats {
    /// Adds another one's.
    pub const fn add(&mut self, other: &Self) {
        self.questions += other.questions;
        self.hits += other.hits;
        self.stale += other.stale;
        self.joined += other.joined;
        self.repeats += other.repeats;
        self.late += other.late;
        self.full += other.full;
        self.refused += other.refused;
        self.malformed += other.malformed;
        self.asked += other.asked;
        self.asked_again += other.asked_again;
        self.lost += other.lost;
        self.answered += other.answered;
        self.unasked += other.unasked;
        self.octets_out += other.octets_out;
        self.octets_in += other.octets_in;
        self.known += other.known;
        self.known_octets += other.known_octets;
        self.evicted += other.evicted;
        self.served += other.served;
        self.served_again += other.served_again;
        self.unserved += other.unserved;
        self.own.ruled += other.own.ruled;
        self.own.ahead += other.own.ahead;
        self.own.translated += other.own.translated;
        self.own.strange += other.own.strange;
        self.own.cut += other.own.cut;
        self.own.client_octets += other.own.client_octets;
        self.fresh.changes += other.fresh.changes;
        self.fresh.watched += other.fresh.watched;
        self.fresh.watching += other.fresh.watching;
        self.resolvers.resolved += other.resolvers.resolved;
        self.resolvers.by_stream += other.resolvers.by_stream;
        self.resolvers.unanswered += other.resolvers.unanswered;
        self.resolvers.forged += other.resolvers.forged;
    }
}

/// What a DNS proxy says of its own, and what follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnAnswerStats {
    /// Questions of clients that rules of the node file answered, or resolvers of these.
    pub ruled: u64,
    /// Those that an address ahead of the answer was told to, or nothing beside it.
    pub ahead: u64,
    /// Packets to such addresses of partners', and from those who are meant.
    pub translated: u64,
    /// Addresses of partners' by which no name goes here, as far as is known.
    pub strange: u64,
    /// Answers cut short, as their client gets much more than it asks.
    pub cut: u64,
    /// Octets that clients asked and heard.
    pub client_octets: u64,
}

/// What is kept fresh by the side of the resolvers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreshStats {
    /// Changes that were told without being asked for, to partners or by them.
    pub changes: u64,
    /// Names that partners keep fresh.
    pub watched: u64,
    /// Names that are kept fresh for partners.
    pub watching: u64,
}

/// What resolvers were asked, and said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResolverStats {
    /// Questions to resolvers.
    pub resolved: u64,
    /// Those asked again by a stream, as the answer was too long for a datagram.
    pub by_stream: u64,
    /// Those that a resolver left without an answer.
    pub unanswered: u64,
    /// Answers that weren't a resolver's to what it had been asked.
    pub forged: u64,
}
