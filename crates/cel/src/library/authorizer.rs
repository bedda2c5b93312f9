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

    /// Returns the value for the variable `authorizer.requestResource`: a permission check for the
    /// resource of the current request. The expression adds the verb to the check.
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
        "group" => |_, args| step(args, Step::Authorizer, Step::Group, |question, group| question.group = group),
        "serviceAccount" => service_account,
        "resource" => resource,
        "subresource" => {
            |_, args| step(args, Step::Resource, Step::Resource, |question, part| question.subresource = part)
        }
        "namespace" => |_, args| step(args, Step::Resource, Step::Resource, |question, part| question.namespace = part),
        "name" => |_, args| step(args, Step::Resource, Step::Resource, |question, part| question.name = part),
        "fieldSelector" => {
            |_, args| step(args, Step::Resource, Step::Resource, |question, part| question.field_selector = part)
        }
        "labelSelector" => {
            |_, args| step(args, Step::Resource, Step::Resource, |question, part| question.label_selector = part)
        }
        "check" => check,
        "errored" => |_, args| decision(args, |decision| Value::Bool(decision.error.is_some())),
        "error" => |_, args| decision(args, |decision| decision.error.clone().unwrap_or_default().into()),
        "allowed" => |_, args| decision(args, |decision| Value::Bool(decision.allowed)),
        "reason" => |_, args| decision(args, |decision| decision.reason.clone().into()),
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

fn step<'a>(args: &[Value<'a>], from: Step, to: Step, change: impl FnOnce(&mut Question, String)) -> Returned<'a> {
    let (question, [Value::String(text)]) = at(args, from)? else { return None };
    Some(Ok(authorization(question.with(to, |question| change(question, text.to_string())))))
}

fn path<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (question, [Value::String(path)]) = at(args, Step::Authorizer)? else { return None };
    if path.trim().is_empty() {
        return Some(Err(Failure::new("path must not be empty")));
    }
    Some(Ok(authorization(question.with(Step::Path, |question| question.path = Some(path.to_string())))))
}

fn resource<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (question, [Value::String(resource)]) = at(args, Step::Group)? else { return None };
    if resource.trim().is_empty() {
        return Some(Err(Failure::new("resource must not be empty")));
    }
    Some(Ok(authorization(question.with(Step::Resource, |question| question.resource = resource.to_string()))))
}

fn service_account<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (question, [Value::String(namespace), Value::String(name)]) = at(args, Step::Authorizer)? else { return None };
    if !named_format::is_subdomain_name(name) {
        return Some(Err(Failure::new("Invalid service account name")));
    }
    if !named_format::is_label_name(namespace) {
        return Some(Err(Failure::new("Invalid service account namespace")));
    }
    let account = (namespace.to_string(), name.to_string());
    Some(Ok(authorization(question.with(Step::Authorizer, |question| question.service_account = Some(account)))))
}

fn check<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [Value::Opaque(Opaque::Authorization(question)), Value::String(verb)] = args else { return None };
    if !matches!(question.step(), Step::Path | Step::Resource) {
        return None;
    }
    Some(Ok(Value::Opaque(Opaque::Decision(Arc::new(question.check(verb))))))
}

fn decision<'a>(args: &[Value<'a>], part: impl FnOnce(&Decision) -> Value<'a>) -> Returned<'a> {
    match args {
        [Value::Opaque(Opaque::Decision(decision))] => Some(Ok(part(decision))),
        _ => None,
    }
}
