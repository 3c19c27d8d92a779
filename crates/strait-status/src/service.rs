//! What services of a node count, and what became of the octets of their streams.

use strait_core::stats::{
    DnsStats, EchoStats, LedStats, MailStats, OlsrStats, ProxyRefusal, ProxyStats, TlsStats,
};
use strait_core::stream_ledger::{ResetCause, StreamLedger};
use strait_core::tls::TlsFault;

use crate::describe::{counter, described, gauge};
use crate::node::Counts;

fn resets(ledger: &StreamLedger) -> Counts {
    let named = ResetCause::ALL.map(|cause| (cause.name().into(), ledger.resets_by(cause)));
    named.into_iter().filter(|(_, count)| *count > 0).collect()
}

described! {
    /// Streams of one owner: each ends or is reset, and each octet taken is delivered or lost by
    /// that.
    pub struct Streams from ledger: &StreamLedger {
        /// Streams opened
        opened: u64 = ledger.opened => counter("streams_opened").head("opened");
        /// Open streams
        open: u64 = ledger.open() => gauge("streams_open").head("open");
        /// Streams whose both directions ended
        ended: u64 = ledger.ended => counter("streams_ended").head("ended");
        /// Streams reset, by cause
        reset: Counts = resets(ledger) => counter("streams_reset").by("cause", &[]).head("reset");
        /// Octets taken from streams
        taken_octets: u64 = ledger.taken => counter("streams_taken_octets").head("octets taken");
        /// Octets delivered
        delivered_octets: u64 = ledger.delivered
            => counter("streams_delivered_octets").head("delivered");
        /// Octets lost by resets
        lost_octets: u64 = ledger.lost => counter("streams_lost_octets").head("lost");
        /// Waiting octets
        held_octets: u64 = ledger.held() => gauge("streams_held_octets").head("held");
    }
}

fn faults(stats: &TlsStats) -> Counts {
    let named = TlsFault::ALL.map(|fault| (fault.name().into(), stats.failed_by(fault)));
    named.into_iter().filter(|(_, count)| *count > 0).collect()
}

described! {
    /// An echo service.
    pub struct Echo from stats: &EchoStats {
        /// Its connections
        streams: Streams = Streams::new(&stats.streams);
        /// Octets put on stable storage for its connections, compressed and with their digests
        stored_octets: u64 = stats.stored => counter("echo_stored_octets");
        /// Refused clients
        refused: u64 = stats.refused => counter("echo_refused");
        /// Connections secured by TLS
        secured: u64 = stats.tls.secured => counter("echo_secured");
        /// Connections whose TLS failed, by cause
        tls_failed: Counts = faults(&stats.tls) => counter("echo_tls_failed").by("fault", &[]);
        /// Datagrams sent back
        datagrams: u64 = stats.datagrams => counter("echo_datagrams");
        /// Datagrams not sent back: from other echoes, or for lack of room
        datagrams_dropped: u64 = stats.datagrams_dropped => counter("echo_datagrams_dropped");
    }
}

fn refusals(stats: &ProxyStats) -> Counts {
    let named = ProxyRefusal::ALL.map(|why| (why.name().into(), stats.refused_by(why)));
    named.into_iter().filter(|(_, count)| *count > 0).collect()
}

