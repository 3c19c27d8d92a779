//! See `strait_fuzz::gateway`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| strait_fuzz::gateway::gateway_handle(data));
