//! Applies MutatingAdmissionPolicies.

use std::collections::BTreeSet;
use std::sync::Arc;

use pintle_admission::policy::MutationError;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::metadata_mut;
use pintle_authz::BoundPolicy;
use pintle_json::Json;
use pintle_kinds::Kind;
use pintle_meta::Reason;
use pintle_schema::Schema;

use super::is_exempt;
use super::review::{Invocation, Misconfigured, Review, in_version};
use crate::registry::Registry;
use crate::registry::admission_plugin::{AdmissionRequest, Operation};

/// Records the reinvocable policies or webhooks that a request has invoked. A policy or webhook is reinvocable if its
/// reinvocation policy is `IfNeeded`. If a policy or webhook changes the object, mutating admission runs a second time
/// and invokes only reinvocable policies and webhooks.
#[derive(Debug)]
pub(in crate::registry) struct Reinvocation<K = InvocationKey> {
    is_second_run: bool,
    /// The reinvocable policies or webhooks that were invoked after the last change to the object.
    invoked: BTreeSet<K>,
    /// The reinvocable policies or webhooks that were invoked before the last change to the object.
    outdated: BTreeSet<K>,
    output: Option<Json>,
    needs_second_run: bool,
}

pub(in crate::registry) type InvocationKey = (String, String, Option<(String, String)>);

impl<K> Default for Reinvocation<K> {
    fn default() -> Self {
        let (invoked, outdated) = (BTreeSet::new(), BTreeSet::new());
        Self { is_second_run: false, invoked, outdated, output: None, needs_second_run: false }
    }
}

impl<K: Ord> Reinvocation<K> {
    pub(in crate::registry) fn begin_second_run(&mut self) {
        self.is_second_run = true;
    }

    pub(in crate::registry) fn needs_second_run(&self) -> bool {
        self.needs_second_run
    }

    pub(super) fn begin_run(&mut self, object: Option<&Json>) {
        if self.is_second_run && self.output.as_ref() != object {
            self.record_change();
        }
    }

    pub(super) fn end_run(&mut self, object: Option<&Json>) {
        self.output = object.cloned();
    }

    pub(super) fn invokes(&self, key: &K) -> bool {
        !self.is_second_run || self.outdated.contains(key)
    }

    pub(super) fn name(&self) -> &'static str {
        if self.is_second_run { "mutating again" } else { "mutating" }
    }

    pub(super) fn record_invocation(&mut self, key: K) {
        self.invoked.insert(key);
    }

    pub(super) fn record_change(&mut self) {
        self.outdated.append(&mut self.invoked);
        self.needs_second_run = true;
    }
}

pub(in crate::registry) fn mutate(
    registry: &Registry,
    request: &mut AdmissionRequest<'_>,
    reinvocation: &mut Reinvocation,
) -> Outcome<()> {
    let policies = registry.policies.mutating(&registry.db);
    if policies.is_empty() || is_exempt(&request.target.kind) || request.operation == Operation::Delete {
        return Ok(());
    }
    reinvocation.begin_run(request.new.as_deref());
    let mut errors = MutationErrors::default();
    for invocation in Review::new(registry, request).invocations(&policies) {
        match invocation {
            Ok(invocation) => invoke(registry, request, &invocation, reinvocation, &mut errors)?,
            Err(Misconfigured { policy, binding, why }) => {
                let policy_name = &policy.name;
                errors.add(
                    policy,
                    None,
                    match binding {
                        Some(binding) => {
                            format!("policy '{policy_name}' with binding '{}' denied request: {why}", binding.name)
                        }
                        None => format!("policy {policy_name:?} denied request: {why}"),
                    },
                );
            }
        }
    }
    reinvocation.end_run(request.new.as_deref());
    errors.into_outcome(registry, request)
}

