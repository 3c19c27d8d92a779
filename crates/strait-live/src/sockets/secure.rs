//! TLS on a connection: records of the other side to clear octets, and clear octets to records.
//!
//! What waits here is never more than one record each way, beside what waits in the clear.

use std::io::{self, Read, Write};

use rustls::{CertificateError, Connection, Error, InvalidMessage, ProtocolVersion};
use socket2::Socket;
use strait_core::time::Duration;
use strait_core::tls::{HANDSHAKE_OCTETS_MAX, RECORD_OCTETS_MAX, TlsFault, TlsRole, TlsVersion};

use super::connection::{Intake, until_done};

/// Records that TLS 1.2 may write by one key (RFC 5246 renews none): behind 2^24 of AES-GCM the
/// session says its end and loses what it is given.
const RECORDS_MAX: u64 = (1 << 24) - 16;

/// Reads of the socket for one record: each gives 4096 octets at most.
const READS_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Secure {
    session: Connection,
    role: TlsRole,
    /// Of what waits to be sent, the first so many octets go in the clear.
    clear: usize,
    /// Octets that came since there was something for the node.
    arrived: usize,
    /// Records with octets of the node, where their number has a limit.
    records: u64,
    records_max: u64,
    /// Both are secured, and the node knows.
    told: bool,
    /// Clear octets that the node hasn't taken.
    pending: usize,
    /// The other side has said that it has said all; we have.
    theirs_ended: bool,
    ours_ended: bool,
    /// How long it may take until both are secured.
    pub(super) patience: Duration,
}

impl Secure {
    /// Behind so many octets that wait to be sent in the clear.
    pub(super) fn new(
        session: Connection,
        role: TlsRole,
        clear: usize,
        patience: Duration,
    ) -> Self {
        Self {
            session,
            role,
            clear,
            arrived: 0,
            records: 0,
            records_max: RECORDS_MAX,
            told: false,
            pending: 0,
            theirs_ended: false,
            ours_ended: false,
            patience,
        }
    }

    /// Both are secured.
    pub(super) const fn is_there(&self) -> bool {
        self.told
    }

    /// Records have to come before there is anything for the node.
    pub(super) const fn needs_more(&self) -> bool {
        self.pending == 0 && !self.theirs_ended
    }

    /// There is something for the node, which takes so many octets, without more records.
    pub(super) fn is_ripe(&self, takes: usize) -> bool {
        let octets = self.pending > 0 && takes > 0;
        octets || self.pending == 0 && self.theirs_ended || self.is_news()
    }

    fn is_news(&self) -> bool {
        !self.told && !self.session.is_handshaking()
    }

    /// There is something to give to the socket, where so many octets wait and their end or not.
    pub(super) fn writes(&self, waiting: usize, ending: bool) -> bool {
        let octets = waiting > 0 && (self.clear > 0 || self.told);
        octets || self.session.wants_write() || self.told && ending && !self.ours_ended
    }

    /// The other side has been given all, and told so.
    pub(super) fn has_said_all(&self) -> bool {
        self.ours_ended && !self.session.wants_write()
    }

    /// Reads a record from the socket; something for the node, which takes so many octets.
    pub(super) fn read(&mut self, socket: &Socket, takes: usize) -> io::Result<Intake> {
        for _ in 0..READS_MAX {
            if !self.needs_more() || self.is_news() {
                break;
            }
            let mut from = socket;
            let octets = match until_done(self.session.read_tls(&mut from)) {
                Ok(None) => break,
                // An end that nobody said is somebody else's, perhaps.
                Ok(Some(0)) => return Err(fault(TlsFault::Truncated)),
                Ok(Some(octets)) => octets,
                // A message that is longer than any may be.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(fault(TlsFault::Long));
                }
                Err(error) => return Err(error),
            };
            self.process(socket, octets)?;
        }
        if self.is_news() {
            self.told = true;
            return Ok(Intake::Secured {
                peer: self.peer(),
                version: self.version(),
            });
        }
        if self.pending > 0 && takes > 0 {
            let mut buffer = vec![0; takes.min(self.pending).min(RECORD_OCTETS_MAX)];
            let octets = self.session.reader().read(&mut buffer)?;
            self.pending -= octets;
            buffer.truncate(octets);
            return Ok(Intake::Octets(buffer));
        }
        let ended = self.pending == 0 && self.theirs_ended;
        Ok(if ended { Intake::End } else { Intake::Nothing })
    }

    fn process(&mut self, socket: &Socket, octets: usize) -> io::Result<()> {
        let first = self.arrived == 0 && !self.told;
        self.arrived += octets;
        match self.session.process_new_packets() {
            Ok(state) => {
                self.pending = state.plaintext_bytes_to_read();
                self.theirs_ended = state.peer_has_closed();
            }
            Err(error) => {
                // It is told why, if it still hears, and not amid what goes in the clear.
                let mut to = socket;
                if self.clear == 0 {
                    let _ = self.session.write_tls(&mut to);
                }
                let found = fault_of(&error, first);
                tracing::debug!(fault = found.name(), %error, "TLS of a stream");
                return Err(fault(found));
            }
        }
        // Records that say nothing cost time and need no credit.
        if self.arrived > HANDSHAKE_OCTETS_MAX {
            return Err(fault(TlsFault::Long));
        }
        if self.pending > 0 {
            self.arrived = 0;
        }
        Ok(())
    }

    /// Gives the socket of `waiting` what goes now, at most `portion` octets; how many have gone.
    pub(super) fn write(
        &mut self,
        socket: &Socket,
        waiting: &[u8],
        portion: usize,
        ending: bool,
    ) -> io::Result<usize> {
        let mut to = socket;
        if self.clear > 0 {
            let first = &waiting[..waiting.len().min(self.clear).min(portion)];
            let octets = until_done(to.write(first))?.unwrap_or(0);
            self.clear -= octets;
            return Ok(octets);
        }
        self.flush(socket)?;
        let mut taken = 0;
        if self.told && !self.session.wants_write() {
            taken = waiting.len().min(portion).min(RECORD_OCTETS_MAX);
            self.count_record(taken)?;
            self.session.writer().write_all(&waiting[..taken])?;
            if ending && taken == waiting.len() && !self.ours_ended {
                self.ours_ended = true;
                self.session.send_close_notify();
            }
            self.flush(socket)?;
        }
        Ok(taken)
    }

    /// Ends what the key can't carry any more, without saying that it was an end.
    fn count_record(&mut self, octets: usize) -> io::Result<()> {
        if octets == 0 || self.version() != TlsVersion::V1_2 {
            return Ok(());
        }
        if self.records >= self.records_max {
            return Err(fault(TlsFault::Long));
        }
        self.records += 1;
        Ok(())
    }

    fn flush(&mut self, socket: &Socket) -> io::Result<()> {
        let mut to = socket;
        while self.session.wants_write() {
            if until_done(self.session.write_tls(&mut to))?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Whom the other side's certificate is for.
    fn peer(&self) -> Option<String> {
        if let TlsRole::Client { name } = &self.role {
            return Some(name.clone());
        }
        let own = self.session.peer_certificates()?.first()?;
        let own = webpki::EndEntityCert::try_from(own).ok()?;
        own.valid_dns_names().next().map(Into::into)
    }

    fn version(&self) -> TlsVersion {
        match self.session.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => TlsVersion::V1_2,
            _ => TlsVersion::V1_3,
        }
    }
}

