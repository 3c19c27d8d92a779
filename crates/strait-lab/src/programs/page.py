"""Fetches a page as a browser does: the root first, then what that names, and so on, over a few connections to each of
its hosts, each used again for the next object. By HTTP/2 curl's library does it, else sockets of its own: an object goes
by the connection that is free first, as in browsers, and curl gives it one when it is asked for.

Prints when it began and when each object had come, in nanoseconds of the monotonic clock. Its argument is JSON: where
objects lie by `hosts`, in turn, each a name; what each `names`; the `address` and `port` of them all, `connections` at
once to each, the `folder` for objects, the nanosecond to `start`, whether they have `tls`, and by that `http2`, the
`resolver` that is asked for names, or none, and `via` whom connections are asked for, or none: speech, address and port.
Who is asked for connections is told names.
"""

import collections
import ctypes
import json
import os
import selectors
import socket
import ssl
import struct
import sys
import time

# Octets of each request, as many as browsers send.
REQUEST_OCTETS = 300
# Tickets of TLS 1.3 that are kept for a host, as by Chromium.
TICKETS_MAX = 2

page = json.loads(sys.argv[1])
hosts, port, scheme = page["hosts"], page["port"], "https" if page["tls"] else "http"
known = {} if page["resolver"] else {host: page["address"] for host in hosts}


def look_up(host):
    """Asks once, in this process: the last address of what is told (RFC 1035), or nothing."""
    number = os.urandom(2)
    name = b"".join(bytes([len(label)]) + label.encode() for label in host.split("."))
    question = number + struct.pack(">5H", 0x0100, 1, 0, 0, 0) + name + struct.pack(">xHH", 1, 1)
    asks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asks.settimeout(5)
    asks.connect((page["resolver"], 53))
    try:
        asks.send(question)
        told = asks.recv(2048)
    except OSError:
        return None
    known = told[:2] == number and told[3] & 15 == 0 and told[6:8] != bytes(2)
    # Nothing stands behind the addresses: no extended DNS was asked for.
    return socket.inet_ntoa(told[-4:]) if known else None


def address(host):
    while host not in known:
        if told := look_up(host):
            known[host] = told
        else:
            time.sleep(0.1)
    return known[host]


def host_of(index):
    return hosts[index % len(hosts)]


def save(index):
    return open(f"{page['folder']}/{index}", "wb", buffering=0)


def fill(bare):
    return "x" * (REQUEST_OCTETS - len(bare))


def socks(host):
    """What is said in SOCKS5 (RFC 1928), and how each answer begins and how long it is."""
    yield b"\5\1\0", b"\5\0", lambda told: len(told) == 2
    if page["resolver"]:
        place = bytes([3, len(host)]) + host.encode()
    elif ":" in page["address"]:
        place = b"\4" + socket.inet_pton(socket.AF_INET6, page["address"])
    else:
        place = b"\1" + socket.inet_aton(page["address"])
    yield b"\5\1\0" + place + struct.pack(">H", port), b"\5\0", lambda told: len(told) == 10


def connect(host):
    """The same in HTTP (RFC 9110 section 9.3.6)."""
    place = host if page["resolver"] else f"[{page['address']}]" if ":" in page["address"] else page["address"]
    said = f"CONNECT {place}:{port} HTTP/1.1\r\nHost: {place}:{port}\r\nUser-Agent: curl/8.5.0\r\n"
    said += "Proxy-Connection: Keep-Alive\r\n\r\n"
    yield said.encode(), b"HTTP/1.1 200 ", lambda told: told.endswith(b"\r\n\r\n")


