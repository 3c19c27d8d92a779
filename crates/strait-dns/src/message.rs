//! Messages of DNS: what a client asks and hears, what a resolver is asked and answers.
//!
//! Of a resolver's answer counts what was asked for: the chain of aliases from the name on, and the
//! records at its end. All else in it, whoever's names those are, is left alone.

use alloc::vec;
use alloc::vec::Vec;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};
use hickory_proto::rr::rdata::{NULL, SOA};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder, NameEncoding};

use crate::body::{Body, LIFE_MAX_S, Outcome};
use crate::frame::Care;

/// Causes of RFC 8914 section 4.
pub mod cause {
    /// Stale Answer.
    pub const STALE: u16 = 3;
    /// Blocked.
    pub const BLOCKED: u16 = 15;
    /// Filtered.
    pub const FILTERED: u16 = 17;
    /// Prohibited.
    pub const PROHIBITED: u16 = 18;
    /// Stale NXDOMAIN Answer.
    pub const STALE_NO_NAME: u16 = 19;
    /// No Reachable Authority.
    pub const UNREACHABLE: u16 = 22;
    /// Network Error.
    pub const NETWORK: u16 = 23;
    /// Not Ready.
    pub const NOT_READY: u16 = 14;
    /// Invalid Data.
    pub const INVALID: u16 = 24;
    /// Other Error.
    pub const OTHER: u16 = 0;
}

/// Octets of a message that whoever says nothing of it takes (RFC 1035 section 4.2.1).
const PLAIN_OCTETS: u16 = 512;
/// What we take over UDP, and send at most to who takes more: no path breaks it up.
pub const UDP_OCTETS: u16 = 1232;
/// What resolvers may send: they are near, and fragments come.
const UPSTREAM_OCTETS: u16 = 4096;
/// Aliases of one name that are followed.
const ALIASES_MAX: usize = 16;
/// How long a name is missing whose zone doesn't say it, and at most (RFC 2308 section 5).
const MISSING_S: u32 = 60;
const MISSING_MAX_S: u32 = 10_800;

/// A client's question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The number of its message.
    pub id: u16,
    /// The name, with letters as the client wrote them.
    pub name: Name,
    /// The type.
    pub kind: RecordType,
    /// For whom.
    pub care: Care,
    /// It wants signatures (DO of RFC 3225).
    pub signed: bool,
    /// It wants recursion.
    pub recursion: bool,
    /// What it takes, if it knows of extended DNS.
    pub takes: Option<u16>,
}

impl Question {
    /// A gateway's own.
    pub(crate) fn of(name: Name, kind: RecordType) -> Self {
        Self {
            id: 0,
            name,
            kind,
            care: Care::default(),
            signed: false,
            recursion: true,
            takes: None,
        }
    }
}

/// What a client's message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A question.
    Question(Question),
    /// Something that is answered at once.
    Wrong(Vec<u8>),
    /// Nothing to be answered.
    Nothing,
}

/// Makes an answer as short as its question: whoever asked in earnest asks again by a stream (TC of
/// RFC 1035).
pub(crate) fn cut(reply: &mut Vec<u8>) {
    const HEADER_OCTETS: usize = 12;
    let name = reply.get(HEADER_OCTETS..).unwrap_or_default();
    // The question stands first, with its name in whole.
    let question = name.iter().position(|octet| *octet == 0);
    let Some(question) = question.map(|end| HEADER_OCTETS + end + 5) else {
        return;
    };
    reply.truncate(question);
    reply[2] |= 0x02;
    reply[6..HEADER_OCTETS].fill(0);
}

