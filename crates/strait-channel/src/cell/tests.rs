use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec;

use strait_core::id::{ClassId, TxId};
use strait_core::units::{BitRate, Octets, Share};

use super::*;

/// Stations at these places, in metres on a line.
fn config(places: &[f64]) -> LinkConfig {
    let places = places.iter().map(|x| [*x, 0.0]).collect();
    let cell = CellConfig {
        places,
        ..CellConfig::default()
    };
    LinkConfig::cell(11_000_000, cell)
}

fn change(config: LinkConfig, change: impl FnOnce(&mut CellConfig)) -> LinkConfig {
    config.with(|it| {
        let LinkKind::Cell(cell) = &mut it.kind else {
            unreachable!("a cell")
        };
        change(cell);
    })
}

/// A cell whose stations call each other by their own numbers.
struct Bench {
    cell: Cell,
    now: Instant,
    ids: u64,
    /// What arrived: sender, receiver, first octet.
    heard: Vec<(Instant, usize, usize, u8)>,
    done: Vec<(Instant, usize, bool)>,
}

impl Bench {
    fn new(config: &LinkConfig, seed: u64) -> Self {
        let mut cell = Cell::new(config).unwrap();
        let LinkKind::Cell(keys) = &config.kind else {
            unreachable!("a cell")
        };
        let stations: Vec<StationId> = (0..keys.places.len())
            .map(|number| {
                let name = number.to_string();
                cell.add_station(config, Side::A, &name, seed).unwrap()
            })
            .collect();
        for b in &stations {
            for a in &stations[..b.0] {
                cell.add_path([*a, *b], config, "path", seed).unwrap();
                cell.introduce(*a, NeighbourId(b.0 as u16), *b);
                cell.introduce(*b, NeighbourId(a.0 as u16), *a);
            }
        }
        Self {
            cell,
            now: Instant::ZERO,
            ids: 0,
            heard: Vec::new(),
            done: Vec::new(),
        }
    }

    fn send(&mut self, from: usize, to: NeighbourId, octets: usize) {
        let station = StationId(from);
        self.cell.room(self.now, station).unwrap();
        self.ids += 1;
        let meta = TxMeta {
            to,
            class: ClassId(0),
            id: TxId(self.ids),
            turn: None,
        };
        let mut frame = vec![self.ids as u8; octets];
        let now = self.now;
        self.cell
            .transmit(now, station, &meta, &mut frame, &mut |_, _, _| {});
    }

    /// Until then; whoever has room in its card gets a frame if `fill` says for whom.
    fn run(&mut self, until: Instant, octets: usize, fill: &dyn Fn(usize) -> Option<usize>) {
        loop {
            for from in 0..self.cell.stations() {
                while let Some(to) = fill(from)
                    && self.cell.room(self.now, StationId(from)).is_ok()
                {
                    self.send(from, NeighbourId(to as u16), octets);
                }
            }
            let Some(at) = self.cell.next_event().filter(|at| *at <= until) else {
                break;
            };
            self.now = self.now.max(at);
            while let Some(event) = self.cell.poll(self.now) {
                let station = event.station.0;
                match event.what {
                    Heard::Frame(from, octets) => {
                        self.heard.push((event.at, from.0, station, octets[0]));
                    }
                    Heard::Done { ok, .. } => self.done.push((event.at, station, ok)),
                    other => panic!("{other:?}"),
                }
            }
        }
        self.now = until;
        self.conserves();
    }

    /// Each frame has arrived, was lost for a cause, or is under way.
    fn conserves(&self) {
        let paths = self.cell.paths.iter().flat_map(|path| &path.stats);
        let (sent, lost) = paths.fold((0, 0), |(sent, lost), stats| {
            (sent + stats.frames, lost + stats.lost_frames())
        });
        let told = self.heard.len() as u64;
        assert_eq!(sent, told + lost + self.cell.under_way() as u64);
    }
}

fn us(us: u64) -> Instant {
    Instant::from_nanos(us * 1000)
}

