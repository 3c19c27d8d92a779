//! Somebody on the air who sends D_PDUs with right checks in others' names.
//!
//! `STRAIT_SWARM_SEED=n` runs one storm, `STRAIT_SWARM_RUNS=n` so many.

use super::*;
use crate::c_pdu::{CPdu, Ours};
use crate::d_pdu::{Ack, Body, DPdu, Data, LongAck, NonArq, Reset, Segment};

/// What one frame may cost, behind which all is as before.
const HEALED: Duration = Duration::from_secs(10);

/// From one message to the next.
const PERIOD: Duration = Duration::from_secs(19);

/// Links are idle for that long; a kept one that a forger made and used ends after twice that.
const IDLE: Duration = Duration::from_secs(30);

/// What a frame may be.
const KINDS: u64 = 16;

/// Half of the numbers are those that matter: one that is known, the next ones, and the end of a
/// window.
fn near(chance: &mut Stream, known: u16) -> u16 {
    match chance.below(8) {
        0 => known,
        1 => known.wrapping_add(1),
        2 => known.wrapping_add(127),
        3 => known.wrapping_add(0x7fff),
        _ => chance.draw() as u16,
    }
}

fn coin(chance: &mut Stream) -> bool {
    chance.below(2) == 0
}

/// What a frame in a peer's name says; who reads everything knows what would be right.
fn forged(
    chance: &mut Stream,
    kind: u64,
    known: Option<&Peer<u32>>,
    out: &mut impl FnMut(Body<'_>),
) {
    let mut octets: Vec<u8> = (0..chance.below(64)).map(|_| chance.draw() as u8).collect();
    if coin(chance) {
        // It may be taken for a client's.
        octets = alloc::vec![0, 0, 0x99, 0, 0xff, 0xff, 0xff, 0xff, 0x11];
    }
    let segment = Segment::whole(&octets);
    let (receives, sends) = match known {
        Some(peer) => (peer.receive.lower(), peer.send.lower()),
        None => (chance.draw() as u16, chance.draw() as u16),
    };
    let number = near(chance, receives);
    let lower = near(chance, sends);
    let bits: Vec<u8> = (0..chance.below(16)).map(|_| chance.draw() as u8).collect();
    let ack = Ack {
        lower: lower as u8,
        selective: &bits,
    };
    let [start, end, in_order, dropped, upper, edge] = core::array::from_fn(|_| coin(chance));
    let data = Data {
        start,
        end,
        in_order,
        dropped,
        upper,
        lower: edge,
        number,
        segment,
    };
    let short = Data {
        number: number & 0xff,
        ..data
    };
    let life = known.and_then(|peer| peer.early.life);
    let ours = coin(chance).then(|| Ours {
        life: coin(chance).then(|| life.unwrap_or_else(|| chance.draw() as u16)),
        epoch: coin(chance).then(|| chance.draw() as u16),
    });
    let word = match chance.below(6) {
        0 => CPdu::Request {
            exclusive: coin(chance),
            ours,
        },
        1 => CPdu::Accepted { ours },
        2 => CPdu::Rejected(chance.below(16) as u8),
        3 => CPdu::Break(chance.below(16) as u8),
        4 => CPdu::BreakConfirm,
        _ => CPdu::Data(&octets),
    };
    let mut control = Vec::new();
    word.put(&mut control);
    let reset = known.and_then(|peer| peer.reset.open);
    out(match kind {
        0 => Body::Data(short, None),
        1 => Body::Ack(ack),
        2 => Body::Data(short, Some(ack)),
        3 => Body::Reset(Reset {
            full: start,
            request: end,
            command: in_order,
            ack: dropped,
            lower: lower as u8,
            frame: reset.map_or(number as u8, |reset| reset.frame),
        }),
        4 => Body::ExpeditedData {
            start,
            end,
            c_pdu: chance.below(16) as u8,
            number: chance.below(4) as u8,
            segment,
        },
        5 => Body::ExpeditedAck(ack),
        6 => Body::Management {
            extended: false,
            valid: start,
            ack: end,
            frame: number as u8,
            message: &[],
        },
        7 | 8 => Body::NonArq(NonArq {
            expedited: kind == 8,
            c_pdu: chance.below(4096) as u16,
            in_order,
            group: coin(chance),
            size: chance.draw() as u16,
            offset: chance.draw() as u16,
            window: chance.draw() as u16,
            segment,
        }),
        9 => Body::LongData(data),
        10 => Body::LongAck(LongAck {
            lower,
            first: near(chance, lower),
            selective: Segment::whole(&bits),
        }),
        11 => Body::Warning {
            received: chance.below(16) as u8,
            reason: chance.below(4) as u8,
        },
        12 => Body::Unknown(11 + chance.below(4) as u8),
        // What makes links and ends them most of all.
        _ => Body::NonArq(NonArq {
            expedited: true,
            c_pdu: chance.below(4096) as u16,
            in_order: false,
            group: false,
            size: control.len() as u16,
            offset: 0,
            window: 255,
            segment: Segment::whole(&control),
        }),
    });
}

/// A frame from one station to another, as neither has sent it, and what it says.
fn frame(chance: &mut Stream, world: &World, reads: bool) -> (Vec<u8>, alloc::string::String) {
    let count = world.stations.len();
    let to = chance.below(count as u64) as usize;
    let from = match chance.below(12) {
        // The other's own name, or nobody's.
        0 => to,
        1 => count + chance.below(3) as usize,
        _ => (to + 1 + chance.below(count as u64 - 1) as usize) % count,
    };
    let known = world.stations[to]
        .peers
        .get(from)
        .filter(|_| reads && from != to);
    let kind = chance.below(KINDS);
    let (eow, eot) = (chance.below(4096) as u16, chance.draw() as u8);
    let mut bytes = Vec::new();
    let mut what = alloc::string::String::new();
    forged(chance, kind, known, &mut |body| {
        let d_pdu = DPdu {
            eow,
            eot,
            to: address(to),
            from: address(from),
            body,
        };
        let word = match &body {
            Body::NonArq(it) if it.expedited => CPdu::parse(it.segment.octets),
            _ => None,
        };
        what = alloc::format!("{from} to {to}: {word:?} {body:?}");
        d_pdu.put(&mut bytes);
    });
    (bytes, what)
}

impl World {
    /// A transmission of somebody whom all hear that listen.
    fn forge(&mut self, bytes: &[u8]) {
        let now = self.now;
        for number in 0..self.stations.len() {
            if self.keyed[number].is_some() {
                continue;
            }
            let station = &mut self.stations[number];
            let alone = self.powers[number].is_empty();
            if alone {
                station.hear_carrier(now, true);
            }
            station.hear(now, bytes);
            if alone {
                station.hear_carrier(now, false);
            }
            self.settle(number);
        }
    }

    /// Says something from time to time, and does something in between.
    fn talk(
        &mut self,
        chance: &mut Stream,
        times: u32,
        mut meanwhile: impl FnMut(&mut Self, u32),
    ) -> Vec<Said> {
        let count = self.stations.len();
        let mut said = Vec::new();
        for time in 0..times {
            let one = chance.below(count as u64) as usize;
            let other = (one + 1 + chance.below(count as u64 - 1) as usize) % count;
            let at = self.now;
            said.push(Said {
                mark: self.tickets,
                at,
                from: one,
                to: other,
            });
            let octets = [84, 84, 400, 2000][chance.below(4) as usize];
            self.offer(one, other, octets, true);
            meanwhile(self, time);
            self.run(at + PERIOD);
        }
        self.run(self.now + Duration::from_secs(300));
        said
    }

    /// How long what was said took to come; `None` for what didn't.
    fn took(&self, said: &Said) -> Option<Duration> {
        let mark = said.mark.to_be_bytes();
        let mut came = self.came[said.to].iter();
        let (at, _) = came.find(|(_, c_pdu)| c_pdu.get(4..8) == Some(&mark))?;
        Some(at.since(said.at))
    }
}

/// A message.
struct Said {
    mark: u32,
    at: Instant,
    from: usize,
    to: usize,
}

/// A net that has talked for a while: all know each other, some have links.
fn begun(seed: u64, idle: Duration) -> (World, Access, Duration) {
    let mut chance = Stream::new(seed, "forged net");
    let count = 2 + chance.below(2) as usize;
    let rules = dead::rules();
    let (_, access, wait) = rules[chance.below(rules.len() as u64) as usize];
    let long_numbers = chance.below(3) > 0;
    let station = |number: usize| Settings {
        access: access(number as u32),
        long_numbers,
        turn_max: Duration::from_secs(10),
        idle,
        ..settings(number)
    };
    let mut world = World::new(Air::at(9600, 0.0), (0..count).map(station).collect());
    for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
        if from != to {
            world.offer(from, to, 84, true);
            world.run(world.now + PERIOD);
        }
    }
    world.run(world.now + Duration::from_secs(60));
    (world, access(0), wait)
}