described! {
    /// A TCP proxy.
    pub struct Proxy from stats: &ProxyStats {
        /// Streams of its sessions, both directions together
        streams: Streams = Streams::new(&stats.sessions.streams);
        /// Partners that have been heard and aren't lost
        partners_known: u64 = stats.partners_known
            => gauge("proxy_partners_known").head("partners");
        /// Prefixes announced by partners
        announced: u64 = stats.announced => gauge("proxy_announced");
        /// Refused clients, by cause
        refused: Counts = refusals(stats)
            => counter("proxy_refused").by("cause", &[]).head("refused");
        /// Clients that bypassed the proxy, because their partner was silent
        passed: u64 = stats.passed => counter("proxy_passed").head("passed");
        /// Octets of hosts here, accepted for partners
        octets: u64 = stats.octets => counter("proxy_octets").head("octets");
        /// Octets of streams for these, after compression
        octets_line: u64 = stats.octets_line
            => counter("proxy_octets_line").head("compressed");
        /// Clients that asked by SOCKS or HTTP CONNECT
        explicit: u64 = stats.explicit => counter("proxy_explicit");
        /// Streams of the gateway's own message switch
        lanes: u64 = stats.lanes => gauge("proxy_lanes").head("lanes");
        /// Clients connected before their server's late answer
        early: u64 = stats.early => counter("proxy_early");
        /// Streams refused, because the limit was reached
        full: u64 = stats.sessions.refused => counter("proxy_full");
        /// Room for waiting octets of all streams, in each direction
        memory_octets: u64 = stats.octets_max => gauge("proxy_memory_octets");
        /// Stops of a stream for lack of memory
        starved: u64 = stats.sessions.starved => counter("proxy_starved");
        /// Datagrams with items taken in
        datagrams_in: u64 = stats.sessions.datagrams_in
            => counter("proxy_datagrams_in").head("in");
        /// Datagrams given to links
        datagrams_out: u64 = stats.sessions.datagrams_out
            => counter("proxy_datagrams_out").head("out");
        /// Octets of these, without headers of IP and UDP
        octets_out: u64 = stats.sessions.octets_out
            => counter("proxy_octets_out").head("octets out");
        /// Datagrams with repeated contents
        repaired: u64 = stats.sessions.repaired => counter("proxy_repaired").head("repaired");
        /// Duplicate datagrams
        duplicates: u64 = stats.sessions.duplicates => counter("proxy_duplicates");
        /// Invalid datagrams
        malformed: u64 = stats.sessions.malformed => counter("proxy_malformed");
        /// Datagrams for another incarnation, or from a partner before its hello
        strangers: u64 = stats.sessions.strangers => counter("proxy_strangers");
        /// Restarts of partners
        restarts: u64 = stats.sessions.restarts => counter("proxy_restarts").head("restarts");
    }
}

