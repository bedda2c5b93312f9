//! The fuzz input is the URL of a server.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::server_url(bytes));
