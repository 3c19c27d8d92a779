//! Keys of a table that says its `kind`: which kinds have a key, and what is wrong with one.
//!
//! A port, a link and a traffic are written as one table each, `kind` and keys side by side.
//! Reading it sorts them out once, and refuses what the kind doesn't have.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Why a key can't stand in its table as it does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("wrong key `{key}`: {why}")]
pub struct KeyError {
    /// The key, with the keys of the tables around it inside the one that was read.
    pub key: Cow<'static, str>,
    /// What is wrong, and what would be right.
    pub why: Cow<'static, str>,
}

impl KeyError {
    /// A key that is missing, or has no possible value.
    pub const fn new(key: &'static str, why: &'static str) -> Self {
        Self {
            key: Cow::Borrowed(key),
            why: Cow::Borrowed(why),
        }
    }

    /// What an error's text says, if it is that of such an error: readers of text formats hand
    /// errors of types on as text.
    pub fn of_text(text: &str) -> Option<Self> {
        let (key, why) = text.strip_prefix("wrong key `")?.split_once("`: ")?;
        Some(Self {
            key: Cow::Owned(key.into()),
            why: Cow::Owned(why.into()),
        })
    }

    /// The same of a key in a table of the one that was read.
    #[must_use]
    pub fn within(mut self, table: &str) -> Self {
        self.key = Cow::Owned(format!("{table}.{}", self.key));
        self
    }
}

/// A kind, as files have it.
pub trait KindWord: Copy + PartialEq {
    /// What is of this kind: "port".
    const OF: &'static str;

    /// The word.
    fn word(self) -> &'static str;
}

/// A row of the table of keys that not every kind has.
#[derive(Clone, Copy, Debug)]
pub struct KindKey<K: 'static> {
    key: &'static str,
    is_given: bool,
    kinds: &'static [K],
    remedy: &'static str,
}

impl<K> KindKey<K> {
    /// A key, whether it is there, and the kinds that have it.
    pub const fn new(key: &'static str, is_given: bool, kinds: &'static [K]) -> Self {
        Self {
            key,
            is_given,
            kinds,
            remedy: "remove it",
        }
    }

    /// What other kinds have in its place.
    #[must_use]
    pub const fn instead(mut self, remedy: &'static str) -> Self {
        self.remedy = remedy;
        self
    }
}

/// Refuses the first key that is there and that `kind` doesn't have.
///
/// # Errors
/// That key, with the kinds that have it.
pub fn refuse_others<K: KindWord + 'static>(
    kind: K,
    keys: impl IntoIterator<Item = KindKey<K>>,
) -> Result<(), KeyError> {
    let wrong = |row: &KindKey<K>| row.is_given && !row.kinds.contains(&kind);
    let Some(row) = keys.into_iter().find(wrong) else {
        return Ok(());
    };
    let kinds = row.kinds.iter().map(|it| format!("\"{}\"", it.word()));
    let why: String = format!(
        "is for kind = {}, and this {}'s is \"{}\": {}",
        kinds.collect::<Vec<_>>().join(" or "),
        K::OF,
        kind.word(),
        row.remedy
    );
    Err(KeyError {
        key: Cow::Borrowed(row.key),
        why: Cow::Owned(why),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        Wire,
        Air,
    }

    impl KindWord for Kind {
        const OF: &'static str = "link";

        fn word(self) -> &'static str {
            match self {
                Self::Wire => "wire",
                Self::Air => "air",
            }
        }
    }

    #[test]
    fn the_first_key_of_others_is_refused() {
        let keys = |noise, rate| {
            [
                KindKey::new("noise", noise, &[Kind::Air]).instead("use `errors`"),
                KindKey::new("rate", rate, &[Kind::Wire, Kind::Air]),
            ]
        };
        assert_eq!(refuse_others(Kind::Wire, keys(false, true)), Ok(()));
        assert_eq!(refuse_others(Kind::Air, keys(true, true)), Ok(()));
        let error = refuse_others(Kind::Wire, keys(true, true)).unwrap_err();
        let why = "is for kind = \"air\", and this link's is \"wire\": use `errors`";
        assert_eq!((&*error.key, &*error.why), ("noise", why));
    }

    #[test]
    fn its_text_says_it_again() {
        let error = KeyError::new("loss", "is a share, such as `1 %`: see there").within("back");
        assert_eq!(KeyError::of_text(&error.to_string()), Some(error));
        assert_eq!(KeyError::of_text("wrong key loss"), None);
    }
}
