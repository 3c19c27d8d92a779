#!/usr/bin/env python3
"""A browser's pages over 9600 baud beside a call, and a picture of when what came.

    sudo scripts/proxy_page.py target/release/strait docs/book/proxy-page.svg

Four network namespaces: Chromium, two gateways with TCP proxies and a serial line between them (a
pair of ptys at `scenarios/links/serial-9600.toml`), and a server. A page of 18 kB in six objects
and one of 300 kB in twenty are loaded, one after the other, while a call goes both ways. The
browser itself says when each object was asked for, began to come and was there. The pages' text
gets shorter on the line, their pictures don't. Needs root, `nft` and `chromium`, and takes eight minutes.
"""

import html
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib

CLIENT, NEAR, FAR, SERVER = NAMES = "w-c", "w-a", "w-b", "w-s"
HERE = os.path.dirname(os.path.abspath(__file__))
LINK = os.path.join(HERE, "..", "scenarios", "links", "serial-9600.toml")
# Octets of each page's own text and of each of its objects.
PAGES = {"small": (5500, [2500] * 5), "large": (15000, [15000] * 19)}
TIMES = """<pre id=times></pre><script>addEventListener('load', () => {
const of = it => [it.name, it.requestStart, it.responseStart, it.responseEnd];
const all = ['navigation', 'resource'].flatMap(it => performance.getEntriesByType(it));
document.getElementById('times').textContent = JSON.stringify(all.map(of)); });</script>"""
SERVE = """import http.server, os, sys
os.chdir(sys.argv[1])
class Pages(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
http.server.ThreadingHTTPServer(("10.2.0.2", 80), Pages).serve_forever()
"""


def sh(line, check=True):
    return subprocess.run(line, shell=True, check=check, capture_output=True, text=True).stdout


def inside(name, command, **more):
    return subprocess.Popen(["ip", "netns", "exec", name, *command], **more)


def image(octets, chance):
    """A picture (PNG) of so many octets that nothing makes shorter, as photographs are."""
    def chunk(kind, data):
        summed = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", summed)
    rows, width = 50, (octets - 80) // 50 - 1
    pixels = b"".join(b"\0" + chance.randbytes(width) for _ in range(rows))
    head = struct.pack(">IIBBBBB", width, rows, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(pixels, 0)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*it) for it in parts)


def words(octets, chance):
    """Text of so many octets."""
    letters = "etaoinshrdlcumwfgypbvk"
    text = ""
    while len(text) < octets:
        text += "".join(chance.choices(letters, range(22, 0, -1), k=chance.randint(2, 9))) + " "
    return text[:octets]


def pages(folder):
    chance = random.Random(1)
    for name, (own, objects) in PAGES.items():
        images = "".join(f"<img src={name}-{at}.png>" for at in range(len(objects)))
        head = f"<!doctype html><title>{name}</title>{TIMES}{images}<p>"
        file(folder, f"{name}.html", head + words(own - len(head), chance))
        for at, octets in enumerate(objects):
            with open(os.path.join(folder, f"{name}-{at}.png"), "wb") as out:
                out.write(image(octets, chance))


def file(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="ascii") as out:
        out.write(text)
    return path