described! {
    /// A DNS proxy.
    pub struct Dns from stats: &DnsStats {
        /// Questions of clients
        questions: u64 = stats.questions => counter("dns_questions").head("questions");
        /// Questions answered from the cache
        hits: u64 = stats.hits => counter("dns_hits").head("known");
        /// Questions answered by expired answers
        stale: u64 = stats.stale => counter("dns_stale").head("stale");
        /// Questions already under way
        joined: u64 = stats.joined => counter("dns_joined").head("joined");
        /// Questions that their clients repeated
        repeats: u64 = stats.repeats => counter("dns_repeats").head("repeats");
        /// SERVFAIL answers for lack of an answer in time
        late: u64 = stats.late => counter("dns_late").head("late");
        /// Questions refused, because too many waited
        full: u64 = stats.full => counter("dns_full");
        /// Messages of clients outside `clients`
        refused: u64 = stats.refused => counter("dns_refused").head("refused");
        /// Answers truncated to protect forged clients
        cut: u64 = stats.own.cut => counter("dns_cut");
        /// Octets between clients and gateway, without headers of IP and UDP
        client_octets: u64 = stats.own.client_octets => counter("dns_client_octets").head("clients' octets");
        /// Invalid messages and frames
        malformed: u64 = stats.malformed => counter("dns_malformed");
        /// Questions sent across links
        asked: u64 = stats.asked => counter("dns_asked").head("asked");
        /// Questions sent across links again
        asked_again: u64 = stats.asked_again => counter("dns_asked_again").head("again");
        /// Questions given up without an answer
        lost: u64 = stats.lost => counter("dns_lost").head("lost");
        /// Answers of partners
        answered: u64 = stats.answered => counter("dns_answered").head("answered");
        /// Answers of partners without a question
        unasked: u64 = stats.unasked => counter("dns_unasked");
        /// Octets given to links, without headers of IP and UDP
        octets_out: u64 = stats.octets_out => counter("dns_octets_out").head("octets out");
        /// Octets that came by links
        octets_in: u64 = stats.octets_in => counter("dns_octets_in").head("octets in");
        /// Names and types in the cache
        known: u64 = stats.known => gauge("dns_known").head("cached");
        /// Octets of the cache
        known_octets: u64 = stats.known_octets => gauge("dns_known_octets");
        /// Names and types that left the cache for lack of room
        evicted: u64 = stats.evicted => counter("dns_evicted").head("evicted");
        /// Questions of partners
        served: u64 = stats.served => counter("dns_served").head("served");
        /// Questions that partners sent again
        served_again: u64 = stats.served_again => counter("dns_served_again");
        /// Refused questions of partners
        unserved: u64 = stats.unserved => counter("dns_unserved");
        /// Questions to resolvers
        resolved: u64 = stats.resolvers.resolved => counter("dns_resolved").head("resolved");
        /// Questions that resolvers left without an answer
        unanswered: u64 = stats.resolvers.unanswered => counter("dns_unanswered");
        /// Answers that don't match a question to a resolver
        forged: u64 = stats.resolvers.forged => counter("dns_forged");
        /// Questions of clients that rules answered
        ruled: u64 = stats.own.ruled => counter("dns_ruled").head("by rule");
        /// Questions answered by an address ahead
        ahead: u64 = stats.own.ahead => counter("dns_ahead").head("ahead");
        /// Packets translated from an address ahead
        translated: u64 = stats.own.translated => counter("dns_translated");
        /// Questions to partners about addresses ahead
        strange: u64 = stats.own.strange => counter("dns_strange");
        /// Changes reported to partners or by them, without a question
        changes: u64 = stats.fresh.changes => counter("dns_changes").head("changes");
        /// Names that partners keep fresh
        watched: u64 = stats.fresh.watched => gauge("dns_watched").head("kept fresh");
        /// Names that are kept fresh for partners
        watching: u64 = stats.fresh.watching => gauge("dns_watching");
        /// Questions repeated over TCP, because the answer was too long for a datagram
        resolved_by_stream: u64 = stats.resolvers.by_stream => counter("dns_resolved_by_stream");
    }
}

described! {
    /// Prefixes that the host is to reach by the node.
    pub struct Led from stats: &LedStats {
        /// Prefixes for which the host needs a route by the node
        wanted: u64 = stats.wanted => gauge("led_prefixes").head("wanted");
        /// Of these, those that are in the host's routing table
        there: u64 = stats.there => gauge("led_prefixes_there").head("present");
        /// Prefixes withdrawn from the host for lack of a path
        withdrawals: u64 = stats.withdrawals => counter("led_withdrawals").head("withdrawn");
        /// Prefixes that the host's routing table refused
        refusals: u64 = stats.refusals => counter("led_refusals").head("refused");
    }
}

