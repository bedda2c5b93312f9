//! Finds the parameters of policies.

use std::sync::Arc;

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::selector;
use pintle_json::Json;
use pintle_kinds::Kind;
use pintle_meta::GroupResource;

use crate::registry::Registry;

pub(super) fn check_kind(registry: &Registry, policy: &Json) -> Result<(), String> {
    if policy.has("/paramKind") { kind(registry, policy).map(drop) } else { Ok(()) }
}

fn kind(registry: &Registry, policy: &Json) -> Result<Arc<Kind>, String> {
    let (api_version, name) = (policy.text("/paramKind/apiVersion"), policy.text("/paramKind/kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kinds = registry.kinds();
    // kube-apiserver's REST mapper also finds each kind by the lower-case name of the kind.
    let in_lower_case = || {
        let served = kinds.version(group, version)?.kinds();
        served.into_iter().find(|kind| kind.kind.to_lowercase() == name)
    };
    kinds
        .kind(group, version, name)
        .or_else(in_lower_case)
        .cloned()
        .ok_or_else(|| format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={name}'"))
}

/// Returns a binding's parameters. The server evaluates the policy once for each of these parameters. If the policy or
/// binding has no parameters, the policy is evaluated once without the variable `params`.
pub(super) fn collect(
    registry: &Registry,
    policy: &Json,
    binding: &Json,
    namespace: &str,
) -> Result<Vec<Option<Arc<Json>>>, String> {
    let reference = &binding["paramRef"];
    if !policy.has("/paramKind") || reference.is_null() {
        return Ok(vec![None]);
    }
    let kind = kind(registry, policy)?;
    let own = reference.text("/namespace");
    let namespace = match (kind.is_namespaced(), own) {
        (true, "") if namespace.is_empty() => {
            return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".into());
        }
        (true, "") => namespace,
        (true, own) => own,
        (false, "") => "",
        (false, _) => return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into()),
    };
    let found = find(registry, &kind, namespace, reference);
    if found.is_empty() && reference.text("/parameterNotFoundAction") == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".into());
    }
    Ok(found.into_iter().map(Some).collect())
}

fn find(registry: &Registry, kind: &Kind, namespace: &str, reference: &Json) -> Vec<Arc<Json>> {
    let resource: &GroupResource = &kind.stored_as;
    let found = match reference.text("/name") {
        "" => {
            let selector = selector::structured(&reference["selector"]);
            let all = registry.db.objects(resource, kind.is_namespaced().then_some(namespace));
            let selects =
                |object: &Arc<Json>| selector.as_ref().is_some_and(|selector| selector::selects(selector, object));
            all.into_iter().filter(selects).collect()
        }
        name => registry.db.object(resource, namespace, name).into_iter().collect::<Vec<_>>(),
    };
    found.into_iter().map(|object| typed(kind, &object)).collect()
}

fn typed(kind: &Kind, stored: &Arc<Json>) -> Arc<Json> {
    let mut shown = Arc::unwrap_or_clone(kind.to_version(stored));
    shown.set("apiVersion", kind.api_version());
    shown.set("kind", kind.kind.as_str());
    if kind.strategy.openapi().is_none()
        && let Some(metadata) = shown.get_mut("metadata")
    {
        // kube-apiserver's informers for built-in kinds remove the managed fields.
        metadata.unset("managedFields");
    }
    Arc::new(shown)
}
