use alloc::format;
use alloc::string::String;

use proptest::prelude::*;
use strait_core::chance::Stream as Chance;

use super::*;

fn dictionary() -> Dictionary {
    let words: &[u8] = b"<html><head><title></title></head><body><p>HTTP/1.1 200 OK\r\n";
    Dictionary::new(words)
}

/// Octets that nothing makes fewer.
fn noise(octets: usize, seed: u64) -> Vec<u8> {
    let mut chance = Chance::new(seed, "noise");
    (0..octets).map(|_| chance.draw() as u8).collect()
}

fn text(rows: usize) -> Vec<u8> {
    let row = |n: usize| format!("<tr><td>{}</td><td>row {n}</td></tr>\n", n * 7919 % 1000);
    (0..rows).map(row).collect::<String>().into_bytes()
}

/// All that comes of packed octets that arrive so many at a time and are read so many at a time.
fn unpacked(packed: &[u8], step: usize, room: usize) -> Result<(Vec<u8>, bool), Malformed> {
    let dictionary = dictionary();
    let mut unpacker = Unpacker::default();
    let mut all = Vec::new();
    for piece in packed.chunks(step.max(1)) {
        unpacker.feed(piece);
        loop {
            let octets = unpacker.take(Some(&dictionary), room)?;
            assert!(octets.len() <= room);
            if octets.is_empty() {
                break;
            }
            all.extend(octets);
        }
    }
    Ok((all, unpacker.is_whole()))
}

/// What goes for these pieces.
fn packed(pieces: &[Vec<u8>]) -> Vec<u8> {
    let dictionary = dictionary();
    let mut packer = Packer::default();
    let each = pieces.iter();
    each.flat_map(|it| packer.pack(Some(&dictionary), it))
        .collect()
}

#[test]
fn text_gets_shorter_and_the_more_the_more_came_before() {
    let dictionary = dictionary();
    let mut packer = Packer::default();
    let first = packer.pack(Some(&dictionary), &text(50)).len();
    let again = packer.pack(Some(&dictionary), &text(50)).len();
    assert!(
        first * 3 < text(50).len() && again * 5 < first,
        "{first}, {again}"
    );
    // A word of the dictionary is as good as known.
    let hello = Packer::default().pack(Some(&dictionary), b"HTTP/1.1 200 OK\r\n");
    assert!(hello.len() < 10, "{}", hello.len());
}

#[test]
fn what_does_not_get_shorter_costs_next_to_nothing() {
    let dictionary = dictionary();
    let mut packer = Packer::default();
    let mut octets = 0;
    for n in 0..1000 {
        octets += packer.pack(Some(&dictionary), &noise(1000, n)).len();
    }
    assert!((1_000_001..1_000_100).contains(&octets), "{octets}");
    assert!(!packer.has_history());
    // Text behind it is found in the end.
    let mut later = 0;
    for _ in 0..100 {
        later += packer.pack(Some(&dictionary), &text(50)).len();
    }
    assert!(later < 80_000, "{later}");
}

#[test]
fn nothing_is_compressed_without_a_dictionary() {
    let mut packer = Packer::default();
    let octets = packer.pack(None, &text(50));
    assert_eq!(octets.len(), text(50).len() + 3);
    assert_eq!(unpacked(&octets, 100, 100), Ok((text(50), true)));
    let compressed = packed(&[text(50)]);
    let mut unpacker = Unpacker::default();
    unpacker.feed(&compressed);
    assert_eq!(unpacker.take(None, 100), Err(Malformed));
}

#[test]
fn a_direction_that_ends_in_a_piece_is_not_whole() {
    let compressed = packed(&[text(20)]);
    for end in 1..compressed.len() {
        let (octets, whole) = unpacked(&compressed[..end], 7, 1000).unwrap();
        assert!(!whole && text(20).starts_with(&octets), "{end}");
    }
    // What is as it is may be cut off.
    let plain = packed(&[noise(300, 1)]);
    assert_eq!(unpacked(&plain, 300, 300), Ok((noise(300, 1), true)));
}

#[test]
fn a_bomb_is_read_a_little_at_a_time() {
    let zeros = vec![0; 1 << 20];
    let bomb = packed(&[zeros]);
    assert!(bomb.len() < 2000, "{}", bomb.len());
    let (all, whole) = unpacked(&bomb, 64, 500).unwrap();
    assert!(whole && all.len() == 1 << 20);
}

#[test]
fn what_is_no_piece_is_refused() {
    for wrong in [&[0][..], &[0xff; 12], &[3, 0x07], &[9, 3, 0, 0, 0, 0]] {
        assert_eq!(unpacked(wrong, 100, 100), Err(Malformed), "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn octets_come_out_as_they_went_in(
        pieces in proptest::collection::vec((any::<bool>(), 0_usize..3000), 0..20),
        step in 1_usize..2000,
        room in 1_usize..2000,
    ) {
        let pieces: Vec<Vec<u8>> = (0..).zip(pieces).map(|(n, (is_text, octets))| {
            let mut piece = if is_text { text(octets / 20 + 1) } else { noise(octets, n) };
            piece.truncate(octets);
            piece
        }).collect();
        let found = unpacked(&packed(&pieces), step, room);
        prop_assert_eq!(found, Ok((pieces.concat(), true)));
    }

    #[test]
    fn whatever_comes_breaks_nothing(
        octets in proptest::collection::vec(any::<u8>(), 0..400),
        at in 0_usize..400,
    ) {
        let _ = unpacked(&octets, 50, 100);
        let mut damaged = packed(&[text(30)]);
        let at = at % damaged.len();
        damaged[at] ^= octets.first().map_or(1, |it| it | 1);
        let _ = unpacked(&damaged, 50, 100);
    }
}
