//! A real HTTP server with the content of a transfer or a page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use strait_core::time::Duration;
use strait_live::error::Doing;
use strait_qos::Dscp;
use strait_traffic::{FlowLog, FlowReport, LiveProgram, Side, Transfer, report};

use super::Flow;
use super::measured::congestion;
use crate::ground::net::is_bound;
use crate::ground::process::{Running, require};
use crate::kernel::apply::run;
use crate::{LabError, Stage};

/// How connections are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    /// Files come from a server of this program's.
    pub(crate) program: Option<LiveProgram>,
    /// They have TLS.
    pub(crate) tls: bool,
    /// By HTTP/2, which takes TLS.
    pub(crate) http2: bool,
}

/// `python3 -m http.server` where the data is; `nginx` by HTTP/2 and for `wget`, `vsftpd` for FTP.
#[derive(Debug)]
pub(crate) struct WebServer {
    /// On which end of the traffic it is.
    end: usize,
    /// Octets of each object.
    pub(crate) sizes: Vec<u64>,
    manner: Manner,
    running: Option<Running>,
}

/// Octets that all objects together may have: they are files of the scratch folder.
const OCTETS_MAX: u64 = 1 << 30;

/// `http.server` as servers in use are: a response's header and its body leave together and at
/// once, a turn's connections may come at once, and nothing is left for the first request to set
/// up. Beyond its own limit of five, connections wait a second or two for their next SYN.
const SERVER: &str = "import http.server, mimetypes, runpy, socket, socketserver\n\
     mimetypes.init()\n\
     socketserver.TCPServer.request_queue_size = 512\n\
     socketserver.StreamRequestHandler.disable_nagle_algorithm = True\n\
     socketserver.StreamRequestHandler.wbufsize = 1 << 20\n";
const SERVE: &str = "runpy.run_module('http.server', run_name='__main__')\n";

/// Connections get a congestion control of their own: the one of the route counts unless a program
/// chooses for the connection.
fn by_congestion(control: &str) -> String {
    format!(
        "accept = socketserver.TCPServer.get_request\n\
         def get_request(self):\n\
         \x20   connection, address = accept(self)\n\
         \x20   connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b'{control}')\n\
         \x20   return connection, address\n\
         socketserver.TCPServer.get_request = get_request\n"
    )
}

/// Connections have TLS, by a certificate and its key in one file. A first session, with itself,
/// loads what the library needs.
fn by_tls(file: &Path) -> String {
    format!(
        "import http, ssl\n\
         tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n\
         tls.load_cert_chain('{0}')\n\
         own = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)\n\
         own.check_hostname, own.verify_mode = False, ssl.CERT_NONE\n\
         there, back = ssl.MemoryBIO(), ssl.MemoryBIO()\n\
         ends = own.wrap_bio(back, there), tls.wrap_bio(there, back, server_side=True)\n\
         for end in ends * 2:\n\
         \x20   try:\n\
         \x20       end.do_handshake()\n\
         \x20   except ssl.SSLWantReadError:\n\
         \x20       pass\n\
         setup = socketserver.StreamRequestHandler.setup\n\
         def begin(self):\n\
         \x20   self.request = tls.wrap_socket(self.request, server_side=True)\n\
         \x20   setup(self)\n\
         socketserver.StreamRequestHandler.setup = begin\n",
        file.display()
    )
}

/// What serves a folder by HTTP/2, by a certificate and its key in one file, at a port of both
/// families. It waits for whom a link keeps waiting: others give up a connection of which the
/// settings aren't acknowledged within 10 s.
fn by_http2(file: &Path, served: &Path, port: u16) -> String {
    let (file, served) = (file.display(), served.display());
    format!(
        "daemon off;\nmaster_process off;\npid {file}.pid;\nevents {{}}\nhttp {{\n\
         access_log off;\nclient_header_timeout 1h;\nsend_timeout 1h;\nkeepalive_timeout 1h;\n\
         server {{\nlisten {port} ssl http2;\nlisten [::]:{port} ssl http2;\n\
         ssl_certificate {file};\nssl_certificate_key {file};\n\
         ssl_protocols TLSv1.3;\nroot {served};\n}}\n}}\n"
    )
}

/// What serves a folder in the clear, at a port of both families.
fn in_the_clear(served: &Path, port: u16) -> String {
    let served = served.display();
    format!(
        "daemon off;\nmaster_process off;\npid {served}.pid;\nevents {{}}\nhttp {{\n\
         access_log off;\nserver {{\nlisten {port};\nlisten [::]:{port};\nroot {served};\n}}\n}}\n"
    )
}

/// Where FTP servers are asked.
const FTP_PORT: u16 = 21;

/// What serves a folder by FTP, its data at a port of its own: so a policy may tell it.
fn by_ftp(served: &Path, port: u16) -> String {
    format!(
        "listen=NO\nlisten_ipv6=YES\nlisten_port={FTP_PORT}\nbackground=NO\n\
         run_as_launching_user=YES\nanonymous_enable=YES\nno_anon_password=YES\nanon_root={}\n\
         pasv_min_port={port}\npasv_max_port={port}\nseccomp_sandbox=NO\nisolate=NO\n\
         isolate_network=NO\nxferlog_enable=NO\n",
        served.display()
    )
}

