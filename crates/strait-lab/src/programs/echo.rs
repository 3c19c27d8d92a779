//! A gateway's echo service, from a thread in the host's namespace.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use socket2::{Domain, Protocol, Socket, Type};
use strait_core::time::{Duration, Instant};
use strait_live::clock::monotonic;
use strait_live::error::Doing;
use strait_live::sockets::options::mark;
use strait_node::config::EchoConfig;
use strait_traffic::{
    CallerTls, Content, FlowLog, Side, Traffic, datagram_payload, datagram_sequence, widen,
};

use super::tls;
use super::{Collected, Flow, Origin, Program};
use crate::{LabError, Stage};

/// Octets read or written at a time.
const CHUNK_OCTETS: usize = 16_384;
/// How often a thread that waits for datagrams looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// A thread that asks, and what it saw.
#[derive(Debug)]
pub(crate) struct Echo {
    log: Arc<Mutex<FlowLog>>,
    stopped: Arc<AtomicBool>,
    worker: Option<thread::JoinHandle<io::Result<()>>>,
    trouble: Option<String>,
}

/// What a thread works with.
struct Worker {
    log: Arc<Mutex<FlowLog>>,
    stopped: Arc<AtomicBool>,
    origin: Origin,
    start: Instant,
    stop: Instant,
    service: SocketAddr,
    content: [Content; 2],
}

impl Echo {
    pub(crate) fn new(flow: &Flow) -> Result<Self, LabError> {
        if !matches!(
            flow.traffic,
            Traffic::EchoStream { .. } | Traffic::EchoDatagrams { .. }
        ) {
            return Err(flow.wrong("it is no echo"));
        }
        let log = FlowLog::new(&flow.config.name, Side::From);
        Ok(Self {
            log: Arc::new(Mutex::new(log)),
            stopped: Arc::default(),
            worker: None,
            trouble: None,
        })
    }
}

fn socket(service: SocketAddr, kind: Type, dscp: u8) -> io::Result<Socket> {
    let protocol = if kind == Type::STREAM {
        Protocol::TCP
    } else {
        Protocol::UDP
    };
    let socket = Socket::new(Domain::for_address(service), kind, Some(protocol))?;
    mark(&socket, service, dscp)?;
    Ok(socket)
}

impl Worker {
    fn note(&self, note: impl FnOnce(&mut FlowLog, Instant)) {
        let now = Instant::ZERO + monotonic().since(self.origin.at);
        note(
            &mut self.log.lock().unwrap_or_else(PoisonError::into_inner),
            now,
        );
    }

    fn connect(&self, socket: &Socket) -> io::Result<()> {
        thread::sleep(self.start.since(monotonic()));
        self.note(|log, now| log.transfer().started_ns = Some(now.as_nanos()));
        socket.connect(&self.service.into())?;
        self.note(|log, now| log.transfer().connected_ns = Some(now.as_nanos()));
        Ok(())
    }

    /// The same by TLS.
    fn call_secured(mut self, socket: Socket, octets: u64, tls: &CallerTls) -> io::Result<()> {
        self.connect(&socket)?;
        let mut stream = TcpStream::from(socket);
        if tls.starttls {
            let mut answer = EchoConfig::STARTTLS_ANSWER.to_vec();
            stream.write_all(EchoConfig::STARTTLS)?;
            stream.read_exact(&mut answer)?;
            if answer != EchoConfig::STARTTLS_ANSWER {
                return Err(io::Error::other("the service doesn't begin TLS"));
            }
        }
        let mut session = tls::caller(tls).map_err(io::Error::other)?;
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        self.note(|log, now| log.transfer().secured_ns = Some(now.as_nanos()));
        stream.set_nonblocking(true)?;
        let (mut sent, mut before) = (0, 0);
        let mut buffer = vec![0; CHUNK_OCTETS];
        loop {
            if sent < octets && !session.wants_write() {
                let count = (octets - sent).min(CHUNK_OCTETS as u64);
                let mut chunk = Vec::new();
                self.content[0].append(sent, count as usize, &mut chunk);
                session.writer().write_all(&chunk)?;
                sent += count;
                if sent == octets {
                    session.send_close_notify();
                }
            }
            let ended = tls::move_records(&mut session, &stream)?;
            if sent == octets && !session.wants_write() {
                let _ = stream.shutdown(Shutdown::Write);
            }
            while let Ok(count @ 1..) = session.reader().read(&mut buffer) {
                self.take(before, &buffer[..count]);
                before += count as u64;
            }
            if ended {
                self.take_end(before == octets);
                return Ok(());
            }
            if sent == octets || session.wants_write() {
                tls::wait(&session, &stream)?;
            }
        }
    }

    fn take(&mut self, before: u64, octets: &[u8]) {
        let wrong = self.content[1].count_wrong(before, octets);
        self.note(|log, now| {
            log.received(now, before, octets.len() as u32);
            let transfer = log.transfer();
            transfer.octets += octets.len() as u64;
            transfer.wrong_octets += wrong;
        });
    }

