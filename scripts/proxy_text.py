#!/usr/bin/env python3
"""How many octets documents take on the line through TCP proxies.

    sudo scripts/proxy_text.py target/release/strait FILE …

Each file is fetched by curl over HTTP through two gateways with TCP proxies and a serial line at
9600 baud between them (`proxy_page.py` builds that). Told is what part of its octets the far
gateway's line carried meanwhile: what is compressed, headers, acknowledgements and all.
"""

import json
import os
import shutil
import sys
import tempfile

from proxy_page import CLIENT, FAR, NAMES, build, sh


def carried(strait, folder):
    status = json.loads(sh(f"ip netns exec {FAR} {strait} status --json {folder}/2.sock"))
    return next(it["octets_out"] for it in status["ports"] if it["name"] == "line")


def main():
    strait, files = os.path.abspath(sys.argv[1]), sys.argv[2:]
    folder, running = tempfile.mkdtemp(), []
    try:
        for at, path in enumerate(files):
            shutil.copy(path, f"{folder}/{at}.html")
        running.extend(build(folder, strait))
        shares = []
        for at, path in enumerate(files):
            before = carried(strait, folder)
            got = sh(f"ip netns exec {CLIENT} curl -sS http://10.2.0.2/{at}.html | wc -c")
            octets = os.path.getsize(path)
            if int(got) != octets:
                sys.exit(f"{path}: {got} of {octets} came")
            shares.append((carried(strait, folder) - before) / octets)
            print(f"{octets:7} {shares[-1]:.3f} {os.path.basename(path)}", flush=True)
        sizes = [os.path.getsize(path) for path in files]
        whole = sum(size * share for size, share in zip(sizes, shares)) / sum(sizes)
        print(f"all together {whole:.3f}, median {sorted(shares)[len(shares) // 2]:.3f}")
    finally:
        for one in running:
            one.kill()
        for name in NAMES:
            sh(f"ip netns del {name}", check=False)
        shutil.rmtree(folder, ignore_errors=True)


main()
