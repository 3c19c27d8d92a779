//! Programs that live tests call, and the bare target: added only where they are missing.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::no_std;

/// A program that tests call.
struct Tool {
    program: &'static str,
    /// The Debian package that has it.
    package: &'static str,
    /// What doesn't run without it.
    tests: &'static str,
}

const TOOLS: [Tool; 21] = [
    Tool {
        program: "ip",
        package: "iproute2",
        tests: "all live tests and the lab",
    },
    Tool {
        program: "tc",
        package: "iproute2",
        tests: "policies in the kernel",
    },
    Tool {
        program: "nft",
        package: "nftables",
        tests: "policies in the kernel",
    },
    Tool {
        program: "ping",
        package: "iputils-ping",
        tests: "live ping in both families",
    },
    Tool {
        program: "babeld",
        package: "babeld",
        tests: "routes that a routing protocol changes",
    },
    Tool {
        program: "chromium",
        package: "chromium",
        tests: "the page in a browser",
    },
    Tool {
        program: "curl",
        package: "curl",
        tests: "live pages",
    },
    Tool {
        program: "dig",
        package: "bind9-dnsutils",
        tests: "live look-ups of names",
    },
    Tool {
        program: "dnsmasq",
        package: "dnsmasq-base",
        tests: "live look-ups of names",
    },
    Tool {
        program: "dnsperf",
        package: "dnsperf",
        tests: "floods of live look-ups",
    },
    Tool {
        program: "direwolf",
        package: "direwolf",
        tests: "gateways over two packet modems",
    },
    Tool {
        program: "iperf3",
        package: "iperf3",
        tests: "live throughput",
    },
    Tool {
        program: "mgen",
        package: "mgen",
        tests: "flows that `mgen` itself sends and receives",
    },
    Tool {
        program: "nfcapd",
        package: "nfdump",
        tests: "flows by IPFIX",
    },
    Tool {
        program: "nfacctd",
        package: "pmacct",
        tests: "flows by IPFIX",
    },
    Tool {
        program: "nginx",
        package: "nginx-light",
        tests: "pages by HTTP/2, and files by `wget`",
    },
    Tool {
        program: "npm",
        package: "npm",
        tests: "the page in a browser",
    },
    Tool {
        program: "python3",
        package: "python3",
        tests: "live programs, checks on captures",
    },
    Tool {
        program: "tshark",
        package: "tshark",
        tests: "captures read by a second decoder",
    },
    Tool {
        program: "vsftpd",
        package: "vsftpd",
        tests: "files by FTP",
    },
    Tool {
        program: "wget",
        package: "wget",
        tests: "files by HTTP and FTP",
    },
];

/// Packages that can't be installed beside each other, or would leave a server on this host: only
/// their files are wanted, below `target/programs`; and what these need beyond a usual host.
const UNPACKED: [(&str, &str); 9] = [
    ("postfix", "usr/lib/postfix/sbin/master"),
    ("exim4-daemon-light", "usr/sbin/exim4"),
    ("opensmtpd", "usr/sbin/smtpd"),
    ("swaks", "usr/bin/swaks"),
    ("s-nail", "usr/bin/s-nail"),
    ("mutt", "usr/bin/mutt"),
    ("dovecot-core", "usr/sbin/dovecot"),
    ("dovecot-imapd", "usr/lib/dovecot/imap"),
    ("dovecot-lmtpd", "usr/lib/dovecot/lmtp"),
];
const LIBRARIES: [&str; 15] = [
    "libevent-2.1-7",
    "libidn12",
    "libgnutls-dane0",
    "libdb5.3",
    "libnsl2",
    "libicu72",
    "libgpgme11",
    "libgsasl18",
    "libtokyocabinet9",
    "libexttextcat-2.0-0",
    "liblua5.4-0",
    "libsodium23",
    "libstemmer0d",
    "libtirpc3",
    "libwrap0",
];

/// Apache James with its state in memory, which needs Java 11.
const JAMES: &str = "james-server-memory-app";
const JAMES_VERSION: &str = "3.8.1";

/// The longest that one call of a package tool may take: mirrors that don't answer end there.
const CALL_MAX: Duration = Duration::from_secs(300);

