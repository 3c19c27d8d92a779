//! TLS on a connection: records of the other side to clear octets, and clear octets to records.
//!
//! What waits here is never more than one record each way, beside what waits in the clear.

use std::io::{self, Read, Write};

use rustls::{CertificateError, Connection, Error, InvalidMessage, ProtocolVersion};
use socket2::Socket;
use strait_core::time::Instant;
use strait_core::tls::{HANDSHAKE_OCTETS_MAX, RECORD_OCTETS_MAX, TlsFault, TlsRole, TlsVersion};

use super::connection::{Intake, until_done};

#[derive(Debug)]
pub(super) struct Secure {
    session: Connection,
    role: TlsRole,
    /// Of what waits to be sent, the first so many octets go in the clear.
    clear: usize,
    /// Octets that came before both were secured.
    arrived: usize,
    /// Both are secured, and the node knows.
    told: bool,
    /// Clear octets that the node hasn't taken.
    pending: usize,
    /// The other side has said that it has said all; we have.
    theirs_ended: bool,
    ours_ended: bool,
    /// Both have to be secured by then.
    pub(super) until: Instant,
}

impl Secure {
    /// Behind so many octets that wait to be sent in the clear.
    pub(super) fn new(session: Connection, role: TlsRole, clear: usize, until: Instant) -> Self {
        Self {
            session,
            role,
            clear,
            arrived: 0,
            told: false,
            pending: 0,
            theirs_ended: false,
            ours_ended: false,
            until,
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

    /// Reads from the socket at most once; something for the node, which takes so many octets.
    pub(super) fn read(&mut self, socket: &Socket, takes: usize) -> io::Result<Intake> {
        if self.needs_more() && !self.is_news() {
            let mut from = socket;
            let octets = match until_done(self.session.read_tls(&mut from)) {
                Ok(None) => return Ok(Intake::Nothing),
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
        let first = self.arrived == 0;
        if !self.told {
            self.arrived += octets;
        }
        match self.session.process_new_packets() {
            Ok(state) => {
                self.pending = state.plaintext_bytes_to_read();
                self.theirs_ended = state.peer_has_closed();
            }
            Err(error) => {
                // It is told why, if it still hears.
                let mut to = socket;
                let _ = self.session.write_tls(&mut to);
                let found = fault_of(&error, first);
                tracing::debug!(fault = found.name(), %error, "TLS of a stream");
                return Err(fault(found));
            }
        }
        if self.session.is_handshaking() && self.arrived > HANDSHAKE_OCTETS_MAX {
            return Err(fault(TlsFault::Long));
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
            taken = waiting.len().min(portion);
            self.session.writer().write_all(&waiting[..taken])?;
            if ending && taken == waiting.len() && !self.ours_ended {
                self.ours_ended = true;
                self.session.send_close_notify();
            }
            self.flush(socket)?;
        }
        Ok(taken)
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
