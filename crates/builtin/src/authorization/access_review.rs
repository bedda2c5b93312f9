//! The `SubjectAccessReview`, `LocalSubjectAccessReview` and `SelfSubjectAccessReview` kinds, which return whether a
//! user may perform an action.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::path::ResourcePath;
use pintle_apimachinery::request::user::User;
use pintle_apimachinery::validate::{FieldError, FieldErrors, label_key_faults, label_value_faults};
use pintle_json::{Json, json};
use pintle_kinds::check::Check;
use pintle_kinds::post_handler::{PostHandler, Question, Task};
use pintle_kinds::{RequestTarget, Strategy};

#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessReview {
    pub(crate) is_self: bool,
}

impl Strategy for AccessReview {
    fn post_handler(&self, subresource: Subresource) -> Option<&dyn PostHandler> {
        (subresource == Subresource::None).then_some(self)
    }
}

impl PostHandler for AccessReview {
    fn defaults(&self, sent: &mut Json) {
        if let Some(metadata) = sent.get_mut("metadata") {
            SERVER_SET.iter().for_each(|field| metadata.unset(field));
        }
    }

    fn check(&self, _: &Context<'_>, target: &RequestTarget, sent: &Json) -> Outcome<()> {
        let errors = self.errors(sent, target.kind.is_namespaced());
        if !errors.is_empty() {
            return Err(Failure::invalid_named("authorization.k8s.io", "", "", errors));
        }
        // A mutating webhook can change the namespace of the review.
        if target.kind.is_namespaced() && metadata::namespace(sent) != target.namespace {
            let why = format!("spec.resourceAttributes.namespace must match namespace: {}", target.namespace);
            return Err(Failure::bad_request(why));
        }
        Ok(())
    }

    fn task(&self, context: &Context<'_>, _: &RequestTarget, sent: &Json, _: bool) -> Outcome<Task> {
        let (resource, path) = (&sent["spec"]["resourceAttributes"], &sent["spec"]["nonResourceAttributes"]);
        let user = if self.is_self { context.user.clone() } else { subject(sent) };
        let text_of = |value: &Json, field: &str| value[field].text("").to_owned();
        let namespace = text_of(resource, "namespace");
        let question = if resource.is_null() {
            Question::Path { user, verb: text_of(path, "verb"), path: text_of(path, "path") }
        } else {
            let path = ResourcePath {
                group: text_of(resource, "group"),
                version: text_of(resource, "version"),
                namespace,
                resource: text_of(resource, "resource"),
                name: text_of(resource, "name"),
                subresource: text_of(resource, "subresource"),
                ..ResourcePath::default()
            };
            Question::Resource { user, verb: text_of(resource, "verb"), path }
        };
        Ok(Task::Ask(Box::new(question), sent.clone()))
    }

    fn is_read_only(&self) -> bool {
        true
    }
}

/// Metadata fields that only the server sets, so they are removed from reviews.
const SERVER_SET: &[&str] =
    &["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

impl AccessReview {
    fn errors(self, review: &Json, local: bool) -> FieldErrors {
        let (resource, path) = (&review["spec"]["resourceAttributes"], &review["spec"]["nonResourceAttributes"]);
        let no_subject = review.text("/spec/user").is_empty() && review.list("/spec/groups").next().is_none();
        let allowed = |key: &str| key == "managedFields" || (local && key == "namespace");
        let described = review.members("/metadata").any(|(key, value)| !allowed(key) && !value.is_empty());
        let namespace = resource.text("/namespace");
        Check::of(review)
            .refuse(!resource.is_null() && !path.is_null(), || {
                let why = "cannot be specified in combination with resourceAttributes";
                FieldError::invalid("spec.nonResourceAttributes", path, why)
            })
            .refuse(resource.is_null() && path.is_null(), || {
                let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
                FieldError::invalid("spec.resourceAttributes", &Json::Null, why)
            })
            .refuse(!self.is_self && no_subject, || {
                FieldError::invalid_text("spec.user", "", "at least one of user or group must be specified")
            })
            .inside("spec.resourceAttributes.fieldSelector", |selector| {
                selector_errors(selector).each("requirements", |requirement, _| {
                    value_count_errors(requirement.required_because("key", "must be specified"))
                })
            })
            .inside("spec.resourceAttributes.labelSelector", |selector| {
                selector_errors(selector).each("requirements", |requirement, _| label_requirement_errors(requirement))
            })
            .refuse(described, || {
                let why = if local { "must be empty except for namespace" } else { "must be empty" };
                FieldError::invalid("metadata", &review["metadata"], why)
            })
            .refuse(local && !resource.is_null() && namespace != metadata::namespace(review), || {
                let field = "spec.resourceAttributes.namespace";
                FieldError::invalid_text(field, namespace, "must match metadata.namespace")
            })
            .refuse(local && !path.is_null(), || {
                FieldError::invalid("spec.nonResourceAttributes", path, "disallowed on this kind of request")
            })
            .done()
    }
}

/// Validates a field or label selector, which must contain either a raw selector or requirements.
fn selector_errors(selector: Check<'_>) -> Check<'_> {
    let raw = selector.object().text("/rawSelector");
    let some = selector.object().list("/requirements").next().is_some();
    let path = selector.path("").trim_end_matches('.').to_owned();
    selector
        .refuse(!raw.is_empty() && some, || {
            FieldError::invalid_text("rawSelector", raw, "may not specified at the same time as requirements")
        })
        .refuse(raw.is_empty() && !some, || {
            let why = format!("when {path} is specified, requirements or rawSelector is required");
            FieldError::required("requirements", &why)
        })
}

/// Validates the number of values in a requirement. Accepts unknown operators.
fn value_count_errors(requirement: Check<'_>) -> Check<'_> {
    let count = requirement.object()["values"].as_array().map_or(0, Vec::len);
    let operator = requirement.object().text("/operator");
    let (one_of, exists) = (["In", "NotIn"].contains(&operator), ["Exists", "DoesNotExist"].contains(&operator));
    let forbidden = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
    requirement
        .required_if(one_of && count == 0, "values", "must be specified when `operator` is 'In' or 'NotIn'")
        .forbidden_if(exists && count > 0, "values", forbidden)
}

fn label_requirement_errors(requirement: Check<'_>) -> Check<'_> {
    let path = requirement.path("values");
    let values = requirement.object()["values"].as_array().into_iter().flatten();
    let values = values.map(|value| value.as_str().unwrap_or_default()).enumerate();
    let wrong: Vec<_> = values
        .flat_map(|(at, value)| {
            let field = format!("{path}[{at}]");
            let why = label_value_faults(value).into_iter();
            why.map(move |why| FieldError::invalid_text(field.as_str(), value, why))
        })
        .collect();
    let key = requirement.object().text("/key");
    let requirement = value_count_errors(requirement);
    let why = label_key_faults(key);
    let requirement = why.iter().fold(requirement, |check, why| check.invalid_text_if(true, "key", key, why));
    requirement.also(wrong)
}

fn subject(review: &Json) -> User {
    User {
        name: review.text("/spec/user").into(),
        uid: review.text("/spec/uid").into(),
        groups: review.texts("/spec/groups").map(str::to_owned).collect(),
        ..User::default()
    }
}

/// Returns the status of an access review.
pub fn status(is_allowed: bool, reason: &str) -> Json {
    let mut status = json!({"allowed": is_allowed});
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    status
}
