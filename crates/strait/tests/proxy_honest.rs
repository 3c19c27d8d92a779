//! What clients see of servers that fail, through the TCP proxies of two gateways and without them:
//! real curl and Python. Needs root, `nft`, `ip`, `curl` and `python3`.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

#[path = "proxy_honest/closed.rs"]
mod closed;
#[path = "proxy_honest/explicit.rs"]
mod explicit;
#[path = "proxy_honest/flood.rs"]
mod flood;
#[path = "proxy_honest/kills.rs"]
mod kills;
#[path = "proxy_honest/page.rs"]
mod page;

const STRAIT: &str = env!("CARGO_BIN_EXE_strait");
const SERVER: &str = include_str!("proxy_honest/server.py");
const CLIENT: &str = include_str!("proxy_honest/client.py");

/// What fails at the server's host without a server: nobody listens on 7010, errors of each kind,
/// silence, and addresses where nobody is.
const FAULTS: &str = "nft -f - <<'END'
table inet faults {
    chain in {
        type filter hook input priority 0; policy accept;
        ip6 daddr fd00:2::3 drop
        tcp dport 7011 meta nfproto ipv4 reject with icmp type net-unreachable
        tcp dport 7012 meta nfproto ipv4 reject with icmp type host-unreachable
        tcp dport 7013 meta nfproto ipv4 reject with icmp type port-unreachable
        tcp dport 7014 meta nfproto ipv4 reject with icmp type admin-prohibited
        tcp dport 7011 meta nfproto ipv6 reject with icmpv6 type no-route
        tcp dport 7012 meta nfproto ipv6 reject with icmpv6 type addr-unreachable
        tcp dport 7013 meta nfproto ipv6 reject with icmpv6 type port-unreachable
        tcp dport 7014 meta nfproto ipv6 reject with icmpv6 type admin-prohibited
        tcp dport 7020 drop
    }
}
END
sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0";

/// A firewall of the first gateway's, which knows connections; the other one has none.
const FIREWALL: &str = "nft -f - <<'END'
table inet firewall {
    chain in {
        type filter hook input priority 0; policy drop;
        meta mark 7480 accept
        iifname \"lo\" accept
        ct state established,related accept
        meta l4proto { icmp, icmpv6 } accept
        udp dport 7000 accept
        tcp dport 1080 accept
    }
    chain forward {
        type filter hook forward priority 0; policy drop;
        ct state established,related accept
        iifname \"lan\" accept
    }
    chain out {
        type filter hook output priority 0; policy accept;
        ct state invalid drop
    }
}
END";

/// UDP to the port of HTTPS, as a browser begins with it.
const QUIC: &str = "import socket, sys
for family, to in ((socket.AF_INET, '10.2.0.2'), (socket.AF_INET6, 'fd00:2::2')):
    it = socket.socket(family, socket.SOCK_DGRAM)
    it.settimeout(2)
    it.connect((to, 443))
    it.send(bytes(1200))
    try:
        it.recv(100)
    except ConnectionRefusedError:
        print('refused')
    except TimeoutError:
        print('silence')
";

/// A process that is ended with the test, whatever happens.
struct Running(Child);

impl Running {
    /// Kills it.
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// A network namespace, as long as its process.
struct Host(Running);

impl Host {
    fn new() -> Self {
        let mut sleep = Command::new("unshare");
        sleep.args(["--net", "sleep", "300"]);
        let host = Self(Running(sleep.spawn().unwrap()));
        // Until it has a namespace of its own.
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        while fs::read_link(format!("/proc/{}/ns/net", host.id())).unwrap() == own {
            thread::sleep(Duration::from_millis(10));
        }
        host.run("ip link set lo up");
        host
    }

    fn id(&self) -> u32 {
        self.0.0.id()
    }

