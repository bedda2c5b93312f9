//! Roles and bindings by whom they are for, and where.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use pintle_json::Json;

use crate::auth::compiled::Index;
use crate::auth::{Attributes, covers_url};
use crate::kinds::RBAC_GROUP;
use crate::request::user::User;
use crate::store::{Stored, key};

/// A rule of a role, as it stands there and as it is asked.
#[derive(Clone, Debug)]
pub(crate) struct PolicyRule {
    value: Json,
    pub(in crate::auth) verbs: Names,
    pub(in crate::auth) groups: Names,
    pub(in crate::auth) resources: Names,
    pub(in crate::auth) names: Names,
    pub(in crate::auth) urls: Names,
}

type Names = Box<[Box<str>]>;

/// What a role allows.
#[derive(Debug)]
pub(crate) struct IndexedRole {
    pub(in crate::auth) rules: Box<[PolicyRule]>,
}

/// A role that a user has, and through whom.
#[derive(Debug)]
pub(in crate::auth) struct Grant {
    pub(in crate::auth) role: Arc<IndexedRole>,
    binding: Arc<IndexedBinding>,
    /// Which of its subjects is meant.
    at: usize,
}

/// All that holds for a user.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    /// In the order in which they are asked: those for the whole cluster first, and those of each place by the names of their bindings.
    pub(in crate::auth) grants: Vec<Grant>,
    /// The last role that is bound but not there.
    pub(in crate::auth) lost: Option<Lost>,
}

/// A role that is bound but not there.
#[derive(Debug)]
pub(crate) struct Lost {
    kind: String,
    pub(in crate::auth) name: String,
}

#[derive(Debug)]
struct IndexedBinding {
    /// Empty for one that holds in the whole cluster.
    namespace: Box<str>,
    name: Box<str>,
    role_kind: Box<str>,
    role_name: Box<str>,
    subjects: Box<[Subject]>,
}

/// Whom a binding is for, and as what it says so.
#[derive(Debug)]
struct Subject {
    who: Who,
    told: Box<str>,
}

/// Accounts are users by their names.
#[derive(Debug)]
enum Who {
    User(Box<str>),
    Group(Box<str>),
    Nobody,
}

/// The bindings for one user or group by their namespaces and names, each with the first of its subjects that is meant.
type BindingsOfSubject = HashMap<Box<str>, BTreeMap<Box<str>, (usize, Arc<IndexedBinding>)>>;

/// Roles and bindings by whom they are for.
#[derive(Debug, Default)]
pub(super) struct RuleIndex {
    /// By the keys of the store, which name a namespace for roles alone.
    roles: HashMap<Box<str>, Arc<IndexedRole>>,
    bindings: HashMap<Box<str>, Arc<IndexedBinding>>,
    users: HashMap<Box<str>, BindingsOfSubject>,
    groups: HashMap<Box<str>, BindingsOfSubject>,
}

impl Index for RuleIndex {
    const OF: &'static [&'static str] = &[
        "clusterroles.rbac.authorization.k8s.io",
        "roles.rbac.authorization.k8s.io",
        "clusterrolebindings.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
    ];

    fn put(&mut self, resource: &str, key: &str, stored: &Stored) {
        let object = stored.decode();
        if !is_binding(resource) {
            self.roles.insert(key.into(), Arc::new(IndexedRole { rules: PolicyRule::all_of(&object["rules"]).into() }));
            return;
        }
        self.unbind(key);
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let binding = Arc::new(IndexedBinding::new(namespace, name, &object));
        for (at, subject) in binding.subjects.iter().enumerate() {
            let Some((bound, who)) = self.bound_mut(&subject.who) else { continue };
            let here = bound.entry(who.into()).or_default().entry(binding.namespace.clone()).or_default();
            here.entry(binding.name.clone()).or_insert_with(|| (at, binding.clone()));
        }
        self.bindings.insert(key.into(), binding);
    }

    fn remove(&mut self, resource: &str, key: &str) {
        match is_binding(resource) {
            true => self.unbind(key),
            false => drop(self.roles.remove(key)),
        }
    }
}

impl RuleIndex {
    fn unbind(&mut self, key: &str) {
        let Some(binding) = self.bindings.remove(key) else { return };
        for subject in &binding.subjects {
            let Some((all, who)) = self.bound_mut(&subject.who) else { continue };
            // A subject may be named twice.
            let Some(bound) = all.get_mut(who) else { continue };
            if let Some(here) = bound.get_mut(&binding.namespace) {
                here.remove(&binding.name);
                if here.is_empty() {
                    bound.remove(&binding.namespace);
                }
            }
            if bound.is_empty() {
                all.remove(who);
            }
        }
    }

