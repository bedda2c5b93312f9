//! The fuzz input is a continue token.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_apiserver::fuzz::continue_token(bytes));
