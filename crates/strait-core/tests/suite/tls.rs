//! Streams with TLS. The certificates are those of `vectors/tls`, and their counterparts where no
//! file is read.

use std::collections::BTreeMap;

use strait_core::tls::{TlsFault, TlsRole, TlsVersion};
use strait_core::units::Time;
use strait_node::config::{ClientCertificate, TlsConfig};

use super::*;

/// Of Linux: no route to the host.
const UNREACHABLE: i32 = 113;

/// The name that right certificates are for.
pub const NAME: &str = "a.example";

/// Who the host is to the node.
#[derive(Clone, Copy, Debug)]
pub enum HostTls {
    /// It calls [`NAME`], and trusts the authority.
    Client {
        /// Which certificate it shows if it is asked.
        certificate: Option<&'static str>,
        newest: TlsVersion,
    },
    /// It was called, and shows this certificate.
    Server { certificate: &'static str },
}

const CLIENT: HostTls = HostTls::Client {
    certificate: None,
    newest: TlsVersion::V1_3,
};

/// A file with a certificate or a key.
pub fn file(name: &str) -> String {
    format!("{}/../../vectors/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn showing(certificate: &str, key: &str) -> TlsConfig {
    TlsConfig {
        certificate: Some(file(&format!("{certificate}.pem"))),
        key: Some(file(&format!("{key}.key"))),
        trust: Some(file("authority.pem")),
        ..TlsConfig::default()
    }
}

/// What the node's streams are secured by.
pub fn profiles() -> BTreeMap<String, TlsConfig> {
    let server = TlsConfig {
        names: vec![NAME.into(), "b.example".into()],
        ..showing("server", "server")
    };
    let client = TlsConfig {
        names: vec!["client.example".into()],
        ..showing("client", "client")
    };
    let all = [
        (
            "mutual",
            TlsConfig {
                client_certificate: ClientCertificate::Required,
                ..server.clone()
            },
        ),
        (
            "hasty",
            TlsConfig {
                handshake: Some(Time(Duration::from_secs(1))),
                ..server.clone()
            },
        ),
        ("server", server),
        ("client", client),
    ];
    all.into_iter()
        .map(|(name, it)| (name.into(), it))
        .collect()
}

fn serve(profile: &str) -> StreamOp {
    StreamOp::StartTls {
        profile: profile.into(),
        role: TlsRole::Server,
    }
}

fn secured(id: StreamId, peer: Option<&str>, version: TlsVersion) -> Heard {
    let peer = peer.map(Into::into);
    Heard::Secured { id, peer, version }
}

fn failed(puppet: &Puppet, world: &mut impl World, id: StreamId, fault: TlsFault) {
    puppet.hears(world, &Heard::Reset(id, fault.number()));
    assert!(!puppet.heard().contains(&Heard::Fin(id)));
}

fn until_secured<W: World>(world: &mut W, tcp: Tcp) -> Result<TlsVersion, TlsFault> {
    until(world, "TLS", |world| world.secured(tcp).is_some());
    world.secured(tcp).unwrap()
}

/// A client of the host's, and the node has TLS from the start.
fn client<W: World>(profile: &str, octets: u32) -> (Puppet, W, StreamId, Tcp) {
    let (puppet, mut world) = Puppet::stage::<W>();
    puppet.greet(serve(profile));
    let (id, tcp) = puppet.client(&mut world, octets);
    (puppet, world, id, tcp)
}

/// The same, and both are secured.
fn secured_client<W: World>(octets: u32) -> (Puppet, W, StreamId, Tcp) {
    let (puppet, mut world, id, tcp) = client::<W>("server", octets);
    world.secure(tcp, CLIENT);
    puppet.hears(&mut world, &secured(id, None, TlsVersion::V1_3));
    assert_eq!(until_secured(&mut world, tcp), Ok(TlsVersion::V1_3));
    (puppet, world, id, tcp)
}

pub fn a_client_is_secured_by_either_version<W: World>() {
    for newest in [TlsVersion::V1_3, TlsVersion::V1_2] {
        let (puppet, mut world, id, tcp) = client::<W>("server", 64 * 1024);
        puppet.stream(id, StreamOp::Send(b"early".to_vec()));
        let certificate = None;
        let how = HostTls::Client {
            certificate,
            newest,
        };
        world.secure(tcp, how);
        puppet.hears(&mut world, &secured(id, None, newest));
        assert_eq!(until_secured(&mut world, tcp), Ok(newest));
        assert_eq!(read_all(&mut world, tcp, 5), b"early");
        let octets = pattern(40_000);
        puppet.stream(id, StreamOp::Credit(40_000));
        send_all(&mut world, tcp, &octets);
        until(&mut world, "all octets", |_| {
            puppet.data(id).len() >= 40_000
        });
        assert_eq!(puppet.data(id), octets);
        puppet.stream(id, StreamOp::Send(octets[..30_000].to_vec()));
        puppet.stream(id, StreamOp::Send(octets[30_000..].to_vec()));
        assert_eq!(read_all(&mut world, tcp, 40_000), octets);
    }
}

pub fn both_ends_are_told_one_by_one<W: World>() {
    let (puppet, mut world, id, tcp) = secured_client::<W>(64 * 1024);
    send_all(&mut world, tcp, b"question");
    world.fin(tcp);
    world.run(SILENCE);
    assert!(!puppet.heard().contains(&Heard::Fin(id)));
    puppet.stream(id, StreamOp::Credit(8));
    puppet.hears(&mut world, &Heard::Fin(id));
    assert_eq!(puppet.data(id), b"question");
    puppet.stream(id, StreamOp::Send(pattern(20_000)));
    puppet.stream(id, StreamOp::Fin);
    assert_eq!(read_all(&mut world, tcp, 20_000), pattern(20_000));
    until_state(&mut world, tcp, State::Drained);
    world.run(SILENCE);
    let resets = puppet.heard().into_iter();
    assert_eq!(
        resets.filter(|it| matches!(it, Heard::Reset(..))).count(),
        0
    );
}

pub fn a_nodes_end_leaves_the_other_direction<W: World>() {
    let (puppet, mut world, id, tcp) = secured_client::<W>(64 * 1024);
    puppet.stream(id, StreamOp::Send(b"welcome".to_vec()));
    puppet.stream(id, StreamOp::Fin);
    assert_eq!(read_all(&mut world, tcp, 7), b"welcome");
    until_state(&mut world, tcp, State::Drained);
    puppet.stream(id, StreamOp::Credit(20_000));
    send_all(&mut world, tcp, &pattern(20_000));
    until(&mut world, "all octets", |_| {
        puppet.data(id).len() >= 20_000
    });
    assert_eq!(puppet.data(id), pattern(20_000));
    world.fin(tcp);
    puppet.hears(&mut world, &Heard::Fin(id));
}

pub fn an_end_with_nothing_before_it_needs_no_credit<W: World>() {
    let (puppet, mut world, id, tcp) = secured_client::<W>(5000);
    world.fin(tcp);
    puppet.hears(&mut world, &Heard::Fin(id));
    puppet.stream(id, StreamOp::Fin);
    until_state(&mut world, tcp, State::Drained);
}

pub fn credit_counts_clear_octets<W: World>() {
    let (puppet, mut world, id, tcp) = secured_client::<W>(8000);
    let octets = pattern(100_000);
    let mut sent = 0;
    for _ in 0..200 {
        sent += world.send(tcp, &octets[sent..]);
        world.run(Duration::from_millis(2));
    }
    assert!(puppet.data(id).is_empty());
    puppet.stream(id, StreamOp::Credit(5000));
    until(&mut world, "octets", |_| puppet.data(id).len() >= 5000);
    world.run(SILENCE);
    assert_eq!(puppet.data(id), octets[..5000]);
    puppet.stream(id, StreamOp::Credit(95_000));
    until(&mut world, "the rest", |world| {
        sent += world.send(tcp, &octets[sent..]);
        puppet.data(id).len() >= 100_000
    });
    assert_eq!(puppet.data(id), octets);
    // The other way: what waits is what may.
    assert_eq!(puppet.writable(id), 8000);
    puppet.stream(id, StreamOp::Send(octets[..8000].to_vec()));
    assert_eq!(read_all(&mut world, tcp, 8000), octets[..8000]);
    until(&mut world, "credit", |_| puppet.writable(id) == 16_000);
    puppet.stream(id, StreamOp::Send(octets[..8001].to_vec()));
    puppet.hears(&mut world, &Heard::Reset(id, 105));
}

pub fn tls_begins_in_mid_stream<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let (id, tcp) = puppet.client(&mut world, 64 * 1024);
    puppet.stream(id, StreamOp::Credit(1000));
    send_all(&mut world, tcp, b"STARTTLS\r\n");
    until(&mut world, "the word", |_| {
        puppet.data(id) == b"STARTTLS\r\n"
    });
    // What is sent before goes in the clear, what is sent behind it waits.
    puppet.stream(id, StreamOp::Send(b"220\r\n".to_vec()));
    puppet.stream(id, serve("server"));
    puppet.stream(id, StreamOp::Send(b"secret".to_vec()));
    assert_eq!(read_all(&mut world, tcp, 5), b"220\r\n");
    world.run(SILENCE);
    assert_eq!(world.read(tcp, 100), b"");
    world.secure(tcp, CLIENT);
    puppet.hears(&mut world, &secured(id, None, TlsVersion::V1_3));
    assert_eq!(read_all(&mut world, tcp, 6), b"secret");
    send_all(&mut world, tcp, b"EHLO");
    until(&mut world, "octets", |_| {
        puppet.data(id) == b"STARTTLS\r\nEHLO"
    });
}

/// Somebody in the middle puts words of his own behind the client's, before it is secured.
pub fn what_came_in_the_clear_is_not_taken_for_secured<W: World>() {
    let word = b"STARTTLS\r\n";
    for (at_once, more) in [(true, b"RCPT TO"), (false, b"MAIL FRO")] as [(bool, &[u8]); 2] {
        let (puppet, mut world) = Puppet::stage::<W>();
        let (id, tcp) = puppet.client(&mut world, 64 * 1024);
        puppet.stream(id, StreamOp::Credit(word.len() as u32));
        send_all(&mut world, tcp, word);
        if at_once {
            send_all(&mut world, tcp, more);
        }
        until(&mut world, "the word", |_| puppet.data(id) == word);
        puppet.stream(id, serve("server"));
        puppet.stream(id, StreamOp::Credit(1000));
        world.run(SILENCE);
        if !at_once {
            send_all(&mut world, tcp, more);
        }
        failed(&puppet, &mut world, id, TlsFault::Clear);
        assert_eq!(puppet.data(id), word);
    }
}

pub fn octets_that_are_no_tls_are_told_from_broken_ones<W: World>() {
    let long = [22, 3, 3, 0xff, 0xff, 1, 0, 0, 0];
    let hello: &[u8] = b"EHLO you.example\r\n";
    for (octets, fault) in [(hello, TlsFault::Clear), (&long, TlsFault::Protocol)] {
        let (puppet, mut world, id, tcp) = client::<W>("server", 64 * 1024);
        puppet.stream(id, StreamOp::Credit(1000));
        send_all(&mut world, tcp, octets);
        failed(&puppet, &mut world, id, fault);
        assert_eq!(puppet.data(id), b"");
    }
}

/// Records that say nothing, again and again.
pub fn a_handshake_has_a_limit_of_octets<W: World>() {
    let (puppet, mut world, id, tcp) = client::<W>("server", 64 * 1024);
    let record = [&[22, 3, 3, 0x20, 0, 1, 0, 0xff, 0xf0][..], &[0; 0x1ffc]].concat();
    let ended = |puppet: &Puppet| {
        let faults = [TlsFault::Long, TlsFault::Protocol].map(TlsFault::number);
        let heard = puppet.heard().into_iter();
        let mut resets = heard.filter_map(|it| match it {
            Heard::Reset(of, number) => Some((of, number)),
            _ => None,
        });
        resets.any(|(of, number)| of == id && faults.contains(&number))
    };
    let mut sent = 0;
    until(&mut world, "an end", |world| {
        let at = sent % record.len();
        sent += if ended(&puppet) {
            0
        } else {
            world.send(tcp, &record[at..])
        };
        ended(&puppet)
    });
    assert_eq!(puppet.data(id), b"");
}

pub fn who_never_finishes_is_cut_off<W: World>() {
    let (puppet, mut world, id, tcp) = client::<W>("hasty", 64 * 1024);
    // The beginning of a record.
    send_all(&mut world, tcp, &[22, 3, 1]);
    world.run(Duration::from_millis(700));
    let resets = puppet.heard().into_iter();
    assert_eq!(
        resets.filter(|it| matches!(it, Heard::Reset(..))).count(),
        0
    );
    failed(&puppet, &mut world, id, TlsFault::Slow);
    until_state(&mut world, tcp, State::Reset);
}

pub fn time_for_tls_begins_with_the_connection<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let nobody = SocketAddr::new(world.nobody(), 80);
    puppet.connect(1, None, nobody, 0);
    let (profile, name) = ("hasty".into(), NAME.into());
    let role = TlsRole::Client { name };
    puppet.stream(stream(1), StreamOp::StartTls { profile, role });
    // That nobody is there is no fault of TLS.
    puppet.hears(&mut world, &Heard::Reset(stream(1), UNREACHABLE));
}

