"""Downloads, uploads and exchanges until a file is there; counts what was complete, failed or wrong."""
import json
import os
import random
import socket
import sys
import threading
import time

STOP, TOLD = sys.argv[1:3]
counts = {"complete": 0, "failed": 0, "wrong": [], "last": 0}
lock = threading.Lock()


def pattern(count, seed):
    block = bytes((at * 31 + at // 251 + seed) & 255 for at in range(64256))
    return (block * (count // len(block) + 1))[:count]


def transfer(kind, count, seed):
    """What came, and what should have."""
    own = pattern(count, seed)
    with socket.create_connection(("10.2.0.2", 8000), timeout=8) as it:
        it.sendall(f"{kind} {count} {seed}\n".encode())
        if kind != "get":
            it.sendall(own)
            it.shutdown(socket.SHUT_WR)
        came = b""
        while piece := it.recv(65536):
            came += piece
    return came, {"get": own, "put": b"all of it", "swap": own[::-1]}[kind]


def work(seed):
    draw = random.Random(seed)
    while not os.path.exists(STOP):
        kind, count = draw.choice(["get", "put", "swap"]), draw.choice([100, 8_000, 60_000, 200_000])
        began = time.monotonic()
        try:
            came, due = transfer(kind, count, draw.randrange(256))
        except OSError:
            with lock:
                counts["failed"] += 1
            time.sleep(0.05)
            continue
        with lock:
            if came == due:
                counts["complete"] += 1
                counts["last"] = began
            else:
                counts["wrong"].append(f"{kind} of {count} ended after {len(came)}")


workers = [threading.Thread(target=work, args=(seed,)) for seed in range(12)]
for worker in workers:
    worker.start()
while not os.path.exists(STOP):
    time.sleep(0.05)
# What has been complete since everything was there again.
stopped = time.monotonic()
for worker in workers:
    worker.join()
counts["last"] = int(counts["last"] > stopped - 5)
with open(TOLD, "w") as told:
    json.dump(counts, told)
