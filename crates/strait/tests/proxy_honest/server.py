"""Servers that fail in ways of their own, each on a port of both families."""

import socket
import struct
import threading
import time

ADDRESSES = [(socket.AF_INET, "10.2.0.2"), (socket.AF_INET6, "fd00:2::2")]
seen = {}


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def answer(connection, body, length=None):
    connection.recv(65536)
    length = len(body) if length is None else length
    head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    connection.sendall(head.encode() + body)


def good(connection):
    answer(connection, b"x" * 3000)
    connection.close()


def resets_after_syn(connection):
    time.sleep(0.2)
    reset(connection)


def closes(connection):
    connection.recv(65536)
    connection.close()


def closes_unread(connection):
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(65536):
        pass
    connection.close()


def hears_to_the_end(connection):
    octets = 0
    while piece := connection.recv(65536):
        octets += len(piece)
    connection.sendall(f"{octets}".encode())
    connection.close()


def says_and_hears(connection):
    connection.sendall(b"y" * 2000)
    connection.shutdown(socket.SHUT_WR)
    octets = 0
    while piece := connection.recv(65536):
        octets += len(piece)
    seen["after the end"] = octets
    connection.close()


def resets_in_the_middle(connection):
    answer(connection, b"z" * 5000, 10000)
    time.sleep(1)
    reset(connection)


def slow(connection):
    answer(connection, b"", 1000)
    for _ in range(10):
        connection.sendall(b"s" * 100)
        time.sleep(0.1)
    connection.close()


def tells(connection):
    time.sleep(0.3)
    connection.sendall(repr(sorted(seen.items())).encode())
    connection.close()


SERVERS = {
    7000: good,
    7001: resets_after_syn,
    7002: closes,
    7003: closes_unread,
    7004: hears_to_the_end,
    7005: says_and_hears,
    7006: resets_in_the_middle,
    7007: slow,
    7008: tells,
}


def serve(listener, program):
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=guarded, args=(program, connection), daemon=True).start()


def guarded(program, connection):
    try:
        program(connection)
    except OSError:
        connection.close()


NAMES = {("www.far", 1): "10.2.0.2", ("six.far", 28): "fd00:2::2"}


def serve_names():
    """Two names, each with an address of one family (RFC 1035)."""
    known = {name for name, _ in NAMES}
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind((ADDRESSES[0][1], 53))
    while True:
        message, client = names.recvfrom(512)
        end = message.index(0, 12) + 5
        labels, at = [], 12
        while message[at]:
            labels.append(message[at + 1 : at + 1 + message[at]].decode().lower())
            at += 1 + message[at]
        name, kind = ".".join(labels), int.from_bytes(message[end - 4 : end - 2], "big")
        address = NAMES.get((name, kind))
        family = socket.AF_INET if kind == 1 else socket.AF_INET6
        data = socket.inet_pton(family, address) if address else b""
        record = struct.pack(">HHHIH", 0xC00C, kind, 1, 60, len(data)) + data if address else b""
        flags = 0x8180 if name in known else 0x8183
        head = message[:2] + struct.pack(">HHHHH", flags, 1, int(bool(address)), 0, 0)
        names.sendto(head + message[12:end] + record, client)


threading.Thread(target=serve_names, daemon=True).start()
for family, address in ADDRESSES:
    for port, program in SERVERS.items():
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(16)
        threading.Thread(target=serve, args=(listener, program), daemon=True).start()
print("ready", flush=True)
time.sleep(600)