/// What makes a certificate as long as the simulated one, with what leads to its issuer.
const CERTIFICATE_FILL_OCTETS: usize = 2100;

/// Makes a certificate and its key in one file.
fn make_certificate(file: &Path) -> Result<(), LabError> {
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=page"]);
    command.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    let fill = "x".repeat(CERTIFICATE_FILL_OCTETS);
    command.args(["-addext", &format!("nsComment={fill}")]);
    command.arg("-keyout").arg(file).arg("-out").arg(file);
    let made = command.output().doing(|| "run openssl".to_owned())?;
    let text = String::from_utf8_lossy(&made.stderr).into_owned();
    let wrong = || std::io::Error::other(text);
    let made = made.status.success().then_some(()).ok_or_else(wrong);
    Ok(made.doing(|| format!("make a certificate {}", file.display()))?)
}

/// Where in the content of a traffic an object begins.
const fn place(index: usize) -> u64 {
    (index as u64) << 32
}

impl WebServer {
    pub(crate) fn new(
        flow: &Flow,
        end: usize,
        sizes: Vec<u64>,
        manner: Manner,
    ) -> Result<Self, LabError> {
        if sizes.iter().sum::<u64>() > OCTETS_MAX {
            return Err(flow.wrong("`octets` must be at most 1 GiB"));
        }
        match manner.program {
            None => {
                require("curl", "curl")?;
                require("python3", "python3")?;
            }
            Some(program) => {
                require("wget", "wget")?;
                let is_ftp = program == LiveProgram::Ftp;
                let server = if is_ftp { "vsftpd" } else { "nginx" };
                require(server, if is_ftp { server } else { "nginx-light" })?;
            }
        }
        if manner.tls {
            require("openssl", "openssl")?;
        }
        if manner.http2 {
            require("nginx", "nginx-light")?;
        }
        Ok(Self {
            end,
            sizes,
            manner,
            running: None,
        })
    }

    pub(crate) fn start(&mut self, stage: &Stage<'_>, flow: &Flow) -> Result<(), LabError> {
        let mut content = flow.config.content(stage.seed);
        for (index, octets) in self.sizes.iter().enumerate() {
            let mut file = Vec::new();
            content.append(place(index), *octets as usize, &mut file);
            let name = format!("{}.served/{index}", flow.config.name);
            stage.scratch.write(&name, &file)?;
        }
        let folder = Self::fetched(stage, flow);
        fs::create_dir_all(&folder).doing(|| format!("create folder {}", folder.display()))?;
        let certificate = stage.scratch.file(&format!("{}.pem", flow.config.name));
        if self.manner.tls {
            make_certificate(&certificate)?;
        }
        let served = stage.scratch.file(&format!("{}.served", flow.config.name));
        let port = Self::port(flow);
        let orders = match self.manner.program {
            Some(LiveProgram::Ftp) => by_ftp(&served, port),
            Some(_) => in_the_clear(&served, port),
            None if self.manner.http2 => by_http2(&certificate, &served, port),
            None => String::new(),
        };
        let file = format!("{}.orders", flow.config.name);
        let orders = stage.scratch.write(&file, orders.as_bytes())?;
        let command = self.command(flow, [&certificate, &served, &orders]);
        let name = format!("{}-server", flow.config.name);
        self.running = Some(stage.start(flow.host(stage, self.end), &name, command)?);
        self.mark(stage, flow)
    }

    /// Where it is asked, and where its data comes from.
    fn ports(&self, flow: &Flow) -> [u16; 2] {
        let port = Self::port(flow);
        let is_ftp = self.manner.program == Some(LiveProgram::Ftp);
        [if is_ftp { FTP_PORT } else { port }, port]
    }

    /// Marks the packets of its connections, as its programs don't: at both hosts, by nftables.
    fn mark(&self, stage: &Stage<'_>, flow: &Flow) -> Result<(), LabError> {
        if flow.config.dscp == Dscp::default() {
            return Ok(());
        }
        require("nft", "nftables")?;
        let (port, dscp) = (Self::port(flow), flow.config.dscp.number());
        let asked = self.ports(flow)[0];
        let rules = ["ip", "ip6"].map(|family| {
            let ports = format!("{{ {port}, {asked} }}");
            let rule = |way| format!("\t\ttcp {way} {ports} {family} dscp set {dscp}\n");
            rule("sport") + &rule("dport")
        });
        let text = format!(
            "table inet lab{port} {{\n\tchain marks {{\n\t\ttype filter hook output priority mangle;\n\
             {}\t}}\n}}\n",
            rules.concat()
        );
        for end in [0, 1] {
            run(flow.host(stage, end), "nft", &["-f", "-"], &text)?;
        }
        Ok(())
    }

