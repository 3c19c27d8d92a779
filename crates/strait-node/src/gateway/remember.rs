//! Flows that an end of a link remembers across starts, so that both ends know them beforehand.
//!
//! Each end keeps for itself which flows over UDP have lasted, those it sent and those it received,
//! and says numbers for them in its [`hello`](strait_wire::hello). What both remember is known
//! beforehand from then on. So nothing has to be stored at both ends at once: what one of them has
//! lost, or not stored yet, isn't used.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::node::Ticket;
use strait_core::{Duration, Effect, Instant};
use strait_link::rohc::Provision;
use strait_wire::hello::{NUMBERS_MAX, Numbers, Remembered};

/// The most octets that are stored: flows of IPv6 both ways.
const OCTETS_MAX: u32 = 2 + 2 * NUMBERS_MAX as u32 * 37;

/// The first octet of what is stored.
const FORMAT: u8 = 1;

/// What is remembered goes to stable storage at most so often: flash wears out.
const STORE_EVERY: Duration = Duration::from_secs(10);

/// Flows of both directions, the one that has lasted most recently first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Flows {
    sent: Vec<Provision>,
    received: Vec<Provision>,
}

/// What this end remembers of its link with one neighbour.
#[derive(Debug)]
pub(super) struct Memory {
    /// Where it is stored.
    key: Vec<u8>,
    now: Flows,
    /// What this incarnation has said that it remembers.
    told: Flows,
    /// There is more than is stored.
    changed: bool,
    stored: Option<Instant>,
    /// What storage holds was asked for and isn't there yet.
    loading: Option<Ticket>,
}

impl Memory {
    /// Nothing yet of a port's neighbour.
    pub(super) fn new(port: &str, neighbour: usize) -> Self {
        Self {
            key: key(port, neighbour).into_bytes(),
            now: Flows::default(),
            told: Flows::default(),
            changed: false,
            stored: None,
            loading: None,
        }
    }

    /// Where it is stored.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Asks for what is stored.
    pub(super) fn load(&mut self, ticket: Ticket) -> Effect {
        self.loading = Some(ticket);
        Effect::Load {
            ticket,
            key: self.key.clone(),
            offset: 0,
            octets: OCTETS_MAX,
        }
    }

    /// Whether what is stored was asked for and isn't there yet.
    pub(super) const fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    /// Takes what was stored, nothing if it is spoilt. Says whether that was asked for with this
    /// ticket.
    pub(super) fn take_loaded(&mut self, ticket: Ticket, value: &[u8]) -> bool {
        let asked = self.loading.take_if(|asked| *asked == ticket).is_some();
        if asked {
            self.now = read(value).unwrap_or_default();
        }
        asked
    }

    /// Remembers a flow that was sent and one that was received, if there are.
    pub(super) fn keep(&mut self, [sent, received]: [Option<Provision>; 2]) {
        self.changed |= put_first(&mut self.now.sent, sent);
        self.changed |= put_first(&mut self.now.received, received);
    }

    /// Key and value to store, if it is time.
    pub(super) fn take_store(&mut self, now: Instant) -> Option<(Vec<u8>, Vec<u8>)> {
        let early = self.stored.is_some_and(|at| now < at + STORE_EVERY);
        if !self.changed || early {
            return None;
        }
        self.changed = false;
        self.stored = Some(now);
        Some((self.key.clone(), write(&self.now)))
    }

    /// Whether another incarnation would have more to say.
    pub(super) fn has_news(&self) -> bool {
        self.told != self.now
    }

    /// What a new incarnation says that it remembers.
    pub(super) fn tell(&mut self) -> Remembered {
        self.told = self.now.clone();
        Remembered {
            sent: numbers(&self.told.sent),
            received: numbers(&self.told.received),
        }
    }

    /// Of the flows that this incarnation has told, those sent and those received with these
    /// numbers, in their order.
    pub(super) fn named(&self, sent: &Numbers, received: &Numbers) -> [Vec<Provision>; 2] {
        let of = |flows: &[Provision], names: &Numbers| {
            let named = names.iter().filter(|&&name| name != 0);
            let flow = |&name: &u32| flows.iter().find(|flow| number(flow) == name).copied();
            named.filter_map(flow).collect()
        };
        [of(&self.told.sent, sent), of(&self.told.received, received)]
    }
}

fn key(port: &str, neighbour: usize) -> String {
    format!("flows/{port}/{neighbour}")
}

/// Puts a flow ahead of the others; says whether it is new.
fn put_first(flows: &mut Vec<Provision>, flow: Option<Provision>) -> bool {
    let Some(flow) = flow else {
        return false;
    };
    let before = flows.len();
    flows.retain(|other| *other != flow);
    let new = flows.len() == before;
    flows.insert(0, flow);
    flows.truncate(NUMBERS_MAX);
    new
}

/// What stands for a flow between the two ends.
fn number(flow: &Provision) -> u32 {
    Provision::digest(&[*flow])
}

fn numbers(flows: &[Provision]) -> Numbers {
    let mut numbers = Numbers::default();
    for (place, flow) in numbers.iter_mut().zip(flows) {
        *place = number(flow);
    }
    numbers
}

fn write(flows: &Flows) -> Vec<u8> {
    let mut out = alloc::vec![FORMAT, flows.sent.len() as u8];
    for flow in flows.sent.iter().chain(&flows.received) {
        match (flow.src, flow.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                out.push(4);
                out.extend_from_slice(&src.octets());
                out.extend_from_slice(&dst.octets());
            }
            (src, dst) => {
                out.push(6);
                for address in [src, dst] {
                    let octets = match address {
                        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                        IpAddr::V6(address) => address.octets(),
                    };
                    out.extend_from_slice(&octets);
                }
            }
        }
        for port in flow.ports {
            out.extend_from_slice(&port.to_be_bytes());
        }
    }
    out
}

