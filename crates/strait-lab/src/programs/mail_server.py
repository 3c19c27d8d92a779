"""A server of mailboxes, by LMTP or SMTP, without CHUNKING.

Each message lies in a file of its own in its mailbox's folder `new` before it is acknowledged.
Arguments: address and port, `lmtp` or `smtp`, the folder of the mailboxes, and for each mailbox its name and the
nanoseconds that a message takes to be stored there.
"""

import os
import socketserver
import sys
import time

address, port, protocol, folder, *boxes = sys.argv[1:]
PAUSES = dict(zip(boxes[::2], map(int, boxes[1::2])))
LMTP = protocol == "lmtp"


class Session(socketserver.StreamRequestHandler):
    """One connection, with a thread of its own."""

    def say(self, *lines):
        self.wfile.write("".join(line + "\r\n" for line in lines).encode())

    def lines(self):
        """Lines of a message as a file has them, up to the single dot."""
        for line in iter(self.rfile.readline, b".\r\n"):
            if not line:
                raise ConnectionError
            yield line.removeprefix(b".").replace(b"\r\n", b"\n")

    def store(self, recipients):
        text = b"".join(self.lines())
        time.sleep(max(PAUSES[name] for name in recipients) / 1e9)
        for name in recipients:
            place = os.path.join(folder, name, "new")
            os.makedirs(place, exist_ok=True)
            file = str(time.monotonic_ns())
            with open(os.path.join(folder, file), "wb") as out:
                out.write(text)
            os.rename(os.path.join(folder, file), os.path.join(place, file))
        self.say(*["250 2.0.0 stored"] * (len(recipients) if LMTP else 1))

    def handle(self):
        recipients = []
        self.say("220 mailboxes ready")
        for line in iter(self.rfile.readline, b""):
            said = line.decode(errors="replace").strip().lower()
            word = said.replace(":", " ").split(" ")[0]
            name = said.partition("<")[2].partition("@")[0]
            if word == ("lhlo" if LMTP else "ehlo"):
                self.say("250-mailboxes", "250-PIPELINING", "250 8BITMIME")
            elif word in ("mail", "rset"):
                recipients = []
                self.say("250 2.0.0 ok")
            elif word == "rcpt" and name in PAUSES:
                recipients.append(name)
                self.say("250 2.1.5 ok")
            elif word == "rcpt":
                self.say("550 5.1.1 no such mailbox")
            elif word == "data" and recipients:
                self.say("354 go on")
                self.store(recipients)
                recipients = []
            elif word == "noop":
                self.say("250 2.0.0 ok")
            elif word == "quit":
                self.say("221 2.0.0 bye")
                return
            else:
                self.say("503 5.5.1 not now")


os.makedirs(folder, exist_ok=True)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer.daemon_threads = True
with socketserver.ThreadingTCPServer((address, int(port)), Session) as server:
    server.serve_forever()
