//! The fuzz input is a JSON patch.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_schema::fuzz::json_patch(bytes));
