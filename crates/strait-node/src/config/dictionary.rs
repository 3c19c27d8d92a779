//! What payload compression knows beforehand, beside what it always knows.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use strait_link::payload::Dictionary;

use super::{PayloadCompression, PortConfig};

/// Octets of a site's own dictionary: pairs of hexadecimal digits in a node file, where they stand
/// once `dictionary_file` has been read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OwnDictionary(Vec<u8>);

impl OwnDictionary {
    /// The content of a dictionary's file.
    ///
    /// # Errors
    /// Why it can't be one: it is empty, or longer than there is room for.
    pub fn new(octets: Vec<u8>) -> Result<Self, String> {
        match octets.len() {
            0 => Err("is empty".into()),
            1..=Dictionary::OWN_OCTETS_MAX => Ok(Self(octets)),
            more => Err(format!(
                "has {more} octets: a dictionary has {} at most",
                Dictionary::OWN_OCTETS_MAX
            )),
        }
    }
}

impl TryFrom<String> for OwnDictionary {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digit = |digit: &u8| char::from(*digit).to_digit(16);
        let octet = |pair: &[u8]| match pair {
            [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
            _ => None,
        };
        let octets: Option<Vec<u8>> = text.as_bytes().chunks(2).map(octet).collect();
        let wrong = "is no dictionary: pairs of hexadecimal digits, or name a dictionary_file";
        Self::new(octets.ok_or_else(|| String::from(wrong))?)
    }
}

impl From<OwnDictionary> for String {
    fn from(own: OwnDictionary) -> Self {
        own.0.iter().map(|octet| format!("{octet:02x}")).collect()
    }
}

impl PortConfig {
    /// What this end knows before the first packet.
    pub fn payload_dictionary(&self) -> Dictionary {
        let own = self.dictionary.as_ref();
        Dictionary::with(own.map_or(&[], |own| &own.0))
    }

    pub(super) fn dictionary_fault(&self) -> Option<(&'static str, String)> {
        if let Some(file) = &self.dictionary_file {
            return Some(("dictionary_file", format!("`{file}` was not read")));
        }
        let idle = self.dictionary.is_some() && self.payload == PayloadCompression::None;
        idle.then(|| ("dictionary", "needs payload = \"deflate\"".into()))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use super::*;

    #[test]
    fn octets_are_written_as_they_are_read() {
        let own = OwnDictionary::try_from("00ff7E".to_string()).unwrap();
        assert_eq!(own.0, [0, 0xff, 0x7e]);
        assert_eq!(String::from(own), "00ff7e");
        for wrong in ["", "0", "0g", "+f", "éé", "00 ff"] {
            assert!(
                OwnDictionary::try_from(wrong.to_string()).is_err(),
                "{wrong}"
            );
        }
        let most = Dictionary::OWN_OCTETS_MAX;
        assert!(OwnDictionary::new(vec![1; most]).is_ok());
        assert!(OwnDictionary::new(vec![1; most + 1]).is_err());
    }
}
