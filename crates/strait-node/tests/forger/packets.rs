//! Packets that somebody on a link makes up: in the names of hosts, gateways and routers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use strait_wire::ethernet::Mac;
use strait_wire::ip::{self, EchoKind, IcmpError, Neighbour, Router};

use crate::dice::Dice;
use crate::traffic::{v4, v6};

/// A packet that changes what somebody believes, if anybody heeds it.
pub(crate) fn hostile(dice: &mut Dice, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    let end = dice.below(2);
    let own = Ipv6Addr::new(0xfd00, end as u16 + 1, 0, 0, 0, 0, 0, 1);
    let host = Ipv6Addr::new(0xfd00, end as u16 + 1, 0, 0, 0, 0, 0, 2);
    let near = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, dice.below(9) as u16);
    let src = [near, own, host][dice.below(3)];
    let dst = [ip::ALL_NODES, own, host][dice.below(3)];
    match dice.below(7) {
        0 => {
            let router = Router {
                lifetime_s: [0, 1800, 65_535][dice.below(3)],
                mac: Mac([2, 9, 9, 9, 9, 9]),
                mtu: [0, 68, 1280, 9000][dice.below(4)],
                prefixes: &[(host, 64), (Ipv6Addr::UNSPECIFIED, 0)],
            };
            router.build(src, dst, &mut out);
        }
        1 => {
            let neighbour = Neighbour {
                asks: dice.one_in(2),
                target: [own, host][dice.below(2)],
                mac: Some(Mac([2, 9, 9, 9, 9, 9])),
                router: dice.one_in(2),
                solicited: dice.one_in(2),
                overrides: true,
            };
            neighbour.build(src, dst, &mut out);
        }
        2 | 3 => {
            let about = dice.pick(packets).unwrap_or_default();
            let from = if about.first().is_some_and(|it| it >> 4 == 4) {
                v4(end)
            } else {
                v6(end)
            };
            let kind = [
                IcmpError::TimeExceeded,
                IcmpError::PacketTooBig { mtu: 68 },
                IcmpError::PacketTooBig { mtu: 1280 },
            ][dice.below(3)];
            ip::build_icmp_error(kind, from, &about, &mut out);
        }
        4 => {
            let strange: [IpAddr; 6] = [
                Ipv4Addr::new(10, 9, 0, 1).into(),
                Ipv4Addr::new(10, end as u8 + 1, 0, 1).into(),
                Ipv4Addr::LOCALHOST.into(),
                Ipv4Addr::BROADCAST.into(),
                Ipv4Addr::new(224, 0, 0, 1).into(),
                v4(end),
            ];
            let src = strange[dice.below(6)];
            let dst = strange[dice.below(6)];
            let hops = dice.octet(64);
            let (kind, number) = (EchoKind::Request, dice.0.draw() as u16);
            ip::build_echo(
                kind, src, dst, 0, hops, number, 7, number, &[7; 56], &mut out,
            );
        }
        5 => {
            // What a host said already, once more.
            out = dice.pick(packets).unwrap_or_default();
        }
        _ => {
            out = dice.pick(packets).unwrap_or_default();
            dice.mutate(&mut out);
        }
    }
    out
}
