#!/usr/bin/env python3
"""What clients see of servers that fail: without a proxy, by strait's, and by others' proxies.

    sudo scripts/proxy_others.py target/release/strait [COLUMN …]

Four network namespaces: a client, two gateways and a server, which fails in a dozen ways. curl,
wget, Python and Chromium ask it, as far as they are installed: first with nothing between, which
is what they should see, then by each column. Told is how many outcomes are the same, and each that
isn't. haproxy stands at the client's gateway, redsocks does with microsocks at the server's.
Programs that aren't installed are left out.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.join(HERE, "..", "crates", "strait", "tests", "proxy_honest")
CLIENT, NEAR, FAR, SERVER = NAMES = "p-c", "p-a", "p-b", "p-s"
PORTS = {7011: ("net-unreachable", "no-route"), 7012: ("host-unreachable", "addr-unreachable"),
         7013: ("port-unreachable",) * 2, 7014: ("admin-prohibited",) * 2}


def sh(line, check=True):
    return subprocess.run(line, shell=True, check=check, capture_output=True, text=True).stdout


def inside(name, command, **more):
    return subprocess.Popen(["ip", "netns", "exec", name, *command], **more)


def build():
    for name in NAMES:
        sh(f"ip netns add {name}; ip -n {name} link set lo up")
    for net, (here, there) in {1: (CLIENT, NEAR), 8: (NEAR, FAR), 2: (SERVER, FAR)}.items():
        ends = [(here, 1 if net == 8 else 2), (there, 2 if net == 8 else 1)]
        sh(f"ip link add n{net} netns {here} type veth peer name n{net} netns {there}")
        for name, number in ends:
            sh(f"ip -n {name} address add 10.{net}.0.{number}/24 dev n{net};"
               f"ip -n {name} address add fd00:{net}::{number}/64 dev n{net} nodad;"
               f"ip -n {name} link set n{net} up")
    for name, net in [(CLIENT, 1), (SERVER, 2)]:
        sh(f"ip -n {name} route add default via 10.{net}.0.1;"
           f"ip -n {name} route add default via fd00:{net}::1")
    for name, own, other in [(NEAR, 1, 2), (FAR, 2, 1)]:
        sh(f"ip netns exec {name} sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
        direct(name, own, other)
    sh(f"ip -n {SERVER} address add 10.2.0.3/24 dev n2;"
       f"ip -n {SERVER} address add fd00:2::3/64 dev n2 nodad")
    rules = "".join(
        f"tcp dport {port} meta nfproto ipv4 reject with icmp type {four}\n"
        f"tcp dport {port} meta nfproto ipv6 reject with icmpv6 type {six}\n"
        for port, (four, six) in PORTS.items())
    nft(SERVER, "table inet faults { chain in { type filter hook input priority 0;\n"
        f"ip daddr 10.2.0.3 drop\nip6 daddr fd00:2::3 drop\n{rules}tcp dport 7020 drop\n}}\n}}")
    sh(f"ip netns exec {SERVER} sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0")


def direct(name, own, other):
    """Routes to the other side without a gateway of ours."""
    sh(f"ip -n {name} route replace 10.{other}.0.0/24 via 10.8.0.{other};"
       f"ip -n {name} route replace fd00:{other}::/64 via fd00:8::{other}")


def nft(name, text):
    run = ["ip", "netns", "exec", name, "nft", "-f", "-"]
    subprocess.run(run, input=text, text=True, check=True)


def file(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="ascii") as out:
        out.write(text)
    return path


def strait(folder, program):
    for name, own, other in [(NEAR, 1, 2), (FAR, 2, 1)]:
        sh(f"ip -n {name} route del 10.{other}.0.0/24; ip -n {name} route del fd00:{other}::/64")
        node = file(folder, f"{own}.toml", f"""name = "g{own}"
