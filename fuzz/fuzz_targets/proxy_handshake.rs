//! See `strait_fuzz::proxy`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| strait_fuzz::proxy::proxy_handshake(data));
