#!/usr/bin/env python3
"""A Flash message beside a Routine one: strait's message switches, and Exim as good as it can be set up.

    sudo scripts/mail_exim.py target/release/strait [exim4]

Two network namespaces, each with a gateway, and 9600 bit/s between them. 1 kB of Flash is brought while
100 kB of Routine are under way: by smtplib to our switch, and to an Exim with a named queue for each
precedence, a connection for each with its DSCP both ways (`dscp`, `control = dscp`), over gateways that
are FIFO routers and over gateways with the preset `precedence`. The far end is another switch of ours, or
another Exim. Told is how long the Flash takes until it lies in its Maildir, and which code points the
packets of its connection have, by a capture with nothing of ours. Messages are letters of base64, which our
switches send in three quarters of their octets.
"""

import base64
import collections
import concurrent.futures
import ctypes
import glob
import json
import os
import smtplib
import socket
import subprocess
import sys
import tempfile
import threading
import time

from mail_servers import with_users

LANES = {"routine": (5000, 0), "flash": (5003, 24)}
SITES = ("m-a", "m-b")


def sh(command, check=True):
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise SystemExit(f"{command}: {done.stderr}")
    return done.stdout


def clear():
    """Removes the namespaces."""
    for name in SITES:
        sh(f"ip netns del {name}", check=False)


def build():
    """Two namespaces with a wire between them."""
    clear()
    sh("ip netns add m-a; ip netns add m-b; ip link add m-ab netns m-a type veth peer name m-ba netns m-b")
    for own, (name, wire) in enumerate(zip(SITES, ("m-ab", "m-ba")), 1):
        sh(f"ip -n {name} addr add 10.5.0.{own}/30 dev {wire}; ip -n {name} link set {wire} up;"
           f"ip -n {name} link set lo up")


def enter(name):
    """Has this thread's sockets be of a namespace."""
    with open(f"/run/netns/{name}", "rb") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), "setns")


class Case:
    """One set-up, in a folder of its own."""

    def __init__(self, strait, exim, policy):
        self.exim, self.folder, self.running = exim, tempfile.mkdtemp(dir=with_users("mail_exim")), []
        os.chmod(self.folder, 0o755)
        build()
        for own, name in enumerate(SITES, 1):
            self.start(name, [strait, "run", self.node(own, policy, exim is None)])
            if exim:
                time.sleep(1)
                self.start(name, [exim, "-C", self.config(own), "-bdf", "-oX", self.ports(own)])
        time.sleep(3)

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as out:
            out.write(text)
        return path

    def start(self, where, command):
        with open(os.path.join(self.folder, "log"), "a", encoding="utf-8") as log:
            self.running.append(subprocess.Popen(["ip", "netns", "exec", where, *command], stdout=log, stderr=log))

    def node(self, own, policy, switch):
        other = 3 - own
        name, far = "ab"[own - 1], "ab"[other - 1]
        mail = f"""[state]
file = "{self.folder}/{name}.state"
[mail]
name = "{name}.example"
listen = ["127.0.0.1:2525"]
inbound = ["10.9.0.{own}"]
mailboxes = ["ops@{name}.example"]
maildir = "{self.folder}/{name}.mail"
[[mail.route]]
domains = ["{far}.example"]
to = "10.9.0.{other}"
""" if switch else ""
        return self.file(f"{name}.toml", f"""name = "{name}"
[host]
interface = "tun-{name}"
addresses = ["10.9.0.{own}/30"]
[policy]
preset = "{policy}"
[status]
socket = "{self.folder}/{name}.sock"
{mail}[[port]]
name = "line"
kind = "udp"
local = "10.5.0.{own}:7000"
rate = "9600 bit/s"
neighbours = [{{ name = "{far}", address = "10.5.0.{other}:7000" }}]
""")

    def ports(self, own):
        return "127.0.0.1.2525:127.0.0.1.2526" if own == 1 else "5000:5003"

    def config(self, own):
        """Exim's: routine at the first port, flash at the second."""
        name = "ab"[own - 1]
        spool = os.path.join(self.folder, f"{name}.spool")
        mail = os.path.join(self.folder, f"{name}.mail")
        for folder in (spool, mail):
            os.mkdir(folder)
            sh(f"chown Debian-exim {folder}")
        flash = "${if or {{eq{$received_port}{2526}}{eq{$received_port}{5003}}}"
        return self.file(f"{name}.exim", f"""primary_hostname = {name}.example
exim_path = {self.exim}
deliver_drop_privilege
keep_environment =
spool_directory = {spool}
log_file_path = {spool}/%slog
local_interfaces = <; 0.0.0.0
host_lookup =
rfc1413_query_timeout = 0s
message_size_limit = 10M
acl_smtp_connect = connect
acl_smtp_mail = mail
acl_smtp_rcpt = accept
remote_max_parallel = 4
smtp_accept_max = 20
tls_advertise_hosts =
begin acl
connect:
 accept condition = {flash}{{yes}}{{no}}}}
        control = dscp/24
 accept
mail:
 accept condition = {flash}{{yes}}{{no}}}}
        queue = flash
 accept queue = routine
begin routers
here:
 driver = accept
 domains = {name}.example
 transport = maildir
there:
 driver = manualroute
 route_list = * 10.9.0.{3 - own}
 self = send
 transport = lane
begin transports
maildir:
 driver = appendfile
 maildir_format
 create_directory
 directory = {mail}/ops
 user = Debian-exim
lane:
 driver = smtp
 port = {flash}{{5003}}{{5000}}}}
 dscp = {flash}{{24}}{{0}}}}
 hosts_try_chunking = *
 command_timeout = 10m
begin retry
* * F,1h,5s
""")

    def bring(self, what, octets):
        """Brings a message at the near site, and says when."""
        port = 2526 if self.exim and what == "flash" else 2525
        options = ["MT-PRIORITY=4"] if what == "flash" and not self.exim else []
        letters = base64.b64encode(os.urandom(octets)).decode()
        lines = [letters[at:at + 76] for at in range(0, octets, 78)]
        text = f"Subject: {what}\r\n\r\n" + "\r\n".join(lines)[:octets] + "\r\n"
        began = time.time()
        with smtplib.SMTP("127.0.0.1", port, local_hostname="mua", timeout=60) as server:
            server.sendmail("ops@a.example", ["ops@b.example"], text, options)
        return began

    def arrival(self, what, within):
        """When a message lay in its Maildir."""
        until = time.time() + within
        while time.time() < until:
            for path in glob.glob(f"{self.folder}/b.mail/*/new/*"):
                with open(path, encoding="latin1") as lies:
                    if f"Subject: {what}\n" in lies.read():
                        return os.stat(path).st_mtime
            time.sleep(0.02)
        return float("inf")

    def end(self):
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            process.wait()


