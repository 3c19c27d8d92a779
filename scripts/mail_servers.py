"""Postfix, Exim, OpenSMTPD, Apache James and Dovecot with configurations and spools of their own, from wherever their files are."""

import atexit
import os
import shutil
import sys
import tempfile

# Names that the servers insist on, with numbers that nobody else has.
USERS = {"postfix": 64_101, "postdrop": 64_102, "Debian-exim": 64_103, "dovecot": 64_104, "dovenull": 64_105,
         "opensmtpd": 64_106, "opensmtpq": 64_107}
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


def with_users(name, root=None):
    """Runs the whole script again where those users are there, and nobody else sees them; a folder for it,
    which is gone behind it. Some programs look for their files where a package has them alone: below
    `root` they are there as well."""
    if folder := os.environ.get("MAIL_SERVERS"):
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
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
    for place in ("/usr/bin", "/usr/lib", "/usr/libexec"):
        if root and os.path.isdir(root + place):
            mounts.append(f"mount -t overlay -o lowerdir={root}{place}:{place} none {place}")
    if root and os.path.exists(f"{root}/usr/sbin/smtpd"):
        # OpenSMTPD's queue and the folder that it shuts itself in are at places of its own.
        os.makedirs(os.path.join(folder, "lib/opensmtpd/empty"))
        mounts += [f"mount -t overlay -o lowerdir={folder}/lib:/var/lib none /var/lib", "mount -t tmpfs none /var/spool"]
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
smtpd_relay_restrictions = check_recipient_access inline:{{nobody@{site["domain"]}=REJECT}}, permit_mynetworks, reject
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
    """The command of an Exim that hears at a port, 25 if its site names none; its own domain's mail goes into a
    Maildir, `boxes/ops`, but nobody's, and all other to the relay."""
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
acl_smtp_rcpt = recipient
tls_advertise_hosts =
begin acl
recipient:
 deny local_parts = nobody
 accept
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
 return_path_add
 user = Debian-exim
relay:
 driver = smtp
 port = {port}
begin retry
* * F,1h,5s
""")
    return [program, "-C", config, "-bdf", "-oX", str(site.get("port", 25))]


def opensmtpd(root, folder, site):
    """The command of an OpenSMTPD that hears at an address and port; its own domain's mail goes into a Maildir
    of a user's, all other to the relay."""
    boxes = make(folder, "open.boxes", (USERS[site["user"]],) * 2)
    address, port = site["address"]
    config = write(folder, "smtpd.conf", f"""table boxes {{ "ops" = "{site["user"]}" }}
listen on {address} port {port} hostname mx.{site["domain"]}
action "here" maildir "{boxes}/ops" alias <boxes>
action "there" relay host "smtp://{site["relay"]}"
match from any for domain "{site["domain"]}" action "here"
match from any for any action "there"
""")
    os.chmod(config, 0o600)
    return [f"{root}/usr/sbin/smtpd", "-d", "-f", config]


