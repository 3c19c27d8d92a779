//! TLS as the simulated world has it: its records, its flights and what is verified, and no
//! cryptography. Octets go in the clear inside records that are as long as real ones; who is
//! whose issuer and whose time is over is said, not computed.
//!
//! Lengths are those of TLS 1.3 with AES-256-GCM, SHA-384, X25519 and ECDSA on P-256, and of TLS
//! 1.2 with the same, without tickets: what both sides are where the live driver is at either end.
//! A server may give tickets by TLS 1.3, with which a later connection needs no certificate.

use strait_core::Duration;
use strait_core::tls::{
    HANDSHAKE, HANDSHAKE_OCTETS_MAX, RECORD_OCTETS_MAX, TlsFault, TlsRole, TlsVersion,
};
use strait_node::config::{ClientCertificate, TlsConfig};
use strait_tcp::TcpEndpoint;

/// Octets read from a connection at a time.
const CHUNK_OCTETS: usize = 4096;

/// A record's header.
const HEADER_OCTETS: usize = 5;
/// What a record may have beside its content (RFC 5246 section 6.2.3, less there in RFC 8446).
const EXPANSION_OCTETS_MAX: usize = 256;

/// Types of records (RFC 8446 section 5.1).
const CHANGE: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE_TYPE: u8 = 22;
const DATA: u8 = 23;

/// What a record of a handshake is.
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const SERVER_FLIGHT: u8 = 8;
const CLIENT_FLIGHT: u8 = 20;
const SERVER_DONE: u8 = 21;
const TICKET: u8 = 4;

/// Lengths of records, with their headers, and without what is the sides' own: names, certificates.
mod octets {
    pub(super) const CLIENT_HELLO: usize = 205;
    pub(super) const SERVER_HELLO: usize = 127;
    /// Without shares of keys.
    pub(super) const CLIENT_HELLO_1_2: usize = 150;
    pub(super) const SERVER_HELLO_1_2: usize = 75;
    pub(super) const CHANGE: usize = 6;
    /// Extensions, certificate, signature, the end; of TLS 1.2 the same with the key's share.
    pub(super) const SERVER_FLIGHT: usize = 185;
    pub(super) const SERVER_FLIGHT_1_2: usize = 134;
    /// That a certificate is wanted.
    pub(super) const REQUEST: usize = 60;
    pub(super) const CLIENT_FLIGHT: usize = 74;
    pub(super) const CLIENT_FLIGHT_1_2: usize = 87;
    /// A client's signature.
    pub(super) const SIGNATURE: usize = 85;
    pub(super) const SERVER_DONE: usize = 45;
    /// A ticket as OpenSSL gives it, in a record of its own.
    pub(super) const TICKET: usize = 255;
    /// A ticket with what proves it, and that it was taken.
    pub(super) const SHOWN_TICKET: usize = 271;
    pub(super) const TAKEN_TICKET: usize = 6;
    /// Extensions and the end.
    pub(super) const RESUMED_FLIGHT: usize = 102;
    pub(super) const ALERT: usize = 7;
}

/// A certificate, as far as others look at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificate {
    /// The hosts that it is for; any, if nobody has said.
    pub names: Vec<String>,
    /// Who has issued it.
    pub issuer: String,
    /// Its time is over.
    pub expired: bool,
    /// Its octets, with those that lead to its issuer.
    pub octets: usize,
}

/// What a side shows, and whom it trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What it shows.
    pub certificate: Option<Certificate>,
    /// The issuers that it trusts, if it verifies others at all.
    pub trusts: Option<Vec<String>>,
    /// Whether it wants to see clients' certificates.
    pub asks: ClientCertificate,
    /// The oldest version that it takes.
    pub oldest: TlsVersion,
    /// The newest that it has.
    pub newest: TlsVersion,
    /// How long both sides may take until they are secured.
    pub patience: Duration,
    /// Tickets that a server gives once it is secured by TLS 1.3; where it took one, one.
    pub tickets: u8,
}

impl Profile {
    /// One that trusts these issuers, and shows nothing.
    pub fn trusting(trusts: Vec<String>) -> Self {
        Self {
            certificate: None,
            trusts: Some(trusts),
            asks: ClientCertificate::None,
            oldest: TlsVersion::V1_2,
            newest: TlsVersion::V1_3,
            patience: HANDSHAKE,
            tickets: 0,
        }
    }