/// What the medium's own turns take, beside: three of them, one of which met another one.
fn turns_of(access: Access, wait: Duration) -> Duration {
    match access {
        Access::Turns => Duration::from_secs(8),
        Access::Slots(slots) => slots.length * 4 * 4,
        Access::Csma(csma) if csma.order == Order::Address => wait * 3,
        Access::Csma(csma) => wait * 3 + csma.slot * csma.slots_max,
    }
}

/// One frame at one moment, in a net where each station says something now and then: behind it all
/// is as without it.
fn storm(seed: u64) -> Result<(), alloc::string::String> {
    let moment = |chance: &mut Stream| {
        (
            4 + chance.below(6) as u32,
            chance.below(PERIOD.as_nanos() as u64),
        )
    };
    let (mut quiet, access, wait) = begun(seed, IDLE * 20);
    let turns = turns_of(access, wait);
    let said = quiet.talk(&mut Stream::new(seed, "said"), 20, |_, _| {});
    if let Some(lost) = said.iter().find(|said| quiet.took(said).is_none()) {
        return Err(alloc::format!(
            "seed {seed}, {access:?}, long {}: QUIET {} of {}",
            quiet.stations[0].settings.long_numbers,
            lost.mark,
            lost.at.as_secs_f64()
        ));
    }
    let usual = said
        .iter()
        .filter_map(|said| quiet.took(said))
        .max()
        .unwrap_or_default();
    let mut chance = Stream::new(seed, "forger");
    let (mut world, ..) = begun(seed, IDLE * 20);
    let (at, after) = moment(&mut chance);
    let (mut forged_at, mut what) = (Instant::ZERO, alloc::string::String::new());
    let said = world.talk(&mut Stream::new(seed, "said"), 20, |world, time| {
        if time == at {
            world.run(world.now + Duration::from_nanos(after));
            let (bytes, says) = frame(&mut chance, world, true);
            (forged_at, what) = (world.now, says);
            world.forge(&bytes);
        }
    });
    let what = alloc::format!(
        "seed {seed}, {access:?}, at {} s, {what}",
        forged_at.as_secs_f64()
    );
    let mut lost = Vec::new();
    for said in &said {
        let (mark, at) = (said.mark, said.at.as_secs_f64());
        // Who is told that it didn't come says it again.
        let told = world.told.get(&mark).map(|told| told.since(said.at));
        let took = world.took(said).or(told);
        if took.is_none_or(|took| took > usual + HEALED + turns) {
            return Err(alloc::format!(
                "{what}: {mark} from {} to {} of {at} s took {took:?}, {usual:?} is usual",
                said.from,
                said.to
            ));
        }
        if world.took(said).is_none() {
            lost.push((said.from, said.to));
        }
    }
    lost.sort_unstable();
    if lost.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(alloc::format!("{what}: {lost:?} are lost"));
    }
    Ok(())
}

