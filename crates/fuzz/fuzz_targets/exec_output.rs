//! The fuzz input is a credential plugin's output.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::exec_output(bytes));
