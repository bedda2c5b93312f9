//! The fuzz input contains certificates and keys.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_transport::fuzz::pem(bytes));
