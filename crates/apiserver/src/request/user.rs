//! Who asks.

use std::collections::BTreeMap;

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

    pub(crate) fn anonymous() -> Self {
        Self { name: ANONYMOUS.into(), ..Self::default() }.known()
    }

    /// The same with the group of all who are known, or are not, unless it is there.
    pub(crate) fn known(mut self) -> Self {
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
    pub(crate) fn groups(self) -> [String; 2] {
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
