#!/usr/bin/env python3
"""Programs that look names up through strait's DNS proxies, over a link with a round trip of a second.

    sudo scripts/dns_programs.py target/release/strait

Three network namespaces: a client, a gateway, and behind the link another gateway with a resolver
(unbound), which knows every name in hf.example and a signed zone. Told is what each program made of
it. Programs that aren't installed are left out: dig, delv, unbound, dnsperf, ldns-signzone, musl-gcc,
chromium, nft. systemd-resolved is tried from a folder into which its packages are unpacked, and which
RESOLVED names: `dpkg -x` of systemd-resolved and libsystemd-shared, nothing is installed.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from dns_others import NAMES, build, inside, sh

MUSL = r"""
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
int main(int n, char **words) {
    struct addrinfo *found, hints = {.ai_socktype = SOCK_STREAM};
    int error = getaddrinfo(words[1], 0, &hints, &found);
    if (error) return puts(gai_strerror(error)), 1;
    return puts(inet_ntoa(((struct sockaddr_in *)found->ai_addr)->sin_addr)), 0;
}
"""


class Ground:
    """Namespaces, gateways and the resolver, in a folder of their own."""

    def __init__(self, strait):
        self.strait, self.folder, self.running = strait, tempfile.mkdtemp(), []
        build(1)
        os.makedirs("/etc/netns/d-c", exist_ok=True)
        with open("/etc/netns/d-c/resolv.conf", "w", encoding="ascii") as out:
            out.write("nameserver 10.1.0.1\n")
        self.anchor = self.signed_zone() if shutil.which("ldns-signzone") else None
        self.start("d-b", ["unbound", "-d", "-c", self.unbound("10.5.0.2", self.zones())])
        self.start("d-b", [sys.executable, "-m", "http.server", "80", "--directory", self.site()])
        near = self.node(1, f"""listen = ["10.1.0.1:53"]
clients = ["10.1.0.0/24"]
capture = {str(bool(shutil.which("nft"))).lower()}""")
        if shutil.which("nft"):
            sh(f"{strait} proxy rules {near} | ip netns exec d-a sh")
        self.near = self.start("d-a", [strait, "run", near])
        far = 'resolvers = ["10.5.0.2:53"]'
        if shutil.which("kresd"):
            self.start("d-b", ["kresd", "-n", "-c", self.knot(), self.folder])
            far += '\n[[dns.rule]]\nzone = "knot.example"\nresolvers = ["10.5.0.2:5300"]'
        self.start("d-b", [strait, "run", self.node(2, far)])
        sh("ip -n d-c route add 10.5.0.0/24 via 10.1.0.1; ip -n d-c route add 10.6.0.0/24 via 10.1.0.1; ip -n d-b route add 10.1.0.0/24 via 10.5.0.1;"
           "ip netns exec d-a sysctl -q net.ipv4.ip_forward=1")
        time.sleep(3)

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as out:
            out.write(text)
        return path

    def start(self, where, command):
        log = open(os.path.join(self.folder, "log"), "a", encoding="utf-8")  # pylint: disable=R1732
        self.running.append(inside(where, command, log))
        return self.running[-1]

    def client(self, command):
        """What a command in the client's namespace says, and how long it takes."""
        began = time.monotonic()
        said = sh(f"ip netns exec d-c timeout 60 {command} 2>&1", check=False)
        return said, time.monotonic() - began

    def unbound(self, own, more):
        return self.file(f"unbound-{own}.conf", f"""server:
 interface: {own}
 access-control: 0.0.0.0/0 allow
 username: ""
 chroot: ""
 directory: "{self.folder}"
 pidfile: ""
 use-syslog: no
 do-daemonize: no
 {more}
remote-control:
 control-enable: no
""")

    def knot(self):
        """Knot Resolver, which knows one name."""
        return self.file("kresd.conf", """net.listen('10.5.0.2', 5300)
modules = {'hints > iterate'}
trust_anchors.remove('.')
hints.set('www.knot.example 192.0.2.8')
""")

    def zones(self):
        auth = f"""auth-zone:
 name: "signed.example"
 zonefile: "{self.folder}/zone.signed"
""" if self.anchor else ""
        return f"""module-config: "iterator"
 local-zone: "hf.example." redirect
 local-data: "hf.example. 600 IN A 10.5.0.2"
{auth}"""

    def node(self, own, dns):
        other = 3 - own
        elsewhere = '"10.6.0.0/24"' if own == 1 else '"10.1.0.0/24"'
        return self.file(f"{own}.toml", f"""name = "g{own}"
[host]
addresses = ["10.9.0.{own}/30"]
routes = {'["10.6.0.0/24"]' if own == 1 else "[]"}
[status]
socket = "{self.folder}/{own}.sock"
[dns]
{dns}
[[dns.partner]]
address = "10.9.0.{other}"
[proxy]
[[proxy.partner]]
address = "10.9.0.{other}"
prefixes = [{elsewhere}]
[[port]]
name = "link"
kind = "udp"
local = "10.5.0.{own}:7000"
rate = "1 Mbit/s"
neighbours = [{{ name = "other", address = "10.5.0.{other}:7000" }}]
""")

    def signed_zone(self):
        """A zone with a short answer and a long one; its key, as a trust anchor for delv."""
        long = " ".join(f'"{n:03}{"x" * 197}"' for n in range(15))
        self.file("zone", f"""$ORIGIN signed.example.
@ 600 IN SOA ns nobody 1 3600 1200 604800 600
@ 600 IN NS ns
ns 600 IN A 10.5.0.2
www 600 IN A 192.0.2.7
long 600 IN TXT {long}
""")
        key = sh(f"cd {self.folder}; ldns-keygen -a ECDSAP256SHA256 -k signed.example").strip()
        sh(f"cd {self.folder}; ldns-signzone -f zone.signed zone {key}")
        with open(os.path.join(self.folder, f"{key}.key"), encoding="ascii") as text:
            self.key = text.read()
        words = re.search(r"DNSKEY\s+(\d+) (\d+) (\d+) (\S+)", self.key).groups()
        return self.file("anchor", 'trust-anchors { "signed.example." static-key %s %s %s "%s"; };\n'
                         % words)

    def site(self):
        folder = os.path.join(self.folder, "site")
        os.mkdir(folder)
        with open(os.path.join(folder, "index.html"), "w", encoding="ascii") as out:
            out.write("<html><body>Over the link</body></html>")
        return folder

    def status(self):
        return json.loads(sh(f"{self.strait} status --json {self.folder}/1.sock"))["dns"]

    def end(self):
        for it in self.running:
            it.terminate()
            it.wait()
        for name in NAMES:
            sh(f"ip netns del {name}", check=False)
        shutil.rmtree("/etc/netns/d-c")
        shutil.rmtree(self.folder)


