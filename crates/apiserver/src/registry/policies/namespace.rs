//! The namespace of a request.

use pintle_kinds::Kind;

use crate::registry::admission_plugin::AdmissionRequest;

/// Returns whether the kind is `Namespace`.
pub(super) fn is_namespace(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.plural == "namespaces"
}

/// Returns the namespace of a request. If the request is about a Namespace, returns the name of this Namespace. The name is empty if the
/// request creates a Namespace with a generated name.
pub(super) fn namespace_of<'a>(request: &'a AdmissionRequest<'_>) -> &'a str {
    let target = request.target;
    if is_namespace(&target.kind) { request.name() } else { &target.namespace }
}
