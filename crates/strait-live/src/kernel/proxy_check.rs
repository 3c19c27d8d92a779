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

use super::proxy_rules::{NUMBER, TABLE, closing};
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
    /// The routes of exactly each prefix.
    routes: Vec<(Prefix, String)>,
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
    let routes = config.proxied().into_iter().map(|prefix| {
        let network = prefix.network().to_string();
        let all = [flag(prefix.address), "route", "show", "exact", &network];
        (prefix, output("ip", &all).unwrap_or_default())
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
        routes: routes.collect(),
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
            let message = format!("this process lacks {name}");
            lack(
                "right",
                message,
                "run this command and the gateway as root, or with this right",
            );
        }
    }
    match &host.table {
        Err(why) => lack("nft", format!("no table `{TABLE}` of nft: {why}"), set),
        Ok(table) => {
            let all = config.proxied().into_iter();
            for prefix in all.filter(|it| !brings(table, it, proxy.port)) {
                let message = format!("no nft rule redirects connections to {prefix}");
                lack("nft", message, set);
            }
            if !table.contains("socket transparent") {
                let message = "no nft rule accepts packets of the proxy's own connections";
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
            let message = format!("routing table {NUMBER} of {family} accepts no packets");
            lack("rule", message, set);
        }
        if !host.forwards[at] {
            let key = ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"][at];
            let remedy = format!("sysctl -w {key}=1");
            lack("forwarding", format!("{family} isn't forwarded"), &remedy);
        }
        if host.status.is_some() && !host.listening[at].contains(&proxy.port) {
            let message = format!("no program listens at TCP port {} in {family}", proxy.port);
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
            let message = format!("no program listens at {address} of `explicit`");
            let remedy = "see the gateway's log: the host lacks the address, or another program \
                          uses it";
            lack("listener", message, remedy);
        }
    }
    if !proxy.explicit.is_empty() && config.dns().is_none() {
        let message = "requests with names are refused";
        let remedy = "add [dns] with a [[dns.partner]] to both gateways, with `resolvers` at the \
                      far one";
        lack("names", message.into(), remedy);
    }
    for interface in &host.marked {
        let message =
            format!("{interface} checks return paths by marks: it drops redirected packets");
        let remedy = format!("sysctl -w net.ipv4.conf.{interface}.src_valid_mark=0");
        lack("rp-filter", message, &remedy);
    }
    for (prefix, way) in &host.ways {
        if !tuns.iter().any(|tun| way.contains(&format!("dev {tun} "))) {
            let message = format!("the host's route to {prefix} isn't through the gateway");
            lack(
                "way",
                message,
                "add it to `routes` of [host], and remove routes that take precedence",
            );
        }
    }
    for (prefix, routes) in &host.routes {
        let closes = |route: &&String| closes(routes, route);
        let v4 = prefix.address.is_ipv4();
        let own = closing(config, v4).into_iter();
        let own = own.filter(|it| it.contains(&format!("unreachable {} ", prefix.network())));
        let own: Vec<String> = own.collect();
        let closed = own.iter().any(|it| closes(&it));
        if proxy.closed && !closed {
            let message = format!("no route keeps {prefix} closed while no gateway runs");
            lack("closed", message, set);
        } else if !proxy.closed && closed {
            let message =
                format!("{prefix} is unreachable while no gateway runs, and shouldn't be");
            lack("closed", message, set);
        }
        let rivals = rivals(routes, &tuns, &own, v4);
        if proxy.closed && closed && !rivals.is_empty() {
            let message = format!("{prefix} has another route while no gateway runs: {rivals}");
            let remedy = "remove that route, or give it a greater metric";
            lack("closed", message, remedy);
        }
    }
    match host.status.as_ref().map(|it| &it.proxy) {
        None if proxy.closed => {
            let message = "the gateway doesn't answer, and partners' hosts are unreachable";
            let remedy =
                "sudo strait run FILE, or open it: strait proxy rules FILE --undo | sudo sh";
            lack("gateway", message.into(), remedy);
        }
        None => {
            let message = "the gateway doesn't answer: it isn't running, or not with this file";
            lack("gateway", message.into(), "sudo strait run FILE");
        }
        Some(None) => {
            let message = "the gateway runs without a proxy";
            lack("gateway", message.into(), "start it again with this file");
        }
        Some(Some(status)) if status.partners_known < proxy.partners.len() as u64 => {
            let (there, all) = (status.partners_known, proxy.partners.len());
            let message = format!(
                "{there} of {all} partners are heard; clients of the others bypass the proxy"
            );
            let remedy = "see that the link is up, and that the other gateway has [proxy] with \
                          this one's address as its partner";
            lack("partner", message, remedy);
        }
        Some(Some(status))
            if status.announced == 0 && proxy.partners.iter().any(|it| it.prefixes.is_empty()) =>
        {
            let message = "a partner has no `prefixes` here and announces none";
            let remedy = "add `announce` to its [proxy], or its `prefixes` here";
            lack("partner", message.into(), remedy);
        }
        Some(Some(_)) => {}
    }
    lacks
}