class Connection:
    """One to a host. It asks for an object at a time."""

    def __init__(self, host, ticket):
        self.host, self.ticket, self.index, self.ready, self.kept = host, ticket, None, False, False
        speech, *place = page["via"] or (None, address(host), port)
        self.way = {None: lambda _: iter(()), "socks5": socks, "http": connect}[speech](host)
        self.step, self.told = None, b""
        family = socket.AF_INET6 if ":" in place[0] else socket.AF_INET
        self.wire = socket.socket(family, socket.SOCK_STREAM)
        self.wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.wire.setblocking(False)
        self.wire.connect_ex(tuple(place))

    def ask_way(self):
        """Goes on until whoever is asked for the connection has granted it."""
        while step := self.step or next(self.way, None):
            said, right, whole = step
            if said:
                self.wire.send(said)
            self.step = (b"", right, whole)
            while not whole(self.told):
                octets = self.wire.recv(256)
                self.told += octets
                if not octets or not self.told.startswith(right[: len(self.told)]):
                    sys.exit(f"connection to {self.host}: refused, {self.told[:60]}")
            self.step, self.told = None, b""

    def begin(self):
        """Goes on until it is connected."""
        error = self.wire.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            sys.exit(f"connection to {self.host}: {os.strerror(error)}")
        self.ask_way()
        if page["tls"]:
            if not isinstance(self.wire, ssl.SSLSocket):
                how = {"do_handshake_on_connect": False, "session": self.ticket}
                self.wire = tls.wrap_socket(self.wire, server_hostname=self.host, **how)
            self.wire.do_handshake()
        self.ready = True

    def ask(self, index):
        self.index, self.head, self.file = index, b"", save(index)
        bare = f"GET /{index} HTTP/1.1\r\nHost: {self.host}:{port}\r\nAccept: */*\r\nX-Fill: \r\n\r\n"
        # It is shorter than what the socket takes.
        self.wire.send(bare.replace("X-Fill: ", f"X-Fill: {fill(bare)}").encode())

    def hear(self):
        """Takes what has come; whether that was all of the object."""
        octets = self.wire.recv(1 << 16)
        if not octets or self.index is None:
            sys.exit(f"object {self.index}: {self.host} doesn't keep the connection as it was")
        if self.head is not None:
            self.head += octets
            head, end, octets = self.head.partition(b"\r\n\r\n")
            if not end:
                return False
            if b" 200 " not in head.split(b"\r\n")[0]:
                sys.exit(f"object {self.index}: {head[:60]}")
            length = next(it for it in head.lower().split(b"\r\n") if it.startswith(b"content-length:"))
            self.head, self.left = None, int(length.split(b":")[1])
        self.file.write(octets)
        self.left -= len(octets)
        return self.left == 0


class Browser:
    """Fetches over connections that are open before it is known what goes by them."""

    def __init__(self):
        self.waiting, self.tickets = collections.defaultdict(collections.deque), collections.defaultdict(list)
        self.all, self.ready = [], selectors.DefaultSelector()

    def fetch(self, index):
        self.waiting[host_of(index)].append(index)

    def go_on(self):
        for host, waiting in self.waiting.items():
            own = [it for it in self.all if it.host == host]
            for one in own:
                if waiting and one.ready and one.index is None:
                    one.ask(waiting.popleft())
            opening = sum(not it.ready for it in own)
            for _ in range(min(len(waiting) - opening, page["connections"] - len(own))):
                tickets = self.tickets[host]
                one = Connection(host, tickets.pop() if tickets else None)
                self.all.append(one)
                self.ready.register(one.wire, selectors.EVENT_WRITE, one)

    def come(self):
        """The objects that have come."""
        self.go_on()
        for key, _ in self.ready.select():
            one, wants = key.data, selectors.EVENT_READ
            try:
                if not one.ready:
                    one.begin()
                    self.go_on()
                while True:
                    if one.hear():
                        index, one.index = one.index, None
                        self.keep_tickets(one)
                        yield index
                        self.go_on()
            except ssl.SSLWantWriteError:
                wants = selectors.EVENT_WRITE
            except (ssl.SSLWantReadError, BlockingIOError):
                pass
            self.ready.modify(one.wire, wants, one)

    def keep_tickets(self, one):
        """A server gives two, and one where it took one: the library shows the last."""
        if page["tls"] and not one.kept and one.wire.session.has_ticket:
            one.kept, tickets = True, self.tickets[one.host]
            tickets += [one.wire.session] * (1 if one.wire.session_reused else 2)
            del tickets[TICKETS_MAX:]


