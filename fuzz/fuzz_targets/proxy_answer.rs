//! What a proxy answers to who asks for a tunnel.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::proxy_answer(bytes));
