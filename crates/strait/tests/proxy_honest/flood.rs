//! A flood of first packets from hosts that aren't there: what is held is bounded, and clients that
//! are there get their connections meanwhile.

use super::*;

const FLOOD: &str = include_str!("flood.py");

/// Connections by somebody who is there, one after the other, and how long each took.
const CALLS: &str = "import socket, time
for _ in range(4):
    begun = time.monotonic()
    it = socket.create_connection(('10.2.0.2', 7004), 30)
    it.sendall(b'on')
    it.shutdown(socket.SHUT_WR)
    assert it.recv(100), 'nothing came'
    it.close()
    print(time.monotonic() - begun)
    time.sleep(1)
";

/// Octets of memory that a process has had at most.
fn memory(of: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", of.0.id())).unwrap();
    let most = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    let kib = most.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() << 10
}

#[test]
fn a_flood_of_first_packets_is_bounded_and_others_get_through() {
    let Some(world) = World::new() else { return };
    let [ha, ..] = &world.hosts;
    world.hosts[3].run(FAULTS);
    let _servers = world.serve(SERVER);
    let (flood, calls) = (world.path("flood.py"), world.path("calls.py"));
    fs::write(&flood, FLOOD).unwrap();
    fs::write(&calls, CALLS).unwrap();
    world.await_way();
    world.rules();
    let quiet = ha.run(&format!("python3 {}", calls.display()));
    let before = [0, 1].map(|at| memory(&world.gateways[at]));
    // The port says nothing to anybody.
    let command = format!("python3 {} 10.2.0.2 7020 12 1000", flood.display());
    let mut flooding = ha.start(&command, Stdio::piped());
    thread::sleep(Duration::from_secs(2));
    let flooded = ha.run(&format!("python3 {}", calls.display()));
    let streams = world.status(1)["streams"].clone();
    let ended = flooding.0.wait().unwrap();
    let mut sent = String::new();
    let out = flooding.0.stdout.as_mut().unwrap();
    out.read_to_string(&mut sent).unwrap();
    let sent: u64 = sent.trim().parse().unwrap();
    assert!(ended.success() && sent > 5000, "{sent}");
    println!("{sent} packets; {streams}; quiet:\n{quiet}flooded:\n{flooded}");
    // All clients that are there came through, and of the others so many are held at a time.
    assert_eq!(flooded.lines().count(), 4);
    assert!(streams["open"].as_u64().unwrap() <= 192 + 1, "{streams}");
    let grown = [0, 1].map(|at| memory(&world.gateways[at]) - before[at]);
    println!("{grown:?} octets more");
    assert!(grown.iter().all(|it| *it < 32 << 20), "{grown:?}");
}
