//! Texts in fewer octets.

use super::*;

/// Work, done as a driver does it; a user is who says what is kept of its password.
pub(super) fn done(work: &Work) -> Result<Vec<u8>, WorkError> {
    let done = match work {
        Work::Compress { octets, behind } => zstd::bulk::Compressor::with_dictionary(3, behind)
            .and_then(|mut it| it.compress(octets)),
        Work::Decompress {
            octets,
            octets_max,
            behind,
        } => zstd::bulk::Decompressor::with_dictionary(behind)
            .and_then(|mut it| it.decompress(octets, *octets_max as usize)),
        Work::Credential { name, file } => return Ok(format!("{name}@{file}").into_bytes()),
        Work::LogIn { said, users, .. } => {
            let last = said.last().cloned().unwrap_or_default().0;
            let at = users.iter().position(|(_, kept)| kept.as_bytes() == last);
            return Ok(at.map_or(Login::Wrong, Login::Is).encode());
        }
        _ => return Err(WorkError::Broken),
    };
    done.map_err(|_| WorkError::Broken)
}

/// Attachments and text cross in fewer octets, noise in no more, and all of it as it was.
#[test]
fn texts_are_packed_between_our_ends() {
    let text = "Position and weather at noon, nothing else to report.\r\n".repeat(100);
    let letters = noise(400).into_bytes();
    let mut attachment = String::new();
    for line in letters.chunks(57) {
        let line = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, line);
        attachment += &(line + "\r\n");
    }
    for (text, most) in [(text, 0.1), (noise(400), 0.87), (attachment, 0.65)] {
        let mut world = World::new();
        world.crossed.clear();
        world.submit(1, "", "ops@b.example", &format!("Subject: x\r\n\r\n{text}"));
        let delivered = &world.sites[1].delivered[0].2;
        assert!(delivered.ends_with(&(text.replace("\r\n", "\n") + "\n")));
        let all: usize = world.crossed.iter().map(|it| it.1).sum();
        let share = all as f64 / text.len() as f64;
        assert!(share < most, "{share}, not {most}");
        let stats = world.sites[0].switch.stats();
        assert!(stats.octets_out > text.len() as u64 && stats.octets_out_packed < all as u64);
        assert!(world.is_empty());
    }
}

/// A piece that can't be unpacked costs its message a second try, as it is.
#[test]
fn what_cannot_be_unpacked_comes_again_as_it_is() {
    let mut world = World::new();
    world.spoils = true;
    world.submit(1, "", "ops@b.example", &noise(100));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.sites[1].delivered.len(), 1);
    let stats = world.sites[0].switch.stats();
    assert!(stats.octets_out_packed > 7700, "{stats:?}");
    assert!(world.is_empty());
}