    /// As in a node file. No file that it names is read: all have one issuer, whom all trust who
    /// trust anybody.
    pub fn of(config: &TlsConfig) -> Self {
        let certificate = config.certificate.as_ref().map(|_| Certificate {
            names: config.names.clone(),
            octets: config.chain_octets(),
            ..Certificate::default()
        });
        Self {
            certificate,
            trusts: config.trust.as_ref().map(|_| vec![String::new()]),
            asks: config.client_certificate,
            oldest: config.oldest.0,
            newest: TlsVersion::V1_3,
            patience: config.patience(),
            tickets: 0,
        }
    }

    /// Whether it takes a certificate, of one with this name if that matters.
    fn verify(&self, shown: &Certificate, name: Option<&str>) -> Result<(), TlsFault> {
        let fits = |name: &str| shown.names.is_empty() || shown.names.iter().any(|it| it == name);
        if shown.expired {
            return Err(TlsFault::Expired);
        }
        if !self.trusts.iter().flatten().any(|it| *it == shown.issuer) {
            return Err(TlsFault::Issuer);
        }
        if !name.is_none_or(fits) {
            return Err(TlsFault::Name);
        }
        Ok(())
    }
}

/// Whom a stream is secured with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secured {
    /// As [`StreamEvent::Secured`](strait_core::node::StreamEvent::Secured) says it.
    pub peer: Option<String>,
    /// The version that both agreed on.
    pub version: TlsVersion,
}

/// What comes next from the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaits {
    Hello,
    Flight,
    Done,
    Data,
}

/// One side of a connection with TLS.
#[derive(Clone, Debug)]
pub struct Session {
    profile: Profile,
    role: TlsRole,
    awaits: Awaits,
    version: TlsVersion,
    /// The beginning of a record.
    partial: Vec<u8>,
    /// Octets that came before both were secured.
    arrived: usize,
    /// The server wants to see a certificate.
    wanted: bool,
    secured: Option<Secured>,
    /// By a ticket, which says who the server is.
    resumed: bool,
    /// Tickets that came.
    tickets: u8,
    /// What stands in records behind what they say.
    fill: u64,
    /// For the other side, in records.
    out: Vec<u8>,
    /// From the other side, in the clear.
    clear: Vec<u8>,
    theirs_ended: bool,
}

impl Session {
    /// One that begins.
    ///
    /// # Errors
    /// The profile lacks what the role needs.
    pub fn new(profile: &Profile, role: &TlsRole) -> Result<Self, TlsFault> {
        Self::begin(profile, role, false)
    }

    /// A client that has a ticket of its server.
    ///
    /// # Errors
    /// As above.
    pub fn resume(profile: &Profile, role: &TlsRole) -> Result<Self, TlsFault> {
        Self::begin(profile, role, true)
    }

    fn begin(profile: &Profile, role: &TlsRole, ticket: bool) -> Result<Self, TlsFault> {
        let able = match role {
            TlsRole::Server => profile.certificate.is_some(),
            TlsRole::Client { .. } => profile.trusts.is_some(),
        };
        if !able {
            return Err(TlsFault::Profile);
        }
        let mut session = Self {
            profile: profile.clone(),
            role: role.clone(),
            awaits: Awaits::Hello,
            version: profile.newest,
            partial: Vec::new(),
            arrived: 0,
            wanted: false,
            secured: None,
            resumed: false,
            tickets: 0,
            fill: 1,
            out: Vec::new(),
            clear: Vec::new(),
            theirs_ended: false,
        };
        if let TlsRole::Client { name } = role {
            let version = version_number(profile.newest);
            let facts = [&[version, u8::from(ticket)], &text(name)[..]].concat();
            let shown = octets::SHOWN_TICKET * usize::from(ticket);
            let octets = match profile.newest {
                TlsVersion::V1_2 => octets::CLIENT_HELLO_1_2,
                TlsVersion::V1_3 => octets::CLIENT_HELLO,
            };
            session.say(CLIENT_HELLO, octets + name.len() + shown, &facts);
        }
        Ok(session)
    }

    /// Whether both are secured.
    pub fn is_secured(&self) -> bool {
        self.awaits == Awaits::Data
    }

    /// Whom it is secured with, once.
    pub fn take_secured(&mut self) -> Option<Secured> {
        self.secured.take()
    }

