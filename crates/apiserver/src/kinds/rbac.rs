//! Roles and their bindings.

use serde_json::Value;

use super::check::Check;
use super::edit::{default, is_empty, items, member, set, text_at};
use super::{Context, Strategy};
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

    fn prepare_for_update(&self, context: &Context<'_>, new: &mut Value, _: &Value, _: Option<&str>) {
        self.prepare_for_create(context, new);
    }

    fn validate_create(&self, object: &Value) -> Vec<FieldFault> {
        Check::of(object)
            .each("rules", |rule, _| {
                let urls = rule.object().get("nonResourceURLs").filter(|urls| !is_empty(urls)).cloned();
                let rule = rule.required_because("verbs", "verbs must contain at least one value");
                match urls {
                    Some(urls) if self.namespaced => rule.refuse(true, || {
                        let why = "namespaced rules cannot apply to non-resource URLs";
                        FieldFault::invalid("nonResourceURLs", &urls, why)
                    }),
                    Some(_) => rule,
                    None => rule
                        .required_because("apiGroups", "resource rules must supply at least one api group")
                        .required_because("resources", "resource rules must supply at least one resource"),
                }
            })
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
        let subjects = ["ServiceAccount", "User", "Group"];
        Check::of(object)
            .refuse(!kinds.contains(&kind), || FieldFault::unsupported("roleRef.kind", &kind.into(), kinds))
            .required("roleRef.name")
            .each("subjects", |subject, _| {
                let kind = text_at(subject.object(), "/kind").to_owned();
                let homeless =
                    !self.namespaced && kind == "ServiceAccount" && text_at(subject.object(), "/namespace").is_empty();
                subject
                    .required("name")
                    .refuse(homeless, || FieldFault::required("namespace", ""))
                    .refuse(!subjects.contains(&kind.as_str()), || {
                        FieldFault::unsupported("kind", &kind.as_str().into(), &subjects)
                    })
            })
            .done()
    }

    fn validate_update(&self, new: &Value, old: &Value, _: Option<&str>) -> Vec<FieldFault> {
        let mut faults = self.validate_create(new);
        if new.get("roleRef") != old.get("roleRef") {
            let value = new.get("roleRef").cloned().unwrap_or_default();
            faults.push(FieldFault::invalid("roleRef", &value, "cannot change roleRef"));
        }
        faults
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }
}