    fn command(&self, command: &str) -> Command {
        let mut enter = Command::new("nsenter");
        let id = self.id().to_string();
        enter.args(["--net", "--target", &id, "sh", "-ec", command]);
        enter
    }

    /// What a command prints.
    fn run(&self, command: &str) -> String {
        let output = self.command(command).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {told}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn start(&self, command: &str, out: Stdio) -> Running {
        let mut command = self.command(&format!("exec {command}"));
        Running(command.stdout(out).stderr(Stdio::null()).spawn().unwrap())
    }

    /// A cable to another host, with an address of each family on either end.
    fn cable(&self, other: &Self, [here, there]: [&str; 2], net: &str, ends: [u8; 2]) {
        let (own, id) = (self.id(), other.id());
        let link = format!("ip link add {here} netns {own} type veth peer name {there} netns {id}");
        self.run(&link);
        for (host, name, end) in [(self, here, ends[0]), (other, there, ends[1])] {
            host.run(&format!(
                "ip addr add 10.{net}.0.{end}/24 dev {name}; \
                 ip addr add fd00:{net}::{end}/64 dev {name} nodad; ip link set {name} up"
            ));
        }
    }
}

fn node(folder: &Path, own: u8) -> String {
    let other = 3 - own;
    format!(
        "name = \"g{own}\"\n[host]\naddresses = [\"10.9.0.{own}/30\", \"fd00:9::{own}/64\"]\n\
         routes = [\"10.{other}.0.0/24\", \"fd00:{other}::/64\"]\n\
         [status]\nsocket = \"{}/{own}.sock\"\n\
         [[port]]\nname = \"p\"\nkind = \"udp\"\nrate = \"1 Mbit/s\"\nlocal = \"0.0.0.0:7000\"\n\
         [[port.neighbours]]\nname = \"g{other}\"\naddress = \"10.8.0.{other}:7000\"\n\
         [dns]\nresolvers = [\"10.{own}.0.2:53\"]\n\
         [[dns.partner]]\naddress = \"10.9.0.{other}\"\n\
         [proxy]\nexplicit = [\"127.0.0.1:1080\", \"10.{own}.0.1:1080\"]\nallow = [\"10.{own}.0.0/24\", \"fd00:{own}::/64\"]\n[[proxy.partner]]\n\
         address = \"10.9.0.{other}\"\nprefixes = [\"10.{other}.0.0/24\", \"fd00:{other}::/64\"]\n",
        folder.display()
    )
}

type Outcomes = BTreeMap<String, serde_json::Value>;

fn outcomes(client: &Host, script: &Path) -> Outcomes {
    let text = client.run(&format!("python3 {}", script.display()));
    serde_json::from_str(&text).unwrap()
}

/// Two gateways with proxies and a host behind each.
struct World {
    folder: tempfile::TempDir,
    /// The client, its gateway, the server's, and the server.
    hosts: [Host; 4],
    gateways: [Running; 2],
}

impl World {
    /// `None`, with a word about it, where this can't be.
    fn new() -> Option<Self> {
        let has = |program: &str| Command::new(program).arg("-V").output().is_ok();
        let programs = ["nft", "ip", "curl", "python3"];
        if fs::metadata("/proc/self").unwrap().uid() != 0 || !programs.into_iter().all(has) {
            eprintln!("proxies: skipped, this needs root, `nft`, `ip`, `curl` and `python3`");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let hosts = [(); 4].map(|()| Host::new());
        let [ha, a, b, hb] = &hosts;
        a.cable(ha, ["lan", "eth0"], "1", [1, 2]);
        b.cable(hb, ["lan", "eth0"], "2", [1, 2]);
        a.cable(b, ["wan", "wan"], "8", [1, 2]);
        for (host, net) in [(ha, 1), (hb, 2)] {
            host.run(&format!(
                "ip route add default via 10.{net}.0.1; ip route add default via fd00:{net}::1"
            ));
        }
        a.run(FIREWALL);
        let gateways = [(a, 1), (b, 2)].map(|(host, own)| {
            host.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
            let file = folder.path().join(format!("{own}.toml"));
            fs::write(&file, node(folder.path(), own)).unwrap();
            run(host, &file)
        });
        Some(Self {
            folder,
            hosts,
            gateways,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the server's program, and waits until it is ready.
    fn serve(&self, text: &str) -> Running {
        let script = self.path("server.py");
        fs::write(&script, text).unwrap();
        let command = format!("python3 {}", script.display());
        let mut server = self.hosts[3].start(&command, Stdio::piped());
        let mut ready = [0; 6];
        let out = server.0.stdout.as_mut().unwrap();
        out.read_exact(&mut ready).unwrap();
        server
    }

    /// Until gateways forward to the server.
    fn await_way(&self) {
        let ping = || self.hosts[0].command("ping -c 1 -W 1 10.2.0.2").output();
        let there = (0..100).any(|_| {
            thread::sleep(Duration::from_millis(100));
            ping().unwrap().status.success()
        });
        assert!(there, "no way leads to the server");
    }

    /// Until `strait proxy check` finds nothing missing at a gateway.
    fn await_whole(&self, own: usize) {
        let file = self.path(&format!("{own}.toml"));
        let check = format!("{STRAIT} proxy check {} || true", file.display());
        let whole = (0..100).any(|_| {
            thread::sleep(Duration::from_millis(100));
            self.hosts[own].run(&check).contains("nothing is missing")
        });
        assert!(whole, "{}", self.hosts[own].run(&check));
    }

    /// Sets both gateways' rules.
    fn rules(&self) {
        for own in 1..=2 {
            let file = self.path(&format!("{own}.toml"));
            self.hosts[own].run(&format!("{STRAIT} proxy rules {} | sh", file.display()));
            self.await_whole(own);
        }
    }

    /// What a gateway says of its proxy.
    fn status(&self, own: usize) -> serde_json::Value {
        let socket = self.path(&format!("{own}.sock"));
        let text = self.hosts[own].run(&format!("{STRAIT} status --json {}", socket.display()));
        let status: serde_json::Value = serde_json::from_str(&text).unwrap();
        status["proxy"].clone()
    }
}

/// Runs a gateway.
fn run(host: &Host, file: &Path) -> Running {
    host.start(&format!("{STRAIT} run {}", file.display()), Stdio::null())
}

#[test]
fn clients_see_what_they_would_see_without_proxies() {
    let Some(world) = World::new() else { return };
    let [ha, .., hb] = &world.hosts;
    let client = world.path("client.py");
    fs::write(&client, CLIENT).unwrap();
    hb.run("ip addr add 10.2.0.3/24 dev eth0; ip addr add fd00:2::3/64 dev eth0 nodad");
    hb.run(FAULTS);
    let _servers = world.serve(SERVER);
    // Gateways forward before there are rules.
    world.await_way();
    let without = outcomes(ha, &client);
    world.rules();
    let with = outcomes(ha, &client);
    let differ: Vec<String> = without
        .iter()
        .filter(|(name, outcome)| with.get(*name) != Some(outcome))
        .map(|(name, outcome)| format!("{name}: {outcome} without, {:?} with", with.get(name)))
        .collect();
    assert!(differ.is_empty(), "{differ:#?}");
    assert!(with.len() > 30, "{with:#?}");
    assert_eq!(with["refused, Python"], "ECONNREFUSED");
    assert_eq!(with["filtered, curl"][0], 28);
    // They did go by the proxies.
    let opened = &world.status(1)["streams"]["opened"];
    assert!(opened.as_u64().unwrap() > 20, "{}", world.status(1));
    let script = world.path("quic.py");
    fs::write(&script, QUIC).unwrap();
    let told = ha.run(&format!("python3 {}", script.display()));
    assert_eq!(told, "refused\nrefused\n");
}
