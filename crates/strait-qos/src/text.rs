//! Values that configuration files write as a word or a number.

/// Reads the type from a string or an integer by its `FromStr`, and writes it by its `Display`.
macro_rules! text_value {
    ($name:ident, $expecting:literal) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<$name, E> {
                        self.visit_str(&alloc::string::ToString::to_string(&number))
                    }
                    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<$name, E> {
                        self.visit_str(&alloc::string::ToString::to_string(&number))
                    }
                }
                deserializer.deserialize_any(Text)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

pub(crate) use text_value;

/// A value that could not be read, and a valid one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is no {what}: write it like {example}")]
pub struct TextError {
    found: alloc::string::String,
    what: &'static str,
    example: &'static str,
}

impl TextError {
    pub(crate) fn new(found: &str, what: &'static str, example: &'static str) -> Self {
        Self {
            found: found.into(),
            what,
            example,
        }
    }
}