    /// How many tickets came since it was asked last.
    pub fn take_tickets(&mut self) -> u8 {
        std::mem::take(&mut self.tickets)
    }

    /// Clear octets that came.
    pub fn take_clear(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.clear)
    }

    /// Whether there are records for the other side.
    pub const fn has_out(&self) -> bool {
        !self.out.is_empty()
    }

    /// Records for the other side.
    pub fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// The other side has said that it has said all.
    pub const fn has_ended(&self) -> bool {
        self.theirs_ended
    }

    /// Makes records of clear octets, once both are secured.
    pub fn seal(&mut self, clear: &[u8]) {
        for content in clear.chunks(RECORD_OCTETS_MAX) {
            let octets = self.sealed(content.len());
            self.put(DATA, octets, content);
        }
    }

    /// Says that all has been said.
    pub fn close(&mut self) {
        let octets = self.sealed(2);
        self.put(ALERT, octets, &[1, 0]);
    }

    /// Takes octets from the other side.
    ///
    /// # Errors
    /// What is wrong; what the other side is told of that has been made.
    pub fn take(&mut self, octets: &[u8]) -> Result<(), TlsFault> {
        let taken = self.take_records(octets);
        if taken.is_err() && taken != Err(TlsFault::Refused) {
            self.put(ALERT, octets::ALERT, &[2, 0]);
        }
        taken
    }

    fn take_records(&mut self, octets: &[u8]) -> Result<(), TlsFault> {
        let first = self.arrived == 0;
        if !self.is_secured() {
            self.arrived += octets.len();
        }
        self.partial.extend_from_slice(octets);
        while let Some(header) = self.partial.first_chunk::<HEADER_OCTETS>() {
            let [kind, major, _, high, low] = *header;
            if !(CHANGE..=DATA).contains(&kind) || major != 3 {
                let clear = first && !self.is_secured();
                return Err([TlsFault::Protocol, TlsFault::Clear][usize::from(clear)]);
            }
            let length = usize::from(u16::from_be_bytes([high, low]));
            if length > RECORD_OCTETS_MAX + EXPANSION_OCTETS_MAX {
                return Err(TlsFault::Protocol);
            }
            if self.partial.len() < HEADER_OCTETS + length {
                break;
            }
            let rest = self.partial.split_off(HEADER_OCTETS + length);
            let record = std::mem::replace(&mut self.partial, rest);
            self.take_record(kind, &record[HEADER_OCTETS..])?;
        }
        let long = !self.is_secured() && self.arrived > HANDSHAKE_OCTETS_MAX;
        if long { Err(TlsFault::Long) } else { Ok(()) }
    }

    fn take_record(&mut self, kind: u8, body: &[u8]) -> Result<(), TlsFault> {
        // A record says first how much of it is content.
        let broken = TlsFault::Protocol;
        let (length, body) = body.split_first_chunk().ok_or(broken)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let content = body.get(..length).ok_or(broken)?;
        match kind {
            // Whatever follows the end is nobody's.
            _ if self.theirs_ended => Ok(()),
            CHANGE => Ok(()),
            ALERT if content == [1, 0] && self.is_secured() => {
                self.theirs_ended = true;
                Ok(())
            }
            ALERT => Err(TlsFault::Refused),
            DATA if self.is_secured() => {
                self.clear.extend_from_slice(content);
                Ok(())
            }
            HANDSHAKE_TYPE => self.hear(content),
            _ => Err(broken),
        }
    }

    fn hear(&mut self, content: &[u8]) -> Result<(), TlsFault> {
        let mut facts = Facts(content);
        let what = facts.octet()?;
        match (&self.role, self.awaits, what) {
            (TlsRole::Server, Awaits::Hello, CLIENT_HELLO) => self.hear_client(&mut facts),
            (TlsRole::Server, Awaits::Flight, CLIENT_FLIGHT) => self.hear_client_flight(&mut facts),
            (TlsRole::Client { .. }, Awaits::Hello, SERVER_HELLO) => {
                self.version = facts.version()?;
                if self.version < self.profile.oldest {
                    return Err(TlsFault::Protocol);
                }
                self.awaits = Awaits::Flight;
                Ok(())
            }
            (TlsRole::Client { name }, Awaits::Flight, SERVER_FLIGHT) => {
                let name = name.clone();
                self.hear_server_flight(&mut facts, name)
            }
            (TlsRole::Client { name }, Awaits::Done, SERVER_DONE) => {
                let name = name.clone();
                self.be_secured(Some(name));
                Ok(())
            }
            (TlsRole::Client { .. }, Awaits::Data, TICKET) => {
                self.tickets = self.tickets.saturating_add(1);
                Ok(())
            }
            _ => Err(TlsFault::Protocol),
        }
    }

    fn hear_client(&mut self, facts: &mut Facts<'_>) -> Result<(), TlsFault> {
        self.version = facts.version()?.min(self.profile.newest);
        if self.version < self.profile.oldest {
            return Err(TlsFault::Protocol);
        }
        let ticket = facts.octet()? != 0;
        self.resumed = ticket && self.version == TlsVersion::V1_3 && self.profile.tickets > 0;
        let resumed = usize::from(self.resumed);
        let asks = self.profile.asks != ClientCertificate::None && !self.resumed;
        let own = self.profile.certificate.clone().unwrap_or_default();
        let (hello, flight) = match self.version {
            TlsVersion::V1_2 => (octets::SERVER_HELLO_1_2, octets::SERVER_FLIGHT_1_2),
            TlsVersion::V1_3 => (octets::SERVER_HELLO, octets::SERVER_FLIGHT),
        };
        let flight = match self.resumed {
            true => octets::RESUMED_FLIGHT,
            false => flight + own.octets + octets::REQUEST * usize::from(asks),
        };
        let hello = hello + octets::TAKEN_TICKET * resumed;
        self.say(SERVER_HELLO, hello, &[version_number(self.version)]);
        if self.version == TlsVersion::V1_3 {
            self.put(CHANGE, octets::CHANGE, &[]);
        }
        let mut facts = vec![u8::from(asks), u8::from(self.resumed)];
        if !self.resumed {
            facts.extend(facts_of(&own));
        }
        self.say(SERVER_FLIGHT, flight, &facts);
        self.awaits = Awaits::Flight;
        Ok(())
    }

    fn hear_server_flight(&mut self, facts: &mut Facts<'_>, name: String) -> Result<(), TlsFault> {
        self.wanted = facts.octet()? != 0;
        self.resumed = facts.octet()? != 0;
        if !self.resumed {
            let shown = facts.certificate()?;
            self.profile.verify(&shown, Some(&name))?;
        }
        let own = self.profile.certificate.clone().filter(|_| self.wanted);
        let flight = match self.version {
            TlsVersion::V1_2 => octets::CLIENT_FLIGHT_1_2,
            TlsVersion::V1_3 => octets::CLIENT_FLIGHT,
        };
        let own_octets = own.as_ref().map_or(0, |it| it.octets + octets::SIGNATURE);
        let facts = own
            .as_ref()
            .map_or_else(|| vec![0], |it| [&[1], &facts_of(it)[..]].concat());
        self.put(CHANGE, octets::CHANGE, &[]);
        self.say(CLIENT_FLIGHT, flight + own_octets, &facts);
        match self.version {
            TlsVersion::V1_2 => self.awaits = Awaits::Done,
            TlsVersion::V1_3 => self.be_secured(Some(name)),
        }
        Ok(())
    }

    fn hear_client_flight(&mut self, facts: &mut Facts<'_>) -> Result<(), TlsFault> {
        let shown = match facts.octet()? {
            0 => None,
            _ => Some(facts.certificate()?),
        };
        let required = self.profile.asks == ClientCertificate::Required && !self.resumed;
        if shown.is_none() && required {
            return Err(TlsFault::Missing);
        }
        if let Some(shown) = &shown {
            self.profile.verify(shown, None)?;
        }
        if self.version == TlsVersion::V1_2 {
            self.put(CHANGE, octets::CHANGE, &[]);
            self.say(SERVER_DONE, octets::SERVER_DONE, &[]);
        }
        self.be_secured(shown.and_then(|it| it.names.first().cloned()));
        let tickets = match (self.version, self.resumed) {
            (TlsVersion::V1_2, _) => 0,
            (TlsVersion::V1_3, true) => 1,
            (TlsVersion::V1_3, false) => self.profile.tickets,
        };
        (0..tickets).for_each(|_| self.say(TICKET, octets::TICKET, &[]));
        Ok(())
    }

    fn be_secured(&mut self, peer: Option<String>) {
        self.awaits = Awaits::Data;
        let version = self.version;
        self.secured = Some(Secured { peer, version });
    }

    /// The octets of a record with so many of content.
    const fn sealed(&self, content: usize) -> usize {
        let expansion = match self.version {
            // An explicit nonce and the check; the type and the check.
            TlsVersion::V1_2 => 8 + 16,
            TlsVersion::V1_3 => 1 + 16,
        };
        HEADER_OCTETS + content + expansion
    }

    fn say(&mut self, what: u8, octets: usize, facts: &[u8]) {
        self.put(HANDSHAKE_TYPE, octets, &[&[what], facts].concat());
    }

    /// Puts a record of so many octets, or as many as its content takes.
    fn put(&mut self, kind: u8, octets: usize, content: &[u8]) {
        let begun = self.out.len();
        let octets = octets.max(HEADER_OCTETS + 2 + content.len());
        let body = ((octets - HEADER_OCTETS) as u16).to_be_bytes();
        let length = (content.len() as u16).to_be_bytes();
        self.out
            .extend([kind, 3, 3, body[0], body[1], length[0], length[1]]);
        self.out.extend_from_slice(content);
        // Real ones can't be compressed.
        while self.out.len() < begun + octets {
            self.fill = self
                .fill
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            self.out.push((self.fill >> 56) as u8);
        }
    }
}

