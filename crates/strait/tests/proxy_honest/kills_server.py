"""Sends and takes octets that both sides can reckon. Prints what it took for complete and wasn't."""
import socket
import threading


def pattern(count, seed):
    block = bytes((at * 31 + at // 251 + seed) & 255 for at in range(64256))
    return (block * (count // len(block) + 1))[:count]


def serve(it):
    try:
        it.settimeout(20)
        line = b""
        while not line.endswith(b"\n"):
            octet = it.recv(1)
            if not octet:
                return
            line += octet
        kind, count, seed = line.split()
        count, seed = int(count), int(seed)
        if kind == b"get":
            # Its end is all that says how long it is.
            it.sendall(pattern(count, seed))
            it.shutdown(socket.SHUT_WR)
            it.recv(1)
            return
        came = b""
        while piece := it.recv(65536):
            came += piece
        if came != pattern(count, seed):
            print(f"{kind} of {count} ended after {len(came)}", flush=True)
        elif kind == b"swap":
            it.sendall(came[::-1])
        else:
            it.sendall(b"all of it")
    except OSError:
        pass
    finally:
        it.close()


listener = socket.create_server(("10.2.0.2", 8000), backlog=64)
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