def build(folder, strait):
    """The gateways, and a line between them."""
    for name in NAMES:
        sh(f"ip netns add {name}; ip -n {name} link set lo up")
    ends = [f"{folder}/line-{it}" for it in "ab"]
    yield subprocess.Popen([strait, "emulate", LINK, "--a", f"pty:{ends[0]}", "--b",
                            f"pty:{ends[1]}"], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    time.sleep(1)
    for (host, gateway), own in [((CLIENT, NEAR), 1), ((SERVER, FAR), 2)]:
        other = 3 - own
        sh(f"ip link add eth0 netns {host} type veth peer name lan netns {gateway}")
        for name, device, number in [(host, "eth0", 2), (gateway, "lan", 1)]:
            sh(f"ip -n {name} address add 10.{own}.0.{number}/24 dev {device};"
               f"ip -n {name} link set {device} up")
        sh(f"ip -n {host} route add default via 10.{own}.0.1")
        sh(f"ip netns exec {gateway} sysctl -qw net.ipv4.ip_forward=1")
        node = file(folder, f"{own}.toml", f"""name = "g{own}"
[host]
addresses = ["10.9.0.{own}/30"]
routes = ["10.{other}.0.0/24"]
[status]
socket = "{folder}/{own}.sock"
[[port]]
name = "line"
kind = "serial"
device = "{ends[own - 1]}"
baud = 9600
framing = "8N1"
profile = "adapter"
compression = "rohc"
[proxy]
allow = ["10.{own}.0.0/24"]
[[proxy.partner]]
address = "10.9.0.{other}"
prefixes = ["10.{other}.0.0/24"]
""")
        sh(f"{strait} proxy rules {node} | ip netns exec {gateway} sh")
        yield inside(gateway, [strait, "run", node], stderr=subprocess.DEVNULL)
    script = file(folder, "serve.py", SERVE)
    yield inside(SERVER, ["python3", script, folder], stderr=subprocess.DEVNULL)
    time.sleep(5)


def load(folder, page):
    """When each object of a page was asked for, began to come, and was there, in seconds."""
    command = ["timeout", "900", "chromium", "--headless", "--no-sandbox", "--disable-gpu",
               "--disable-background-networking", "--no-first-run", "--dump-dom",
               f"--user-data-dir={folder}/browser-{page}", "--timeout=850000",
               f"http://10.2.0.2/{page}.html"]
    shown = inside(CLIENT, command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    shown = shown.communicate()[0]
    times = re.search(r"<pre id=.times.>(\[.*?\])</pre>", shown)
    if not times:
        sys.exit(f"{page}: the page didn't load: {shown[:200]}")
    for name, *moments in json.loads(html.unescape(times[1])):
        yield name.rsplit("/", 1)[1], [it / 1000 for it in moments]


def draw(loaded, told):
    """A row an object: thin while it is asked for and waits, thick while it comes."""
    left, width, row, gap = 110, 580, 13, 62
    rows = sum(len(it) for it in loaded.values())
    height = rows * row + gap * len(loaded) + 30
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 {height}" width="720" '
           f'height="{height}" font-family="sans-serif" font-size="11">')
    yield f'<title>Pages in Chromium over 9600 baud</title><rect width="100%" height="100%" fill="#fff"/>'
    top = 24
    for page, objects in loaded.items():
        end = max(moments[2] for _, moments in objects)
        yield f'<text x="12" y="{top}" font-size="14">{told[page]}</text>'
        top += 12
        bottom = top + len(objects) * row
        step = next(it for it in (5, 10, 20, 50, 100, 200) if end / it <= 8)
        for second in range(0, int(end) + 1, step):
            x = left + width * second / end
            yield (f'<path d="M{x:.1f} {top} V{bottom}" stroke="#ddd"/><text x="{x:.1f}" '
                   f'y="{bottom + 13}" text-anchor="middle" fill="#555">{second} s</text>')
        for name, moments in objects:
            asked, begins, there = (left + width * it / end for it in moments)
            yield f'<text x="{left - 6}" y="{top + 10}" text-anchor="end">{name}</text>'
            yield (f'<path d="M{asked:.1f} {top + 6.5} H{begins:.1f}" stroke="#888"/>'
                   f'<rect x="{begins:.1f}" y="{top + 2}" width="{max(there - begins, 1):.1f}" '
                   f'height="9" fill="#1f77b4"/>')
            top += row
        top += gap - 12
    yield "</svg>\n"


def call(folder, strait, seconds):
    """Its two ends."""
    ends = [(SERVER, "receive", ["--local", "10.2.0.2:5004", "--answer"]),
            (CLIENT, "send", ["--local", "10.1.0.2:5006", "--peer", "10.2.0.2:5004"])]
    for name, what, more in ends:
        yield inside(name, [strait, "measure", "voice", what, *more, "--for", f"{seconds} s",
                            "--log", f"{folder}/{what}.json"], stdout=subprocess.DEVNULL)


def main():
    strait, picture = os.path.abspath(sys.argv[1]), sys.argv[2]
    folder, running = tempfile.mkdtemp(), []
    try:
        pages(folder)
        running.extend(build(folder, strait))
        loaded, told = {}, {}
        for page, (own, objects) in PAGES.items():
            octets = own + sum(objects)
            both = list(call(folder, strait, octets // 700 + 15))
            running.extend(both)
            loaded[page] = list(load(folder, page))
            took = max(moments[2] for _, moments in loaded[page])
            for one in both:
                one.wait()
            heard = sh(f"{strait} measure voice report {folder}/send.json {folder}/receive.json")
            told[page] = (f"{octets / 1000:.0f} kB in {1 + len(objects)} objects: {took:.1f} s "
                          f"beside a call; the line alone takes {octets / 960:.1f} s")
            print(f"{told[page]}\n{heard}", flush=True)
        with open(picture, "w", encoding="ascii") as out:
            out.write("\n".join(draw(loaded, told)))
    finally:
        for one in running:
            one.kill()
        for name in NAMES:
            sh(f"ip netns del {name}", check=False)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
