//! Status socket and metrics, served by a running event loop.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::Echo;
use strait_live::clock::Clock;
use strait_live::node_loop::Runner;
use strait_live::signals::Stopper;
use strait_live::status::metrics::MetricsServer;
use strait_live::status::snapshot;
use strait_live::status::{self, Format, StatusServer, request};

const PATIENCE: Duration = Duration::from_secs(2);

fn server(path: PathBuf) -> (Stopper, u16, JoinHandle<()>) {
    let (send, ready) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        let clock = Clock::start();
        let mut runner = Runner::new(clock, Box::new(Echo::new()), Vec::new()).unwrap();
        let content = |format: Format, view: &strait_live::node_loop::service::View<'_>| {
            format!("{} {}", format.name(), view.stats.ports.len())
        };
        runner.add_service(Box::new(
            StatusServer::bind(&path, Box::new(content)).unwrap(),
        ));
        let metrics = MetricsServer::bind((Ipv4Addr::LOCALHOST, 0).into(), false).unwrap();
        let port = metrics.address().port();
        runner.add_service(Box::new(metrics));
        send.send((runner.stopper(), port)).unwrap();
        runner.run().unwrap();
    });
    let (stopper, port) = ready.recv().unwrap();
    (stopper, port, thread)
}

fn get(port: u16, head: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn status_and_metrics_answer_while_hostile_clients_hang_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/a.sock");
    let (stopper, port, thread) = server(path.clone());
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    // Half the places are taken by clients that say nothing, one sends rubbish without end.
    let silent: Vec<_> = (0..4)
        .map(|_| UnixStream::connect(&path).unwrap())
        .collect();
    let mut rubbish = UnixStream::connect(&path).unwrap();
    rubbish.set_write_timeout(Some(PATIENCE)).unwrap();
    let cut = (0..100).any(|_| rubbish.write_all(&[b'x'; 1000]).is_err());
    assert!(cut, "a client that never ends its line is cut");
    assert_eq!(request(&path, Format::Text, PATIENCE).unwrap(), "text 1");
    assert_eq!(request(&path, Format::Json, PATIENCE).unwrap(), "json 1");
    let mut odd = UnixStream::connect(&path).unwrap();
    odd.write_all(b"reboot\n").unwrap();
    odd.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    odd.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("error: "), "{answer}");

    // A page from elsewhere has its own name for this machine.
    let answer = get(port, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.0 403"), "{answer}");
    let answer = get(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    assert!(
        answer.contains("strait_admitted_packets_total 0"),
        "{answer}"
    );
    assert!(answer.contains("text/plain; version=0.0.4"), "{answer}");
    let open =
        "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n";
    let open = get(port, open);
    assert!(
        open.contains("Content-Type: application/openmetrics-text"),
        "{open}"
    );
    assert!(open.ends_with("# EOF\n"), "{open}");
    assert!(get(port, "GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 404"));
    assert!(get(port, "POST /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 405"));
    drop(silent);
    stopper.stop();
    thread.join().unwrap();
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sock");
    // A killed process leaves its file behind, with nobody listening.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let (stopper, _, thread) = server(path.clone());
    let content = |_: Format, _: &strait_live::node_loop::service::View<'_>| String::new();
    let error = StatusServer::bind(&path, Box::new(content)).unwrap_err();
    assert!(
        error.to_string().contains("a running gateway uses it"),
        "{error}"
    );
    assert!(request(&path, Format::Text, PATIENCE).is_ok());
    stopper.stop();
    thread.join().unwrap();
    let error = request(&path, Format::Text, PATIENCE).unwrap_err();
    assert!(error.to_string().contains("is a gateway"), "{error}");

    fs::write(&path, "precious").unwrap();
    let content = |_: Format, _: &strait_live::node_loop::service::View<'_>| String::new();
    assert!(StatusServer::bind(&path, Box::new(content)).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_stream_has_snapshots_until_the_gateway_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.sock");
    let (send, ready) = std::sync::mpsc::channel();
    let socket = path.clone();
    let thread = thread::spawn(move || {
        let mut runner = Runner::new(Clock::start(), Box::new(Echo::new()), Vec::new()).unwrap();
        let content = snapshot::content("a".into(), snapshot::Past::default());
        let server = StatusServer::bind(&socket, content).unwrap();
        runner.add_service(Box::new(server));
        send.send(runner.stopper()).unwrap();
        runner.run().unwrap();
    });
    let stopper = ready.recv().unwrap();
    let mut stream = status::stream(&path, Duration::from_millis(100), PATIENCE).unwrap();
    let mut last_s = -1.0;
    for _ in 0..3 {
        let (snapshot, line) = stream.next_snapshot().unwrap().unwrap();
        assert_eq!((snapshot.node.as_str(), snapshot.ports.len()), ("a", 1));
        assert!(snapshot.uptime_s > last_s && line.starts_with("{\"node\":"));
        last_s = snapshot.uptime_s;
    }
    let mut odd = status::stream(&path, Duration::ZERO, PATIENCE).unwrap();
    let error = odd.next_snapshot().unwrap_err().to_string();
    assert!(error.contains("status stream SECONDS"), "{error}");
    stopper.stop();
    thread.join().unwrap();
    let left = std::iter::from_fn(|| stream.next_snapshot().unwrap());
    assert!(left.count() < 20);
}
