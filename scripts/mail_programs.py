#!/usr/bin/env python3
"""Mail programs of others on both sides of strait's message switch.

    sudo scripts/mail_programs.py target/release/strait [FOLDER [DELTA]]

Postfix brings mail to the switch and takes mail from it, swaks, smtplib, s-nail and mutt bring some,
smtp-source brings much at once and smtp-sink takes what is for it; Dovecot has some by LMTP. Two accounts
of Delta Chat's core send by the switch, and read what it brought to Dovecot by IMAP. Each message has to lie in its mailbox once, with the priority that it was sent with. FOLDER is where Debian's
packages are unpacked (`dpkg -x` of postfix, swaks, s-nail, mutt, dovecot-core, dovecot-imapd and
dovecot-lmtpd), if they aren't installed, and below `james` are the jars of Apache James, and DELTA is `deltachat-rpc-server` (of PyPI). What isn't there
isn't tried. The servers run in namespaces, with configurations, spools and users of their own.
"""

import glob
import json
import os
import re
import smtplib
import socket
import subprocess
import sys
import threading
import time

from mail_exim import build, clear, enter, sh
from mail_servers import USERS, dovecot, exim, james, opensmtpd, postfix, with_users

PASSWORD = "secret"


class Ground:
    """A switch in m-a, Postfix and smtp-sink in m-b."""

    def __init__(self, strait, root, delta):
        self.strait, self.root, self.delta = strait, root, delta
        self.folder, self.running = with_users("mail_programs", root), []
        build()
        self.start("m-a", [strait, "run", self.node()])
        self.postfix()
        self.dovecot()
        if os.path.exists(f"{root}/usr/sbin/exim4"):
            self.start("m-b", exim(f"{root}/usr/sbin/exim4", self.make("exim"), (USERS["Debian-exim"],) * 2, {
                "address": "10.5.0.2", "port": 2528, "domain": "e.example", "relay": ("10.5.0.1", 2525)}))
        if os.path.exists(f"{root}/usr/sbin/smtpd"):
            self.start("m-b", opensmtpd(root, self.folder, {
                "address": ("10.5.0.2", 2526), "domain": "o.example", "relay": "10.5.0.1:2525", "user": "postfix"}))
        if glob.glob(f"{root}/james/*.jar"):
            self.start("m-b", james(f"{root}/james", self.folder, {
                "address": ("10.5.0.2", 2527), "networks": "10.5.0.0/30", "domain": "j.example",
                "reader": "ops@a.example", "relay": ("10.5.0.1", 2525)}))
        sink = [f"{root}/usr/sbin/smtp-sink", "-u", "postfix"]
        self.start("m-b", [*sink, "-d", f"{self.folder}/sink/%M.", "10.5.0.2:2600", "10"],
                   self.make("sink", "postfix"))
        # Such as take a second for each message.
        for port in (2601, 2602):
            self.start("m-b", [*sink, "-w", "1", "-d", f"{self.folder}/slow{port}/%M.", f"10.5.0.2:{port}", "10"],
                       self.make(f"slow{port}", "postfix"))
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
domains = ["o.example"]
to = "10.5.0.2"
port = 2526
[[mail.route]]
domains = ["j.example"]
to = "10.5.0.2"
port = 2527
[[mail.route]]
domains = ["e.example"]
to = "10.5.0.2"
port = 2528
[[mail.route]]
domains = ["sink.example"]
to = "10.5.0.2"
port = 2600
[[mail.route]]
domains = ["one.example"]
to = "10.5.0.2"
port = 2601
[[mail.route]]
domains = ["four.example"]
to = "10.5.0.2"
port = 2602
connections = 4
[[mail.route]]
domains = ["l.example"]
to = "10.5.0.2"
port = 24
lmtp = true
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

    def dovecot(self):
        """Dovecot with mailboxes of l.example: LMTP in, and IMAP out."""
        rules = {f"{it}@l.example": "" for it in ("ops", "one", "two")}
        self.start("m-b", dovecot(self.root, self.make("keeper"), {
            "owner": USERS["postfix"], "imap": ("10.5.0.2", 1143), "lmtp": ("10.5.0.2", 24),
            "users": {**rules, "full@l.example": "userdb_quota_rule=*:bytes=1"}}))

    def bring(self, host, port, to, subject, options=(), sender="ops@a.example"):
        with smtplib.SMTP(host, port, local_hostname="mua.example", timeout=20) as server:
            text = f"From: ops@a.example\r\nTo: {to}\r\nSubject: {subject}\r\n\r\n.dot\r\n{'x' * 70}\r\n"
            server.sendmail(sender, [to], text, options)

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
        clear()


