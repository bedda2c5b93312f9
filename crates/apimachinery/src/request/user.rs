//! The users and groups of requests.

use std::collections::{BTreeMap, HashSet};
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use crate::validate::{NameRule, name_errors};

/// The administrators' group, whose members have all permissions.
pub const MASTERS: &str = "system:masters";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const ANONYMOUS: &str = "system:anonymous";

/// An authenticated or anonymous user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Groups,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Returns the user for all requests to a server without a token file.
    pub fn admin() -> Self {
        static ADMIN: LazyLock<User> = LazyLock::new(|| User::master("admin"));
        ADMIN.clone()
    }

    /// Returns the user for the server's own requests.
    pub fn server() -> Self {
        static SERVER: LazyLock<User> = LazyLock::new(|| User::master("system:apiserver"));
        SERVER.clone()
    }

    fn master(name: &str) -> Self {
        Self { name: name.into(), groups: [MASTERS.to_owned()].into(), ..Self::default() }.with_implied_group()
    }

    /// Returns the user for a controller of kube-controller-manager.
    pub fn controller(name: &str) -> Self {
        ServiceAccountName::new("kube-system", name).user("").with_implied_group()
    }

    pub fn anonymous() -> Self {
        Self { name: ANONYMOUS.into(), ..Self::default() }.with_implied_group()
    }

    /// Adds the group `system:authenticated`, or `system:unauthenticated` for the anonymous user. Adds no group if the
    /// user already has this group or the group `system:unauthenticated`.
    pub fn with_implied_group(mut self) -> Self {
        let implied = if self.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
        if !self.is_in(implied) && !self.is_in(UNAUTHENTICATED) {
            self.groups.push(implied.into());
        }
        self
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.0.known.contains(group)
    }
}

/// A user's groups in their original order, with fast lookups even for many groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups(Arc<GroupSet>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct GroupSet {
    groups: Vec<String>,
    known: HashSet<String>,
}

impl Default for Groups {
    fn default() -> Self {
        static EMPTY: LazyLock<Groups> = LazyLock::new(|| Groups(Arc::default()));
        EMPTY.clone()
    }
}

impl Groups {
    fn push(&mut self, group: String) {
        let set = Arc::make_mut(&mut self.0);
        set.known.insert(group.clone());
        set.groups.push(group);
    }
}

impl FromIterator<String> for Groups {
    fn from_iter<I: IntoIterator<Item = String>>(groups: I) -> Self {
        let mut all = Self::default();
        groups.into_iter().for_each(|group| all.push(group));
        all
    }
}

impl<const N: usize> From<[String; N]> for Groups {
    fn from(groups: [String; N]) -> Self {
        groups.into_iter().collect()
    }
}

impl Deref for Groups {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0.groups
    }
}

/// The namespace and name of a service account.
#[derive(Clone, Copy, Debug)]
pub struct ServiceAccountName<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
}

impl<'a> ServiceAccountName<'a> {
    pub fn new(namespace: &'a str, name: &'a str) -> Self {
        Self { namespace, name }
    }

    /// Returns the user's service account, or `None` for other users.
    pub fn of(user: &'a User) -> Option<Self> {
        let (namespace, name) = user.name.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        let valid = |rule, name| name_errors(rule, name, false).is_empty();
        (valid(NameRule::Label, namespace) && valid(NameRule::Subdomain, name)).then_some(Self { namespace, name })
    }

    /// Returns two groups: the group of all service accounts, and the group of all service accounts in this namespace.
    pub fn groups(self) -> [String; 2] {
        ["system:serviceaccounts".into(), format!("system:serviceaccounts:{}", self.namespace)]
    }

    /// Returns the user for requests with this service account's token.
    pub fn user(self, uid: &str) -> User {
        let Self { namespace, name } = self;
        User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid: uid.into(),
            groups: self.groups().into(),
            extra: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_effort::is_linear;

    #[test]
    fn group_lookups_take_constant_time() {
        let group = |at: usize| format!("g{at}");
        let asks = |count: usize| {
            let user = User { groups: (0..count).map(group).collect(), ..User::default() };
            assert!((0..count).all(|at| user.is_in(&group(at))) && !user.is_in("g"));
        };
        assert!(is_linear(2_000, asks));
    }
}
