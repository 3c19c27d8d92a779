//! What a host lacks for a gateway's TCP proxy, each with its remedy.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;
use strait_node::config::{HostKind, ProxyConfig};
use strait_node::{NodeConfig, Prefix};
use strait_status::Snapshot;

use super::proxy_rules::{NUMBER, TABLE};
use crate::gateway::STATUS_FOLDER;
use crate::status::{self, Format};

/// A gateway answers at once, or is stopped by a debugger.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bits of a process's rights (`linux/capability.h`).
const RIGHTS: [(u32, &str); 2] = [(12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW")];

/// Something that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lack {
    /// A word for it.
    pub what: &'static str,
    /// What is missing.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

/// What a host says of itself.
#[derive(Debug)]
struct Host {
    /// The effective rights of this process.
    rights: u64,
    /// The proxy's table of `nft`, or why there is none.
    table: Result<String, String>,
    /// By family: routing rules, the routing table of the proxy, and where each prefix leads.
    rules: [String; 2],
    table_routes: [String; 2],
    ways: Vec<(Prefix, String)>,
    /// By family, whether packets are forwarded.
    forwards: [bool; 2],
    /// Interfaces whose filter of ways back takes marks into account.
    marked: Vec<String>,
    /// Ports at which TCP listens.
    listening: [Vec<u16>; 2],
    /// What the gateway says of itself.
    status: Option<Snapshot>,
}

/// What this host lacks; `None` if the gateway has no proxy.
pub fn lacks(config: &NodeConfig) -> Option<Vec<Lack>> {
    let proxy = config.proxy()?;
    Some(judge(config, proxy, &look(config)))
}

fn look(config: &NodeConfig) -> Host {
    let ways = config.proxied().into_iter().map(|prefix| {
        let address = prefix.network().address.to_string();
        let way = output("ip", &[flag(prefix.address), "route", "get", &address]);
        (prefix, way.unwrap_or_default())
    });
    let number = NUMBER.to_string();
    let route = |flag| output("ip", &[flag, "route", "show", "table", &number]);
    let socket = config.status.socket.as_ref().map(PathBuf::from);
    let socket =
        socket.unwrap_or_else(|| PathBuf::from(format!("{STATUS_FOLDER}/{}.sock", config.name)));
    let status = status::request(&socket, Format::Json, PATIENCE).ok();
    Host {
        rights: read("/proc/self/status")
            .lines()
            .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok())
            .unwrap_or_default(),
        table: output("nft", &["list", "table", "inet", TABLE]),
        rules: ["-4", "-6"].map(|flag| output("ip", &[flag, "rule"]).unwrap_or_default()),
        table_routes: ["-4", "-6"].map(|flag| route(flag).unwrap_or_default()),
        ways: ways.collect(),
        forwards: ["ipv4/ip_forward", "ipv6/conf/all/forwarding"]
            .map(|key| read(&format!("/proc/sys/net/{key}")).trim() == "1"),
        marked: interfaces_with("src_valid_mark"),
        listening: ["tcp", "tcp6"].map(|file| listening(&read(&format!("/proc/net/{file}")))),
        status: status.and_then(|text| serde_json::from_str(&text).ok()),
    }
}

fn judge(config: &NodeConfig, proxy: &ProxyConfig, host: &Host) -> Vec<Lack> {
    let mut lacks = Vec::new();
    let mut lack = |what, message: String, remedy: &str| {
        let remedy = remedy.to_owned();
        lacks.push(Lack {
            what,
            message,
            remedy,
        });
    };
    let set = "strait proxy rules FILE | sudo sh";
    for (bit, name) in RIGHTS {
        if host.rights >> bit & 1 == 0 {
            let message = format!("{name} is missing to whoever runs this");
            lack(
                "right",
                message,
                "run it, and the gateway, as root or with this right",
            );
        }
    }
    match &host.table {
        Err(why) => lack("nft", format!("no table `{TABLE}` of nft: {why}"), set),
        Ok(table) => {
            let all = config.proxied().into_iter();
            for prefix in all.filter(|it| !brings(table, it, proxy.port)) {
                let message = format!("no nft rule brings what is for {prefix}");
                lack("nft", message, set);
            }
            if !table.contains("socket transparent") {
                let message = "no nft rule takes in packets of the proxy's own connections";
                lack("nft", message.into(), set);
            }
        }
    }
    let tuns = config.host.all().filter(|side| side.kind == HostKind::Tun);
    let tuns: Vec<&str> = tuns.map(|side| &side.interface[..]).collect();
    for (at, family) in ["IPv4", "IPv6"].into_iter().enumerate() {
        let mut all = config.proxied().into_iter();
        if !all.any(|it| it.address.is_ipv6() == (at == 1)) {
            continue;
        }
        let mark = format!("fwmark {NUMBER:#x} lookup {NUMBER}");
        if !host.rules[at].contains(&mark) {
            lack(
                "rule",
                format!("no routing rule of {family} for marked packets"),
                set,
            );
        }
        if !host.table_routes[at].contains("local default dev lo") {
            let message = format!("routing table {NUMBER} of {family} takes nothing in");
            lack("rule", message, set);
        }
        if !host.forwards[at] {
            let key = ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"][at];
            let remedy = format!("sysctl -w {key}=1");
            lack("forwarding", format!("{family} isn't forwarded"), &remedy);
        }
        if host.status.is_some() && !host.listening[at].contains(&proxy.port) {
            let message = format!("nobody listens at TCP port {} in {family}", proxy.port);
            lack(
                "listener",
                message,
                "see the gateway's log: another program may have the port",
            );
        }
    }
    for address in &proxy.explicit {
        let ports = &host.listening[usize::from(address.is_ipv6())];
        if host.status.is_some() && !ports.contains(&address.port()) {
            let message = format!("nobody listens at {address}, where programs ask");
            let remedy = "see the gateway's log: the address isn't there, or is another program's";
            lack("listener", message, remedy);
        }
    }
    if !proxy.explicit.is_empty() && config.dns().is_none() {
        let message = "programs that ask for names hear that there are none";
        let remedy = "add [dns] with a [[dns.partner]], here and there, with `resolvers` there";
        lack("names", message.into(), remedy);
    }
    for interface in &host.marked {
        let message = format!("{interface} judges ways back by marks: it drops what is brought");
        let remedy = format!("sysctl -w net.ipv4.conf.{interface}.src_valid_mark=0");
        lack("rp-filter", message, &remedy);
    }
    for (prefix, way) in &host.ways {
        if !tuns.iter().any(|tun| way.contains(&format!("dev {tun} "))) {
            let message = format!("the host's way to {prefix} isn't by the gateway");
            lack(
                "way",
                message,
                "name it in `routes` of [host], and let no other route win",
            );
        }
    }
    match host.status.as_ref().map(|it| &it.proxy) {
        None => {
            let message = "the gateway doesn't answer: it isn't running, or not as in this file";
            lack("gateway", message.into(), "sudo strait run FILE");
        }
        Some(None) => {
            let message = "the gateway runs without a proxy";
            lack("gateway", message.into(), "start it again with this file");
        }
        Some(Some(status)) if status.partners_known < proxy.partners.len() as u64 => {
            let (there, all) = (status.partners_known, proxy.partners.len());
            let message = format!("{there} of {all} partners are heard; clients of others pass");
            let remedy = "see that the link is up, and that the other gateway has [proxy] with \
                          this one's address as its partner";
            lack("partner", message, remedy);
        }
        Some(Some(_)) => {}
    }
    lacks
}

/// Whether a table brings clients of a prefix to a port, by their first packets alone.
fn brings(table: &str, prefix: &Prefix, port: u16) -> bool {
    let network = prefix.network();
    // `nft` writes a single address without its length.
    let single = network.length == if network.address.is_ipv4() { 32 } else { 128 };
    let written = match single {
        true => network.address.to_string(),
        false => network.to_string(),
    };
    table.lines().any(|line| {
        let words = [
            format!("daddr {written} "),
            "tcp flags ".into(),
            format!(" to :{port} "),
        ];
        words.iter().all(|word| line.contains(&word[..]))
    })
}

const fn flag(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "-4" } else { "-6" }
}

