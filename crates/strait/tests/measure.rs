//! `strait measure tcp` and its server as their user meets them, over loopback.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::thread;

const STRAIT: &str = env!("CARGO_BIN_EXE_strait");

/// A server process on a free port.
struct Server {
    process: Child,
    complaints: BufReader<ChildStderr>,
    address: String,
}

impl Server {
    fn start(options: &[&str]) -> Self {
        let mut process = Command::new(STRAIT)
            .args(["measure", "tcp", "serve", "--local", "127.0.0.1:0"])
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut complaints = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        complaints.read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        Self {
            process,
            complaints,
            address,
        }
    }

    /// Sends a signal and gives what it said at the end.
    fn stop(mut self, signal: &str) -> String {
        let number = self.process.id().to_string();
        let sent = Command::new("kill").args([signal, &number]).status();
        assert!(sent.unwrap().success());
        assert!(self.process.wait().unwrap().success());
        let mut text = String::new();
        self.complaints.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If a test failed before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn measure(arguments: &[&str]) -> Output {
    let mut command = Command::new(STRAIT);
    command.args(["measure", "tcp"]).args(arguments);
    command.output().unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    let complaints = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).expect(&complaints)
}

/// What stands in a column of the transfers' table.
fn column(result: &serde_json::Value, title: &str) -> Vec<serde_json::Value> {
    let table = &result["tables"][0];
    assert_eq!(table["id"], "transfers");
    let columns = table["columns"].as_array().unwrap();
    let place = columns.iter().position(|it| it == title).unwrap();
    let rows = table["rows"].as_array().unwrap().iter();
    rows.map(|row| row[place].clone()).collect()
}

#[test]
fn sizes_are_measured_both_ways() {
    let server = Server::start(&[]);
    let output = measure(&[
        &server.address,
        "--size=1kB,2MB",
        "--both",
        "--runs=2",
        "--rate=1Gbit/s",
        "--interval=1ms",
        "--congestion=reno",
        "--json",
        "--strict",
    ]);
    assert!(output.status.success(), "{output:?}");
    let result = json(&output);
    assert_eq!(column(&result, "result"), vec!["complete"; 8]);
    assert_eq!(column(&result, "tcp"), vec!["reno"; 8]);
    assert_eq!(column(&result, "wrong [B]"), vec![0.0; 8]);
    let ways = ["up", "up", "down", "down"].repeat(2);
    assert_eq!(column(&result, "direction"), ways);
    for title in [
        "connect [s]",
        "total [s]",
        "last octet [s]",
        "use",
        "rtt [s]",
    ] {
        let values = column(&result, title);
        assert!(
            values.iter().all(serde_json::Value::is_number),
            "{title} {values:?}"
        );
    }
    assert_eq!(result["tables"][1]["id"], "progress");
    let text = server.stop("-TERM");
    assert!(
        text.contains("8 connections, 8 transfers complete"),
        "{text}"
    );
}

#[test]
fn a_server_ends_in_the_middle_and_the_client_tells() {
    let server = Server::start(&[]);
    // Somebody who has asked for more than he takes.
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream
        .write_all(b"stM1\x01\0\0\0\x3b\x9a\xca\0\0\0\0\0\0\0\x03\xe8")
        .unwrap();
    stream.read_exact(&mut [0; 100_000]).unwrap();
    let address = server.address.clone();
    let text = server.stop("-INT");
    assert!(text.contains("0 transfers complete"), "{text}");
    let ended = stream.read_to_end(&mut Vec::new());
    assert!(ended.is_err(), "reset");
    let output = measure(&[&address, "--size=1kB", "--json", "--strict"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(column(&json(&output), "result"), ["connection refused"]);
}

#[test]
fn each_size_fails_for_itself() {
    let server = Server::start(&["--size-max", "10 kB"]);
    let output = measure(&[&server.address, "--size=1kB,20kB,2kB", "--json"]);
    assert!(output.status.success());
    let results = column(&json(&output), "result");
    assert_eq!(results[0], "complete");
    let told = results[1].as_str().unwrap();
    assert!(told.contains("no transfer of this size"), "{told}");
    assert_eq!(results[2], "complete");
}

#[test]
fn a_peer_of_another_kind_is_told_and_a_silent_one_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let peer = thread::spawn(move || {
        let mut first = listener.accept().unwrap().0;
        first.write_all(b"220 mail.example.org ESMTP\r\n").unwrap();
        // The second is never answered, but the connection stays.
        listener.accept().unwrap().0
    });
    let options = ["--size=1kB,2kB", "--timeout=300 ms", "--json"];
    let output = measure(&[&[address.as_str()], &options[..]].concat());
    let results = column(&json(&output), "result");
    let told = results[0].as_str().unwrap();
    assert!(told.contains("doesn't speak"), "{told}");
    assert_eq!(results[1], "timed out");
    drop(peer.join().unwrap());
}

#[test]
fn the_log_has_every_transfer() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.json");
    let output = measure(&[
        &server.address,
        "--size=1kB",
        "--log",
        path.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{output:?}");
    let log: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(log["measured"][0]["octets"], 1000);
    assert_eq!(log["measured"][0]["clock_error_ns"], 0);
}

#[test]
fn wrong_usage_is_named() {
    for (options, named) in [
        (["--size=0"], "--size"),
        (["--runs=65"], "--runs"),
        (["--interval=999us"], "--interval"),
        (["--congestion=a/b"], "--congestion"),
    ] {
        let output = measure(&[&["127.0.0.1:1"], &options[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(named), "{text}");
    }
    assert_eq!(measure(&[]).status.code(), Some(2));
    let output = measure(&["127.0.0.1:notaport"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}
