#!/usr/bin/env python3
"""Messages between Postfix and Exim, over the message switches of two gateways.

    sudo strait lab scenarios/mail/site-9600.toml -- scripts/mail_path.py SCENARIO STRAIT FOLDER

runs inside the lab's first host: a Postfix there, an Exim in the second host. Messages are brought to
Postfix as the scenario's traffic says, and their times until they lie in Exim's Maildir are held against
those of the simulated scenario, which ends in the far gateway's: within 5 % and a second, wherever in a
radio's turn they fall. One goes back from Exim to Postfix. All packets of lanes, as the near gateway's kernel sends and gets them, have to have their
lane's code point. FOLDER is where Debian's packages of postfix and exim4-daemon-light are unpacked. Users
and groups that these insist on are there for this script alone.
"""

import base64
import collections
import ctypes
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
import tomllib

from mail_servers import USERS, exim, make, postfix, with_users

CODE_POINTS = {4999: 1, 5000: 0, 5001: 18, 5002: 16, 5003: 24, 5004: 32}
PRIORITIES = {"CS3": 4}
WITHIN = (0.05, 1.0)
# Where in a turn a message falls is chance live: simulated, they come later by these too.
SHIFTS_S = (0.0, 0.7, 1.4, 2.1, 2.8)


def namespaces():
    """The lab's namespaces, as files of the process that has made them."""
    # The lab numbers its processes anew, and /proc doesn't.
    process = int(os.readlink("/proc/self"))
    while process > 1:
        files = glob.glob(f"/proc/{process}/fd/*")
        found = [it for it in files if os.path.exists(it) and os.readlink(it).startswith("net:[")]
        if len(found) > 2:
            return found
        with open(f"/proc/{process}/stat", encoding="ascii") as stat:
            process = int(stat.read().rsplit(")", 1)[1].split()[1])
    raise SystemExit("this runs inside `strait lab` alone")


def having(address):
    """The namespace with an address, and the interface that has it."""
    for file in namespaces():
        said = subprocess.run(["nsenter", f"--net={file}", "ip", "-j", "address"], capture_output=True, check=True)
        for interface in json.loads(said.stdout):
            if any(it.get("local") == address for it in interface.get("addr_info", [])):
                return file, interface["ifname"]
    raise SystemExit(f"no namespace has {address}")