def look_ups(ground):
    """Each resolver's first and second look-up."""
    programs = {"dig": "dig +short n1.hf.example", "glibc (getent)": "getent ahostsv4 n2.hf.example"}
    if shutil.which("musl-gcc"):
        source = ground.file("musl.c", MUSL)
        sh(f"musl-gcc -static -o {ground.folder}/musl {source}")
        programs["musl (getaddrinfo)"] = f"{ground.folder}/musl n3.hf.example"
    for name, command in programs.items():
        times = []
        for _ in range(2):
            said, took_s = ground.client(command)
            times.append(f"{took_s:.2f} s" if "10.5.0.2" in said else f"failed: {said.strip()}")
        yield name, f"{times[0]}, again {times[1]}"


def by_knot(ground):
    """A name of which Knot Resolver is asked at the far side."""
    if not shutil.which("kresd"):
        return
    said, took_s = ground.client("dig +tries=1 +time=10 +short @10.1.0.1 www.knot.example")
    result = f"{took_s:.2f} s" if "192.0.2.8" in said else f"failed: {said.strip()}"
    yield "dig, Knot Resolver at the far side", result


def caught(ground):
    """Questions to a resolver that isn't there."""
    if not shutil.which("nft"):
        return
    for how, number in ("+notcp", 5), ("+tcp", 6):
        said, took_s = ground.client(
            f"dig {how} +tries=1 +time=10 +short @10.6.0.9 n{number}.hf.example")
        result = f"{took_s:.2f} s" if "10.5.0.2" in said else f"failed: {said.strip()}"
        yield f"dig {how} @10.6.0.9, caught", result