#[test]
fn a_frame_on_a_quiet_channel_goes_at_once_and_is_acknowledged() {
    let mut bench = Bench::new(&config(&[0.0, 200.0]), 1);
    bench.now = us(1000);
    bench.send(0, NeighbourId(1), 1298);
    bench.run(us(10_000), 0, &|_| None);
    // Preamble and 1334 octets at 11 Mbit/s; SIFS and an acknowledgement at 2 Mbit/s behind it.
    let frame = 192 + 1334 * 8 / 11;
    let (at, ..) = bench.heard[0];
    assert_eq!(at.as_nanos() / 1000, 1000 + frame);
    assert_eq!(bench.heard.len(), 1);
    let (done, station, ok) = bench.done[0];
    assert_eq!(done.as_nanos() / 1000, 1000 + frame + 10 + 192 + 56);
    assert_eq!((station, ok), (0, true));
    let stats = bench.cell.stats(PathId(0), Side::A);
    assert_eq!(stats.arrived_ns / 1000, frame);
}

#[test]
fn who_finds_the_channel_busy_draws_and_waits() {
    let mut bench = Bench::new(&config(&[0.0, 100.0, 200.0]), 1);
    bench.now = us(1000);
    bench.send(0, NeighbourId(2), 1000);
    bench.now = us(1500);
    bench.send(1, NeighbourId(2), 1000);
    bench.run(us(20_000), 0, &|_| None);
    let frame = 192_000 + 1036 * 8000 / 11;
    let exchange = frame + 10_000 + 248_000;
    let [(first, ..), (second, ..)] = bench.heard[..] else {
        panic!("{:?}", bench.heard)
    };
    assert_eq!(first.as_nanos() / 1000, 1000 + frame / 1000);
    // DIFS and whole slots behind the acknowledgement.
    let wait = second.as_nanos() - 1_000_000 - exchange - frame - 50_000;
    let slots = (wait + 10) / 20_000;
    assert!(wait.abs_diff(slots * 20_000) < 10 && slots <= 31, "{wait}");
}

/// The saturation throughput of `n` stations by Bianchi's model (IEEE JSAC 18(3), 2000), as a share
/// of the bit rate, for a window of `w` and six doublings, and these lengths of time in seconds.
fn bianchi(n: u32, w: f64, payload: f64, success: f64, collision: f64) -> f64 {
    let slot = 20e-6;
    // The chance that a station sends in a slot, as that of a collision gives it.
    let tau = |p: f64| {
        let m = 5;
        let sum: f64 = (0..m).map(|k| libm::pow(2.0 * p, f64::from(k))).sum();
        2.0 / (1.0 + w + p * w * sum)
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let p = (low + high) / 2.0;
        let meets = 1.0 - libm::pow(1.0 - tau(p), f64::from(n - 1));
        if meets > p { low = p } else { high = p }
    }
    let t = tau((low + high) / 2.0);
    let any = 1.0 - libm::pow(1.0 - t, f64::from(n));
    let one = f64::from(n) * t * libm::pow(1.0 - t, f64::from(n - 1)) / any;
    let length = (1.0 - any) * slot + any * one * success + any * (1.0 - one) * collision;
    any * one * payload / length
}

#[test]
fn saturated_cells_carry_what_bianchi_s_model_says() {
    for (n, rts) in [2, 5, 10, 20]
        .into_iter()
        .flat_map(|n| [(n, false), (n, true)])
    {
        let octets = 1000;
        // Without a limit on retries, as the model has it.
        let config = change(config(&vec![0.0; n as usize]), |it| {
            (it.retries, it.card) = (255, 1);
            it.rts = rts.then_some(Octets(0));
        });
        let mut bench = Bench::new(&config, 7);
        let seconds = 20;
        bench.run(Instant::from_secs(seconds), octets, &|from| {
            Some((from + 1) % n as usize)
        });
        let got = bench.heard.len() as f64 * octets as f64 * 8.0 / seconds as f64 / 11e6;
        let payload = octets as f64 * 8.0 / 11e6;
        let frame = 192e-6 + f64::from(octets as u32 + 36) * 8.0 / 11e6;
        let success = frame + 10e-6 + 248e-6 + 50e-6;
        let (asked, question) = (272e-6 + 10e-6 + 248e-6 + 10e-6, 272e-6);
        let success = if rts { asked + success } else { success };
        // Others wait EIFS behind what they didn't understand.
        let collision = if rts { question } else { frame } + 364e-6;
        let model = bianchi(n, 32.0, payload, success, collision);
        assert!(
            (got / model - 1.0).abs() < 0.05,
            "{n} {rts}: {got} of {model}"
        );
    }
}

