//! Catches panics in user code.

pub(crate) use pintle_metrics::__private::{catch, caught, message};
