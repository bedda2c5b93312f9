//! A pattern in its first line, and a text.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_cel::fuzz::cel_pattern(bytes));
