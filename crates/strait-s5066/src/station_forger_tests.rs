//! Somebody on the air who sends D_PDUs with right checks in others' names.
//!
//! `STRAIT_SWARM_SEED=n` runs one storm, `STRAIT_SWARM_RUNS=n` so many.

use super::*;
use crate::c_pdu::{CPdu, Ours};
use crate::d_pdu::Kind;
use crate::d_pdu::{Ack, Body, DPdu, Data, LongAck, NonArq, Reset, Segment, Warning};
use crate::sis::{HardLink, Primitive};

/// What one frame may cost, behind which all is as before.
const HEALED: Duration = Duration::from_secs(10);

/// From one message to the next, where the medium carries so many.
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
        Some(peer) => peer.transfer.lower(),
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
    let life = known.and_then(|peer| peer.calls.early().life());
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
    let reset = known.and_then(|peer| peer.transfer.reset());
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
        11 => Body::Warning(Warning::of(chance.below(16) as u8, chance.below(4) as u8)),
        12 => Body::Unknown(Kind::of(11 + chance.below(4) as u8)),
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
        .at(from)
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

    /// From one message to the next: by slots of three, a call, its data and a break take 45 s.
    fn period(&self) -> Duration {
        let slots = self.stations[0].settings.access.slots();
        match slots.filter(|_| self.stations.len() > 2) {
            Some(_) => PERIOD * 3,
            None => PERIOD,
        }
    }

    /// Says something from time to time, and does something in between.
    fn talk(
        &mut self,
        chance: &mut Stream,
        times: u32,
        mut meanwhile: impl FnMut(&mut Self, &mut Talk, u32),
    ) -> Talk {
        let count = self.stations.len();
        let mut talk = Talk::new(self);
        for time in 0..times {
            let from = chance.below(count as u64) as usize;
            let to = (from + 1 + chance.below(count as u64 - 1) as usize) % count;
            let octets = [84, 84, 400, 2000][chance.below(4) as usize];
            let (how, to) = match chance.below(8) {
                0 => (How::Plain, to),
                // Its own place is everybody's.
                1 => (How::Plain, from),
                2 | 3 => (How::Expedited, to),
                _ => (How::Repeated, to),
            };
            let at = self.now;
            let said = Said {
                mark: self.tickets,
                at,
                from,
                to,
                how,
                octets,
            };
            self.tickets += 1;
            talk.waiting.push(talk.said.len());
            talk.said.push(said);
            meanwhile(self, &mut talk, time);
            talk.run(self, at + self.period());
        }
        talk.run(self, self.now + Duration::from_secs(600));
        talk
    }

    /// How long what was said took to come to all that it is for; `None` for what didn't.
    fn took(&self, said: &Said) -> Option<Duration> {
        let mark = said.mark.to_be_bytes();
        let came = |to: usize| {
            let mut came = self.came[to].iter();
            came.find(|(_, c_pdu)| c_pdu.get(4..8) == Some(&mark))
                .map(|it| it.0)
        };
        let last = match said.to == said.from {
            false => came(said.to),
            true => {
                let others = (0..self.stations.len()).filter(|to| *to != said.from);
                others
                    .map(came)
                    .collect::<Option<Vec<_>>>()?
                    .into_iter()
                    .max()
            }
        };
        Some(last?.since(said.at))
    }

    /// Exchanges of others than two stations that began from one moment to another.
    fn exchanges_of_others(&self, said: &Said, to: Instant) -> u32 {
        let own = |from: usize, to: usize| {
            [(said.from, said.to), (said.to, said.from)].contains(&(from, to))
        };
        let begun = self
            .begun
            .iter()
            .filter(|it| (said.at..=to).contains(&it.0));
        let begun = begun.filter(|(_, from, to)| !own(*from, *to));
        (begun.count() as u32).div_ceil(2)
    }

    /// When the transmissions that met another one from one moment to another began.
    fn met_between(&self, from: Instant, to: Instant) -> impl Iterator<Item = Instant> {
        let met = self.begun.iter().zip(&self.spoilt);
        let met = met.filter(move |((at, ..), spoilt)| **spoilt && (from..=to).contains(at));
        met.map(|((at, ..), _)| *at)
    }

    /// How many turns the way of a message took until it had come.
    fn turns_of(&self, said: &Said, until: Instant) -> u32 {
        let its = |begun: &&(Instant, usize, usize)| {
            (said.at..=until).contains(&begun.0) && (begun.1, begun.2) == (said.from, said.to)
        };
        self.begun.iter().filter(its).count() as u32
    }
}