    fn take_end(&self, all: bool) {
        self.note(|log, now| {
            if all {
                log.transfer().finished_ns = Some(now.as_nanos());
            }
        });
    }

    /// Sends octets, ends that direction, and takes what comes back until it ends.
    fn call(mut self, socket: Socket, octets: u64) -> io::Result<()> {
        self.connect(&socket)?;
        let mut stream = TcpStream::from(socket);
        let mut sending = stream.try_clone()?;
        let mut content = self.content[0].clone();
        let sender = thread::spawn(move || -> io::Result<()> {
            let mut sent = 0;
            while sent < octets {
                let count = (octets - sent).min(CHUNK_OCTETS as u64);
                let mut chunk = Vec::new();
                content.append(sent, count as usize, &mut chunk);
                sending.write_all(&chunk)?;
                sent += count;
            }
            sending.shutdown(Shutdown::Write)
        });
        let mut buffer = vec![0; CHUNK_OCTETS];
        let mut before = 0;
        loop {
            let count = stream.read(&mut buffer)?;
            if count == 0 {
                self.take_end(before == octets);
                break;
            }
            self.take(before, &buffer[..count]);
            before += count as u64;
        }
        sender.join().unwrap_or(Ok(()))
    }

    /// Sends a datagram each period, and takes them back.
    fn ask(
        mut self,
        socket: &UdpSocket,
        payload_octets: u32,
        period: Duration,
        count: u64,
    ) -> io::Result<()> {
        let mut sent = 0;
        let mut buffer = vec![0; 65_536];
        while !self.stopped.load(Ordering::Relaxed) {
            let after_ns = sent * period.as_nanos() as u64;
            let next = self.start + Duration::from_nanos(after_ns);
            let sends = sent < count && next < self.stop;
            let now = monotonic();
            if sends && next <= now {
                let mut payload = Vec::new();
                datagram_payload(&mut self.content[0], sent, payload_octets, &mut payload);
                let done = socket.send_to(&payload, self.service).is_ok();
                self.note(|log, now| {
                    if done {
                        log.sent(now, sent, payload_octets);
                    } else {
                        log.count("not_sent");
                    }
                });
                sent += 1;
                continue;
            }
            let wait = if sends {
                next.since(now).min(LOOK)
            } else {
                LOOK
            };
            socket.set_read_timeout(Some(wait.max(Duration::from_micros(1))))?;
            let Ok((octets, from)) = socket.recv_from(&mut buffer) else {
                continue;
            };
            let low = datagram_sequence(&buffer[..octets]).unwrap_or(u32::MAX);
            let sequence = widen(sent, u64::from(low), 32);
            let expected = from == self.service && octets == payload_octets as usize;
            self.note(|log, now| {
                if expected && sequence < sent {
                    log.received(now, sequence, payload_octets);
                } else {
                    log.count("unusable");
                }
            });
        }
        Ok(())
    }
}

impl Program for Echo {
    fn start(&mut self, stage: &Stage<'_>, flow: &Flow, origin: Origin) -> Result<(), LabError> {
        let service = flow.ends[1];
        let kind = match flow.traffic {
            Traffic::EchoStream { .. } => Type::STREAM,
            _ => Type::DGRAM,
        };
        let dscp = flow.config.dscp.number();
        let socket = flow.host(stage, 0).enter(|| socket(service, kind, dscp))?;
        let socket = socket.doing(|| "open a socket for an echo")?;
        let content = flow.config.content(stage.seed);
        let worker = Worker {
            log: Arc::clone(&self.log),
            stopped: Arc::clone(&self.stopped),
            origin,
            start: origin.at + flow.start,
            stop: origin.at + flow.stop,
            service,
            content: [content.clone(), content],
        };
        self.worker = Some(match flow.traffic {
            Traffic::EchoStream {
                octets, ref tls, ..
            } => match tls.clone() {
                Some(tls) => thread::spawn(move || worker.call_secured(socket, octets, &tls)),
                None => thread::spawn(move || worker.call(socket, octets)),
            },
            Traffic::EchoDatagrams {
                payload_octets,
                period,
                count,
            } => {
                let count = count.unwrap_or(u64::MAX);
                let socket = UdpSocket::from(socket);
                thread::spawn(move || worker.ask(&socket, payload_octets, period, count))
            }
            _ => return Err(flow.wrong("it is no echo")),
        });
        Ok(())
    }

    fn finish(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // One that waits for a connection's end is left alone.
        let done = |it: &thread::JoinHandle<_>| it.is_finished();
        if let Some(worker) = self.worker.take().filter(done) {
            let trouble = worker.join().unwrap_or(Ok(())).err();
            self.trouble = trouble.map(|error| error.to_string());
        }
    }

    fn collect(&self, _: &Stage<'_>, flow: &Flow, _: Origin) -> Collected {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let note = |why: &String| format!("{}: {why}", flow.config.name);
        flow.collected(&log, self.trouble.iter().map(note).collect())
    }
}
