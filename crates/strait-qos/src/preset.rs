//! The built-in policies: the files in `scenarios/policies/`, with the reasons in them.

macro_rules! file {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../scenarios/policies/", $name, ".toml")),
        )
    };
}

/// Names and texts.
pub(crate) const FILES: [(&str, &str); 11] = [
    file!("default"),
    file!("fifo"),
    file!("voice-data"),
    file!("precedence"),
    file!("insc-1a"),
    file!("insc-1b"),
    file!("insc-1c"),
    file!("insc-2a"),
    file!("insc-2b"),
    file!("cisco-wan-out"),
    file!("rfc4594"),
];
