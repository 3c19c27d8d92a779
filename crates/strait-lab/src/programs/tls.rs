//! TLS of a host's program that calls a service.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection};
use strait_core::tls::TlsVersion;
use strait_live::sockets::tls::{provider, roots};
use strait_traffic::CallerTls;

/// A session that begins.
pub(crate) fn caller(tls: &CallerTls) -> Result<ClientConnection, String> {
    let versions: &[_] = match tls.newest.version() {
        TlsVersion::V1_2 => &[&TLS12],
        TlsVersion::V1_3 => &[&TLS12, &TLS13],
    };
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_protocol_versions(versions);
    let builder = builder.map_err(|error| error.to_string())?;
    let builder = builder.with_root_certificates(roots(&tls.trust)?);
    let mut config = builder.with_no_client_auth();
    config.resumption = Resumption::disabled();
    let name = ServerName::try_from(tls.name.clone()).map_err(|error| error.to_string())?;
    ClientConnection::new(Arc::new(config), name).map_err(|error| error.to_string())
}

/// Moves records both ways, as far as that goes now; whether the other side has said all.
pub(crate) fn move_records(
    session: &mut ClientConnection,
    mut stream: &TcpStream,
) -> io::Result<bool> {
    let waits = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
    while session.wants_write() {
        match session.write_tls(&mut stream) {
            Err(error) if waits(&error) => break,
            other => other?,
        };
    }
    match session.read_tls(&mut stream) {
        Err(error) if waits(&error) => return Ok(false),
        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
        other => other?,
    };
    let state = session.process_new_packets().map_err(io::Error::other)?;
    Ok(state.peer_has_closed())
}

/// Waits until something can be moved.
pub(crate) fn wait(session: &ClientConnection, stream: &TcpStream) -> io::Result<()> {
    let mut flags = PollFlags::POLLIN;
    flags.set(PollFlags::POLLOUT, session.wants_write());
    poll(&mut [PollFd::new(stream.as_fd(), flags)], PollTimeout::NONE)?;
    Ok(())
}
