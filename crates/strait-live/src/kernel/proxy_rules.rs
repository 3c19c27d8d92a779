//! The rules by which a host's kernel brings clients to a gateway's TCP proxy: a shell script, for
//! an operator to read, run and undo. The gateway itself sets none.

use std::fmt::Write as _;

use strait_node::NodeConfig;
use strait_node::config::HostKind;

/// The table of `nft`, and the number of the packets' mark and of the routing table.
pub(super) const TABLE: &str = "strait_proxy";
pub(super) const NUMBER: u16 = 7480;

/// A packet that asks for a connection.
const FIRST: &str = "tcp flags & (fin | syn | rst | ack) == syn";

/// The script that sets the rules; `None` if the gateway has no proxy.
///
/// While no gateway listens, connections pass as if there were no rules; if the proxy is to be
/// closed then, what is for partners' hosts has no way.
pub fn set(config: &NodeConfig) -> Option<String> {
    let proxy = config.proxy()?;
    let (mut rules, mut own) = (String::new(), String::new());
    for side in config.host.all().filter(|side| side.kind == HostKind::Tun) {
        let _ = writeln!(own, "        iifname \"{}\" return", side.interface);
    }
    let mut routes = String::new();
    for (v4, family, flag, all) in [
        (true, "ip", "-4", "0.0.0.0/0"),
        (false, "ip6", "-6", "::/0"),
    ] {
        let prefixes = config.proxied().into_iter().map(|it| it.network());
        let prefixes = prefixes.filter(|it| it.address.is_ipv4() == v4);
        for prefix in prefixes {
            let port = proxy.port;
            let _ = writeln!(
                rules,
                "        {family} daddr {prefix} {FIRST} \
                 tproxy {family} to :{port} meta mark set {NUMBER} accept",
            );
        }
        // Clients that ask others for names over TCP are answered by the DNS proxy.
        let dns = config.dns().filter(|dns| dns.capture);
        let clients = dns.into_iter().flat_map(|dns| &dns.clients);
        let clients = clients.map(|it| it.network());
        for client in clients.filter(|it| it.address.is_ipv4() == v4) {
            let port = proxy.port;
            let _ = writeln!(
                rules,
                "        {family} saddr {client} tcp dport 53 {FIRST} \
                 tproxy {family} to :{port} meta mark set {NUMBER} accept",
            );
        }
        for route in closing(config, v4) {
            let _ = match proxy.closed {
                true => writeln!(routes, "ip {flag} route replace {route}"),
                false => writeln!(routes, "ip {flag} route del {route} 2>/dev/null"),
            };
        }
        let _ = writeln!(
            routes,
            "ip {flag} rule del fwmark {NUMBER} lookup {NUMBER} 2>/dev/null\n\
             ip {flag} rule add fwmark {NUMBER} lookup {NUMBER}\n\
             ip {flag} route replace local {all} dev lo table {NUMBER}"
        );
    }
    Some(format!(
        "nft -f - <<'END' || exit 1
table inet {TABLE}
delete table inet {TABLE}
table inet {TABLE} {{
    chain in {{
        type filter hook prerouting priority mangle; policy accept;
        # Packets from a link or for this host pass. Other clients' first packets are redirected to
        # the gateway, which lets them pass while its partner is silent.
        {FIRST} jump clients
        # Packets of the gateway's connections with clients, or in their names, and related ICMP
        # errors.
        meta l4proto {{ tcp, icmp, icmpv6 }} socket transparent 1 meta mark set {NUMBER} accept
    }}
    chain clients {{
{own}        fib daddr type local return
{rules}    }}
}}
END
{routes}"
    ))
}

