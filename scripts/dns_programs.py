#!/usr/bin/env python3
"""Programs that look names up through strait's DNS proxies, over a link with a round trip of a second.

    sudo scripts/dns_programs.py target/release/strait [short]

Three network namespaces: a client, a gateway, and behind the link another gateway with resolvers:
dnsmasq, and by rules unbound with a signed zone and Knot Resolver. Told is what each program made of
it, and whether that is right; if not of all, the exit status is 1. Needs root, `dig` and `dnsmasq`;
other programs that aren't there are left out. With `short` the round trip is 0.2 s, floods last a second,
and no browser runs. systemd-resolved is tried from a folder into which its packages are unpacked, and
which RESOLVED names: `dpkg -x` of systemd-resolved and libsystemd-shared, nothing is installed.
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

    def __init__(self, strait, short):
        self.strait, self.folder, self.running = strait, tempfile.mkdtemp(), []
        self.short, self.round_trip_s = short, 0.2 if short else 1

    def begin(self):
        """Builds and starts all of it."""
        build(self.round_trip_s)
        os.makedirs("/etc/netns/d-c", exist_ok=True)
        with open("/etc/netns/d-c/resolv.conf", "w", encoding="ascii") as out:
            out.write("nameserver 10.1.0.1\n")
        signs = shutil.which("ldns-signzone") and shutil.which("unbound")
        self.anchor = self.signed_zone() if signs else None
        self.start("d-b", ["dnsmasq", "-d", "-C", "/dev/null", "-R", "-h", "-u", "root", "-x", "", "-z",
                           "-a", "10.5.0.2", "--address=/hf.example/10.5.0.2", "--local=/hf.example/",
                           "--local=/gone.example/", "--local-ttl=600"])
        self.start("d-b", [sys.executable, "-m", "http.server", "80", "--directory", self.site()])
        near = self.node(1, f"""listen = ["10.1.0.1:53"]
clients = ["10.1.0.0/24"]
capture = {str(bool(shutil.which("nft"))).lower()}""")
        if shutil.which("nft"):
            sh(f"{self.strait} proxy rules {near} | ip netns exec d-a sh")
        self.near = self.start("d-a", [self.strait, "run", near])
        far = 'resolvers = ["10.5.0.2:53"]'
        if shutil.which("unbound"):
            self.start("d-b", ["unbound", "-d", "-c", self.unbound("10.5.0.2@5301", self.zones())])
            wait_for(lambda: ":5301 " in sh("ip netns exec d-b ss -Hlun"))
            for zone in "unbound.example", "signed.example":
                far += f'\n[[dns.rule]]\nzone = "{zone}"\nresolvers = ["10.5.0.2:5301"]'
        if shutil.which("kresd"):
            self.start("d-b", ["kresd", "-n", "-c", self.knot(), self.folder])
            wait_for(lambda: ":5300 " in sh("ip netns exec d-b ss -Hlun"))
            far += '\n[[dns.rule]]\nzone = "knot.example"\nresolvers = ["10.5.0.2:5300"]'
        self.start("d-b", [self.strait, "run", self.node(2, far)])
        sh("ip -n d-c route add 10.5.0.0/24 via 10.1.0.1; ip -n d-c route add 10.6.0.0/24 via 10.1.0.1;"
           "ip -n d-b route add 10.1.0.0/24 via 10.5.0.1; ip netns exec d-a sysctl -q net.ipv4.ip_forward=1")
        until = time.monotonic() + 20
        while "10.5.0.2" not in self.client("dig +tries=1 +time=3 +short @10.1.0.1 n0.hf.example")[0]:
            if time.monotonic() > until:
                raise TimeoutError("the gateways don't answer")
            time.sleep(0.1)

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
modules = {'policy', 'hints > iterate'}
trust_anchors.remove('.')
hints.set('www.knot.example 10.5.0.2')
policy.add(policy.suffix(policy.DENY, {todname('none.knot.example')}))
""")

    def zones(self):
        auth = f"""auth-zone:
 name: "signed.example"
 zonefile: "{self.folder}/zone.signed"
""" if self.anchor else ""
        return f"""module-config: "iterator"
 local-zone: "unbound.example." static
 local-data: "unbound.example. 600 IN SOA ns nobody 1 3600 1200 604800 600"
 local-data: "www.unbound.example. 600 IN A 10.5.0.2"
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

    def crossed(self):
        told = self.status()
        return told["asked"] + told["asked_again"]

    def twice(self, command, right="10.5.0.2"):
        """How long a look-up takes, and the same again; whether it is right, and crossed once."""
        (said, first_s), before = self.client(command), self.crossed()
        again, again_s = self.client(command)
        if right in said and right in again and self.crossed() == before:
            return f"{first_s:.2f} s, again {again_s:.2f} s", True
        return f"{said.strip()}, again {again.strip()}", False

    def end(self):
        for it in self.running:
            it.terminate()
            it.wait()
        for name in NAMES:
            sh(f"ip netns del {name}", check=False)
        shutil.rmtree("/etc/netns/d-c", ignore_errors=True)
        shutil.rmtree(self.folder)


def look_ups(ground):
    """Each resolver's first and second look-up."""
    programs = {"dig": "dig +short n1.hf.example", "glibc (getent)": "getent ahostsv4 n2.hf.example"}
    if shutil.which("musl-gcc"):
        source = ground.file("musl.c", MUSL)
        sh(f"musl-gcc -static -o {ground.folder}/musl {source}")
        programs["musl (getaddrinfo)"] = f"{ground.folder}/musl n3.hf.example"
    for name, command in programs.items():
        yield name, *ground.twice(command)


