//! See `strait_fuzz::text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| strait_fuzz::text::policy_config(data));
