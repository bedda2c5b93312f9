//! Looks up the namespace of an admission request.

use pintle_kinds::Kind;

use crate::registry::admission_plugin::AdmissionRequest;

pub(super) fn is_namespace(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.plural == "namespaces"
}

/// Returns a request's namespace. For a Namespace, returns the name of the object, which is empty until the server has
/// generated a name.
pub(super) fn namespace_of<'a>(request: &'a AdmissionRequest<'_>) -> &'a str {
    let target = request.target;
    if is_namespace(&target.kind) { request.name() } else { &target.namespace }
}
