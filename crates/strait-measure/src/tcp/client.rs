//! One measured transfer.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags};
use strait_core::time::Duration;
use strait_live::clock::monotonic;
use strait_live::poll::wait;
use strait_live::signals::Stop;
use strait_traffic::measure::{Client, Direction, Facts, Failure, Plan, TransferRecord};

use crate::tcp_socket::{Intake, Tcp, clock, failure, interest};

/// How long a request to stop may stay unseen if no signal comes with it.
const STOP_PATIENCE: Duration = Duration::from_millis(200);

/// Connects to a server, transfers, and gives what was measured. Whatever fails stands in the
/// record, with what was measured until then. `stop` ends it before its time.
pub fn transfer(peer: SocketAddr, plan: &Plan, stop: &Stop) -> TransferRecord {
    let socket = open(peer, plan);
    let mut client = Client::new(plan.clone(), clock(), monotonic());
    let connecting = socket.and_then(|socket| socket.connect(peer).map(|()| socket));
    let mut socket = match connecting {
        Ok(socket) => socket,
        Err(error) => {
            client.fail(monotonic(), failure(&error));
            return client.record(Facts::default());
        }
    };
    while !client.is_ended() {
        if let Err(error) = step(&mut client, &mut socket, stop) {
            client.fail(monotonic(), failure(&error));
        }
    }
    if !client.is_complete() {
        socket.abort_on_close();
    }
    client.record(socket.facts())
}

fn open(peer: SocketAddr, plan: &Plan) -> io::Result<Tcp> {
    let socket = Tcp::new(peer)?;
    let request = &plan.request;
    // The congestion control is the sender's.
    let congestion = match request.direction {
        Direction::Up => request.congestion.as_str(),
        Direction::Down => "",
    };
    socket.mark(request.dscp, congestion).map_err(|error| {
        let what = format!("congestion control `{congestion}` isn't available here: {error}");
        io::Error::other(what)
    })?;
    Ok(socket)
}

/// Waits for the socket and moves octets.
fn step(client: &mut Client, socket: &mut Tcp, stop: &Stop) -> io::Result<()> {
    let writes = client.is_connecting() || !client.pending().is_empty();
    let left = client.deadline().since(monotonic());
    let mut ready = [PollFd::new(socket.as_fd(), interest(writes))];
    wait(&mut ready, Some(left.min(STOP_PATIENCE)))?;
    let events = ready[0].revents().unwrap_or(PollFlags::empty());
    let now = monotonic();
    if stop.is_asked() {
        client.fail(now, Failure::Stopped);
    } else if now >= client.deadline() {
        client.fail(now, Failure::TimedOut);
    } else if client.is_connecting() {
        connect(client, socket, events);
    }
    if client.is_connecting() || client.is_ended() || events.is_empty() {
        return Ok(());
    }
    match socket.read_all(|octets| client.receive(monotonic(), octets)) {
        Intake::End => client.fail(monotonic(), Failure::Closed),
        Intake::Failed(failure) => client.fail(monotonic(), failure),
        Intake::Octets(_) | Intake::Nothing => {}
    }
    while !client.pending().is_empty() {
        match socket.write(client.pending()) {
            Ok(0) => break,
            Ok(count) => client.take(monotonic(), count),
            Err(failure) => client.fail(monotonic(), failure),
        }
    }
    Ok(())
}

fn connect(client: &mut Client, socket: &Tcp, events: PollFlags) {
    let now = monotonic();
    if events.is_empty() {
        return;
    }
    match socket.connect_error() {
        Some(failure) => client.fail(now, failure),
        None if events.contains(PollFlags::POLLOUT) => client.connected(now),
        None => {}
    }
}
