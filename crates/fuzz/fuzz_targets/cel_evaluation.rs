//! The fuzz input selects the functions and values of a CEL expression.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_cel::fuzz::cel_evaluation(bytes));
