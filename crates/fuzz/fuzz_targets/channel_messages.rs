//! The fuzz input contains the messages of a WebSocket with several channels.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::channel_messages(bytes));
