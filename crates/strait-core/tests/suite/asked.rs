//! Clients that the node is asked about.

use strait_core::node::Refusal;
use strait_wire::ip::Unreachable;

use super::*;

const TIMED_OUT: i32 = 110;
const NO_BUFFERS: i32 = 105;
const NOT_CONNECTED: i32 = 107;

/// Longer than a client waits before it asks again.
const AGAIN: Duration = Duration::from_millis(1300);
/// How long a question waits, where nothing else is said.
const ANSWER: Duration = Duration::from_secs(20);

/// Listens, and is asked about clients.
fn listen<W: World>(
    puppet: &Puppet,
    world: &mut W,
    change: impl FnOnce(&mut Listen),
) -> SocketAddr {
    let address = SocketAddr::new(world.node(), world.port());
    let mut listen = Listen {
        asks: Some(ANSWER),
        ..Listen::at(address)
    };
    change(&mut listen);
    puppet.socket(socket(1), SocketOp::Listen(listen));
    let bound = SocketEvent::Bound(address);
    puppet.hears(world, &Heard::Socket(socket(1), bound));
    address
}

/// The clients that it was asked about, in order.
pub fn questions(puppet: &Puppet) -> Vec<StreamId> {
    let asked = puppet.heard().into_iter().filter_map(|heard| match heard {
        Heard::Asked { id, .. } => Some(id),
        _ => None,
    });
    asked.collect()
}

/// Waits for so many questions; the last.
pub fn asked<W: World>(puppet: &Puppet, world: &mut W, count: usize) -> StreamId {
    until(world, "a question", |_| questions(puppet).len() >= count);
    assert_eq!(questions(puppet).len(), count);
    questions(puppet)[count - 1]
}

/// Octets go both ways.
pub fn works<W: World>(puppet: &Puppet, world: &mut W, id: StreamId, tcp: Tcp) {
    until_state(world, tcp, State::Open);
    until(world, "a client", |_| puppet.clients().contains(&id));
    puppet.stream(id, StreamOp::Credit(5));
    send_all(world, tcp, b"there");
    until(world, "octets", |_| puppet.data(id) == b"there");
    until(world, "credit", |_| puppet.writable(id) >= 4);
    puppet.stream(id, StreamOp::Send(b"back".to_vec()));
    assert_eq!(read_all(world, tcp, 4), b"back");
}

pub fn a_client_is_held_until_it_is_accepted<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let address = listen(&puppet, &mut world, |_| ());
    let tcp = world.connect(address, 18);
    let id = asked(&puppet, &mut world, 1);
    let known = puppet.heard().into_iter().find_map(|heard| match heard {
        Heard::Asked {
            listener,
            src,
            dst,
            dscp,
            mss,
            ..
        } => Some((listener, src, dst, dscp, mss)),
        _ => None,
    });
    let (listener, src, dst, dscp, mss) = known.unwrap();
    assert_eq!((listener, dst, dscp), (socket(1), address, 18));
    assert_eq!(src.ip(), world.host());
    // What an Ethernet's packets hold.
    assert!(
        mss.is_some_and(|mss| (1400..=1460).contains(&mss)),
        "{mss:?}"
    );
    world.run(SILENCE);
    assert_eq!(world.state(tcp), State::Opening);
    assert_eq!(puppet.clients(), []);
    puppet.stream(id, StreamOp::Accept);
    works(&puppet, &mut world, id, tcp);
    let opened = Heard::Opened {
        id,
        listener: Some(socket(1)),
        src,
        dst,
        dscp,
    };
    assert!(puppet.heard().contains(&opened));
    world.fin(tcp);
    puppet.hears(&mut world, &Heard::Fin(id));
    puppet.stream(id, StreamOp::Fin);
    until_state(&mut world, tcp, State::Drained);
}

