#!/usr/bin/env python3
"""Names over a link with a long round trip: by others' forwarders, and by strait's DNS proxies.

    sudo scripts/dns_others.py target/release/strait [ROUND_TRIP_S [FORWARDER]]
    sudo scripts/dns_others.py target/release/strait cut [FORWARDER]

Three network namespaces: a client, a gateway, and behind the link a resolver (dnsmasq, which knows
every name). At the gateway runs one forwarder after the other. A client asks as Linux's resolver
does, 5 s twice, for one new name, and asks again after a minute. Told are what it heard both times
and how many questions crossed: at the far resolver, or by strait's own counters of what it sent.
With `cut` the link has a round trip of a second: a name is looked up whose address holds for 5 s,
the link is cut, and the name looked up again after 20 s. Programs that aren't installed are left out.
"""

import fcntl
import json
import os
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

NAMES = "d-c", "d-a", "d-b"

# Nothing crosses.
CUT = threading.Event()


def sh(line, check=True):
    return subprocess.run(line, shell=True, check=check, capture_output=True, text=True).stdout


def inside(name, command, log):
    return subprocess.Popen(["ip", "netns", "exec", name, *command], stdout=log, stderr=log)


def tun(device, name):
    """A TUN interface that is in a namespace; packets come and go by its file here."""
    opened = os.open("/dev/net/tun", os.O_RDWR)
    # TUNSETIFF, IFF_TUN and IFF_NO_PI.
    fcntl.ioctl(opened, 0x400454CA, struct.pack("16sH22x", device.encode(), 0x1001))
    sh(f"ip link set {device} netns {name}")
    return opened


def carry(ends, delay_s):
    """Carries packets between two ends, each so much later."""
    under_way = []
    while True:
        wait_s = max(0, under_way[0][0] - time.monotonic()) if under_way else None
        ready, _, _ = select.select(ends, [], [], wait_s)
        for end in ready:
            other = ends[1 - ends.index(end)]
            try:
                packet = os.read(end, 2048)
            except OSError:
                # The namespaces have gone.
                return
            if not CUT.is_set():
                under_way.append((time.monotonic() + delay_s, other, packet))
        while under_way and under_way[0][0] <= time.monotonic():
            _, other, packet = under_way.pop(0)
            try:
                os.write(other, packet)
            except OSError:
                # That end isn't up yet: what its kernel would take is lost, as on any link.
                pass


def build(round_trip_s):
    for name in NAMES:
        sh(f"ip netns add {name}; ip -n {name} link set lo up")
    sh("ip link add c0 netns d-c type veth peer name a0 netns d-a")
    ends = [tun(device, name) for device, name in [("a1", "d-a"), ("b0", "d-b")]]
    threading.Thread(target=carry, args=(ends, round_trip_s / 2), daemon=True).start()
    for name, device, address in [
        ("d-c", "c0", "10.1.0.2/24"),
        ("d-a", "a0", "10.1.0.1/24"),
        ("d-a", "a1", "10.5.0.1/24"),
        ("d-b", "b0", "10.5.0.2/24"),
    ]:
        sh(f"ip -n {name} address add {address} dev {device}; ip -n {name} link set {device} up")


def forwarders(folder, strait, round_trip_s):
    """By name: the command at the gateway, and the one beside the resolver, if there is one."""
    def file(name, text):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="ascii") as out:
            out.write(text)
        return path

    def unbound(more):
        return file(f"unbound{len(more)}.conf", f"""server:
 interface: 10.1.0.1
 access-control: 10.1.0.0/24 allow
 username: ""
 chroot: ""
 directory: "{folder}"
 pidfile: ""
 use-syslog: no
 do-daemonize: no
 module-config: "iterator"
 {more}
forward-zone:
 name: "."
 forward-addr: 10.5.0.2
remote-control:
 control-enable: no
""")

    def node(own, dns):
        other = 3 - own
        return file(f"{own}.toml", f"""name = "g{own}"
[host]
addresses = ["10.9.0.{own}/30"]
[status]
socket = "{folder}/{own}.sock"
[dns]
{dns}
[[dns.partner]]
address = "10.9.0.{other}"
turnaround = "{round_trip_s + 1} s"
[[port]]
name = "link"
kind = "udp"
local = "10.5.0.{own}:7000"
rate = "1 Mbit/s"
neighbours = [{{ name = "other", address = "10.5.0.{other}:7000" }}]
""")

    dnsmasq = ["dnsmasq", "-d", "-C", "/dev/null", "-R", "-h", "-z", "-u", "root", "-S",
               "10.5.0.2", "-a", "10.1.0.1", "-x", ""]
    kresd = file("kresd.conf", "net.listen('10.1.0.1', 53)\nmodules = {'policy'}\n"
                 "trust_anchors.remove('.')\npolicy.add(policy.all(policy.FORWARD('10.5.0.2')))\n")
    kresd_stale = file("kresd_stale.conf", "net.listen('10.1.0.1', 53)\n"
                       "modules = {'policy', 'serve_stale < cache'}\ntrust_anchors.remove('.')\n"
                       "policy.add(policy.all(policy.FORWARD('10.5.0.2')))\n")
    stale = os.path.join(folder, "stale")
    os.mkdir(stale)
    near = node(1, 'listen = ["10.1.0.1:53"]\nclients = ["10.1.0.0/24"]')
    far = node(2, 'resolvers = ["10.5.0.2:53"]')
    return {
        "nothing: the resolver itself": (None, None),
        "dnsmasq": (dnsmasq, None),
        "dnsmasq, stale answers": (dnsmasq + ["--use-stale-cache"], None),
        "unbound": (["unbound", "-d", "-c", unbound("")], None),
        "unbound, stale answers": (["unbound", "-d", "-c", unbound("serve-expired: yes")], None),
        "knot-resolver": (["kresd", "-n", "-c", kresd, folder], None),
        # What the other one took for dead is in a cache of its own.
        "knot-resolver, stale answers": (["kresd", "-n", "-c", kresd_stale, stale], None),
        "strait": ([strait, "run", near], [strait, "run", far]),
    }


