//! Turn arithmetic, without a station.

use strait_core::rate::LineRate;

use super::*;

const SLOT: Duration = Duration::from_millis(600);
const LEAD: Duration = Duration::from_millis(440);
const LATENCY: Duration = Duration::from_millis(482);
const NS: Duration = Duration::from_nanos(1);

fn address(number: usize) -> Address {
    Address::new(number as u32 + 1)
}

fn csma(order: Order) -> Csma {
    Csma {
        order,
        slot: SLOT,
        slots: 8,
        slots_max: 64,
        exchange: Duration::from_secs(30),
    }
}

/// One station of so many.
fn station(own: usize, count: usize, rule: Access) -> MediaAccess {
    let settings = Settings {
        access: rule,
        turn_max: Duration::from_secs(10),
        ..Settings::new(address(own))
    };
    let peers = (0..count).filter(|peer| *peer != own).map(address);
    let draws = ["waits", "silences"].map(|name| Stream::new(7, name));
    let mut access = MediaAccess::new(&settings, &peers.collect::<Vec<_>>(), draws);
    access.set_up(Instant::ZERO, &state(Notice::NONE), Duration::ZERO);
    access
}

/// A medium on which others notice so late what this station does.
fn state(notice: Notice) -> PortState {
    PortState {
        tx_rate: LineRate::new(9600, 8),
        rx_rate: LineRate::new(9600, 8),
        frame_octets_max: 4096,
        block: LATENCY,
        latency: LATENCY,
        notice,
    }
}

/// From whom to whom; nothing is understood of some.
type Way = Option<(usize, usize)>;

/// Lets it hear one transmission of two seconds that ends at `end`.
fn overhear(access: &mut MediaAccess, end: Instant, way: Way, heard: Heard) {
    let begins = end - Duration::from_secs(2);
    while access.advance(begins).is_some() {}
    assert!(access.hear_begin(begins));
    if let Some((from, to)) = way {
        access.hear(address(from), address(to), false);
    }
    assert_eq!(access.advance(end), None);
    let wait = access.wait_after_hearing(end, heard, true);
    access.keep_quiet(end, wait);
}

const OF_OTHERS: Heard = Heard {
    to_us: false,
    owed: None,
};

/// Lets it send to a peer for two seconds, from a moment on.
fn send(access: &mut MediaAccess, now: Instant, to: usize, wants_answer: bool) -> Instant {
    while access.advance(now).is_some() {}
    assert!(access.is_free());
    access.begin(now, LEAD, to);
    let end = now + Duration::from_secs(2);
    assert_eq!(access.advance(end), None);
    let ended = Ended {
        to: address(to),
        plain: !wants_answer,
        only_plain: !wants_answer,
        speaks: false,
        answers: false,
        wants_answer,
        latency: LATENCY,
    };
    access.end(end, &ended, true);
    end
}

/// How long it keeps quiet after `end`, checked to the nanosecond.
fn quiet(access: &mut MediaAccess, end: Instant) -> Duration {
    let Phase::Quiet(at) = access.phase() else {
        panic!("{:?}", access.phase());
    };
    assert_eq!(access.wake(), Some(at));
    assert_eq!(access.advance(at - NS), None);
    assert_eq!(access.advance(at), Some(Due::Free));
    assert_eq!(access.free_since(), at);
    at.since(end)
}

/// From the end of a transmission of ours, until an answer counts as lost.
fn answer_time() -> Duration {
    let settings = Settings::new(address(0));
    (LATENCY + LEAD) * 2 + settings.guard + settings.answer_margin
}

#[test]
fn an_answer_is_lost_at_its_time_and_not_a_nanosecond_before() {
    let mut access = station(0, 2, Access::Turns);
    let end = send(&mut access, Instant::from_secs(10), 1, true);
    let lost = end + answer_time();
    assert_eq!(access.phase(), Phase::Awaiting(lost));
    assert_eq!(access.advance(lost - NS), None);
    assert_eq!(access.advance(lost), Some(Due::Unanswered));
    assert_eq!(access.phase(), Phase::Quiet(lost));
}