/// Reads a client's message.
pub fn hear(octets: &[u8]) -> Heard {
    let Ok(message) = Message::from_vec(octets) else {
        return malformed(octets);
    };
    let head = message.metadata;
    if head.message_type != MessageType::Query {
        return Heard::Nothing;
    }
    let wrong = |code| {
        let mut reply = Message::error_msg(head.id, head.op_code, code);
        reply.metadata.recursion_desired = head.recursion_desired;
        if message.edns.is_some() {
            reply.set_edns(own_edns(false));
        }
        Heard::Wrong(reply.to_vec().unwrap_or_default())
    };
    if head.op_code != OpCode::Query {
        return wrong(ResponseCode::NotImp);
    }
    if message.edns.as_ref().is_some_and(|it| it.version() > 0) {
        return wrong(ResponseCode::BADVERS);
    }
    let [query] = &message.queries[..] else {
        return wrong(ResponseCode::FormErr);
    };
    let kind = query.query_type;
    // Zones, and all that there is of a name, aren't for a link like this (RFC 8482).
    let number = u16::from(kind);
    if query.query_class != DNSClass::IN || (128..=255).contains(&number) || number == 41 {
        return wrong(ResponseCode::Refused);
    }
    let signed = message.edns.as_ref().is_some_and(|it| it.flags().dnssec_ok);
    let unchecked = head.checking_disabled;
    Heard::Question(Question {
        id: head.id,
        name: query.name.clone(),
        kind,
        care: Care {
            verifies: signed || unchecked,
            unchecked,
        },
        signed,
        recursion: head.recursion_desired,
        takes: message.edns.as_ref().map(Edns::max_payload),
    })
}

/// What has a head, and isn't an answer, is told that it is wrong.
fn malformed(octets: &[u8]) -> Heard {
    let Some([id0, id1, flags]) = octets.first_chunk().filter(|_| octets.len() >= 12) else {
        return Heard::Nothing;
    };
    if flags & 0x80 != 0 {
        return Heard::Nothing;
    }
    let id = u16::from_be_bytes([*id0, *id1]);
    let reply = Message::error_msg(id, OpCode::Query, ResponseCode::FormErr);
    Heard::Wrong(reply.to_vec().unwrap_or_default())
}

fn own_edns(verifies: bool) -> Edns {
    let mut edns = Edns::new();
    edns.set_max_payload(UDP_OCTETS).set_dnssec_ok(verifies);
    edns
}

/// How an answer is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// For so many seconds from now on.
    pub life_s: u32,
    /// More of it, by its number in RFC 8914.
    pub cause: Option<u16>,
    /// By a stream, which takes messages of any length.
    pub stream: bool,
}

/// The answer to a client.
pub fn reply(question: &Question, body: &Body, manner: Manner) -> Vec<u8> {
    let mut reply = Message::response(question.id, OpCode::Query);
    let query = Query::query(question.name.clone(), question.kind);
    reply.metadata.recursion_desired = question.recursion;
    reply.metadata.recursion_available = true;
    reply.metadata.checking_disabled = question.care.unchecked;
    let mut cause = manner.cause;
    match body.outcome {
        Outcome::Records => {
            // The library makes no record of nothing.
            let records = body.records.iter().filter(|it| !it.is_empty());
            let records = records.map(|data| {
                Record::from_rdata(
                    question.name.clone(),
                    manner.life_s,
                    RData::Unknown {
                        code: question.kind,
                        rdata: NULL::with(data.clone()),
                    },
                )
            });
            reply.answers.extend(records);
        }
        Outcome::NoData | Outcome::NoName => {
            if body.outcome == Outcome::NoName {
                reply.metadata.response_code = ResponseCode::NXDomain;
            }
            let zone = question.name.trim_to(body.zone.into());
            reply.add_authority(authority(zone, manner.life_s));
        }
        Outcome::Message => adopt(&mut reply, question, &body.records, manner.life_s),
        Outcome::Failure(number) => {
            reply.metadata.response_code = ResponseCode::ServFail;
            cause = cause.or(Some(number));
        }
    }
    reply.add_query(query);
    if question.takes.is_some() {
        let mut edns = own_edns(question.signed);
        if let Some(number) = cause {
            let data = number.to_be_bytes().to_vec();
            edns.options_mut()
                .insert(EdnsOption::Unknown(EXTENDED_ERROR, data));
        }
        edns.set_rcode_high(reply.metadata.response_code.high());
        reply.set_edns(edns);
    }
    let octets = reply.to_vec().unwrap_or_default();
    let takes = question.takes.unwrap_or(PLAIN_OCTETS);
    let takes = takes.clamp(PLAIN_OCTETS, UDP_OCTETS);
    if manner.stream || octets.len() <= usize::from(takes) {
        return octets;
    }
    reply.truncate().to_vec().unwrap_or_default()
}

