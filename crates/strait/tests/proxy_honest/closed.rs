//! A gateway that is killed, with `closed`: its partner's hosts have no way, whatever other way the
//! host has, until the gateway runs again or an operator opens it.

use std::time::Instant;

use super::*;

/// Counts what comes to the server by a way that isn't the gateways'.
const STRAY: &str = "nft -f - <<'END'
table inet stray {
    chain in {
        type filter hook prerouting priority raw; policy accept;
        iifname \"by\" tcp dport 7000 counter
    }
}
END";

/// How a client's connection to the server comes out, and how soon.
const CONNECT: &str = "import socket
it = socket.socket()
it.settimeout(3)
try:
    it.connect(('10.2.0.2', 7000))
    print('connected')
except OSError as error:
    print(type(error).__name__, error.errno)
";

fn strayed(server: &Host) -> bool {
    !server
        .run("nft list table inet stray")
        .contains("packets 0 ")
}

#[test]
fn a_closed_gateway_that_is_killed_leaves_no_other_way() {
    let Some(mut world) = World::new() else {
        return;
    };
    let _servers = world.serve(SERVER);
    let script = world.path("connect.py");
    fs::write(&script, CONNECT).unwrap();
    let connect = |world: &World| {
        let begun = Instant::now();
        let told = world.hosts[0].run(&format!("python3 {}", script.display()));
        (told.trim().to_owned(), begun.elapsed())
    };
    // Another way, past the gateways, that the host takes when theirs is gone.
    let [_, a, _, hb] = &world.hosts;
    a.cable(hb, ["by", "by"], "7", [1, 2]);
    // The kernel tells a host no more than one error a second, but for some at first.
    a.run("ip route add 10.2.0.0/24 via 10.7.0.2 metric 100; sysctl -qw net.ipv4.icmp_ratelimit=0");
    hb.run(STRAY);
    world.await_way();
    world.rules();
    assert_eq!(connect(&world).0, "connected");
    assert!(!strayed(&world.hosts[3]));

    // As it is without the key.
    world.gateways[0].end();
    connect(&world);
    assert!(strayed(&world.hosts[3]), "there is no other way to close");
    world.hosts[3].run(&format!("nft delete table inet stray; {STRAY}"));

    let file = world.path("1.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("[proxy]\n", "[proxy]\nclosed = true\n")).unwrap();
    world.gateways[0] = run(&world.hosts[1], &file);
    world.rules();
    assert_eq!(connect(&world).0, "connected");

    world.gateways[0].end();
    let check = format!("{STRAIT} proxy check {} || true", file.display());
    for _ in 0..3 {
        let (told, time) = connect(&world);
        assert_eq!(told, "OSError 113");
        assert!(time < Duration::from_secs(2), "{time:?}");
    }
    assert!(!strayed(&world.hosts[3]));
    let told = world.hosts[1].run(&check);
    assert!(told.contains("partners' hosts are unreachable"), "{told}");

    // The next start opens it.
    world.gateways[0] = run(&world.hosts[1], &file);
    world.await_whole(1);
    assert_eq!(connect(&world).0, "connected");
    assert!(!strayed(&world.hosts[3]));

    // So does an operator.
    world.gateways[0].end();
    let undo = format!("{STRAIT} proxy rules {} --undo | sh", file.display());
    world.hosts[1].run(&undo);
    connect(&world);
    assert!(strayed(&world.hosts[3]));
}
