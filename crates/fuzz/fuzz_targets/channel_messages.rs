//! The fuzz input contains messages on several channels of a WebSocket.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::channel_messages(bytes));
