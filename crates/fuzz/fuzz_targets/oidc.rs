//! The fuzz input contains an OpenID Connect issuer's responses.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::oidc(bytes));