/// The routes of one family that are left when the gateway's interface goes with its process: none
/// of the same prefix that others have may win then.
pub(super) fn closing(config: &NodeConfig, v4: bool) -> Vec<String> {
    let sides = config.host.all().filter(|side| side.kind == HostKind::Tun);
    let metric = sides.map(|side| side.metric).max().flatten();
    // A route of IPv6 that was given no metric has this one in the kernel.
    let metric = metric
        .unwrap_or(if v4 { 0 } else { 1024 })
        .saturating_add(1);
    let prefixes = config.proxied().into_iter().map(|it| it.network());
    let prefixes = prefixes.filter(|it| it.address.is_ipv4() == v4);
    prefixes
        .map(|prefix| format!("unreachable {prefix} metric {metric}"))
        .collect()
}

/// The script that takes them away.
pub fn undo(config: &NodeConfig) -> String {
    let mut script = format!("nft delete table inet {TABLE}\n");
    for (v4, flag) in [(true, "-4"), (false, "-6")] {
        for route in closing(config, v4) {
            let _ = writeln!(script, "ip {flag} route del {route} 2>/dev/null");
        }
        let _ = writeln!(
            script,
            "ip {flag} rule del fwmark {NUMBER} lookup {NUMBER}\n\
             ip {flag} route flush table {NUMBER}"
        );
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(proxy: &str) -> NodeConfig {
        let text = format!(
            "name = \"a\"\n[host]\naddresses = [\"10.9.0.1/30\"]\n\
             [[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = 9600\n{proxy}"
        );
        strait_node::config_text::parse("a.toml", &text).unwrap()
    }

    #[test]
    fn rules_name_partners_prefixes_and_their_own_table_alone() {
        assert_eq!(set(&config("")), None);
        let partner = "[[proxy.partner]]\naddress = \"10.9.0.2\"\nprefixes = [\"10.2.0.7/24\"]";
        let off = format!("[proxy]\nenabled = false\n{partner}");
        assert_eq!(set(&config(&off)), None);
        let script = set(&config(&format!("[proxy]\nport = 99\n{partner}"))).unwrap();
        let rule = "tproxy ip to :99 meta mark set 7480";
        let rule = format!("ip daddr 10.2.0.0/24 {FIRST} {rule}");
        assert!(script.contains(&rule), "{script}");
        assert!(script.contains("iifname \"strait0\" return"), "{script}");
        let dns = "[dns]\ncapture = true\nclients = [\"10.1.0.0/24\"]\nahead = true\n\
                   [[dns.partner]]\naddress = \"10.9.0.2\"";
        let both = set(&config(&format!("[proxy]\nport = 99\n{partner}\n{dns}"))).unwrap();
        for rule in [
            format!("ip saddr 10.1.0.0/24 tcp dport 53 {FIRST} tproxy ip to :99"),
            format!("ip daddr 198.19.0.0/16 {FIRST} tproxy ip to :99"),
        ] {
            assert!(both.contains(&rule), "{both}");
        }
        assert!(!script.contains("flush ruleset") && !script.contains("ip6 daddr"));
    }

    #[test]
    fn a_closed_proxy_leaves_a_route_behind_that_loses_to_the_gateways_own_alone() {
        let partner = "[[proxy.partner]]\naddress = \"10.9.0.2\"\n\
                       prefixes = [\"10.2.0.7/24\", \"fd00:2::/64\"]";
        let all = |host: &str, closed: bool| {
            let text = format!("[proxy]\nclosed = {closed}\n{partner}");
            let mut config = config(&text);
            config.host.first.metric = host.parse().ok();
            (set(&config).unwrap(), undo(&config))
        };
        for (host, routes) in [
            ("", ["10.2.0.0/24 metric 1", "fd00:2::/64 metric 1025"]),
            ("5", ["10.2.0.0/24 metric 6", "fd00:2::/64 metric 6"]),
        ] {
            let (closed, undone) = all(host, true);
            let (open, _) = all(host, false);
            for (flag, route) in ["-4", "-6"].into_iter().zip(routes) {
                let keeps = format!("ip {flag} route replace unreachable {route}\n");
                assert!(
                    closed.contains(&keeps) && !open.contains(&keeps),
                    "{closed}"
                );
                let opens = format!("ip {flag} route del unreachable {route} ");
                assert!(undone.contains(&opens) && open.contains(&opens), "{undone}");
            }
        }
    }
}
