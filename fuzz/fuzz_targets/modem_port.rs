//! See `strait_fuzz::modem_port`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| strait_fuzz::modem_port::modem_port(data));
