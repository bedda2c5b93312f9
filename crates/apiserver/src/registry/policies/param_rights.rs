//! An admission plugin that checks whether the author of a policy may read the policy's parameters. Without this check,
//! the author could read any object through messages of the policy.

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::path::ResourcePath;
use pintle_apimachinery::request::user::{MASTERS, User};
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_authz::{Attributes, Decision};
use pintle_json::Json;
use pintle_meta::GroupResource;
use pintle_storage::Charge;

use crate::registry::Registry;
use crate::registry::admission_plugin::{AdmissionRequest, Operation, Plugin};

#[derive(Debug)]
pub(in crate::registry) struct ParamRights;

impl Plugin for ParamRights {
    fn validate(&self, registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<Vec<Charge>> {
        let (kind, writes) = (&request.target.kind, matches!(request.operation, Operation::Create | Operation::Update));
        let is_whole = request.target.subresource == Subresource::None;
        let is_own = kind.group == "admissionregistration.k8s.io" && kind.strategy.openapi().is_none();
        let Some(new) = request.new.as_deref().filter(|_| is_own && writes && is_whole) else { return Ok(Vec::new()) };
        let user = &request.by.user;
        if user.is_in(MASTERS) {
            return Ok(Vec::new());
        }
        let error = match kind.plural.as_str() {
            "validatingadmissionpolicies" | "mutatingadmissionpolicies" => of_policy(registry, user, new, request.old),
            "validatingadmissionpolicybindings" => {
                of_binding(registry, user, new, request.old, "validatingadmissionpolicies")
            }
            "mutatingadmissionpolicybindings" => {
                of_binding(registry, user, new, request.old, "mutatingadmissionpolicies")
            }
            _ => None,
        };
        match error {
            None => Ok(Vec::new()),
            Some(error) => Err(kind.invalid(metadata::name(new), FieldErrors::from_iter([error]))),
        }
    }
}

fn of_policy(registry: &Registry, user: &User, new: &Json, old: Option<&Json>) -> Option<FieldError> {
    let param_kind = new.at("/spec/paramKind").filter(|kind| !kind.is_null())?;
    if old.and_then(|old| old.at("/spec/paramKind")) == Some(param_kind) {
        return None;
    }
    let required = Required::of(registry, Some(param_kind));
    if required.is_granted(registry, user, "get", "*", "*") {
        return None;
    }
    let (kind, api_version) = (param_kind.text("/kind"), param_kind.text("/apiVersion"));
    let why = format!(
        r#"user {} must have "get" permission on all objects of the referenced paramKind (kind={kind}, apiVersion={api_version})"#,
        describe_user(user)
    );
    Some(FieldError::forbidden("spec.paramKind", why))
}

fn of_binding(
    registry: &Registry,
    user: &User,
    new: &Json,
    old: Option<&Json>,
    policies: &'static str,
) -> Option<FieldError> {
    let reference = new.at("/spec/paramRef").filter(|reference| !reference.is_null())?;
    let policy_name = new.text("/spec/policyName");
    let is_same =
        |old: &Json| old.at("/spec/paramRef") == Some(reference) && old.text("/spec/policyName") == policy_name;
    if old.is_some_and(is_same) {
        return None;
    }
    let policy = registry.db.object(&GroupResource::new("admissionregistration.k8s.io", policies), "", policy_name);
    let param_kind = policy.as_ref().and_then(|policy| policy.at("/spec/paramKind")).filter(|kind| !kind.is_null());
    let required = Required::of(registry, param_kind);
    let (name, namespace) = (reference.text("/name"), reference.text("/namespace"));
    let verb = if name.is_empty() { "list" } else { "get" };
    if required.is_granted(registry, user, verb, namespace, name) {
        return None;
    }
    let user = describe_user(user);
    let all = format!(r#"user {user} does not have "{verb}" permission for all groups, versions and resources"#);
    let why = match (&policy, param_kind, &required) {
        (None, ..) => format!("unable to get policy {policy_name} to determine minimum required permissions and {all}"),
        (_, Some(kind), Required { resource, .. }) if resource == "*" => {
            let (version, kind) = (kind.text("/apiVersion"), kind.text("/kind"));
            format!(
                "unable to resolve paramKind &{{{version} {kind}}} to determine minimum required permissions and {all}"
            )
        }
        _ => format!(r#"user {user} does not have "{verb}" permission on the object referenced by paramRef"#),
    };
    Some(FieldError::forbidden("spec.paramRef", why))
}

/// The objects that a policy's author must be allowed to read.
struct Required {
    group: String,
    version: String,
    resource: String,
}

impl Required {
    /// Returns the parameter kind's resource. If the kind is unknown, the author needs permission to read all
    /// resources.
    fn of(registry: &Registry, param_kind: Option<&Json>) -> Self {
        let Some(param_kind) = param_kind else {
            return Self { group: "*".into(), version: "*".into(), resource: "*".into() };
        };
        let api_version = param_kind.text("/apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kinds = registry.kinds();
        let known = kinds.kind(group, version, param_kind.text("/kind"));
        let resource = known.map_or_else(|| "*".to_owned(), |kind| kind.plural.to_string());
        Self { group: group.into(), version: version.into(), resource }
    }

    fn is_granted(&self, registry: &Registry, user: &User, verb: &str, namespace: &str, name: &str) -> bool {
        let path = ResourcePath {
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.resource.clone(),
            namespace: namespace.into(),
            name: name.into(),
            ..ResourcePath::default()
        };
        let attributes = Attributes::Resource { verb, path: &path, name };
        matches!(pintle_authz::decide(registry.rbac(), user, &attributes), Decision::Allowed(_))
    }
}

/// Formats a user like Go's `fmt` package formats a pointer to the user.
fn describe_user(user: &User) -> String {
    let groups: Vec<_> = user.groups.iter().collect();
    let groups = groups.iter().map(|group| group.as_ref() as &str).collect::<Vec<_>>().join(" ");
    let extra: Vec<_> = user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    format!("&{{{} {} [{groups}] map[{}]}}", user.name, user.uid, extra.join(" "))
}