def signatures(ground):
    """Who verifies."""
    if not ground.anchor:
        return
    if shutil.which("delv"):
        for host, kind in [("www", "A"), ("long", "TXT"), ("none", "A")]:
            said, took_s = ground.client(
                f"delv @10.1.0.1 -a {ground.anchor} +root=signed.example {host}.signed.example {kind}")
            judged = re.search(r"; (.*(validated|unsigned).*)", said)
            judged = judged.group(1) if judged else said.strip().splitlines()[-1]
            yield f"delv, {host} {kind}", f"{judged}, {took_s:.1f} s"
    anchor = ground.file("anchor.key", ground.key)
    conf = ground.unbound("127.0.0.1", f"""trust-anchor-file: "{anchor}"
 do-not-query-localhost: no
forward-zone:
 name: "."
 forward-addr: 10.1.0.1
""")
    sh("ip -n d-c link set lo up")
    ground.start("d-c", ["unbound", "-d", "-c", conf])
    time.sleep(2)
    for host, kind in [("www", "A"), ("long", "TXT"), ("none", "A")]:
        said, took_s = ground.client(
            f"dig +dnssec +tries=2 +time=20 @127.0.0.1 {host}.signed.example {kind}")
        flags = re.search(r"status: (\w+).*?flags: ([a-z ]+);", said, re.DOTALL)
        flags = f"{flags.group(1)}, flags {flags.group(2)}" if flags else said.strip()
        yield f"unbound validating, {host} {kind}", f"{flags}, {took_s:.1f} s"


def resolved(ground):
    """systemd-resolved, in mounts of its own."""
    folder = os.environ.get("RESOLVED")
    if not folder:
        return
    script = ground.file("resolved", f"""mount -t tmpfs none /run
mkdir /run/systemd
mount -t tmpfs none /etc/systemd
printf '[Resolve]\\nDNS=10.1.0.1\\nDomains=~.\\nLLMNR=no\\nMulticastDNS=no\\n' > /etc/systemd/resolved.conf
export LD_LIBRARY_PATH={folder}/usr/lib/x86_64-linux-gnu/systemd
exec {folder}/lib/systemd/systemd-resolved
""")
    ground.start("d-c", ["unshare", "-m", "sh", script])
    time.sleep(3)
    times = []
    for _ in range(2):
        said, took_s = ground.client("dig +tries=2 +time=10 +short @127.0.0.53 n4.hf.example")
        times.append(f"{took_s:.2f} s" if "10.5.0.2" in said else f"failed: {said.strip()}")
    yield "systemd-resolved", f"{times[0]}, again {times[1]}"


def rates(ground):
    """Names that are known, and a flood of names by chance."""
    if not shutil.which("dnsperf"):
        return
    def memory():
        pids = sh(f"pgrep -P {ground.near.pid} || true").split() or [str(ground.near.pid)]
        with open(f"/proc/{pids[0]}/status", encoding="ascii") as text:
            return re.search(r"VmRSS:\s+(\d+)", text.read()).group(1)
    for what, names in [("one name", ["n1.hf.example A"]),
                        ("names by chance", [f"r{n}.hf.example A" for n in range(200_000)])]:
        data = ground.file("names", "\n".join(names) + "\n")
        before = ground.status()
        said, _ = ground.client(f"dnsperf -s 10.1.0.1 -d {data} -l 10 -t 15 -Q 20000")
        after, rate = ground.status(), re.search(r"Queries per second:\s+([\d.]+)", said)
        crossed = after["asked"] + after["asked_again"] - before["asked"] - before["asked_again"]
        yield f"dnsperf 10 s, {what}", (f"{float(rate.group(1)):.0f}/s, {crossed} crossed, "
                                       f"{after['known']} known, {memory()} kB of memory")


def browser(ground):
    """A page by its name."""
    if not shutil.which("chromium"):
        return
    said, took_s = ground.client(
        f"chromium --headless --no-sandbox --disable-gpu --user-data-dir={ground.folder}/chromium "
        "--dump-dom http://site.hf.example/")
    yield "chromium", f"{'page' if 'Over the link' in said else 'no page'}, {took_s:.1f} s"


def main():
    ground = Ground(os.path.abspath(sys.argv[1]))
    try:
        for part in look_ups, by_knot, caught, signatures, resolved, rates, browser:
            for name, result in part(ground):
                print(f"{name:34} {result}", flush=True)
        said = sh(f"{ground.strait} dns {ground.folder}/1.sock").splitlines()
        print(f"{'strait dns':34} {len(said)} lines, such as: {said[-1] if said else ''}")
    finally:
        ground.end()


if __name__ == "__main__":
    main()
