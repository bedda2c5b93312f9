//! Leader election on a Lease: leadership is a guard with a deadline, drained before it is released.