def ask(server, name):
    """What a resolver with 5 s twice hears, and after how long."""
    began = time.monotonic()
    said = sh(f"ip netns exec d-c dig +noedns +tries=2 +time=5 @{server} {name} A", check=False)
    took_s = time.monotonic() - began
    known = "status: NOERROR" in said and "192.0.2.1" in said
    return ("answer" if known else "SERVFAIL" if "SERVFAIL" in said else "nothing") \
        + f" after {took_s:.1f} s"


def far_resolver(life_s):
    return ["dnsmasq", "-d", "-C", "/dev/null", "-R", "-h", "-q", "-u", "root", "-x", "",
            "--address=/hf.example/192.0.2.1", "--local=/#/", f"--local-ttl={life_s}"]


def asked_twice(server, host, round_trip_s, crossed):
    """What is heard at first and a minute later, and how many questions crossed."""
    first = ask(server, host)
    time.sleep(60)
    second = ask(server, host)
    time.sleep(2 * round_trip_s)
    return f"{first:>22} {second:>22}  {crossed(host):7}"


def asked_when_cut(server, host):
    """What is heard at first, and when the address is old and nothing crosses."""
    first = ask(server, host)
    CUT.set()
    time.sleep(20)
    second = ask(server, host)
    CUT.clear()
    return f"{first:>22} {second:>22}"


def main():
    strait, rest = os.path.abspath(sys.argv[1]), sys.argv[2:]
    cut = rest[:1] == ["cut"]
    round_trip_s = 1 if cut else float(rest[0]) if rest else 14
    folder = tempfile.mkdtemp()
    build(round_trip_s)
    later = "when the link is cut" if cut else "a minute later"
    print(f"{'':30} {'first look-up':>22} {later:>22}" + ("" if cut else "  crossed"))
    try:
        for number, (name, commands) in enumerate(forwarders(folder, strait, round_trip_s).items()):
            if len(rest) > 1 and rest[1] != name:
                continue
            if commands[0] and not shutil.which(commands[0][0]):
                print(f"{name:30} isn't installed")
                continue
            with open(os.path.join(folder, f"{number}.log"), "w+", encoding="utf-8") as log, \
                    open(os.path.join(folder, "far.log"), "w+", encoding="utf-8") as far_log:
                far = inside("d-b", far_resolver(5 if cut else 600), far_log)
                running = [inside(where, command, log)
                           for where, command in zip(("d-a", "d-b"), commands) if command]
                time.sleep(3)
                server = "10.1.0.1"
                if not commands[0]:
                    server = "10.5.0.2"
                    sh("ip -n d-c route replace 10.5.0.0/24 via 10.1.0.1;"
                       "ip -n d-b route replace 10.1.0.0/24 via 10.5.0.1;"
                       "ip netns exec d-a sysctl -q net.ipv4.ip_forward=1")

                def crossed(host, name=name, far_log=far_log):
                    if name == "strait":
                        told = json.loads(sh(f"{strait} status --json {folder}/1.sock"))["dns"]
                        return told["asked"] + told["asked_again"]
                    far_log.seek(0)
                    return sum("query[" in line and host in line.lower() for line in far_log)

                host = f"n{number}.hf.example"
                told = asked_when_cut(server, host) if cut \
                    else asked_twice(server, host, round_trip_s, crossed)
                print(f"{name:30} {told}", flush=True)
                for it in [*running, far]:
                    it.terminate()
                    it.wait()
    finally:
        for name in NAMES:
            sh(f"ip netns del {name}", check=False)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
