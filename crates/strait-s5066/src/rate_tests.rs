use super::*;
use strait_core::waveform::{self, Bandwidth, Family, Interleaver};

fn adapt() -> Adapt {
    let narrow = Bandwidth::default();
    let find = |rate| waveform::find(Family::M110D, narrow, Interleaver::Short, rate);
    Adapt {
        ladder: waveform::rates(Family::M110D, narrow)
            .filter_map(find)
            .collect(),
        interleaver: 1,
        waveform: 7,
        agree: false,
        advice: true,
    }
}

const fn told((frames, lost): (u32, u32)) -> Told {
    Told { frames, lost }
}

/// A rate at so many bit/s, and what it is after `frames` of which `lost` were lost.
fn after(start: u32, news: &[(u32, u32)]) -> (u32, Rate) {
    let adapt = adapt();
    let mut rate = Rate::new(adapt.place(start));
    for news in news {
        let used = rate.at();
        rate.learn(Instant::ZERO, &adapt, used, told(*news));
    }
    (adapt.rate(rate.at()), rate)
}

#[test]
fn it_falls_to_what_would_deliver_most_if_that_is_more() {
    // They need 21, 19, 16 and 13 dB. Where nothing comes, it may have been far too fast.
    for (lost, expected) in [(47, 9600), (48, 8000), (50, 8000), (51, 6400), (100, 4800)] {
        assert_eq!(after(9600, &[(100, lost)]).0, expected, "{lost}");
    }
    // There is nothing between 600 and 1200 bit/s, and nothing below 75.
    for (lost, expected) in [(87, 1200), (88, 600)] {
        assert_eq!(after(1200, &[(100, lost)]).0, expected, "{lost}");
    }
    assert_eq!(after(75, &[(100, 100)]).0, 75);
}

#[test]
fn short_segments_lower_what_a_rate_delivers() {
    let adapt = adapt();
    let after = |payload| {
        let mut rate = Rate::new(adapt.place(4800));
        // By 3200 bit/s nothing was lost, in long frames.
        rate.note(Instant::ZERO, &adapt, adapt.place(3200), told((20, 0)));
        rate.carries(payload);
        rate.learn(Instant::ZERO, &adapt, rate.at(), told((100, 25)));
        adapt.rate(rate.at())
    };
    // 3600 bit/s with all that is around segments, or 2880 of payload.
    assert_eq!([0.98, 0.8].map(after), [4800, 3200]);
}

#[test]
fn one_answer_of_a_fade_does_not_lower_a_rate_that_was_good() {
    let (good, faded) = ((100, 0), (100, 55));
    assert_eq!(after(16_000, &[faded]).0, 12_000);
    assert_eq!(after(16_000, &[good, faded]).0, 16_000);
    assert_eq!(after(16_000, &[good, faded, faded]).0, 12_000);
    assert_eq!(after(16_000, &[good, faded, good, faded]).0, 16_000);
}

#[test]
fn a_higher_rate_is_tried_if_it_would_deliver_more() {
    // 6400 bit/s need 3 dB more: twice as many fades are too deep.
    assert_eq!(after(4800, &[(100, 26)]).0, 4800);
    assert_eq!(after(4800, &[(100, 25)]).0, 6400);
    // Three frames tell too little, a fourth is enough.
    assert_eq!(after(4800, &[(3, 0)]).0, 4800);
    assert_eq!(after(4800, &[(3, 0), (1, 0)]).0, 6400);
    assert_eq!(after(16_000, &[(100, 0)]).0, 16_000);
}