[host]
addresses = ["10.9.0.{own}/30", "fd00:9::{own}/64"]
routes = ["10.{other}.0.0/24", "fd00:{other}::/64"]
[status]
socket = "{folder}/{own}.sock"
[[port]]
name = "p"
kind = "udp"
rate = "1 Mbit/s"
local = "0.0.0.0:7000"
neighbours = [{{ name = "g{other}", address = "10.8.0.{other}:7000" }}]
[proxy]
allow = ["10.{own}.0.0/24", "fd00:{own}::/64"]
[[proxy.partner]]
address = "10.9.0.{other}"
prefixes = ["10.{other}.0.0/24", "fd00:{other}::/64"]
""")
        sh(f"{program} proxy rules {node} | ip netns exec {name} sh")
        yield inside(name, [program, "run", node], stderr=subprocess.DEVNULL)
    time.sleep(3)


def bring(name, how):
    """Brings clients to a port of this host."""
    nft(name, f"""table inet others {{ chain in {{ type {how[0]} hook prerouting priority {how[1]};
 {how[2]}
}}
}}""")


def haproxy(folder, _):
    """By TPROXY, with the client's address and the one it wants (haproxy's `transparent`)."""
    setup = file(folder, "haproxy.cfg", """defaults
 mode tcp
 timeout connect 60s
 timeout client 60s
 timeout server 60s
frontend in
 bind 0.0.0.0:7490 transparent
 bind [::]:7490 v6only transparent
 default_backend out
backend out
 source 0.0.0.0 usesrc clientip
 server any 0.0.0.0
""")
    for flag, every in [("-4", "0.0.0.0/0"), ("-6", "::/0")]:
        sh(f"ip -n {NEAR} {flag} rule add fwmark 1 lookup 7; "
           f"ip -n {NEAR} {flag} route add local {every} dev lo table 7")
    mark = "meta mark set 1 accept"
    bring(NEAR, ("filter", "mangle", f"""meta l4proto tcp socket transparent 1 {mark}
 iifname n1 meta nfproto ipv4 tcp dport 7000-7020 tproxy ip to :7490 {mark}
 iifname n1 meta nfproto ipv6 tcp dport 7000-7020 tproxy ip6 to :7490 {mark}"""))
    yield inside(NEAR, ["haproxy", "-db", "-f", setup], stderr=subprocess.DEVNULL)
    time.sleep(1)


def redsocks(folder, _):
    """By NAT (IPv4 alone), and SOCKS to the other gateway."""
    setup = file(folder, "redsocks.conf", """base { log_info = off; daemon = off; redirector = iptables; }
redsocks { local_ip = 0.0.0.0; local_port = 7491; ip = 10.8.0.2; port = 7492; type = socks5; }
""")
    bring(NEAR, ("nat", "dstnat", "iifname n1 ip daddr 10.2.0.0/24 tcp dport 7000-7020 redirect to :7491"))
    yield inside(FAR, ["microsocks", "-p", "7492"], stderr=subprocess.DEVNULL)
    yield inside(NEAR, ["redsocks", "-c", setup], stderr=subprocess.DEVNULL)
    time.sleep(1)


def outcomes():
    run = ["ip", "netns", "exec", CLIENT, "python3", os.path.join(TESTS, "client.py")]
    run += ["browser"] if shutil.which("chromium") else []
    return json.loads(subprocess.run(run, capture_output=True, text=True, check=True).stdout)


def main():
    program = os.path.abspath(sys.argv[1])
    columns = {"strait": strait, "haproxy": haproxy, "redsocks": redsocks}
    wanted = sys.argv[2:] or [it for it in columns if it == "strait" or shutil.which(it)]
    running = []
    try:
        build()
        with tempfile.TemporaryDirectory() as folder:
            server = os.path.join(TESTS, "server.py")
            running.append(inside(SERVER, ["python3", server], stdout=subprocess.DEVNULL))
            time.sleep(1)
            right = outcomes()
            for column in wanted:
                started = list(columns[column](folder, program))
                running.extend(started)
                seen = outcomes()
                same = sum(seen.get(case) == told for case, told in right.items())
                print(f"{column}: {same} of {len(right)} as without a proxy", flush=True)
                for case, told in right.items():
                    if seen.get(case) != told:
                        print(f"  {case}: {told} without, {seen.get(case)} by it", flush=True)
                for one in started:
                    one.terminate()
                    one.wait()
                for name, own, other in [(NEAR, 1, 2), (FAR, 2, 1)]:
                    sh(f"ip netns exec {name} nft flush ruleset", check=False)
                    direct(name, own, other)
    finally:
        for one in running:
            one.kill()
        for name in NAMES:
            sh(f"ip netns del {name}", check=False)


main()