/// How a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Repeated,
    Expedited,
    /// Without ARQ.
    Plain,
}

/// A message.
#[derive(Clone, Copy, Debug)]
struct Said {
    mark: u32,
    at: Instant,
    from: usize,
    to: usize,
    how: How,
    octets: usize,
}

/// Messages, and who says them again when told that they didn't come.
struct Talk {
    said: Vec<Said>,
    /// Places of those that are to be said, again or at all.
    waiting: Vec<usize>,
    /// By station: outcomes that were read.
    read: Vec<usize>,
}

impl Talk {
    fn new(world: &World) -> Self {
        Self {
            said: Vec::new(),
            waiting: Vec::new(),
            read: world.outcomes.iter().map(Vec::len).collect(),
        }
    }

    fn run(&mut self, world: &mut World, until: Instant) {
        self.tend(world);
        while let Some(at) = world.next_event().filter(|at| *at <= until) {
            world.run(at);
            self.tend(world);
        }
        world.run(until);
    }

    fn tend(&mut self, world: &mut World) {
        for station in 0..world.outcomes.len() {
            for (mark, delivered) in &world.outcomes[station][self.read[station]..] {
                let place = self.said.iter().position(|said| said.mark == *mark);
                self.waiting.extend(place.filter(|_| !delivered));
            }
            self.read[station] = world.outcomes[station].len();
        }
        let said = &self.said;
        self.waiting.retain(|place| !said[*place].say(world));
    }
}

impl Said {
    /// Hands it to its station, if that takes it.
    fn say(&self, world: &mut World) -> bool {
        let (from, to) = (self.from, self.to);
        if self.how == How::Expedited {
            let takes = world.stations[from].takes_expedited(to);
            if takes {
                world.stations[from].link(to);
                expedite(world, from, to, self.mark, self.octets);
            }
            return takes;
        }
        let mut c_pdu = alloc::vec![0, 0, 0x99, 0];
        c_pdu.extend_from_slice(&self.mark.to_be_bytes());
        c_pdu.resize(4 + self.octets, 0x5a);
        let message = (to, c_pdu, self.how == How::Repeated);
        world.queues[from].push_back(message);
        world.stations[from].advance(world.now);
        world.settle(from);
        true
    }
}

/// A net that has talked for a while: those who did know each other, and may have links. `all` did.
fn begun(seed: u64, idle: Duration, all: bool) -> (World, Access) {
    let mut chance = Stream::new(seed, "forged net");
    let count = 2 + chance.below(2) as usize;
    let rules = dead::rules();
    let (_, access, _) = rules[chance.below(rules.len() as u64) as usize];
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
        if from != to && (all || chance.below(3) > 0) {
            world.offer(from, to, 84, true);
            world.run(world.now + PERIOD);
        }
    }
    world.run(world.now + Duration::from_secs(60));
    (world, access(0))
}

/// What one exchange takes at most where each station that is there waits for its turn once, and
/// nobody met anybody: that wait, the longest message here, and what answers it.
///
/// By turns of two there is no wait, of three one of four answer times of 3.3 s is drawn; by
/// addresses a slot each, 2.4 s; drawn, 16 slots and the answer's, 10.2 s; by slots of 3 s a round
/// of them, twice where others are let in: 12 s for two, 18 s for three. With 6.1 s on the air that
/// is 6, 23, 9, 16, 18 and 24 s.
fn exchange(world: &World, access: Access) -> Duration {
    let longest = world.air.rate.time_for(2300);
    let answer = world.stations[0].access.answer_time();
    wait(world, access) + LEAD + longest + world.air.block + answer
}

/// That wait.
fn wait(world: &World, access: Access) -> Duration {
    let station = &world.stations[0];
    match access {
        Access::Turns => station.access.round(),
        Access::Slots(_) | Access::Csma(_) => station.access.longest_wait(),
    }
}

/// What two stations that met wait by chance beside, so many times in a row.
fn back_off(world: &World, access: Access, times: u32) -> Duration {
    let answer = world.stations[0].access.answer_time();
    match access {
        Access::Turns => answer * (1 << times.min(4)),
        Access::Slots(slots) => slots.length * world.stations.len() as u32 * 4,
        Access::Csma(csma) if csma.order == Order::Address => answer * (1 << times.min(4)),
        Access::Csma(csma) => csma.slot * csma.slots_max,
    }
}

