"""What clients see of servers that fail: a JSON object of outcomes by name.

Python and curl; wget where it is installed; with the argument `browser` Chromium, too.
"""

import errno
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

FOUR, SIX = "10.2.0.2", "fd00:2::2"
PATIENCE_S = 5
NAMED = "http://some.example:7000/"


def told(action):
    """The result of an action, or the name of its error."""
    try:
        return action()
    except TimeoutError:
        return "timeout"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


def connection(address, port):
    return socket.create_connection((address, port), timeout=PATIENCE_S)


def python(address, port, then=lambda it: "connected"):
    def action():
        with connection(address, port) as open_one:
            return then(open_one)

    return told(action)


def everything(one):
    octets = 0
    while piece := one.recv(65536):
        octets += len(piece)
    return octets


def after_the_end(one):
    """Hears the other side's end, and only then says something."""
    octets = everything(one)
    one.sendall(b"w" * 1500)
    return octets


def ends_first(one):
    """Ends its own direction, and hears the answer."""
    one.sendall(b"v" * 1200)
    one.shutdown(socket.SHUT_WR)
    return one.recv(100).decode()


def gives_up():
    """Is gone before anybody answers, and the next one finds all as it was."""
    one = socket.socket()
    one.settimeout(0.05)
    first = told(lambda: one.connect((FOUR, 7020)))
    one.close()
    return [first, python(FOUR, 7000, lambda it: "connected")]


def curl(url, *more):
    command = ["curl", "-sS", "-o", "/dev/null", "--connect-timeout", str(PATIENCE_S), "-m", "9"]
    command += ["-w", "%{http_code} %{size_download} %{remote_ip}", "-H", "Expect:", *more, url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [done.returncode, done.stdout]


def knowing(command, *addresses):
    """A command to which `some.example` has these addresses."""
    hosts = tempfile.NamedTemporaryFile("w", suffix=".hosts")
    hosts.write("".join(f"{it} some.example\n" for it in addresses))
    hosts.flush()
    mount = 'mount --bind "$0" /etc/hosts && exec "$@"'
    return hosts, ["unshare", "--mount", "sh", "-c", mount, hosts.name, *command]


def wget(url, *addresses):
    limits = [f"--connect-timeout={PATIENCE_S}", "--read-timeout=3", "-t", "1"]
    command = ["wget", "-q", "-O", "-", *limits, url]
    hosts, command = knowing(command, *addresses)
    with hosts:
        done = subprocess.run(command, capture_output=True, check=False)
    return [done.returncode, len(done.stdout)]


def chromium(url, *addresses):
    """The name of its error, or octets of what it shows."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        command += [f"--user-data-dir={folder}", f"--timeout={PATIENCE_S * 1000}", url]
        hosts, command = knowing(command, *addresses)
        try:
            with hosts:
                told = subprocess.run(command, capture_output=True, timeout=90, check=False)
        except subprocess.TimeoutExpired:
            return "timeout"
    error = re.search(rb"net::(ERR_[A-Z_]+)", told.stderr + told.stdout)
    return error[1].decode() if error else told.stdout.count(b"x")


def named(port, *addresses):
    listed = ",".join(f"[{it}]" if ":" in it else it for it in addresses)
    return curl(f"http://some.example:{port}/", "--resolve", f"some.example:{port}:{listed}")


def web(port):
    return curl(f"http://{FOUR}:{port}/")


def both(name, port, then=everything):
    """A case in both families by Python, and by curl."""
    return {
        f"{name}, Python": lambda: python(FOUR, port, then),
        f"{name}, Python, IPv6": lambda: python(SIX, port, then),
        f"{name}, curl": lambda: web(port),
        **others(name, f"http://{FOUR}:{port}/"),
    }


def others(name, url, *addresses):
    """The same by programs that may not be there."""
    cases = {}
    if shutil.which("wget"):
        cases[f"{name}, wget"] = lambda: wget(url, *addresses)
    if "browser" in sys.argv:
        cases[f"{name}, Chromium"] = lambda: chromium(url, *addresses)
    return cases


CASES = {
    **both("nothing wrong", 7000, lambda it: "connected"),
    **both("refused", 7010),
    **both("reset after SYN", 7001),
    **both("ICMP: net", 7011),
    **both("ICMP: host", 7012),
    **both("ICMP: port", 7013),
    **both("ICMP: forbidden", 7014),
    **both("filtered", 7020),
    "first address dead, second good, curl": lambda: named(7000, "10.2.0.3", FOUR),
    "dead IPv6 and good IPv4, curl": lambda: named(7000, "fd00:2::3", FOUR),
    **others("first address dead, second good", NAMED, "10.2.0.3", FOUR),
    **others("dead IPv6 and good IPv4", NAMED, "fd00:2::3", FOUR),
    "no such name, curl": lambda: curl("http://nobody.invalid/"),
    **others("no such name", "http://nobody.invalid/"),
    **both("accepts and closes", 7003),
    "closes after the question, curl": lambda: web(7002),
    **others("closes after the question", f"http://{FOUR}:7002/"),
    "half-close of the client": lambda: python(FOUR, 7004, ends_first),
    "half-close of the server": lambda: python(FOUR, 7005, after_the_end),
    "reset in the middle, curl": lambda: web(7006),
    **others("reset in the middle", f"http://{FOUR}:7006/"),
    "slower than the link, curl": lambda: web(7007),
    **others("slower than the link", f"http://{FOUR}:7007/"),
    "client gone before the answer": gives_up,
}

# Browsers are many processes each; all else is as good as idle.
with ThreadPoolExecutor(4 if "browser" in sys.argv else len(CASES)) as pool:
    running = {name: pool.submit(case) for name, case in CASES.items()}
    outcomes = {name: case.result() for name, case in running.items()}
outcomes["heard after the server's end"] = python(FOUR, 7008, lambda it: it.recv(1000).decode())
print(json.dumps(outcomes))
