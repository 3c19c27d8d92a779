//! See `strait_fuzz::mgen`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| strait_fuzz::mgen::script(data));