#[test]
fn a_long_frame_is_asked_for_where_the_file_says_so() {
    let config = change(config(&[0.0, 200.0]), |it| it.rts = Some(Octets(500)));
    let mut bench = Bench::new(&config, 1);
    bench.now = us(1000);
    bench.send(0, NeighbourId(1), 499);
    bench.run(us(10_000), 0, &|_| None);
    bench.now = us(20_000);
    bench.send(0, NeighbourId(1), 500);
    bench.run(us(30_000), 0, &|_| None);
    let [(short, ..), (long, ..)] = bench.heard[..] else {
        panic!("{:?}", bench.heard)
    };
    assert_eq!(short.as_nanos() / 1000, 1000 + 192 + 535 * 8 / 11);
    // A question of 20 octets and a permission of 14 at 2 Mbit/s, SIFS behind each.
    let asked = (192 + 80) + 10 + (192 + 56) + 10;
    assert_eq!(long.as_nanos() / 1000, 20_000 + asked + 192 + 536 * 8 / 11);
    assert_eq!(bench.done.len(), 2);
}

#[test]
fn stations_that_do_not_hear_each_other_meet_between() {
    let fill = |from: usize| (from != 1).then_some(1);
    let share = |rate: u64, sense: Option<f64>, rts: Option<u64>| {
        let config = change(config(&[0.0, 200.0, 400.0]), |it| {
            (it.sense, it.rts) = (sense, rts.map(Octets));
        });
        let config = config.with(|it| it.rate = Some(BitRate(rate)));
        let mut bench = Bench::new(&config, 3);
        bench.run(Instant::from_secs(20), 1000, &fill);
        let collisions: u64 = bench
            .cell
            .paths
            .iter()
            .flat_map(|it| &it.stats)
            .map(|it| it.lost(LossCause::Collision))
            .sum();
        (bench.heard.len(), collisions)
    };
    let (hidden, lost) = share(11_000_000, None, None);
    let (heard, few) = share(11_000_000, Some(450.0), None);
    assert!(lost > 100 && few == 0, "{lost} {few}");
    assert!(hidden < heard * 3 / 4, "{hidden} {heard}");
    // Where they ask before, the one between tells the other: only questions meet. That pays where
    // frames are long.
    let (hidden, lost) = share(1_000_000, None, None);
    let (asked, few) = share(1_000_000, None, Some(0));
    assert!(few * 3 < lost, "{few} {lost}");
    assert!(asked > hidden, "{asked} {hidden}");
}

#[test]
fn what_nobody_acknowledges_is_given_up() {
    for (places, retries) in [([0.0, 300.0], 7), ([0.0, 300.0], 0)] {
        let config = change(config(&places), |it| it.retries = retries);
        let mut bench = Bench::new(&config, 1);
        bench.send(0, NeighbourId(1), 100);
        bench.run(Instant::from_secs(1), 0, &|_| None);
        assert_eq!(bench.heard, []);
        assert_eq!(bench.done.len(), 1);
        assert!(!bench.done[0].2);
        let stats = bench.cell.stats(PathId(0), Side::A);
        assert_eq!(stats.lost(LossCause::Outage), 1);
        let airtime = nanos(bench.cell.phy.airtime(100, LineRate::new(11_000_000, 8)));
        assert_eq!(stats.busy_ns, airtime * u64::from(retries + 1));
        assert_eq!(stats.arrived_ns, 0);
    }
}