pub fn a_held_client_is_asked_about_once<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let address = listen(&puppet, &mut world, |_| ());
    let tcp = world.connect(address, 0);
    let id = asked(&puppet, &mut world, 1);
    // It has asked again meanwhile; another has a question of its own.
    world.run(AGAIN);
    let other = world.connect(address, 0);
    let second = asked(&puppet, &mut world, 2);
    assert_ne!(id, second);
    puppet.stream(second, StreamOp::Accept);
    works(&puppet, &mut world, second, other);
    assert_eq!(world.state(tcp), State::Opening);
    puppet.stream(id, StreamOp::Accept);
    // Twice is once.
    puppet.stream(id, StreamOp::Accept);
    works(&puppet, &mut world, id, tcp);
    world.run(SILENCE);
    assert_eq!(questions(&puppet).len(), 2);
    assert!(
        !puppet
            .heard()
            .iter()
            .any(|it| matches!(it, Heard::Reset(..)))
    );
}

pub fn clients_are_refused_in_three_ways<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let address = listen(&puppet, &mut world, |_| ());
    let forbidden = Refusal::Unreachable(Unreachable::AdminProhibited);
    let ways = [
        (Refusal::Reset, State::Refused),
        (forbidden, State::Unreachable),
    ];
    for (count, (how, state)) in ways.into_iter().enumerate() {
        let tcp = world.connect(address, 0);
        let id = asked(&puppet, &mut world, count + 1);
        puppet.stream(id, StreamOp::Refuse(how));
        until_state(&mut world, tcp, state);
    }
    // Silence: it asks again, and that is another question.
    let tcp = world.connect(address, 0);
    let id = asked(&puppet, &mut world, 3);
    puppet.stream(id, StreamOp::Refuse(Refusal::Silence));
    world.run(SILENCE);
    assert_eq!(world.state(tcp), State::Opening);
    let again = asked(&puppet, &mut world, 4);
    assert_ne!(id, again);
    puppet.stream(again, StreamOp::Accept);
    works(&puppet, &mut world, again, tcp);
    // Who is refused is gone without a word.
    assert!(
        !puppet
            .heard()
            .iter()
            .any(|it| matches!(it, Heard::Reset(..)))
    );
}

pub fn refusals_by_icmp_have_a_limit<W: World>() {
    const CLIENTS: usize = 16;
    let (puppet, mut world) = Puppet::stage::<W>();
    let address = listen(&puppet, &mut world, |_| ());
    let clients: Vec<Tcp> = (0..CLIENTS).map(|_| world.connect(address, 0)).collect();
    asked(&puppet, &mut world, CLIENTS);
    let forbidden = Refusal::Unreachable(Unreachable::AdminProhibited);
    for id in questions(&puppet) {
        puppet.stream(id, StreamOp::Refuse(forbidden));
    }
    let is = |world: &mut W, state| {
        clients
            .iter()
            .filter(|it| world.state(**it) == state)
            .count()
    };
    until(&mut world, "ten refusals", |world| {
        is(world, State::Unreachable) >= 10
    });
    world.run(Duration::from_millis(300));
    // The others hear nothing, but for one each tenth of a second that the refusing took.
    let refused = is(&mut world, State::Unreachable);
    assert!(refused <= 13, "{refused} were told");
    assert_eq!(is(&mut world, State::Opening), CLIENTS - refused);
}

pub fn a_question_that_is_not_answered_is_forgotten<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let short = Some(Duration::from_millis(200));
    let address = listen(&puppet, &mut world, |listen| listen.asks = short);
    let tcp = world.connect(address, 0);
    let id = asked(&puppet, &mut world, 1);
    puppet.hears(&mut world, &Heard::Reset(id, TIMED_OUT));
    // Too late: it is told, and the client hears nothing.
    puppet.stream(id, StreamOp::Accept);
    puppet.hears(&mut world, &Heard::Reset(id, NOT_CONNECTED));
    puppet.stream(id, StreamOp::Refuse(Refusal::Reset));
    assert_eq!(world.state(tcp), State::Opening);
    let again = asked(&puppet, &mut world, 2);
    puppet.stream(again, StreamOp::Accept);
    works(&puppet, &mut world, again, tcp);
}

pub fn a_held_client_can_be_cut_off_like_any_other<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let address = listen(&puppet, &mut world, |_| ());
    let tcp = world.connect(address, 0);
    let id = asked(&puppet, &mut world, 1);
    // What isn't for who isn't there does nothing.
    puppet.stream(id, StreamOp::Credit(5));
    world.run(SILENCE);
    assert_eq!(world.state(tcp), State::Opening);
    puppet.stream(id, StreamOp::Reset(104));
    until_state(&mut world, tcp, State::Refused);
}