/// What says for how long something is missing (RFC 2308 section 3). Of the zone's own record only
/// its name and this time cross the link.
fn authority(zone: Name, life_s: u32) -> Record {
    let nobody = Name::from_labels(["nobody", "invalid"]).unwrap_or_default();
    let soa = SOA::new(zone.clone(), nobody, 1, 3600, 1200, 604_800, life_s);
    Record::from_rdata(zone, life_s, RData::SOA(soa))
}

/// The option's code.
const EXTENDED_ERROR: u16 = 15;

/// Takes over what a whole message says; without signatures for who doesn't want them (RFC 4035
/// section 3.2.1).
fn adopt(reply: &mut Message, question: &Question, message: &[Vec<u8>], life_s: u32) {
    let message = message.first().and_then(|it| Message::from_vec(it).ok());
    let Some(message) = message else {
        reply.metadata.response_code = ResponseCode::ServFail;
        return;
    };
    reply.metadata.response_code = message.metadata.response_code;
    reply.metadata.authentic_data = message.metadata.authentic_data;
    let short = |mut record: Record| {
        record.ttl = record.ttl.min(life_s);
        record
    };
    let proofs = [RecordType::RRSIG, RecordType::NSEC, RecordType::NSEC3];
    let wanted = |it: &Record| {
        let kind = it.record_type();
        question.signed || kind == question.kind || !proofs.contains(&kind)
    };
    let kept = |records: Vec<Record>| records.into_iter().filter(wanted).map(short).collect();
    reply.answers = kept(message.answers);
    reply.authorities = kept(message.authorities);
}

/// A question to a resolver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The number of its message.
    pub id: u16,
    /// The name, with large and small letters by chance: the answer has to repeat them.
    pub name: Name,
    /// The type.
    pub kind: RecordType,
    /// For whom.
    pub care: Care,
}

impl Ask {
    /// Writes a name in letters by chance: each bit of `bits` is for one.
    #[must_use]
    pub fn with_letters(name: &Name, mut bits: impl FnMut() -> bool) -> Name {
        let mut labels: Vec<Vec<u8>> = name.iter().map(<[u8]>::to_vec).collect();
        for octet in labels.iter_mut().flatten() {
            if octet.is_ascii_alphabetic() && bits() {
                *octet ^= 0x20;
            }
        }
        let cased = Name::from_labels(labels.iter().map(|it| &it[..]));
        cased.unwrap_or_else(|_| name.clone())
    }

