//! An index of roles by name, and of bindings by subject and namespace.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use pintle_apimachinery::object::key;
use pintle_apimachinery::request::user::User;
use pintle_json::Json;
use pintle_kinds::RBAC_GROUP;
use pintle_storage::Stored;

use crate::attributes::Attributes;
use crate::compiled::Index;
use crate::covers_url;

/// A rule of a role, as JSON and in a parsed form for fast matching.
#[derive(Clone, Debug)]
pub struct PolicyRule {
    value: Json,
    pub(crate) verbs: Names,
    pub(crate) groups: Names,
    pub(crate) resources: Names,
    pub(crate) names: Names,
    pub(crate) urls: Names,
}

type Names = Box<[Box<str>]>;

#[derive(Debug)]
pub(crate) struct IndexedRole {
    pub(crate) rules: Box<[PolicyRule]>,
}

#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) role: Arc<IndexedRole>,
    binding: Arc<IndexedBinding>,
    at: usize,
}

/// All roles that are granted to a user in one namespace, or in the cluster scope.
#[derive(Debug, Default)]
pub struct Granted {
    /// The grants in evaluation order: first from cluster role bindings, and then from role bindings. The grants in
    /// each group are sorted by binding name.
    pub(crate) grants: Vec<Grant>,
    /// The last missing role in evaluation order, to which a binding of the user refers.
    pub(crate) missing: Option<MissingRole>,
}

#[derive(Debug)]
pub(crate) struct MissingRole {
    kind: String,
    pub(crate) name: String,
}

#[derive(Debug)]
struct IndexedBinding {
    /// The binding's namespace, or an empty string for a cluster role binding.
    namespace: Box<str>,
    name: Box<str>,
    role_kind: Box<str>,
    role_name: Box<str>,
    subjects: Box<[Subject]>,
}

#[derive(Debug)]
struct Subject {
    matcher: SubjectMatcher,
    /// The subject in the reason for an authorization decision, in kube-apiserver's format.
    display: Box<str>,
}

/// Determines which users match a subject of a binding. A service account is a user named
/// `system:serviceaccount:NAMESPACE:NAME`.
#[derive(Debug)]
enum SubjectMatcher {
    User(Box<str>),
    Group(Box<str>),
    None,
}

/// The bindings of a user or group, by namespace and name. Each binding is stored with the index of its first matching
/// subject.
type BindingsOfSubject = HashMap<Box<str>, BTreeMap<Box<str>, (usize, Arc<IndexedBinding>)>>;

#[derive(Debug, Default)]
pub(super) struct RuleIndex {
    /// The roles, with the same keys as in the store. The key of a cluster role has an empty namespace.
    roles: HashMap<Box<str>, Arc<IndexedRole>>,
    bindings: HashMap<Box<str>, Arc<IndexedBinding>>,
    users: HashMap<Box<str>, BindingsOfSubject>,
    groups: HashMap<Box<str>, BindingsOfSubject>,
}

impl Index for RuleIndex {
    const RESOURCES: &'static [&'static str] = &[
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
            let Some((bound, subject_name)) = self.bindings_mut(&subject.matcher) else { continue };
            let here = bound.entry(subject_name.into()).or_default().entry(binding.namespace.clone()).or_default();
            here.entry(binding.name.clone()).or_insert_with(|| (at, binding.clone()));
        }
        self.bindings.insert(key.into(), binding);
    }

    fn remove(&mut self, resource: &str, key: &str) {
        if is_binding(resource) { self.unbind(key) } else { drop(self.roles.remove(key)) }
    }
}

impl RuleIndex {
    fn unbind(&mut self, key: &str) {
        let Some(binding) = self.bindings.remove(key) else { return };
        for subject in &binding.subjects {
            let Some((all, name)) = self.bindings_mut(&subject.matcher) else { continue };
            // Skip a repeated subject, because its first occurrence has already removed the binding.
            let Some(bound) = all.get_mut(name) else { continue };
            if let Some(here) = bound.get_mut(&binding.namespace) {
                here.remove(&binding.name);
                if here.is_empty() {
                    bound.remove(&binding.namespace);
                }
            }
            if bound.is_empty() {
                all.remove(name);
            }
        }
    }

