//! The fuzz input is an HTTP/1.1 response.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_transport::fuzz::http1_response(bytes));
