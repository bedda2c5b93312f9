//! The fuzz input is a strategic merge patch.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_schema::fuzz::strategic_patch(bytes));
