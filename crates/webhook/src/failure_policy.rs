//! Determines what happens to requests that a webhook cannot check.

/// How the API server reacts if it cannot call the webhook or receives no valid response.
///
/// The policy also applies to the deletion of an object that does not decode as the handler's Rust type, because the
/// handler cannot check the deletion. An update can repair the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The API server rejects the request.
    #[default]
    Fail,
    /// The API server continues as if the webhook had allowed the request.
    Ignore,
}