#[test]
fn a_transmission_whose_end_is_lost_ends_by_itself() {
    let mut access = station(0, 2, Access::Turns);
    let begins = Instant::from_secs(10);
    assert!(access.hear_begin(begins));
    // Nothing was sent yet: the lead isn't known.
    let most = begins + EOT_MAX + answer_time() - LEAD * 2;
    assert_eq!(access.advance(most - NS), None);
    assert_eq!(access.advance(most), Some(Due::Unended));
}

#[test]
fn nobody_is_heard_while_we_send_or_the_medium_is_gone() {
    let mut access = station(0, 2, Access::Turns);
    access.begin(Instant::from_secs(1), LEAD, 1);
    assert!(!access.hear_begin(Instant::from_secs(2)));
    access.set_down();
    assert!(!access.hear_begin(Instant::from_secs(3)));
    assert_eq!((access.phase(), access.wake()), (Phase::Down, None));
}

/// By turns of two, who was spoken to begins at once, and who sent without ARQ as well.
#[test]
fn by_turns_who_was_spoken_to_begins_at_once_and_others_draw() {
    let guard = Settings::new(address(0)).guard;
    let mut access = station(0, 2, Access::Turns);
    let end = send(&mut access, Instant::from_secs(10), 1, false);
    assert_eq!(quiet(&mut access, end), guard);
    for owed in [None, Some(1)] {
        let end = Instant::from_secs(30) + Duration::from_secs(20) * u32::from(owed.is_some());
        let heard = Heard { to_us: true, owed };
        overhear(&mut access, end, Some((1, 0)), heard);
        assert_eq!(quiet(&mut access, end), guard, "{owed:?}");
        assert_eq!(access.owed(), owed);
    }
    // Of three, who wasn't spoken to leaves time for up to four answers.
    let mut access = station(0, 3, Access::Turns);
    let answer = answer_time() - LEAD * 2;
    let mut drawn: Vec<_> = (1..100)
        .map(|round| {
            let end = Instant::from_secs(60 * round);
            overhear(&mut access, end, Some((1, 2)), OF_OTHERS);
            quiet(&mut access, end)
        })
        .collect();
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn, [1, 2, 3, 4].map(|times| answer * times));
}

/// With slots of stations, number 2 of three waits three of them after any end, and after its own
/// without ARQ until the two others had theirs, twice.
#[test]
fn with_slots_a_station_waits_for_its_own() {
    let slots = Slots {
        length: Duration::from_secs(3),
        number: 2,
        turn_min: Duration::ZERO,
        committed_octets: 0,
        delivery: Duration::ZERO,
    };
    let mut access = station(0, 3, Access::Slots(slots));
    let end = Instant::from_secs(10);
    overhear(&mut access, end, Some((1, 2)), OF_OTHERS);
    assert_eq!(quiet(&mut access, end), slots.length * 3);
    let end = send(&mut access, Instant::from_secs(60), 1, false);
    assert_eq!(quiet(&mut access, end), slots.length * (3 + 2 * 2));
    // An answer that is owed goes at once.
    let end = Instant::from_secs(120);
    let heard = Heard {
        to_us: true,
        owed: Some(1),
    };
    overhear(&mut access, end, Some((1, 0)), heard);
    let guard = Settings::new(address(0)).guard;
    assert_eq!(quiet(&mut access, end), guard);
}

#[test]
fn by_address_the_turn_goes_round_from_who_spoke_last() {
    let mut end = Instant::from_secs(10);
    // By own number, and who spoke: how many slots after the answer's.
    for (own, spoke, to, slots) in [
        (0, 3, 1, 0),
        (1, 3, 0, 1),
        (2, 3, 0, 2),
        (2, 1, 3, 0),
        (0, 1, 3, 2),
    ] {
        let mut access = station(own, 4, Access::Csma(csma(Order::Address)));
        overhear(&mut access, end, Some((spoke, to)), OF_OTHERS);
        let waited = quiet(&mut access, end);
        assert_eq!(waited, SLOT * (1 + slots), "{own} after {spoke}");
        // Nobody knows whose that was: the lowest address begins.
        end += Duration::from_secs(20);
        overhear(&mut access, end, None, OF_OTHERS);
        assert_eq!(quiet(&mut access, end), SLOT * (1 + own as u32));
    }
}

