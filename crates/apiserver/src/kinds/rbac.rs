//! Roles and their bindings.

use serde_json::{Value, json};

use super::check::Check;
use super::{Context, Strategy};
use crate::object::{default, is_empty, items, list, member, set, text_at};
use crate::request::Part;
use crate::selector::structured;
use crate::validate::{FieldFault, NameRule};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Role and ClusterRole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Role {
    pub(super) namespaced: bool,
}

impl Strategy for Role {
    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Value) {
        if object.get("rules").is_none_or(is_empty) {
            set(object, "rules", Value::Null);
        }
    }

    fn prepare_for_update(&self, context: &Context<'_>, new: &mut Value, _: &Value, _: Part) {
        self.prepare_for_create(context, new);
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let gathers = crate::object::has(object, "/aggregationRule");
        let selectors = list(object, "/aggregationRule/clusterRoleSelectors").enumerate();
        let selectors = selectors.flat_map(|(at, selector)| {
            let path = format!("aggregationRule.clusterRoleSelectors[{at}]");
            let mut faults = super::apps::selector_faults(selector, &path);
            if !faults.is_empty() || structured(selector).is_none() {
                faults.push(FieldFault::invalid(path, &Value::Null, "invalid label selector."));
            }
            faults
        });
        Check::of(object)
            .each("rules", |rule, _| {
                let filled = |field: &str| rule.object().get(field).is_some_and(|value| !is_empty(value));
                let of_resources = ["apiGroups", "resources", "resourceNames"].into_iter().any(filled);
                let urls = rule.object().get("nonResourceURLs").filter(|urls| !is_empty(urls)).cloned();
                let rule = rule.required_because("verbs", "verbs must contain at least one value");
                let Some(urls) = urls else {
                    return rule
                        .required_because("apiGroups", "resource rules must supply at least one api group")
                        .required_because("resources", "resource rules must supply at least one resource");
                };
                let refused = |why| FieldFault::invalid("nonResourceURLs", &urls, why);
                rule.refuse(self.namespaced, || refused("namespaced rules cannot apply to non-resource URLs"))
                    .refuse(of_resources, || {
                        refused("rules cannot apply to both regular resources and non-resource URLs")
                    })
            })
            .refuse(gathers && list(object, "/aggregationRule/clusterRoleSelectors").next().is_none(), || {
                let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
                FieldFault::required("aggregationRule.clusterRoleSelectors", why)
            })
            .also(selectors)
            .done()
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }
}

/// RoleBinding and ClusterRoleBinding.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoleBinding {
    pub(super) namespaced: bool,
}

impl Strategy for RoleBinding {
    fn defaults(&self, object: &mut Value) {
        if let Some(role) = member(object, "roleRef") {
            default(role, "apiGroup", GROUP);
            if text_at(role, "/apiGroup").is_empty() {
                set(role, "apiGroup", GROUP.into());
            }
        }
        for subject in items(object, "subjects") {
            if matches!(text_at(subject, "/kind"), "User" | "Group") && text_at(subject, "/apiGroup").is_empty() {
                set(subject, "apiGroup", GROUP.into());
            }
        }
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        let kinds: &[&str] = if self.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        let kind = text_at(object, "/roleRef/kind");
        Check::of(object)
            .one_of("roleRef.apiGroup", &[GROUP])
            .refuse(!kinds.contains(&kind), || FieldFault::unsupported("roleRef.kind", &kind.into(), kinds))
            .required("roleRef.name")
            .name("roleRef.name", NameRule::PathSegment)
            .each("subjects", |subject, _| self.subject(subject))
            .done()
    }

    fn validate_update(&self, new: &Value, old: &Value, _: Part) -> Vec<FieldFault> {
        let mut faults = self.validate_create(new);
        if new.get("roleRef") != old.get("roleRef") {
            let said = |name: &str| text_at(new, &format!("/roleRef/{name}"));
            // Told with the names of the Go fields.
            let value = json!({"APIGroup": said("apiGroup"), "Kind": said("kind"), "Name": said("name")});
            faults.push(FieldFault::invalid("roleRef", &value, "cannot change roleRef"));
        }
        faults
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }
}

impl RoleBinding {
    fn subject<'a>(&self, subject: Check<'a>) -> Check<'a> {
        let kind = text_at(subject.object(), "/kind");
        let group = text_at(subject.object(), "/apiGroup");
        let homeless = !self.namespaced && text_at(subject.object(), "/namespace").is_empty();
        let subject = subject.required("name");
        match kind {
            "ServiceAccount" => subject
                .name("name", NameRule::Subdomain)
                .refuse(!group.is_empty(), || FieldFault::unsupported("apiGroup", &group.into(), &[""]))
                .refuse(homeless, || FieldFault::required("namespace", "")),
            "User" | "Group" => subject.one_of("apiGroup", &[GROUP]),
            other => subject
                .refuse(true, || FieldFault::unsupported("kind", &other.into(), &["ServiceAccount", "User", "Group"])),
        }
    }
}