#[test]
fn a_trial_must_deliver_more_and_is_not_repeated_before_its_pause() {
    // 4800 bit/s without loss; 6400 with 25 % lost deliver as much, with 21 % a twentieth more.
    assert_eq!(after(4800, &[(100, 0), (100, 22)]).0, 4800);
    assert_eq!(after(4800, &[(100, 0), (100, 21)]).0, 6400);
    let adapt = adapt();
    let (_, mut rate) = after(4800, &[(100, 0), (100, 26)]);
    let end = Instant::ZERO + PAUSE;
    let before = Instant::from_nanos(end.as_nanos() - 1);
    for (now, expected) in [(before, 4800), (end, 6400)] {
        let at = rate.at();
        rate.learn(now, &adapt, at, told((100, 0)));
        assert_eq!(adapt.rate(rate.at()), expected);
    }
    // The next pause is twice as long.
    let at = rate.at();
    rate.learn(end, &adapt, at, told((100, 60)));
    let at = rate.at();
    rate.learn(end + PAUSE, &adapt, at, told((100, 0)));
    assert_eq!(adapt.rate(rate.at()), 4800);
    rate.learn(end + PAUSE * 2, &adapt, at, told((100, 0)));
    assert_eq!(adapt.rate(rate.at()), 6400);
    assert_eq!((rate.changes.up, rate.changes.down), (3, 2));
}

#[test]
fn pauses_are_longer_where_an_answer_takes_long_and_a_trial_in_vain_leaves_it_calm() {
    let adapt = adapt();
    for (answer_s, pause_s) in [(5, 30), (6, 36)] {
        let mut rate = Rate::new(adapt.place(4800));
        rate.answers_take(Duration::from_secs(answer_s));
        let at = rate.at();
        rate.learn(Instant::ZERO, &adapt, at, told((100, 0)));
        let calm = rate.calm;
        let trial = rate.at();
        rate.learn(Instant::ZERO, &adapt, trial, told((100, 50)));
        assert_eq!((rate.at(), rate.calm), (at, 1), "from {calm}");
        let end = Instant::from_secs(pause_s);
        let before = Instant::from_nanos(end.as_nanos() - 1);
        for (now, expected) in [(before, at), (end, trial)] {
            rate.learn(now, &adapt, at, told((100, 0)));
            assert_eq!(rate.at(), expected, "{answer_s}");
        }
    }
}

/// A ladder by long interleavers, and a rate of it.
fn long(start: u32) -> (Adapt, Rate) {
    let narrow = Bandwidth::default();
    let find = |rate| waveform::find(Family::M110D, narrow, Interleaver::Long, rate);
    let adapt = Adapt {
        ladder: waveform::rates(Family::M110D, narrow)
            .filter_map(find)
            .collect(),
        ..adapt()
    };
    let rate = Rate::new(adapt.place(start));
    (adapt, rate)
}

#[test]
fn a_lower_rate_is_tried_where_a_block_spans_fades_and_kept_if_it_delivers_more() {
    let learn = |adapt: &Adapt, rate: &mut Rate, now, lost| {
        let at = rate.at();
        rate.carries(if adapt.rate(at) == 6400 { 0.8 } else { 0.95 });
        rate.learn(now, adapt, at, told((100, lost)));
        adapt.rate(rate.at())
    };
    // By its neighbour's record alone, 4800 bit/s deliver a little less.
    for (lost, expected) in [(0, 4800), (18, 6400)] {
        let (adapt, mut rate) = long(6400);
        assert_eq!(learn(&adapt, &mut rate, Instant::ZERO, 26), 4800);
        assert_eq!(learn(&adapt, &mut rate, Instant::ZERO, lost), expected);
        if expected == 6400 {
            // Not again at once, but behind a pause.
            let end = Instant::ZERO + PAUSE;
            let before = Instant::from_nanos(end.as_nanos() - 1);
            assert_eq!(learn(&adapt, &mut rate, before, 26), 6400);
        }
    }
    // Where blocks are short, losses follow the fades.
    assert_eq!(after(6400, &[(100, 26)]).0, 6400);
}