class Delta:
    """Delta Chat's core with two accounts: mail out by the switch, and in by Dovecot's IMAP."""

    def __init__(self, ground):
        self.ground, self.n, self.heard = ground, 0, {}
        self.core = subprocess.Popen(
            ["ip", "netns", "exec", "m-a", ground.delta], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "DC_ACCOUNTS_PATH": f"{ground.folder}/delta"})
        ground.running.append(self.core)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.core.stdout:
            said = json.loads(line)
            self.heard[said.get("id")] = said

    def ask(self, method, *params, within=60):
        self.n += 1
        n, until = self.n, time.time() + within
        self.core.stdin.write(json.dumps({"jsonrpc": "2.0", "id": n, "method": method, "params": params}) + "\n")
        self.core.stdin.flush()
        while n not in self.heard:
            if time.time() > until:
                raise SystemExit(f"Delta Chat doesn't answer {method}")
            time.sleep(0.02)
        said = self.heard.pop(n)
        if "error" in said:
            raise SystemExit(f"{method}: {said['error']}")
        return said["result"]

    def account(self, name):
        account = self.ask("add_account")
        server = {"mail_server": "10.5.0.2", "mail_port": "1143", "mail_security": "3", "mail_user": f"{name}@l.example",
                  "send_server": "127.0.0.1", "send_port": "2525", "send_security": "3", "send_user": f"{name}@l.example"}
        ask = {"addr": f"{name}@l.example", "mail_pw": PASSWORD, "send_pw": PASSWORD, **server}
        self.ask("batch_set_config", account, ask)
        self.ask("configure", account, within=90)
        self.ask("start_io", account)
        return account

    def has(self, account, text, within=60):
        """How often an account has a message."""
        until, found = time.time() + within, 0
        while time.time() < until and not found:
            for chat in self.ask("get_chatlist_entries", account, 0, None, None):
                for message in self.ask("get_message_ids", account, chat, False, False):
                    found += self.ask("get_message", account, message)["text"] == text
            time.sleep(0.3)
        return found


def behind_refused(ground, server, domain, folder):
    """Messages that go one behind the other, every other of which is for nobody: each has its own sender."""
    mail = f"{ground.strait} mail {{}} {ground.folder}/a.sock"
    sh(mail.format("minimize override"))
    for n in range(6):
        to = f"{'ops' if n % 2 else 'nobody'}@{domain}"
        ground.bring("127.0.0.1", 2525, to, f"{server} {n}", sender=f"sender{n}@a.example")
    sh(mail.format("minimize off"))
    come = [ground.lies(folder, f"{server} {n}", 20 if n % 2 else 0) for n in range(6)]
    senders = [re.findall("(?i)^Return-Path: <sender(.)@", header, re.M) for _, header in come]
    yield f"to {server} behind refused ones", ([it[0] for it in come], senders) == (
        [0, 1] * 3, [[], ["1"], [], ["3"], [], ["5"]])