/// What a program says, or why it says nothing.
fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.lines().next().unwrap_or_default().trim().to_owned())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Interfaces of IPv4 where a setting is on.
fn interfaces_with(key: &str) -> Vec<String> {
    const FOLDER: &str = "/proc/sys/net/ipv4/conf";
    let on = |name: &str| read(&format!("{FOLDER}/{name}/{key}")).trim() == "1";
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names
        .filter(|name| !["lo", "default"].contains(&&name[..]) && on(name))
        .collect();
    names.sort();
    names
}

/// Ports at which somebody listens, of a table of `/proc/net`.
fn listening(table: &str) -> Vec<u16> {
    const LISTEN: &str = "0A";
    let lines = table.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next()?, words.nth(1)?);
        let (_, port) = local.rsplit_once(':')?;
        (state == LISTEN).then(|| u16::from_str_radix(port, 16).ok())?
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use strait_status::Proxy;

    use super::*;

    const TABLE_TEXT: &str = "table inet strait_proxy {
        ip daddr 10.2.0.0/24 tcp flags & (fin | syn | rst | ack) == syn tproxy ip to :7480 meta mark set 0x00001d38 accept
        ip daddr 10.3.0.7 tcp flags & (fin | syn | rst | ack) == syn tproxy ip to :7480 meta mark set 0x00001d38 accept
        meta l4proto tcp socket transparent 1 meta mark set 0x00001d38 accept\n}";

    fn config() -> NodeConfig {
        let text = "name = \"a\"\n[host]\naddresses = [\"10.9.0.1/30\"]\n\
            [[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = 9600\n[proxy]\n\
            [[proxy.partner]]\naddress = \"10.9.0.2\"\n\
            prefixes = [\"10.2.0.0/24\", \"10.3.0.7/32\"]";
        strait_node::config_text::parse("a.toml", text).unwrap()
    }

    fn right() -> Host {
        let way = |prefix: &str| (prefix.parse().unwrap(), "x dev strait0 src y".to_owned());
        Host {
            rights: 1 << 12 | 1 << 13,
            table: Ok(TABLE_TEXT.into()),
            rules: ["0: fwmark 0x1d38 lookup 7480\n".into(), String::new()],
            table_routes: ["local default dev lo scope host".into(), String::new()],
            ways: vec![way("10.2.0.0/24"), way("10.3.0.7/32")],
            forwards: [true, false],
            marked: Vec::new(),
            listening: [vec![22, 7480], Vec::new()],
            status: Some(with_proxy(1)),
        }
    }

    fn with_proxy(partners_known: u64) -> Snapshot {
        Snapshot {
            proxy: Some(Proxy {
                partners_known,
                ..Proxy::default()
            }),
            ..Snapshot::default()
        }
    }

    fn found(change: impl FnOnce(&mut Host)) -> Vec<Lack> {
        let (config, mut host) = (config(), right());
        change(&mut host);
        judge(&config, config.proxy().unwrap(), &host)
    }

    #[test]
    fn a_host_with_all_lacks_nothing() {
        assert_eq!(found(|_| ()), []);
    }

    /// What is changed of a host that has all, the word that is said, and how often.
    type Case = (fn(&mut Host), &'static str, usize);

    #[test]
    fn each_thing_that_is_missing_is_told_alone() {
        let cases: [Case; 14] = [
            (|it| it.rights = 1 << 12, "right", 1),
            (|it| it.table = Err("No such file".into()), "nft", 1),
            (
                |it| it.table = Ok(TABLE_TEXT.replace("tcp flags", "")),
                "nft",
                2,
            ),
            (
                |it| it.table = Ok(TABLE_TEXT.replace("10.3.0.7", "10.3.0.8")),
                "nft",
                1,
            ),
            (
                |it| it.table = Ok(TABLE_TEXT.replace(":7480", ":7481")),
                "nft",
                2,
            ),
            (
                |it| it.table = Ok(TABLE_TEXT.replace("socket", "")),
                "nft",
                1,
            ),
            (|it| it.rules[0].clear(), "rule", 1),
            (|it| it.table_routes[0].clear(), "rule", 1),
            (|it| it.forwards[0] = false, "forwarding", 1),
            (|it| it.listening[0].clear(), "listener", 1),
            (|it| it.marked = vec!["eth0".into()], "rp-filter", 1),
            (|it| it.ways[1].1 = "x dev eth0 src y".into(), "way", 1),
            (|it| it.status = Some(Snapshot::default()), "gateway", 1),
            (|it| it.status = Some(with_proxy(0)), "partner", 1),
        ];
        for (at, (change, what, count)) in cases.into_iter().enumerate() {
            let lacks = found(change);
            let right = lacks.len() == count && lacks.iter().all(|it| it.what == what);
            assert!(right, "{at}: {lacks:?}");
        }
    }

    #[test]
    fn what_programs_need_that_ask_is_told() {
        let (mut config, mut host) = (config(), right());
        let proxy = config.proxy.as_mut().unwrap();
        proxy.explicit = vec!["127.0.0.1:1080".parse().unwrap()];
        let words = |config: &NodeConfig, host: &Host| -> Vec<&str> {
            let lacks = judge(config, config.proxy().unwrap(), host).into_iter();
            lacks.map(|it| it.what).collect()
        };
        assert_eq!(words(&config, &host), ["listener", "names"]);
        host.listening[0].push(1080);
        assert_eq!(words(&config, &host), ["names"]);
    }

    #[test]
    fn listeners_are_found_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st\n\
            0: 00000000:1D38 00000000:0000 0A 0\n1: 0100007F:0016 0100007F:9999 01 0\nrubbish";
        assert_eq!(listening(table), [7480]);
    }
}
