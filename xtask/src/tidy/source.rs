//! Rust source, split into code, comments and literals.

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// One line of a source file.
pub(super) struct Line {
    /// From 1.
    pub(super) number: usize,
    /// Its code; comments and literals are blanks.
    pub(super) code: String,
    /// Its comments; all else is blanks.
    pub(super) comment: String,
    /// Whether a piece of a string or character literal stands here.
    pub(super) literal: bool,
    /// Characters of the whole line.
    pub(super) width: usize,
}

/// Splits `text` by what each character belongs to. Works on code that compiles; on other text it
/// gives some answer.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let chars: Vec<char> = text.chars().collect();
    let kinds = kinds(&chars);
    let mut at = 0;
    let line = |(index, line): (usize, &[char])| {
        let kinds = &kinds[at..at + line.len()];
        at += line.len() + 1;
        let keep = |wanted: Kind| -> String {
            let pairs = line.iter().zip(kinds);
            pairs
                .map(|(char, kind)| if *kind == wanted { *char } else { ' ' })
                .collect()
        };
        Line {
            number: index + 1,
            code: keep(Kind::Code),
            comment: keep(Kind::Comment),
            literal: kinds.contains(&Kind::Literal),
            width: line.len(),
        }
    };
    chars
        .split(|char| *char == '\n')
        .enumerate()
        .map(line)
        .collect()
}

/// The names and keywords of a line of code, in order.
pub(super) fn names(code: &str) -> impl Iterator<Item = &str> {
    code.split(|char: char| !is_name(char))
        .filter(|name| !name.is_empty())
}

const fn is_name(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

fn kinds(chars: &[char]) -> Vec<Kind> {
    let mut kinds = vec![Kind::Code; chars.len()];
    let mut at = 0;
    while at < chars.len() {
        let (kind, length) = piece(chars, at);
        let end = (at + length.max(1)).min(chars.len());
        kinds[at..end].fill(kind);
        at = end;
    }
    kinds
}

/// What begins at `at`, and how long it is.
fn piece(chars: &[char], at: usize) -> (Kind, usize) {
    let rest = &chars[at..];
    match rest {
        ['/', '/', ..] => {
            let end = rest.iter().position(|char| *char == '\n');
            (Kind::Comment, end.unwrap_or(rest.len()))
        }
        ['/', '*', ..] => (Kind::Comment, block_comment(rest)),
        ['"', ..] => (Kind::Literal, quoted(rest, '"', 1)),
        ['r', '"' | '#', ..] if !continues_name(chars, at) => match raw_string(&rest[1..]) {
            Some(length) => (Kind::Literal, 1 + length),
            None => (Kind::Code, 1),
        },
        // A lifetime has no second quote where a character would have one.
        ['\'', '\\', ..] => (Kind::Literal, quoted(rest, '\'', 1)),
        ['\'', _, '\'', ..] => (Kind::Literal, 3),
        _ => (Kind::Code, 1),
    }
}

/// Whether the `r` at `at` is the end of a name, not the mark of a raw string (`r`, `br`, `cr`).
fn continues_name(chars: &[char], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map(|index| chars[index]);
    match before(1) {
        Some('b' | 'c') => before(2).is_some_and(is_name),
        Some(char) => is_name(char),
        None => false,
    }
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length up to and with the closing `quote`; a backslash takes the next character along.
fn quoted(rest: &[char], quote: char, from: usize) -> usize {
    let mut at = from;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            char if char == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of what follows the `r` of a raw string; `None` if this is none (`r#name`).
fn raw_string(rest: &[char]) -> Option<usize> {
    let hashes = rest.iter().take_while(|char| **char == '#').count();
    if rest.get(hashes) != Some(&'"') {
        return None;
    }
    let mut close = vec!['#'; hashes + 1];
    close[0] = '"';
    let body = &rest[hashes + 1..];
    let end = body.windows(close.len()).position(|window| window == close);
    Some(end.map_or(rest.len(), |end| hashes + 1 + end + close.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code of `text`, with one space for any blanks.
    fn code(text: &str) -> String {
        let lines = lines(text);
        let words = lines.iter().flat_map(|line| line.code.split_whitespace());
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        assert_eq!(code("a // b\nc"), "a c");
        assert_eq!(code("a /* b /* c */ d */ e"), "a e");
        assert_eq!(code(r#"x("a \" // b") y"#), "x( ) y");
        assert_eq!(code("r#\"a\" // b\"# c"), "c");
        assert_eq!(code("br\"a\\\" c"), "b c");
        assert_eq!(code("for r#type in x"), "for r#type in x");
        assert_eq!(code("'\"' a '\\'' b '\\u{1}' c"), "a b c");
        assert_eq!(
            code("fn f<'a>(x: &'a str) 'b: loop"),
            "fn f<'a>(x: &'a str) 'b: loop"
        );
    }

    #[test]
    fn lines_know_their_parts() {
        let all = lines("let a = \"two\nlines\"; // why\n\n");
        assert_eq!(all.len(), 4);
        assert!(all[0].literal && all[1].literal && !all[2].literal);
        assert_eq!(all[1].comment.trim(), "// why");
        assert_eq!((all[1].number, all[1].width), (2, 14));
    }

    #[test]
    fn any_text_has_an_end() {
        for text in [
            "\"", "'", "'\\", "r#\"", "/*", "\\", "r", "//", "'a", "\"\\",
        ] {
            assert_eq!(lines(text).len(), 1);
        }
    }
}
