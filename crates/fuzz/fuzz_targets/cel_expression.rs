//! The fuzz input is a CEL expression.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_cel::fuzz::cel_expression(bytes));