const fn version_number(version: TlsVersion) -> u8 {
    match version {
        TlsVersion::V1_2 => 2,
        TlsVersion::V1_3 => 3,
    }
}

fn text(text: &str) -> Vec<u8> {
    let octets = &text.as_bytes()[..text.len().min(255)];
    [&[octets.len() as u8], octets].concat()
}

fn facts_of(certificate: &Certificate) -> Vec<u8> {
    let names = &certificate.names[..certificate.names.len().min(255)];
    let mut facts = vec![u8::from(certificate.expired)];
    facts.extend(text(&certificate.issuer));
    facts.push(names.len() as u8);
    facts.extend(names.iter().flat_map(|name| text(name)));
    facts
}

/// What a record says.
struct Facts<'a>(&'a [u8]);

impl Facts<'_> {
    fn octet(&mut self) -> Result<u8, TlsFault> {
        let (first, rest) = self.0.split_first().ok_or(TlsFault::Protocol)?;
        self.0 = rest;
        Ok(*first)
    }

    fn version(&mut self) -> Result<TlsVersion, TlsFault> {
        match self.octet()? {
            2 => Ok(TlsVersion::V1_2),
            3 => Ok(TlsVersion::V1_3),
            _ => Err(TlsFault::Protocol),
        }
    }

    fn text(&mut self) -> Result<String, TlsFault> {
        let length = usize::from(self.octet()?);
        let (octets, rest) = self.0.split_at_checked(length).ok_or(TlsFault::Protocol)?;
        self.0 = rest;
        let text = std::str::from_utf8(octets).map_err(|_| TlsFault::Protocol)?;
        Ok(text.into())
    }

    fn certificate(&mut self) -> Result<Certificate, TlsFault> {
        let expired = self.octet()? != 0;
        let issuer = self.text()?;
        let count = self.octet()?;
        let names = (0..count).map(|_| self.text()).collect::<Result<_, _>>()?;
        Ok(Certificate {
            names,
            issuer,
            expired,
            octets: 0,
        })
    }
}

