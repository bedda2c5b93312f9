//! Declares the variables of policy expressions.

use std::sync::Arc;

use pintle_cel::{Environment, Schema, Type};

const VARIABLES: &str = "kubernetes.variables";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Optional {
    /// `true` if the policy has a `paramKind`, so that expressions can use `params`.
    pub(super) params: bool,
    pub(super) authorizer: bool,
}

pub(super) fn base(optional: Optional) -> Environment {
    let mut environment = always().variable("object", Type::Dyn).variable("oldObject", Type::Dyn);
    if optional.params {
        environment = environment.variable("params", Type::Dyn);
    }
    if optional.authorizer {
        environment = with_authorizer(environment)
            .variable("authorizer.requestResource", object("kubernetes.authorization.ResourceCheck"));
    }
    environment
}

/// Returns the CEL environment for type-checking a policy. In this environment, objects and parameters have the types
/// from their schemas, or an unknown type if the schema is `None`. As in kube-controller-manager,
/// `authorizer.requestResource` is not declared.
pub(super) fn typed(objects: Option<&Arc<Schema>>, params: Option<Option<&Arc<Schema>>>) -> Environment {
    let declare = |environment: Environment, name: &str, schema: Option<&Arc<Schema>>| match schema {
        Some(schema) if schema.cel_type().is_some() => environment.data(name, schema),
        _ => environment.variable(name, Type::Dyn),
    };
    let mut environment = with_authorizer(always());
    for name in ["object", "oldObject"] {
        environment = declare(environment, name, objects);
    }
    if let Some(params) = params {
        environment = declare(environment, "params", params);
    }
    with_variables(environment)
}

fn always() -> Environment {
    let environment = Environment::new()
        .variable("request", object("kubernetes.AdmissionRequest"))
        .variable("namespaceObject", object("kubernetes.Namespace"));
    with_namespace(with_request(environment))
}

fn with_authorizer(environment: Environment) -> Environment {
    environment.variable("authorizer", object("kubernetes.authorization.Authorizer"))
}

pub(super) fn with_variables(environment: Environment) -> Environment {
    environment.object(VARIABLES, []).variable("variables", object(VARIABLES))
}

/// Declares one of the policy's own variables. As in kube-apiserver, the variable keeps its type only for scalars,
/// lists and maps. A variable of any other type gets the type `dyn`.
pub(super) fn with_variable(environment: Environment, name: &str, declared: &Type) -> Environment {
    let declared = of_variable(declared, MAX_TYPE_DEPTH);
    environment.field(VARIABLES, name, declared.clone()).variable(&format!("variables.{name}"), declared)
}

/// The maximum nesting depth of a variable's type. Without this limit, each variable could nest the previous variable's
/// type one level deeper.
const MAX_TYPE_DEPTH: usize = 64;

fn of_variable(declared: &Type, depth: usize) -> Type {
    let Some(depth) = depth.checked_sub(1) else { return Type::Dyn };
    match declared {
        Type::List(items) => Type::list(of_variable(items, depth)),
        Type::Map(parts) => Type::map(of_variable(&parts.0, depth), of_variable(&parts.1, depth)),
        Type::Null
        | Type::Bool
        | Type::Int
        | Type::Uint
        | Type::Double
        | Type::String
        | Type::Bytes
        | Type::Duration
        | Type::Timestamp => declared.clone(),
        _ => Type::Dyn,
    }
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