/// Whether the routes of a prefix, as `ip` shows them, have this one that leads nowhere.
fn closes(routes: &str, route: &str) -> bool {
    let metric = metric(route, 0);
    let mut lines = routes.lines();
    lines.any(|line| line.starts_with("unreachable ") && self::metric(line, 0) == metric)
}

/// The first of the routes of a prefix that is neither the gateway's nor loses to `own`.
fn rivals(routes: &str, tuns: &[&str], own: &[String], v4: bool) -> String {
    let usual = if v4 { 0 } else { 1024 };
    let most = own.iter().map(|it| metric(it, usual)).max();
    let rival = routes.lines().find(|line| {
        let ours = tuns
            .iter()
            .any(|tun| format!("{line} ").contains(&format!(" dev {tun} ")));
        let loses = most.is_some_and(|most| metric(line, usual) > most);
        !(line.starts_with("unreachable ") || ours || loses)
    });
    rival.unwrap_or_default().trim().to_owned()
}

/// The metric of a route.
fn metric(route: &str, usual: u64) -> u64 {
    let mut words = route.split_whitespace();
    let found = words.find(|word| *word == "metric");
    let number = found.and_then(|_| words.next()?.parse().ok());
    number.unwrap_or(usual)
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
            routes: Vec::new(),
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

    /// What of routes is told of a proxy that is to be closed, or not.
    fn of_routes(closed: bool, routes: &str) -> Vec<String> {
        let (mut config, mut host) = (config(), right());
        config.proxy.as_mut().unwrap().closed = closed;
        host.routes = vec![("10.2.0.0/24".parse().unwrap(), routes.to_owned())];
        let lacks = judge(&config, config.proxy().unwrap(), &host).into_iter();
        lacks
            .map(|it| format!("{}: {}", it.what, it.message))
            .collect()
    }

    #[test]
    fn what_keeps_a_closed_proxy_open_is_told() {
        const OWN: &str = "10.2.0.0/24 dev strait0 proto 76 scope link";
        const SHUT: &str = "unreachable 10.2.0.0/24 metric 1";
        let none: [String; 0] = [];
        assert_eq!(of_routes(false, OWN), none);
        assert_eq!(of_routes(true, &format!("{OWN}\n{SHUT}")), none);
        let missing = "closed: no route keeps 10.2.0.0/24 closed while no gateway runs";
        assert_eq!(of_routes(true, OWN), [missing]);
        let other = format!("{OWN}\nunreachable 10.2.0.0/24 metric 2");
        assert_eq!(of_routes(true, &other), [missing]);
        let left = of_routes(false, &format!("{OWN}\n{SHUT}"));
        assert!(
            left[0].starts_with("closed: 10.2.0.0/24 is unreachable"),
            "{left:?}"
        );
        let by = "10.2.0.0/24 via 10.7.0.2 dev wan";
        let rival = of_routes(true, &format!("{OWN}\n{by}\n{SHUT}"));
        assert!(rival[0].ends_with(by), "{rival:?}");
        let later = format!("{OWN}\n{SHUT}\n{by} metric 100");
        assert_eq!(of_routes(true, &later), none);
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
