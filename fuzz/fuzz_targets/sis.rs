//! See `strait_fuzz::s5066`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| strait_fuzz::sis::sis(data));