#[test]
fn lost_acknowledgements_deliver_nothing_twice() {
    let config = config(&[0.0, 100.0]).with(|it| it.loss = Some(Share(0.4)));
    let mut bench = Bench::new(&config, 5);
    let mut sent = 0;
    while sent < 500 {
        bench.send(0, NeighbourId(1), 200);
        sent += 1;
        let until = bench.now + Duration::from_millis(300);
        bench.run(until, 0, &|_| None);
    }
    let mut counts: BTreeMap<(Instant, u8), u32> = BTreeMap::new();
    for (at, _, _, octet) in &bench.heard {
        *counts.entry((*at, *octet)).or_default() += 1;
    }
    // 0.64 of attempts fail; eight of them in 0.028 of the cases.
    let failed = bench.done.iter().filter(|(_, _, ok)| !ok).count();
    assert!((5..30).contains(&failed), "{failed}");
    assert!(bench.heard.len() <= 500 && bench.heard.len() > 490 - failed);
    assert!(counts.values().all(|count| *count == 1));
}

#[test]
fn frames_for_all_go_once_at_the_basic_rate() {
    let mut bench = Bench::new(&config(&[0.0, 200.0, -200.0, 400.0]), 1);
    bench.send(0, NeighbourId::ALL, 100);
    bench.run(Instant::from_secs(1), 0, &|_| None);
    let to: Vec<usize> = bench.heard.iter().map(|(_, _, to, _)| *to).collect();
    assert_eq!(to, [1, 2]);
    assert_eq!(bench.heard[0].0, us(50 + 192 + 136 * 8));
    assert_eq!(bench.cell.stats(PathId(3), Side::A).lost_frames(), 1);
}

#[test]
fn a_station_that_walks_away_is_heard_no_more() {
    let walks = change(config(&[0.0, 200.0]), |it| {
        it.moves = vec![Move {
            station: 1,
            from: strait_core::units::Time(Duration::from_secs(10)),
            until: strait_core::units::Time(Duration::from_secs(20)),
            to: [300.0, 0.0],
        }];
    });
    walks.validate().unwrap();
    let LinkKind::Cell(cell) = &walks.kind else {
        panic!("a cell");
    };
    assert_eq!(cell.way(0), [[0.0, 0.0, 0.0]]);
    let [first, from, until] = cell.way(1)[..] else {
        panic!("it moves once");
    };
    assert_eq!([first[1], from[1]], [200.0, 200.0]);
    assert!(until[0] > from[0] && until[1] > 200.0);
    let mut bench = Bench::new(&walks, 1);
    for second in 1..30 {
        bench.send(0, NeighbourId(1), 100);
        bench.run(Instant::from_secs(second), 0, &|_| None);
    }
    // At 10 m/s from 200 m on, 250 m are reached after five seconds.
    assert!(
        (15..=16).contains(&bench.heard.len()),
        "{}",
        bench.heard.len()
    );
}

#[test]
fn a_station_that_ends_leaves_nothing_behind() {
    let three = change(config(&[0.0, 200.0]), |it| it.card = 3);
    let mut bench = Bench::new(&three, 1);
    for _ in 0..3 {
        bench.send(0, NeighbourId(1), 1000);
    }
    assert_eq!(bench.cell.room(bench.now, StationId(0)), Err(None));
    bench.run(us(500), 0, &|_| None);
    bench.cell.silence(bench.now, StationId(0));
    bench.run(Instant::from_secs(1), 0, &|_| None);
    assert_eq!(bench.heard, []);
    assert_eq!(bench.done, []);
    let stats = bench.cell.stats(PathId(0), Side::A);
    assert_eq!(stats.lost(LossCause::Outage), 3);
    bench.send(0, NeighbourId(1), 1000);
    bench.run(Instant::from_secs(2), 0, &|_| None);
    assert_eq!(bench.heard.len(), 1);
}

#[test]
fn keys_that_make_no_cell_are_refused() {
    let error = |config: LinkConfig| config.validate().unwrap_err().to_string();
    assert!(error(config(&[0.0])).contains("cell.places"));
    let small = change(config(&[0.0, 1.0]), |it| it.sense = Some(10.0));
    assert!(error(small).contains("cell.sense"));
    let slow = config(&[0.0, 1.0]).with(|it| it.rate = Some(BitRate(0)));
    assert!(error(slow).contains("rate"));
    let windows = change(config(&[0.0, 1.0]), |it| it.window_max = 3);
    assert!(error(windows).contains("cell.window_max"));
    let mut cell = Cell::new(&config(&[0.0, 1.0])).unwrap();
    for name in ["a", "b"] {
        cell.add_station(&config(&[0.0, 1.0]), Side::A, name, 1)
            .unwrap();
    }
    let third = cell.add_station(&config(&[0.0, 1.0]), Side::A, "c", 1);
    assert!(third.unwrap_err().to_string().contains("cell.places"));
}

