//! The fuzz input is a kubeconfig.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pintle_kubeconfig::fuzz::kubeconfig(bytes));
