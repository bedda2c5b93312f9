//! Checks the additional permissions for changing the status of a ResourceClaim.

use std::collections::{BTreeMap, BTreeSet};

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::path::ResourcePath;
use pintle_apimachinery::request::user::User;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::Json;
use pintle_kinds::RequestTarget;

use super::attributes::Attributes;
use super::authorize::authorize;
use super::authorizer::Rbac;

const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// Returns errors for the changes of a ResourceClaim's status that `user` may not make. The scheduler needs a permission
/// for the allocation and the consumers. A driver needs a permission for the status of its devices. `verb` is the verb of
/// the request.
pub fn claim_status_errors(
    rbac: Rbac<'_>,
    user: &User,
    target: &RequestTarget,
    verb: &str,
    [new, old]: [&Json; 2],
) -> FieldErrors {
    let kind = &target.kind;
    if (&*kind.group, &*kind.plural, target.subresource) != ("resource.k8s.io", "resourceclaims", Subresource::Status) {
        return FieldErrors::default();
    }
    let change = StatusChange { rbac, user, target, new: &new["status"], old: &old["status"] };
    change.binding_error(verb).into_iter().chain(change.device_errors(verb)).collect()
}

struct StatusChange<'a> {
    rbac: Rbac<'a>,
    user: &'a User,
    target: &'a RequestTarget,
    new: &'a Json,
    old: &'a Json,
}

impl<'a> StatusChange<'a> {
    fn binding_error(&self, verb: &str) -> Option<FieldError> {
        let is_unchanged =
            ["allocation", "reservedFor"].into_iter().all(|field| is_same(&self.new[field], &self.old[field]));
        let why = if is_unchanged { None } else { self.refusal("binding", verb, "", "") };
        why.map(|why| {
            let needed = format!("requires resource=\"resourceclaims/binding\", verb=\"{verb}\" permission");
            let changed = "changing status.allocation or status.reservedFor";
            FieldError::forbidden("status.allocation", format!("{changed} {needed}: {why}"))
        })
    }

    /// Returns an error for each driver whose devices have a changed status. The server removes the status of
    /// deallocated devices, so a driver needs no permission for a claim without an allocation.
    fn device_errors(&self, verb: &str) -> impl Iterator<Item = FieldError> {
        let drivers = if self.new.has("/allocation") { self.changed_drivers() } else { BTreeSet::new() };
        let mut verbs = vec![format!("arbitrary-node:{verb}")];
        if self.is_on_allocated_node() {
            verbs.insert(0, format!("associated-node:{verb}"));
        }
        drivers.into_iter().filter_map(move |driver| {
            let refusal = |verb: &String| self.refusal("driver", verb, &self.target.namespace, driver);
            let why = verbs.iter().map(refusal).collect::<Option<Vec<_>>>()?.swap_remove(0);
            let needed = format!("requires resource=\"resourceclaims/driver\", verb=\"[{}]\"", verbs.join(" "));
            Some(FieldError::forbidden("status.devices", format!("changing status.devices {needed} permission: {why}")))
        })
    }