/// What a message may take that went without the forger in a `quiet` world, and how many
/// transmissions met another one meanwhile: ten seconds and one exchange more than there.
///
/// Where a link is to be made anew, the message waits for its turn three times: to be refused by an
/// end that has no link, to call, and to go. One wait is in the exchange, and what is on the air
/// beside, 7 s with the longest message, in the ten seconds; so two waits more, if so many turns
/// more than without the frame were needed. Where turns are drawn that is 7 + 3 · 10.2 s at most,
/// by slots of three, where a turn may come a round later as others are let in, 7 + 3 · 18 s.
///
/// What others do at the same time goes otherwise than without the frame; so an exchange of each of
/// them that was in the way, but no more, and what was lost because two of those began at the same
/// time, but no more than twice. Who met another one shortly before, though only `since` the frame,
/// may still wait to say it again, and what is said next waits for that: a forged frame is answered
/// in the slot in which the answer to another comes. By slots, a round is itself 9 s of three
/// stations, and an exchange of each of them in turn 72 s.
fn most(
    (world, said): (&World, &Said),
    access: Access,
    (quiet, before): (&World, &Said),
    since: Instant,
) -> (Duration, u32) {
    let usual = quiet.took(before).unwrap_or_default();
    let until = said.at + world.took(said).unwrap_or(PERIOD * 4);
    let met = world.met_between(said.at, until).count() as u32;
    let stations = world.stations.len() as u32;
    let others = world.exchanges_of_others(said, until).min(stations - 1);
    let one = exchange(world, access);
    let usual_turns = quiet.turns_of(before, before.at + usual);
    let more = world.turns_of(said, until).saturating_sub(usual_turns);
    let last_met = world.met_between(since, said.at).last();
    let repeats = one + back_off(world, access, 1);
    let still = last_met.map_or(Duration::ZERO, |at| (at + repeats).since(said.at));
    let times = 1..=met.div_ceil(2).min(2);
    let most = usual + HEALED + one * (1 + others) + wait(world, access) * more.min(2) + still;
    let most = times.fold(most, |most, it| most + one + back_off(world, access, it));
    (most, met)
}

