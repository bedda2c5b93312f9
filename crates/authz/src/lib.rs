//! Authentication and authorization for an API server: tokens, impersonation, RBAC and flow schemas.
//!
//! This crate is part of `pintle-apiserver` and has **no stability guarantee**. Use `pintle-apiserver` instead.
//!
//! - An [`Authenticator`] maps bearer tokens to users. [`Tokens`] reads a token file, and [`AccountTokens`] signs
//!   service account tokens.
//! - [`authorize`] and [`decide`] determine whether a user may send a request, based on its [`Attributes`].
//!   [`Authorizer`] contains an index of the RBAC rules.
//! - [`check_grant`] rejects roles and bindings with permissions that their author does not have.
//! - [`claim_status_errors`] checks the permissions for changing the status of a ResourceClaim.
//! - [`Flows`] and [`Policies`] index flow schemas and admission policies.
//!
//! The indexes contain data from the [`Db`](pintle_storage::Db) and are updated when the `Db` changes. The crate does
//! not serve HTTP. To read the code, start with `authorize.rs`.
//!
//! ```
//! use pintle_apimachinery::request::user::User;
//!
//! // Without a token file, each caller is an administrator.
//! let authenticator = pintle_authz::Authenticator::new(None, Some(1));
//! assert!(authenticator.public_key().is_some());
//! assert!(User::admin().is_in("system:masters"));
//! ```

#![allow(missing_docs, reason = "internal crate: the crate page is the contract")]

mod account_tokens;
mod attributes;
mod authorize;
mod authorizer;
mod claim_status;
mod compiled;
mod escalation;
mod flow;
mod impersonate;
mod policies;
mod rights;
mod subprotocols;
mod tokens;
mod webhooks;

pub use account_tokens::{AccountTokens, Claims, InvalidToken, KeySeed};
pub use attributes::Attributes;
pub use authorize::{Decision, authorize, decide, rules};
pub use authorizer::{Authorizer, Rbac};
pub use claim_status::claim_status_errors;
pub use escalation::{check_grant, grants_rights};
pub use flow::{Flow, Flows};
use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
pub use impersonate::{impersonate, impersonated};
use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::user::User;
use pintle_kinds::ISSUER;
pub use policies::{Binding, BoundPolicies, BoundPolicy, Policies};
use subprotocols::Subprotocols;
pub use tokens::TokenFileError;
pub use tokens::Tokens;
pub use webhooks::{AdmissionWebhook, Webhooks};

/// Returns a warning if the `Authorization` header has extra space before the bearer token.
pub fn warning(headers: &HeaderMap) -> Option<&'static str> {
    const PADDED: &str =
        "the provided Authorization header contains extra space before the bearer token, and is ignored";
    bearer(headers).filter(|token| token.is_empty()).map(|_| PADDED)
}

/// Maps bearer tokens to users, for requests and for token reviews.
#[derive(Debug)]
pub struct Authenticator {
    /// The tokens in the token file, if there is one. Without a token file, every caller is an administrator, with or
    /// without a token.
    tokens: Option<Tokens>,
    pub accounts: AccountTokens,
}

impl Authenticator {
    /// Creates an authenticator. If there is a seed, the key that signs service account tokens depends only on the
    /// seed.
    pub fn new(tokens: Option<Tokens>, seed: Option<u64>) -> Self {
        Self { tokens, accounts: AccountTokens::new(seed) }
    }

    /// Returns `true` if there is a token file. Every caller of a server without a token file is an administrator.
    pub fn has_users(&self) -> bool {
        self.tokens.is_some()
    }

    /// Returns a request's user, and removes the bearer token from the WebSocket subprotocols in the headers. `now` is
    /// the current time in seconds since the epoch.
    pub fn authenticate(&self, cluster: &dyn Cluster, headers: &mut HeaderMap, now: i64) -> Outcome<User> {
        let subprotocols = Subprotocols::of(headers);
        if self.tokens.is_none() {
            if let Ok(Some(Subprotocols { others, .. })) = subprotocols {
                headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
            }
            return Ok(User::admin());
        }
        let user = |token: &str| self.user(cluster, token, &[ISSUER.into()], now).ok().map(|(user, _)| user);
        let bearer = bearer(headers).filter(|token| !token.is_empty());
        if let Some(user) = bearer.as_deref().and_then(user) {
            return Ok(user);
        }
        match subprotocols? {
            Some(Subprotocols { token, others }) => {
                let user = user(&token).ok_or_else(Failure::unauthorized)?;
                headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
                Ok(user)
            }
            None if bearer.is_some() => Err(Failure::unauthorized()),
            None => Ok(User::anonymous()),
        }
    }

    /// Returns the public key for service account tokens as a JSON Web Key.
    pub fn public_key(&self) -> Option<pintle_json::Json> {
        self.accounts.public_key()
    }

    /// Returns a valid token's user, and the requested audiences that the token is valid for. This server is the only
    /// audience of tokens from the token file.
    pub fn user(
        &self,
        cluster: &dyn Cluster,
        token: &str,
        audiences: &[String],
        now: i64,
    ) -> Result<(User, Vec<String>), InvalidToken> {
        let Some(user) = self.tokens.as_ref().and_then(|tokens| tokens.user(token)) else {
            return self.accounts.user(cluster, token, audiences, now);
        };
        if audiences.iter().any(|audience| audience == ISSUER) {
            Ok((user.clone().with_implied_group(), vec![ISSUER.into()]))
        } else {
            Err(InvalidToken::default())
        }
    }
}

/// Returns `true` if `url` matches a path. A `*` at the end of `url` matches any text.
fn covers_url(url: &str, path: &str) -> bool {
    match url.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => url == path,
    }
}

/// Returns the bearer token in the `Authorization` header. As in kube-apiserver, ignores text after the token, and
/// returns an empty token if two spaces precede the token. A token with invalid UTF-8 matches no user.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let header = String::from_utf8_lossy(headers.get(AUTHORIZATION)?.as_bytes());
    let mut parts = header.trim().split(' ');
    let scheme = parts.next()?;
    scheme.eq_ignore_ascii_case("bearer").then(|| parts.next().map(str::to_owned)).flatten()
}
