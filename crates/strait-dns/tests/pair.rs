//! Both sides with a link between them that loses, doubles and delays, a resolver that isn't always
//! right, and a forger that guesses: by a seed (`STRAIT_SWARM_SEED`, `STRAIT_SWARM_RUNS`).

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, CNAME};
use hickory_proto::rr::{RData, Record};
use strait_core::chance::Stream;
use strait_core::prefix::Prefix;
use strait_core::{Duration, Instant};
use strait_dns::cache::Limits;
use strait_dns::{
    Client, Far, FarSettings, LinkState, Meant, Name, Near, NearSettings, RecordType, Wish, name,
};

const RIGHT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const FORGED: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 66);
const PATIENCE: Duration = Duration::from_secs(9);

/// What happens later.
enum Event {
    ToFar(Vec<u8>),
    ToNear(Vec<u8>),
    FromResolver(u32, SocketAddr, Vec<u8>),
    FromStream(u32, Vec<u8>),
}

/// How things are in a run.
struct Weather {
    /// One of so many frames is lost, and doubled; none if 0.
    loss: u64,
    double: u64,
    delay: Duration,
    bit_s: u64,
    /// One of so many questions is answered wrongly, or not at all.
    wrong: u64,
    /// The forger guesses, and what he says.
    forges: bool,
    /// One of the gateways begins anew now and then.
    restarts: bool,
    /// Names have addresses before they are known.
    ahead: bool,
}

struct World {
    near: Near,
    far: Far,
    now: Instant,
    weather: Weather,
    chance: Stream,
    events: BTreeMap<(Instant, u64), Event>,
    count: u64,
    /// By client's socket and number, when a question was asked that has no reply.
    open: BTreeMap<(SocketAddr, u16), Instant>,
    /// Questions that crossed, by their octets without the number.
    crossed: BTreeMap<Vec<u8>, u32>,
    crossed_octets: u64,
    /// Octets of what nobody waits for, both ways.
    quiet_octets: u64,
    /// What names have now.
    right: Ipv4Addr,
    answered: u64,
    failed: u64,
    /// Addresses by which names go that are asked for often.
    ahead: BTreeMap<Name, Ipv4Addr>,
}

fn resolver() -> SocketAddr {
    SocketAddr::from(([10, 2, 0, 2], 53))
}

fn near(seed: u64, ahead: bool) -> Near {
    let settings = NearSettings {
        limits: Limits {
            entries: 64,
            octets: 12_000,
            stale: Duration::from_secs(600),
        },
        patience: PATIENCE,
        clients: vec![Prefix::new([10, 1, 0, 0].into(), 16).unwrap()],
        saves: true,
        zones: vec![vec![Name::root()]],
        rules: Vec::new(),
        watches: true,
        ahead: ahead.then_some(strait_dns::ahead::RANGE),
        tells_ahead: ahead,
    };
    Near::new(settings, seed)
}

fn far(seed: u64) -> Far {
    let settings = FarSettings {
        resolvers: vec![resolver()],
        zones: Vec::new(),
        partners: 1,
    };
    Far::new(settings, seed)
}

impl World {
    fn new(seed: u64, weather: Weather) -> Self {
        Self {
            near: near(seed, weather.ahead),
            far: far(seed),
            now: Instant::ZERO,
            weather,
            chance: Stream::new(seed, "dns.pair"),
            events: BTreeMap::new(),
            count: 0,
            open: BTreeMap::new(),
            crossed: BTreeMap::new(),
            crossed_octets: 0,
            quiet_octets: 0,
            right: RIGHT,
            answered: 0,
            failed: 0,
            ahead: BTreeMap::new(),
        }
    }

    fn happens(&mut self, one_of: u64) -> bool {
        one_of > 0 && self.chance.below(one_of) == 0
    }

    fn later(&mut self, after: Duration, event: Event) {
        self.count += 1;
        self.events.insert((self.now + after, self.count), event);
    }

    fn cross(&mut self, event: impl Fn() -> Event) {
        if self.happens(self.weather.loss) {
            return;
        }
        let spread = Duration::from_millis(self.chance.below(50));
        self.later(self.weather.delay + spread, event());
        if self.happens(self.weather.double) {
            self.later(self.weather.delay * 2, event());
        }
    }

