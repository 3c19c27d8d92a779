//! See `strait_fuzz::payload`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| strait_fuzz::payload::payload(data));