/// As the node is told.
fn fault(fault: TlsFault) -> io::Error {
    io::Error::from_raw_os_error(fault.number())
}

/// What is wrong, where it was the first that came or not.
fn fault_of(error: &Error, first: bool) -> TlsFault {
    match error {
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) if first => TlsFault::Clear,
        Error::NoCertificatesPresented => TlsFault::Missing,
        Error::AlertReceived(_) => TlsFault::Refused,
        Error::InvalidCertificate(error) => match error {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => TlsFault::Expired,
            CertificateError::UnknownIssuer => TlsFault::Issuer,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                TlsFault::Name
            }
            _ => TlsFault::Unfit,
        },
        _ => TlsFault::Protocol,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rustls::version::TLS12;
    use rustls::{ClientConfig, ClientConnection};
    use socket2::{Domain, Type};
    use strait_node::config::TlsConfig;

    use super::*;
    use crate::sockets::tls::{TlsProfiles, provider, roots};

    const TIME: Duration = Duration::from_secs(60);

    fn file(name: &str) -> String {
        format!("{}/../../vectors/tls/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    /// A server and a client by TLS 1.2, each with its socket, and both secured.
    fn pair() -> [(Secure, Socket); 2] {
        let config = TlsConfig {
            certificate: Some(file("server.pem")),
            key: Some(file("server.key")),
            ..TlsConfig::default()
        };
        let mut profiles = TlsProfiles::load(&BTreeMap::from([("s".into(), config)])).unwrap();
        let (server, _) = profiles.begin("s", &TlsRole::Server).unwrap();
        let client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS12])
            .unwrap()
            .with_root_certificates(roots(&file("authority.pem")).unwrap())
            .with_no_client_auth();
        let name = "a.example".to_owned();
        let client = ClientConnection::new(client.into(), name.clone().try_into().unwrap());
        let (one, other) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
        let roles = [TlsRole::Server, TlsRole::Client { name }];
        let sessions = [server, client.unwrap().into()].into_iter().zip(roles);
        let both = sessions.map(|(session, role)| Secure::new(session, role, 0, TIME));
        let mut ends = both.zip([one, other]);
        let mut ends = [ends.next().unwrap(), ends.next().unwrap()];
        for (_, socket) in &ends {
            socket.set_nonblocking(true).unwrap();
        }
        for _ in 0..20 {
            for (tls, socket) in &mut ends {
                tls.write(socket, &[], 1, false).unwrap();
                let _ = tls.read(socket, 0).unwrap();
            }
        }
        assert!(ends.iter().all(|(tls, _)| tls.is_there()));
        ends
    }

    #[test]
    fn a_record_is_read_whole_however_the_socket_is_read() {
        let [(mut server, to), (mut client, from)] = pair();
        let record = vec![7; RECORD_OCTETS_MAX];
        let sent = server.write(&to, &record, RECORD_OCTETS_MAX, false);
        assert_eq!(sent.unwrap(), RECORD_OCTETS_MAX);
        let read = client.read(&from, RECORD_OCTETS_MAX).unwrap();
        assert!(matches!(read, Intake::Octets(octets) if octets == record));
    }

    #[test]
    fn a_key_that_can_carry_no_more_ends_as_no_end_does() {
        let [(mut server, to), (mut client, from)] = pair();
        server.records_max = 2;
        for _ in 0..2 {
            assert_eq!(server.write(&to, b"x", 9, false).unwrap(), 1);
        }
        let refused = server.write(&to, b"x", 9, false).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(TlsFault::Long.number()));
        drop((server, to));
        let mut read = || client.read(&from, 9);
        let mut came = 0;
        while let Ok(Intake::Octets(octets)) = read() {
            came += octets.len();
        }
        assert_eq!(came, 2);
        let end = read().err().and_then(|error| error.raw_os_error());
        assert_eq!(end, Some(TlsFault::Truncated.number()));
    }
}
