#!/usr/bin/env python3
"""Recomputes headline figures of a simulation from its captures, with nothing of strait's own.

    strait sim scenarios/demo.toml --runs 1 --json --pcap out > out/result.json
    scripts/from_captures.py out/strait-ha.pcapng out/strait-b.pcapng

Each pair of files is what a host sent and what the gateway before the other host sent: a packet of
the first that is also in the second has arrived. Several pairs count as one path. tshark reads the
files; all arithmetic is here. The result is a JSON object: for each TCP connection by its ports and
direction its segments without resets, those that repeat numbers already sent, the time from the
first SYN to the last octet's arrival, and the goodput; for the answers to each client's
connection, from whichever host or gateway it gets them, when the last octet came; for all RTP
packets, each flow of UDP by its ports and all pings their number, loss and delays.
"""

import json
import math
import subprocess
import sys

COLUMNS = [
    "frame.time_epoch",
    "ip.src", "ip.dst", "ipv6.src", "ipv6.dst",
    "tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.len", "tcp.flags",
    "udp.srcport", "udp.dstport", "udp.payload",
    "icmp.type", "icmp.ident", "icmp.seq",
    "icmpv6.type", "icmpv6.echo.identifier", "icmpv6.echo.sequence_number",
]
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10


def read(path):
    """The IP packets of a file, as a dictionary each; times in nanoseconds."""
    command = ["tshark", "-n", "-r", path, "-T", "fields"]
    for column in COLUMNS:
        command += ["-e", column]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    packets = []
    for line in lines.splitlines():
        packet = dict(zip(COLUMNS, line.split("\t")))
        packet["src"] = packet["ip.src"] or packet["ipv6.src"]
        packet["dst"] = packet["ip.dst"] or packet["ipv6.dst"]
        if packet["src"]:
            seconds, fraction = packet["frame.time_epoch"].split(".")
            packet["ns"] = int(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9])
            packets.append(packet)
    return packets


def behind(number, other):
    """Sequence numbers are compared modulo 2^32."""
    return (number - other) % 2**32 >= 2**31


def connections(sent, arrived):
    """What each sender of a connection did, by «source port > destination port»."""
    flows = {}
    for packet in sent:
        if not packet["tcp.srcport"]:
            continue
        key = (packet["src"], packet["tcp.srcport"], packet["dst"], packet["tcp.dstport"])
        new = {"segments": 0, "resets": 0, "again": 0, "end": None, "octets": 0}
        flow = flows.setdefault(key, new)
        flags, octets = int(packet["tcp.flags"], 16), int(packet["tcp.len"])
        if flags & RST:
            # Most come from a host that knows of no connection (any more).
            flow["resets"] += 1
            continue
        flow["segments"] += 1
        seq = int(packet["tcp.seq_raw"])
        if flags & SYN and "start" not in flow:
            flow["start"], flow["first"] = packet["ns"], (seq + 1) % 2**32
        length = octets + bool(flags & SYN) + bool(flags & FIN)
        if length == 0:
            continue
        if flow["end"] is not None and behind(seq, flow["end"]):
            flow["again"] += 1
        end = (seq + length) % 2**32
        if flow["end"] is None or behind(flow["end"], end):
            flow["end"] = end
        if octets:
            flow["octets"] = max(flow["octets"], (seq + octets - flow["first"]) % 2**32)
    pieces = {}
    for packet in arrived:
        if packet["tcp.srcport"] and int(packet["tcp.len"]):
            key = (packet["src"], packet["tcp.srcport"], packet["dst"], packet["tcp.dstport"])
            pieces.setdefault(key, []).append(packet)
    result = {}
    for key, flow in flows.items():
        done = finished(flow, pieces.get(key, [])) if "first" in flow else None
        time_s = (done - flow["start"]) / 1e9 if done else None
        result[f"{key[1]} > {key[3]}"] = {
            "segments": flow["segments"],
            "resets": flow["resets"],
            "retransmissions": flow["again"],
            "octets": flow["octets"],
            "start_s": flow["start"] / 1e9 if "start" in flow else None,
            "time_s": time_s,
            "goodput_bit_s": flow["octets"] * 8 / time_s if time_s else None,
        }
    return result


def finished(flow, pieces):
    """When the last missing octet came, whatever came in what order."""
    have = 0
    waiting = []
    for packet in pieces:
        start = (int(packet["tcp.seq_raw"]) - flow["first"]) % 2**32
        waiting.append((start, start + int(packet["tcp.len"])))
        waiting.sort()
        while waiting and waiting[0][0] <= have:
            have = max(have, waiting.pop(0)[1])
        if have >= flow["octets"] > 0:
            return packet["ns"]
    return None


