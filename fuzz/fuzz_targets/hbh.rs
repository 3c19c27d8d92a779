//! See `strait_fuzz::hbh`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| strait_fuzz::hbh::hbh(data));
