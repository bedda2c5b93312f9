//! Authentication and authorization.

mod account_tokens;
mod attributes;
mod authorize;
mod authorizer;
mod compiled;
mod escalation;
mod flow;
mod impersonate;
mod policies;
mod rights;
mod subprotocols;
mod tokens;

pub(crate) use account_tokens::{AccountTokens, Claims, ISSUER, InvalidToken, KeySeed};
pub(crate) use attributes::Attributes;
pub(crate) use authorize::{Decision, authorize, decide, rules};
pub(crate) use authorizer::{Authorizer, Rbac};
pub(crate) use escalation::{check_grant, grants_rights};
pub(crate) use flow::{Flow, Flows};
use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
pub(crate) use impersonate::{impersonate, impersonated};
pub(crate) use policies::{Binding, BoundPolicy, Policies};
use subprotocols::Subprotocols;
pub use tokens::TokenFileError;
pub(crate) use tokens::Tokens;

use crate::failure::{Failure, Outcome};
use crate::kinds::Cluster;
use crate::request::user::User;

/// Returns a warning about the `Authorization` header, if there is a reason for one.
pub(crate) fn warning(headers: &HeaderMap) -> Option<&'static str> {
    const PADDED: &str =
        "the provided Authorization header contains extra space before the bearer token, and is ignored";
    bearer(headers).filter(|token| token.is_empty()).map(|_| PADDED)
}

/// Maps bearer tokens to users, for requests and token reviews.
#[derive(Debug)]
pub(crate) struct Authenticator {
    /// The tokens of the token file. Without a token file, every caller is an administrator, whatever the token.
    tokens: Option<Tokens>,
    pub(crate) accounts: AccountTokens,
}

impl Authenticator {
    /// Creates an authenticator. With a seed, the tokens of service accounts depend on the seed alone.
    pub(crate) fn new(tokens: Option<Tokens>, seed: Option<u64>) -> Self {
        Self { tokens, accounts: AccountTokens::new(seed) }
    }

    /// Returns the user of a request at `now`, in seconds since the epoch. Removes the token from the WebSocket subprotocols of the
    /// headers.
    pub(crate) fn authenticate(&self, cluster: &dyn Cluster, headers: &mut HeaderMap, now: i64) -> Outcome<User> {
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

    /// Returns the public key for tokens of service accounts, as a JSON Web Key.
    pub(crate) fn public_key(&self) -> Option<pintle_json::Json> {
        self.accounts.public_key()
    }

    /// Returns the user of a valid token, and the matching audiences. Tokens of the token file have only this server as their audience.
    pub(crate) fn user(
        &self,
        cluster: &dyn Cluster,
        token: &str,
        audiences: &[String],
        now: i64,
    ) -> Result<(User, Vec<String>), InvalidToken> {
        let Some(user) = self.tokens.as_ref().and_then(|tokens| tokens.user(token)) else {
            return self.accounts.user(cluster, token, audiences, now);
        };
        match audiences.iter().any(|audience| audience == ISSUER) {
            true => Ok((user.clone().with_implied_group(), vec![ISSUER.into()])),
            false => Err(InvalidToken::default()),
        }
    }
}

/// Whether a URL of a rule matches a path. A `*` at its end matches any rest.
fn covers_url(url: &str, path: &str) -> bool {
    match url.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => url == path,
    }
}

/// Returns the token of `Authorization: Bearer TOKEN`. As in kube-apiserver, text after the token is ignored, and two spaces before it
/// make it empty. Invalid UTF-8 gives a token that matches no user.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let header = String::from_utf8_lossy(headers.get(AUTHORIZATION)?.as_bytes());
    let mut parts = header.trim().split(' ');
    let scheme = parts.next()?;
    scheme.eq_ignore_ascii_case("bearer").then(|| parts.next().map(str::to_owned)).flatten()
}
