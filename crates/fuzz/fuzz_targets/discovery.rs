//! The fuzz input is a discovery document.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::discovery(bytes));
