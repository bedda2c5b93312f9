//! What an issuer of OpenID Connect answers.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_restreq::fuzz::oidc(bytes));
