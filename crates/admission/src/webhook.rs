//! Writes reviews for admission and conversion webhooks, and checks the responses.
//!
//! The functions have no side effects: `pintle-apiserver` sends the reviews. Error messages are the same as in
//! kube-apiserver.

mod admission_review;
mod conversion_review;
mod review_body;
mod review_version;

pub use admission_review::{AdmissionVerdict, admission_review, read_admission_response, with_type_of};
pub use conversion_review::{conversion_review, read_conversion_response};
pub use review_body::with_uid;
pub use review_version::ReviewVersion;
