//! Who asks, and whether they may.

mod account_tokens;
mod attributes;
mod authorize;
mod authorizer;
mod compiled;
mod escalation;
mod flow;
mod impersonate;
mod rights;
mod subprotocols;
mod tokens;

pub(crate) use account_tokens::{AccountTokens, Claims, ISSUER, KeySeed, Unknown};
pub(crate) use attributes::Attributes;
pub(crate) use authorize::{Decision, authorize, decide, rules};
pub(crate) use authorizer::{Authorizer, Rbac};
pub(crate) use escalation::{check_grant, grants_rights};
pub(crate) use flow::{Flow, Flows};
use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
pub(crate) use impersonate::{impersonate, impersonated};
use subprotocols::Subprotocols;
pub use tokens::TokenFileError;
pub(crate) use tokens::Tokens;

use crate::failure::{Failure, Outcome};
use crate::kinds::Cluster;
use crate::request::user::User;

/// What to warn of in the headers by which a request says who asks.
pub(crate) fn warning(headers: &HeaderMap) -> Option<&'static str> {
    const PADDED: &str =
        "the provided Authorization header contains extra space before the bearer token, and is ignored";
    bearer(headers).filter(|token| token.is_empty()).map(|_| PADDED)
}

/// Who is behind the tokens of requests and reviews.
#[derive(Debug)]
pub(crate) struct Authenticator {
    /// Those of the token file; without one everybody is an administrator, whatever token they show.
    tokens: Option<Tokens>,
    pub(crate) accounts: AccountTokens,
}

impl Authenticator {
    /// With a seed, the tokens of service accounts are the same each time.
    pub(crate) fn new(tokens: Option<Tokens>, seed: Option<u64>) -> Self {
        Self { tokens, accounts: AccountTokens::new(seed) }
    }

    /// Finds out who asks, at `now` in seconds since the epoch. A subprotocol that says it is taken out of the headers.
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

    /// The public key of the tokens of service accounts, as a JSON Web Key.
    pub(crate) fn public_key(&self) -> Option<pintle_json::Json> {
        self.accounts.public_key()
    }

    /// Who is behind a token, if anybody still is, and for which of these audiences. Tokens of the file are for this server alone.
    pub(crate) fn user(
        &self,
        cluster: &dyn Cluster,
        token: &str,
        audiences: &[String],
        now: i64,
    ) -> Result<(User, Vec<String>), Unknown> {
        let Some(user) = self.tokens.as_ref().and_then(|tokens| tokens.user(token)) else {
            return self.accounts.user(cluster, token, audiences, now);
        };
        match audiences.iter().any(|audience| audience == ISSUER) {
            true => Ok((user.clone().with_implied_group(), vec![ISSUER.into()])),
            false => Err(Unknown::default()),
        }
    }
}

/// Whether a URL of a rule, which may end with a star for whatever comes behind it, covers a path.
fn covers_url(url: &str, path: &str) -> bool {
    match url.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => url == path,
    }
}

/// The token of `Authorization: Bearer TOKEN`; text after the token is ignored, two blanks before it make it empty. One that is
/// no text is a token all the same, which nobody has.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let header = String::from_utf8_lossy(headers.get(AUTHORIZATION)?.as_bytes());
    let mut parts = header.trim().split(' ');
    let scheme = parts.next()?;
    scheme.eq_ignore_ascii_case("bearer").then(|| parts.next().map(str::to_owned)).flatten()
}
