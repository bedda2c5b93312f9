//! The namespace of a request.

use crate::kinds::{Kind, RequestTarget};

/// Returns whether the kind is `Namespace`.
pub(super) fn is_namespace(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.plural == "namespaces"
}

/// Returns the namespace of a request. The namespace of an existing Namespace is its own name.
pub(super) fn namespace_of(target: &RequestTarget) -> &str {
    if is_namespace(&target.kind) { &target.name } else { &target.namespace }
}
