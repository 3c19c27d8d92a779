"""Brings a message to a gateway's switch by smtplib.

Prints when it began, when it was connected, and when the message was taken, in nanoseconds of the monotonic clock.
Arguments: address and port of the switch, sender, recipient, MT-PRIORITY or `-`, the file with the message, whether it
is `text` or `binary`, the monotonic nanosecond to begin.
"""

import smtplib
import sys
import time

address, port, sender, recipient, priority, file, content, start_ns = sys.argv[1:]
text = open(file, "rb").read()
options = [] if priority == "-" else [f"MT-PRIORITY={priority}"]
time.sleep(max(0, int(start_ns) - time.monotonic_ns()) / 1e9)
print("begun", time.monotonic_ns(), flush=True)
with smtplib.SMTP(address, int(port), local_hostname="mua.example", timeout=30) as switch:
    print("connected", time.monotonic_ns(), flush=True)
    if content == "binary":
        switch.ehlo()
        replies = [switch.mail(sender, options + ["BODY=BINARYMIME"]), switch.rcpt(recipient)]
        switch.send(b"BDAT %d LAST\r\n" % len(text) + text)
        for code, said in replies + [switch.getreply()]:
            assert code == 250, said
    else:
        switch.sendmail(sender, [recipient], text, options)
    print("taken", time.monotonic_ns(), flush=True)