described! {
    /// A message switch.
    pub struct Mail from stats: &MailStats {
        /// Messages stored and acknowledged
        accepted: u64 = stats.accepted => counter("mail_accepted").head("taken");
        /// Octets of their texts
        octets_in: u64 = stats.octets_in => counter("mail_octets_in");
        /// Octets of texts given to other switches
        octets_out: u64 = stats.octets_out => counter("mail_octets_out").head("octets out");
        /// Octets of these on the line, after compression
        octets_out_packed: u64 = stats.octets_out_packed => counter("mail_octets_out_packed").head("packed");
        /// Octets not sent again when an interrupted message resumed
        resumed_octets: u64 = stats.slow.resumed_octets => counter("mail_resumed_octets");
        /// Repeated messages that were recognised
        repeats: u64 = stats.repeats => counter("mail_repeats");
        /// Messages whose text was sent first
        texts_first: u64 = stats.slow.texts_first => counter("mail_texts_first");
        /// Polls by next hops
        polls: u64 = stats.slow.polls => counter("mail_polls");
        /// Complete messages that were refused
        refused: u64 = stats.refused => counter("mail_refused").head("refused");
        /// Refused clients
        strangers: u64 = stats.strangers => counter("mail_strangers");
        /// Wrong names or passwords
        wrong_passwords: u64 = stats.wrong_passwords => counter("mail_wrong_passwords").head("wrong passwords");
        /// Copies in mailboxes
        delivered: u64 = stats.delivered => counter("mail_delivered").head("delivered");
        /// Recipients whose message another switch accepted
        relayed: u64 = stats.relayed => counter("mail_relayed").head("relayed");
        /// Recipients whose message failed
        failed: u64 = stats.failed => counter("mail_failed").head("failed");
        /// Recipients deferred
        deferred: u64 = stats.deferred => counter("mail_deferred").head("later");
        /// Reports made
        reports: u64 = stats.reports => counter("mail_reports").head("reports");
        /// Failures without a report
        untold: u64 = stats.untold => counter("mail_untold");
        /// Connections to other switches
        connections: u64 = stats.connections => counter("mail_connections").head("connected");
        /// Connections to other switches that broke or were refused
        broken: u64 = stats.broken => counter("mail_broken").head("broken");
        /// Interruptions of a message for a higher one
        paused: u64 = stats.paused => counter("mail_paused").head("paused");
        /// Messages moved to another next hop
        moved: u64 = stats.moved => counter("mail_moved").head("moved");
        /// Next hops that are out, so that others have their messages
        hops_out: u64 = stats.hops_out => gauge("mail_hops_out").head("hops out");
        /// Batches that couldn't be stored at once
        unstored: u64 = stats.unstored => counter("mail_unstored");
        /// Stored envelopes that couldn't be read
        unreadable: u64 = stats.unreadable => counter("mail_unreadable");
        /// Messages that exceed the time limit of their precedence
        overdue: u64 = stats.overdue => gauge("mail_overdue").head("overdue");
        /// The least precedence sent to other switches (0: all)
        minimize: u64 = stats.minimize => gauge("mail_minimize");
        /// Stored Deferred messages
        deferred_here: u64 = stats.waiting[0] => gauge("mail_deferred_here");
        /// Stored Routine messages
        routine_here: u64 = stats.waiting[1] => gauge("mail_routine_here");
        /// Stored Priority messages
        priority_here: u64 = stats.waiting[2] => gauge("mail_priority_here");
        /// Stored Immediate messages
        immediate_here: u64 = stats.waiting[3] => gauge("mail_immediate_here");
        /// Stored Flash messages
        flash_here: u64 = stats.waiting[4] => gauge("mail_flash_here");
        /// Stored Override messages
        override_here: u64 = stats.waiting[5] => gauge("mail_override_here");
    }
}

described! {
    /// A router of a mobile network.
    pub struct Olsr from stats: &OlsrStats {
        /// Neighbours that hear the router
        neighbours: u64 = stats.neighbours => gauge("olsr_neighbours").head("hear it");
        /// Of these, its relays
        relays: u64 = stats.relays => gauge("olsr_relays").head("relays");
        /// Neighbours that it relays for
        selectors: u64 = stats.selectors => gauge("olsr_selectors").head("relay for");
        /// Learned routes
        routes: u64 = stats.routes => gauge("olsr_routes").head("routes");
        /// Changes of routes
        changes: u64 = stats.changes => counter("olsr_route_changes").head("changes");
        /// Packets sent
        packets_out: u64 = stats.packets_out => counter("olsr_packets_out").head("sent");
        /// Octets of their payloads
        octets_out: u64 = stats.octets_out => counter("olsr_octets_out").head("octets");
        /// Packets that came, copies not counted
        packets_in: u64 = stats.packets_in => counter("olsr_packets_in").head("heard");
        /// Packets, or messages in them, that can't be read
        malformed: u64 = stats.malformed => counter("olsr_malformed");
        /// Messages of others passed on
        forwarded: u64 = stats.forwarded => counter("olsr_forwarded").head("passed on");
        /// Messages of others not passed on for lack of room
        crowded: u64 = stats.crowded => counter("olsr_crowded");
        /// Neighbours lost by reports of the medium
        noticed: u64 = stats.noticed => counter("olsr_noticed").head("noticed");
    }
}
