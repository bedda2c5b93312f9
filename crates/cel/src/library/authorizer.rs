//! Functions that check permissions.

use std::sync::Arc;

use super::{Function, Returned};
use crate::error::Failure;
use crate::meter::Meter;
use crate::opaque::authorizer::{Authorization, Authorizer, Decision, Question, Step};
use crate::opaque::{Opaque, named_format};
use crate::value::Value;

impl<'a> Value<'a> {
    /// Returns the value for the variable `authorizer`.
    pub fn authorizer(authorizer: Arc<dyn Authorizer>) -> Self {
        authorization(Authorization::new(authorizer, Step::Authorizer, Question::default()))
    }

    /// Returns the value for the variable `authorizer.requestResource`, which is a permission check for the resource of
    /// the current request. Expressions add the verb to this check.
    pub fn resource_authorizer(authorizer: Arc<dyn Authorizer>, question: Question) -> Self {
        authorization(Authorization::new(authorizer, Step::Resource, question))
    }
}

fn authorization<'a>(question: Authorization) -> Value<'a> {
    Value::Opaque(Opaque::Authorization(Arc::new(question)))
}

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "path" => path,
        "group" => {
            |meter, args| step(meter, args, Step::Authorizer, Step::Group, |question, group| question.group = group)
        }
        "serviceAccount" => service_account,
        "resource" => resource,
        "subresource" => |meter, args| {
            step(meter, args, Step::Resource, Step::Resource, |question, part| question.subresource = part)
        },
        "namespace" => {
            |meter, args| step(meter, args, Step::Resource, Step::Resource, |question, part| question.namespace = part)
        }
        "name" => {
            |meter, args| step(meter, args, Step::Resource, Step::Resource, |question, part| question.name = part)
        }
        "fieldSelector" => |meter, args| {
            step(meter, args, Step::Resource, Step::Resource, |question, part| question.field_selector = part)
        },
        "labelSelector" => |meter, args| {
            step(meter, args, Step::Resource, Step::Resource, |question, part| question.label_selector = part)
        },
        "check" => check,
        "errored" => |meter, args| decision(meter, args, |decision| Value::Bool(decision.error.is_some())),
        "error" => |meter, args| decision(meter, args, |decision| decision.error.clone().unwrap_or_default().into()),
        "allowed" => |meter, args| decision(meter, args, |decision| Value::Bool(decision.allowed)),
        "reason" => |meter, args| decision(meter, args, |decision| decision.reason.clone().into()),
        _ => return None,
    })
}

fn at<'v, 'a>(args: &'v [Value<'a>], step: Step) -> Option<(&'v Authorization, &'v [Value<'a>])> {
    match args {
        [Value::Opaque(Opaque::Authorization(question)), rest @ ..] if question.step() == step => {
            Some((question, rest))
        }
        _ => None,
    }
}

fn step<'a>(
    meter: &mut Meter,
    args: &[Value<'a>],
    from: Step,
    to: Step,
    change: impl FnOnce(&mut Question, String),
) -> Returned<'a> {
    let (question, [Value::String(text)]) = at(args, from)? else { return None };
    changed(meter, question, to, |question| change(question, text.to_string()))
}

/// Copies a question and changes the copy. Counts the work of copying.
fn changed<'a>(
    meter: &mut Meter,
    question: &Authorization,
    step: Step,
    change: impl FnOnce(&mut Question),
) -> Returned<'a> {
    Some(meter.text(question.length()).map(|()| authorization(question.with(step, change))))
}

fn path<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (question, [Value::String(path)]) = at(args, Step::Authorizer)? else { return None };
    if path.trim().is_empty() {
        return Some(Err(Failure::new("path must not be empty")));
    }
    changed(meter, question, Step::Path, |question| question.path = Some(path.to_string()))
}

fn resource<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (question, [Value::String(resource)]) = at(args, Step::Group)? else { return None };
    if resource.trim().is_empty() {
        return Some(Err(Failure::new("resource must not be empty")));
    }
    changed(meter, question, Step::Resource, |question| question.resource = resource.to_string())
}

fn service_account<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (question, [Value::String(namespace), Value::String(name)]) = at(args, Step::Authorizer)? else { return None };
    if !named_format::is_subdomain_name(name) {
        return Some(Err(Failure::new("Invalid service account name")));
    }
    if !named_format::is_label_name(namespace) {
        return Some(Err(Failure::new("Invalid service account namespace")));
    }
    let account = (namespace.to_string(), name.to_string());
    changed(meter, question, Step::Authorizer, |question| question.service_account = Some(account))
}

fn check<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [Value::Opaque(Opaque::Authorization(question)), Value::String(verb)] = args else { return None };
    if !matches!(question.step(), Step::Path | Step::Resource) {
        return None;
    }
    let counted = meter.text(question.length());
    Some(counted.map(|()| Value::Opaque(Opaque::Decision(Arc::new(question.check(verb))))))
}

fn decision<'a>(meter: &mut Meter, args: &[Value<'a>], part: impl FnOnce(&Decision) -> Value<'a>) -> Returned<'a> {
    match args {
        [Value::Opaque(Opaque::Decision(decision))] => {
            let part = part(decision);
            // Count the work for the authorizer's texts, which can contain long texts of the question.
            Some(meter.work(part.weight()).map(|()| part))
        }
        _ => None,
    }
}
