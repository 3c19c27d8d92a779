//! What a node's streams are secured by: certificates and keys of this host, by the profiles of a
//! node file. The node sees none of them.
//!
//! A file that changes is read again when the next stream begins; one that is wrong then is told
//! of, and what was read before serves on.

mod pinned;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem, pem::PemObject};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};
use strait_core::time::Duration;
use strait_core::tls::{TlsFault, TlsRole, TlsVersion};
use strait_node::InvalidConfig;
use strait_node::config::{ClientCertificate, TlsConfig};

use self::pinned::Pinned;

/// The longest file of certificates that is read: as long as a whole operating system's.
const FILE_OCTETS_MAX: u64 = 4 << 20;

/// All profiles of a node, by their names.
#[derive(Debug, Default)]
pub struct TlsProfiles(BTreeMap<String, Profile>);

#[derive(Debug)]
struct Profile {
    config: TlsConfig,
    /// The files as they were when they were read last.
    seen: Vec<Option<Stamp>>,
    made: Made,
}

/// What a profile's files came to.
#[derive(Clone, Debug, Default)]
struct Made {
    server: Option<Arc<ServerConfig>>,
    client: Option<Arc<ClientConfig>>,
}

/// By which a changed file is known.
type Stamp = [(u64, i64); 3];

impl TlsProfiles {
    /// Reads what profiles name.
    ///
    /// # Errors
    /// The first file that can't be read or doesn't serve, by its key.
    pub fn load(configs: &BTreeMap<String, TlsConfig>) -> Result<Self, InvalidConfig> {
        let load = |(name, config): (&String, &TlsConfig)| {
            let seen = stamps(config);
            let made = make(config).map_err(|(key, message)| InvalidConfig {
                place: format!("[tls.{name}] {key}"),
                message,
            })?;
            let config = config.clone();
            Ok((name.clone(), Profile { config, seen, made }))
        };
        configs.iter().map(load).collect::<Result<_, _>>().map(Self)
    }

    /// TLS for a new stream, and how long that may take to begin.
    pub(crate) fn begin(
        &mut self,
        name: &str,
        role: &TlsRole,
    ) -> Result<(Connection, Duration), TlsFault> {
        let profile = self.0.get_mut(name).ok_or(TlsFault::Profile)?;
        profile.read_again(name);
        let patience = profile.config.patience();
        let begun = match role {
            TlsRole::Server => {
                let config = profile.made.server.clone().ok_or(TlsFault::Profile)?;
                ServerConnection::new(config).map(Connection::from)
            }
            TlsRole::Client { name } => {
                let config = profile.made.client.clone().ok_or(TlsFault::Profile)?;
                let name = ServerName::try_from(name.clone()).map_err(|_| TlsFault::Name)?;
                ClientConnection::new(config, name).map(Connection::from)
            }
        };
        let mut begun = begun.map_err(|_| TlsFault::Profile)?;
        // Whoever writes gives no more than is to wait.
        begun.set_buffer_limit(None);
        Ok((begun, patience))
    }
}

impl Profile {
    fn read_again(&mut self, name: &str) {
        let seen = stamps(&self.config);
        if seen == self.seen {
            return;
        }
        self.seen = seen;
        match make(&self.config) {
            Ok(made) => {
                self.made = made;
                tracing::info!(profile = name, "certificates read again");
            }
            Err((key, problem)) => {
                tracing::warn!(
                    profile = name,
                    key,
                    problem,
                    "the previous certificates stay in use"
                );
            }
        }
    }
}

/// What an operator should know of profiles that serve all the same.
pub fn warnings(configs: &BTreeMap<String, TlsConfig>) -> Vec<String> {
    let warn = |(name, config): (&String, &TlsConfig)| {
        let key = config.key.as_ref().and_then(|file| open_to_others(file));
        let time = config
            .certificate
            .as_ref()
            .and_then(|file| out_of_time(file));
        let told = [("key", key), ("certificate", time)];
        let place = |key: &str, message: String| format!("[tls.{name}] {key}: {message}");
        let told = told
            .into_iter()
            .filter_map(move |(key, message)| Some(place(key, message?)));
        told.collect::<Vec<_>>()
    };
    configs.iter().flat_map(warn).collect()
}

/// A secret that others than its owner could read.
pub(crate) fn open_to_others(file: &str) -> Option<String> {
    let mode = fs::metadata(file).ok()?.mode() & 0o077;
    let message = || format!("others may read or write {file}: chmod 600 {file}");
    (mode != 0).then(message)
}

/// A certificate that nobody takes today.
fn out_of_time(file: &str) -> Option<String> {
    let chain = certificates(file).ok()?;
    let own = webpki::EndEntityCert::try_from(chain.first()?).ok()?;
    // Times are looked at before issuers, so it doesn't matter that nobody is one.
    let verified = own.verify_for_usage(
        webpki::ALL_VERIFICATION_ALGS,
        &[],
        &[],
        UnixTime::since_unix_epoch(SystemTime::UNIX_EPOCH.elapsed().ok()?),
        webpki::KeyUsage::server_auth(),
        None,
        None,
    );
    match verified.err()? {
        webpki::Error::CertExpired { .. } => Some(format!("{file} has expired: renew it")),
        webpki::Error::CertNotValidYet { .. } => {
            Some(format!("{file} isn't valid yet: is the clock right?"))
        }
        _ => None,
    }
}

fn stamps(config: &TlsConfig) -> Vec<Option<Stamp>> {
    let stamp = |file: &Option<String>| {
        let found = fs::metadata(file.as_ref()?).ok()?;
        // The time of a change of its owner or mode, too: it may be what makes it readable.
        Some([
            (found.ino(), found.len() as i64),
            (found.mtime() as u64, found.mtime_nsec()),
            (found.ctime() as u64, found.ctime_nsec()),
        ])
    };
    [&config.certificate, &config.key, &config.trust]
        .map(stamp)
        .into()
}

