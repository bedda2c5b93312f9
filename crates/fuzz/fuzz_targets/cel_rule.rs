//! The fuzz input is a schema, data and a rule.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_cel::fuzz::cel_rule(bytes));
