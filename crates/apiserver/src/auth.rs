//! Who asks, and whether they may.

mod authorize;
mod escalation;
mod impersonate;
mod rbac;
mod rights;
mod tokens;

use std::collections::BTreeMap;

pub(crate) use authorize::{Attributes, authorize, decide};
pub(crate) use escalation::{check_grant, grants_rights};
use http::HeaderMap;
use http::header::AUTHORIZATION;
pub(crate) use impersonate::{impersonate, impersonated};
pub(crate) use rbac::{Decision, grants};
pub use tokens::TokenFileError;
pub(crate) use tokens::Tokens;

use crate::failure::{Failure, Outcome};
use crate::kinds::{Cluster, GroupResource};
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

/// Finds out who asks. Without tokens everybody is an administrator.
pub(crate) fn authenticate(tokens: Option<&Tokens>, cluster: &dyn Cluster, headers: &HeaderMap) -> Outcome<User> {
    let Some(tokens) = tokens else { return Ok(User::admin()) };
    match bearer(headers).filter(|token| !token.is_empty()) {
        Some(token) => user_of(tokens, cluster, &token).ok_or_else(Failure::unauthorized),
        None => Ok(User::anonymous()),
    }
}

/// Who is behind a token, if anybody still is.
pub(crate) fn user_of(tokens: &Tokens, cluster: &dyn Cluster, token: &str) -> Option<User> {
    let user = tokens.user(token)?;
    if let Some(account) = ServiceAccount::of(user) {
        let accounts = GroupResource::new("", "serviceaccounts");
        let stored = cluster.object(&accounts, account.namespace, account.name)?;
        // A token dies with the account that it was made for.
        if stored["metadata"]["uid"] != user.uid {
            return None;
        }
    }
    Some(user.clone().known())
}

/// The token of `Authorization: Bearer TOKEN`; text after the token is ignored, two blanks before it make it empty. One that is
/// no text is a token all the same, which nobody has.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let header = String::from_utf8_lossy(headers.get(AUTHORIZATION)?.as_bytes());
    let mut parts = header.trim().split(' ');
    let scheme = parts.next()?;
    scheme.eq_ignore_ascii_case("bearer").then(|| parts.next().map(str::to_owned)).flatten()
}
