"""Postfix and Exim with configurations and spools of their own, from wherever their files are."""

import os
import sys
import tempfile

# Names that the servers insist on, with numbers that nobody else has.
USERS = {"postfix": 64_101, "postdrop": 64_102, "Debian-exim": 64_103}
# Postfix's services, and how many processes of some it insists on; 0 is any number.
SERVICES = [("pickup", "unix", "n", "pickup"), ("cleanup", "unix", "n", "cleanup"), ("qmgr", "unix", "n", "qmgr"),
            ("tlsmgr", "unix", "-", "tlsmgr"), ("rewrite", "unix", "-", "trivial-rewrite"),
            ("bounce", "unix", "-", "bounce"), ("defer", "unix", "-", "bounce"), ("trace", "unix", "-", "bounce"),
            ("proxymap", "unix", "-", "proxymap"), ("smtp", "unix", "-", "smtp"), ("relay", "unix", "-", "smtp"),
            ("error", "unix", "-", "error"), ("retry", "unix", "-", "error"), ("discard", "unix", "-", "discard"),
            ("virtual", "unix", "-", "virtual"), ("anvil", "unix", "-", "anvil"), ("scache", "unix", "-", "scache"),
            ("postlog", "unix-dgram", "n", "postlogd")]
LIMITS = {"pickup": 1, "qmgr": 1, "tlsmgr": 1, "anvil": 1, "scache": 1, "postlogd": 1, "cleanup": 0, "bounce": 0}
QUEUES = ("active", "bounce", "corrupt", "defer", "deferred", "flush", "hold", "incoming", "private", "saved",
          "trace", "public", "maildrop", "pid")


def with_users(name):
    """Runs the whole script again where those users are there, and nobody else sees them; a folder for it."""
    if folder := os.environ.get("MAIL_SERVERS"):
        return folder
    folder = tempfile.mkdtemp(prefix=name)
    os.chmod(folder, 0o755)
    lines = {"passwd": lambda name, number: f"{name}:x:{number}:{number}::/nonexistent:/usr/sbin/nologin\n",
             "group": lambda name, number: f"{name}:x:{number}:\n"}
    mounts = []
    for file, line in lines.items():
        with open(f"/etc/{file}", encoding="utf-8") as own:
            text = "".join(it for it in own if it.split(":")[0] not in USERS)
        path = os.path.join(folder, file)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text + "".join(line(*it) for it in USERS.items()))
        mounts.append(f"mount --bind {path} /etc/{file}")
    again = " && ".join(mounts + ['exec python3 "$@"'])
    os.execvpe("unshare", ["unshare", "--mount", "--propagation", "private", "sh", "-c", again, "sh", *sys.argv],
               {**os.environ, "MAIL_SERVERS": folder})
    return None


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="ascii") as out:
        out.write(text)
    return path


def make(folder, name, owner=(0, 0)):
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    os.chown(path, *owner)
    return path


def postfix(root, folder, owner, drop, site):
    """The command of a Postfix whose files are below `root`. `owner` is a user and its group, `drop` a group;
    `site` has the address and networks where it hears, the domain whose mail goes into Maildirs (in
    `boxes`), and where all other mail goes."""
    config, spool = make(folder, "postfix"), make(folder, "spool")
    data, boxes = make(folder, "data", owner), make(folder, "boxes", owner)
    write(config, "main.cf", f"""compatibility_level = 3.6
queue_directory = {spool}
data_directory = {data}
command_directory = {root}/usr/sbin
daemon_directory = {root}/usr/lib/postfix/sbin
shlib_directory = {root}/usr/lib/postfix
meta_directory = {config}
mail_owner = postfix
setgid_group = postdrop
import_environment = LD_LIBRARY_PATH={root}/usr/lib/postfix MAIL_CONFIG
maillog_file = {folder}/maillog
maillog_file_prefixes = {folder}
alias_maps =
inet_protocols = ipv4
inet_interfaces = {site["address"]}
mynetworks = {site["networks"]}
myhostname = mx.{site["domain"]}
mydestination =
smtp_host_lookup = native
smtpd_peername_lookup = no
smtpd_relay_restrictions = permit_mynetworks, reject
relayhost = {site["relay"]}
virtual_transport = virtual
virtual_mailbox_domains = {site["domain"]}
virtual_mailbox_base = {boxes}
virtual_mailbox_maps = static:ops/
virtual_uid_maps = static:{owner[0]}
virtual_gid_maps = static:{owner[1]}
virtual_minimum_uid = 1
""")
    hears = [(f"{site['address']}:smtp", "inet", "n", "smtpd")]
    lines = [f"{name} {kind} {private} {'n' if command == 'virtual' else '-'} n "
             f"{'300' if name == 'qmgr' else '-'} {LIMITS.get(command, '-')} {command}"
             for name, kind, private, command in hears + SERVICES]
    write(config, "master.cf", "\n".join(lines) + "\n")
    for queue in QUEUES:
        make(spool, queue, (0, 0) if queue == "pid" else owner)
    for queue, mode in (("public", 0o710), ("maildrop", 0o730)):
        os.chown(os.path.join(spool, queue), owner[0], drop)
        os.chmod(os.path.join(spool, queue), mode)
    return ["env", f"LD_LIBRARY_PATH={root}/usr/lib/postfix", f"MAIL_CONFIG={config}",
            f"{root}/usr/lib/postfix/sbin/master", "-c", config, "-d"]


def exim(program, folder, owner, site):
    """The command of an Exim that hears at a port; its own domain's mail goes into a Maildir, `boxes/ops`,
    all other to the relay."""
    spool, boxes = make(folder, "spool", owner), make(folder, "boxes", owner)
    relay, port = site["relay"]
    config = write(folder, "exim.conf", f"""primary_hostname = mx.{site["domain"]}
exim_path = {program}
deliver_drop_privilege
keep_environment =
spool_directory = {spool}
log_file_path = {spool}/%slog
local_interfaces = <; {site["address"]}
host_lookup =
rfc1413_query_timeout = 0s
message_size_limit = 200M
acl_smtp_rcpt = accept
tls_advertise_hosts =
begin routers
here:
 driver = accept
 domains = {site["domain"]}
 transport = maildir
there:
 driver = manualroute
 route_list = * {relay}
 self = send
 transport = relay
begin transports
maildir:
 driver = appendfile
 maildir_format
 create_directory
 directory = {boxes}/ops
 user = Debian-exim
relay:
 driver = smtp
 port = {port}
begin retry
* * F,1h,5s
""")
    return [program, "-C", config, "-bdf", "-oX", "25"]
