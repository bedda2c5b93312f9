//! Who asks, and whether they may.

mod authorize;
mod escalation;
mod rbac;
mod rights;
mod tokens;

use std::collections::BTreeMap;

pub(crate) use authorize::{Attributes, authorize, authorize_impersonation, decide};
pub(crate) use escalation::{check_grant, grants_rights};
use http::HeaderMap;
use http::header::AUTHORIZATION;
pub(crate) use rbac::{Decision, grants};
pub use tokens::TokenFileError;
pub(crate) use tokens::Tokens;

use crate::failure::{Failure, Outcome};
use crate::kinds::{Cluster, GroupResource};

/// The group whose members may do everything.
pub(crate) const MASTERS: &str = "system:masters";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

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
        Self {
            name: "admin".into(),
            uid: String::new(),
            groups: vec![MASTERS.into(), AUTHENTICATED.into()],
            extra: BTreeMap::new(),
        }
    }

    fn anonymous() -> Self {
        Self { name: "system:anonymous".into(), groups: vec![UNAUTHENTICATED.into()], ..Self::default() }
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
        Some(Self { namespace, name })
    }

    /// The user that the account acts as.
    pub(crate) fn user(self, uid: &str) -> User {
        let Self { namespace, name } = self;
        User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid: uid.into(),
            groups: vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")],
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
    let Some(token) = bearer(headers).filter(|token| !token.is_empty()) else { return Ok(User::anonymous()) };
    let mut user = tokens.user(token).cloned().ok_or_else(Failure::unauthorized)?;
    if let Some(account) = ServiceAccount::of(&user) {
        let accounts = GroupResource::new("", "serviceaccounts");
        let stored = cluster.object(&accounts, account.namespace, account.name);
        // A token dies with the account that it was made for.
        if stored.is_none_or(|stored| stored["metadata"]["uid"] != user.uid) {
            return Err(Failure::unauthorized());
        }
    }
    user.groups.push(AUTHENTICATED.into());
    Ok(user)
}

/// The token of `Authorization: Bearer TOKEN`; text after the token is ignored, two blanks before it make it empty.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let mut parts = header.split(' ');
    let scheme = parts.next()?;
    scheme.eq_ignore_ascii_case("bearer").then(|| parts.next()).flatten()
}

/// As whom the request asks to act, if it does.
pub(crate) fn impersonated(headers: &HeaderMap) -> Outcome<Option<User>> {
    let first = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = first("impersonate-user");
    let uid = first("impersonate-uid");
    let values = headers.get_all("impersonate-group").iter();
    let mut groups: Vec<String> = values.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (header, value) in headers {
        if let Some(key) = header.as_str().strip_prefix("impersonate-extra-")
            && let Ok(value) = value.to_str()
        {
            let key = percent_encoding::percent_decode_str(key).decode_utf8_lossy().to_lowercase();
            extra.entry(key).or_default().push(value.into());
        }
    }
    if name.is_empty() {
        if !uid.is_empty() || !groups.is_empty() || !extra.is_empty() {
            let why = "a group, a uid or extra data is to be impersonated, but no user";
            return Err(Failure { early: true, ..Failure::bad_request(why) });
        }
        return Ok(None);
    }
    let account = name.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
    if groups.is_empty()
        && let Some((namespace, _)) = account
    {
        groups.extend(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
    }
    let anonymous = name == "system:anonymous" || groups.iter().any(|group| group == UNAUTHENTICATED);
    let implied = if anonymous { UNAUTHENTICATED } else { AUTHENTICATED };
    if !groups.iter().any(|group| group == implied) {
        groups.push(implied.into());
    }
    Ok(Some(User { name: name.into(), uid: uid.into(), groups, extra }))
}
