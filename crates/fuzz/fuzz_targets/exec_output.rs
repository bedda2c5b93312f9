//! The fuzz input is the output of a credential plugin.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::exec_output(bytes));
