//! Defines the type [`TokenGrant`], which represents an accepted token request. This module also defines the types for the objects to which
//! a token is bound.

use pintle_json::Json;
use serde::{Deserialize, Serialize};

/// A token request that has passed all checks, so the server must issue the token.
#[derive(Debug)]
pub struct TokenGrant {
    /// The audiences of the token. An empty list of audiences means the audience of the server itself.
    pub audiences: Vec<String>,
    /// The lifetime in seconds.
    pub seconds: i64,
    pub bound: Bound,
    /// The object that is sent as the response. The server adds the token, its expiration time and its audiences to this object.
    pub answer: Json,
}

/// The objects to which a token is bound. If one of these objects is deleted, the token becomes
/// invalid.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Bound {
    pub namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Named>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Named>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Named>,
    pub serviceaccount: Named,
}

/// A reference to an object by its name and its uid.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Named {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}
