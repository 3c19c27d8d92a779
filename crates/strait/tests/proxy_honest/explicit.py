"""What programs hear that ask for their connections by SOCKS5 and HTTP CONNECT: a JSON object."""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

PROXY = sys.argv[1]
WAYS = {
    "SOCKS": ["--socks5-hostname", PROXY],
    "CONNECT": ["-x", f"http://{PROXY}", "--proxytunnel"],
}
PLACES = {
    "name": "http://www.far:7000/",
    "name with IPv6 alone": "http://six.far:7000/",
    "IPv4": "http://10.2.0.2:7000/",
    "IPv6": "http://[fd00:2::2]:7000/",
    "refused": "http://www.far:7010/",
    "net unreachable": "http://10.2.0.2:7011/",
    "host unreachable": "http://10.2.0.2:7012/",
    "filtered": "http://10.2.0.2:7020/",
    "no such name": "http://nobody.far:7000/",
    "the gateway itself": "http://10.2.0.1:7000/",
    "nobody's": "http://10.3.0.2:7000/",
    "cut off": "http://10.2.0.2:7006/",
}


def curl(way, url):
    """Octets that came, or the exit status and what the proxy said."""
    command = ["curl", "-sS", "-o", "/dev/null", "-m", "4", "-w", "%{size_download}", *way, url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return int(done.stdout)
    said = re.search(r"(?:\(|response |error: )(\d+)\)?\s*$", done.stderr)
    return [done.returncode, int(said[1]) if said else None]


cases = {(way, place): (WAYS[way], url) for way in WAYS for place, url in PLACES.items()}
cases["no CONNECT", "IPv4"] = (["-x", f"http://{PROXY}", "-f"], PLACES["IPv4"])
with ThreadPoolExecutor(len(cases)) as pool:
    told = {" ".join(case): pool.submit(curl, *ask) for case, ask in cases.items()}
    print(json.dumps({case: outcome.result() for case, outcome in told.items()}))
