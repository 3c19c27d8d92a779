//! Partners that say themselves who is behind them.

use super::*;

/// A pair whose partners have no prefixes but those that they announce.
fn pair(near: &[&str], far: &[&str]) -> Pair {
    let parsed = |all: &[&str]| all.iter().map(|it| it.parse().unwrap()).collect();
    Pair::new(|config| {
        let is_near = config.partners[0].address == address("10.9.0.2:1").ip();
        config.announce = parsed(if is_near { near } else { far });
        config.partners[0].prefixes.clear();
    })
}

#[test]
fn what_a_partner_announces_is_behind_it() {
    let mut pair = pair(&["10.1.0.0/24"], &["10.2.0.0/24", "fd00:2::/64"]);
    assert_eq!(pair.sides.each_ref().map(|it| it.stats().announced), [2, 1]);
    let near = pair.ask(1, "10.2.0.2:80");
    let far = pair.take(1)[0].0;
    pair.open(1, far);
    assert_eq!(pair.take(0), [(near, StreamOp::Accept)]);
    // Nobody has said that he is behind the other side: he has his way as without it.
    let other = pair.ask(2, "10.3.0.2:80");
    assert_eq!(pair.take(0), [(other, StreamOp::Refuse(Refusal::Pass))]);
}

#[test]
fn who_says_nothing_is_responsible_for_nobody() {
    let mut pair = pair(&["10.1.0.0/24"], &[]);
    let near = pair.ask(1, "10.2.0.2:80");
    assert_eq!(pair.take(0), [(near, StreamOp::Refuse(Refusal::Pass))]);
}

#[test]
fn nobody_announces_the_hosts_of_the_other_side() {
    // The first one says that hosts of the second are its own, and speaks for one of them.
    let mut pair = pair(&["10.2.0.0/16", "10.1.0.0/24"], &["10.2.0.0/24"]);
    let id = StreamId {
        owner: OWNER,
        side: Side::Client,
        n: 1,
    };
    let asked = StreamEvent::Asked {
        listener: SocketId { owner: OWNER, n: 0 },
        src: address("10.2.0.7:40000"),
        dst: address("10.2.0.2:80"),
        dscp: 0,
        options: SynOptions::default(),
    };
    pair.tell(0, id, asked);
    let refused = pair.sides[1].stats();
    assert_eq!(refused.refused_by(ProxyRefusal::WrongSource), 1);
    assert_eq!(pair.take(1), []);
    assert_eq!(pair.take(0), [(id, refusal(Unreachable::AdminProhibited))]);
}
