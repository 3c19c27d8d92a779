//! What every driver's storage has to do, line by line.

use strait_core::node::{Owner, StoreError, StoreOp, Ticket};
use strait_core::storage::{Answer, Asked, LOAD_OCTETS_MAX, WAITING_MAX, WAITING_OCTETS_MAX};

/// Storage under test, of one node.
pub(crate) trait Storage {
    /// Asks for something.
    fn ask(&mut self, ticket: Ticket, asked: Asked);

    /// Waits for the next answer.
    fn answer(&mut self) -> (Ticket, Answer);

    /// Stops in order and starts again: every key, and the octets of its value.
    fn restart(&mut self) -> Vec<(Vec<u8>, u64)>;

    /// The device fails for good.
    fn fail(&mut self);
}

/// All lines. `make` gives storage that has room for about so many octets and holds nothing.
pub(crate) fn all<S: Storage>(make: impl Fn(u64) -> S) {
    const ROOM: u64 = 4_000_000;
    answers_come_in_order_and_loads_see_what_was_asked_for_before(&mut make(ROOM));
    what_is_not_there_is_told_from_what_is_empty(&mut make(ROOM));
    chunks_are_cut_where_they_are_asked_for(&mut make(ROOM));
    what_was_acknowledged_is_there_after_a_restart(&mut make(ROOM));
    a_batch_that_does_not_fit_changes_nothing(&mut make(ROOM));
    what_is_too_much_at_a_time_is_refused_in_its_turn(&mut make(ROOM));
    a_device_that_fails_is_told_of(&mut make(ROOM));
}

pub(crate) const fn ticket(n: u64) -> Ticket {
    Ticket { owner: Owner(1), n }
}

pub(crate) fn put(key: &[u8], value: &[u8]) -> StoreOp {
    StoreOp::Put(key.into(), value.into())
}

pub(crate) fn append(key: &[u8], more: &[u8]) -> StoreOp {
    StoreOp::Append(key.into(), more.into())
}

pub(crate) fn delete(key: &[u8]) -> StoreOp {
    StoreOp::Delete(key.into())
}

pub(crate) fn load(key: &[u8], offset: u64, octets: u32) -> Asked {
    Asked::Load {
        key: key.into(),
        offset,
        octets,
    }
}

const STORED: Answer = Answer::Stored(Ok(()));

fn loaded(octets: &[u8]) -> Answer {
    Answer::Loaded(Ok(Some(octets.into())))
}

/// Asks for one thing and waits for its answer.
pub(crate) fn done(storage: &mut impl Storage, asked: Asked) -> Answer {
    storage.ask(ticket(77), asked);
    let (answered, answer) = storage.answer();
    assert_eq!(answered, ticket(77));
    answer
}

fn store(storage: &mut impl Storage, batch: Vec<StoreOp>) -> Answer {
    done(storage, Asked::Store(batch))
}

fn answers_come_in_order_and_loads_see_what_was_asked_for_before(storage: &mut impl Storage) {
    let other = Ticket {
        owner: Owner(2),
        n: 1,
    };
    let batches = [
        vec![put(b"a", b"1")],
        vec![append(b"a", b"23"), append(b"b", b"x")],
        vec![put(b"a", b"4"), delete(b"b"), append(b"a", b"5")],
        vec![delete(b"a")],
    ];
    for (n, batch) in (0..).zip(batches) {
        storage.ask(ticket(2 * n), Asked::Store(batch));
        storage.ask(ticket(2 * n + 1), load(b"a", 0, 10));
    }
    storage.ask(other, load(b"b", 0, 10));
    let expected = [loaded(b"1"), loaded(b"123"), loaded(b"45")];
    let nothing = Answer::Loaded(Ok(None));
    for (n, expected) in (0..).zip(expected.iter().chain([&nothing])) {
        assert_eq!(storage.answer(), (ticket(2 * n), STORED));
        assert_eq!(storage.answer(), (ticket(2 * n + 1), expected.clone()));
    }
    assert_eq!(storage.answer(), (other, nothing));
}

