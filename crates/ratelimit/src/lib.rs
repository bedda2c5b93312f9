//! Token buckets, per-item failure limiters and back-off managers.
