//! The fuzz input is a protobuf body.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_schema::fuzz::protobuf_body(bytes));