    /// Its octets.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut message = Message::new(self.id, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.metadata.checking_disabled = self.care.unchecked;
        message.add_query(Query::query(self.name.clone(), self.kind));
        let mut edns = Edns::new();
        edns.set_max_payload(UPSTREAM_OCTETS)
            .set_dnssec_ok(self.care.verifies);
        message.set_edns(edns);
        message.to_vec().unwrap_or_default()
    }

    /// What a resolver's answer says.
    pub fn judge(&self, octets: &[u8]) -> Judgement {
        let Ok(message) = Message::from_vec(octets) else {
            return Judgement::Forged;
        };
        let head = message.metadata;
        let asked = |query: &Query| {
            query.name.eq_case(&self.name)
                && query.query_type == self.kind
                && query.query_class == DNSClass::IN
        };
        let [query] = &message.queries[..] else {
            return Judgement::Forged;
        };
        if head.message_type != MessageType::Response || head.id != self.id || !asked(query) {
            return Judgement::Forged;
        }
        if head.truncation {
            return Judgement::Truncated;
        }
        let there = matches!(
            head.response_code,
            ResponseCode::NoError | ResponseCode::NXDomain
        );
        if !there {
            return Judgement::Failed(cause_of(&message));
        }
        let body = if self.care.verifies {
            self.whole(&message)
        } else {
            self.flatten(&message)
        };
        if body.is_right(self.kind) {
            Judgement::Known(body)
        } else {
            Judgement::Failed(cause::INVALID)
        }
    }

    /// The records at the end of the chain that begins with the name.
    fn flatten(&self, message: &Message) -> Body {
        let (mut name, mut life_s) = (&self.name, LIFE_MAX_S);
        for _ in 0..ALIASES_MAX {
            let own = || message.answers.iter().filter(|it| it.name == *name);
            let of_kind = || own().filter(|it| it.record_type() == self.kind);
            if let Some(life) = of_kind().map(|it| it.ttl).min() {
                return Body {
                    outcome: Outcome::Records,
                    life_s: life_s.min(life),
                    zone: 0,
                    records: of_kind().filter_map(|it| data(&it.data)).collect(),
                };
            }
            let alias = own().find_map(|it| match &it.data {
                RData::CNAME(to) => Some((it.ttl, &to.0)),
                _ => None,
            });
            let Some((life, to)) = alias else { break };
            (name, life_s) = (to, life_s.min(life));
        }
        let outcome = match message.metadata.response_code {
            ResponseCode::NXDomain => Outcome::NoName,
            _ => Outcome::NoData,
        };
        let (zone, missing_s) = missing(message, name);
        // Where an alias led elsewhere, the name's own zone isn't known.
        let zone = zone.filter(|zone| zone.zone_of(&self.name));
        let usual = self.name.num_labels().saturating_sub(1);
        let zone = zone.map_or(usual, Name::num_labels);
        Body::missing(outcome, life_s.min(missing_s), zone)
    }

    /// A message for who verifies: as it is, without its number and what is nobody's business.
    fn whole(&self, message: &Message) -> Body {
        let mut kept = Message::response(0, OpCode::Query);
        kept.metadata.response_code = message.metadata.response_code;
        kept.metadata.authentic_data = message.metadata.authentic_data;
        let lower = |record: &Record| {
            let mut record = record.clone();
            if record.name == self.name {
                // Without the letters by chance.
                record.name = self.name.to_lowercase();
            }
            record
        };
        kept.answers = message.answers.iter().map(lower).collect();
        kept.authorities = message.authorities.iter().map(lower).collect();
        let lives = kept.all_sections().map(|it| it.ttl);
        let missing = kept.answers.is_empty();
        let most = if missing { MISSING_MAX_S } else { LIFE_MAX_S };
        Body {
            outcome: Outcome::Message,
            life_s: lives.min().unwrap_or(MISSING_S).min(most),
            zone: 0,
            records: vec![kept.to_vec().unwrap_or_default()],
        }
    }
}

/// The zone that says that nothing is known of a name, and for how long (RFC 2308 section 5).
fn missing<'a>(message: &'a Message, name: &Name) -> (Option<&'a Name>, u32) {
    let authorities = message.authorities.iter();
    let own = authorities.filter(|it| it.name.zone_of(name));
    let said = own.filter_map(|it| match &it.data {
        RData::SOA(soa) => Some((it.ttl.min(soa.minimum), &it.name)),
        _ => None,
    });
    let said = said.min();
    let life_s = said.map_or(MISSING_S, |(life_s, _)| life_s);
    (said.map(|(_, zone)| zone), life_s.min(MISSING_MAX_S))
}

/// A record's data, names in it without compression; `None` where it can't be written.
fn data(data: &RData) -> Option<Vec<u8>> {
    let mut octets = Vec::new();
    let mut encoder = BinEncoder::new(&mut octets);
    let mut encoder = encoder.with_name_encoding(NameEncoding::Uncompressed);
    data.emit(&mut encoder).ok()?;
    drop(encoder);
    Some(octets)
}

/// Why a resolver says nothing, as far as it tells.
fn cause_of(message: &Message) -> u16 {
    let option = message.edns.as_ref();
    let option = option.and_then(|it| it.option(EdnsCode::Unknown(EXTENDED_ERROR)));
    match option {
        Some(EdnsOption::Unknown(_, data)) => data
            .first_chunk()
            .map_or(cause::OTHER, |it| u16::from_be_bytes(*it)),
        _ => cause::OTHER,
    }
}

/// What a resolver's answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It isn't the answer to what was asked.
    Forged,
    /// It is too long for a datagram.
    Truncated,
    /// Nothing, for a cause of RFC 8914.
    Failed(u16),
    /// What is known.
    Known(Body),
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
