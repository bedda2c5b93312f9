//! The fuzz input is a server URL.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::server_url(bytes));
