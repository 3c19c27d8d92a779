//! See `strait_fuzz::rohc`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| strait_fuzz::rohc::rohc_decompress(data));
