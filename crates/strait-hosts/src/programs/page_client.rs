//! Fetches a page as a browser does: the root first, then what that names, and so on, over a few
//! connections to each host, used again for the next object.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use strait_core::Instant;
use strait_tcp::{TcpEndpoint, TcpState};
use strait_traffic::via::{Answer, Request, Wanted};
use strait_traffic::{Content, FlowLog, ObjectMark, Site, TcpOptions};

use super::dns::LookUp;
use super::http::{RESPONSE_HEAD_OCTETS, Wire, object_place, request};
use crate::host::{Application, ConnectionId, Event, Stack};

/// Ports that a client may use: its connections and those that replace failed ones. When they are
/// used up, the page stays incomplete.
const PORTS_MAX: u16 = 64;

/// Tickets of TLS that are kept for a host, each for one connection: as many as Chromium keeps
/// (`SSLClientSessionCache`).
const TICKETS_MAX: u8 = 2;

/// An object under way.
struct Fetch {
    index: u32,
    /// The rest of the request.
    request: Vec<u8>,
    /// Octets of the response's header still to come.
    head_left: usize,
    /// Octets of the object that have arrived.
    arrived: u64,
}

/// A connection, and what it fetches; answers come in the order of requests.
struct Connection {
    host: usize,
    /// What is asked of somebody else before it is there, and is still to be said.
    request: Option<(Request, Vec<u8>)>,
    wire: Wire,
    fetches: VecDeque<Fetch>,
}

/// A host of the page.
pub(super) struct Place {
    pub(super) name: String,
    /// Its address, as soon as that is known.
    pub(super) address: Option<IpAddr>,
    pub(super) look_up: Option<LookUp>,
    /// Objects that nobody fetches yet.
    waiting: VecDeque<u32>,
    /// Tickets for connections that are opened later.
    tickets: u8,
}

impl Place {
    pub(super) const fn new(
        name: String,
        address: Option<IpAddr>,
        look_up: Option<LookUp>,
    ) -> Self {
        Self {
            name,
            address,
            look_up,
            waiting: VecDeque::new(),
            tickets: 0,
        }
    }
}

/// What is to be fetched, and how.
pub(super) struct Task {
    pub(super) start: Instant,
    /// Octets of each object.
    pub(super) sizes: Vec<u64>,
    pub(super) connections: u32,
    pub(super) site: Site,
    pub(super) options: TcpOptions,
    pub(super) content: Content,
    /// The first of its ports, and that of servers.
    pub(super) from: SocketAddr,
    pub(super) to_port: u16,
    /// Whoever is asked for connections is told names.
    pub(super) by_name: bool,
}

pub(super) struct PageClient {
    log: FlowLog,
    task: Task,
    start: Option<Instant>,
    places: Vec<Place>,
    connections: BTreeMap<ConnectionId, Connection>,
    done: usize,
    ports_used: u16,
}

impl PageClient {
    pub(super) fn new(mut log: FlowLog, task: Task, places: Vec<Place>) -> Self {
        log.transfer();
        Self {
            log,
            start: Some(task.start),
            task,
            places,
            connections: BTreeMap::new(),
            done: 0,
            ports_used: 0,
        }
    }

    fn begin(&mut self, now: Instant, stack: &mut Stack) {
        self.start = None;
        self.log.transfer().started_ns = Some(now.as_nanos());
        // Nothing but the root is known before it has arrived.
        self.want(now, 0..1, stack);
    }

    /// These objects are to be fetched, too.
    fn want(&mut self, now: Instant, objects: std::ops::Range<u32>, stack: &mut Stack) {
        for object in objects.clone() {
            let host = self.task.site.host(object);
            self.places[host].waiting.push_back(object);
        }
        for host in 0..self.places.len() {
            if objects.clone().any(|it| self.task.site.host(it) == host) {
                self.go_on(now, host, stack);
            }
        }
    }

    /// Fetches what waits of a host: its name is looked up, connections that are idle are used, and
    /// others opened.
    fn go_on(&mut self, now: Instant, host: usize, stack: &mut Stack) {
        let place = &mut self.places[host];
        if place.address.is_none() {
            let look_up = place.look_up.as_mut();
            if let Some(look_up) = look_up.filter(|it| it.asks.is_none()) {
                look_up.ask(now, stack);
            }
            return;
        }
        let idle = self.connections.iter();
        let idle = idle.filter(|(_, it)| it.host == host && it.fetches.is_empty());
        let idle: Vec<ConnectionId> = idle.map(|(id, _)| *id).collect();
        for id in &idle {
            self.work(now, *id, stack);
        }
        self.open(now, host, stack);
    }