/// One frame at one moment, in a net where each station says something now and then: beside what
/// the same message takes without that frame, ten seconds, one exchange of the medium, and those
/// that others have meanwhile.
fn storm(seed: u64) -> Result<(), alloc::string::String> {
    let mut chance = Stream::new(seed, "forger");
    let idle = if coin(&mut chance) { IDLE } else { IDLE * 20 };
    let (mut quiet, access) = begun(seed, idle, false);
    let without = quiet.talk(&mut Stream::new(seed, "said"), 20, |_, _, _| {});
    let (mut world, ..) = begun(seed, idle, false);
    let time = 4 + chance.below(6) as u32;
    let after = Duration::from_nanos(chance.below(world.period().as_nanos() as u64));
    let (mut forged_at, mut what) = (Instant::ZERO, alloc::string::String::new());
    let talk = world.talk(&mut Stream::new(seed, "said"), 20, |world, talk, now| {
        if now == time {
            talk.run(world, world.now + after);
            let (bytes, says) = frame(&mut chance, world, true);
            (forged_at, what) = (world.now, says);
            world.forge(&bytes);
        }
    });
    let what = alloc::format!(
        "seed {seed}, {access:?}, {idle:?}, at {} s, {what}",
        forged_at.as_secs_f64()
    );
    let mut lost = Vec::new();
    for (said, before) in talk.said.iter().zip(&without.said) {
        // By chance, two that begin at the same time lose what has no repeats.
        let Some(usual) = quiet.took(before) else {
            let mut met = quiet.met_between(before.at, before.at + PERIOD * 4);
            if met.next().is_some() && said.how == How::Plain {
                continue;
            }
            return Err(alloc::format!("{what}: WITHOUT IT {before:?}"));
        };
        let took = world.took(said);
        let (most, met) = most((&world, said), access, (&quiet, before), forged_at);
        match took {
            Some(took) if took > most => {
                return Err(alloc::format!(
                    "{what}: {said:?} took {took:?}, without it {usual:?}, {met} met"
                ));
            }
            Some(_) => {}
            None if said.how == How::Plain && met > 0 => {}
            None => lost.push((said.from, said.to)),
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

/// Breaks that nobody confirmed were put off by what others said; calls for exclusive links kept
/// others out; callers were waited for that hadn't called; resets waited for a slot.
const STALLED: [u64; 9] = [286, 848, 1289, 1563, 1978, 2521, 2570, 3969, 3993];

/// A link was broken as idle ahead of what had waited for it; expedited data was acknowledged as no
/// station could have sent it; stations that met shortly before, and links that had to be made
/// anew, took as long as the medium's turns do.
const LATE: [u64; 8] = [
    91_001_574, 92_000_848, 92_001_531, 92_001_605, 93_000_074, 93_001_602, 93_002_230, 93_002_981,
];

#[test]
fn one_forged_frame_costs_ten_seconds_and_an_exchange_of_each_station_at_most() {
    let failed = seeds(300).chain(STALLED).chain(LATE);
    let failed = failed.filter_map(|seed| storm(seed).err());
    let failed: Vec<_> = failed.collect();
    assert!(failed.is_empty(), "{}: {failed:#?}", failed.len());
}

/// One frame at one moment, in a net whose clients want each U_PDU confirmed by the one it is for,
/// and have a hard link for a while, meanwhile for those two. Of what was said once, one may be
/// lost, and a confirmation. What was asked for comes and is confirmed within an exchange for the
/// call, one for each way, and what a frame may cost; a hard link takes as long to make or to end.
fn storm_of_clients(seed: u64) -> Result<(), alloc::string::String> {
    let mut chance = Stream::new(seed, "forged clients");
    let (mut world, access) = begun(seed, IDLE * 2, true);
    world.with_clients(seed, &alloc::format!("seed {seed}, {access:?}"));
    world.clients.as_mut().expect("clients").forged = true;
    let count = world.stations.len();
    let others = exchange(&world, access) * (count as u32 - 1);
    let most = HEALED + exchange(&world, access) * 6 + others + back_off(&world, access, 2) * 2;
    let ends: [usize; 2] = core::array::from_fn(|end| (seed as usize + end) % count);
    let to = address(ends[1]).into();
    let link = HardLink {
        kind: chance.below(3) as u8,
        priority: 1,
        sap: 1,
    };
    let (forges, hard) = (1 + chance.below(8), coin(&mut chance));
    let mut what = alloc::string::String::new();
    for time in 0..12 {
        let id = clients::client(ends[0], 1);
        match time {
            2 if hard => world.client_says(id, &Primitive::HardLinkEstablish(link, to)),
            7 if hard => world.client_says(id, &Primitive::HardLinkTerminate(to)),
            _ => {
                let from = chance.below(count as u64) as usize;
                let to = (from + 1 + chance.below(count as u64 - 1) as usize) % count;
                let [from, to] = if hard { ends } else { [from, to] };
                clients::ask_confirmed(&mut world, from, to);
            }
        }
        if time == forges {
            let after = chance.below(most.as_nanos() as u64);
            world.run(world.now + Duration::from_nanos(after));
            let (bytes, says) = frame(&mut chance, &world, true);
            what = says;
            world.forge(&bytes);
        }
        world.run(world.now + most);
        let (untold, rejected) = clients::untold(&world, world.now);
        if untold > 1 || rejected > 1 {
            return Err(alloc::format!(
                "seed {seed}, {access:?}, hard: {hard} {link:?}, {time} of {forges}, {what}: \
                 {untold} aren't known, {rejected} rejected"
            ));
        }
    }
    // Who asked for a hard link knows whether it has it.
    match world.hard_links() {
        (0, 0) if hard => Err(alloc::format!("seed {seed}, {access:?}, {link:?}, {what}")),
        _ => Ok(()),
    }
}

/// A frame behind the only one of what came expedited: no acknowledgement made sense any more.
const BEHIND_ITS_END: u64 = 91_000_985;

#[test]
fn clients_with_confirmations_and_hard_links_lose_one_message_to_a_forged_frame_at_most() {
    let failed = seeds(100).chain([BEHIND_ITS_END]);
    let failed = failed.filter_map(|seed| storm_of_clients(seed).err());
    let failed: Vec<_> = failed.collect();
    assert!(failed.is_empty(), "{}: {failed:#?}", failed.len());
}

/// Two stations with a link that the first made.
fn linked(long_numbers: bool) -> World {
    let station = |number| Settings {
        long_numbers,
        ..settings(number)
    };
    let mut world = World::new(Air::at(9600, 0.0), (0..2).map(station).collect());
    world.offer(0, 1, 84, true);
    world.run(Instant::from_secs(20));
    assert!(
        world.stations[0].peer(1).is_some_and(Peer::is_linked)
            && world.stations[1].peer(0).is_some_and(Peer::is_linked)
    );
    world
}

#[test]
fn a_forged_frame_of_expedited_data_holds_up_nothing() {
    // Of what comes next, or came last.
    for (came, number) in [false, true]
        .into_iter()
        .flat_map(|it| (1..4).map(move |of| (it, of)))
    {
        let mut world = linked(true);
        if came {
            expedite(&mut world, 0, 1, 1, 84);
            world.run(world.now + HEALED);
        }
        let ghost = Body::ExpeditedData {
            start: false,
            end: false,
            c_pdu: 0,
            number,
            segment: Segment::whole(b"ghost"),
        };
        world.forge(&of([0, 1], ghost));
        world.run(Instant::from_secs(60));
        for mark in 2..5 {
            assert!(world.stations[0].takes_expedited(1), "{came}, {number}");
            expedite(&mut world, 0, 1, mark, 84);
            world.run(world.now + HEALED);
        }
        assert_eq!(world.marks(1).last_chunk(), Some(&[2, 3, 4]));
        assert_eq!(
            world.outcomes[0].last_chunk().map(|it| it.map(|it| it.1)),
            Some([true; 3])
        );
    }
}

#[test]
fn a_link_that_is_broken_in_anothers_name_is_known_to_be_gone_at_once() {
    for long_numbers in [false, true] {
        let mut world = linked(long_numbers);
        let mut control = Vec::new();
        CPdu::Break(4).put(&mut control);
        let word = NonArq {
            expedited: true,
            c_pdu: 7,
            in_order: false,
            group: false,
            size: 1,
            offset: 0,
            window: 20,
            segment: Segment::whole(&control),
        };
        world.forge(&of([0, 1], Body::NonArq(word)));
        world.run(world.now + HEALED);
        assert!(
            !world.stations[0].peer(1).is_some_and(Peer::is_linked),
            "{long_numbers}"
        );
    }
}

#[test]
fn what_waited_for_a_turn_goes_before_its_link_is_broken_as_idle() {
    let mut world = linked(true);
    let mut other = linked(true);
    let used = world.turns.last().expect("a turn").1;
    let idle = world.stations[0].settings.idle;
    for world in [&mut world, &mut other] {
        world.run(used + idle);
        // Two others speak, and whoever hears that draws.
        world.forge(&of([5, 6], Body::Unknown(Kind::of(15))));
    }
    world.run(world.now + Duration::from_millis(500));
    world.offer(0, 1, 84, true);
    world.run(world.now + HEALED * 2);
    assert_eq!(world.marks(1), [0, 1]);
    assert!(world.stations[0].peer(1).is_some_and(Peer::is_linked));
    assert_eq!(world.stations[0].stats().links_made, 1);
    // Without any, it is broken.
    other.run(other.now + HEALED * 2);
    assert!(!other.stations[0].peer(1).is_some_and(Peer::is_linked));
}

#[test]
fn a_warning_of_what_does_not_go_by_a_link_does_not_end_it() {
    for (long_numbers, kinds) in [(false, [9, 10, 6]), (true, [0, 1, 2])] {
        let mut world = linked(long_numbers);
        for received in kinds {
            world.forge(&of([1, 0], Body::Warning(Warning::of(received, 1))));
            assert!(
                world.stations[0].peer(1).is_some_and(Peer::is_linked),
                "{long_numbers}: {received}"
            );
        }
    }
}

/// A call, expedited and without ARQ as calls go.
fn call([from, to]: [usize; 2], exclusive: bool) -> Vec<u8> {
    let mut control = Vec::new();
    let ours = None;
    CPdu::Request { exclusive, ours }.put(&mut control);
    let word = NonArq {
        expedited: true,
        c_pdu: 7,
        in_order: false,
        group: false,
        size: control.len() as u16,
        offset: 0,
        window: 20,
        segment: Segment::whole(&control),
    };
    of([from, to], Body::NonArq(word))
}

#[test]
fn who_asks_in_anothers_name_for_an_exclusive_link_keeps_nobody_out() {
    for linked in [false, true] {
        for long_numbers in [false, true] {
            let (_, access, _) = dead::rules()[2];
            let station = |number| Settings {
                access: access(number as u32),
                long_numbers,
                ..settings(number)
            };
            let mut world = World::new(Air::at(9600, 0.0), (0..3).map(station).collect());
            if linked {
                world.offer(1, 0, 84, true);
                world.run(Instant::from_secs(20));
            }
            world.forge(&call([1, 0], true));
            world.run(world.now + Duration::from_secs(5));
            world.offer(2, 0, 84, true);
            let mark = world.tickets - 1;
            world.run(world.now + HEALED);
            let came = world.marks(0).contains(&mark);
            assert!(came, "{linked}, {long_numbers}");
        }
    }
}

#[test]
fn who_asks_for_a_link_in_the_name_of_one_that_has_it_is_not_waited_for() {
    // A caller may take as long as others may draw.
    let (_, access, _) = dead::rules()[3];
    let station = |number| Settings {
        access: access(number as u32),
        ..settings(number)
    };
    let net = || World::new(Air::at(9600, 0.0), (0..3).map(station).collect());
    for (mut world, exclusive) in [(net(), false), (net(), true)] {
        for _ in 0..2 {
            world.offer(1, 0, 84, true);
            world.run(world.now + Duration::from_secs(30));
        }
        assert!(world.stations[1].peers[0].calls.link().is_long());
        world.forge(&call([1, 0], exclusive));
        world.run(world.now + HEALED);
        world.offer(0, 1, 84, true);
        world.run(world.now + HEALED * 2);
        assert_eq!(world.outcomes[0], [(2, true)], "{exclusive}");
    }
}

#[test]
fn who_is_told_what_is_out_of_step_answers_that_at_once() {
    // By slots, whoever repeats it has the one before the other's.
    let (_, access, _) = dead::rules()[1];
    let station = |number| Settings {
        access: access(number as u32),
        ..settings(number)
    };
    let mut world = World::new(Air::at(9600, 0.0), (0..2).map(station).collect());
    world.offer(0, 1, 84, true);
    world.run(Instant::from_secs(30));
    let far = Data {
        start: true,
        end: true,
        in_order: false,
        dropped: false,
        upper: true,
        lower: true,
        number: 20_000,
        segment: Segment::whole(b"far"),
    };
    world.forge(&of([0, 1], Body::LongData(far)));
    world.offer(0, 1, 84, true);
    world.run(world.now + HEALED);
    assert_eq!(world.marks(1), [0, 1]);
}

/// Frames of somebody who reads nothing, one behind the other, while stations talk. Behind them all
/// is as in a net that nobody forged in.
fn blind(seed: u64, frames: u32) -> Result<(), alloc::string::String> {
    let (mut world, access) = begun(seed, IDLE, true);
    let (mut quiet, _) = begun(seed, IDLE, true);
    let mut chance = Stream::new(seed, "blind");
    let count = world.stations.len();
    for _ in 0..frames / 20 {
        world.offer(0, count - 1, 84, true);
        for _ in 0..20 {
            world.run(world.now + Duration::from_nanos(chance.below(HEALED.as_nanos() as u64)));
            let (bytes, _) = frame(&mut chance, &world, false);
            world.forge(&bytes);
        }
    }
    // What is forged last makes links that end in that time.
    world.run(world.now + IDLE * 2 + HEALED + exchange(&world, access) * 2);
    let began = world.now;
    let [talk, without] = [&mut world, &mut quiet]
        .map(|world| world.talk(&mut Stream::new(seed, "said"), 8, |_, _, _| {}));
    let mut lost = 0;
    for (said, before) in talk.said.iter().zip(&without.said) {
        let (took, usual) = (world.took(said), quiet.took(before).unwrap_or_default());
        let (most, met) = most((&world, said), access, (&quiet, before), began);
        if took.is_some_and(|took| took > most) {
            return Err(alloc::format!(
                "seed {seed}, {access:?}: {said:?} took {took:?}, without them {usual:?}, {met} met"
            ));
        }
        lost += usize::from(took.is_none() && (said.how != How::Plain || met == 0));
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