    fn command(&self, flow: &Flow, [certificate, served, orders]: [&Path; 3]) -> Command {
        if self.manner.program == Some(LiveProgram::Ftp) {
            let mut command = Command::new("vsftpd");
            command.arg(orders);
            return command;
        }
        if self.manner.http2 || self.manner.program.is_some() {
            let mut command = Command::new("nginx");
            command.args(["-e", "stderr", "-c"]).arg(orders);
            return command;
        }
        let port = Self::port(flow).to_string();
        let control = flow.config.endpoint.as_deref().and_then(congestion);
        let control = control.map(by_congestion).unwrap_or_default();
        let tls = self.manner.tls.then(|| by_tls(certificate));
        let tls = tls.unwrap_or_default();
        let mut command = Command::new("python3");
        command.args(["-c", &format!("{SERVER}{control}{tls}{SERVE}")]);
        command.arg(port);
        // Both families, and connections that stay open for the next object.
        command.args(["--bind", "::", "--protocol", "HTTP/1.1", "--directory"]);
        command.arg(served);
        command
    }

    pub(crate) fn is_ready(&self, stage: &Stage<'_>, flow: &Flow) -> Result<bool, LabError> {
        let running = self.running.as_ref();
        running.map_or(Ok(()), Running::expect_alive)?;
        Ok(is_bound(
            flow.host(stage, self.end),
            true,
            self.ports(flow)[0],
        )?)
    }

    pub(crate) fn stop(&self) {
        stop(self.running.as_ref());
    }

    /// Its port: that of the traffic's other end, whichever host it is on.
    const fn port(flow: &Flow) -> u16 {
        flow.ends[1].port()
    }

    /// `HOST:PORT`, as in a URL.
    pub(crate) fn authority(&self, flow: &Flow) -> String {
        std::net::SocketAddr::new(flow.address(self.end), self.ports(flow)[0]).to_string()
    }

    /// The folder for what is fetched, each object named by its number.
    pub(crate) fn fetched(stage: &Stage<'_>, flow: &Flow) -> PathBuf {
        stage.scratch.file(&format!("{}.fetched", flow.config.name))
    }

    /// How much was fetched, and whether it is what was served.
    pub(crate) fn compared(&self, stage: &Stage<'_>, flow: &Flow) -> Transfer {
        let mut content = flow.config.content(stage.seed);
        let mut transfer = Transfer::default();
        for index in 0..self.sizes.len() {
            let path = Self::fetched(stage, flow).join(index.to_string());
            let Ok(file) = fs::read(&path) else { continue };
            transfer.octets += file.len() as u64;
            transfer.wrong_octets += content.count_wrong(place(index), &file);
        }
        transfer
    }

    /// Whether all that is served was fetched.
    pub(crate) fn has_all(&self, transfer: &Transfer) -> bool {
        transfer.octets == self.sizes.iter().sum::<u64>()
    }
}

/// Asks a program to end, if it still runs.
pub(crate) fn stop(running: Option<&Running>) {
    if let Some(running) = running {
        running.end_by(Signal::SIGTERM, Duration::from_millis(500));
    }
}

/// The report, from a client that knows both ends of its transfers.
pub(crate) fn joined(flow: &Flow, transfer: &Transfer) -> FlowReport {
    let log = |side| FlowLog {
        transfer: Some(transfer.clone()),
        ..FlowLog::new(&flow.config.name, side)
    };
    report(&flow.config, &log(Side::From), &log(Side::To))
}

/// A note if the client didn't come to its end.
pub(crate) fn unfinished(
    flow: &Flow,
    transfer: &Transfer,
    client: Option<&Running>,
) -> Option<String> {
    let complaints = client.map(Running::complaints);
    let complaints = complaints.filter(|text| !text.is_empty());
    transfer.finished_ns.is_none().then(|| {
        format!(
            "{}: its client didn't fetch everything: {}",
            flow.config.name,
            complaints.unwrap_or_else(|| String::from("it didn't end in time"))
        )
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::{Ipv6Addr, SocketAddr, TcpStream};
    use std::process::Stdio;
    use std::time::Duration;

    use nix::sys::signal::kill;
    use nix::unistd::Pid;

    use super::*;

    #[test]
    fn a_server_that_is_busy_keeps_all_connections_of_a_turn() {
        if require("python3", "python3").is_err() {
            eprintln!("the lab's server: skipped, there is no `python3`");
            return;
        }
        let mut command = Command::new("python3");
        command.args([
            "-u",
            "-c",
            &format!("{SERVER}{SERVE}"),
            "0",
            "--bind",
            "::1",
        ]);
        let mut server = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut told = String::new();
        let out = server.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut told).unwrap();
        let port = told.split("port ").nth(1).unwrap();
        let port = port.split(' ').next().unwrap().parse().unwrap();
        let pid = Pid::from_raw(i32::try_from(server.id()).unwrap());
        kill(pid, Signal::SIGSTOP).unwrap();
        let to = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        let connect = |_| TcpStream::connect_timeout(&to, Duration::from_millis(500));
        let all: Result<Vec<TcpStream>, _> = (0..60).map(connect).collect();
        server.kill().unwrap();
        server.wait().unwrap();
        assert_eq!(all.unwrap().len(), 60);
    }
}