def by_lmtp(ground):
    """One message for three mailboxes of which each has its own answer."""
    with smtplib.SMTP("127.0.0.1", 2525, local_hostname="mua.example", timeout=20) as server:
        to = ["ops@l.example", "full@l.example", "nobody@l.example"]
        server.sendmail("ops@a.example", to, "Subject: lmtp\r\n\r\nx\r\n", ["MT-PRIORITY=4"])
    count, header = ground.lies("keeper/boxes/ops@l.example/new", "lmtp")
    yield "to Dovecot by LMTP", (count, re.findall("MT-Priority: (.*)", header)) == (1, ["4"])
    told = set()
    until = time.time() + 20
    while len(told) < 2 and time.time() < until:
        for path in glob.glob(f"{ground.folder}/a.mail/ops@a.example/*/*"):
            with open(path, encoding="latin1") as text:
                told |= set(re.findall(r"Final-Recipient: rfc822; *(\S+)[\s\S]*?Status: (\S+)", text.read()))
        time.sleep(0.1)
    yield "each of its other mailboxes is reported by itself", told == {
        ("full@l.example", "5.2.2"), ("nobody@l.example", "5.1.1")}
    yield "and nothing waits", "lmtp" not in sh(f"{ground.strait} mail queue {ground.folder}/a.sock")


def by_several(ground):
    """As many messages to one that takes a second for each, by one connection and by four."""
    def come(port):
        return len(glob.glob(f"{ground.folder}/slow{port}/*"))

    for domain in ("one", "four"):
        for n in range(24):
            ground.bring("127.0.0.1", 2525, f"n{n}@{domain}.example", f"slow {n}")
    until, seen = time.time() + 60, (0, 0)
    while time.time() < until and seen[1] < 24:
        seen = come(2601), come(2602)
        time.sleep(0.1)
    yield f"by four connections 24 of 24 messages, by one meanwhile {seen[0]}", seen[1] == 24 and seen[0] <= 12
    while time.time() < until and come(2601) < 24:
        time.sleep(0.1)
    yield "each once", (come(2601), come(2602)) == (24, 24)


