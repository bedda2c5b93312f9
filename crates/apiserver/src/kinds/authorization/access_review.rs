//! SubjectAccessReview, and its forms for a namespace and for who asks: whether somebody may do something.

use pintle_json::{Json, json};

use crate::failure::{Failure, Outcome};
use crate::kinds::posting::{Posting, Question, Task};
use crate::kinds::{Context, Place, Strategy};
use crate::object::set_metadata;
use crate::request::Part;
use crate::request::path::ResourcePath;
use crate::request::user::User;
use crate::validate::{FieldFault, FieldFaults};

/// `authorization.k8s.io/v1` SubjectAccessReview, LocalSubjectAccessReview or SelfSubjectAccessReview.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct AccessReview {
    /// It is about who asks.
    pub(in crate::kinds) of_oneself: bool,
}

impl Strategy for AccessReview {
    fn posting(&self, part: Part) -> Option<&dyn Posting> {
        (part == Part::Object).then_some(self)
    }
}

impl Posting for AccessReview {
    fn task(&self, context: &Context<'_>, place: &Place, sent: &Json, _: bool) -> Outcome<Task> {
        let mut review = sent.clone();
        if place.kind.namespaced() {
            set_metadata(&mut review, "namespace", place.namespace.as_str());
        } else if ["name", "namespace", "generateName"]
            .into_iter()
            .any(|field| !sent["metadata"][field].text("").is_empty())
        {
            return Err(invalid(FieldFault::invalid("metadata", &sent["metadata"], "must be empty")));
        }
        let (resource, path) = (&sent["spec"]["resourceAttributes"], &sent["spec"]["nonResourceAttributes"]);
        match (resource.is_null(), path.is_null()) {
            (true, true) => {
                let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
                return Err(invalid(FieldFault::invalid("spec.resourceAttributes", &Json::Null, why)));
            }
            (false, false) => {
                let why = "cannot be specified in combination with resourceAttributes";
                return Err(invalid(FieldFault::invalid("spec.nonResourceAttributes", path, why)));
            }
            _ => (),
        }
        let who = if self.of_oneself { context.user.clone() } else { subject(sent)? };
        let of = |value: &Json, field: &str| value[field].text("").to_owned();
        let namespace = of(resource, "namespace");
        if place.kind.namespaced() && namespace != place.namespace {
            let why = "must match metadata.namespace";
            return Err(invalid(FieldFault::invalid_text("spec.resourceAttributes.namespace", &namespace, why)));
        }
        let question = match resource.is_null() {
            true => Question::Path { who, verb: of(path, "verb"), path: of(path, "path") },
            false => {
                let path = ResourcePath {
                    group: of(resource, "group"),
                    version: of(resource, "version"),
                    namespace,
                    resource: of(resource, "resource"),
                    name: of(resource, "name"),
                    subresource: of(resource, "subresource"),
                    ..ResourcePath::default()
                };
                Question::Resource { who, verb: of(resource, "verb"), path }
            }
        };
        Ok(Task::Ask(Box::new(question), review))
    }

    fn is_question(&self) -> bool {
        true
    }
}

/// Whom a review asks about.
fn subject(review: &Json) -> Outcome<User> {
    let user = User {
        name: review.text("/spec/user").into(),
        uid: review.text("/spec/uid").into(),
        groups: review.texts("/spec/groups").map(str::to_owned).collect(),
        ..User::default()
    };
    if user.name.is_empty() && user.groups.is_empty() {
        let why = "at least one of user or group must be specified";
        return Err(invalid(FieldFault::invalid_text("spec.user", "", why)));
    }
    Ok(user)
}

/// What is answered.
pub(crate) fn status(is_allowed: bool, reason: &str) -> Json {
    let mut status = json!({"allowed": is_allowed});
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    status
}

fn invalid(fault: FieldFault) -> Failure {
    Failure::invalid_named("authorization.k8s.io", "", "", FieldFaults::from([fault]))
}