    fn bindings_mut<'a>(
        &mut self,
        matcher: &'a SubjectMatcher,
    ) -> Option<(&mut HashMap<Box<str>, BindingsOfSubject>, &'a str)> {
        match matcher {
            SubjectMatcher::User(name) => Some((&mut self.users, name)),
            SubjectMatcher::Group(name) => Some((&mut self.groups, name)),
            SubjectMatcher::None => None,
        }
    }

    /// Returns the role with this name. If `namespace` is empty, returns the cluster role.
    pub(super) fn role(&self, namespace: &str, name: &str) -> Option<&Arc<IndexedRole>> {
        self.roles.get(&*key(namespace, name))
    }

    /// Returns all roles that are granted to a user in a namespace, or in the cluster scope. Returns each role only
    /// once, with the first binding that refers to it.
    pub(super) fn granted(&self, user: &User, namespace: &str) -> Granted {
        let mut granted = Granted::default();
        let mut roles = HashSet::new();
        for place in std::iter::once("").chain(Some(namespace).filter(|namespace| !namespace.is_empty())) {
            for (at, binding) in self.bindings_for(user, place) {
                match self.role_of(binding) {
                    None => granted.missing = Some(binding.missing_role()),
                    Some(role) if roles.insert(Arc::as_ptr(role)) => {
                        granted.grants.push(Grant { role: role.clone(), binding: binding.clone(), at });
                    }
                    Some(_) => (),
                }
            }
        }
        granted
    }

    /// Returns the bindings in a namespace that match a user, sorted by name, with the index of the first matching
    /// subject.
    fn bindings_for(&self, user: &User, place: &str) -> Vec<(usize, &Arc<IndexedBinding>)> {
        let groups = user.groups.iter().filter_map(|group| self.groups.get(&**group));
        let bound = self.users.get(&*user.name).into_iter().chain(groups).filter_map(|bound| bound.get(place));
        let mut found: Vec<_> = bound.flatten().map(|(_, (at, binding))| (*at, binding)).collect();
        found.sort_by_key(|(at, binding)| (&binding.name, *at));
        found.dedup_by_key(|(_, binding)| &binding.name);
        found
    }

    fn role_of(&self, binding: &IndexedBinding) -> Option<&Arc<IndexedRole>> {
        match (&*binding.role_kind, &*binding.namespace) {
            ("ClusterRole", _) => self.role("", &binding.role_name),
            // Ignore a cluster role binding that refers to a role, because such a binding is not valid.
            (_, "") => None,
            (_, namespace) => self.role(namespace, &binding.role_name),
        }
    }
}

fn is_binding(resource: &str) -> bool {
    resource.starts_with("clusterrolebindings.") || resource.starts_with("rolebindings.")
}

impl Granted {
    pub fn rules(&self) -> impl Iterator<Item = &PolicyRule> {
        self.grants.iter().flat_map(|grant| &grant.role.rules)
    }

    /// Returns an error if the user is bound to a missing role.
    pub fn resolution_error(&self) -> Option<String> {
        self.missing.as_ref().map(MissingRole::to_string)
    }
}

impl fmt::Display for MissingRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RBAC: {}.{RBAC_GROUP} {:?} not found", self.kind.to_lowercase(), self.name)
    }
}

impl Grant {
    pub(crate) fn reason(&self) -> String {
        let IndexedBinding { namespace, name, role_kind, role_name, subjects } = &*self.binding;
        let binding = match &**namespace {
            "" => format!("ClusterRoleBinding {name:?}"),
            namespace => format!("RoleBinding {:?}", format!("{name}/{namespace}")),
        };
        format!("RBAC: allowed by {binding} of {role_kind} {role_name:?} to {}", subjects[self.at].display)
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

    fn missing_role(&self) -> MissingRole {
        MissingRole { kind: self.role_kind.clone().into(), name: self.role_name.clone().into() }
    }
}

impl Subject {
    fn new(subject: &Json, namespace: &str) -> Self {
        let (kind, name, of) = (subject.text("/kind"), subject.text("/name"), subject.text("/namespace"));
        let display = match kind {
            "ServiceAccount" => format!("{kind} {:?}", format!("{name}/{of}")),
            _ => format!("{kind} {name:?}"),
        };
        let matcher = match (kind, if of.is_empty() { namespace } else { of }) {
            ("User", _) => SubjectMatcher::User(name.into()),
            ("Group", _) => SubjectMatcher::Group(name.into()),
            // Ignore a service account without a namespace, because it matches no user.
            ("ServiceAccount", of) if !of.is_empty() => {
                SubjectMatcher::User(format!("system:serviceaccount:{of}:{name}").into())
            }
            _ => SubjectMatcher::None,
        };
        Self { matcher, display: display.into() }
    }
}

impl PolicyRule {
    pub(crate) fn all_of(rules: &Json) -> Vec<Self> {
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

    /// Returns the policy rule as JSON.
    pub fn value(&self) -> &Json {
        &self.value
    }

    pub(crate) fn covers(&self, attributes: &Attributes<'_>) -> bool {
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

pub(crate) fn has(names: &[Box<str>], wanted: &str) -> bool {
    names.iter().any(|name| &**name == "*" || **name == *wanted)
}
