//! The first line of the fuzz input is a pattern, and the other lines are the text to search.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_cel::fuzz::cel_pattern(bytes));