fn read(value: &[u8]) -> Option<Flows> {
    let [FORMAT, sent, rest @ ..] = value else {
        return None;
    };
    let mut rest = rest;
    let mut all = Vec::new();
    while !rest.is_empty() && all.len() < 2 * NUMBERS_MAX {
        all.push(read_flow(&mut rest)?);
    }
    let sent = usize::from(*sent);
    if sent > all.len() || sent > NUMBERS_MAX {
        return None;
    }
    let mut received = all.split_off(sent);
    received.truncate(NUMBERS_MAX);
    Some(Flows {
        sent: all,
        received,
    })
}

fn read_flow(rest: &mut &[u8]) -> Option<Provision> {
    let (family, after) = rest.split_first()?;
    *rest = after;
    let [src, dst] = match family {
        4 => [take::<4>(rest)?, take::<4>(rest)?].map(IpAddr::from),
        6 => [take::<16>(rest)?, take::<16>(rest)?].map(IpAddr::from),
        _ => return None,
    };
    let ports = [take::<2>(rest)?, take::<2>(rest)?].map(u16::from_be_bytes);
    Some(Provision { src, dst, ports })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (octets, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*octets)
}

#[cfg(test)]
mod tests {
    use strait_core::node::Owner;

    use super::*;

    fn flow(port: u16) -> Provision {
        Provision {
            src: [10, 1, 0, 2].into(),
            dst: [10, 2, 0, 2].into(),
            ports: [port, 5004],
        }
    }

    fn six(port: u16) -> Provision {
        Provision {
            src: IpAddr::V6([1; 8].into()),
            dst: IpAddr::V6([2; 8].into()),
            ports: [port, 5004],
        }
    }

    #[test]
    fn what_is_stored_literally_and_back() {
        let flows = Flows {
            sent: alloc::vec![flow(0x0102)],
            received: alloc::vec![six(7), flow(9)],
        };
        let value = write(&flows);
        let v4 = [4, 10, 1, 0, 2, 10, 2, 0, 2, 1, 2, 0x13, 0x8c];
        assert_eq!(value[..15], [&[FORMAT, 1][..], &v4].concat());
        assert_eq!(value.len(), 2 + 13 + 37 + 13);
        assert_eq!(read(&value), Some(flows));
        for cut in 0..value.len() {
            let whole = [15, 52].contains(&cut);
            assert_eq!(read(&value[..cut]).is_some(), whole, "{cut}");
        }
        assert_eq!(read(&[FORMAT, 1]), None);
        assert_eq!(read(&[FORMAT + 1, 0]), None);
        assert_eq!(read(&[FORMAT, 0, 5]), None);
        let most = Flows {
            sent: alloc::vec![six(1); NUMBERS_MAX],
            received: alloc::vec![six(2); NUMBERS_MAX],
        };
        assert_eq!(write(&most).len(), OCTETS_MAX as usize);
    }

    #[test]
    fn eight_flows_are_kept_and_the_oldest_goes() {
        let mut memory = Memory::new("line", 0);
        for port in 0..9 {
            memory.keep([Some(flow(port)), None]);
        }
        let ports = |memory: &Memory| {
            memory
                .now
                .sent
                .iter()
                .map(|it| it.ports[0])
                .collect::<Vec<u16>>()
        };
        assert_eq!(ports(&memory), [8, 7, 6, 5, 4, 3, 2, 1]);
        memory.keep([Some(flow(1)), None]);
        assert_eq!(ports(&memory), [1, 8, 7, 6, 5, 4, 3, 2]);
        assert!(memory.now.received.is_empty());
    }

    #[test]
    fn storage_is_written_for_new_flows_and_not_more_often_than_it_bears() {
        let mut memory = Memory::new("line", 1);
        let at = Instant::from_secs(100);
        assert_eq!(memory.take_store(at), None);
        memory.keep([Some(flow(1)), Some(six(2))]);
        let (key, value) = memory.take_store(at).unwrap();
        assert_eq!(key, b"flows/line/1");
        memory.keep([Some(flow(1)), None]);
        assert_eq!(memory.take_store(at + STORE_EVERY), None);
        memory.keep([Some(flow(3)), None]);
        let early = at + (STORE_EVERY - Duration::from_nanos(1));
        assert_eq!(memory.take_store(early), None);
        assert!(memory.take_store(at + STORE_EVERY).is_some());

        let ticket = |n| Ticket { owner: Owner(1), n };
        let mut again = Memory::new("line", 1);
        assert!(!again.take_loaded(ticket(7), &value));
        let load = again.load(ticket(7));
        assert!(matches!(load, Effect::Load { key: asked, .. } if asked == key));
        assert!(!again.take_loaded(ticket(8), &value) && again.is_loading());
        assert!(again.take_loaded(ticket(7), &value) && !again.is_loading());
        assert_eq!(again.now.sent, [flow(1)]);
        assert_eq!(again.now.received, [six(2)]);
    }

    #[test]
    fn only_what_was_told_has_a_name() {
        let mut memory = Memory::new("line", 0);
        memory.keep([Some(flow(1)), Some(six(2))]);
        assert!(memory.has_news());
        let told = memory.tell();
        assert!(!memory.has_news());
        memory.keep([Some(flow(3)), None]);
        assert!(memory.has_news());
        let mut sent = told.sent;
        sent[1] = number(&flow(3));
        let [sent, received] = memory.named(&sent, &told.received);
        assert_eq!((sent, received), ([flow(1)].into(), [six(2)].into()));
    }
}