pub fn a_client_refused_after_it_was_accepted_is_reset<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let address = listen(&puppet, &mut world, |listen| listen.streams_max = 1);
    let forbidden = Refusal::Unreachable(Unreachable::AdminProhibited);
    for (count, how) in [Refusal::Reset, forbidden, Refusal::Silence]
        .into_iter()
        .enumerate()
    {
        let tcp = world.connect(address, 0);
        let id = asked(&puppet, &mut world, count + 1);
        puppet.stream(id, StreamOp::Accept);
        puppet.stream(id, StreamOp::Refuse(how));
        // The kernel has answered it.
        until_state(&mut world, tcp, State::Reset);
    }
    // Nobody has been told, and the place is free.
    assert_eq!(puppet.clients(), []);
    let reset = |it: &Heard| matches!(it, Heard::Reset(..));
    assert!(!puppet.heard().iter().any(reset));
    let tcp = world.connect(address, 0);
    let id = asked(&puppet, &mut world, 4);
    puppet.stream(id, StreamOp::Accept);
    works(&puppet, &mut world, id, tcp);
    // Of one that is there, it is too late to say so.
    puppet.stream(id, StreamOp::Refuse(Refusal::Reset));
    world.run(SILENCE);
    assert_eq!(world.state(tcp), State::Open);
}

pub fn clients_wait_before_they_are_asked_about<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let address = listen(&puppet, &mut world, |listen| listen.streams_max = 1);
    let [first, second] = [0; 2].map(|_| world.connect(address, 0));
    until(&mut world, "both", |_| questions(&puppet).len() == 2);
    let [one, other] = [0, 1].map(|n| questions(&puppet)[n]);
    puppet.stream(one, StreamOp::Accept);
    puppet.stream(other, StreamOp::Accept);
    puppet.hears(&mut world, &Heard::Reset(other, NO_BUFFERS));
    until(&mut world, "the first", |_| puppet.clients() == [one]);
    let open = |world: &mut W| {
        let states = [first, second].map(|tcp| world.state(tcp));
        states.iter().filter(|it| **it == State::Open).count()
    };
    until(&mut world, "a connection", |world| open(world) == 1);
    // The other asks in vain, and nobody is asked.
    world.run(AGAIN);
    assert_eq!((questions(&puppet).len(), open(&mut world)), (2, 1));
    puppet.stream(one, StreamOp::Reset(104));
    let again = asked(&puppet, &mut world, 3);
    puppet.stream(again, StreamOp::Accept);
    until(&mut world, "the other", |_| {
        puppet.clients() == [one, again]
    });
}

pub fn a_closed_listener_accepts_nobody<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let address = listen(&puppet, &mut world, |_| ());
    let tcp = world.connect(address, 0);
    let id = asked(&puppet, &mut world, 1);
    puppet.socket(socket(1), SocketOp::Close);
    puppet.stream(id, StreamOp::Accept);
    puppet.hears(&mut world, &Heard::Reset(id, NOT_CONNECTED));
    // It asks again, and hears that nobody listens.
    until_state(&mut world, tcp, State::Refused);
}

pub fn a_killed_node_leaves_nothing_behind<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let address = listen(&puppet, &mut world, |_| ());
    let held = world.connect(address, 0);
    asked(&puppet, &mut world, 1);
    world.kill();
    until_state(&mut world, held, State::Refused);
    let late = world.connect(address, 0);
    until_state(&mut world, late, State::Refused);
    world.restart();
    let bound = Heard::Socket(socket(1), SocketEvent::Bound(address));
    let count = |puppet: &Puppet| puppet.heard().iter().filter(|it| **it == bound).count();
    until(&mut world, "another life", |_| count(&puppet) == 2);
    let tcp = world.connect(address, 0);
    let next = asked(&puppet, &mut world, 2);
    puppet.stream(next, StreamOp::Accept);
    works(&puppet, &mut world, next, tcp);
}
