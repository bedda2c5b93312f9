//! The fuzz input is an object in JSON.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_schema::fuzz::object(bytes));
