//! See `strait_fuzz::pair`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| strait_fuzz::pair::gateway_pair(data));
