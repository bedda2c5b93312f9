//! The fuzz input is a JSONPath and the object to search.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_apiserver::fuzz::json_path(bytes));
