//! Creates ServiceAccount tokens.

use std::time::Duration;

use http::Method;
use pintle_meta::{ApiError, InvalidKey, ObjectKey, Secret, Time};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Api;

/// Options for [`Api::create_token`]. By default, the token is for the API server and has the default lifetime of the
/// server.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use pintle_restreq::TokenRequest;
///
/// let vault = TokenRequest {
///     audiences: vec!["vault".into()],
///     lifetime: Some(Duration::from_secs(600)),
///     ..TokenRequest::default()
/// };
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRequest {
    /// The services that accept the token. If the list is empty, the token is for the API server.
    pub audiences: Vec<String>,
    /// The requested lifetime of the token, or `None` for one hour. Fractions of a second are ignored. The server
    /// requires at least 10 minutes, and may issue a token with a shorter lifetime than requested.
    pub lifetime: Option<Duration>,
    /// The object that the token is bound to. The token becomes invalid when this object is deleted.
    pub bound_object: Option<BoundObjectReference>,
}

/// The object that a token is bound to: a Pod, a Secret or a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BoundObjectReference {
    /// The API version of the object, which is `v1`.
    pub api_version: String,
    /// The kind of the object: `Pod`, `Secret` or `Node`.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// The object's UID. If the UID is empty, the token remains valid as long as an object with this name exists.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// A ServiceAccount token. The `Debug` output does not contain the token.
#[derive(Clone, Debug)]
pub struct ServiceAccountToken {
    /// The token, for the `Authorization` header of requests.
    pub token: Secret,
    /// The time at which the token expires. Request a new token earlier, for example after 80 % of the lifetime.
    pub expires: Time,
}

impl<T> Api<T> {
    /// Creates a token for a ServiceAccount.
    ///
    /// # Errors
    ///
    /// Returns one of these errors:
    ///
    /// - `NotFound` if the ServiceAccount does not exist.
    /// - `Invalid` if the requested lifetime is below 10 minutes.
    /// - An error if this `Api` is not for serviceaccounts.
    /// - Another error if the request fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use pintle_meta::{ApiError, ClientConfig, DynamicObject};
    /// use pintle_restreq::{Api, TokenRequest};
    ///
    /// async fn impersonated(accounts: &Api<DynamicObject>, server: &str) -> Result<ClientConfig, ApiError> {
    ///     let created = accounts.create_token("builder", &TokenRequest::default()).await?;
    ///     let mut config = ClientConfig::new(server);
    ///     config.token = Some(created.token);
    ///     Ok(config)
    /// }
    /// ```
    pub async fn create_token(
        &self,
        key: impl TryInto<ObjectKey, Error: Into<InvalidKey>>,
        token: &TokenRequest,
    ) -> Result<ServiceAccountToken, ApiError> {
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": token.audiences,
                "expirationSeconds": token.lifetime.map(|lifetime| lifetime.as_secs()),
                "boundObjectRef": token.bound_object,
            },
        });
        let request = self.on_object_of("", &["serviceaccounts"], self.client.verb(Method::POST), key);
        let Created { status } = request.subresource(["token"]).json(&body).object().await?;
        Ok(ServiceAccountToken { token: Secret::new(status.token), expires: status.expiration_timestamp })
    }
}

/// The response to a token request. `Debug` is not implemented, because the response contains a token.
#[derive(Deserialize)]
struct Created {
    status: CreatedStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreatedStatus {
    token: String,
    expiration_timestamp: Time,
}
