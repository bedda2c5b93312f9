//! Permission checks by an authorizer.

use std::fmt;
use std::sync::Arc;

use super::named_format;
use super::{Function, Returned};
use crate::error::Failure;
use crate::meter::Meter;
use crate::value::{Opaque, Value};

/// Decides whether a user has a permission. A server implements this trait to provide the variable `authorizer` to
/// expressions.
pub trait Authorizer: Send + Sync {
    /// Decides whether the user may perform the requested action.
    fn authorize(&self, question: &Question) -> Decision;
}

/// A permission check that an expression requests from an [`Authorizer`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// The namespace and the name of the service account whose permissions are checked. `None` means the user who sent
    /// the request.
    pub service_account: Option<(String, String)>,
    /// The verb.
    pub verb: String,
    /// The URL path, if the expression asks for access to a path instead of a resource. If a path is set, all fields
    /// for resources are empty.
    pub path: Option<String>,
    /// The API group.
    pub group: String,
    /// The resource.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The field selector as written in the expression.
    pub field_selector: String,
    /// The label selector as written in the expression.
    pub label_selector: String,
}

/// The answer of an [`Authorizer`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the user may perform the requested action.
    pub allowed: bool,
    /// The reason.
    pub reason: String,
    /// The error message, if the authorizer failed.
    pub error: Option<String>,
}

/// A permission check that an expression builds step by step, for example with
/// `.group('apps').resource('deployments')`.
#[derive(Clone)]
pub struct Authorization {
    authorizer: Arc<dyn Authorizer>,
    step: Step,
    question: Question,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Authorizer,
    Path,
    Group,
    Resource,
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization").field("step", &self.step).field("question", &self.question).finish()
    }
}

impl Authorization {
    pub(crate) fn type_name(&self) -> &'static str {
        match self.step {
            Step::Authorizer => "kubernetes.authorization.Authorizer",
            Step::Path => "kubernetes.authorization.PathCheck",
            Step::Group => "kubernetes.authorization.GroupCheck",
            Step::Resource => "kubernetes.authorization.ResourceCheck",
        }
    }

    fn with<'a>(&self, step: Step, change: impl FnOnce(&mut Question)) -> Value<'a> {
        let mut next = Self { step, ..self.clone() };
        change(&mut next.question);
        Value::Opaque(Opaque::Authorization(Arc::new(next)))
    }
}

impl<'a> Value<'a> {
    /// Returns the value for the variable `authorizer`.
    pub fn authorizer(authorizer: Arc<dyn Authorizer>) -> Self {
        let question = Question::default();
        Self::Opaque(Opaque::Authorization(Arc::new(Authorization { authorizer, step: Step::Authorizer, question })))
    }

    /// Returns the value for the variable `authorizer.requestResource`. The value is a permission check for the
    /// resource of the current request. The expression adds the verb.
    pub fn resource_authorizer(authorizer: Arc<dyn Authorizer>, question: Question) -> Self {
        Self::Opaque(Opaque::Authorization(Arc::new(Authorization { authorizer, step: Step::Resource, question })))
    }
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
        [Value::Opaque(Opaque::Authorization(question)), rest @ ..] if question.step == step => Some((question, rest)),
        _ => None,
    }
}

fn step<'a>(args: &[Value<'a>], from: Step, to: Step, change: impl FnOnce(&mut Question, String)) -> Returned<'a> {
    let (question, [Value::String(text)]) = at(args, from)? else { return None };
    Some(Ok(question.with(to, |question| change(question, text.to_string()))))
}

fn path<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (question, [Value::String(path)]) = at(args, Step::Authorizer)? else { return None };
    if path.trim().is_empty() {
        return Some(Err(Failure::new("path must not be empty")));
    }
    Some(Ok(question.with(Step::Path, |question| question.path = Some(path.to_string()))))
}

fn resource<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let (question, [Value::String(resource)]) = at(args, Step::Group)? else { return None };
    if resource.trim().is_empty() {
        return Some(Err(Failure::new("resource must not be empty")));
    }
    Some(Ok(question.with(Step::Resource, |question| question.resource = resource.to_string())))
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
    Some(Ok(question.with(Step::Authorizer, |question| question.service_account = Some(account))))
}

fn check<'a>(_: &mut Meter, args: &[Value<'a>]) -> Returned<'a> {
    let [Value::Opaque(Opaque::Authorization(question)), Value::String(verb)] = args else { return None };
    if !matches!(question.step, Step::Path | Step::Resource) {
        return None;
    }
    let asked = Question { verb: verb.to_string(), ..question.question.clone() };
    Some(Ok(Value::Opaque(Opaque::Decision(Arc::new(question.authorizer.authorize(&asked))))))
}

fn decision<'a>(args: &[Value<'a>], part: impl FnOnce(&Decision) -> Value<'a>) -> Returned<'a> {
    match args {
        [Value::Opaque(Opaque::Decision(decision))] => Some(Ok(part(decision))),
        _ => None,
    }
}
