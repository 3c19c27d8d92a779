//! Work beside the node's thread.

use strait_core::work::WAITING_MAX;

use super::*;

type Done = Result<Vec<u8>, WorkError>;

/// What was answered so far, in order.
fn answers(puppet: &Puppet) -> Vec<(Ticket, Done)> {
    let heard = puppet.heard().into_iter();
    let answers = heard.filter_map(|heard| match heard {
        Heard::Worked(ticket, done) => Some((ticket, done)),
        _ => None,
    });
    answers.collect()
}

/// Asks for all of these, numbered from 0; what comes of each.
fn done<W: World>(puppet: &Puppet, world: &mut W, works: Vec<Work>) -> Vec<Done> {
    let (before, count) = (answers(puppet).len(), works.len());
    puppet.works(works);
    until(world, "answers", |_| {
        answers(puppet).len() == before + count
    });
    let mut found = answers(puppet).split_off(before);
    found.sort_by_key(|(ticket, _)| *ticket);
    found.into_iter().map(|(_, done)| done).collect()
}

fn frame<W: World>(puppet: &Puppet, world: &mut W, octets: &[u8]) -> Vec<u8> {
    let done = done(puppet, world, vec![pack(octets.to_vec())]);
    done.into_iter().next().unwrap().unwrap()
}

const fn pack(octets: Vec<u8>) -> Work {
    let behind = Vec::new();
    Work::Compress { octets, behind }
}

const fn unpack(octets: Vec<u8>, octets_max: u32) -> Work {
    Work::Decompress {
        octets,
        octets_max,
        behind: Vec::new(),
    }
}

pub fn what_is_compressed_comes_back<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    for octets in [Vec::new(), b"x".to_vec(), vec![7; 100_000], pattern(70_000)] {
        let packed = frame(&puppet, &mut world, &octets);
        // A frame of RFC 8878, section 3.1.1; the same each time.
        assert_eq!(packed[..4], [0x28, 0xb5, 0x2f, 0xfd]);
        assert!(packed.len() < octets.len() / 4 + 20, "{}", packed.len());
        assert_eq!(frame(&puppet, &mut world, &octets), packed);
        let unpacked = done(&puppet, &mut world, vec![unpack(packed, 100_000)]);
        assert_eq!(unpacked, [Ok(octets)]);
    }
}

pub fn digests_are_those_of_the_standard<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let works = [&b""[..], b"abc"].map(|octets| Work::Digest(octets.to_vec()));
    let digests = done(&puppet, &mut world, works.to_vec());
    let first = |of: &Done| {
        (
            of.as_ref().unwrap().len(),
            of.as_ref().unwrap()[..4].to_vec(),
        )
    };
    // FIPS 180-4, by its published examples.
    assert_eq!(first(&digests[0]), (32, vec![0xe3, 0xb0, 0xc4, 0x42]));
    assert_eq!(first(&digests[1]), (32, vec![0xba, 0x78, 0x16, 0xbf]));
}

pub fn work_is_answered_in_order<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    // The first takes longest.
    let pair = |n: usize| [pack(pattern(1000 * (20 - n))), Work::Digest(vec![1])];
    puppet.works((0..20).flat_map(pair).collect());
    until(&mut world, "answers", |_| answers(&puppet).len() == 40);
    let order: Vec<u64> = answers(&puppet)
        .iter()
        .map(|(ticket, _)| ticket.n)
        .collect();
    assert!(order.into_iter().eq(0..40));
}

pub fn an_output_beyond_its_limit_is_refused<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    // A few octets that become many.
    let packed = frame(&puppet, &mut world, &vec![0; 5_000_000]);
    assert!(packed.len() < 2000);
    let works = [5_000_000, 4_999_999, 0].map(|most| unpack(packed.clone(), most));
    let found = done(&puppet, &mut world, works.to_vec());
    assert!(
        found[0]
            .as_ref()
            .is_ok_and(|octets| octets.len() == 5_000_000)
    );
    assert_eq!(
        found[1..],
        [Err(WorkError::TooLong), Err(WorkError::TooLong)]
    );
}

pub fn octets_that_are_no_frames_are_told<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    let whole = frame(&puppet, &mut world, &pattern(5000));
    let cut = whole[..whole.len() - 1].to_vec();
    let more = [&whole[..], b"more"].concat();
    let broken = [Vec::new(), b"no frame at all".to_vec(), cut, more];
    let works = broken.map(|octets| unpack(octets, 10_000));
    let found = done(&puppet, &mut world, works.to_vec());
    assert_eq!(found, [const { Err(WorkError::Broken) }; 4]);
    // It goes on.
    let again = done(&puppet, &mut world, vec![unpack(whole, 5000)]);
    assert_eq!(again, [Ok(pattern(5000))]);
}

pub fn too_much_work_is_refused<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    // All at once, the first so long that none is done meanwhile.
    let heavy = pack(pattern(2_000_000));
    let mut works = vec![Work::Digest(vec![1]); WAITING_MAX + 10];
    works[0] = heavy.clone();
    let found = done(&puppet, &mut world, works);
    let busy = found.iter().map(|it| *it == Err(WorkError::Busy));
    assert!(busy.eq((0..WAITING_MAX + 10).map(|n| n >= WAITING_MAX)));
    // The octets count as well; one piece goes alone, whatever it has.
    let works = vec![unpack(vec![1], 1 << 30), heavy];
    let found = done(&puppet, &mut world, works);
    assert_eq!(found, [Err(WorkError::Broken), Err(WorkError::Busy)]);
}

pub fn a_kill_forgets_what_was_asked_for<W: World>() {
    let (puppet, mut world) = Puppet::stage::<W>();
    puppet.works(vec![pack(pattern(5_000_000))]);
    world.run(Duration::from_millis(3));
    world.kill();
    let before = answers(&puppet).len();
    world.restart();
    world.run(SILENCE);
    assert_eq!(answers(&puppet).len(), before);
    let digest = done(&puppet, &mut world, vec![Work::Digest(vec![1])]);
    assert!(digest[0].is_ok());
}
