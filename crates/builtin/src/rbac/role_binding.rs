//! The `RoleBinding` and `ClusterRoleBinding` kinds in `rbac.authorization.k8s.io/v1`.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule};
use pintle_json::{Json, json};
use pintle_kinds::check::Check;
use pintle_kinds::table::{Cell, ComputedCells};
use pintle_kinds::{RBAC_GROUP, Strategy};

#[derive(Clone, Copy, Debug)]
pub(crate) struct RoleBinding {
    pub(crate) namespaced: bool,
}

impl Strategy for RoleBinding {
    fn defaults(&self, object: &mut Json) {
        if let Some(role) = object.member("roleRef") {
            role.set_default("apiGroup", RBAC_GROUP);
            if role.text("/apiGroup").is_empty() {
                role.set("apiGroup", RBAC_GROUP);
            }
        }
        for subject in object.items_mut("subjects") {
            if matches!(subject.text("/kind"), "User" | "Group") && subject.text("/apiGroup").is_empty() {
                subject.set("apiGroup", RBAC_GROUP);
            }
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let kinds: &[&str] = if self.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        let kind = object.text("/roleRef/kind");
        Check::of(object)
            .one_of("roleRef.apiGroup", &[RBAC_GROUP])
            .unsupported_if(!kinds.contains(&kind), "roleRef.kind", &kind.into(), kinds)
            .required("roleRef.name")
            .name("roleRef.name", NameRule::PathSegment)
            .each("subjects", |subject, _| self.subject(subject))
            .done()
    }

    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        let mut errors = self.validate_create(new);
        if new.get("roleRef") != old.get("roleRef") {
            let said = |name: &str| new.text(&format!("/roleRef/{name}"));
            // As in kube-apiserver, the error shows the reference with Go's field names.
            let value = json!({"APIGroup": said("apiGroup"), "Kind": said("kind"), "Name": said("name")});
            errors.push(FieldError::invalid("roleRef", &value, "cannot change roleRef"));
        }
        errors
    }

    fn computed_cells(&self) -> ComputedCells {
        &[
            ("Users", Cell::Computed(|binding| subjects(binding, "User"))),
            ("Groups", Cell::Computed(|binding| subjects(binding, "Group"))),
            ("ServiceAccounts", Cell::Computed(|binding| subjects(binding, "ServiceAccount"))),
        ]
    }
}

fn subjects(binding: &Json, kind: &str) -> Json {
    let subjects = binding.list("/subjects").filter(|subject| subject.text("/kind") == kind);
    let names = subjects.map(|subject| match kind {
        "ServiceAccount" => format!("{}/{}", subject.text("/namespace"), subject.text("/name")),
        _ => subject.text("/name").to_owned(),
    });
    names.collect::<Vec<_>>().join(", ").into()
}

impl RoleBinding {
    fn subject<'a>(&self, subject: Check<'a>) -> Check<'a> {
        let kind = subject.object().text("/kind");
        let group = subject.object().text("/apiGroup");
        let lacks_namespace = !self.namespaced && subject.object().text("/namespace").is_empty();
        let subject = subject.required("name");
        match kind {
            "ServiceAccount" => subject
                .name("name", NameRule::Subdomain)
                .unsupported_if(!group.is_empty(), "apiGroup", &group.into(), &[""])
                .required_if(lacks_namespace, "namespace", ""),
            "User" | "Group" => subject.one_of("apiGroup", &[RBAC_GROUP]),
            other => subject.unsupported_if(true, "kind", &other.into(), &["ServiceAccount", "User", "Group"]),
        }
    }
}