fn what_is_not_there_is_told_from_what_is_empty(storage: &mut impl Storage) {
    assert_eq!(done(storage, load(b"", 0, 9)), Answer::Loaded(Ok(None)));
    let batch = vec![put(b"", b""), append(&[0xff, 0], b""), delete(b"never")];
    assert_eq!(store(storage, batch), STORED);
    assert_eq!(done(storage, load(b"", 0, 9)), loaded(b""));
    assert_eq!(done(storage, load(&[0xff, 0], 7, 9)), loaded(b""));
    assert_eq!(store(storage, vec![]), STORED);
    assert_eq!(storage.restart(), [(vec![], 0), (vec![0xff, 0], 0)]);
}

fn chunks_are_cut_where_they_are_asked_for(storage: &mut impl Storage) {
    let value: Vec<u8> = (0..300_000u32).map(|at| (at * 7 / 5) as u8).collect();
    // Neither row nor page of anybody.
    for piece in value.chunks(70_001) {
        assert_eq!(store(storage, vec![append(b"v", piece)]), STORED);
    }
    for (offset, octets) in [
        (0, 1),
        (0, 300_000),
        (1, 65_536),
        (65_535, 2),
        (70_000, 70_003),
        (299_999, 5),
        (300_000, 5),
        (u64::MAX, u32::MAX),
        (150_000, 0),
    ] {
        let from = usize::try_from(offset).unwrap().min(value.len());
        let to = from.saturating_add(octets as usize).min(value.len());
        assert_eq!(
            done(storage, load(b"v", offset, octets)),
            loaded(&value[from..to])
        );
    }
    let large = vec![1; LOAD_OCTETS_MAX as usize + 1];
    assert_eq!(store(storage, vec![put(b"v", &large)]), STORED);
    let all = done(storage, load(b"v", 0, u32::MAX));
    assert_eq!(all, loaded(&large[1..]));
}

fn what_was_acknowledged_is_there_after_a_restart(storage: &mut impl Storage) {
    let batch = vec![put(b"b", b"2"), put(b"a", b"1"), put(b"c", b"3")];
    assert_eq!(store(storage, batch), STORED);
    let batch = vec![delete(b"c"), append(b"b", b"22")];
    assert_eq!(store(storage, batch), STORED);
    let expected = [(b"a".to_vec(), 1), (b"b".to_vec(), 3)];
    assert_eq!(storage.restart(), expected);
    assert_eq!(done(storage, load(b"b", 0, 9)), loaded(b"222"));
    assert_eq!(storage.restart(), expected);
}

fn a_batch_that_does_not_fit_changes_nothing(storage: &mut impl Storage) {
    let full = Answer::Stored(Err(StoreError::Full));
    assert_eq!(store(storage, vec![put(b"a", b"1")]), STORED);
    let half = vec![2; 2_500_000];
    let batch = || vec![put(b"a", b"2"), put(b"b", &half), put(b"c", &half)];
    // Alone, and between others that fit.
    assert_eq!(store(storage, batch()), full);
    storage.ask(ticket(1), Asked::Store(vec![append(b"a", b"1")]));
    storage.ask(ticket(2), Asked::Store(batch()));
    storage.ask(ticket(3), load(b"a", 0, 9));
    storage.ask(ticket(4), Asked::Store(vec![put(b"b", &half)]));
    storage.ask(ticket(5), Asked::Store(vec![append(b"c", &half)]));
    storage.ask(
        ticket(6),
        Asked::Store(vec![delete(b"b"), append(b"c", &half)]),
    );
    let answers = [STORED, full.clone(), loaded(b"11"), STORED, full, STORED];
    for (n, answer) in (1..).zip(answers) {
        assert_eq!(storage.answer(), (ticket(n), answer));
    }
    let expected = [(b"a".to_vec(), 2), (b"c".to_vec(), half.len() as u64)];
    assert_eq!(storage.restart(), expected);
}

