//! The `SelfSubjectReview` kind, which returns the requesting user.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::request::Subresource;
use pintle_json::{Json, json};
use pintle_kinds::post_handler::{PostHandler, Task};
use pintle_kinds::{RequestTarget, Strategy};

use super::user_info;

pub(crate) struct SelfSubjectReview;

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

    fn is_read_only(&self) -> bool {
        true
    }
}
