//! The kinds in `authentication.k8s.io`: reviews of tokens and users.

mod self_subject_review;
mod token_review;

use pintle_json::{Json, json};

use pintle_apimachinery::request::user::User;
pub(super) use self_subject_review::SelfSubjectReview;
pub(super) use token_review::TokenReview;
pub use token_review::status as token_status;

fn user_info(user: &User) -> Json {
    let mut info = json!({"username": user.name, "groups": *user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