    fn link(&self) -> LinkState {
        LinkState {
            turnaround: self.weather.delay * 2 + Duration::from_secs(1),
            bit_s: self.weather.bit_s,
        }
    }

    /// Lets everything happen that happens now.
    fn settle(&mut self) {
        let link = Some(self.link());
        self.near.set_link(0, link);
        self.near.tend(self.now);
        self.far.tend(self.now);
        while let Some(frame) = self.near.poll_frame(self.now, 0) {
            let mut unnumbered = frame.clone();
            unnumbered[1..3].fill(0);
            *self.crossed.entry(unnumbered).or_default() += 1;
            self.crossed_octets += frame.len() as u64 + 28;
            self.cross(|| Event::ToFar(frame.clone()));
        }
        while let Some((_, frame)) = self.far.poll_frame() {
            self.cross(|| Event::ToNear(frame.clone()));
        }
        while let Some(frame) = self.near.poll_quiet(self.now, 0) {
            self.quiet_octets += frame.len() as u64 + 28;
            self.cross(|| Event::ToFar(frame.clone()));
        }
        while let Some((_, frame)) = self.far.poll_quiet() {
            self.quiet_octets += frame.len() as u64 + 28;
            self.cross(|| Event::ToNear(frame.clone()));
        }
        while let Some((n, wish)) = self.far.poll_wish() {
            match wish {
                Wish::Send(_, question) => self.resolve(n, &question),
                Wish::Connect(_, question) => {
                    let question = Message::from_vec(&question).unwrap();
                    let octets = answer(&question, self.right).to_vec().unwrap();
                    let length = (octets.len() as u16).to_be_bytes();
                    let event = Event::FromStream(n, [&length[..], &octets].concat());
                    self.later(Duration::from_millis(40), event);
                }
                Wish::Open(_) | Wish::Close => {}
            }
        }
        while let Some((client, reply)) = self.near.poll_reply() {
            self.take(client, &reply);
        }
        for address in self.ahead.values() {
            let meant = self.far.meant(self.now, 0, *address);
            let other = |it: &Meant| matches!(it, Meant::Address(real) if *real != self.right);
            assert!(!other(&meant), "somebody else is meant: {meant:?}");
        }
        self.near.check();
        self.far.check();
    }

    /// The resolver, and who would like to be it.
    fn resolve(&mut self, n: u32, question: &[u8]) {
        let question = Message::from_vec(question).unwrap();
        if self.weather.forges {
            for guess in 0..3 {
                let mut forged = answer(&question, FORGED);
                match guess {
                    0 => forged.metadata.id ^= 1 + self.chance.below(65_535) as u16,
                    1 => {
                        let lower = question.queries[0].name.to_lowercase();
                        if lower.eq_case(&question.queries[0].name) {
                            continue;
                        }
                        forged.queries[0].name = lower;
                    }
                    _ => {
                        // The resolver itself says more than it was asked: others' addresses.
                        forged = answer(&question, self.right);
                        let own = question.queries[0].name.to_lowercase();
                        for bank in ["bank.example.", "www.bank.example."] {
                            let record = address(bank, FORGED);
                            if record.name != own {
                                forged.answers.insert(0, record.clone());
                                forged.authorities.push(record.clone());
                                forged.additionals.push(record);
                            }
                        }
                    }
                }
                let octets = forged.to_vec().unwrap();
                self.later(
                    Duration::from_millis(1),
                    Event::FromResolver(n, resolver(), octets),
                );
            }
            // By another address, and by another port.
            for stranger in [([10, 2, 0, 3], 53), ([10, 2, 0, 2], 5353)] {
                let octets = answer(&question, FORGED).to_vec().unwrap();
                let event = Event::FromResolver(n, stranger.into(), octets);
                self.later(Duration::from_millis(1), event);
            }
        }
        let mut right = answer(&question, self.right);
        if self.happens(self.weather.wrong) {
            match self.chance.below(4) {
                0 => return,
                1 => right.metadata.truncation = true,
                2 => right.metadata.response_code = ResponseCode::ServFail,
                _ => right.answers.clear(),
            }
        }
        let octets = right.to_vec().unwrap();
        self.later(
            Duration::from_millis(20),
            Event::FromResolver(n, resolver(), octets),
        );
    }

