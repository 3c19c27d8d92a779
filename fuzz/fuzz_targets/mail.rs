//! See `strait_fuzz::mail`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| strait_fuzz::mail::mail(data));
