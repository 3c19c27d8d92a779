//! Names in use that the far side keeps fresh.

use super::*;

/// Asks for a name twice, the second time when what is known is old; the number of that question.
fn in_use(near: &mut Near, text: &str, watched: bool) -> u16 {
    in_use_from(near, 0, text, watched)
}

/// The same from some moment on.
fn in_use_from(near: &mut Near, from: u64, text: &str, watched: bool) -> u16 {
    let at = |ms| at(from + ms);
    near.hear_client(at(0), client(0), &question(1, text, RecordType::A));
    let first = frames(near, at(20), 0);
    let (id, types) = read(&first[0]);
    assert_eq!(
        first[0][0] & 0x08,
        0,
        "what is asked for once is kept fresh"
    );
    near.hear_partner(at(100), 0, &answer(id, types, vec![address(60)]));
    near.hear_client(at(70_000), client(0), &question(1, text, RecordType::A));
    let again = frames(near, at(70_020), 0);
    let (id, types) = read(&again[0]);
    assert_eq!(
        again[0][0] & 0x08,
        0x08,
        "what is in use isn't to be kept fresh"
    );
    let body = address(60);
    let frame = Frame::Answer {
        id,
        types,
        watched,
        bodies: vec![body],
    };
    near.hear_partner(at(70_100), 0, &frame.to_vec());
    replies(near, at(70_100));
    id
}

/// What is told at once, by its last octet and the life that is told.
fn told(near: &mut Near, now: Instant, text: &str) -> Option<(u8, u32)> {
    near.hear_client(now, client(0), &question(1, text, RecordType::A));
    let told = replies(near, now);
    let record = told.first()?.answers.first()?;
    let RData::A(address) = &record.data else {
        panic!("{record:?}");
    };
    Some((address.0.octets()[3], record.ttl))
}

#[test]
fn what_the_far_side_keeps_fresh_isnt_asked_for_again() {
    let mut near = near();
    let id = in_use(&mut near, "a.example", true);
    assert_eq!(near.stats().fresh.watched, 1);
    let one = address(60);
    let sum = sum_of(id, Types::of(RecordType::A), core::slice::from_ref(&one));
    // The far side's word holds for 2250 s, and the answer is told with its whole life each time.
    for minute in 2..1440 {
        let now = at(minute * 60_000);
        if minute % 15 == 0 {
            near.hear_partner(now, 0, &Frame::Hello(sum).to_vec());
        }
        assert_eq!(told(&mut near, now, "a.example"), Some((1, 60)), "{minute}");
        assert!(frames(&mut near, now, 0).is_empty(), "{minute}");
        // Twice a day it says what it takes to be fresh.
        let quiet = core::iter::from_fn(|| near.poll_quiet(now, 0)).count();
        assert_eq!(quiet, usize::from(minute == 722), "{minute}");
    }
    // A change is taken over at once.
    let mut changed = address(60);
    changed.records[0][3] = 2;
    let change = Frame::Answer {
        id,
        types: Types::of(RecordType::A),
        watched: true,
        bodies: vec![changed],
    };
    near.hear_partner(at(86_400_000), 0, &change.to_vec());
    let now = at(86_400_000 + 2_249_999);
    assert_eq!(told(&mut near, now, "a.example"), Some((2, 60)));
    assert_eq!(near.stats().fresh.changes, 1);
    // Its word is over: what is known is as old as it is, and asked for.
    let now = at(86_400_000 + 2_250_000 + 60_000);
    assert_eq!(told(&mut near, now, "a.example"), Some((2, 30)));
    assert_eq!(frames(&mut near, at(86_400_000 + 2_320_000), 0).len(), 1);
}

#[test]
fn what_the_far_side_doesnt_keep_fresh_grows_old() {
    for how in 0..3 {
        let mut near = near();
        let id = in_use(&mut near, "a.example", how > 0);
        let now = at(80_000);
        if how == 1 {
            let gone = Frame::Gone {
                near: false,
                ids: vec![id],
            };
            near.hear_partner(now, 0, &gone.to_vec());
        }
        if how == 2 {
            // Another sum: what each takes to be fresh is compared.
            near.hear_partner(now, 0, &Frame::Hello(7).to_vec());
            let roll = near.poll_quiet(now, 0).unwrap();
            let Some(Frame::Roll(entries)) = Frame::read(&roll) else {
                panic!("{roll:x?}");
            };
            assert_eq!((entries.len(), entries[0].0), (1, id));
            continue;
        }
        assert_eq!(near.stats().fresh.watched, 0);
        let stale = told(&mut near, at(140_000), "a.example");
        assert_eq!(stale, Some((1, crate::replies::STALE_LIFE_S)), "{how}");
    }
}

#[test]
fn what_nobody_asks_for_for_an_hour_isnt_kept_fresh_and_goes_in_one_word() {
    let mut near = near();
    let names = [
        (0, "a.example"),
        (200_000, "b.example"),
        (400_000, "c.example"),
    ];
    let ids = names.map(|(from, name)| in_use_from(&mut near, from, name, true));
    assert!(told(&mut near, at(2_000_000), "c.example").is_some());
    let over = 70_100 + 3_600_000 + 900_000;
    near.tend(at(over - 1));
    assert_eq!(near.poll_quiet(at(over - 1), 0), None);
    assert_eq!(near.wake(), Some(at(over)));
    near.tend(at(over));
    let mut ids = ids[..2].to_vec();
    ids.sort_unstable();
    let gone = Frame::Gone { near: true, ids };
    assert_eq!(near.poll_quiet(at(over), 0), Some(gone.to_vec()));
    assert_eq!(near.stats().fresh.watched, 1);
    assert!(near.wake().is_some_and(|it| it > at(over)));
}
