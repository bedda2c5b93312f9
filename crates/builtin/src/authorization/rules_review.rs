//! The `SelfSubjectRulesReview` kind, which lists the permissions of the user in a namespace.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::Subresource;
use pintle_json::{Json, json};
use pintle_kinds::post_handler::{PostHandler, Question, Task};
use pintle_kinds::{RequestTarget, Strategy};

pub(crate) struct SelfSubjectRulesReview;

impl Strategy for SelfSubjectRulesReview {
    fn post_handler(&self, subresource: Subresource) -> Option<&dyn PostHandler> {
        (subresource == Subresource::None).then_some(self)
    }
}

impl PostHandler for SelfSubjectRulesReview {
    fn check(&self, _: &Context<'_>, _: &RequestTarget, sent: &Json) -> Outcome<()> {
        if sent.text("/spec/namespace").is_empty() {
            return Err(Failure::bad_request("no namespace on request"));
        }
        Ok(())
    }

    fn task(&self, _: &Context<'_>, _: &RequestTarget, sent: &Json, _: bool) -> Outcome<Task> {
        let namespace = sent.text("/spec/namespace").to_owned();
        Ok(Task::Ask(Box::new(Question::Rules { namespace }), json!({"metadata": {}, "spec": {}})))
    }

    fn is_read_only(&self) -> bool {
        true
    }
}

/// Returns the status of a SelfSubjectRulesReview: the rules for the user, and errors about
/// unreadable rules.
pub fn status<'a>(rules: impl Iterator<Item = &'a Json>, wrong: Option<String>) -> Json {
    let (paths, resources): (Vec<_>, Vec<_>) = rules.cloned().partition(|rule| rule.has("/nonResourceURLs"));
    let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": wrong.is_some()});
    if let Some(wrong) = wrong {
        status["evaluationError"] = wrong.into();
    }
    status
}
