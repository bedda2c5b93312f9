//! The fuzz input is a response over HTTP/1.1.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_transport::fuzz::http1_response(bytes));