#[test]
fn a_trial_begins_short_where_a_block_spans_fades_and_nothing_came_of_the_last() {
    let (adapt, mut rate) = long(4800);
    let at = rate.at();
    rate.learn(Instant::ZERO, &adapt, at, told((100, 0)));
    assert!(rate.at() > at && !rate.is_probed());
    rate.miss(Instant::ZERO, &adapt, 0);
    rate.hear(0);
    let later = Instant::ZERO + PAUSE;
    rate.learn(later, &adapt, at, told((100, 0)));
    assert!(rate.at() > at && rate.is_probed());
    // It goes on if anything came: by a whole transmission, and that is judged.
    let trial = rate.at();
    rate.learn(later, &adapt, trial, told((10, 5)));
    assert!(rate.at() == trial && !rate.is_probed());
    rate.learn(later, &adapt, trial, told((100, 40)));
    assert_eq!(rate.at(), at);
}

#[test]
fn silence_halves_it_twice_and_then_leaves_the_slowest_and_it_finds_back_in_strides() {
    let adapt = adapt();
    let (_, mut rate) = after(9600, &[]);
    let mut heard = Vec::new();
    for _ in 0..5 {
        rate.miss(Instant::ZERO, &adapt, 0);
        heard.push(adapt.rate(rate.at()));
    }
    assert_eq!(heard, [4800, 2400, 75, 75, 75]);
    assert_eq!(rate.changes.silent, 3);
    rate.hear(0);
    heard.clear();
    for _ in 0..6 {
        let at = rate.at();
        rate.learn(Instant::ZERO, &adapt, at, told((2, 0)));
        heard.push(adapt.rate(rate.at()));
    }
    // From 9600, as far as it was before, it goes on by single steps, judged by four frames.
    assert_eq!(heard, [300, 1200, 4800, 9600, 12_000, 12_000]);
}

#[test]
fn a_fall_for_a_lost_answer_is_taken_back() {
    let adapt = adapt();
    // If less came, to what would deliver most; if next to nothing did, not at all.
    for (came, expected) in [(75, 9600), (60, 8000), (17, 6400), (16, 4800)] {
        let (_, mut rate) = after(9600, &[]);
        let used = rate.at();
        rate.miss(Instant::ZERO, &adapt, 0);
        rate.hear(0);
        let late = Late { frames: 100, came };
        rate.hear_late(Instant::ZERO, &adapt, used, late);
        assert_eq!(adapt.rate(rate.at()), expected);
    }
}

#[test]
fn what_may_have_met_others_lowers_it_if_that_goes_on_and_slower_ones_are_heard() {
    let adapt = adapt();
    let rates = |rate: &mut Rate, news: &[(u32, u32)]| {
        let after = |news| {
            let used = rate.at();
            let (frames, came) = news;
            rate.hear_met(Instant::ZERO, &adapt, used, Late { frames, came });
            adapt.rate(rate.at())
        };
        news.iter().copied().map(after).collect::<Vec<_>>()
    };
    let (_, mut rate) = after(9600, &[]);
    let met = [(20, 0), (20, 4), (20, 0)];
    assert_eq!(rates(&mut rate, &met), [9600, 9600, 4800]);
    // Others that come through tell that it's chance.
    let (_, mut rate) = after(9600, &[]);
    assert_eq!(rates(&mut rate, &[(20, 0), (20, 0)]), [9600, 9600]);
    let used = rate.at();
    rate.learn(Instant::ZERO, &adapt, used, told((20, 6)));
    assert_eq!(rates(&mut rate, &[(20, 0), (20, 0)]), [9600, 9600]);
    // Where only the answer met another, what came is learnt from.
    assert_eq!(rates(&mut rate, &[(20, 20), (20, 0)]), [12_000, 12_000]);
    // A rate that is tried has less credit.
    assert_eq!(rates(&mut rate, &[(20, 0)]), [9600]);
    // What went by a slower one says nothing.
    let late = Late {
        frames: 20,
        came: 0,
    };
    rate.hear_met(Instant::ZERO, &adapt, used - 1, late);
    assert_eq!((rate.at(), rate.lost), (used, 0));
}

