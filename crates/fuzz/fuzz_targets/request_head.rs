//! The fuzz input is the path, query and `Accept` header of a request.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_apiserver::fuzz::request_head(bytes));
