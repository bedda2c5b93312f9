//! The fuzz input is a gzip body.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_transport::fuzz::gzip(bytes));
