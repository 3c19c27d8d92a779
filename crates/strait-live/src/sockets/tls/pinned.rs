//! Other sides that are known by the digest of their certificate, or of the key in it.

use rustls::DigitallySignedStruct;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, Error, SignatureScheme};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use strait_node::config::Pin;

use super::provider;

/// Whom a profile takes: who shows one of these, and has its key. Who issued it, for which name and
/// until when says no more of who it is.
#[derive(Debug)]
pub(super) struct Pinned {
    pins: Vec<Pin>,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    pub(super) fn new(pins: Vec<Pin>) -> Self {
        let provider = provider();
        Self { pins, provider }
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let read = webpki::EndEntityCert::try_from(shown);
        let read = read.map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let key = read.subject_public_key_info();
        let digests = [&shown[..], &key[..]].map(|it| Pin::from(Sha256::digest(it)));
        if digests.iter().any(|it| self.pins.contains(it)) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, shown, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, shown, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let known = self.provider.signature_verification_algorithms;
        known.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::certificates;
    use super::*;

    #[test]
    fn a_certificate_or_its_key_is_known_by_its_digest_alone() {
        let file = |name| format!("{}/../../vectors/tls/{name}", env!("CARGO_MANIFEST_DIR"));
        let [own, other] = ["server.pem", "authority.pem"].map(|name| {
            let all = certificates(&file(name)).unwrap();
            all[0].clone()
        });
        let key = webpki::EndEntityCert::try_from(&own).unwrap();
        let key = key.subject_public_key_info();
        let pin = |octets: &[u8]| Pin::from(Sha256::digest(octets));
        let verify = |pins: Vec<Pin>, shown| {
            let name = ServerName::try_from("nobody.example").unwrap();
            let now = UnixTime::since_unix_epoch(std::time::Duration::ZERO);
            Pinned::new(pins).verify_server_cert(shown, &[], &name, &[], now)
        };
        assert!(verify(vec![pin(&own)], &own).is_ok());
        assert!(verify(vec![[0; 32], pin(&key)], &own).is_ok());
        assert!(verify(vec![pin(&own), pin(&key)], &other).is_err());
        assert!(verify(vec![], &own).is_err());
    }
}
