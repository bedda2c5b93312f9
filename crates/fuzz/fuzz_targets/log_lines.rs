//! The fuzz input is a container log.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::log_lines(bytes));
