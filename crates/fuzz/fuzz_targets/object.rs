//! The fuzz input is a JSON object.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_schema::fuzz::object(bytes));