/// A program's end of a connection with TLS.
#[derive(Clone, Debug)]
pub struct Line {
    session: Session,
    /// Records that the connection hasn't taken yet.
    wire: Vec<u8>,
    ending: bool,
    ended: bool,
}

impl Line {
    /// One that begins.
    ///
    /// # Errors
    /// The profile lacks what the role needs.
    pub fn new(profile: &Profile, role: &TlsRole) -> Result<Self, TlsFault> {
        Session::new(profile, role).map(Self::of)
    }

    /// One of a session that begins.
    pub const fn of(session: Session) -> Self {
        Self {
            session,
            wire: Vec::new(),
            ending: false,
            ended: false,
        }
    }

    /// The session itself.
    pub const fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Moves records both ways, and appends the clear octets that came to `into`.
    ///
    /// # Errors
    /// What is wrong. The connection is at its end then.
    pub fn work(
        &mut self,
        endpoint: &mut dyn TcpEndpoint,
        into: &mut Vec<u8>,
    ) -> Result<(), TlsFault> {
        let mut chunk = [0; CHUNK_OCTETS];
        loop {
            let octets = endpoint.recv(&mut chunk);
            if octets == 0 {
                break;
            }
            let taken = self.session.take(&chunk[..octets]);
            into.extend(self.session.take_clear());
            if taken.is_err() {
                self.flush(endpoint);
                endpoint.close();
                return taken;
            }
        }
        self.flush(endpoint);
        if endpoint.is_drained() && !self.session.has_ended() {
            endpoint.abort();
            return Err(TlsFault::Truncated);
        }
        Ok(())
    }

