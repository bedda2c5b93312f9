//! Records the objects that a subscriber has not received.

use std::collections::HashSet;

use pintle_meta::__private::Mutex;
use pintle_meta::ObjectKey;

/// The keys of objects that the subscriber has not received, because the objects could not be decoded at the time of
/// delivery.
pub(super) type Unknown = Mutex<HashSet<ObjectKey>>;