#[test]
fn where_the_other_is_heard_again_it_begins_at_half_of_that_rate() {
    let adapt = adapt();
    for (heard, expected) in [(75, 75), (1200, 600), (9600, 2400)] {
        let (_, mut rate) = after(2400, &[]);
        for _ in 0..3 {
            rate.miss(Instant::ZERO, &adapt, 0);
        }
        rate.hear_at(&adapt, adapt.place(heard));
        assert_eq!(adapt.rate(rate.at()), 75, "not while nothing answers");
        rate.hear(0);
        rate.hear_at(&adapt, adapt.place(heard));
        assert_eq!(adapt.rate(rate.at()), expected);
    }
}

#[test]
fn silence_ends_a_trial() {
    let adapt = adapt();
    let (_, mut rate) = after(4800, &[(100, 0)]);
    assert_eq!(adapt.rate(rate.at()), 6400);
    rate.miss(Instant::ZERO, &adapt, 0);
    assert_eq!(adapt.rate(rate.at()), 4800);
    let at = rate.at();
    rate.learn(Instant::ZERO, &adapt, at, told((100, 0)));
    assert_eq!(adapt.rate(rate.at()), 4800, "not at once again");
    rate.miss(Instant::ZERO, &adapt, 0);
    assert_eq!(adapt.rate(rate.at()), 2400);
}

#[test]
fn what_was_tried_in_vain_above_is_no_reason_to_stay_below_what_it_fell_from() {
    let adapt = adapt();
    let (_, mut rate) = after(4800, &[]);
    let mut now = Instant::ZERO;
    // Trials of 6400 bit/s pause for 16 minutes in the end.
    for _ in 0..6 {
        while adapt.rate(rate.at()) == 4800 {
            rate.learn(now, &adapt, rate.at(), told((100, 5)));
            now += Duration::from_secs(10);
        }
        rate.learn(now, &adapt, rate.at(), told((100, 90)));
        assert_eq!(adapt.rate(rate.at()), 4800);
    }
    let used = rate.at();
    rate.miss(now, &adapt, 0);
    rate.hear(0);
    let late = Late {
        frames: 100,
        came: 0,
    };
    rate.hear_late(now, &adapt, used, late);
    assert_eq!(adapt.rate(rate.at()), 2400);
    for (seconds, expected) in [(29, 2400), (30, 3200)] {
        let then = now + Duration::from_secs(seconds);
        rate.learn(then, &adapt, rate.at(), told((100, 0)));
        assert_eq!(adapt.rate(rate.at()), expected, "after {seconds} s");
    }
    // It came back: that pause holds.
    let (_, mut rate) = after(4800, &[(100, 0)]);
    let used = rate.at();
    rate.miss(Instant::ZERO, &adapt, 0);
    rate.hear(0);
    let paused = rate.not_before;
    rate.hear_late(Instant::ZERO, &adapt, used, late);
    assert_eq!((adapt.rate(rate.at()), rate.not_before), (4800, paused));
}

#[test]
fn advice_ends_what_is_tried_and_lengthens_strides() {
    let adapt = adapt();
    let with = |advice: u32| {
        let mut rate = Rate::new(adapt.place(600));
        rate.advice = Some(adapt.place(advice));
        let at = rate.at();
        rate.learn(Instant::ZERO, &adapt, at, told((10, 0)));
        adapt.rate(rate.at())
    };
    assert_eq!([600, 1200, 9600].map(with), [600, 1200, 2400]);
    // 9600 bit/s need 21 dB, and one less is enough.
    let place = |centi_db| adapt.rate(adapt.place_for(centi_db));
    assert_eq!([1999, 2000].map(place), [8000, 9600]);
    assert_eq!(place(-3000), 75);
}
