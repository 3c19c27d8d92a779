//! A gateway's echo service, and the client that everybody has: `openssl s_client`.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use strait_core::Duration;
use strait_core::node::{Boot, NodeFactory};
use strait_live::clock::Clock;
use strait_live::node_loop::{Options, Runner};
use strait_live::signals::Stopper;
use strait_live::sockets::tls::TlsProfiles;
use strait_node::config_text::parse;
use strait_node::{GatewayFactory, NodeConfig};

fn file(name: &str) -> String {
    format!("{}/../../vectors/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A gateway that serves on this host until it is dropped.
struct Serving {
    port: u16,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    fn start(more: &str) -> Self {
        // Nobody else gets a port that was in use a moment ago.
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let text = format!(
            "name = \"a\"\n[host]\n[echo]\nlisten = \"127.0.0.1:{port}\"\ntls = \"own\"\n{more}\n\
             [tls.own]\ncertificate = \"{}\"\nkey = \"{}\"\n",
            file("server.pem"),
            file("server.key")
        );
        let config: NodeConfig = parse("a.toml", &text).unwrap();
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            let profiles = TlsProfiles::load(&config.tls).unwrap();
            let node = GatewayFactory::new(config).unwrap().boot(Boot::default());
            let mut runner = Runner::new(Clock::start(), node, Vec::new()).unwrap();
            runner.set_options(Options {
                drain: Duration::ZERO,
                ..Options::default()
            });
            runner.set_tls(profiles);
            tell.send(runner.stopper()).unwrap();
            runner.run().unwrap();
        });
        let stopper = told.recv().unwrap();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            thread::sleep(Duration::from_millis(5));
        }
        Self {
            port,
            stopper,
            thread: Some(thread),
        }
    }

    /// A client that verifies for whom the service's certificate is.
    fn client(&self, name: &str, more: &[&str]) -> Child {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-quiet", "-verify_return_error", "-connect"]);
        command.arg(format!("127.0.0.1:{}", self.port));
        command.args(["-CAfile", &file("authority.pem"), "-verify_hostname", name]);
        command
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command.stderr(Stdio::null()).spawn().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stopper.stop();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn can(test: &str) -> bool {
    let there = Command::new("openssl").arg("version").output().is_ok();
    if !there {
        eprintln!("{test}: skipped, there is no `openssl`");
    }
    there
}

/// A line comes back.
fn speaks(mut client: Child) {
    let mut stdin = client.stdin.take().unwrap();
    let mut stdout = BufReader::new(client.stdout.take().unwrap());
    for line in ["hello\n", "again\n"] {
        stdin.write_all(line.as_bytes()).unwrap();
        let mut back = String::new();
        stdout.read_line(&mut back).unwrap();
        assert_eq!(back, line);
    }
    client.kill().unwrap();
    client.wait().unwrap();
}

#[test]
fn a_common_client_is_secured_from_the_start() {
    if !can("tls_openssl") {
        return;
    }
    let serving = Serving::start("");
    for version in ["-tls1_3", "-tls1_2"] {
        speaks(serving.client("a.example", &[version]));
    }
    let mut wrong = serving.client("c.example", &[]);
    assert!(!wrong.wait().unwrap().success());
    let mut old = serving.client("a.example", &["-tls1_1"]);
    assert!(!old.wait().unwrap().success());
}

#[test]
fn a_common_client_asks_for_tls_in_mid_stream() {
    if can("tls_openssl") {
        let serving = Serving::start("starttls = true");
        speaks(serving.client("b.example", &["-starttls", "irc"]));
    }
}