fn invoke(
    registry: &Registry,
    request: &mut AdmissionRequest<'_>,
    invocation: &Invocation<'_>,
    reinvocation: &mut Reinvocation,
    errors: &mut MutationErrors,
) -> Outcome<()> {
    let Invocation { policy, binding, param, kind } = invocation;
    let compiled = policy.compiled();
    let denial = |why: &str| format!("policy '{}' with binding '{}' denied request: {why}", policy.name, binding.name);
    let review = Review::new(registry, request);
    let mut variables = review.converted(kind);
    match compiled.is_matched(&variables.inputs(param.as_deref())) {
        Ok(true) => {}
        Ok(false) => return Ok(()),
        Err(why) => {
            errors.add(policy, Some("Invalid"), denial(&why));
            return Ok(());
        }
    }
    let key = invocation_key(invocation);
    if !reinvocation.invokes(&key) {
        return Ok(());
    }
    let original = variables.object.clone();
    let mut is_applied = false;
    for index in 0..compiled.mutations() {
        let Some(object) = &variables.object else { break };
        let schema = object_schema(kind, object)?;
        match compiled.mutate(index, &variables.inputs(param.as_deref()), &schema) {
            Ok(mut mutated) => {
                check_identity(object, &mutated, request.operation)?;
                set_defaults(kind, &mut mutated);
                variables.object = Some(mutated);
                is_applied = true;
            }
            Err(MutationError::Failed(why)) => errors.add(policy, Some("Invalid"), denial(&why)),
            Err(MutationError::Undecodable(why)) => return Err(Failure::internal(&why)),
        }
    }
    if original != variables.object {
        reinvocation.record_change();
    }
    if compiled.is_reinvocable() {
        reinvocation.record_invocation(key);
    }
    if is_applied {
        // As in kube-apiserver, a mutation without an effect also causes a second run.
        reinvocation.record_change();
        if let Some(object) = variables.object {
            set_object(request, kind, object);
        }
    }
    Ok(())
}

pub(super) fn set_object(request: &mut AdmissionRequest<'_>, kind: &Kind, object: Json) {
    let own = request.target.kind.clone();
    let Some(new) = request.new.as_deref_mut() else { return };
    *new = in_version(&object, kind, &own, request.by);
    // As in kube-apiserver, an empty list of managed fields is treated as absent.
    if new.at("/metadata/managedFields").is_some_and(|fields| fields.is_null() || fields.is_empty()) {
        metadata_mut(new).unset("managedFields");
    }
}

fn invocation_key(invocation: &Invocation<'_>) -> InvocationKey {
    let text = |object: &Json, path: &str| object.text(path).to_owned();
    let param = invocation.param.as_deref();
    let param = param.map(|param| (text(param, "/metadata/namespace"), text(param, "/metadata/name")));
    (invocation.policy.name.clone(), invocation.binding.name.clone(), param)
}

/// Returns the schema of a request's object, which can also be a Scale or the options of a connect request.
pub(super) fn object_schema(kind: &Kind, object: &Json) -> Outcome<Arc<Schema>> {
    let (version, name) = (object.text("/apiVersion"), object.text("/kind"));
    let schema = if name == kind.kind { kind.schema() } else { Schema::builtin(version, name).map(Arc::new) };
    schema.ok_or_else(|| {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let slashed = if group.is_empty() { format!("/{version}") } else { format!("{group}/{version}") };
        Failure::new(503, Reason::ServiceUnavailable, format!(
            "Resource kind {slashed}, Kind={name} not found. There can be a delay between when CustomResourceDefinitions are created \
             and when they are available."
        ))
    })
}

/// Returns an error if a mutation changed the object's type, or set a resourceVersion on a new object.
pub(super) fn check_identity(before: &Json, after: &Json, operation: Operation) -> Outcome<()> {
    let type_of = |object: &Json| (object.text("/apiVersion").to_owned(), object.text("/kind").to_owned());
    if type_of(before) != type_of(after) {
        let (version, kind) = type_of(after);
        // In kube-apiserver, the name of the scheme in this error is the source line that creates the scheme.
        let scheme = "pkg/runtime/scheme.go:111";
        let why = format!("no kind {kind:?} is registered for version {version:?} in scheme {scheme:?}");
        return Err(Failure::internal(why));
    }
    if operation == Operation::Create && !after.text("/metadata/resourceVersion").is_empty() {
        return Err(Failure::plain(500, "resourceVersion should not be set on objects to be created"));
    }
    Ok(())
}

pub(super) fn set_defaults(kind: &Kind, object: &mut Json) {
    if object.text("/kind") == kind.kind {
        kind.set_defaults(object);
    }
}

#[derive(Debug, Default)]
struct MutationErrors {
    messages: Vec<String>,
    /// The status reason of the first error in `messages`, or `None` for the reason `Forbidden`.
    reason: Option<&'static str>,
}

impl MutationErrors {
    fn add(&mut self, policy: &BoundPolicy, reason: Option<&'static str>, message: String) {
        if policy.compiled().fails() {
            if self.messages.is_empty() {
                self.reason = reason;
            }
            self.messages.push(message);
        }
    }

    fn into_outcome(self, registry: &Registry, request: &AdmissionRequest<'_>) -> Outcome<()> {
        if self.messages.is_empty() {
            return Ok(());
        }
        let name = Review::new(registry, request).name();
        Err(Failure::denied_by_mutation(&request.target.kind.resource(), &name, self.messages, self.reason))
    }
}