    /// A client hears something: once, in time, and nothing that a forger says.
    fn take(&mut self, client: Client, reply: &[u8]) {
        let reply = Message::from_vec(reply).unwrap();
        let asked = self.open.remove(&(client.address, reply.metadata.id));
        let asked = asked.expect("a reply to nothing, or a second one");
        assert!(self.now <= asked + PATIENCE, "a reply that is late");
        let forged = |it: &Record| it.data == RData::A(A(FORGED));
        assert!(!reply.all_sections().any(forged), "a forger is believed");
        let name = &reply.queries[0].name;
        let address = reply.answers.first().and_then(|it| match it.data {
            RData::A(address) => Some(address.0),
            _ => None,
        });
        let ahead = address.filter(|it| strait_dns::ahead::RANGE.contains((*it).into()));
        if let Some(ahead) = ahead.filter(|_| name.to_ascii().starts_with('n')) {
            let before = *self.ahead.entry(name.clone()).or_insert(ahead);
            assert_eq!(before, ahead, "a name has another address");
        }
        if reply.answers.is_empty() {
            self.failed += 1;
        } else {
            self.answered += 1;
        }
    }

    fn ask(&mut self, host: u8, id: u16, text: &str) {
        let mut message = Message::new(id, MessageType::Query, OpCode::Query);
        message.add_query(Query::query(name::parse(text).unwrap(), RecordType::A));
        let client = Client {
            socket: 0,
            address: SocketAddr::from(([10, 1, 0, host], 4000)),
            local: SocketAddr::from(([10, 1, 0, 1], 53)),
            stream: None,
        };
        self.open.entry((client.address, id)).or_insert(self.now);
        let octets = message.to_vec().unwrap();
        self.near.hear_client(self.now, client, &octets);
        self.settle();
    }

    /// Time goes on.
    fn run_until(&mut self, end: Instant) {
        loop {
            let event = self.events.first_key_value().map(|(key, _)| key.0);
            let wakes = [self.near.wake(), self.far.wake()];
            let next = wakes.into_iter().flatten().chain(event).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return self.settle();
            };
            assert!(next >= self.now, "time goes back");
            self.now = next;
            while let Some(entry) = self.events.first_entry().filter(|it| it.key().0 <= next) {
                match entry.remove() {
                    Event::ToFar(frame) => self.far.hear_partner(next, 0, &frame),
                    Event::ToNear(frame) => self.near.hear_partner(next, 0, &frame),
                    Event::FromResolver(n, from, octets) => {
                        self.far.hear_resolver(next, n, from, &octets);
                    }
                    Event::FromStream(n, octets) => self.far.hear_stream(next, n, &octets),
                }
            }
            self.settle();
            let wakes = [self.near.wake(), self.far.wake()];
            let done = wakes.into_iter().flatten().all(|at| at > self.now);
            assert!(done, "something that is due isn't done");
        }
    }
}

fn address(owner: &str, address: Ipv4Addr) -> Record {
    let owner = Name::from_ascii(owner).unwrap();
    Record::from_rdata(owner, 60, RData::A(A(address)))
}

/// An answer, by an alias.
fn answer(question: &Message, to: Ipv4Addr) -> Message {
    let mut answer = question.clone();
    answer.metadata.message_type = MessageType::Response;
    let end = Name::from_ascii("end.example.").unwrap();
    let owner = question.queries[0].name.clone();
    let alias = RData::CNAME(CNAME(end));
    answer.answers.push(Record::from_rdata(owner, 60, alias));
    answer.answers.push(address("end.example.", to));
    answer
}

fn setting(variable: &str, usual: u64) -> u64 {
    let said = std::env::var(variable).ok();
    said.and_then(|it| it.parse().ok()).unwrap_or(usual)
}

