//! Gateways are killed at random moments while octets go both ways: what anybody takes for
//! complete is.

use super::*;

/// How often, unless `STRAIT_PROXY_KILLS` says otherwise.
const KILLS: usize = 2;
const SERVER: &str = include_str!("kills_server.py");
const CLIENT: &str = include_str!("kills_client.py");

/// What the rules, routes and rules of routing of a gateway are.
fn around(host: &Host) -> String {
    host.run("nft list table inet strait_proxy; ip rule; ip route; ip -6 route; ip route show table 7480")
}

#[test]
fn whatever_is_taken_for_complete_is_although_gateways_are_killed() {
    let kills = std::env::var("STRAIT_PROXY_KILLS").ok();
    let kills = kills.and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let Some(mut world) = World::new() else {
        return;
    };
    let (client, stop, told) = (
        world.path("client.py"),
        world.path("stop"),
        world.path("told"),
    );
    fs::write(&client, CLIENT).unwrap();
    let mut server = world.serve(SERVER);
    world.await_way();
    world.rules();
    let before = [1, 2].map(|own| around(&world.hosts[own]));
    let args = format!("{} {} {}", client.display(), stop.display(), told.display());
    let mut clients = world.hosts[0].start(&format!("python3 {args}"), Stdio::null());
    for kill in 0..kills {
        // Another moment each time, without a clock's or anybody's pattern.
        thread::sleep(Duration::from_millis(700 + (kill as u64 * 377) % 900));
        let own = 1 + kill % 2;
        let file = world.path(&format!("{own}.toml"));
        world.gateways[own - 1].end();
        thread::sleep(Duration::from_millis((kill as u64 % 3) * 150));
        world.gateways[own - 1] = run(&world.hosts[own], &file);
        world.await_whole(own);
    }
    // Both find each other again, and all is as it was.
    world.await_whole(1);
    thread::sleep(Duration::from_secs(2));
    fs::write(&stop, "").unwrap();
    clients.0.wait().unwrap();
    let counts: serde_json::Value = serde_json::from_slice(&fs::read(&told).unwrap()).unwrap();
    server.end();
    let mut odd = String::new();
    server
        .0
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut odd)
        .unwrap();
    println!("{kills} kills: {counts}");
    assert_eq!(
        odd, "",
        "the server took something for complete that wasn't"
    );
    assert_eq!(counts["wrong"], serde_json::json!([]), "{counts}");
    assert!(counts["complete"].as_u64().unwrap() > 5, "{counts}");
    assert!(
        counts["last"].as_u64().unwrap() > 0,
        "nothing goes on: {counts}"
    );
    assert_eq!(before, [1, 2].map(|own| around(&world.hosts[own])));
    let opened = [1, 2].map(|own| world.status(own)["streams"]["opened"].as_u64());
    assert!(opened.iter().all(|it| *it > Some(0)), "{opened:?}");
}
