//! What is to become of some names, before anybody is asked.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use hickory_proto::rr::{Name, RecordType};

use crate::body::{Body, Outcome};
use crate::message::{Question, cause};

/// How long an answer by a rule lives: whoever changes the file wants it to count soon.
const LIFE_S: u32 = 60;

/// What is to become of the names of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The zone. Of several the longest counts, and that alone.
    pub zone: Name,
    /// What.
    pub act: Act,
}

/// What is to become of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// There is no such name.
    Block,
    /// It has no IPv6 address.
    NoIpv6,
    /// These names with their addresses are there, and no others. In small letters.
    Hosts(BTreeMap<Name, Vec<IpAddr>>),
    /// This gateway asks resolvers of its own.
    Own,
}

/// What rules say to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Ask,
    /// That this gateway asks itself.
    AskHere,
    /// An answer, and more of it by its number in RFC 8914.
    Say(Body, Option<u16>),
}

/// What rules say to a question.
pub(crate) fn judge(rules: &[Rule], question: &Question) -> Verdict {
    let own = rules.iter().filter(|it| it.zone.zone_of(&question.name));
    let Some(rule) = own.max_by_key(|it| it.zone.num_labels()) else {
        return Verdict::Ask;
    };
    let missing = |outcome| Body::missing(outcome, LIFE_S, rule.zone.num_labels());
    match &rule.act {
        Act::Block => Verdict::Say(missing(Outcome::NoName), Some(cause::BLOCKED)),
        Act::NoIpv6 if question.kind == RecordType::AAAA => {
            Verdict::Say(missing(Outcome::NoData), Some(cause::FILTERED))
        }
        Act::NoIpv6 => Verdict::Ask,
        Act::Own => Verdict::AskHere,
        Act::Hosts(hosts) => {
            let own = hosts.get(&question.name.to_lowercase());
            let body = match own {
                Some(addresses) => {
                    records(question.kind, addresses).unwrap_or_else(|| missing(Outcome::NoData))
                }
                // What others are under is there, and has nothing.
                None if hosts.keys().any(|it| question.name.zone_of(it)) => {
                    missing(Outcome::NoData)
                }
                None => missing(Outcome::NoName),
            };
            Verdict::Say(body, None)
        }
    }
}

/// The addresses of a type, if there are any.
fn records(kind: RecordType, addresses: &[IpAddr]) -> Option<Body> {
    let of_kind = addresses.iter().filter_map(|it| match (kind, it) {
        (RecordType::A, IpAddr::V4(ip)) => Some(ip.octets().to_vec()),
        (RecordType::AAAA, IpAddr::V6(ip)) => Some(ip.octets().to_vec()),
        _ => None,
    });
    let records: Vec<Vec<u8>> = of_kind.collect();
    (!records.is_empty()).then_some(Body {
        records,
        ..Body::empty(Outcome::Records, LIFE_S)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::vec;

    use crate::frame::Care;
    use crate::name;

    fn said(rules: &[Rule], text: &str, kind: RecordType) -> Verdict {
        let question = Question {
            id: 1,
            name: name::parse(text).unwrap(),
            kind,
            care: Care::default(),
            signed: false,
            recursion: true,
            takes: None,
        };
        judge(rules, &question)
    }

    #[test]
    fn the_longest_zone_counts_alone() {
        let rule = |zone: &str, act| Rule {
            zone: name::parse(zone).unwrap(),
            act,
        };
        let hosts = [
            ("a.ship.example", vec!["10.1.0.9", "fd00::9"]),
            ("c.b.ship.example", vec!["10.1.0.8"]),
        ];
        let hosts = hosts.into_iter().map(|(host, addresses)| {
            let addresses = addresses.iter().map(|it| it.parse().unwrap());
            (name::parse(host).unwrap(), addresses.collect())
        });
        let rules = [
            rule(".", Act::NoIpv6),
            rule("ads.example", Act::Block),
            rule("ship.example", Act::Hosts(hosts.collect())),
            rule("lan", Act::Own),
        ];
        let (v4, v6) = (RecordType::A, RecordType::AAAA);
        assert_eq!(said(&rules, "www.example", v4), Verdict::Ask);
        let Verdict::Say(none, Some(cause::FILTERED)) = said(&rules, "www.example", v6) else {
            panic!("an IPv6 address is asked for");
        };
        assert_eq!((none.outcome, none.zone), (Outcome::NoData, 0));
        let Verdict::Say(blocked, Some(cause::BLOCKED)) = said(&rules, "x.ads.example", v4) else {
            panic!("a blocked name is asked for");
        };
        assert_eq!((blocked.outcome, blocked.zone), (Outcome::NoName, 2));
        assert_eq!(said(&rules, "roads.example", v4), Verdict::Ask);
        assert_eq!(said(&rules, "printer.lan", v6), Verdict::AskHere);
        let outcome = |text, kind| match said(&rules, text, kind) {
            Verdict::Say(body, None) => (body.outcome, body.records),
            other => panic!("{other:?}"),
        };
        let there = (Outcome::Records, vec![vec![10, 1, 0, 9]]);
        assert_eq!(outcome("A.Ship.example", v4), there);
        assert_eq!(outcome("a.ship.example", v6).1[0].len(), 16);
        assert_eq!(outcome("c.b.ship.example", v6).0, Outcome::NoData);
        assert_eq!(outcome("b.ship.example", v4).0, Outcome::NoData);
        assert_eq!(outcome("d.ship.example", v4).0, Outcome::NoName);
    }
}
