"""Fetches a page by curl's library as a browser does: the root first, then the rest over a few connections,
each used again for the next object.

Prints when it asked for the first connection and when each object had come, in nanoseconds of the monotonic clock.
Arguments: HOST:PORT, objects, connections at once, the folder for the objects, the monotonic nanosecond to begin;
and where the host's name is to be looked up first, whom to ask, and the name.
"""

import ctypes
import subprocess
import sys
import time

# Of curl/curl.h and curl/multi.h.
FAIL_ON_ERROR, URL, HTTP_HEADER, NO_PROXY, WRITE_FUNCTION = 45, 10002, 10023, 10177, 20011
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

server, objects, connections, folder, start_ns = sys.argv[1], *map(int, sys.argv[2:4]), sys.argv[4], int(sys.argv[5])
multi = ctypes.c_void_p(curl.curl_multi_init())
curl.curl_multi_setopt(multi, HOST_CONNECTIONS_MAX, ctypes.c_long(connections))
# What curl calls back has to be kept.
fetches = {}


def fetch(index):
    easy = ctypes.c_void_p(curl.curl_easy_init())
    file = open(f"{folder}/{index}", "wb", buffering=0)
    writer = Writer(lambda octets, size, count, _: file.write(ctypes.string_at(octets, size * count)))
    fetches[easy.value] = (index, writer)
    bare = f"GET /{index} HTTP/1.1\r\nHost: {server}\r\nAccept: */*\r\nX-Fill: \r\n\r\n"
    fill = f"X-Fill: {'x' * (REQUEST_OCTETS - len(bare))}"
    header = ctypes.c_void_p(curl.curl_slist_append(None, fill.encode()))
    curl.curl_easy_setopt(easy, URL, f"http://{server}/{index}".encode())
    curl.curl_easy_setopt(easy, HTTP_HEADER, header)
    curl.curl_easy_setopt(easy, NO_PROXY, b"*")
    curl.curl_easy_setopt(easy, FAIL_ON_ERROR, ctypes.c_long(1))
    curl.curl_easy_setopt(easy, WRITE_FUNCTION, writer)
    curl.curl_multi_add_handle(multi, easy)


time.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
print("begun", time.monotonic_ns(), flush=True)
if len(sys.argv) > 6:
    resolver, name = sys.argv[6:]
    dig = ["dig", "+short", "+noedns", "+tries=1", "+time=5", f"@{resolver}", name, "A"]
    told = ""
    while not told[:1].isdigit():
        told = subprocess.run(dig, capture_output=True, text=True).stdout
    server = f"{told.split()[0]}:{server.rsplit(':', 1)[1]}"
fetch(0)
done, count = 0, ctypes.c_int()
while done < objects:
    curl.curl_multi_perform(multi, ctypes.byref(count))
    while message := curl.curl_multi_info_read(multi, ctypes.byref(count)):
        easy, result = ctypes.c_void_p(message.contents.easy), message.contents.result
        index, _ = fetches[easy.value]
        if result != 0:
            sys.exit(f"object {index}: {curl.curl_easy_strerror(result).decode()}")
        print(index, time.monotonic_ns(), flush=True)
        curl.curl_multi_remove_handle(multi, easy)
        done += 1
        # Nothing but the root is known before it has come.
        if index == 0:
            for other in range(1, objects):
                fetch(other)
            curl.curl_multi_perform(multi, ctypes.byref(count))
    curl.curl_multi_poll(multi, None, 0, 1000, ctypes.byref(count))