/// Adds what is missing if that is possible, and says what will be skipped if it is not. What can't
/// be added fails nothing: tests that need it say so themselves.
pub(crate) fn run(root: &Path) -> Result<()> {
    if std::env::var_os("STRAIT_MAIL_SERVERS").is_some() {
        unpack(root);
    }
    let dirs = program_dirs();
    let missing = missing(&dirs);
    if missing.is_empty() {
        println!("install: every program that tests call is there");
    } else {
        add(&missing);
        for tool in self::missing(&dirs) {
            println!("install: no `{}`; skipped: {}", tool.program, tool.tests);
        }
    }
    if !is_root() || !Path::new("/dev/net/tun").exists() {
        println!("install: no root or no /dev/net/tun; skipped: tests that make interfaces");
    }
    add_target();
    Ok(())
}

/// Unpacks mail servers where they aren't, for tests that run by request (`STRAIT_MAIL_SERVERS`):
/// from there, with users of their own.
fn unpack(root: &Path) {
    let folder = &root.join("target/programs");
    let delta = folder.join("delta");
    if !delta.join("bin/deltachat-rpc-server").is_file() {
        let made = call(Command::new("python3").args(["-m", "venv"]).arg(&delta));
        let mut pip = Command::new(delta.join("bin/pip"));
        if !made || !call(pip.args(["-q", "install", "deltachat-rpc-server"])) {
            println!("install: no deltachat-rpc-server; skipped: messages of Delta Chat");
        }
    }
    let james = folder.join("james");
    if !james.join(format!("{JAMES}-{JAMES_VERSION}.jar")).is_file() && !fetch_james(&james) {
        println!("install: no Apache James (by `mvn`); skipped: messages to and from it");
    }
    let lacks = |it: &&(&str, &str)| !folder.join(it.1).is_file();
    let lacking: Vec<&str> = UNPACKED.iter().filter(lacks).map(|it| it.0).collect();
    if lacking.is_empty() {
        return;
    }
    if !is_root() || !Path::new("/usr/bin/apt-get").exists() || !fetch(folder, &lacking) {
        let names = lacking.join(" ");
        println!(
            "install: no {names} in {}; skipped: mail servers of others",
            folder.display()
        );
    }
}

/// All jars of it, by Maven.
fn fetch_james(folder: &Path) -> bool {
    let pom = format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId>\
         <artifactId>x</artifactId><version>1</version><dependencies><dependency>\
         <groupId>org.apache.james</groupId><artifactId>{JAMES}</artifactId>\
         <version>{JAMES_VERSION}</version></dependency></dependencies></project>"
    );
    let made = std::fs::create_dir_all(folder).is_ok();
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:copy-dependencies"]);
    let out = format!("-DoutputDirectory={}", folder.display());
    made && std::fs::write(folder.join("pom.xml"), pom).is_ok()
        && call(maven.arg(out).current_dir(folder))
}

fn fetch(folder: &Path, packages: &[&str]) -> bool {
    let archives = folder.join("archives");
    if std::fs::create_dir_all(&archives).is_err() {
        return false;
    }
    let mut update = Command::new("apt-get");
    update.args(PATIENCE).arg("update");
    // A failed update is no end: an older list may still do.
    call(&mut update);
    for library in LIBRARIES {
        let mut install = Command::new("apt-get");
        install
            .args(PATIENCE)
            .args(["install", "-y", "--no-install-recommends", library]);
        install.env("DEBIAN_FRONTEND", "noninteractive");
        // Another version of the system has others, which may be there.
        call(&mut install);
    }
    let mut download = Command::new("apt-get");
    download.args(PATIENCE).arg("download").args(packages);
    let fetched = call(download.current_dir(&archives));
    let files = std::fs::read_dir(&archives).into_iter().flatten().flatten();
    let mut paths = files.map(|it| it.path());
    fetched && paths.all(|path| call(Command::new("dpkg").arg("-x").arg(path).arg(folder)))
}

fn missing(dirs: &[PathBuf]) -> Vec<&'static Tool> {
    let there = |tool: &&Tool| dirs.iter().any(|dir| dir.join(tool.program).is_file());
    TOOLS.iter().filter(|tool| !there(tool)).collect()
}

/// Where programs are: also the system folders that a user's path may lack.
fn program_dirs() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(system).collect()
}

/// Options of `apt-get`.
const PATIENCE: [&str; 5] = [
    "-o",
    "Acquire::Retries=1",
    "-o",
    "Acquire::http::Timeout=20",
    "-qq",
];

