//! A queue of keyed changes, and the store contracts around it.
