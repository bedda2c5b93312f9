//! The kinds in `authorization.k8s.io`: reviews of permissions.

mod access_review;
mod rules_review;

pub(super) use access_review::AccessReview;
pub use access_review::status as access_status;
pub(super) use rules_review::SelfSubjectRulesReview;
pub use rules_review::status as rules_status;
