//! The keys for the queue workloads.

use std::fmt::Write as _;
use std::hash::Hash;
use std::sync::Arc;

/// A key type whose keys can be created from names.
pub(super) trait Key: Hash + Eq + Clone + Send + Sync + AsRef<str> + 'static {
    fn named(name: &str) -> Self;

    fn number(&self) -> usize {
        let name = self.as_ref().as_bytes();
        name[name.len() - DIGITS..].iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
    }
}

const DIGITS: usize = 8;

/// Creates keys of about 30 bytes in the form `namespace/name`. Call this function before the measurement.
pub(super) fn keys<K: Key>(n: usize) -> Vec<K> {
    let mut name = String::new();
    let key = |i: usize| {
        name.clear();
        let _ = write!(name, "namespace-{}/pod-name-{i:0DIGITS$}", i % 200);
        K::named(&name)
    };
    (0..n).map(key).collect()
}

impl Key for Arc<str> {
    fn named(name: &str) -> Self {
        name.into()
    }
}

impl Key for String {
    fn named(name: &str) -> Self {
        name.to_owned()
    }
}

impl Key for &'static str {
    fn named(name: &str) -> Self {
        Box::leak(name.into())
    }
}
