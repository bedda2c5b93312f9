//! The fuzz input contains a `NO_PROXY` value and host names.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_transport::fuzz::no_proxy(bytes));
