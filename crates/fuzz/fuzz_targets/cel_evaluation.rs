//! Choices among the functions and values of CEL.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_cel::fuzz::cel_evaluation(bytes));
