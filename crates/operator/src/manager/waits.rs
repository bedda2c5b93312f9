//! The reason why a manager is not ready yet, which the readiness check shows.

use std::sync::Arc;

use pintle_meta::__private::Mutex;

pub(super) type Waits = Arc<Mutex<Option<String>>>;

pub(super) fn set(waits: &Waits, reason: Option<String>) {
    *waits.lock() = reason;
}