    /// Opens as many connections as there are objects for.
    fn open(&mut self, now: Instant, host: usize, stack: &mut Stack) {
        let Some(address) = self.places[host].address else {
            return;
        };
        let own = self.connections.values().filter(|it| it.host == host);
        let (all, idle) = (own.clone().count(), own.filter(|it| it.fetches.is_empty()));
        let wanted = self.places[host].waiting.len().saturating_sub(idle.count());
        let room = (self.task.connections as usize).saturating_sub(all);
        for _ in 0..wanted.min(room) {
            if self.ports_used == PORTS_MAX {
                return;
            }
            let from = self.task.from;
            let port = from.port().wrapping_add(self.ports_used);
            self.ports_used += 1;
            let local = SocketAddr::new(from.ip(), port);
            let server = SocketAddr::new(address, self.task.to_port);
            let remote = self.task.site.via.map_or(server, |via| via.at);
            let request = self.task.site.via.map(|via| {
                let name = &self.places[host].name;
                let wanted = match self.task.by_name {
                    true => Wanted::Name(name.clone(), server.port()),
                    false => Wanted::Address(server),
                };
                Request::new(via.speech, wanted)
            });
            match stack.connect(now, local, remote, &self.task.options) {
                Ok(id) => {
                    let place = &mut self.places[host];
                    let ticket = place.tickets > 0;
                    place.tickets = place.tickets.saturating_sub(1);
                    let wire = Wire::client(self.task.site.tls, &place.name, ticket);
                    let fetches = VecDeque::new();
                    let connection = Connection {
                        host,
                        request,
                        wire,
                        fetches,
                    };
                    self.connections.insert(id, connection);
                }
                Err(error) => {
                    let transfer = self.log.transfer();
                    transfer.failed_connections += 1;
                    transfer.error = Some(error);
                }
            }
        }
    }

    fn work(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        let mut came = Vec::new();
        loop {
            let Some(completed) = self.exchange(now, id, &mut came, stack) else {
                return;
            };
            self.complete(now, completed, stack);
        }
    }

    /// Asks for what waits, and takes what came; the object that is complete by that.
    fn exchange(
        &mut self,
        now: Instant,
        id: ConnectionId,
        came: &mut Vec<u8>,
        stack: &mut Stack,
    ) -> Option<u32> {
        let connection = self.connections.get_mut(&id)?;
        let endpoint = stack.connection(id)?;
        if endpoint.state() != TcpState::Established {
            return None;
        }
        match ask(&mut connection.request, endpoint) {
            Answer::Granted => connection.request = None,
            Answer::Say(_) => return None,
            Answer::Refused => {
                self.log.count("refused-by-proxy");
                endpoint.abort();
                return None;
            }
        }
        self.log
            .transfer()
            .connected_ns
            .get_or_insert(now.as_nanos());
        if let Err(fault) = connection.wire.work(endpoint, came) {
            self.log.count(fault.name());
            return None;
        }
        let place = &mut self.places[connection.host];
        let tickets = place.tickets + connection.wire.take_tickets();
        place.tickets = tickets.min(TICKETS_MAX);
        let waiting = &mut place.waiting;
        while self.task.site.http2 || connection.fetches.is_empty() {
            let Some(index) = waiting.pop_front() else {
                break;
            };
            let octets = self.task.sizes.get(index as usize).copied().unwrap_or(0);
            connection.fetches.push_back(Fetch {
                index,
                request: request(index, octets),
                head_left: RESPONSE_HEAD_OCTETS,
                arrived: 0,
            });
        }
        for fetch in &mut connection.fetches {
            let asked = connection.wire.send(endpoint, &fetch.request);
            fetch.request.drain(..asked);
            if !fetch.request.is_empty() {
                break;
            }
        }
        let fetch = connection.fetches.front_mut()?;
        let size = self.task.sizes.get(fetch.index as usize).copied();
        let size = size.unwrap_or(0);
        let head = fetch.head_left.min(came.len());
        fetch.head_left -= head;
        let body = (came.len() - head).min(usize::try_from(size - fetch.arrived).unwrap_or(0));
        let place = object_place(fetch.index) + fetch.arrived;
        let body: Vec<u8> = came.drain(..head + body).skip(head).collect();
        let wrong = self.task.content.count_wrong(place, &body);
        fetch.arrived += body.len() as u64;
        let (index, complete) = (fetch.index, fetch.head_left == 0 && fetch.arrived == size);
        if complete {
            connection.fetches.pop_front();
        }
        self.note(now, body.len() as u64, wrong);
        complete.then_some(index)
    }