def far_resolvers(ground):
    """Names that the resolvers at the far side know, and names that aren't there."""
    for name, known, program in [("dnsmasq", "n7.hf", "dnsmasq"), ("unbound", "www.unbound", "unbound"),
                                 ("Knot Resolver", "www.knot", "kresd")]:
        if not shutil.which(program):
            continue
        zone = known.split(".")[1] if program != "dnsmasq" else "gone"
        yield f"{name} at the far side", *ground.twice(f"dig +short {known}.example")
        yield f"{name}, no such name", *ground.twice(f"dig none.{zone}.example", "status: NXDOMAIN")


def caught(ground):
    """Questions to a resolver that isn't there."""
    if not shutil.which("nft"):
        return
    for how, number in ("+notcp", 5), ("+tcp", 6):
        ask = f"dig {how} +tries=1 +time=10 +short @10.6.0.9 n{number}.hf.example"
        yield f"dig {how} @10.6.0.9, caught", *ground.twice(ask)


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
            yield f"delv, {host} {kind}", f"{judged}, {took_s:.1f} s", "fully validated" in judged
    anchor = ground.file("anchor.key", ground.key)
    conf = ground.unbound("127.0.0.1", f"""trust-anchor-file: "{anchor}"
 do-not-query-localhost: no
forward-zone:
 name: "."
 forward-addr: 10.1.0.1
""")
    sh("ip -n d-c link set lo up")
    ground.start("d-c", ["unbound", "-d", "-c", conf])
    wait_for(lambda: ":53 " in sh("ip netns exec d-c ss -Hlun"))
    for host, kind in [("www", "A"), ("long", "TXT"), ("none", "A")]:
        said, took_s = ground.client(
            f"dig +dnssec +tries=2 +time=20 @127.0.0.1 {host}.signed.example {kind}")
        flags = re.search(r"status: (\w+).*?flags: ([a-z ]+);", said, re.DOTALL)
        flags = f"{flags.group(1)}, flags {flags.group(2)}" if flags else said.strip()
        right = flags.startswith("NXDOMAIN" if host == "none" else "NOERROR") and flags.endswith(" ad")
        yield f"unbound validating, {host} {kind}", f"{flags}, {took_s:.1f} s", right


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
    wait_for(lambda: "127.0.0.53" in sh("ip netns exec d-c ss -Hlun"))
    yield "systemd-resolved", *ground.twice("dig +tries=2 +time=10 +short @127.0.0.53 n4.hf.example")


def wait_for(happens):
    until = time.monotonic() + 10
    while not happens() and time.monotonic() < until:
        time.sleep(0.1)


def rates(ground):
    """Names that are known, and a flood of names by chance."""
    if not shutil.which("dnsperf"):
        return
    def memory():
        pids = sh(f"pgrep -P {ground.near.pid} || true").split() or [str(ground.near.pid)]
        with open(f"/proc/{pids[0]}/status", encoding="ascii") as text:
            return int(re.search(r"VmRSS:\s+(\d+)", text.read()).group(1))
    lasts_s = 1 if ground.short else 10
    for what, names in [("one name", ["n1.hf.example A"]),
                        ("names by chance", [f"r{n}.hf.example A" for n in range(200_000)])]:
        data = ground.file("names", "\n".join(names) + "\n")
        before, began = ground.crossed(), time.monotonic()
        said, _ = ground.client(f"dnsperf -s 10.1.0.1 -d {data} -l {lasts_s} -t 3 -Q 20000")
        crossed, lasted_s = ground.crossed() - before, time.monotonic() - began
        rate, kb = float(re.search(r"Queries per second:\s+([\d.]+)", said).group(1)), memory()
        # A client has 32 questions open at most.
        most = 32 * (1 + lasted_s / ground.round_trip_s) if len(names) > 1 else 0
        yield f"dnsperf {lasts_s} s, {what}", (f"{rate:.0f}/s, {crossed} crossed, "
                                       f"{ground.status()['known']} known, {kb} kB of memory"), \
            crossed <= most and kb < 64_000


def browser(ground):
    """A page by its name."""
    if ground.short or not shutil.which("chromium"):
        return
    said, took_s = ground.client(
        f"chromium --headless --no-sandbox --disable-gpu --user-data-dir={ground.folder}/chromium "
        "--dump-dom http://site.hf.example/")
    came = "Over the link" in said
    yield "chromium", f"{'page' if came else 'no page'}, {took_s:.1f} s", came


def listed(ground):
    """What the user sees of all this."""
    said = sh(f"{ground.strait} dns {ground.folder}/1.sock")
    yield "strait dns", f"{len(said.splitlines())} lines", "n1.hf.example" in said


def main():
    ground, wrong = Ground(os.path.abspath(sys.argv[1]), sys.argv[2:] == ["short"]), []
    for program in "musl-gcc", "unbound", "kresd", "nft", "ldns-signzone", "delv", "dnsperf":
        if not shutil.which(program):
            print(f"left out, as it isn't installed: {program}")
    try:
        ground.begin()
        for part in look_ups, far_resolvers, caught, signatures, resolved, listed, rates, browser:
            for name, result, right in part(ground):
                print(f"{name:34} {'' if right else 'WRONG: '}{result}", flush=True)
                wrong += [] if right else [name]
    finally:
        ground.end()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