def rtp(packet):
    """What tells an RTP packet (RFC 3550) from all others of its flow: the fixed header."""
    payload = packet["udp.payload"].replace(":", "")
    if len(payload) < 24 or int(payload[0], 16) >> 2 != 2:
        return None
    ends = [packet[name] for name in ["src", "udp.srcport", "dst", "udp.dstport"]]
    return (*ends, payload[:24])


def answers(pairs):
    """The answers to each client, by «client's port > server's port»: when it asked for the
    connection, and when the last new octet came to it."""
    result = {}
    for packet in (packet for sent, _ in pairs for packet in sent):
        if packet["tcp.flags"] and int(packet["tcp.flags"], 16) & (SYN | ACK) == SYN:
            key = (packet["src"], packet["tcp.srcport"], packet["dst"], packet["tcp.dstport"])
            start_s = packet["ns"] / 1e9
            result.setdefault(key, {"start_s": start_s, "done_s": None, "end": None})
    for packet in (packet for _, arrived in pairs for packet in arrived):
        if not packet["tcp.srcport"] or not int(packet["tcp.len"]):
            continue
        key = (packet["dst"], packet["tcp.dstport"], packet["src"], packet["tcp.srcport"])
        answer = result.get(key)
        end = (int(packet["tcp.seq_raw"]) + int(packet["tcp.len"])) % 2**32
        if answer and (answer["end"] is None or behind(answer["end"], end)):
            answer["end"], answer["done_s"] = end, packet["ns"] / 1e9
    return {
        f"{key[1]} > {key[3]}": {name: answer[name] for name in ["start_s", "done_s"]}
        for key, answer in result.items()
    }


def percentile(ascending, share):
    """By nearest rank: always a value that was measured."""
    return ascending[max(math.ceil(share * len(ascending)), 1) - 1]


def delays(sent, arrived, key):
    """For each packet of `sent` that has a key how long it took; None if it never came."""
    came = {}
    for packet in arrived:
        if key(packet):
            came.setdefault(key(packet), packet["ns"])
    keys = [(key(packet), packet["ns"]) for packet in sent if key(packet)]
    return [(came[key] - ns) / 1e9 if key in came else None for key, ns in keys]


def figures(delays, name):
    """Number, loss and what percentiles of the times are called."""
    there = sorted(delay for delay in delays if delay is not None)
    result = {"packets": len(delays)}
    if there:
        result["loss"] = 1 - len(there) / len(delays)
        for which, share in [("min", 0), ("p50", 0.5), ("p99", 0.99), ("max", 1)]:
            result[f"{name}_{which}_s"] = percentile(there, share)
    return result


def datagram(packet):
    """What tells a datagram from all others: its payload begins with a number."""
    ends = [packet[name] for name in ["src", "udp.srcport", "dst", "udp.dstport"]]
    return (*ends, packet["udp.payload"]) if packet["udp.srcport"] else None


def datagrams(pairs):
    """Loss and delays of each flow of UDP."""
    flows = {}
    for sent, arrived in pairs:
        names = {(packet["udp.srcport"], packet["udp.dstport"]) for packet in sent}
        for ports in names - {("", "")}:
            of = [
                [packet for packet in side if (packet["udp.srcport"], packet["udp.dstport"]) == ports]
                for side in (sent, arrived)
            ]
            flows[" > ".join(ports)] = figures(delays(*of, datagram), "delay")
    return flows


def echo(packet):
    """What an echo request and its reply have in common."""
    ends = sorted([packet["src"], packet["dst"]])
    of4 = [packet["icmp.ident"], packet["icmp.seq"]]
    of6 = [packet["icmpv6.echo.identifier"], packet["icmpv6.echo.sequence_number"]]
    return (*ends, *of4, *of6)


def pings(pairs):
    """Loss and round trips: from the request that a host sent to the reply that came to it."""
    def of(packets, of4, of6):
        return [it for it in packets if it["icmp.type"] == of4 or it["icmpv6.type"] == of6]

    requests = [packet for sent, _ in pairs for packet in of(sent, "8", "128")]
    replies = [packet for _, arrived in pairs for packet in of(arrived, "0", "129")]
    return delays(requests, replies, echo)


def main(paths):
    if not paths or len(paths) % 2:
        sys.exit(__doc__)
    files = [read(path) for path in paths]
    pairs = list(zip(files[::2], files[1::2]))
    for sent, arrived in pairs:
        sources = {packet["src"] for packet in sent}
        arrived[:] = [packet for packet in arrived if packet["src"] in sources]
    tcp = {}
    for sent, arrived in pairs:
        tcp.update(connections(sent, arrived))
    calls = [delay for sent, arrived in pairs for delay in delays(sent, arrived, rtp)]
    result = {
        "tcp": tcp,
        "answers": answers(pairs),
        "rtp": figures(calls, "delay"),
        "udp": datagrams(pairs),
        "ping": figures(pings(pairs), "rtt"),
    }
    print(json.dumps(result, indent=1))


main(sys.argv[1:])