/// A key of a profile, and what is wrong with it.
type Wrong = (&'static str, String);

/// Certificates of a file.
pub(crate) fn certificates(file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = pem_of(file)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&found).collect();
    let all = all.map_err(|error| unreadable(file, &error))?;
    if all.is_empty() {
        return Err(format!(
            "{file} has no certificate: it must be a PEM file with one"
        ));
    }
    Ok(all)
}

fn pem_of(file: &str) -> Result<Vec<u8>, String> {
    let wrong = |error: std::io::Error| format!("{file} can't be read: {error}");
    let found = fs::metadata(file).map_err(wrong)?;
    if !found.is_file() {
        return Err(format!("{file} is no file: name one with PEM in it"));
    }
    if found.len() > FILE_OCTETS_MAX {
        return Err(format!("{file} is no file of certificates: it is too long"));
    }
    fs::read(file).map_err(wrong)
}

fn unreadable(file: &str, error: &pem::Error) -> String {
    format!("{file} is no PEM file: {error}")
}

fn private_key(file: &str) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(&pem_of(file)?).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            format!("{file} has no unencrypted private key: it must be a PEM file with one")
        }
        error => unreadable(file, &error),
    })
}

/// Those who may issue other sides' certificates, of a file.
///
/// # Errors
/// Why it is no file of certificates.
pub fn roots(file: &str) -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        let wrong = |error| format!("{file} has a certificate that can't be trusted: {error}");
        roots.add(certificate).map_err(wrong)?;
    }
    Ok(Arc::new(roots))
}

/// What does the arithmetic of TLS.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// All versions from the oldest on.
fn versions(oldest: TlsVersion) -> Vec<&'static SupportedProtocolVersion> {
    match oldest {
        TlsVersion::V1_2 => vec![&TLS12, &TLS13],
        TlsVersion::V1_3 => vec![&TLS13],
    }
}

fn make(config: &TlsConfig) -> Result<Made, Wrong> {
    let pins = config.pins();
    let trust = config.trust.as_ref().filter(|_| pins.is_none());
    let trust = trust.map(|file| roots(file)).transpose();
    let trust = trust.map_err(|message| ("trust", message))?;
    let own = own(config)?;
    let of = |error: rustls::Error| ("certificate", error.to_string());
    let versions = versions(config.oldest.0);
    let mut made = Made::default();
    if let Some((chain, key)) = &own {
        let builder = ServerConfig::builder_with_provider(provider());
        let builder = builder.with_protocol_versions(&versions).map_err(of)?;
        let asked = trust
            .clone()
            .filter(|_| config.client_certificate != ClientCertificate::None);
        let builder = match asked {
            None => builder.with_no_client_auth(),
            Some(roots) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
                let verifier = match config.client_certificate {
                    ClientCertificate::Required => verifier,
                    _ => verifier.allow_unauthenticated(),
                };
                let verifier = verifier
                    .build()
                    .map_err(|error| ("trust", error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let server = builder.with_single_cert(chain.clone(), key.clone_key());
        let mut server = server.map_err(|error| unfit(config, &error))?;
        // Each stream is verified anew, and no line carries tickets.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        made.server = Some(Arc::new(server));
    }
    let builder = || {
        let builder = ClientConfig::builder_with_provider(provider());
        builder.with_protocol_versions(&versions).map_err(of)
    };
    let verifying = match (pins, trust) {
        (Some(pins), _) => {
            let pinned = Arc::new(Pinned::new(pins));
            Some(
                builder()?
                    .dangerous()
                    .with_custom_certificate_verifier(pinned),
            )
        }
        (None, Some(roots)) => Some(builder()?.with_root_certificates(roots)),
        (None, None) => None,
    };
    if let Some(builder) = verifying {
        let client = match own {
            None => Ok(builder.with_no_client_auth()),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key),
        };
        let mut client = client.map_err(|error| unfit(config, &error))?;
        client.resumption = Resumption::disabled();
        made.client = Some(Arc::new(client));
    }
    Ok(made)
}

type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Our own certificate and its key.
fn own(config: &TlsConfig) -> Result<Option<Own>, Wrong> {
    let Some((certificate, key)) = config.certificate.as_ref().zip(config.key.as_ref()) else {
        return Ok(None);
    };
    let chain = certificates(certificate).map_err(|message| ("certificate", message))?;
    let wrong = |why: String| ("certificate", format!("{certificate} {why}"));
    let first = webpki::EndEntityCert::try_from(&chain[0]);
    let first = first.map_err(|error| wrong(format!("can't be used: {error}")))?;
    for name in &config.names {
        let fits = ServerName::try_from(name.as_str())
            .is_ok_and(|name| first.verify_is_valid_for_subject_name(&name).is_ok());
        if !fits {
            let names: Vec<&str> = first.valid_dns_names().collect();
            let why = format!("isn't for {name}, but for: {}", names.join(", "));
            return Err(("names", format!("{certificate} {why}")));
        }
    }
    let key = private_key(key).map_err(|message| ("key", message))?;
    Ok(Some((chain, key)))
}

fn unfit(config: &TlsConfig, error: &rustls::Error) -> Wrong {
    let file = |file: &Option<String>| file.clone().unwrap_or_default();
    match error {
        rustls::Error::InconsistentKeys(_) => {
            let certificate = file(&config.certificate);
            (
                "key",
                format!("{} isn't the key of {certificate}", file(&config.key)),
            )
        }
        error => (
            "certificate",
            format!("{}: {error}", file(&config.certificate)),
        ),
    }
}

#[cfg(test)]
mod tests;