def tried(ground):
    """What was tried, and whether it came to what it ought to."""
    ground.bring("127.0.0.1", 2525, "ops@b.example", "out", ["MT-PRIORITY=4"])
    count, header = ground.lies("boxes", "out")
    yield "to Postfix, which knows no MT-PRIORITY", (count, re.findall("MT-Priority: (.*)", header)) == (1, ["4"])
    ground.bring("10.5.0.2", 25, "ops@a.example", "in")
    count, header = ground.lies("a.mail", "in")
    yield "from Postfix, which says nothing", count == 1 and "PRIORITY -2;" in header
    if os.path.exists(f"{ground.root}/usr/sbin/smtpd"):
        ground.bring("127.0.0.1", 2525, "ops@o.example", "open out", ["MT-PRIORITY=4"])
        count, header = ground.lies("open.boxes", "open out")
        yield "to OpenSMTPD", (count, re.findall("MT-Priority: (.*)", header)) == (1, ["4"])
        ground.bring("10.5.0.2", 2526, "ops@a.example", "open in")
        count, header = ground.lies("a.mail", "open in")
        yield "from OpenSMTPD", count == 1 and "PRIORITY -2;" in header
    for server, program, domain, folder in (("Postfix", "postfix", "b.example", "boxes"),
                                            ("Exim", "exim4", "e.example", "exim/boxes"),
                                            ("OpenSMTPD", "smtpd", "o.example", "open.boxes")):
        if os.path.exists(f"{ground.root}/usr/sbin/{program}"):
            yield from behind_refused(ground, server, domain, folder)
    swaks = f"perl {ground.root}/usr/bin/swaks --server 127.0.0.1:2525 --from ops@a.example"
    sh(f"ip netns exec m-a {swaks} --to ops@a.example --header 'Subject: swaks' --header 'X-Priority: 1'")
    count, header = ground.lies("a.mail", "swaks")
    yield "by swaks, with X-Priority", count == 1 and "PRIORITY 2;" in header
    refused = sh(f"ip netns exec m-a {swaks} --to ops@c.example", check=False)
    yield "by swaks, for nobody", "550 5.7.1" in refused
    if os.path.exists(f"{ground.root}/usr/bin/s-nail"):
        sh(f"echo hello | ip netns exec m-a {ground.root}/usr/bin/s-nail -n -S v15-compat -S mta=smtp://127.0.0.1:2525"
           " -S smtp-auth=none -S from=ops@a.example -S hostname=a.example -s nail ops@a.example")
        count, header = ground.lies("a.mail", "nail")
        yield "by s-nail", count == 1 and "PRIORITY -2;" in header
    if os.path.exists(f"{ground.root}/usr/bin/mutt"):
        rules = ground.file("muttrc", 'set smtp_url="smtp://127.0.0.1:2525"\nset ssl_starttls=no\nset ssl_force_tls=no\nset copy=no\n'
                            'set from="ops@a.example"\nset use_from=yes\nmy_hdr X-Priority: 1\n')
        sh(f"echo hello | HOME={ground.folder} TMPDIR={ground.folder} ip netns exec m-a {ground.root}/usr/bin/mutt -n -F {rules}"
           f" -a {ground.folder}/a.toml -s mutt -- ops@b.example")
        count, header = ground.lies("boxes", "mutt")
        yield "by mutt, with an attachment and X-Priority", count == 1 and "PRIORITY 2;" in header
    if os.path.exists(f"{ground.root}/usr/sbin/dovecot"):
        yield from by_lmtp(ground)
        if ground.delta:
            yield from by_delta(ground)
    source = f"LD_LIBRARY_PATH={ground.root}/usr/lib/postfix {ground.root}/usr/sbin/smtp-source"
    sh(f"ip netns exec m-a sh -c '{source} -s 10 -m 200 -l 2000 -f ops@a.example -t ops@sink.example 127.0.0.1:2525'")
    until, there = time.time() + 60, 0
    while time.time() < until and there < 200:
        there = len(glob.glob(f"{ground.folder}/sink/*"))
        time.sleep(0.2)
    yield f"200 messages of smtp-source, at smtp-sink: {there}", there == 200
    yield from by_several(ground)
    if glob.glob(f"{ground.root}/james/*.jar"):
        yield from by_james(ground)


def by_james(ground):
    """One out and back, and one in, when it is up: it is slow at that."""
    until, up = time.time() + 120, False
    while time.time() < until and not up:
        with socket.socket() as tried:
            up = tried.connect_ex(("10.5.0.2", 2527)) == 0
        time.sleep(0.2)
    ground.bring("127.0.0.1", 2525, "ops@j.example", "james out", ["MT-PRIORITY=4"])
    count, header = ground.lies("a.mail", "james out")
    yield "to Apache James, and back", count == 1 and "PRIORITY 4;" in header and "JAMES" in header
    ground.bring("10.5.0.2", 2527, "ops@a.example", "james in")
    count, header = ground.lies("a.mail", "james in")
    yield "from Apache James", count == 1 and "PRIORITY -2;" in header


def by_delta(ground):
    """Two accounts tell each other their keys, by messages of their own, and write to each other."""
    delta = Delta(ground)
    one, two = (delta.account(it) for it in ("one", "two"))
    chat = delta.ask("secure_join", two, delta.ask("get_chat_securejoin_qr_code", one, None))
    until = time.time() + 60
    while time.time() < until and not delta.ask("can_send", two, chat):
        time.sleep(0.3)
    delta.ask("misc_send_text_message", two, chat, "a first word")
    yield "Delta Chat's first word", delta.has(one, "a first word") == 1
    chat = next(it for it in delta.ask("get_chatlist_entries", one, 0, "two@", None))
    delta.ask("misc_send_text_message", one, chat, "an answer")
    yield "Delta Chat's answer", delta.has(two, "an answer") == 1


def main():
    strait, root = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else ""
    delta = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else None
    ground = Ground(strait, root, delta)
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
