//! The fuzz input is a certificate request.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_apiserver::fuzz::certificate_request(bytes));