def capture(marks, ended):
    """Code points of all packets of the lanes, both ways, as the near kernel has them."""
    enter("m-a")
    # Those that go out are seen by who asks for all protocols (ETH_P_ALL) alone.
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
    tap.bind(("tun-a", 0))
    tap.settimeout(0.2)
    ports = {port: what for what, (port, _) in LANES.items()}
    while not ended.is_set():
        try:
            packet = tap.recv(65536)
        except TimeoutError:
            continue
        if packet[0] >> 4 != 4 or packet[9] != 6:
            continue
        head = 4 * (packet[0] & 15)
        near, far = (int.from_bytes(packet[head + at:head + at + 2], "big") for at in (0, 2))
        for port, way in ((far, "out"), (near, "in")):
            if port in ports:
                marks[f"{ports[port]} {way}", packet[1] >> 2] += 1


def run(strait, exim, policy):
    case = Case(strait, exim, policy)
    enter("m-a")
    marks, ended = collections.Counter(), threading.Event()
    listener = threading.Thread(target=capture, args=(marks, ended))
    listener.start()
    try:
        time.sleep(7)
        alone = -case.bring("flash", 1000) + case.arrival("flash", 60)
        sh(f"rm -f {case.folder}/b.mail/*/new/*")
        case.bring("routine", 100_000)
        time.sleep(30)
        beside = -case.bring("flash", 1000) + case.arrival("flash", 150)
    finally:
        ended.set()
        listener.join()
        case.end()
    wrong = {f"{what}: {mark}": count for (what, mark), count in marks.items()
             if mark != LANES[what.split()[0]][1]}
    return {"alone_s": round(alone, 2), "beside_s": round(beside, 2),
            "packets": sum(marks.values()), "wrong_marks": wrong}


def main():
    with_users("mail_exim")
    strait, exim = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "/usr/sbin/exim4"
    told = {}
    for what, by, policy in (("strait", None, "precedence"), ("exim, FIFO", exim, "fifo"),
                             ("exim, our classes", exim, "precedence")):
        # A thread is in a namespace for good.
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            told[what] = thread.submit(run, strait, by, policy).result()
        clear()
        print(what, json.dumps(told[what]), flush=True)
    ours = told["strait"]["beside_s"]
    checks = {"msg-exim": ours / told["exim, FIFO"]["beside_s"],
              "msg-exim-classes": ours - told["exim, our classes"]["beside_s"]}
    print(json.dumps(checks))
    # An Exim's SYN-ACKs have no code point: it sets that of a socket that has been accepted.
    right = checks["msg-exim"] <= 0.5 and checks["msg-exim-classes"] <= 0 and not told["strait"]["wrong_marks"]
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