fn seeds(usual: u64) -> core::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = number("STRAIT_SWARM_SEED");
    let usual = if first.is_some() { 1 } else { usual };
    let runs = number("STRAIT_SWARM_RUNS").unwrap_or(usual);
    let first = first.unwrap_or(0);
    first..first + runs
}

#[test]
fn one_forged_frame_costs_ten_seconds_at_most() {
    let failed = seeds(300).filter_map(|seed| storm(seed).err());
    let failed: Vec<_> = failed.collect();
    assert!(failed.is_empty(), "{}: {failed:#?}", failed.len());
}

/// Frames of somebody who reads nothing, one behind the other, while stations talk. Behind them all
/// is as before.
fn blind(seed: u64, frames: u32) -> Result<(), alloc::string::String> {
    let (mut world, access, wait) = begun(seed, IDLE);
    let mut chance = Stream::new(seed, "blind");
    let mut said = Stream::new(seed, "said");
    let count = world.stations.len();
    for _ in 0..frames / 20 {
        world.offer(0, count - 1, 84, true);
        for _ in 0..20 {
            world.run(world.now + Duration::from_nanos(chance.below(HEALED.as_nanos() as u64)));
            let (bytes, _) = frame(&mut chance, &world, false);
            world.forge(&bytes);
        }
    }
    world.run(world.now + IDLE * 2 + HEALED + turns_of(access, wait));
    let said = world.talk(&mut said, 8, |_, _| {});
    let mut lost = 0;
    for said in &said {
        let told = world.told.get(&said.mark).map(|told| told.since(said.at));
        let took = world.took(said).or(told);
        lost += usize::from(world.took(said).is_none());
        if took.is_none_or(|took| took > HEALED + turns_of(access, wait) * 3) {
            return Err(alloc::format!(
                "seed {seed}, {access:?}: {} of {} s took {took:?}",
                said.mark,
                said.at.as_secs_f64()
            ));
        }
    }
    // The first by each link may find that it is out of step.
    if lost > count * (count - 1) {
        return Err(alloc::format!("seed {seed}, {access:?}: {lost} are lost"));
    }
    for (number, station) in world.stations.iter().enumerate() {
        if station.held() > 0 || !world.queues[number].is_empty() {
            return Err(alloc::format!("seed {seed}, {access:?}: {number} holds"));
        }
    }
    Ok(())
}

/// Links that nobody needed were broken by slots before what others had to send.
const BROKEN_FIRST: [u64; 11] = [
    306, 439, 565, 1293, 1486, 1904, 3_000_945, 3_001_424, 3_001_711, 3_001_910, 3_002_717,
];

#[test]
fn whoever_forges_without_reading_costs_nothing_for_good() {
    let failed = seeds(20).chain(BROKEN_FIRST);
    let failed = failed.filter_map(|seed| blind(seed, 400).err());
    let failed: Vec<_> = failed.collect();
    assert!(failed.is_empty(), "{}: {failed:#?}", failed.len());
}
