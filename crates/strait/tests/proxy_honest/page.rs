//! What the page of the TCP proxy says to type, typed: it ends with a transfer through both.

use super::*;

const PAGE: &str = include_str!("../../../../docs/book/proxy.md");

/// The first block of a kind behind "Set it up".
fn block(kind: &str) -> &'static str {
    let (_, part) = PAGE.split_once("## Set it up\n").unwrap();
    let (_, rest) = part.split_once(&format!("```{kind}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// The same for the other side.
fn turned(text: &str) -> String {
    let mut text = text.to_owned();
    for (one, other) in [("10.1.0.", "10.2.0."), ("10.9.0.2", "10.9.0.1")] {
        text = text
            .replace(one, "\0")
            .replace(other, one)
            .replace('\0', other);
    }
    text
}

/// The page's lines for a shell, with what a person does between them: it waits, and goes on while
/// the gateway runs.
fn typed() -> String {
    let mut script = String::from("mount -t tmpfs none /run; mkdir /run/strait\n");
    for line in block("sh").lines() {
        script += &match line {
            it if it.contains("strait run ") => format!("{it} &\n"),
            it if it.contains("proxy check") => format!(
                "for n in $(seq 150); do {} && break; sleep 0.2; done\n\
                 touch ready; until [ -e go ]; do sleep 0.1; done\n",
                it.split_once(" #").unwrap_or((it, "")).0
            ),
            it => format!("{it}\n"),
        };
    }
    script + "kill %1; wait\n"
}

#[test]
fn the_page_of_the_proxy_says_all_that_is_to_be_typed() {
    let Some(mut world) = World::new() else {
        return;
    };
    world.gateways.iter_mut().for_each(Running::end);
    let _servers = world.serve(SERVER);
    let bin = world.path("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(STRAIT, bin.join("strait")).unwrap();
    // Whoever runs this is root.
    fs::write(bin.join("sudo"), "#!/bin/sh\nexec \"$@\"\n").unwrap();
    world.hosts[0].run(&format!("chmod +x {}/sudo", bin.display()));
    let mut typing = Vec::new();
    for own in [1, 2] {
        let whole = node(world.folder.path(), own);
        // What is there before, and the page's part of it.
        let (before, _) = whole.split_once("[proxy]").unwrap();
        let socket = world.path(&format!("{own}.sock"));
        let usual = format!("/run/strait/g{own}.sock");
        let before = before.replace(&socket.display().to_string(), &usual);
        let proxy = block("toml");
        let proxy = if own == 1 {
            proxy.to_owned()
        } else {
            turned(proxy)
        };
        let folder = world.path(&format!("side{own}"));
        fs::create_dir(&folder).unwrap();
        let file = format!("{before}{proxy}");
        fs::write(folder.join("ship.toml"), file).unwrap();
        fs::write(folder.join("typed.sh"), typed()).unwrap();
        let command = format!(
            "env -C {} PATH={}:$PATH unshare --mount bash -m typed.sh",
            folder.display(),
            bin.display()
        );
        let out = fs::File::create(folder.join("told")).unwrap();
        let mut command = world.hosts[usize::from(own)].command(&format!("exec {command} 2>&1"));
        typing.push(Running(command.stdout(out).spawn().unwrap()));
    }
    let side = |own: usize, name: &str| world.path(&format!("side{own}")).join(name);
    let told = |own| fs::read_to_string(side(own, "told")).unwrap();
    let ready = (0..400).any(|_| {
        thread::sleep(Duration::from_millis(100));
        [1, 2].iter().all(|own| side(*own, "ready").exists())
    });
    assert!(ready, "{}\n{}", told(1), told(2));
    let fetched = world.hosts[0].run("curl -sS http://10.2.0.2:7000/ | wc -c");
    assert_eq!(fetched.trim(), "3000", "{}\n{}", told(1), told(2));
    for own in [1, 2] {
        assert!(told(own).contains("nothing is missing"), "{}", told(own));
        fs::write(side(own, "go"), "").unwrap();
        typing[own - 1].0.wait().unwrap();
        let status = told(own);
        let (_, status) = status.split_once("nothing is missing").unwrap();
        println!("{status}");
        assert!(status.contains("proxy"), "{status}");
        // The last line takes away what the first ones made.
        let tables = world.hosts[own].run("nft list tables");
        assert!(!tables.contains("strait_proxy"), "{tables}");
    }
}
