//! The fuzz input is an applied configuration.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_fieldmanager::fuzz::applied(bytes));
