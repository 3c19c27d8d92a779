//! The kernel's end of a connection.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use strait_core::time::Duration;

use super::ours::PATIENCE;
use super::plan::{Case, Plan, octet};

/// How it went for the kernel's end.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) received: usize,
    pub(crate) error: Option<ErrorKind>,
    /// It broke off itself.
    broken: bool,
}

/// Whether this kernel has a congestion control of that name.
pub(crate) fn has(control: &str) -> bool {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
    socket.set_tcp_congestion(control.as_bytes()).is_ok()
}

/// A socket, made in its namespace and bound; it listens unless we do.
pub(crate) struct Kernel {
    socket: Socket,
    remote: SocketAddr,
    listens: bool,
    plan: Plan,
}

impl Kernel {
    pub(crate) fn new(case: &Case, local: SocketAddr, remote: SocketAddr) -> Self {
        let domain = Domain::for_address(local);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP)).unwrap();
        socket.set_tcp_congestion(case.control.as_bytes()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket.bind(&SockAddr::from(local)).unwrap();
        if case.we_connect {
            socket.listen(1).unwrap();
        }
        Self {
            socket,
            remote,
            listens: case.we_connect,
            plan: case.kernels(),
        }
    }

    /// From the connection's beginning to its end.
    pub(crate) fn run(self) -> Outcome {
        let socket = if self.listens {
            self.socket.accept().unwrap().0
        } else {
            self.socket.connect(&SockAddr::from(self.remote)).unwrap();
            self.socket
        };
        let stream = TcpStream::from(socket);
        let plan = self.plan;
        thread::scope(|scope| {
            let early = (!plan.answers).then(|| scope.spawn(|| write(&stream, plan.sends)));
            let mut outcome = read(&stream, &plan);
            let written = match early {
                Some(writer) => writer.join().unwrap(),
                None if outcome.broken => Ok(()),
                None => write(&stream, plan.sends),
            };
            outcome.error = outcome
                .error
                .or_else(|| written.err().map(|error| error.kind()));
            outcome
        })
    }
}

fn write(mut stream: &TcpStream, octets: usize) -> io::Result<()> {
    let content: Vec<u8> = (0..octets).map(octet).collect();
    stream.write_all(&content)?;
    stream.shutdown(Shutdown::Write)
}

fn read(mut stream: &TcpStream, plan: &Plan) -> Outcome {
    let mut outcome = Outcome {
        received: 0,
        error: None,
        broken: false,
    };
    let mut buffer = [0; 16_384];
    loop {
        if plan
            .aborts_after
            .is_some_and(|octets| outcome.received >= octets)
        {
            let socket = socket2::SockRef::from(stream);
            socket.set_linger(Some(Duration::ZERO)).unwrap();
            outcome.broken = true;
            return outcome;
        }
        match stream.read(&mut buffer) {
            Ok(0) => return outcome,
            Ok(count) => {
                let right = (outcome.received..).map(octet).take(count);
                assert!(buffer[..count].iter().copied().eq(right));
                outcome.received += count;
            }
            Err(error) => {
                outcome.error = Some(error.kind());
                return outcome;
            }
        }
    }
}
