//! A JSONPath, and what it is looked up in.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_apiserver::fuzz::json_path(bytes));