/// The rates of 802.11b, and how far they go.
fn several(config: LinkConfig, adapt: Adapt) -> LinkConfig {
    let row = |kbit_s: u64, reach: f64| Rate {
        rate: BitRate(kbit_s * 1000),
        reach,
    };
    change(config, |it| {
        it.rates = vec![
            row(11_000, 110.0),
            row(5_500, 150.0),
            row(2_000, 190.0),
            row(1_000, 240.0),
        ];
        it.adapt = adapt;
    })
}

#[test]
fn cards_take_the_rate_that_the_distance_allows() {
    let carried = |config: LinkConfig| {
        let mut bench = Bench::new(&config, 3);
        bench.run(Instant::from_secs(20), 1000, &|from| {
            (from == 0).then_some(1)
        });
        let before = bench.heard.len();
        bench.run(Instant::from_secs(40), 1000, &|from| {
            (from == 0).then_some(1)
        });
        bench.heard.len() - before
    };
    for adapt in [Adapt::Arf, Adapt::Minstrel] {
        for (metres, rate) in [
            (60.0, 11_000),
            (130.0, 5_500),
            (175.0, 2_000),
            (220.0, 1_000),
        ] {
            let fixed = config(&[0.0, metres]).with(|it| it.rate = Some(BitRate(rate * 1000)));
            let chosen = carried(several(config(&[0.0, metres]), adapt));
            let share = chosen as f64 / carried(fixed) as f64;
            // What trying a rate that doesn't work costs is a few frames of the slowest.
            assert!(
                (0.85..=1.01).contains(&share),
                "{adapt:?} {metres}: {share}"
            );
        }
    }
}

#[test]
fn a_far_station_that_sends_as_often_takes_most_of_the_air() {
    let places = [0.0, 50.0, 40.0, 30.0, 230.0];
    let airtime = |far: bool| {
        let mut bench = Bench::new(&several(config(&places), Adapt::Minstrel), 3);
        bench.run(Instant::from_secs(20), 1000, &|from| {
            (from > 0 && (far || from < 4)).then_some(0)
        });
        let busy = |other: usize| {
            let (path, side) = bench.cell.between[&(other, 0)];
            bench.cell.paths[path].stats[side.index()].busy_ns as f64 / 20e9
        };
        [busy(1), busy(4)]
    };
    let ([alone, _], [near, far]) = (airtime(false), airtime(true));
    // Each sends as many frames as the others (Heusse et al., «Performance Anomaly of 802.11b»).
    assert!(
        near < alone / 1.8 && far > 3.0 * near,
        "{alone} {near} {far}"
    );
}

#[test]
fn wandering_without_sense_is_refused() {
    let good = Wander {
        stations: vec![1],
        area: [[0.0, 0.0], [100.0, 50.0]],
        speed: [1.0, 2.0],
        pause: None,
        together: false,
        seed: 0,
    };
    let error = |change_it: fn(&mut Wander)| {
        let mut wander = good.clone();
        change_it(&mut wander);
        let config = change(config(&[0.0, 1.0]), |it| it.wander = Some(wander));
        config.validate().map_err(|error| error.to_string())
    };
    assert_eq!(error(|_| {}), Ok(()));
    assert!(error(|it| it.stations = vec![2]).is_err_and(|it| it.contains("wander.stations")));
    assert!(error(|it| it.area[1] = [100.0, 0.0]).is_err_and(|it| it.contains("wander.area")));
    assert!(error(|it| it.speed = [2.0, 1.0]).is_err_and(|it| it.contains("wander.speed")));
    assert!(error(|it| it.speed = [0.0, 1.0]).is_err_and(|it| it.contains("wander.speed")));
    assert!(error(|it| it.speed[1] = f64::NAN).is_err_and(|it| it.contains("wander.speed")));
}

