//! The fuzz input is the body of an admission review.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_webhook::fuzz::admission_review(bytes));
