//! Permission checks by an authorizer.

use std::fmt;
use std::sync::Arc;

/// Decides whether a user has a permission. Implement this trait to provide the variable `authorizer` to expressions.
pub trait Authorizer: Send + Sync {
    /// Decides whether the user may perform the requested action.
    fn authorize(&self, question: &Question) -> Decision;
}

/// A permission check that an expression sends to an [`Authorizer`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// The namespace and name of the service account to check. If `None`, the check is for the user of the request.
    pub service_account: Option<(String, String)>,
    /// The verb, such as `get`.
    pub verb: String,
    /// The URL path, if the expression checks access to a path instead of a resource. The fields about the resource are
    /// then empty.
    pub path: Option<String>,
    /// The API group.
    pub group: String,
    /// The resource, such as `pods`.
    pub resource: String,
    /// The subresource, such as `status`.
    pub subresource: String,
    /// The namespace, or an empty string for all namespaces or a cluster-scoped resource.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The field selector, as written in the expression.
    pub field_selector: String,
    /// The label selector, as written in the expression.
    pub label_selector: String,
}

/// The result of a permission check by an [`Authorizer`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the user may perform the requested action.
    pub allowed: bool,
    /// The reason for the decision.
    pub reason: String,
    /// The error message if the authorizer failed.
    pub error: Option<String>,
}

/// A permission check that an expression builds with method calls, such as `.group('apps').resource('deployments')`.
#[derive(Clone)]
pub struct Authorization {
    authorizer: Arc<dyn Authorizer>,
    step: Step,
    question: Question,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
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
    pub(crate) fn new(authorizer: Arc<dyn Authorizer>, step: Step, question: Question) -> Self {
        Self { authorizer, step, question }
    }

    pub(crate) fn step(&self) -> Step {
        self.step
    }

    /// Returns the total length of the question's texts, which each step copies.
    pub(crate) fn length(&self) -> usize {
        let Question { service_account, verb, path, group, resource, subresource, namespace, .. } = &self.question;
        let Question { name, field_selector, label_selector, .. } = &self.question;
        let account = service_account.as_ref().map_or(0, |(namespace, name)| namespace.len() + name.len());
        let texts = [verb, group, resource, subresource, namespace, name, field_selector, label_selector];
        account + path.as_ref().map_or(0, String::len) + texts.map(String::len).iter().sum::<usize>()
    }

    pub(crate) fn check(&self, verb: &str) -> Decision {
        self.authorizer.authorize(&Question { verb: verb.to_owned(), ..self.question.clone() })
    }

    pub(crate) fn type_name(&self) -> &'static str {
        match self.step {
            Step::Authorizer => "kubernetes.authorization.Authorizer",
            Step::Path => "kubernetes.authorization.PathCheck",
            Step::Group => "kubernetes.authorization.GroupCheck",
            Step::Resource => "kubernetes.authorization.ResourceCheck",
        }
    }

    /// Returns a copy of the check with the step `step`, and with a question that `change` has modified.
    pub(crate) fn with(&self, step: Step, change: impl FnOnce(&mut Question)) -> Self {
        let mut next = Self { step, ..self.clone() };
        change(&mut next.question);
        next
    }
}