#[test]
fn rates_without_sense_are_refused() {
    let error = |change_it: fn(&mut CellConfig)| {
        let config = change(several(config(&[0.0, 1.0]), Adapt::Arf), change_it);
        config.validate().unwrap_err().to_string()
    };
    assert!(error(|it| it.rates[1].rate = it.rates[0].rate).contains("cell.rates.rate"));
    assert!(error(|it| it.rates[0].reach = 251.0).contains("cell.rates.reach"));
    assert!(error(|it| it.path_loss = f64::NAN).contains("cell.path_loss"));
    assert!(error(|it| it.rates[3].rate = BitRate(999)).contains("cell.rates.rate"));
}

/// What of two frames for a station between them arrives, the second of which begins so long
/// behind the first.
fn captured(places: &[f64], db: Option<f64>, behind: u64) -> Vec<usize> {
    let config = change(config(places), |it| it.capture = db);
    let mut bench = Bench::new(&config.with(|it| it.rate = Some(BitRate(1_000_000))), 1);
    for from in (0..places.len()).filter(|from| *from != 1) {
        bench.now = us(1000 + behind * from as u64);
        bench.run(bench.now, 0, &|_| None);
        bench.send(from, NeighbourId::ALL, 500);
    }
    bench.run(us(20_000), 0, &|_| None);
    let there = bench.heard.iter().filter(|(_, _, to, _)| *to == 1);
    there.map(|(_, from, ..)| *from).collect()
}

#[test]
fn a_stronger_frame_captures_the_receiver_whenever_it_begins() {
    // 240 m and 100 m: 11.4 dB at an exponent of 3.
    let (far, near) = ([-240.0, 0.0, 100.0], [-100.0, 0.0, 240.0]);
    // Within the preamble of the weaker frame, and behind it.
    for behind in [50, 2000] {
        assert_eq!(captured(&far, None, behind), []);
        assert_eq!(captured(&far, Some(10.0), behind), [2]);
        assert_eq!(captured(&near, Some(10.0), behind), [0]);
        assert_eq!(captured(&far, Some(12.0), behind), []);
        assert_eq!(captured(&[-200.0, 0.0, 200.0], Some(0.1), behind), []);
        assert_eq!(captured(&[-200.0, 0.0, 200.0], Some(0.0), behind), [0, 2]);
    }
}

#[test]
fn several_weaker_frames_together_may_be_too_much() {
    // Those at 240 m don't hear each other, nor the one at 100 m, which is 11.4 dB stronger than
    // each of them, and 8.4 dB stronger than both.
    let places = [[-240.0, 0.0], [0.0, 0.0], [100.0, 0.0], [-50.0, 235.0]];
    let got = |stations: usize| {
        let config = change(config(&[0.0; 4][..stations]), |it| {
            (it.places, it.capture) = (places[..stations].to_vec(), Some(10.0));
        });
        let mut bench = Bench::new(&config.with(|it| it.rate = Some(BitRate(1_000_000))), 1);
        bench.now = us(1000);
        for from in (0..stations).filter(|from| *from != 1) {
            bench.send(from, NeighbourId::ALL, 500);
        }
        bench.run(us(20_000), 0, &|_| None);
        bench.heard.iter().filter(|(_, _, to, _)| *to == 1).count()
    };
    assert_eq!([got(3), got(4)], [1, 0]);
}

#[test]
fn frames_of_802_11g_are_whole_symbols_and_go_as_far_as_their_rate() {
    let ofdm = |metres: f64| {
        change(config(&[0.0, metres]), |it| it.waveform = Waveform::Ofdm)
            .with(|it| it.rate = Some(BitRate(54_000_000)))
    };
    let LinkKind::Cell(cell) = &ofdm(30.0).kind else {
        unreachable!("a cell")
    };
    let phy = Phy::of(cell, Some(54_000_000));
    // 1536 octets with their headers: 57 symbols of 216 bits; an acknowledgement at 24 Mbit/s: 2
    // of 96.
    let micros = |time: Duration| time.as_nanos() as f64 / 1000.0;
    assert_eq!(micros(phy.airtime(1500, phy.rate)), 20.0 + 57.0 * 4.0 + 6.0);
    assert_eq!(micros(phy.ack(phy.rate)), 20.0 + 2.0 * 4.0 + 6.0);
    assert_eq!(
        micros(phy.ack(LineRate::new(9_000_000, 8))),
        20.0 + 6.0 * 4.0 + 6.0
    );
    let carried = |metres: f64| {
        let mut bench = Bench::new(&ofdm(metres), 3);
        let fill = |from| (from == 0).then_some(1);
        bench.run(Instant::from_secs(10), 1500, &fill);
        bench.heard.len() as f64 * 1500.0 * 8.0 / 10e6
    };
    // DIFS, half a window of 15 slots, and the two above: 380 µs; at the edge, 6 Mbit/s, 2.2 ms.
    let (near, middle, edge) = (carried(30.0), carried(120.0), carried(235.0));
    assert!((29.0..31.8).contains(&near), "{near}");
    assert!((10.0..20.0).contains(&middle), "{middle}");
    assert!((4.2..6.0).contains(&edge), "{edge}");
}