pub fn an_end_that_nobody_said_is_a_reset<W: World>() {
    let (puppet, mut world, id, tcp) = secured_client::<W>(64 * 1024);
    puppet.stream(id, StreamOp::Credit(1000));
    send_all(&mut world, tcp, b"pay 100");
    until(&mut world, "octets", |_| puppet.data(id) == b"pay 100");
    world.cut(tcp);
    failed(&puppet, &mut world, id, TlsFault::Truncated);
    // The same in the middle of a handshake.
    let (puppet, mut world, id, tcp) = client::<W>("server", 64 * 1024);
    world.cut(tcp);
    failed(&puppet, &mut world, id, TlsFault::Truncated);
}

pub fn a_clients_certificate_is_verified_and_told<W: World>() {
    let newest = TlsVersion::V1_3;
    for (certificate, result) in [
        (Some("client"), Ok(())),
        (None, Err(TlsFault::Missing)),
        (Some("stranger"), Err(TlsFault::Issuer)),
        (Some("expired"), Err(TlsFault::Expired)),
    ] {
        let (puppet, mut world, id, tcp) = client::<W>("mutual", 64 * 1024);
        let how = HostTls::Client {
            certificate,
            newest,
        };
        world.secure(tcp, how);
        match result {
            Ok(()) => puppet.hears(&mut world, &secured(id, Some("client.example"), newest)),
            Err(fault) => {
                failed(&puppet, &mut world, id, fault);
                let refused = Some(Err(TlsFault::Refused));
                until(&mut world, "a refusal", |world| {
                    world.secured(tcp) == refused
                });
            }
        }
    }
}

