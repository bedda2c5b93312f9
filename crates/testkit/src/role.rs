//! Computes the minimal RBAC role for recorded requests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pintle_apiserver::RequestVerb;
use serde_json::{Value, json};

use crate::request::SentRequest;

type Target = (String, String);
type Rules = BTreeMap<Target, BTreeSet<String>>;

/// A ServiceAccount with the roles and bindings that allow a set of recorded requests. The `Display` implementation
/// writes YAML for `kubectl apply`.
///
/// The role contains only permissions that a recorded request needed, and a few permissions that the same operator needs
/// in other runs, such as `patch` for repeated Events. The steps of the kit should therefore include changes and
/// deletions. To find missing permissions, run a check with more requests under the role, such as
/// `kit.restricted(&role).survives_chaos(seeds(8))`. The check returns
/// [`Violation::Forbidden`](crate::Violation::Forbidden) if the role does not allow a request.
///
/// Some clusters, such as OpenShift, run the admission plugin `OwnerReferencesPermissionEnforcement`. The embedded
/// server does not run this admission plugin, but the role contains the following permissions for the plugin:
///
/// - `update` of the owner's `finalizers`, if a write adds an owner reference with `blockOwnerDeletion: true`. The
///   owner references that [`controller_of`](pintle_meta::OwnerReference::controller_of) creates, and those in children
///   that a reconciler applies, set `blockOwnerDeletion`.
/// - `delete` of an existing object, if a write changes its owner references.
///
/// The role does not cover owner references of Leases, or references to kinds that the embedded server does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeastRole {
    name: String,
    cluster: Rules,
    namespaces: BTreeMap<String, Rules>,
}

impl LeastRole {
    /// Returns the role that `requests` require. The roles and the ServiceAccount, which is in the namespace `default`,
    /// are named `name`.
    ///
    /// - A Role in the namespace of the Leases contains the permissions for Leases.
    /// - If a request is for all namespaces, a ClusterRole contains all other permissions.
    /// - If no request is for all namespaces, each namespace has a Role for its namespaced resources, and a ClusterRole
    ///   contains the permissions for cluster-scoped resources.
    pub fn of(name: impl Into<String>, requests: &[SentRequest]) -> Self {
        let relevant = || requests.iter().filter(|request| request.verb.is_some());
        let scoped: BTreeSet<(&str, &str)> = relevant()
            .filter(|request| !request.namespace.is_empty())
            .map(|request| (request.group.as_str(), request.resource.as_str()))
            .collect();
        let is_scoped = |request: &SentRequest| scoped.contains(&(request.group.as_str(), request.resource.as_str()));
        let is_global = relevant().any(|request| request.namespace.is_empty() && is_scoped(request));
        let mut role = Self { name: name.into(), cluster: Rules::new(), namespaces: BTreeMap::new() };
        for request in relevant() {
            for owner in &request.blocked_owners {
                let finalizers = (owner.group.clone(), format!("{}/finalizers", owner.resource));
                let rules = role.rules(if is_global { "" } else { &owner.namespace });
                rules.entry(finalizers).or_default().insert(RequestVerb::Update.to_string());
            }
            let is_local = request.is_lease() || !is_global;
            let rules = role.rules(if is_local { &request.namespace } else { "" });
            let (_, resource) = request.permission();
            let verbs = rules.entry((request.group.clone(), resource)).or_default();
            verbs.extend(request.verb.map(|verb| verb.to_string()));
            // To install a definition, the operator lists definitions. In another run, the definition may not be
            // established yet, and the operator then also watches it. Therefore, add the verb `watch`.
            if request.verb == Some(RequestVerb::List) && request.resource == "customresourcedefinitions" {
                verbs.insert(RequestVerb::Watch.to_string());
            }
            // Applying an object that does not exist requires the verb `create` in addition to `patch`. Add `create`,
            // because in another run, the object may not exist.
            if request.verb == Some(RequestVerb::Patch) && request.code == Some(201) {
                verbs.insert(RequestVerb::Create.to_string());
            }
            // A repeated Event patches the Event that its first occurrence created.
            if request.verb == Some(RequestVerb::Create) && request.is_event() {
                verbs.insert(RequestVerb::Patch.to_string());
            }
            let is_owner_changed = |change: &String| change.starts_with(".metadata.ownerReferences");
            if request.changes.iter().any(is_owner_changed) {
                verbs.insert(RequestVerb::Delete.to_string());
            }
            // In another run, the operator may read the object, to find its own conditions in the status, or to check
            // whether an uncached object still exists.
            if request.verb == Some(RequestVerb::Patch) && request.subresource == "status" {
                let resource = (request.group.clone(), request.resource.clone());
                rules.entry(resource).or_default().insert(RequestVerb::Get.to_string());
            }
        }
        role
    }

    /// Returns the rules for `namespace`. An empty namespace selects the rules of the ClusterRole.
    fn rules(&mut self, namespace: &str) -> &mut Rules {
        match namespace {
            "" => &mut self.cluster,
            namespace => self.namespaces.entry(namespace.into()).or_default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the ServiceAccount's user name.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:default:{}", self.name)
    }

    /// Returns the role without the permission for `verb` on `resource`, such as `configmaps` or `websites/status`. A
    /// test can use the returned role to show that the operator needs the permission.
    pub fn without(mut self, verb: &str, resource: &str) -> Self {
        for rules in self.namespaces.values_mut().chain([&mut self.cluster]) {
            for ((_, found), verbs) in rules.iter_mut() {
                if found == resource {
                    verbs.remove(verb);
                }
            }
            rules.retain(|_, verbs| !verbs.is_empty());
        }
        self
    }

    fn documents(&self) -> Vec<Value> {
        let name = &self.name;
        let mut documents =
            vec![json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name, "default")})];
        let roles = self.namespaces.iter().map(|(namespace, rules)| (namespace.as_str(), "Role", rules));
        for (namespace, kind, rules) in roles.chain([("", "ClusterRole", &self.cluster)]) {
            if rules.is_empty() {
                continue;
            }
            let api_version = "rbac.authorization.k8s.io/v1";
            let metadata = metadata(name, namespace);
            documents
                .push(json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": rules_of(rules)}));
            documents.push(json!({
                "apiVersion": api_version,
                "kind": format!("{kind}Binding"),
                "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
            }));
        }
        documents
    }
}

fn metadata(name: &str, namespace: &str) -> Value {
    match namespace {
        "" => json!({"name": name}),
        namespace => json!({"name": name, "namespace": namespace}),
    }
}

/// Returns the rules as JSON. Resources of the same group with the same verbs share a rule.
fn rules_of(rules: &Rules) -> Vec<Value> {
    let mut shared = BTreeMap::<(&String, &BTreeSet<String>), Vec<&String>>::new();
    for ((group, resource), verbs) in rules {
        shared.entry((group, verbs)).or_default().push(resource);
    }
    let rule = |((group, verbs), resources)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    shared.into_iter().map(rule).collect()
}

impl fmt::Display for LeastRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, document) in self.documents().iter().enumerate() {
            if index > 0 {
                f.write_str("---\n")?;
            }
            f.write_str(&serde_yaml::to_string(document).map_err(|_| fmt::Error)?)?;
        }
        Ok(())
    }
}