#[test]
fn stations_with_slots_send_in_them_alone() {
    let slotted = change(config(&[0.0, 200.0, 400.0]), |it| {
        it.tdma = Some(Tdma {
            slot: strait_core::units::Time(Duration::from_millis(20)),
            guard: strait_core::units::Time(Duration::from_millis(1)),
            order: vec![0, 1, 2, 1],
        });
    })
    .with(|it| it.rate = Some(BitRate(2_000_000)));
    slotted.validate().unwrap();
    let mut bench = Bench::new(&slotted, 1);
    let fill = |from: usize| Some(if from == 1 { 2 } else { 1 });
    let mut sent = Vec::new();
    while bench.now < Instant::from_secs(8) {
        bench.run(bench.now + Duration::from_millis(1), 1000, &fill);
        sent.extend(bench.cell.air.iter().filter_map(|it| {
            matches!(it.what, What::Frame { .. }).then_some((bench.now, it.from))
        }));
    }
    for (at, from) in &sent {
        let slot = at.as_nanos() / 20_000_000 % 4;
        assert!([0, 1, 2, 1][slot as usize] == *from, "{from} at {at:?}");
    }
    let stats = bench.cell.paths.iter().flat_map(|it| &it.stats);
    assert_eq!(stats.map(ChannelStats::lost_frames).sum::<u64>(), 0);
    // A frame of 1036 octets takes 4.6 ms with its acknowledgement, so that a slot has four; the
    // one between has twice as many as the others.
    let of = |it: usize| {
        bench
            .heard
            .iter()
            .filter(|(_, from, ..)| *from == it)
            .count()
    };
    assert!((395..=400).contains(&of(0)), "{}", of(0));
    assert!(of(1) > 790 && of(2) > 395, "{} {}", of(1), of(2));
    let rate = bench.cell.state(bench.now, StationId(1)).unwrap().tx_rate;
    // Two of 1500 octets a slot.
    assert_eq!(rate.bit_s(), 2 * 2 * 1500 * 8 * 1000 / 80);
}

#[test]
fn slots_without_sense_are_refused() {
    let error = |change_it: fn(&mut CellConfig)| {
        let slots = Tdma {
            slot: strait_core::units::Time(Duration::from_millis(20)),
            guard: strait_core::units::Time(Duration::from_millis(1)),
            order: vec![],
        };
        let config = change(config(&[0.0, 1.0]), |it| it.tdma = Some(slots));
        let error = change(config, change_it).validate();
        error.map_err(|error| error.to_string())
    };
    assert_eq!(error(|_| {}), Ok(()));
    let says = |change_it, key: &str| error(change_it).is_err_and(|it| it.contains(key));
    assert!(says(
        |it| it.tdma.as_mut().unwrap().order = vec![0, 2],
        "tdma.order"
    ));
    assert!(says(
        |it| it.tdma.as_mut().unwrap().order = vec![0, 0],
        "each station"
    ));
    assert!(says(|it| it.rts = Some(Octets(1)), "cell.rts"));
    // Broadcast frames of 1500 octets take 12.5 ms.
    let short = |it: &mut CellConfig| {
        it.tdma.as_mut().unwrap().slot.0 = Duration::from_millis(13);
    };
    assert!(says(short, "frame_octets_max"));
}
