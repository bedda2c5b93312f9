//! The fuzz input is the body of a conversion review.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_webhook::fuzz::conversion_review(bytes));
