//! Writes a small first corpus for each target to `fuzz/corpus/TARGET/`.

use std::path::Path;
use std::{fs, io};

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (target, _) in strait_fuzz::TARGETS {
        let folder = corpus.join(target);
        fs::create_dir_all(&folder)?;
        for (name, octets) in strait_fuzz::seeds::of(target) {
            fs::write(folder.join(name), octets)?;
        }
    }
    Ok(())
}
