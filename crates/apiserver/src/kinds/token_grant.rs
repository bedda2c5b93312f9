//! A token that is to be made, and what it is bound to.

use pintle_json::Json;
use serde::{Deserialize, Serialize};

/// A token that is to be made.
#[derive(Debug)]
pub(crate) struct TokenGrant {
    /// For whom it is; for the server itself, if empty.
    pub(crate) audiences: Vec<String>,
    /// How long it lasts.
    pub(crate) seconds: i64,
    pub(crate) bound: Bound,
    /// What is answered, but for the token, its end, and for whom it is.
    pub(crate) answer: Json,
}

/// The objects that a token is bound to: it dies with each of them.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Bound {
    pub(crate) namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<Named>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<Named>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Named>,
    pub(crate) serviceaccount: Named,
}

/// An object, and no other of its name.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Named {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) uid: String,
}
