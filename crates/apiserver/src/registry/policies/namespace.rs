//! The namespace of a request.

use crate::kinds::{Kind, RequestTarget};

/// Returns whether the kind is `Namespace`.
pub(super) fn is_namespace(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.plural == "namespaces"
}

/// Returns the namespace of a request. If the request is about a Namespace, returns the name of this Namespace.
pub(super) fn namespace_of(target: &RequestTarget) -> &str {
    if is_namespace(&target.kind) { &target.name } else { &target.namespace }
}