def james(jars, folder, site):
    """The command of an Apache James that hears at an address and port. It has no mailbox that others can read:
    what is for its own domain goes on to a `reader`, unchanged, and all mail to the relay, an address and port."""
    config = make(make(folder, "james"), "conf")
    address, port = site["address"]
    relay, relay_port = site["relay"]
    files = {
        "smtpserver": f"""<smtpservers><smtpserver enabled="true">
<jmxName>smtp</jmxName><bind>{address}:{port}</bind><connectionBacklog>50</connectionBacklog>
<tls socketTLS="false" startTLS="false"/>
<auth><announce>never</announce></auth>
<authorizedAddresses>{site["networks"]}</authorizedAddresses>
<handlerchain><handler class="org.apache.james.smtpserver.CoreCmdHandlerLoader"/></handlerchain>
</smtpserver></smtpservers>""",
        "mailetcontainer": f"""<mailetcontainer enableJmx="false">
<context><postmaster>postmaster@{site["domain"]}</postmaster></context>
<spooler><threads>2</threads><errorRepository>memory://error/</errorRepository></spooler>
<processors>
<processor state="root"><mailet match="All" class="ToProcessor"><processor>transport</processor></mailet></processor>
<processor state="transport">
<mailet match="All" class="RemoveMimeHeader"><name>bcc</name></mailet>
<mailet match="HostIs={site["domain"]}" class="Resend">
<recipients>{site["reader"]}</recipients><inline>unaltered</inline></mailet>
<mailet match="All" class="RemoteDelivery"><outgoingQueue>outgoing</outgoingQueue>
<delayTime>3*1 second</delayTime><maxRetries>3</maxRetries>
<gateway>{relay}</gateway><gatewayPort>{relay_port}</gatewayPort></mailet>
</processor>
<processor state="error"><mailet match="All" class="ToRepository">
<repositoryPath>memory://error/</repositoryPath></mailet></processor>
</processors></mailetcontainer>""",
        "mailrepositorystore": """<mailrepositorystore><defaultProtocol>memory</defaultProtocol><mailrepositories>
<mailrepository class="org.apache.james.mailrepository.memory.MemoryMailRepository">
<protocols><protocol>memory</protocol></protocols></mailrepository></mailrepositories></mailrepositorystore>""",
        "domainlist": f"""<domainlist><domainnames><domainname>{site["domain"]}</domainname></domainnames>
<autodetect>false</autodetect><autodetectIP>false</autodetectIP>
<defaultDomain>{site["domain"]}</defaultDomain></domainlist>""",
        "usersrepository": """<usersrepository name="LocalUsers"><algorithm>SHA-512</algorithm>
<enableVirtualHosting>true</enableVirtualHosting></usersrepository>""",
        "dnsservice": """<dnsservice><autodiscover>false</autodiscover>
<servers><server>127.0.0.1</server></servers></dnsservice>""",
        "recipientrewritetable": "<recipientrewritetable/>", "imapserver": "<imapservers/>",
        "pop3server": "<pop3servers/>", "lmtpserver": "<lmtpservers/>", "managesieveserver": "<managesieveservers/>",
    }
    for name, text in files.items():
        write(config, f"{name}.xml", text)
    for name, text in (("webadmin", "enabled"), ("jmap", "enabled"), ("jmx", "jmx.enabled")):
        write(config, f"{name}.properties", f"{text}=false\n")
    return ["java", "-Xmx400m", f"-Dworking.directory={folder}/james", "-cp", f"{jars}/*",
            "org.apache.james.MemoryJamesServerMain"]


def dovecot(root, folder, site):
    """The command of a Dovecot: mailboxes by LMTP and by IMAP, at an address each, of `users` with their
    rules of quota."""
    run, boxes = make(folder, "dovecot"), make(folder, "boxes", (site["owner"],) * 2)
    config = write(folder, "dovecot.conf", f"""base_dir = {run}
state_dir = {run}
log_path = {folder}/dovecot.log
protocols = imap lmtp
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
mail_uid = {site["owner"]}
mail_gid = {site["owner"]}
first_valid_uid = 1
mail_location = maildir:{boxes}/%u
namespace {{
  inbox = yes
}}
passdb {{
  driver = static
  args = password=secret
}}
userdb {{
  driver = passwd-file
  args = username_format=%u {write(folder, "dovecot.users", "".join(
      f"{user}:::::{folder}::{rule}{chr(10)}" for user, rule in site["users"].items()))}
}}
plugin {{
  quota = maildir
}}
protocol lmtp {{
  mail_plugins = quota
}}
service imap-login {{
  inet_listener imap {{
    address = {site["imap"][0]}
    port = {site["imap"][1]}
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    address = {site["lmtp"][0]}
    port = {site["lmtp"][1]}
  }}
}}
""")
    return [f"{root}/usr/sbin/dovecot", "-F", "-c", config]
