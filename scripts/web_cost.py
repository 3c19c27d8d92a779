#!/usr/bin/env python3
"""What those who look on cost a gateway: packets a second through two gateways, with and without them.

    scripts/web_cost.py STRAIT [PAIRS]

Two namespaces, a gateway by `strait run` in each, UDP ports between them, segments of 200 octets by iperf3 with 128 of
them under way, as fast as they pass. In turns, so that what else the machine does meets both: alone, and with `strait
web` on both status sockets, a reader of its events, `strait top` on a terminal, IPFIX each second, and a scrape of the
metrics each second. Prints the median of the pairs' ratios. Needs root, iperf3 and curl.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

STRAIT = sys.argv[1]
PAIRS = int(sys.argv[2]) if len(sys.argv) > 2 else 10
SECONDS = 3
SEGMENT = 200
NODE = """name = "{own}"
[host]
addresses = ["10.77.{n}.1/24"]
routes = ["10.77.{m}.0/24"]
[policy]
preset = "default"
[[port]]
name = "net"
kind = "udp"
local = "192.0.2.{n}:7000"
neighbours = [{{ name = "{far}", address = "192.0.2.{m}:7000" }}]
frame = 1500
[status]
metrics = "127.0.0.1:9464"
"""
# One process, as a collector is: what starting one each second costs isn't the gateway's.
SCRAPE = """
import time, urllib.request
while True:
    urllib.request.urlopen("http://127.0.0.1:9464/metrics").read()
    time.sleep(1)
"""


def on_terminal(*command):
    """A process on a terminal, and a thread that reads what comes there."""
    near, far = os.openpty()
    process = subprocess.Popen(command, stdin=far, stdout=far, stderr=subprocess.DEVNULL, env={**os.environ, "TERM": "vt220"})
    os.close(far)

    def read():
        try:
            while os.read(near, 65536):
                pass
        except OSError:
            os.close(near)

    threading.Thread(target=read, daemon=True).start()
    return process


def attach(folder):
    sockets = [str(folder / f"{own}.sock") for own in "ab"]
    web = start(STRAIT, "web", *sockets, "--listen", "127.0.0.1:0")
    yield web
    yield start("curl", "-sN", web.stdout.readline().strip() + "events")
    yield on_terminal(STRAIT, "top", *sockets)
    yield start(STRAIT, "ipfix", *sockets, "--to", "127.0.0.1:4739", "--interval", "1")
    for own in "ab":
        yield start("ip", "netns", "exec", f"cost-{own}", sys.executable, "-c", SCRAPE)


def end(process):
    process.terminate()
    process.wait()


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def start(*command, **more):
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **more)


def packets_a_second():
    told = subprocess.run(
        ["ip", "netns", "exec", "cost-a", "iperf3", "-c", "10.77.2.1", "-M", str(SEGMENT), "-w", str(128 * SEGMENT),
         "-t", str(SECONDS), "-J"],
        check=True, capture_output=True, text=True)
    end = json.loads(told.stdout)["end"]["sum_received"]
    return end["bits_per_second"] / 8 / SEGMENT


def main():
    folder = pathlib.Path(tempfile.mkdtemp())
    processes = []
    try:
        for own in "ab":
            run("ip", "netns", "add", f"cost-{own}")
        run("ip", "link", "add", "wire", "netns", "cost-a", "type", "veth", "peer", "name", "wire", "netns", "cost-b")
        for n, own, m, far in [(1, "a", 2, "b"), (2, "b", 1, "a")]:
            inside = ["ip", "netns", "exec", f"cost-{own}"]
            run(*inside, "ip", "address", "add", f"192.0.2.{n}/24", "dev", "wire")
            for name in ["lo", "wire"]:
                run(*inside, "ip", "link", "set", name, "up")
            file = folder / f"{own}.toml"
            file.write_text(NODE.format(own=own, n=n, m=m, far=far))
            processes.append(start(*inside, STRAIT, "run", str(file), "--status", str(folder / f"{own}.sock")))
        time.sleep(2)
        processes.append(start("ip", "netns", "exec", "cost-b", "iperf3", "-s"))
        time.sleep(1)
        packets_a_second()
        ratios, alone = [], []
        for _ in range(PAIRS):
            alone.append(packets_a_second())
            attached = list(attach(folder))
            time.sleep(1)
            assert all(process.poll() is None for process in attached), "one of them has ended"
            ratios.append(packets_a_second() / alone[-1])
            for process in reversed(attached):
                end(process)
        print(json.dumps({"pairs": PAIRS, "alone_pps": round(statistics.median(alone)),
                          "with_all": round(statistics.median(ratios), 3), "all": [round(ratio, 3) for ratio in ratios]}))
    finally:
        for process in processes:
            process.terminate()
            process.wait()
        for own in "ab":
            subprocess.run(["ip", "netns", "delete", f"cost-{own}"], check=False)


main()
