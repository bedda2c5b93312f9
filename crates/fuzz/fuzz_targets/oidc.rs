//! The fuzz input contains the responses of an OpenID Connect issuer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::oidc(bytes));