/// The node connects to the host, and TLS is there or isn't.
fn node_client<W: World>(certificate: &'static str, name: &str) -> (Puppet, W, Tcp) {
    let (puppet, mut world) = Puppet::stage::<W>();
    let port = world.port();
    world.listen(port);
    let address = SocketAddr::new(world.host(), port);
    puppet.connect(1, None, address, 0);
    let (profile, name) = ("client".into(), name.into());
    let role = TlsRole::Client { name };
    puppet.stream(stream(1), StreamOp::StartTls { profile, role });
    let mut accepted = None;
    until(&mut world, "a connection", |world| {
        accepted = accepted.or_else(|| world.accepted());
        accepted.is_some()
    });
    let tcp = accepted.unwrap().tcp;
    until_state(&mut world, tcp, State::Open);
    world.secure(tcp, HostTls::Server { certificate });
    (puppet, world, tcp)
}

pub fn a_node_verifies_whom_it_connects_to<W: World>() {
    let (puppet, mut world, tcp) = node_client::<W>("server", NAME);
    puppet.hears(
        &mut world,
        &secured(stream(1), Some(NAME), TlsVersion::V1_3),
    );
    assert_eq!(until_secured(&mut world, tcp), Ok(TlsVersion::V1_3));
    puppet.stream(stream(1), StreamOp::Send(b"hello".to_vec()));
    assert_eq!(read_all(&mut world, tcp, 5), b"hello");
    puppet.stream(stream(1), StreamOp::Credit(10));
    send_all(&mut world, tcp, b"welcome");
    world.fin(tcp);
    puppet.hears(&mut world, &Heard::Fin(stream(1)));
    assert_eq!(puppet.data(stream(1)), b"welcome");
}

pub fn a_node_refuses_whom_it_cannot_verify<W: World>() {
    for (certificate, name, fault) in [
        ("server", "c.example", TlsFault::Name),
        ("expired", NAME, TlsFault::Expired),
        ("stranger", NAME, TlsFault::Issuer),
    ] {
        let (puppet, mut world, tcp) = node_client::<W>(certificate, name);
        failed(&puppet, &mut world, stream(1), fault);
        let heard = puppet.heard();
        assert!(!heard.iter().any(|it| matches!(it, Heard::Secured { .. })));
        until(&mut world, "a refusal", |world| {
            world.secured(tcp) == Some(Err(TlsFault::Refused))
        });
    }
}

pub fn tls_that_cannot_begin_ends_the_stream<W: World>() {
    for twice in [false, true] {
        let (puppet, mut world) = Puppet::stage::<W>();
        let (id, tcp) = puppet.client(&mut world, 64 * 1024);
        let number = if twice {
            puppet.stream(id, serve("server"));
            puppet.stream(id, serve("server"));
            114
        } else {
            puppet.stream(id, serve("nobody"));
            TlsFault::Profile.number()
        };
        puppet.hears(&mut world, &Heard::Reset(id, number));
        until_state(&mut world, tcp, State::Reset);
    }
}
