//! Programs that ask by SOCKS5 and HTTP CONNECT: real curl, from a host, from the gateway's own and
//! from beyond the link.

use serde_json::{Value, json};

use super::*;

const CLIENT: &str = include_str!("explicit.py");

#[test]
fn programs_that_ask_for_connections_hear_what_becomes_of_them() {
    let Some(world) = World::new() else { return };
    let [ha, a, _, hb] = &world.hosts;
    hb.run(FAULTS);
    let _servers = world.serve(SERVER);
    world.await_way();
    world.rules();
    let client = world.path("explicit.py");
    fs::write(&client, CLIENT).unwrap();
    let ask = |host: &Host, proxy: &str| -> Outcomes {
        let told = host.run(&format!("python3 {} {proxy}", client.display()));
        serde_json::from_str(&told).unwrap()
    };
    let told = ask(ha, "10.1.0.1:1080");
    let right = |place: &str, socks: Value, connect: Value| {
        assert_eq!(told[&format!("SOCKS {place}")], socks, "{told:#?}");
        assert_eq!(told[&format!("CONNECT {place}")], connect, "{told:#?}");
    };
    for place in ["name", "name with IPv6 alone", "IPv4", "IPv6"] {
        right(place, json!(3000), json!(3000));
    }
    right("refused", json!([97, 5]), json!([56, 502]));
    right("net unreachable", json!([97, 3]), json!([56, 502]));
    right("host unreachable", json!([97, 4]), json!([56, 502]));
    right("no such name", json!([97, 4]), json!([56, 502]));
    right("the gateway itself", json!([97, 2]), json!([56, 403]));
    right("nobody's", json!([97, 2]), json!([56, 403]));
    assert_eq!(told["SOCKS filtered"][0], 28, "{told:#?}");
    assert_eq!(told["CONNECT filtered"][0], 28, "{told:#?}");
    assert_eq!(told["SOCKS cut off"][0], 56, "{told:#?}");
    assert_eq!(told["no CONNECT IPv4"], json!([22, 405]), "{told:#?}");
    // Programs of the gateway's own host, and nobody from beyond the link.
    assert_eq!(ask(a, "127.0.0.1:1080")["SOCKS name"], 3000);
    let beyond = hb.run("curl -sS -m 4 --socks5 10.1.0.1:1080 http://10.2.0.2:7000/ 2>&1 || true");
    assert!(beyond.starts_with("curl: (7)"), "{beyond}");
    let status = world.status(1);
    assert_eq!(status["refused"]["not-allowed"], 1, "{status}");
    assert!(status["explicit"].as_u64() > Some(30), "{status}");
    assert!(
        status["refused"]["handshake"].as_u64() > Some(0),
        "{status}"
    );
}