    /// Sends a record of these octets if nothing waits and both are secured; how many are in it.
    pub fn send(&mut self, endpoint: &mut dyn TcpEndpoint, octets: &[u8]) -> usize {
        if !self.wire.is_empty() || !self.session.is_secured() || self.ending {
            return 0;
        }
        let count = octets.len().min(RECORD_OCTETS_MAX);
        self.session.seal(&octets[..count]);
        self.flush(endpoint);
        count
    }

    /// Says that all has been said, and ends its direction.
    pub fn close(&mut self, endpoint: &mut dyn TcpEndpoint) {
        if !std::mem::replace(&mut self.ending, true) {
            self.session.close();
        }
        self.flush(endpoint);
    }

    /// Sends what waits, as far as the connection takes it.
    pub fn flush(&mut self, endpoint: &mut dyn TcpEndpoint) {
        self.wire.extend(self.session.take_out());
        let taken = endpoint.send(&self.wire);
        self.wire.drain(..taken);
        if self.ending && self.wire.is_empty() && !std::mem::replace(&mut self.ended, true) {
            endpoint.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(name: &str) -> Certificate {
        Certificate {
            names: vec![name.into()],
            issuer: "authority".into(),
            octets: 1000,
            ..Certificate::default()
        }
    }

    fn trusting() -> Profile {
        Profile::trusting(vec!["authority".into()])
    }

    fn serving(certificate: Certificate) -> Profile {
        Profile {
            certificate: Some(certificate),
            ..trusting()
        }
    }

    fn client(profile: &Profile) -> Session {
        let name = "a.example".into();
        Session::new(profile, &TlsRole::Client { name }).unwrap()
    }

    fn server(profile: &Profile) -> Session {
        Session::new(profile, &TlsRole::Server).unwrap()
    }

    /// Moves records until nothing is left: what each found wrong, and how often the client's
    /// waited for the server's before it was secured.
    fn talk(ends: [&mut Session; 2]) -> ([Result<(), TlsFault>; 2], u32) {
        let [client, server] = ends;
        let (mut found, mut trips) = ([Ok(()); 2], 0);
        loop {
            let to = client.take_out();
            if to.is_empty() {
                return (found, trips);
            }
            found[1] = found[1].and_then(|()| server.take(&to));
            let back = server.take_out();
            trips += u32::from(!client.is_secured() && !back.is_empty());
            found[0] = found[0].and_then(|()| client.take(&back));
        }
    }

    #[test]
    fn both_are_secured_after_one_round_trip_or_two() {
        for (newest, expected) in [(TlsVersion::V1_3, 1), (TlsVersion::V1_2, 2)] {
            let mut one = client(&Profile {
                newest,
                ..trusting()
            });
            let mut other = server(&serving(certificate("a.example")));
            let (found, trips) = talk([&mut one, &mut other]);
            assert_eq!((found, trips), ([Ok(()); 2], expected));
            let secured = |peer: Option<&str>| {
                Some(Secured {
                    peer: peer.map(Into::into),
                    version: newest,
                })
            };
            assert_eq!(one.take_secured(), secured(Some("a.example")));
            assert_eq!(other.take_secured(), secured(None));
            one.seal(b"question");
            one.close();
            let records = one.take_out();
            other.take(&records).unwrap();
            assert_eq!(
                (other.take_clear(), other.has_ended()),
                (b"question".to_vec(), true)
            );
        }
    }

    #[test]
    fn who_is_verified_is_told_and_who_is_not_is_refused() {
        let asking = |asks| Profile {
            asks,
            ..serving(certificate("a.example"))
        };
        let shows = serving(certificate("client.example"));
        for (asks, shows, peer) in [
            (ClientCertificate::None, &shows, Ok(None)),
            (ClientCertificate::Wanted, &trusting(), Ok(None)),
            (
                ClientCertificate::Wanted,
                &shows,
                Ok(Some("client.example")),
            ),
            (
                ClientCertificate::Required,
                &shows,
                Ok(Some("client.example")),
            ),
            (
                ClientCertificate::Required,
                &trusting(),
                Err(TlsFault::Missing),
            ),
        ] {
            let (mut one, mut other) = (client(shows), server(&asking(asks)));
            let ([refused, found], _) = talk([&mut one, &mut other]);
            assert_eq!(found, peer.map(|_| ()));
            assert_eq!(refused, peer.map(|_| ()).map_err(|_| TlsFault::Refused));
            let told = other.take_secured().map(|it| it.peer);
            assert_eq!(told.as_ref().map(Option::as_deref), peer.ok());
        }
    }

    #[test]
    fn a_wrong_certificate_is_refused_for_what_is_wrong() {
        let right = certificate("a.example");
        let other = Certificate {
            issuer: "elsewhere".into(),
            ..right.clone()
        };
        let expired = Certificate {
            expired: true,
            ..right.clone()
        };
        for (shown, fault) in [
            (certificate("b.example"), TlsFault::Name),
            (other, TlsFault::Issuer),
            (expired, TlsFault::Expired),
        ] {
            let (mut one, mut far) = (client(&trusting()), server(&serving(shown)));
            let (found, _) = talk([&mut one, &mut far]);
            assert_eq!(found, [Err(fault), Err(TlsFault::Refused)]);
        }
        let new = Profile {
            oldest: TlsVersion::V1_3,
            ..serving(right)
        };
        let old = Profile {
            newest: TlsVersion::V1_2,
            ..trusting()
        };
        let (found, _) = talk([&mut client(&old), &mut server(&new)]);
        assert_eq!(found, [Err(TlsFault::Refused), Err(TlsFault::Protocol)]);
    }

    #[test]
    fn who_has_a_ticket_needs_no_certificate() {
        let gives = Profile {
            tickets: 2,
            ..serving(certificate("a.example"))
        };
        let role = TlsRole::Client {
            name: "a.example".into(),
        };
        let again = || Session::resume(&trusting(), &role).unwrap();
        // Octets of the server until both are secured.
        let octets = |client: &mut Session, mut server: Session| {
            server.take(&client.take_out()).unwrap();
            let flight = server.take_out();
            client.take(&flight).unwrap();
            server.take(&client.take_out()).unwrap();
            client.take(&server.take_out()).unwrap();
            assert!(client.is_secured() && server.is_secured());
            flight.len()
        };
        let mut first = client(&trusting());
        let whole = octets(&mut first, server(&gives));
        assert_eq!((first.take_tickets(), first.take_tickets()), (2, 0));
        let mut second = again();
        assert!(octets(&mut second, server(&gives)) + 1000 < whole);
        assert_eq!(second.take_tickets(), 1);
        // Who gives none takes none.
        let strict = serving(certificate("a.example"));
        assert_eq!(octets(&mut again(), server(&strict)), whole);
    }

    #[test]
    fn what_is_no_tls_is_told_from_what_is_wrong_in_it() {
        let session = || server(&serving(certificate("a.example")));
        assert_eq!(session().take(b"EHLO you\r\n"), Err(TlsFault::Clear));
        assert_eq!(
            session().take(&[22, 3, 3, 0xff, 0xff]),
            Err(TlsFault::Protocol)
        );
        let mut endless = session();
        let idle = [&[CHANGE, 3, 3, 0x20, 0][..], &[0; 0x2000]].concat();
        let last = (0..9).map(|_| endless.take(&idle)).find(Result::is_err);
        assert_eq!(last, Some(Err(TlsFault::Long)));
    }

    proptest::proptest! {
        #[test]
        fn no_octets_panic(octets: Vec<u8>, at in 0..600_usize, mask: u8) {
            let mut session = server(&serving(certificate("a.example")));
            let _ = session.take(&octets);
            let mut one = client(&trusting());
            let mut hello = one.take_out();
            let place = at % hello.len();
            hello[place] ^= mask;
            let mut other = server(&serving(certificate("a.example")));
            let _ = other.take(&hello);
            let _ = one.take(&other.take_out());
        }
    }
}
