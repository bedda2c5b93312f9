//! Controllers: sources, handlers and predicates feed a queue; workers reconcile; a manager starts and stops it all.
