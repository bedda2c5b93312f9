//! The policy for requests that a webhook cannot evaluate.

/// Determines how the API server reacts if it cannot call the webhook or receives no valid response.
///
/// The policy also applies to the deletion of an object that cannot be decoded as the handler's Rust type, because the
/// handler cannot check this deletion. An update can repair an object that cannot be decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The API server rejects the request.
    #[default]
    Fail,
    /// The API server continues as if the webhook had allowed the request.
    Ignore,
}
