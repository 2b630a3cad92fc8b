#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| consign_fuzz_targets::envelopes(data));
