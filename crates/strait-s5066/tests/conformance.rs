//! The page that goes through the standard line by line names tests: each of them is there.

use std::fs;
use std::path::Path;

/// All Rust text under a folder.
fn text(folder: &Path, all: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            text(&path, all);
        } else if path.extension().is_some_and(|it| it == "rs") {
            all.push_str(&fs::read_to_string(&path).expect("a text"));
        }
    }
}

#[test]
fn every_test_that_the_page_names_is_there() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = home.join("../../docs/wire-format/s5066.md");
    let page = fs::read_to_string(page).expect("the page");
    let mut code = String::new();
    text(&home.join("src"), &mut code);
    text(&home.join("tests"), &mut code);
    let is_name = |word: &&str| {
        let plain = |letter: char| letter.is_ascii_lowercase() || "_0123456789".contains(letter);
        word.matches('_').count() > 2 && word.chars().all(plain)
    };
    let names: Vec<&str> = page.split('`').filter(is_name).collect();
    assert!(names.len() > 60, "{}", names.len());
    for name in names {
        assert!(code.contains(&format!("fn {name}(")), "{name}");
    }
}