/// A slot is what a beginning takes to be noticed, and the guard; before a station has sent, too.
#[test]
fn a_slot_is_as_long_as_a_beginning_takes_to_be_noticed() {
    let guard = Settings::new(address(0)).guard;
    let (short, long) = (SLOT - guard, Duration::from_millis(3325));
    for (begin, slot) in [(short, SLOT), (short + NS, SLOT + NS), (long, long + guard)] {
        let mut access = station(2, 4, Access::Csma(csma(Order::Address)));
        let notice = Notice {
            begin,
            end: Duration::ZERO,
        };
        access.set_up(Instant::ZERO, &state(notice), Duration::ZERO);
        let end = Instant::from_secs(20);
        overhear(&mut access, end, Some((3, 0)), OF_OTHERS);
        assert_eq!(quiet(&mut access, end), slot * 3, "{begin:?}");
    }
}

/// Where a silence takes longer to be noticed than the last block to be decoded, who ended counts
/// from when the others have noticed it.
#[test]
fn all_count_from_when_the_end_is_noticed() {
    for (end_noticed, known) in [(LATENCY, LATENCY), (LATENCY + NS, LATENCY + NS)] {
        let mut access = station(0, 4, Access::Csma(csma(Order::Address)));
        let notice = Notice {
            begin: Duration::ZERO,
            end: end_noticed,
        };
        access.set_up(Instant::ZERO, &state(notice), Duration::ZERO);
        let end = send(&mut access, Instant::from_secs(10), 1, false);
        assert_eq!(quiet(&mut access, end), known + SLOT * 4);
    }
}

#[test]
fn who_can_not_understand_a_fast_transmission_knows_by_its_answers_whose_turn_it_was() {
    let (there, back, fast) = (Some((0, 1)), Some((1, 0)), None);
    let in_time = Duration::from_millis(500);
    // What the third station hears, the pause before each, and how many slots it waits at the end
    // after the answer's: none behind the second one's turn, one behind the first one's, and two if
    // it doesn't know.
    for (heard, pause, slots) in [
        (&[fast][..], in_time, 2),
        (&[fast, back], in_time, 1),
        (&[fast, fast, there], in_time, 1),
        (&[fast, back, fast, back], in_time, 1),
        (&[back, fast], in_time, 0),
        (&[back, fast, back], in_time, 0),
        // They met.
        (&[back, fast], SLOT + LEAD, 2),
        (&[fast, back], SLOT + LEAD, 0),
    ] {
        let mut access = station(2, 3, Access::Csma(csma(Order::Address)));
        let mut end = Instant::from_secs(10);
        for way in heard {
            end += pause + Duration::from_secs(2);
            overhear(&mut access, end, *way, OF_OTHERS);
        }
        assert_eq!(quiet(&mut access, end), SLOT * (1 + slots), "{heard:?}");
    }
}

#[test]
fn jitter_is_any_time_behind_the_answers_slot() {
    let mut access = station(0, 3, Access::Csma(csma(Order::Jitter)));
    let mut end = Instant::from_secs(10);
    for _ in 0..50 {
        overhear(&mut access, end, Some((1, 2)), OF_OTHERS);
        let waited = quiet(&mut access, end);
        assert!((SLOT..SLOT * 9).contains(&waited), "{waited:?}");
        assert!(!waited.as_nanos().is_multiple_of(SLOT.as_nanos()));
        end += Duration::from_secs(60);
    }
}

/// Two that answer each other with data let others in once they have had their time.
#[test]
fn an_exchange_ends_with_a_brief_answer() {
    let mut access = station(0, 3, Access::Csma(csma(Order::Address)));
    let heard = Heard {
        to_us: true,
        owed: Some(1),
    };
    let begin = Instant::from_secs(10);
    overhear(&mut access, begin, Some((1, 0)), heard);
    // It counts from the transmission that was answered first.
    let over = begin - Duration::from_secs(2) + csma(Order::Address).exchange;
    for (now, brief) in [(over - NS, false), (over, true)] {
        let mut access = station(0, 3, Access::Csma(csma(Order::Address)));
        overhear(&mut access, begin, Some((1, 0)), heard);
        while access.advance(now).is_some() {}
        let answers = true;
        let begun = access.begin(now, LEAD, 1);
        assert_eq!((begun.brief, begun.answers), (brief, answers));
    }
}