#[test]
fn every_question_has_one_reply_in_time_and_no_forger_is_believed() {
    let first = setting("STRAIT_SWARM_SEED", 1);
    let (mut answered, mut asked, mut known) = (0, 0, 0);
    for seed in first..first + setting("STRAIT_SWARM_RUNS", 40) {
        let mut draw = Stream::new(seed, "weather");
        let weather = Weather {
            loss: [0, 0, 20, 3][draw.below(4) as usize],
            double: [0, 5][draw.below(2) as usize],
            delay: Duration::from_millis([5, 300, 3000, 7000][draw.below(4) as usize]),
            bit_s: [300, 2400, 1_000_000][draw.below(3) as usize],
            wrong: [0, 4][draw.below(2) as usize],
            forges: draw.below(2) == 0,
            restarts: draw.below(4) == 0,
            ahead: draw.below(2) == 0,
        };
        let mut world = World::new(seed, weather);
        for number in 0..400u16 {
            let pause = Duration::from_millis(draw.below(1000));
            world.run_until(world.now + pause);
            let host = 2 + draw.below(5) as u8;
            let text = match draw.below(12) {
                0..4 => format!("chance{number}.example"),
                4 => "bank.example".into(),
                5 => "www.bank.example".into(),
                _ => format!("n{}.example", draw.below(8)),
            };
            world.ask(host, number, &text);
            if world.weather.restarts && draw.below(50) == 0 {
                if draw.below(2) == 0 {
                    let saved = world.near.memory_mut().saved(world.now);
                    world.near = near(seed + u64::from(number), world.weather.ahead);
                    world.near.memory_mut().restore(world.now, &saved);
                    world.open.clear();
                } else {
                    world.far = far(seed + u64::from(number));
                }
            }
        }
        world.run_until(world.now + Duration::from_secs(700));
        assert!(world.open.is_empty(), "seed {seed}: {:?}", world.open);
        if world.weather.loss == 0 && world.weather.wrong == 0 {
            // Whoever goes on sending gets to whom he means, whatever began anew.
            let (now, far) = (world.now, &mut world.far);
            let meant = |it: &Ipv4Addr| far.meant(now, 0, *it) == Meant::Address(RIGHT.into());
            assert!(world.ahead.values().all(meant), "seed {seed}");
            known += world.ahead.len();
        }
        answered += world.answered;
        asked += world.answered + world.failed;
    }
    assert!(answered * 2 > asked, "{answered} of {asked}");
    assert!(known > 0, "no name went by an address");
}

#[test]
fn a_name_crosses_once_where_nothing_is_lost() {
    for delay_ms in [5, 500, 7000, 30_000] {
        let weather = Weather {
            loss: 0,
            double: 0,
            delay: Duration::from_millis(delay_ms),
            bit_s: 2400,
            wrong: 0,
            forges: true,
            restarts: false,
            ahead: false,
        };
        let mut world = World::new(delay_ms, weather);
        // A resolver that asks again each second, on each of five hosts, for less than the 56 s
        // that an octet says of the answer's 60.
        for second in 0..50 + 2 * delay_ms / 1000 {
            for host in 2..7 {
                world.ask(host, second as u16, "www.example");
            }
            world.run_until(world.now + Duration::from_secs(1));
        }
        let crossed: u32 = world.crossed.values().sum();
        assert_eq!(crossed, 1, "{delay_ms} ms");
        assert!(world.answered > 0);
    }
}

#[test]
fn names_by_chance_take_a_quarter_of_the_line_at_most() {
    let weather = Weather {
        loss: 0,
        double: 0,
        delay: Duration::from_millis(300),
        bit_s: 2400,
        wrong: 0,
        forges: false,
        restarts: false,
        ahead: false,
    };
    let mut world = World::new(1, weather);
    for number in 0..20_000u16 {
        world.ask(
            2 + (number % 200) as u8,
            number,
            &format!("chance{number}.example"),
        );
        world.run_until(world.now + Duration::from_millis(5));
    }
    let seconds = 20_000 * 5 / 1000;
    assert!(
        world.crossed_octets * 8 * 4 <= 2400 * seconds * 11 / 10,
        "{}",
        world.crossed_octets
    );
    assert!(world.near.cache().len() <= 64);
}

