//! The fuzz input is the response of a proxy to a `CONNECT` request.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_transport::fuzz::proxy_answer(bytes));
