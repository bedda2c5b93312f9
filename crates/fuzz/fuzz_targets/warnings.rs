//! The fuzz input contains `Warning` header values.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::warnings(bytes));
