//! The fuzz input is a YAML body.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_schema::fuzz::yaml_body(bytes));
