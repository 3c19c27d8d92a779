//! A forged reply, where gateways answer from stored ones: what nobody said is believed for ten
//! seconds at most.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use strait_core::Instant;
use strait_core::chance::Stream;
use strait_wire::ip::{self, EchoKind, PacketInfo};

use crate::COST_S;
use crate::dice::Dice;
use crate::links::{ANSWERING, Link};
use crate::traffic::v4;
use crate::world::World;

/// An address at which nobody is.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 2, 0, 77));
const RIGHT: &[u8] = b"\x81\x80\x00\x01 right";
const WRONG: &[u8] = b"\x81\x80\x00\x01 wrong";

fn echo(kind: EchoKind, src: IpAddr, dst: IpAddr, number: u16) -> Vec<u8> {
    let mut out = Vec::new();
    ip::build_echo(kind, src, dst, 0, 64, 9, 7, number, &[7; 56], &mut out);
    out
}

/// A query with a number, or what it is answered with.
fn query(number: u16, answer: Option<&[u8]>) -> Vec<u8> {
    let [client, server] = [(v4(0), 4000), (v4(1), 53)].map(SocketAddr::from);
    let (src, dst) = if answer.is_some() {
        (server, client)
    } else {
        (client, server)
    };
    let mut payload = number.to_be_bytes().to_vec();
    payload.extend_from_slice(answer.unwrap_or(b"\x01\x00\x00\x01 what"));
    let mut out = Vec::new();
    ip::build_udp(src, dst, 0, 64, 9, 0, &payload, &mut out);
    out
}

/// The frames in which a gateway of such a link would say a packet.
fn frames(link: Link, packet: &[u8]) -> Vec<Vec<u8>> {
    let mut world = World::new(link, link.medium(), 1);
    world.run_until(Instant::from_secs(5));
    let before = world.seen.len();
    world.offer(1, packet);
    let said = world.seen[before..].iter().filter(|seen| seen.from == 1);
    said.map(|seen| seen.octets.clone()).collect()
}

/// The host at the second end answers what came to it from `before` on.
fn reply(world: &mut World, before: usize) {
    let asked: Vec<Vec<u8>> = world.delivered[before..]
        .iter()
        .filter(|it| it.to == 1)
        .map(|it| it.packet.clone())
        .collect();
    for packet in asked {
        let Ok(info) = PacketInfo::parse(&packet) else {
            continue;
        };
        if let Some((_, payload)) = ip::udp_payload(&packet) {
            let number = u16::from_be_bytes([payload[0], payload[1]]);
            world.offer(1, &query(number, Some(RIGHT)));
        } else if let Some(asked) = ip::parse_echo(&packet)
            && info.dst == v4(1)
        {
            let reply = echo(EchoKind::Reply, v4(1), v4(0), asked.sequence);
            world.offer(1, &reply);
        }
    }
}

/// Whether a packet says what nobody but the forger did.
fn is_wrong(packet: &[u8]) -> bool {
    let nobodys = PacketInfo::parse(packet).is_ok_and(|info| info.src == NOBODY);
    nobodys || packet.ends_with(WRONG)
}

#[test]
fn one_forged_reply_is_believed_for_ten_seconds() {
    let link = ANSWERING;
    let (mut believed, mut answered) = (0, 0);
    for seed in 1..=crate::RUNS {
        let mut dice = Dice(Stream::new(seed, "replies"));
        let mut world = World::new(link, link.medium(), seed);
        let forged_s = 5 + dice.below(40) as u64;
        let number = forged_s as u16;
        let packet = match dice.below(2) {
            0 => query(number, Some(WRONG)),
            _ => echo(EchoKind::Reply, NOBODY, v4(0), number),
        };
        // Before the right answer comes, or after it.
        let early = dice.one_in(2);
        for second in 1..100 {
            let before = world.delivered.len();
            world.run_until(Instant::from_secs(second));
            world.offer(0, &echo(EchoKind::Request, v4(0), v4(1), second as u16));
            world.offer(0, &echo(EchoKind::Request, v4(0), NOBODY, second as u16));
            world.offer(0, &query(second as u16, None));
            world.run_until(Instant::from_millis(second * 1000 + 200));
            let forge = |world: &mut World, now: bool| {
                if now && second == forged_s {
                    let said = frames(link, &packet);
                    said.iter().for_each(|octets| world.inject(0, octets));
                }
            };
            forge(&mut world, early);
            reply(&mut world, before);
            world.run_until(Instant::from_millis(second * 1000 + 700));
            forge(&mut world, !early);
        }
        world.check();
        let ends = Instant::from_secs(forged_s + 1 + COST_S);
        for it in world.delivered.iter().filter(|it| it.to == 0) {
            let wrong = is_wrong(&it.packet);
            believed += u64::from(wrong);
            answered += u64::from(!wrong);
            assert!(!wrong || it.at < ends, "seed {seed}: {:?}", it.at);
        }
    }
    // Each was believed for a while, and the others were served.
    assert!(believed > crate::RUNS && answered > 190 * crate::RUNS);
    println!("{believed} wrong answers, {answered} right ones");
}
