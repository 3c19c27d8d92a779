#!/usr/bin/env python3
"""A page in Chromium through two gateways that `strait lab` runs, in place of the lab's own browser.

    sudo scripts/dns_page.py target/release/strait scenarios/dns/web-240k.toml [--variant http2]

Chromium, headless, asks for the objects that the scenario names, each when the one that names it has come. Its names,
connections, sessions of TLS and versions of HTTP are its own matter. Prints how many objects came, and in what time.
Needs root and `chromium`; a page of 75 s takes four minutes.
"""

import http.server
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading

# The lab's browser begins so, and is called as `python3 -c BROWSER PAGE`.
BROWSER = "Fetches a page as a browser does"
PAGE = """<!doctype html><title>page</title><script>
const page = PAGE, told = 'http://127.0.0.1:PORT/';
const url = (n) => `${page.tls ? 'https' : 'http'}://${page.hosts[n % page.hosts.length]}:${page.port}/${n}`;
const say = (what, at) => fetch(told, {method: 'POST', mode: 'no-cors', body: `${what} ${performance.timeOrigin + at}`});
const get = (n) => fetch(url(n), {mode: 'no-cors'}).catch((error) => say('failed', performance.now()));
new PerformanceObserver((list) => {
  for (const it of list.getEntries().filter((it) => !it.name.startsWith(told))) {
    const index = Number(it.name.split('/').pop()), [from, to] = page.names[index];
    say(index, it.responseEnd);
    for (let n = from; n < to; n++) get(n);
  }
}).observe({type: 'resource'});
performance.setResourceTimingBufferSize(1000);
say('begun', performance.now());
get(0);
</script>"""
CHROMIUM = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--no-first-run", "--ignore-certificate-errors", "--disable-component-update", "--disable-sync",
            # What it asks of its maker's hosts would cross, too.
            "--host-resolver-rules=MAP *.google.com ~NOTFOUND, MAP *.googleapis.com ~NOTFOUND"]


def browse(page):
    """Has Chromium fetch a page, and leaves when it began and when each object had come."""
    folder, over, times = tempfile.mkdtemp(), threading.Event(), {}

    class Told(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            what, at_ms = self.rfile.read(int(self.headers["content-length"])).decode().split()
            times[what] = float(at_ms) / 1000
            self.send_response(204)
            self.end_headers()
            if len(times) > len(page["names"]) or what == "failed":
                over.set()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Told)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    path = os.path.join(folder, "page.html")
    with open(path, "w", encoding="ascii") as out:
        out.write(PAGE.replace("PAGE", json.dumps(page)).replace("PORT", str(server.server_port)))
    resolv = os.path.join(folder, "resolv.conf")
    with open(resolv, "w", encoding="ascii") as out:
        out.write(f"nameserver {page['resolver']}\n")
    browser = [*CHROMIUM, f"--user-data-dir={folder}/browser", "--remote-debugging-port=0", f"file://{path}"]
    mounted = f"mount --bind {resolv} /etc/resolv.conf && exec {shlex.join(browser)}"
    running = subprocess.Popen(["unshare", "-m", "sh", "-c", mounted], stdout=subprocess.DEVNULL,
                               stderr=open(os.path.join(folder, "log"), "wb"))
    over.wait(280)
    running.terminate()
    running.wait()
    with open(os.environ["PAGE_TIMES"], "w", encoding="ascii") as out:
        json.dump({"begun": times.pop("begun", 0), "failed": times.pop("failed", None), "objects": times}, out)
    shutil.rmtree(folder, ignore_errors=True)


def main():
    strait, scenario, *more = sys.argv[1:]
    folder = tempfile.mkdtemp()
    shim = os.path.join(folder, "python3")
    with open(shim, "w", encoding="ascii") as out:
        out.write(f"""#!/bin/sh
case "$2" in *'{BROWSER}'*) exec {sys.executable} {os.path.abspath(__file__)} --browse "$3";; esac
exec {sys.executable} "$@"
""")
    os.chmod(shim, 0o755)
    path = f"{folder}:{os.environ['PATH']}"
    times = os.path.join(folder, "times")
    command = [strait, "lab", scenario, "--only", "warm,page", "--brief", *more]
    environment = {**os.environ, "PATH": path, "PAGE_TIMES": times}
    ran = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if not os.path.exists(times):
        sys.exit(ran.stdout + ran.stderr)
    with open(times, encoding="ascii") as told:
        told = json.load(told)
    shutil.rmtree(folder)
    objects = told["objects"].values()
    took = max(objects, default=0) - told["begun"]
    print(f"Chromium: {len(objects)} objects in {took:.1f} s" + ("" if told["failed"] is None else ", and a failure"))


if __name__ == "__main__":
    if sys.argv[1] == "--browse":
        browse(json.loads(sys.argv[2]))
    else:
        main()