    /// Returns the drivers of all devices whose status is new, changed or removed.
    fn changed_drivers(&self) -> BTreeSet<&'a str> {
        let [new, old] = [self.new, self.old].map(|status| {
            let key = |device: &'a Json| ["/driver", "/pool", "/device", "/shareID"].map(|field| device.text(field));
            status.list("/devices").map(|device| (key(device), device)).collect::<BTreeMap<_, _>>()
        });
        // As in kube-apiserver, every difference in the driver's own data counts.
        let is_kept = |key, device: &Json| {
            old.get(key).is_some_and(|old| is_same(device, old) && device.get("data") == old.get("data"))
        };
        let changed = new.iter().filter(|(key, device)| !is_kept(*key, device));
        let removed = old.iter().filter(|(key, _)| !new.contains_key(*key));
        changed.chain(removed).map(|(key, _)| key[0]).collect()
    }

    /// Returns `true` if the user is a service account of a pod on the only node for which the claim is allocated.
    fn is_on_allocated_node(&self) -> bool {
        let one = |list: &'a Json| list.as_array().filter(|list| list.len() == 1).and_then(|list| list.first());
        let node = one(&self.new["allocation"]["nodeSelector"]["nodeSelectorTerms"])
            .filter(|term| term.list("/matchExpressions").next().is_none())
            .and_then(|term| one(&term["matchFields"]))
            .filter(|field| field.text("/key") == "metadata.name" && field.text("/operator") == "In")
            .and_then(|field| one(&field["values"]))
            .and_then(Json::as_str);
        let account = self.user.name.strip_prefix("system:serviceaccount:");
        let is_account = account.is_some_and(|account| account.split(':').count() == 2);
        let nodes = self.user.extra.get(NODE_NAME).map(Vec::as_slice);
        let is_same = node.is_some_and(|node| matches!(nodes, Some([only]) if only == node));
        is_account && is_same && node.is_some_and(|node| name_errors(NameRule::Subdomain, node, false).is_empty())
    }

    /// Returns the reason why the user lacks a permission, or `None` if the user has it.
    fn refusal(&self, subresource: &str, verb: &str, namespace: &str, name: &str) -> Option<String> {
        let kind = &self.target.kind;
        let path = ResourcePath {
            group: kind.group.clone(),
            version: kind.version.clone(),
            namespace: namespace.into(),
            resource: kind.plural.clone(),
            subresource: subresource.into(),
            name: name.into(),
            ..ResourcePath::default()
        };
        let denied = authorize(self.rbac, self.user, &Attributes::Resource { verb, path: &path, name }).err();
        denied.map(|failure| failure.status.message.clone())
    }
}