fn add(missing: &[&Tool]) {
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    let apt = Path::new("/usr/bin/apt-get").exists();
    if !is_root() || !apt {
        println!("install: these would be needed: {}", packages.join(" "));
        return;
    }
    println!("install: adding {}", packages.join(" "));
    let mut update = Command::new("apt-get");
    update.args(PATIENCE).arg("update");
    // A failed update is no end: an older list may still do.
    call(&mut update);
    let mut install = Command::new("apt-get");
    install
        .args(PATIENCE)
        .args(["install", "-y", "--no-install-recommends"])
        .args(packages);
    install.env("DEBIAN_FRONTEND", "noninteractive");
    // Tests start what they need by themselves: no package's own service is to run.
    let policy = Path::new("/usr/sbin/policy-rc.d");
    let ours = std::fs::read_to_string(policy).is_ok_and(|it| it.contains(POLICY_MARK));
    let own = (ours || !policy.exists()) && forbid_services(policy).is_ok();
    call(&mut install);
    if own {
        let _ = std::fs::remove_file(policy);
    }
    // Nor at the next start of this host.
    let servers = missing.iter().map(|tool| tool.program);
    let servers = servers.filter(|it| SERVICES.contains(it));
    let mut disable = Command::new("systemctl");
    disable.args(["disable", "--quiet"]).args(servers);
    if Path::new("/usr/bin/systemctl").exists() && disable.get_args().count() > 2 {
        call(&mut disable);
    }
}

/// Programs whose packages have services of these names.
const SERVICES: [&str; 2] = ["nginx", "vsftpd"];

/// Tells our policy from the machine's own.
const POLICY_MARK: &str = "while cargo xtask install adds programs";

/// As long as this process lives: if it is killed, what it leaves behind forbids nothing.
fn forbid_services(policy: &Path) -> std::io::Result<()> {
    let process = std::process::id();
    let text = format!(
        "#!/bin/sh\n# No services {POLICY_MARK}.\n\
         grep -qx xtask /proc/{process}/comm 2>/dev/null && exit 101\nexit 0\n"
    );
    std::fs::write(policy, text)?;
    std::fs::set_permissions(policy, std::fs::Permissions::from_mode(0o755))
}

fn add_target() {
    if no_std::bare_target().is_some() {
        return;
    }
    let target = no_std::BARE_TARGETS[0];
    println!("install: adding the target {target}");
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", target]).stderr(Stdio::null());
    if !call(&mut rustup) {
        println!("install: no bare target; `no-std` is proven by the probe instead");
    }
}

/// Whether the command ended well in time.
fn call(command: &mut Command) -> bool {
    let began = Instant::now();
    let Ok(mut child) = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn() else {
        return false;
    };
    while began.elapsed() < CALL_MAX {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => std::thread::sleep(Duration::from_millis(50)),
            Err(_) => return false,
        }
    }
    println!("install: {:?} took too long", command.get_program());
    // It may have ended by itself just now.
    let _ = child.kill();
    let _ = child.wait();
    false
}

/// Whether the effective user is 0, by what the kernel says of this process.
fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| effective_user(&status) == Some(0))
}

fn effective_user(status: &str) -> Option<u32> {
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    ids.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_user_is_the_second_number() {
        assert_eq!(
            effective_user("Name:\tx\nUid:\t1000\t0\t0\t0\nGid:\t5\n"),
            Some(0)
        );
        assert_eq!(effective_user("Uid:\t0\t1000\t0\t0\n"), Some(1000));
        assert_eq!(effective_user("Uid:\n"), None);
        assert_eq!(effective_user(""), None);
    }

    #[test]
    fn a_tool_is_missing_where_no_folder_has_it() {
        assert_eq!(missing(&[]).len(), TOOLS.len());
        assert_eq!(missing(&[PathBuf::from("/nowhere")]).len(), TOOLS.len());
    }

    #[test]
    fn services_are_forbidden_only_as_long_as_this_lives() {
        let policy = std::env::temp_dir().join(format!("policy-{}", std::process::id()));
        forbid_services(&policy).unwrap();
        let text = std::fs::read_to_string(&policy).unwrap();
        let says = || Command::new("sh").arg(&policy).status().unwrap().code();
        // A test's process has another name than the program.
        assert_eq!(says(), Some(0));
        let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
        let own = text.replace("-qx xtask", &format!("-qx {}", comm.trim()));
        std::fs::write(&policy, own).unwrap();
        let forbids = says();
        std::fs::remove_file(&policy).unwrap();
        assert_eq!(forbids, Some(101));
        assert!(text.contains(POLICY_MARK));
    }

    #[test]
    fn a_call_that_cannot_start_or_fails_is_told() {
        assert!(!call(&mut Command::new("/nowhere/at-all")));
        assert!(!call(&mut Command::new("false")));
        assert!(call(&mut Command::new("true")));
    }
}
