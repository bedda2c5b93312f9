//! The fuzz input is a conversion review's body.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_webhook::fuzz::conversion_review(bytes));
