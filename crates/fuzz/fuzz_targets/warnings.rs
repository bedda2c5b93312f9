//! The fuzz input contains the values of `Warning` headers.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::warnings(bytes));