/// Compares two values. Like kube-apiserver, treats an empty list or text like an absent one.
fn is_same(new: &Json, old: &Json) -> bool {
    let is_absent = |value: &Json| value.is_empty() && !value.is_object();
    match (new, old) {
        (Json::Object(members), Json::Object(others)) => {
            members.iter().all(|(key, member)| is_same(member, &old[key.as_str()]))
                && others.iter().all(|(key, other)| is_absent(other) || members.contains_key(key))
        }
        (Json::Array(items), Json::Array(others)) => {
            items.len() == others.len() && items.iter().zip(others).all(|(item, other)| is_same(item, other))
        }
        _ => new == old || is_absent(new) && is_absent(old),
    }
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::super::authorizer::{Authorizer, db_of};
    use super::*;

    const DRIVER: &str = "system:serviceaccount:n:driver";

    /// Returns the errors for a user who may use `verb` for the binding of claims, and for the devices of the driver
    /// `d.x`.
    fn errors(user: &str, verb: &str, new: &Json, old: &Json) -> Vec<String> {
        let resources = |names: Json, resource: &str| json!({"apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": [verb], "resourceNames": names});
        let rules =
            [resources(json!(["d.x"]), "resourceclaims/driver"), resources(json!([]), "resourceclaims/binding")];
        let reference = json!({"kind": "ClusterRole", "name": "r"});
        let binding =
            json!({"metadata": {"name": "r"}, "roleRef": reference, "subjects": [{"kind": "User", "name": user}]});
        let db = db_of(&[
            ("clusterroles", json!({"metadata": {"name": "r"}, "rules": rules})),
            ("clusterrolebindings", binding),
        ]);
        let kinds = pintle_builtin::kinds();
        let kind = kinds.resource("resource.k8s.io", "v1", "resourceclaims").expect("a built-in kind").clone();
        let mut target = RequestTarget::new(kind, "n", "c");
        target.subresource = Subresource::Status;
        let extra = [(NODE_NAME.to_owned(), vec!["a".to_owned()])].into();
        let user = User { name: user.into(), extra, ..User::default() };
        let [new, old] = [new, old].map(|status| json!({"status": status}));
        let authorizer = Authorizer::default();
        let errors = claim_status_errors(authorizer.rules_in(&db), &user, &target, "update", [&new, &old]);
        errors.iter().map(ToString::to_string).collect()
    }

    fn allocated_on(nodes: Json, devices: Json) -> Json {
        let field = json!({"key": "metadata.name", "operator": "In", "values": nodes});
        let allocation = json!({"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}});
        json!({"allocation": allocation, "devices": devices})
    }

    #[test]
    fn allocations_and_consumers_require_permission_for_binding() {
        let consumer = json!({"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]});
        let allocation = json!({"allocation": {}});
        let expected = "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires \
                        resource=\"resourceclaims/binding\", verb=\"update\" permission: resourceclaims.resource.k8s.io \
                        is forbidden: User \"u\" cannot update resource \"resourceclaims/binding\" in API group \
                        \"resource.k8s.io\" at the cluster scope";
        for changed in [consumer, allocation] {
            assert_eq!(errors("u", "patch", &changed, &json!({})), [expected]);
            assert_eq!(errors("u", "patch", &json!({}), &changed), [expected]);
            assert_eq!(errors("u", "patch", &changed, &changed), [""; 0]);
            assert_eq!(errors("u", "update", &changed, &json!({})), [""; 0]);
        }
    }

    #[test]
    fn device_status_requires_permission_for_each_driver() {
        let device =
            |driver: &str, data: u8| json!({"driver": driver, "pool": "p", "device": "d", "data": {"a": data}});
        let status = |devices: Json| json!({"allocation": {}, "devices": devices});
        let old = status(json!([device("d.x", 1), device("e.x", 1)]));
        let refusal = |driver: &str| {
            format!(
                "status.devices: Forbidden: changing status.devices requires resource=\"resourceclaims/driver\", \
                 verb=\"[arbitrary-node:update]\" permission: resourceclaims.resource.k8s.io \"{driver}\" is forbidden: \
                 User \"u\" cannot arbitrary-node:update resource \"resourceclaims/driver\" in API group \
                 \"resource.k8s.io\" in the namespace \"n\""
            )
        };
        let changed = status(json!([device("d.x", 2), device("e.x", 2), device("c.x", 1)]));
        let all = ["c.x", "d.x", "e.x"].map(refusal);
        assert_eq!(errors("u", "update", &changed, &old), all);
        assert_eq!(errors("u", "arbitrary-node:update", &changed, &old), [all[0].clone(), all[2].clone()]);
        assert_eq!(errors("u", "arbitrary-node:update", &status(json!([device("e.x", 1)])), &old), [""; 0]);
        assert_eq!(errors("u", "update", &status(json!([device("e.x", 1)])), &old), [refusal("d.x")]);
        assert_eq!(errors("u", "update", &json!({}), &old), [""; 0], "deallocation");
        let bare = json!({"driver": "d.x", "pool": "p", "device": "d"});
        let stored = json!({"driver": "d.x", "pool": "p", "device": "d", "conditions": null});
        let [bare, stored] = [bare, stored].map(|device| status(json!([device])));
        assert_eq!(errors("u", "update", &bare, &stored), [""; 0]);
        let with_data = |data: Json| status(json!([{"driver": "d.x", "pool": "p", "device": "d", "data": data}]));
        let [old, new] = [json!({"a": 1}), json!({"a": 1, "b": ""})].map(with_data);
        assert_eq!(errors("u", "update", &new, &old), [refusal("d.x")]);
    }

    #[test]
    fn driver_on_allocated_node_may_write_device_status() {
        let devices = json!([{"driver": "d.x", "pool": "p", "device": "d"}]);
        for (user, nodes, is_allowed) in [
            (DRIVER, json!(["a"]), true),
            (DRIVER, json!(["b"]), false),
            (DRIVER, json!(["a", "b"]), false),
            ("driver", json!(["a"]), false),
        ] {
            let (new, old) = (allocated_on(nodes.clone(), devices.clone()), allocated_on(nodes, json!([])));
            let errors = errors(user, "associated-node:update", &new, &old);
            assert_eq!(errors.is_empty(), is_allowed, "{errors:?}");
        }
    }
}