def enter(namespace):
    """Has this thread's sockets be of a namespace, for good."""
    with open(namespace, "rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), "setns")


class Capture(threading.Thread):
    """Packets of lanes, both ways, by port and code point."""

    def __init__(self, namespace, interface):
        super().__init__(daemon=True)
        self.marks, self.ended, self.ready = collections.Counter(), threading.Event(), threading.Event()
        self.place = namespace, interface

    def run(self):
        enter(self.place[0])
        # Those that go out are seen by who asks for all protocols (ETH_P_ALL) alone.
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        tap.bind((self.place[1], 0))
        tap.settimeout(0.2)
        self.ready.set()
        while not self.ended.is_set():
            try:
                packet = tap.recv(65536)
            except TimeoutError:
                continue
            if packet[0] >> 4 != 4:
                continue
            head = 4 * (packet[0] & 15)
            near, far = (int.from_bytes(packet[head + at:head + at + 2], "big") for at in (0, 2))
            for port, way in ((far, "to"), (near, "from")):
                if packet[9] == 6 and port in CODE_POINTS:
                    # Which end opened it is told by the address of the one that it is.
                    self.marks[port, way, packet[12:16] == bytes([10, 9, 0, 1]), packet[1] >> 2] += 1


def start(running, log, command, namespace=None):
    enter = ["nsenter", f"--net={namespace}"] if namespace else []
    with open(log, "a", encoding="utf-8") as out:
        running.append(subprocess.Popen([*enter, *command], stdout=out, stderr=out))


def text_of(name, octets):
    """Letters of base64, as the scenario's own messages have."""
    begin = f"Subject: path {name}\r\n"
    letters = base64.b64encode(os.urandom(octets)).decode()
    lines = [letters[at:at + 76] for at in range(0, octets, 78)]
    return begin, ("\r\n" + "\r\n".join(lines))[:octets - len(begin) - 2] + "\r\n"


def bring(server, port, sender, recipient, name, octets, priority):
    begin, text = text_of(name, octets)
    asks = "" if priority is None else f"MT-Priority: {priority}\r\n"
    began = time.time()
    with smtplib.SMTP(server, port, local_hostname="mua.example", timeout=60) as mail:
        mail.sendmail(sender, [recipient], begin + asks + text)
    return began


def arrival(folder, name, until):
    """When a message lay in a Maildir, and its header; once."""
    while time.time() < until:
        found = []
        for path in glob.glob(f"{folder}/boxes/ops/new/*"):
            with open(path, encoding="latin1") as text:
                header = text.read().replace("\r", "").split("\n\n")[0]
            if f"Subject: path {name}\n" in header + "\n":
                found.append((os.stat(path).st_mtime, header))
        if found:
            assert len(found) == 1, f"{name} came {len(found)} times"
            return found[0]
        time.sleep(0.02)
    return None


def octets_of(said):
    number, unit = said.split()
    return int(float(number) * {"B": 1, "kB": 1000, "MB": 1_000_000}[unit])


def bring_there(namespace, *message):
    """The same by a program of another host."""
    began = []

    def there():
        enter(namespace)
        began.append(bring(*message))

    thread = threading.Thread(target=there)
    thread.start()
    thread.join()
    return began[0]


def simulated(strait, scenario, folder):
    """The least and the most seconds that each message takes."""
    with open(scenario, encoding="utf-8") as file:
        text = file.read().replace('"../', f'"{os.path.dirname(os.path.dirname(scenario))}/')
    times = collections.defaultdict(list)
    for shift in SHIFTS_S:
        later = re.sub(r'^start = "(\d+) s"$', lambda it, shift=shift: f'start = "{float(it[1]) + shift} s"', text, flags=re.M)
        path = os.path.join(folder, "later.toml")
        with open(path, "w", encoding="utf-8") as out:
            out.write(later)
        said = subprocess.run([strait, "sim", "--json", path], capture_output=True, check=True)
        for metric, _, value in json.loads(said.stdout)["tables"][0]["rows"]:
            if metric.endswith(".time_s"):
                times[metric.removesuffix(".time_s")].append(value)
    return {name: (min(all_), max(all_)) for name, all_ in times.items()}


def tried(strait, scenario, near, far, site_b):
    """What was tried, and whether it came to what it ought to."""
    with open(scenario, "rb") as file:
        told = tomllib.load(file)
    virtual = simulated(strait, scenario, near)
    began, brought = time.time(), {}
    traffic = [(float(it["start"].split()[0]), it) for it in told["traffic"]]
    # Connections of lanes are up by the first.
    first = min(at for at, _ in traffic)
    until = began + float(told["duration"].split()[0])
    for at, flow in sorted(traffic, key=lambda it: it[0]):
        time.sleep(max(0.0, began + at - time.time()))
        brought[flow["name"]] = bring("10.1.0.2", 25, "ops@site-a.example", "ops@site-b.example", flow["name"],
                                      octets_of(flow["octets"]), PRIORITIES.get(flow.get("dscp")))
    for name, at in brought.items():
        came = arrival(far, name, until)
        live, (least, most) = came[0] - at if came else float("inf"), virtual[name]
        nearest = min(max(live, least), most)
        right = abs(live - nearest) <= nearest * WITHIN[0] + WITHIN[1]
        yield f"{name}: {live:.2f} s from Postfix to Exim, {least:.2f} to {most:.2f} s simulated", right
        if name != "routine" and came:
            yield f"{name} came as Flash", re.findall("(?i)^MT-Priority: *(.*)$", came[1], re.M) == ["4"]
    at = bring_there(site_b, "10.2.0.2", 25, "ops@site-b.example", "ops@site-a.example", "back", 1000, 4)
    came = arrival(near, "back", at + first + 60)
    yield f"back: {came[0] - at if came else float('inf'):.2f} s from Exim to Postfix", came is not None


def main():
    folder = with_users("mail_path")
    scenario, strait, root = (os.path.abspath(it) for it in sys.argv[1:4])
    near, far = make(folder, "a"), make(folder, "b")
    site_b, _ = having("10.2.0.2")
    gateway, interface = having("10.9.0.1")
    capture, running, right = Capture(gateway, interface), [], True
    capture.start()
    capture.ready.wait(10)
    log = os.path.join(folder, "log")
    owner, drop, other = (USERS[it] for it in ("postfix", "postdrop", "Debian-exim"))
    start(running, log, postfix(root, near, (owner, owner), drop, {
        "address": "10.1.0.2", "networks": "10.1.0.0/24", "domain": "site-a.example", "relay": "[10.1.0.1]:2525"}))
    start(running, log, exim(f"{root}/usr/sbin/exim4", far, (other, other), {
        "address": "10.2.0.2", "domain": "site-b.example", "relay": ("10.2.0.1", 2525)}), site_b)
    try:
        for what, came in tried(strait, scenario, near, far, site_b):
            print("ok    " if came else "FAILED", what, flush=True)
            right &= came
        capture.ended.set()
        wrong = {it: count for it, count in capture.marks.items() if it[3] != CODE_POINTS[it[0]]}
        ways = {it[:3] for it in capture.marks}
        both = (5000, "to", True) in ways and (5000, "from", False) in ways
        print("ok    " if both and not wrong else "FAILED",
              f"{sum(capture.marks.values())} packets of lanes, of these with other code points: {wrong}")
        if not both:
            print("not both ways:", sorted(ways))
        right &= both and not wrong
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait()
    if not right:
        for log in [log, *glob.glob(f"{near}/maillog"), *glob.glob(f"{far}/spool/*nlog")]:
            with open(log, encoding="utf-8", errors="replace") as said:
                print(f"{log}:\n{said.read()[-3000:]}")
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
