//! A deduplicating, delaying, rate-limiting work queue.
