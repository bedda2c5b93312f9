//! Declares the variables that expressions of policies can use.

use pintle_cel::{Environment, Type};

/// The name of the type of `variables`.
const VARIABLES: &str = "kubernetes.variables";

/// The optional variables that an expression can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Optional {
    /// Whether the policy has a `paramKind`, so that expressions can use `params`.
    pub(super) params: bool,
    /// Whether expressions can use `authorizer` and `authorizer.requestResource`.
    pub(super) authorizer: bool,
}

/// Returns the environment without the variables that the policy defines.
pub(super) fn base(optional: Optional) -> Environment {
    let mut environment = Environment::new()
        .variable("object", Type::Dyn)
        .variable("oldObject", Type::Dyn)
        .variable("request", object("kubernetes.AdmissionRequest"))
        .variable("namespaceObject", object("kubernetes.Namespace"));
    if optional.params {
        environment = environment.variable("params", Type::Dyn);
    }
    if optional.authorizer {
        environment = environment
            .variable("authorizer", object("kubernetes.authorization.Authorizer"))
            .variable("authorizer.requestResource", object("kubernetes.authorization.ResourceCheck"));
    }
    with_namespace(with_request(environment))
}

/// Declares the object `variables`. Its fields are the variables that the policy defines.
pub(super) fn with_variables(environment: Environment) -> Environment {
    environment.object(VARIABLES, []).variable("variables", object(VARIABLES))
}

/// Declares one variable that the policy defines.
pub(super) fn with_variable(environment: Environment, name: &str, declared: Type) -> Environment {
    environment.field(VARIABLES, name, declared.clone()).variable(&format!("variables.{name}"), declared)
}

fn object(name: &str) -> Type {
    Type::Object(name.into())
}

fn strings() -> Type {
    Type::list(Type::String)
}

fn with_request(environment: Environment) -> Environment {
    let group_version = [("group", Type::String), ("version", Type::String)];
    let kind = group_version.iter().cloned().chain([("kind", Type::String)]);
    let resource = group_version.iter().cloned().chain([("resource", Type::String)]);
    let (kind_type, resource_type) = (object("kubernetes.GroupVersionKind"), object("kubernetes.GroupVersionResource"));
    environment
        .object("kubernetes.GroupVersionKind", kind)
        .object("kubernetes.GroupVersionResource", resource)
        .object(
            "kubernetes.UserInfo",
            [
                ("username", Type::String),
                ("uid", Type::String),
                ("groups", strings()),
                ("extra", Type::map(Type::String, strings())),
            ],
        )
        .object(
            "kubernetes.AdmissionRequest",
            [
                ("kind", kind_type.clone()),
                ("resource", resource_type.clone()),
                ("subResource", Type::String),
                ("requestKind", kind_type),
                ("requestResource", resource_type),
                ("requestSubResource", Type::String),
                ("name", Type::String),
                ("namespace", Type::String),
                ("operation", Type::String),
                ("userInfo", object("kubernetes.UserInfo")),
                ("dryRun", Type::Bool),
                ("options", Type::Dyn),
            ],
        )
}

fn with_namespace(environment: Environment) -> Environment {
    let texts = || Type::map(Type::String, Type::String);
    environment
        .object("kubernetes.NamespaceSpec", [("finalizers", strings())])
        .object(
            "kubernetes.NamespaceCondition",
            [
                ("status", Type::String),
                ("type", Type::String),
                ("lastTransitionTime", Type::Timestamp),
                ("message", Type::String),
                ("reason", Type::String),
            ],
        )
        .object(
            "kubernetes.NamespaceStatus",
            [("conditions", Type::list(object("kubernetes.NamespaceCondition"))), ("phase", Type::String)],
        )
        .object(
            "kubernetes.NamespaceMetadata",
            [
                ("name", Type::String),
                ("generateName", Type::String),
                ("namespace", Type::String),
                ("labels", texts()),
                ("annotations", texts()),
                ("UID", Type::String),
                ("creationTimestamp", Type::Timestamp),
                ("deletionGracePeriodSeconds", Type::Int),
                ("deletionTimestamp", Type::Timestamp),
                ("generation", Type::Int),
                ("resourceVersion", Type::String),
                ("finalizers", strings()),
            ],
        )
        .object(
            "kubernetes.Namespace",
            [
                ("metadata", object("kubernetes.NamespaceMetadata")),
                ("spec", object("kubernetes.NamespaceSpec")),
                ("status", object("kubernetes.NamespaceStatus")),
            ],
        )
}
