//! See `strait_fuzz::ethernet`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| strait_fuzz::ethernet::ethernet(data));
