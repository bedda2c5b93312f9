//! The fuzz input contains managed fields in the format `fieldsV1`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_fieldmanager::fuzz::fields_v1(bytes));
