//! The fuzz input is an object that is scanned for its key and fields.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_informer::fuzz::scan(bytes));
