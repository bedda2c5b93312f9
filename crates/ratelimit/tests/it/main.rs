//! Tests of rate limiters, backoffs and clocks in virtual time. The page ROWS.md lists client-go's
//! test cases.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod backoff;
mod clocks;
mod item_backoff;
mod limiters;
mod throttle;

use std::time::Duration;

const NANO: Duration = Duration::from_nanos(1);
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
