//! Reflectors, indexers, shared informers and listers: a local, indexed, live copy of API objects.
