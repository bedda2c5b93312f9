//! Accepted token requests ([`TokenGrant`]), and the bound objects of their tokens.

use pintle_json::Json;
use serde::{Deserialize, Serialize};

/// The URL of this server, which is the issuer and the default audience of its tokens.
pub const ISSUER: &str = "https://kubernetes.default.svc";

/// A token request that has passed all checks, so that the server can issue the token.
#[derive(Debug)]
pub struct TokenGrant {
    /// The token's audiences.
    pub audiences: Vec<String>,
    /// The lifetime of the token in seconds.
    pub seconds: i64,
    pub bound: Bound,
    /// The response object. The server adds the token and its expiration time to this object.
    pub answer: Json,
}

/// The objects that a token is bound to. Deleting one of these objects makes the token invalid.
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

/// The name and uid of an object.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Named {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}
