"""Fetches a page by curl's library as a browser does: the root first, then what that names, and so on, over a few
connections to each of its hosts, each used again for the next object.

Prints when it began and when each object had come, in nanoseconds of the monotonic clock. Its argument is JSON: where
objects lie by `hosts`, in turn, each a name; what each `names`; the `address` and `port` of them all, `connections` at
once to each, the `folder` for objects, the nanosecond to `start`, whether they have `tls`, and by that `http2`, and the
`resolver` that is asked for names, or none.
"""

import ctypes
import json
import os
import socket
import struct
import sys
import time

# Of curl/curl.h and curl/multi.h.
FAIL_ON_ERROR, URL, HTTP_HEADER, NO_PROXY, WRITE_FUNCTION = 45, 10002, 10023, 10177, 20011
VERIFY_PEER, VERIFY_HOST, RESOLVE, WAIT_FOR_PIPE = 64, 81, 10203, 237
HOST_CONNECTIONS_MAX = 7
# Octets of each request, as many as browsers send.
REQUEST_OCTETS = 300


class Message(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("easy", ctypes.c_void_p), ("result", ctypes.c_int)]


curl = ctypes.CDLL("libcurl.so.4")
curl.curl_global_init(ctypes.c_long(3))
for name in ["curl_easy_init", "curl_multi_init", "curl_slist_append"]:
    getattr(curl, name).restype = ctypes.c_void_p
curl.curl_easy_strerror.restype = ctypes.c_char_p
curl.curl_multi_info_read.restype = ctypes.POINTER(Message)
Writer = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p)

page = json.loads(sys.argv[1])
hosts, port, scheme = page["hosts"], page["port"], "https" if page["tls"] else "http"
known = {} if page["resolver"] else {host: page["address"] for host in hosts}
multi = ctypes.c_void_p(curl.curl_multi_init())
curl.curl_multi_setopt(multi, HOST_CONNECTIONS_MAX, ctypes.c_long(page["connections"]))
# What curl calls back has to be kept.
fetches = {}


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


def strings(text):
    return ctypes.c_void_p(curl.curl_slist_append(None, text.encode()))


def fetch(index):
    host = hosts[index % len(hosts)]
    easy = ctypes.c_void_p(curl.curl_easy_init())
    file = open(f"{page['folder']}/{index}", "wb", buffering=0)
    writer = Writer(lambda octets, size, count, _: file.write(ctypes.string_at(octets, size * count)))
    fetches[easy.value] = (index, writer)
    bare = f"GET /{index} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: */*\r\nX-Fill: \r\n\r\n"
    curl.curl_easy_setopt(easy, URL, f"{scheme}://{host}:{port}/{index}".encode())
    curl.curl_easy_setopt(easy, RESOLVE, strings(f"{host}:{port}:{address(host)}"))
    curl.curl_easy_setopt(easy, HTTP_HEADER, strings(f"X-Fill: {'x' * (REQUEST_OCTETS - len(bare))}"))
    curl.curl_easy_setopt(easy, NO_PROXY, b"*")
    curl.curl_easy_setopt(easy, FAIL_ON_ERROR, ctypes.c_long(1))
    # The certificate is made for the run.
    curl.curl_easy_setopt(easy, VERIFY_PEER, ctypes.c_long(0))
    curl.curl_easy_setopt(easy, VERIFY_HOST, ctypes.c_long(0))
    # Servers that have HTTP/2 offer it: what else is asked for goes by the connection that is there.
    curl.curl_easy_setopt(easy, WAIT_FOR_PIPE, ctypes.c_long(page["http2"]))
    curl.curl_easy_setopt(easy, WRITE_FUNCTION, writer)
    curl.curl_multi_add_handle(multi, easy)


time.sleep(max(0, page["start"] - time.monotonic_ns()) / 1e9)
print("begun", time.monotonic_ns(), flush=True)
fetch(0)
done, count = 0, ctypes.c_int()
while done < len(page["names"]):
    curl.curl_multi_perform(multi, ctypes.byref(count))
    while message := curl.curl_multi_info_read(multi, ctypes.byref(count)):
        easy, result = ctypes.c_void_p(message.contents.easy), message.contents.result
        index, _ = fetches[easy.value]
        if result != 0:
            sys.exit(f"object {index}: {curl.curl_easy_strerror(result).decode()}")
        print(index, time.monotonic_ns(), flush=True)
        curl.curl_multi_remove_handle(multi, easy)
        done += 1
        # Nothing is known before what names it has come.
        for other in range(*page["names"][index]):
            fetch(other)
        curl.curl_multi_perform(multi, ctypes.byref(count))
    curl.curl_multi_poll(multi, None, 0, 1000, ctypes.byref(count))
