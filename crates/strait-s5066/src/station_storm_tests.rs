//! Two stations to which everything happens that can.

use super::*;

/// Chance decides messages, errors, times without hearing, restarts; then all heals.
fn storm(seed: u64) {
    let mut chance = Stream::new(seed, "storm");
    let bit_errors = [0.0, 1e-5, 1e-4, 5e-4][chance.below(4) as usize];
    let long_numbers = chance.below(2) == 0;
    let slots = (chance.below(4) == 0).then_some(Slots {
        length: Duration::from_secs(1),
        number: 0,
        turn_min: Duration::from_secs(1),
        committed_octets: 500,
        delivery: Duration::from_millis(300),
    });
    let both = |number: usize| Settings {
        access: slots.map_or(Access::Turns, |slots| {
            Access::Slots(Slots {
                number: number as u32 + 1,
                ..slots
            })
        }),
        long_numbers: long_numbers || number == 0,
        turn_max: Duration::from_secs(30),
        idle: Duration::from_secs(20),
        ..settings(number)
    };
    let rate = [300, 1200, 9600][chance.below(3) as usize];
    let mut world = World::new(Air::at(rate, bit_errors), alloc::vec![both(0), both(1)]);
    world.chance = Stream::new(seed, "air");
    world.in_order = Stream::new(seed, "order").below(2) == 0;
    let mut restarts = [0, 0];
    // Without ARQ, leaving is all that is known.
    let mut plain = Vec::new();
    for _ in 0..40 {
        let at = world.now + Duration::from_millis(chance.below(9000));
        world.run(at);
        let station = chance.below(2) as usize;
        match chance.below(12) {
            0 => world.deaf[station][1 - station] = true,
            1 | 2 => world.deaf[station][1 - station] = false,
            3 if restarts[station] < 2 => {
                world.restart(station, both(station));
                restarts[station] += 1;
            }
            4 | 5 if world.stations[station].takes_expedited(1 - station) => {
                let octets = 20 + chance.below(1500) as usize;
                let mark = world.tickets;
                world.tickets += 1;
                expedite(&mut world, station, 1 - station, mark, octets);
            }
            _ => {
                let octets = 20 + chance.below(800) as usize;
                let arq = chance.below(8) > 0;
                if !arq {
                    plain.push(world.tickets);
                }
                world.offer(station, 1 - station, octets, arq);
            }
        }
    }
    world.deaf = alloc::vec![alloc::vec![false; 2]; 2];
    world.air.bit_errors = world.air.bit_errors.min(1e-4);
    let healed = world.now;
    world.run(healed + Duration::from_secs(4000));
    for station in [0, 1] {
        assert_once(&world.marks(station));
        let ordered = world.is_ordered(1 - station, station);
        assert!(ordered, "seed {seed}: {station}");
        assert_eq!(
            world.queues[station].len(),
            0,
            "seed {seed}: {station} stalled"
        );
        assert_eq!(
            world.stations[station].held(),
            0,
            "seed {seed}: {station} holds"
        );
        let came = world.marks(1 - station);
        for (ticket, delivered) in &world.outcomes[station] {
            let known = *delivered && !plain.contains(ticket);
            let came = came.contains(ticket) || world.is_forgotten(*ticket);
            assert!(!known || came, "seed {seed}: {ticket}");
        }
    }
}

#[test]
fn whatever_happens_nothing_comes_twice_and_nothing_stays() {
    (0..200).for_each(storm);
}