    fn bound_mut<'a>(&mut self, who: &'a Who) -> Option<(&mut HashMap<Box<str>, BindingsOfSubject>, &'a str)> {
        match who {
            Who::User(name) => Some((&mut self.users, name)),
            Who::Group(name) => Some((&mut self.groups, name)),
            Who::Nobody => None,
        }
    }

    /// A role of that namespace; without one, a role of the cluster.
    pub(super) fn role(&self, namespace: &str, name: &str) -> Option<&Arc<IndexedRole>> {
        self.roles.get(&*key(namespace, name))
    }

    /// All that holds for a user in a namespace, or in none. What a role gives that is bound more than once, it gives by the first of its
    /// bindings.
    pub(super) fn granted(&self, user: &User, namespace: &str) -> Granted {
        let mut granted = Granted::default();
        let mut roles = HashSet::new();
        for place in std::iter::once("").chain(Some(namespace).filter(|namespace| !namespace.is_empty())) {
            for (at, binding) in self.bindings_for(user, place) {
                match self.bound_by(binding) {
                    None => granted.lost = Some(binding.lost()),
                    Some(role) if roles.insert(Arc::as_ptr(role)) => {
                        granted.grants.push(Grant { role: role.clone(), binding: binding.clone(), at });
                    }
                    Some(_) => (),
                }
            }
        }
        granted
    }

    /// The bindings of one place for a user, by name, each with the first of its subjects that the user is.
    fn bindings_for(&self, user: &User, place: &str) -> Vec<(usize, &Arc<IndexedBinding>)> {
        let groups = user.groups.iter().filter_map(|group| self.groups.get(&**group));
        let bound = self.users.get(&*user.name).into_iter().chain(groups).filter_map(|bound| bound.get(place));
        let mut found: Vec<_> = bound.flatten().map(|(_, (at, binding))| (*at, binding)).collect();
        found.sort_by_key(|(at, binding)| (&binding.name, *at));
        found.dedup_by_key(|(_, binding)| &binding.name);
        found
    }

    fn bound_by(&self, binding: &IndexedBinding) -> Option<&Arc<IndexedRole>> {
        match (&*binding.role_kind, &*binding.namespace) {
            ("ClusterRole", _) => self.role("", &binding.role_name),
            // What holds in the whole cluster can bind no role of a namespace.
            (_, "") => None,
            (_, namespace) => self.role(namespace, &binding.role_name),
        }
    }
}

fn is_binding(resource: &str) -> bool {
    resource.starts_with("clusterrolebindings.") || resource.starts_with("rolebindings.")
}

impl Granted {
    pub(crate) fn rules(&self) -> impl Iterator<Item = &PolicyRule> {
        self.grants.iter().flat_map(|grant| &grant.role.rules)
    }

    /// What was found wrong on the way.
    pub(crate) fn wrong(&self) -> Option<String> {
        self.lost.as_ref().map(Lost::to_string)
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RBAC: {}.{RBAC_GROUP} {:?} not found", self.kind.to_lowercase(), self.name)
    }
}

impl Grant {
    /// Why the user has the role.
    pub(in crate::auth) fn reason(&self) -> String {
        let IndexedBinding { namespace, name, role_kind, role_name, subjects } = &*self.binding;
        let binding = match &**namespace {
            "" => format!("ClusterRoleBinding {name:?}"),
            namespace => format!("RoleBinding {:?}", format!("{name}/{namespace}")),
        };
        format!("RBAC: allowed by {binding} of {role_kind} {role_name:?} to {}", subjects[self.at].told)
    }
}

impl IndexedBinding {
    fn new(namespace: &str, name: &str, object: &Json) -> Self {
        let subjects = object.list("/subjects");
        Self {
            namespace: namespace.into(),
            name: name.into(),
            role_kind: object.text("/roleRef/kind").into(),
            role_name: object.text("/roleRef/name").into(),
            subjects: subjects.map(|subject| Subject::new(subject, namespace)).collect(),
        }
    }

    fn lost(&self) -> Lost {
        Lost { kind: self.role_kind.clone().into(), name: self.role_name.clone().into() }
    }
}

impl Subject {
    /// `namespace` is that of the binding.
    fn new(subject: &Json, namespace: &str) -> Self {
        let (kind, name, of) = (subject.text("/kind"), subject.text("/name"), subject.text("/namespace"));
        let told = match kind {
            "ServiceAccount" => format!("{kind} {:?}", format!("{name}/{of}")),
            _ => format!("{kind} {name:?}"),
        };
        let who = match (kind, if of.is_empty() { namespace } else { of }) {
            ("User", _) => Who::User(name.into()),
            ("Group", _) => Who::Group(name.into()),
            // Nobody is an account without a namespace, whatever they are called.
            ("ServiceAccount", of) if !of.is_empty() => Who::User(format!("system:serviceaccount:{of}:{name}").into()),
            _ => Who::Nobody,
        };
        Self { who, told: told.into() }
    }
}

impl PolicyRule {
    /// The rules of a list.
    pub(in crate::auth) fn all_of(rules: &Json) -> Vec<Self> {
        rules.list("").map(Self::new).collect()
    }

    fn new(rule: &Json) -> Self {
        let names = |field: &str| {
            let items = rule[field].list("");
            items.filter_map(Json::as_str).map(Box::from).collect()
        };
        Self {
            verbs: names("verbs"),
            groups: names("apiGroups"),
            resources: names("resources"),
            names: names("resourceNames"),
            urls: names("nonResourceURLs"),
            value: rule.clone(),
        }
    }

    /// As it stands in its role.
    pub(crate) fn value(&self) -> &Json {
        &self.value
    }

    /// Whether it allows that.
    pub(in crate::auth) fn covers(&self, attributes: &Attributes<'_>) -> bool {
        match attributes {
            Attributes::Path { verb, path } => {
                has(&self.verbs, verb) && self.urls.iter().any(|url| covers_url(url, path))
            }
            Attributes::Resource { verb, path, name } => {
                let is_resource = || {
                    let (resource, below) = (path.full_resource(), format!("*/{}", path.subresource));
                    let is_below = |item: &str| !path.subresource.is_empty() && item == below;
                    self.resources.iter().any(|item| &**item == "*" || **item == *resource || is_below(item))
                };
                has(&self.verbs, verb)
                    && has(&self.groups, &path.group)
                    && is_resource()
                    && (self.names.is_empty() || !name.is_empty() && self.names.iter().any(|known| **known == **name))
            }
        }
    }
}

/// Whether a list names it, or everything.
pub(in crate::auth) fn has(names: &[Box<str>], wanted: &str) -> bool {
    names.iter().any(|name| &**name == "*" || **name == *wanted)
}
