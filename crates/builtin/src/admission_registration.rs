//! The kinds in `admissionregistration.k8s.io`: webhook configurations and admission policies.

mod condition_errors;
mod match_errors;
mod policy;
mod policy_binding;
mod policy_errors;
mod webhook_errors;
mod webhooks;

use pintle_json::Json;
pub(super) use policy::AdmissionPolicy;
pub(super) use policy_binding::PolicyBinding;
pub(super) use webhooks::Webhooks;

use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Subresource;

/// Returns a warning if kube-apiserver reserves the name for configurations from manifest files. A write to a
/// subresource causes no warning.
fn static_suffix_warning(object: &Json, part: Subresource) -> Vec<String> {
    const WHY: &str = "metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based \
                       configurations and cannot be managed via the API";
    let is_reserved = part == Subresource::None && metadata::name(object).ends_with(".static.k8s.io");
    is_reserved.then(|| WHY.to_owned()).into_iter().collect()
}
