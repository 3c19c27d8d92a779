//! A script as words with their places.

use super::parse::ScriptError;

/// A word of a script, or a bracket, which is a word of its own wherever it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    /// From 1 on.
    pub(super) line: u32,
    /// From 1 on, in characters.
    pub(super) column: u32,
}

impl Word<'_> {
    /// An error at this word.
    pub(super) fn wrong(&self, message: impl Into<String>) -> ScriptError {
        ScriptError {
            line: self.line,
            column: self.column,
            message: message.into(),
        }
    }

    pub(super) fn is(&self, text: &str) -> bool {
        self.text.eq_ignore_ascii_case(text)
    }
}

/// The words of a script, line by line: a line that ends in `\` goes on in the next, and what
/// follows a `#` that begins a word is a comment.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Vec<Word<'_>>> {
    let mut physical = text.lines().zip(1u32..);
    std::iter::from_fn(move || {
        let mut words = Vec::new();
        let (mut line, mut number) = physical.next()?;
        loop {
            let bare = line.trim_end();
            let continued = bare.strip_suffix('\\');
            split(continued.unwrap_or(bare), number, &mut words);
            match continued.and_then(|_| physical.next()) {
                Some(next) => (line, number) = next,
                None => return Some(words),
            }
        }
    })
    .filter(|words| !words.is_empty())
}

fn split<'a>(text: &'a str, line: u32, words: &mut Vec<Word<'a>>) {
    let mut begin = None;
    let mut push = |from: usize, to: usize| {
        if from < to {
            let column = text[..from].chars().count() as u32 + 1;
            words.push(Word {
                text: &text[from..to],
                line,
                column,
            });
        }
    };
    for (at, character) in text.char_indices() {
        let bracket = matches!(character, '[' | ']');
        if character == '#' && begin.is_none() {
            return;
        }
        if character.is_whitespace() || bracket {
            push(begin.take().unwrap_or(at), at);
            if bracket {
                push(at, at + 1);
            }
        } else {
            begin.get_or_insert(at);
        }
    }
    push(begin.unwrap_or(text.len()), text.len());
}

/// The one of `names` that a word means: written out, or as a beginning that no other has.
///
/// `None` if it is none of them; an error if it may be several.
pub(super) fn keyword<'n>(
    word: &Word<'_>,
    names: &[&'n str],
) -> Result<Option<&'n str>, ScriptError> {
    if let Some(name) = names.iter().find(|name| word.is(name)) {
        return Ok(Some(name));
    }
    let begins = |name: &&&str| {
        let head = name.get(..word.text.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(word.text))
    };
    let found: Vec<&str> = names.iter().filter(begins).copied().collect();
    match found[..] {
        [] => Ok(None),
        [name] => Ok(Some(name)),
        _ => Err(word.wrong(format!(
            "`{}` may be {}: write more of it",
            word.text,
            found.join(" or ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_comments_and_continued_lines() {
        let text = "0.0 ON 1 PER[1 2] # a comment [\n\n# all\n ä \\\n  x#y \\";
        let lines: Vec<Vec<(&str, u32, u32)>> = lines(text)
            .map(|words| words.iter().map(|w| (w.text, w.line, w.column)).collect())
            .collect();
        assert_eq!(
            lines,
            [
                vec![
                    ("0.0", 1, 1),
                    ("ON", 1, 5),
                    ("1", 1, 8),
                    ("PER", 1, 10),
                    ("[", 1, 13),
                    ("1", 1, 14),
                    ("2", 1, 16),
                    ("]", 1, 17)
                ],
                vec![("ä", 4, 2), ("x#y", 5, 3)],
            ]
        );
    }

    #[test]
    fn a_keyword_by_its_beginning() {
        let word = |text| Word {
            text,
            line: 1,
            column: 3,
        };
        let names = ["OFF", "OFFSET", "ON"];
        assert_eq!(keyword(&word("off"), &names), Ok(Some("OFF")));
        assert_eq!(keyword(&word("Offs"), &names), Ok(Some("OFFSET")));
        assert_eq!(keyword(&word("onn"), &names), Ok(None));
        let told = keyword(&word("o"), &names).unwrap_err().to_string();
        assert_eq!(
            told,
            "line 1, column 3: `o` may be OFF or OFFSET or ON: write more of it"
        );
    }
}