#[test]
fn question_and_answer_of_an_address_have_forty_octets_at_most() {
    let weather = Weather {
        loss: 0,
        double: 0,
        delay: Duration::from_millis(5),
        bit_s: 1_000_000,
        wrong: 0,
        forges: false,
        restarts: false,
        ahead: false,
    };
    let mut world = World::new(1, weather);
    let mut draw = Stream::new(1, "names");
    let mut letters = |least: u64, more: u64| -> String {
        let length = least + draw.below(more);
        (0..length)
            .map(|_| char::from(b'a' + draw.below(26) as u8))
            .collect()
    };
    for number in 0..1000u16 {
        // Letters by chance, as long as names of hosts are.
        let text = format!("{}.{}.{}", letters(3, 6), letters(4, 12), letters(2, 2));
        world.ask(2, number, &text);
        world.run_until(world.now + Duration::from_millis(200));
    }
    assert_eq!(world.answered, 1000);
    let (near, far) = (world.near.stats(), world.far.stats());
    assert_eq!((near.asked, near.asked_again, far.served), (1000, 0, 1000));
    let mean = (near.octets_out + far.octets_out) as f64 / 1000.0;
    assert!(mean <= 40.0, "{mean} octets");
    println!("question and answer: {mean} octets");
}

/// A world in which nothing is wrong but that frames are lost.
fn calm(seed: u64, loss: u64) -> World {
    let weather = Weather {
        loss,
        double: 0,
        delay: Duration::from_millis(300),
        bit_s: 2400,
        wrong: 0,
        forges: false,
        restarts: false,
        ahead: false,
    };
    World::new(seed, weather)
}

/// Eight names are asked for once a minute; the numbers of messages begin with `from`.
fn use_names(world: &mut World, from: u16, minutes: u16) {
    for minute in from..from + minutes {
        for name in 0..8 {
            world.ask(2, minute * 8 + name, &format!("n{name}.example"));
        }
        world.run_until(world.now + Duration::from_secs(60));
    }
}

#[test]
fn names_in_use_that_stay_as_they_are_cost_a_word_now_and_then() {
    let mut world = calm(1, 0);
    // Once for each name, and once more when the first answer is old: it is in use.
    use_names(&mut world, 0, 4);
    let crossed = world.near.stats().asked;
    assert_eq!((crossed, world.near.stats().fresh.watched), (16, 8));
    use_names(&mut world, 4, 1440);
    let (near, far) = (world.near.stats(), world.far.stats());
    assert_eq!((near.asked, near.fresh.changes), (16, 0));
    assert!(far.resolvers.resolved > 10_000, "they aren't kept fresh");
    // A sum each 15 minutes, 33 octets with headers, and twice a day what is taken to be fresh.
    assert!(
        world.quiet_octets < 96 * 33 + 3 * 61,
        "{}",
        world.quiet_octets
    );
    // A change is told within the minute after a resolver said it.
    world.right = Ipv4Addr::new(192, 0, 2, 2);
    world.run_until(world.now + Duration::from_secs(121));
    let near = world.near.stats();
    assert_eq!((near.asked, near.fresh.changes), (16, 8));
}

#[test]
fn what_is_kept_fresh_is_right_again_soon_whatever_is_lost_and_whoever_starts_anew() {
    for seed in 1..9 {
        let mut world = calm(seed, 3);
        use_names(&mut world, 0, 30);
        assert!(world.near.stats().fresh.watched > 0);
        match seed % 3 {
            0 => {
                world.near = near(seed, false);
                world.open.clear();
            }
            1 => world.far = far(seed),
            _ => {}
        }
        world.right = Ipv4Addr::new(192, 0, 2, 2);
        use_names(&mut world, 30, 90);
        for (key, body, _) in world.near.cache().iter() {
            assert_eq!(body.records, [[192, 0, 2, 2]], "{seed}: {}", key.name);
        }
        // Both know the same in the end, when nothing is lost any more.
        world.weather.loss = 0;
        use_names(&mut world, 120, 40);
        let (near, far) = (world.near.stats(), world.far.stats());
        assert_eq!(near.fresh.watched, far.fresh.watching, "{seed}");
    }
}
