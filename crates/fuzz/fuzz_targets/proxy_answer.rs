//! The fuzz input is a proxy's response to a tunnel request.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_transport::fuzz::proxy_answer(bytes));
