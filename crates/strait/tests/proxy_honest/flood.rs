//! Floods of first packets from hosts that aren't there: what is held, and what servers have of
//! them, is bounded, and clients that are there get their connections meanwhile.

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

/// What a port was flooded with, and what came of it.
struct Flooded {
    /// The near gateway's streams in the middle of it.
    streams: serde_json::Value,
    /// The most connections that the server had with the port at a time.
    served: usize,
}

/// Floods a port of the server's with so many packets a second, and has clients that are there
/// connect to it meanwhile.
fn flooded(world: &World, port: u16, rate: u32) -> Flooded {
    let [ha, _, _, hb] = &world.hosts;
    let (flood, calls) = (world.path("flood.py"), world.path("calls.py"));
    fs::write(&flood, FLOOD).unwrap();
    fs::write(&calls, CALLS).unwrap();
    world.await_way();
    world.rules();
    let quiet = ha.run(&format!("python3 {}", calls.display()));
    let before = [0, 1].map(|at| memory(&world.gateways[at]));
    let command = format!("python3 {} 10.2.0.2 {port} 12 {rate}", flood.display());
    let mut flooding = ha.start(&command, Stdio::piped());
    thread::sleep(Duration::from_secs(2));
    let flooded = ha.run(&format!("python3 {}", calls.display()));
    let streams = world.status(1)["streams"].clone();
    let mut served = 0;
    let ended = loop {
        let all = hb.run(&format!("ss -Htn state established sport = :{port}"));
        served = served.max(all.lines().count());
        if let Some(ended) = flooding.0.try_wait().unwrap() {
            break ended;
        }
        thread::sleep(Duration::from_millis(200));
    };
    let mut sent = String::new();
    let out = flooding.0.stdout.as_mut().unwrap();
    out.read_to_string(&mut sent).unwrap();
    let sent: u32 = sent.trim().parse().unwrap();
    assert!(ended.success() && sent > rate * 5, "{sent}");
    eprintln!("{sent} packets; {streams}; served {served}; quiet:\n{quiet}flooded:\n{flooded}");
    // All clients that are there came through.
    assert_eq!(flooded.lines().count(), 4);
    let grown = [0, 1].map(|at| memory(&world.gateways[at]) - before[at]);
    eprintln!("{grown:?} octets more");
    assert!(grown.iter().all(|it| *it < 32 << 20), "{grown:?}");
    Flooded { streams, served }
}

#[test]
fn a_flood_of_first_packets_is_bounded_and_others_get_through() {
    let Some(world) = World::new() else { return };
    world.hosts[3].run(FAULTS);
    let _servers = world.serve(SERVER);
    // The port says nothing to anybody.
    let came = flooded(&world, 7020, 1000);
    let open = came.streams["open"].as_u64().unwrap();
    assert!(open <= 192 + 1, "{open}");
}

#[test]
fn of_a_flood_to_an_open_port_servers_see_little_and_others_get_through() {
    let Some(world) = World::new() else { return };
    let _servers = world.serve(SERVER);
    let came = flooded(&world, 7004, 300);
    // Those who are held, those who may come, and those who are there.
    assert!(came.served <= 192 + 192 + 16, "{}", came.served);
}