fn what_is_too_much_at_a_time_is_refused_in_its_turn(storage: &mut impl Storage) {
    let many = WAITING_MAX as u64 + 10;
    for n in 0..many {
        storage.ask(ticket(n), Asked::Store(vec![put(b"n", &n.to_be_bytes())]));
    }
    for n in 0..many {
        let busy = n >= WAITING_MAX as u64;
        let result = if busy { Err(StoreError::Busy) } else { Ok(()) };
        assert_eq!(storage.answer(), (ticket(n), Answer::Stored(result)));
    }
    let last = WAITING_MAX as u64 - 1;
    assert_eq!(done(storage, load(b"n", 0, 8)), loaded(&last.to_be_bytes()));
    let loads = WAITING_OCTETS_MAX as u64 / u64::from(LOAD_OCTETS_MAX);
    for n in 0..=loads {
        storage.ask(ticket(n), load(b"n", 0, u32::MAX));
    }
    for n in 0..loads {
        assert_eq!(storage.answer(), (ticket(n), loaded(&last.to_be_bytes())));
    }
    let busy = Answer::Loaded(Err(StoreError::Busy));
    assert_eq!(storage.answer(), (ticket(loads), busy));
}

fn a_device_that_fails_is_told_of(storage: &mut impl Storage) {
    let value = vec![3; 3_000_000];
    assert_eq!(store(storage, vec![put(b"a", &value)]), STORED);
    storage.fail();
    storage.ask(ticket(1), load(b"a", 0, 9));
    storage.ask(ticket(2), Asked::Store(vec![put(b"a", b"2")]));
    storage.ask(ticket(3), load(b"a", 0, 9));
    let failed = StoreError::Failed;
    assert_eq!(storage.answer(), (ticket(1), Answer::Loaded(Err(failed))));
    assert_eq!(storage.answer(), (ticket(2), Answer::Stored(Err(failed))));
    assert_eq!(storage.answer(), (ticket(3), Answer::Loaded(Err(failed))));
}

/// Appends `octets` in pieces, several on their way, and reads them back piece by piece.
pub(crate) fn a_large_value_goes_and_comes_in_pieces(storage: &mut impl Storage, octets: u64) {
    const PIECE: u64 = 256 * 1024;
    const AHEAD: u64 = 8;
    let piece = |n: u64| -> Vec<u8> {
        let length = PIECE.min(octets - n * PIECE);
        (0..length).map(|at| (n * 31 + at * 7 / 3) as u8).collect()
    };
    let pieces = octets.div_ceil(PIECE);
    let mut answered = 0;
    for n in 0..pieces {
        let batch = vec![append(b"large", &piece(n))];
        storage.ask(ticket(n), Asked::Store(batch));
        if n >= AHEAD {
            assert_eq!(storage.answer(), (ticket(answered), STORED));
            answered += 1;
        }
    }
    for n in answered..pieces {
        assert_eq!(storage.answer(), (ticket(n), STORED));
    }
    assert_eq!(storage.restart(), [(b"large".to_vec(), octets)]);
    for n in 0..pieces {
        let asked = load(b"large", n * PIECE, PIECE as u32);
        assert!(done(storage, asked) == loaded(&piece(n)), "{n}");
    }
    assert_eq!(done(storage, load(b"large", octets, 9)), loaded(b""));
}

/// The batch that puts this number to what is written until a kill: two keys of its own, and a row
/// of one that grows.
pub(crate) fn numbered(n: u64) -> Vec<StoreOp> {
    let key = |first: &[u8]| [first, &n.to_be_bytes()].concat();
    vec![
        put(&key(b"a"), b"1"),
        append(b"log", &n.to_be_bytes()),
        put(&key(b"z"), &[7; 300]),
    ]
}

/// Asserts that of the numbered batches all that were acknowledged are there, behind them others
/// or none, and nothing else; returns how many.
pub(crate) fn only_the_last_are_lost(
    storage: &mut impl Storage,
    contents: &[(Vec<u8>, u64)],
    acknowledged: u64,
) -> u64 {
    let kept = contents.len() as u64 / 2;
    assert!(kept >= acknowledged, "{kept} of {acknowledged}");
    let key = |n: u64, first: &[u8], octets| ([first, &n.to_be_bytes()].concat(), octets);
    let first = (0..kept).map(|n| key(n, b"a", 1));
    let log = (kept > 0).then(|| (b"log".to_vec(), kept * 8));
    let last = (0..kept).map(|n| key(n, b"z", 300));
    assert!(first.chain(log).chain(last).eq(contents.iter().cloned()));
    for n in 0..kept {
        let asked = load(b"log", n * 8, 8);
        assert_eq!(done(storage, asked), loaded(&n.to_be_bytes()));
    }
    kept
}
