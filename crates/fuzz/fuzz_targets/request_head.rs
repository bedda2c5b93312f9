//! The fuzz input is a request's path, query and `Accept` header.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_apiserver::fuzz::request_head(bytes));