    fn note(&mut self, now: Instant, octets: u64, wrong: u64) {
        if octets == 0 {
            return;
        }
        let before = self.log.transfer().octets;
        self.log.received(now, before, octets as u32);
        let transfer = self.log.transfer();
        transfer.octets += octets;
        transfer.wrong_octets += wrong;
    }

    fn complete(&mut self, now: Instant, index: u32, stack: &mut Stack) {
        let mark = ObjectMark {
            index,
            at_ns: now.as_nanos(),
            octets: self.task.sizes.get(index as usize).copied().unwrap_or(0),
        };
        self.log.transfer().objects.push(mark);
        self.done += 1;
        let objects = self.task.sizes.len() as u32;
        self.want(now, self.task.site.named_by(index, objects), stack);
        if self.done == self.task.sizes.len() {
            self.log.transfer().finished_ns = Some(now.as_nanos());
            for (id, connection) in &mut self.connections {
                if let Some(endpoint) = stack.connection(*id) {
                    connection.wire.close(endpoint);
                }
            }
        }
    }

    /// What a lost connection was fetching is fetched again from the beginning, by one that idles
    /// or a new one.
    fn lost(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        let Some(connection) = self.connections.remove(&id) else {
            return;
        };
        let host = connection.host;
        for fetch in connection.fetches.into_iter().rev() {
            self.places[host].waiting.push_front(fetch.index);
        }
        self.go_on(now, host, stack);
    }

    fn hear(
        &mut self,
        now: Instant,
        (from, port): (SocketAddr, u16),
        payload: &[u8],
        stack: &mut Stack,
    ) {
        for host in 0..self.places.len() {
            let place = &mut self.places[host];
            let look_up = place.look_up.as_mut();
            if let Some(address) = look_up.and_then(|it| it.hear(from, port, payload)) {
                place.address = Some(address);
                self.go_on(now, host, stack);
            }
        }
    }
}

/// Goes on asking somebody else for a connection, if that is to be done.
fn ask(request: &mut Option<(Request, Vec<u8>)>, endpoint: &mut dyn TcpEndpoint) -> Answer {
    let Some((request, said)) = request else {
        return Answer::Granted;
    };
    loop {
        let taken = endpoint.send(said);
        said.drain(..taken);
        // Nothing else is said before it is spoken to.
        let mut told = [0; 256];
        let count = endpoint.recv(&mut told);
        if count == 0 {
            return Answer::Say(Vec::new());
        }
        match request.hear(&told[..count]) {
            Answer::Say(more) => said.extend(more),
            answer => return answer,
        }
    }
}

impl Application for PageClient {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Timeout if self.start.is_some_and(|start| start <= now) => {
                self.begin(now, stack);
            }
            Event::Timeout => {
                let look_ups = self.places.iter_mut().filter_map(|it| it.look_up.as_mut());
                let due = look_ups.filter(|it| it.asks.is_some_and(|at| at <= now));
                due.for_each(|it| it.ask(now, stack));
            }
            Event::Datagram {
                from,
                port,
                payload,
                ..
            } => self.hear(now, (from, port), payload, stack),
            Event::Ready(id) => self.work(now, id, stack),
            Event::Closed { connection, error } => {
                let counters = stack.tcp_counters(connection);
                let transfer = self.log.transfer();
                transfer.tcp.merge(&counters);
                transfer.failed_connections += u64::from(error.is_some());
                transfer.error = error.or(transfer.error);
                self.lost(now, connection, stack);
            }
            _ => {}
        }
    }

    fn wake(&self) -> Option<Instant> {
        let look_ups = self.places.iter().filter_map(|it| it.look_up.as_ref());
        look_ups.filter_map(|it| it.asks).chain(self.start).min()
    }

    fn log(&self) -> &FlowLog {
        &self.log
    }
}
