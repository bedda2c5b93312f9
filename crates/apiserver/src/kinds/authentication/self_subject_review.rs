//! The kind SelfSubjectReview. A SelfSubjectReview returns the user that sent the request.

use pintle_json::{Json, json};

use super::user_info;
use crate::failure::Outcome;
use crate::kinds::post_handler::{PostHandler, Task};
use crate::kinds::{Context, RequestTarget, Strategy};
use crate::request::Subresource;

/// The strategy of SelfSubjectReview in `authentication.k8s.io/v1`.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct SelfSubjectReview;

impl Strategy for SelfSubjectReview {
    fn post_handler(&self, subresource: Subresource) -> Option<&dyn PostHandler> {
        (subresource == Subresource::None).then_some(self)
    }
}

impl PostHandler for SelfSubjectReview {
    fn task(&self, context: &Context<'_>, _: &RequestTarget, _: &Json, _: bool) -> Outcome<Task> {
        let metadata = json!({"creationTimestamp": context.time()});
        Ok(Task::Answer(json!({"metadata": metadata, "status": {"userInfo": user_info(context.user)}})))
    }

    fn is_question(&self) -> bool {
        true
    }
}
