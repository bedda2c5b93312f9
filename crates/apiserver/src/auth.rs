//! Who asks, and whether they may.

mod account_tokens;
mod authorize;
mod escalation;
mod flow;
mod impersonate;
mod rbac;
mod rights;
mod tokens;

use std::collections::BTreeMap;

pub(crate) use account_tokens::{AccountTokens, Bound, Claims, ISSUER, Named, Unknown};
pub(crate) use authorize::{Attributes, authorize, decide};
pub(crate) use escalation::{check_grant, grants_rights};
pub(crate) use flow::{Flow, classify};
use http::HeaderMap;
use http::header::AUTHORIZATION;
pub(crate) use impersonate::{impersonate, impersonated};
pub(crate) use rbac::{Decision, grants};
pub use tokens::TokenFileError;
pub(crate) use tokens::Tokens;

use crate::failure::{Failure, Outcome};
use crate::kinds::Cluster;
use crate::validate::{NameRule, name_faults};

/// The group whose members may do everything.
pub(crate) const MASTERS: &str = "system:masters";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The server itself, and everybody where no token file was given.
    pub(crate) fn admin() -> Self {
        Self { name: "admin".into(), groups: vec![MASTERS.into()], ..Self::default() }.known()
    }

    fn anonymous() -> Self {
        Self { name: ANONYMOUS.into(), ..Self::default() }.known()
    }

    /// The same with the group of all who are known, or are not, unless it is there.
    fn known(mut self) -> Self {
        let implied = if self.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !self.is_in(implied) && !self.is_in(UNAUTHENTICATED) {
            self.groups.push(implied.into());
        }
        self
    }

    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|known| known == group)
    }
}

/// A service account by its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServiceAccount<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl<'a> ServiceAccount<'a> {
    pub(crate) fn new(namespace: &'a str, name: &'a str) -> Self {
        Self { namespace, name }
    }

    /// The account that a user is, if it is one.
    pub(crate) fn of(user: &'a User) -> Option<Self> {
        let (namespace, name) = user.name.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        let valid = |rule, name| name_faults(rule, name, false).is_empty();
        (valid(NameRule::Label, namespace) && valid(NameRule::Subdomain, name)).then_some(Self { namespace, name })
    }

    /// The groups of all accounts, and of all in its namespace.
    fn groups(self) -> [String; 2] {
        ["system:serviceaccounts".into(), format!("system:serviceaccounts:{}", self.namespace)]
    }

    /// The user that the account acts as.
    pub(crate) fn user(self, uid: &str) -> User {
        let Self { namespace, name } = self;
        User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid: uid.into(),
            groups: self.groups().into(),
            extra: BTreeMap::new(),
        }
    }
}

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
    pub(crate) fn new(tokens: Option<Tokens>) -> Self {
        Self { tokens, accounts: AccountTokens::default() }
    }

    /// Finds out who asks, at `now` in seconds since the epoch.
    pub(crate) fn authenticate(&self, cluster: &dyn Cluster, headers: &HeaderMap, now: i64) -> Outcome<User> {
        if self.tokens.is_none() {
            return Ok(User::admin());
        }
        let Some(token) = bearer(headers).filter(|token| !token.is_empty()) else { return Ok(User::anonymous()) };
        let known = self.user(cluster, &token, &[ISSUER.into()], now);
        known.map(|(user, _)| user).map_err(|_| Failure::unauthorized())
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
            true => Ok((user.clone().known(), vec![ISSUER.into()])),
            false => Err(Unknown::default()),
        }
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
