#!/usr/bin/env python3
"""Mail programs of others on both sides of strait's message switch.

    sudo scripts/mail_programs.py target/release/strait [FOLDER]

Postfix brings mail to the switch and takes mail from it, swaks and smtplib bring some, smtp-source brings
much at once and smtp-sink takes what is for it. Each message has to lie in its mailbox once, with the
priority that it was sent with. FOLDER is where Debian's packages are unpacked (`dpkg -x` of postfix and
swaks), if they aren't installed. Postfix runs in a namespace, with a configuration, a spool and users of
its own.
"""

import glob
import os
import re
import smtplib
import subprocess
import sys
import time

from mail_exim import build, enter, sh
from mail_servers import USERS, postfix, with_users


class Ground:
    """A switch in m-a, Postfix and smtp-sink in m-b."""

    def __init__(self, strait, root):
        self.root, self.folder, self.running = root, with_users("mail_programs"), []
        build()
        self.start("m-a", [strait, "run", self.node()])
        self.postfix()
        self.start("m-b", [f"{root}/usr/sbin/smtp-sink", "-u", "postfix", "-d", f"{self.folder}/sink/%M.",
                           "10.5.0.2:2600", "10"], self.make("sink", "postfix"))
        time.sleep(2)
        enter("m-a")

    def make(self, name, owner="root"):
        path = os.path.join(self.folder, name)
        os.makedirs(path, exist_ok=True)
        sh(f"chown {owner} {path}")
        return path

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as out:
            out.write(text)
        return path

    def start(self, where, command, folder=None):
        with open(os.path.join(self.folder, "log"), "a", encoding="utf-8") as log:
            self.running.append(subprocess.Popen(
                ["ip", "netns", "exec", where, *command], stdout=log, stderr=log, cwd=folder,
                env={**os.environ, "LD_LIBRARY_PATH": f"{self.root}/usr/lib/postfix"}))

    def node(self):
        return self.file("a.toml", f"""name = "a"
[host]
interface = "tun-a"
addresses = ["10.9.0.1/30"]
[state]
file = "{self.folder}/a.state"
[status]
socket = "{self.folder}/a.sock"
[mail]
name = "a.example"
listen = ["127.0.0.1:2525", "10.5.0.1:2525"]
clients = ["127.0.0.0/8", "10.5.0.0/30"]
mailboxes = ["ops@a.example"]
maildir = "{self.folder}/a.mail"
[[mail.route]]
domains = ["b.example"]
to = "10.5.0.2"
port = 25
[[mail.route]]
domains = ["sink.example"]
to = "10.5.0.2"
port = 2600
[[port]]
name = "line"
kind = "udp"
local = "127.0.0.1:7000"
rate = "9600 bit/s"
neighbours = [{{ name = "b", address = "127.0.0.1:7001" }}]
""")

    def postfix(self):
        """Postfix with one instance's usual services, delivering b.example into Maildirs."""
        owner = USERS["postfix"]
        self.start("m-b", postfix(self.root, self.folder, (owner, owner), USERS["postdrop"], {
            "address": "10.5.0.2", "networks": "10.5.0.0/30", "domain": "b.example", "relay": "[10.5.0.1]:2525"}))

    def bring(self, host, port, to, subject, options=()):
        with smtplib.SMTP(host, port, local_hostname="mua.example", timeout=20) as server:
            text = f"From: ops@a.example\r\nTo: {to}\r\nSubject: {subject}\r\n\r\n.dot\r\n{'x' * 70}\r\n"
            server.sendmail("ops@a.example", [to], text, options)

    def lies(self, folder, subject, within=20):
        """How often a message lies in a folder, once it does, and its header."""
        until, found = time.time() + within, []
        while time.time() < until and not found:
            for path in glob.glob(f"{self.folder}/{folder}/**/*", recursive=True):
                if os.path.isfile(path):
                    with open(path, encoding="latin1") as text:
                        found += [it for it in [text.read().replace("\r", "")] if f"Subject: {subject}\n" in it]
            time.sleep(0.1)
        return len(found), found[0].split("\n\n")[0] if found else ""

    def end(self):
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            process.wait()


def tried(ground):
    """What was tried, and whether it came to what it ought to."""
    ground.bring("127.0.0.1", 2525, "ops@b.example", "out", ["MT-PRIORITY=4"])
    count, header = ground.lies("boxes", "out")
    yield "to Postfix, which knows no MT-PRIORITY", (count, re.findall("MT-Priority: (.*)", header)) == (1, ["4"])
    ground.bring("10.5.0.2", 25, "ops@a.example", "in")
    count, header = ground.lies("a.mail", "in")
    yield "from Postfix, which says nothing", count == 1 and "PRIORITY -2;" in header
    swaks = f"perl {ground.root}/usr/bin/swaks --server 127.0.0.1:2525 --from ops@a.example"
    sh(f"ip netns exec m-a {swaks} --to ops@a.example --header 'Subject: swaks' --header 'X-Priority: 1'")
    count, header = ground.lies("a.mail", "swaks")
    yield "by swaks, with X-Priority", count == 1 and "PRIORITY 2;" in header
    refused = sh(f"ip netns exec m-a {swaks} --to ops@c.example", check=False)
    yield "by swaks, for nobody", "550 5.7.1" in refused
    source = f"LD_LIBRARY_PATH={ground.root}/usr/lib/postfix {ground.root}/usr/sbin/smtp-source"
    sh(f"ip netns exec m-a sh -c '{source} -s 10 -m 200 -l 2000 -f ops@a.example -t ops@sink.example 127.0.0.1:2525'")
    until, there = time.time() + 60, 0
    while time.time() < until and there < 200:
        there = len(glob.glob(f"{ground.folder}/sink/*"))
        time.sleep(0.2)
    yield f"200 messages of smtp-source, at smtp-sink: {there}", there == 200


def main():
    strait, root = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else ""
    ground = Ground(strait, root)
    right = True
    try:
        for what, came in tried(ground):
            print("ok    " if came else "FAILED", what, flush=True)
            right &= came
    finally:
        ground.end()
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
