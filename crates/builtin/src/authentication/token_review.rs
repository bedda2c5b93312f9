//! The `TokenReview` kind, which authenticates a token.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::request::user::User;
use pintle_json::{Json, json};
use pintle_kinds::post_handler::{PostHandler, Question, Task};
use pintle_kinds::{RequestTarget, Strategy};

use super::user_info;

pub(crate) struct TokenReview;

impl Strategy for TokenReview {
    fn post_handler(&self, subresource: Subresource) -> Option<&dyn PostHandler> {
        (subresource == Subresource::None).then_some(self)
    }
}

impl PostHandler for TokenReview {
    fn check(&self, _: &Context<'_>, _: &RequestTarget, sent: &Json) -> Outcome<()> {
        if sent.text("/spec/token").is_empty() {
            return Err(Failure::bad_request("token is required for TokenReview in authentication"));
        }
        Ok(())
    }

    fn task(&self, _: &Context<'_>, _: &RequestTarget, sent: &Json, _: bool) -> Outcome<Task> {
        let token = sent.text("/spec/token").to_owned();
        let audiences = sent.texts("/spec/audiences").map(str::to_owned).collect();
        Ok(Task::Ask(Box::new(Question::Token { token, audiences }), sent.clone()))
    }

    fn is_read_only(&self) -> bool {
        true
    }
}

/// Returns the status of a TokenReview: the user and audiences of the token, or an error.
pub fn status(found: Result<(User, Vec<String>), String>) -> Json {
    match found {
        Ok((user, audiences)) => json!({"authenticated": true, "user": user_info(&user), "audiences": audiences}),
        Err(why) => json!({"user": {}, "error": why}),
    }
}
