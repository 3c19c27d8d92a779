//! See `strait_fuzz::dns`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| strait_fuzz::dns::dns_message(data));
