//! Functions that catch panics in user code.

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use pintle_ratelimit::__private::{Panic, call_all, discard, first, pass_on};

/// Runs `call` and catches a panic. `catch` also works while the thread is panicking.
pub(crate) fn catch<T>(call: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(call))
}
