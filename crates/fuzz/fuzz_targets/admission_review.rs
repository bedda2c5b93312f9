//! The fuzz input is an admission review's body.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_webhook::fuzz::admission_review(bytes));