# Of curl/curl.h and curl/multi.h.
FAIL_ON_ERROR, URL, HTTP_HEADER, NO_PROXY, WRITE_FUNCTION = 45, 10002, 10023, 10177, 20011
VERIFY_PEER, VERIFY_HOST, RESOLVE, WAIT_FOR_PIPE = 64, 81, 10203, 237
HOST_CONNECTIONS_MAX = 7


class Message(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("easy", ctypes.c_void_p), ("result", ctypes.c_int)]


Writer = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p)


class Curl:
    """Fetches by curl's library."""

    def __init__(self):
        self.curl = curl = ctypes.CDLL("libcurl.so.4")
        curl.curl_global_init(ctypes.c_long(3))
        for name in ["curl_easy_init", "curl_multi_init", "curl_slist_append"]:
            getattr(curl, name).restype = ctypes.c_void_p
        curl.curl_easy_strerror.restype = ctypes.c_char_p
        curl.curl_multi_info_read.restype = ctypes.POINTER(Message)
        self.multi = ctypes.c_void_p(curl.curl_multi_init())
        curl.curl_multi_setopt(self.multi, HOST_CONNECTIONS_MAX, ctypes.c_long(page["connections"]))
        # What curl calls back has to be kept.
        self.fetches, self.count = {}, ctypes.c_int()

    def strings(self, text):
        return ctypes.c_void_p(self.curl.curl_slist_append(None, text.encode()))

    def fetch(self, index):
        curl, host = self.curl, host_of(index)
        easy, file = ctypes.c_void_p(curl.curl_easy_init()), save(index)
        writer = Writer(lambda octets, size, count, _: file.write(ctypes.string_at(octets, size * count)))
        self.fetches[easy.value] = (index, writer)
        bare = f"GET /{index} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: */*\r\nX-Fill: \r\n\r\n"
        for option, value in [
            (URL, f"{scheme}://{host}:{port}/{index}".encode()),
            (RESOLVE, self.strings(f"{host}:{port}:{address(host)}")),
            (HTTP_HEADER, self.strings(f"X-Fill: {fill(bare)}")),
            (NO_PROXY, b"*"),
            (FAIL_ON_ERROR, ctypes.c_long(1)),
            # The certificate is made for the run.
            (VERIFY_PEER, ctypes.c_long(0)),
            (VERIFY_HOST, ctypes.c_long(0)),
            # Servers that have HTTP/2 offer it: what else is asked for goes by the connection that is there.
            (WAIT_FOR_PIPE, ctypes.c_long(1)),
            (WRITE_FUNCTION, writer),
        ]:
            curl.curl_easy_setopt(easy, option, value)
        curl.curl_multi_add_handle(self.multi, easy)
        curl.curl_multi_perform(self.multi, ctypes.byref(self.count))

    def come(self):
        """The objects that have come."""
        curl, count = self.curl, ctypes.byref(self.count)
        curl.curl_multi_poll(self.multi, None, 0, 1000, count)
        curl.curl_multi_perform(self.multi, count)
        while message := curl.curl_multi_info_read(self.multi, count):
            easy, result = ctypes.c_void_p(message.contents.easy), message.contents.result
            index, _ = self.fetches[easy.value]
            if result != 0:
                sys.exit(f"object {index}: {curl.curl_easy_strerror(result).decode()}")
            curl.curl_multi_remove_handle(self.multi, easy)
            yield index


tls = ssl.create_default_context()
tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
client = Curl() if page["http2"] else Browser()
# A browser's first page isn't the first for which its library of TLS has keys made.
try:
    tls.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="page").do_handshake()
except ssl.SSLWantReadError:
    pass
time.sleep(max(0, page["start"] - time.monotonic_ns()) / 1e9)
print("begun", time.monotonic_ns(), flush=True)
client.fetch(0)
done = 0
while done < len(page["names"]):
    for index in client.come():
        print(index, time.monotonic_ns(), flush=True)
        done += 1
        # Nothing is known before what names it has come.
        for other in range(*page["names"][index]):
            client.fetch(other)
