//! The registry of served kinds, [`Kinds`].

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::sync::Arc;

use pintle_meta::{GroupResource, GroupVersion};
use pintle_store::Tree;

use super::Kind;
use crate::strategy::Strategy;
use crate::strategy_types::Routing;

/// The registry of served kinds.
///
/// Cloning the registry is cheap: a clone is a snapshot that shares all unchanged groups and versions with the
/// original. Later changes to the original do not affect the clone. Lookups by name take logarithmic time.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    /// The built-in kinds, in discovery order.
    builtin: Arc<[Arc<Kind>]>,
    builtin_groups: Arc<[Arc<str>]>,
    groups: Tree<Arc<Group>>,
}

/// The kinds of one API group. The registry replaces the `Arc` of a group on each change. If two registries have the
/// same pointer for a group, the group is equal in both registries.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The routing of requests for the group. The first kind in the group sets the routing, so custom resources do not
    /// change the routing of a built-in group.
    routing: Option<Routing>,
    versions: Tree<Arc<VersionKinds>>,
    /// The kinds by plural name. Built-in kinds precede custom resources.
    by_plural: Tree<Arc<[Arc<Kind>]>>,
    by_kind: Tree<Arc<[Arc<Kind>]>>,
}

/// The kinds of one version of a group. The registry replaces the `Arc` of a version on each change.
#[derive(Clone, Debug, Default)]
pub struct VersionKinds {
    is_built_in: bool,
    by_plural: Tree<Arc<Kind>>,
}

impl Kinds {
    /// Creates a registry of built-in kinds.
    pub fn of(builtin: Arc<[Arc<Kind>]>) -> Self {
        let (mut names, mut made) = (Vec::<Arc<str>>::new(), HashMap::<&str, Group>::new());
        for kind in &*builtin {
            let group = made.entry(&kind.group).or_insert_with(|| {
                names.push(kind.group.as_str().into());
                Group::default()
            });
            group.add(kind, true);
        }
        let mut groups = Tree::default();
        for (name, group) in made {
            groups.insert(name, Arc::new(group));
        }
        Self { builtin, builtin_groups: names.into(), groups }
    }

    /// Replaces the strategy of a built-in kind.
    pub fn with_strategy(self, group: &str, kind: &str, strategy: &Arc<dyn Strategy>) -> Self {
        let replaced = |known: &Arc<Kind>| {
            if known.group == group && known.kind == kind {
                Arc::new(Kind { strategy: strategy.clone(), ..Kind::clone(known) })
            } else {
                known.clone()
            }
        };
        Self::of(self.builtin.iter().map(replaced).collect())
    }

    /// Returns the kind for the resource in a URL path.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.version(group, version)?.resource(plural)
    }

    /// Returns the kind for an object's `apiVersion` and `kind`.
    pub fn kind(&self, group: &str, version: &str, name: &str) -> Option<&Arc<Kind>> {
        self.group(group)?.by_kind.get(name)?.iter().find(|kind| kind.version == version)
    }

    /// Returns a kind in its preferred version. Built-in kinds take precedence over custom resources.
    pub fn group_kind(&self, group: &str, name: &str) -> Option<&Arc<Kind>> {
        let order = |kind: &Arc<Kind>, best: &Arc<Kind>| {
            kind.origin().cmp(&best.origin()).then_with(|| compare_versions(&kind.version, &best.version))
        };
        let of_kind = self.group(group)?.by_kind.get(name)?.iter();
        of_kind.reduce(|best, kind| if order(kind, best).is_lt() { kind } else { best })
    }

    /// Returns the preferred version of the kind with the store name `store`.
    pub fn store(&self, store: &GroupResource) -> Option<&Arc<Kind>> {
        self.versions_of(store).next()
    }

    /// Returns all versions of the kind with the store name `store` that are in the group of the store name.
    pub fn versions_of(&self, store: &GroupResource) -> impl Iterator<Item = &Arc<Kind>> {
        // The store name of a custom resource consists of a prefix and the plural name.
        let plural = store.resource.rsplit('/').next().unwrap_or_default();
        let known = self.group(&store.group).and_then(|group| group.by_plural.get(plural));
        known.into_iter().flat_map(|kinds| kinds.iter()).filter(move |kind| kind.stored_as == *store)
    }

    /// Returns all kinds: built-in kinds, and then custom kinds sorted by group.
    pub fn kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.builtin.iter().chain(self.groups.iter().flat_map(|(_, group)| group.custom()))
    }

    /// Returns the groups in discovery order.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &Arc<Group>)> {
        let builtin = self.builtin_groups.iter().filter_map(|name| Some((&**name, self.groups.get(name)?)));
        builtin.chain(self.groups.iter().filter(|(_, group)| !group.is_built_in()))
    }

    pub fn group(&self, name: &str) -> Option<&Arc<Group>> {
        self.groups.get(name)
    }

    /// Returns the versions of all groups, sorted by name.
    pub fn versions(&self) -> impl Iterator<Item = (GroupVersion, &Arc<VersionKinds>)> {
        self.groups.iter().flat_map(|(name, group)| {
            group.versions().map(move |(version, kinds)| (GroupVersion::new(name, version), kinds))
        })
    }

    pub fn version(&self, group: &str, version: &str) -> Option<&Arc<VersionKinds>> {
        self.group(group)?.version(version)
    }

    /// Returns the routing of the paths of a group, or `None` if the group is not served.
    pub fn routing(&self, group: &str) -> Option<Routing> {
        self.group(group)?.routing
    }

    /// Returns `true` if the version is built in. A built-in version serves no custom resources, because its paths
    /// belong to the built-in kinds.
    pub fn is_built_in(&self, group: &str, version: &str) -> bool {
        self.version(group, version).is_some_and(|version| version.is_built_in)
    }

    /// Replaces all versions of a custom resource. An empty `kinds` removes the custom resource. Kinds of a built-in
    /// version, of another group, or with another plural name are ignored.
    pub fn replace_custom(&mut self, resource: &GroupResource, kinds: Vec<Kind>) {
        let mut group = self.group(&resource.group).map(|group| Group::clone(group)).unwrap_or_default();
        for gone in group.custom_of(&resource.resource) {
            group.remove(&gone);
        }
        let added = kinds.into_iter().filter(|kind| kind.resource() == *resource);
        for kind in added {
            if !group.versions.get(&kind.version).is_some_and(|version| version.is_built_in) {
                group.add(&Arc::new(kind), false);
            }
        }
        if group.by_plural.is_empty() {
            self.groups.remove(&resource.group);
        } else {
            self.groups.insert(&resource.group, Arc::new(group));
        }
    }

    /// Returns the groups that differ from `old`, and the number of tree nodes that the two registries do not share.
    /// Tests check with this method that a change copies only the necessary nodes.
    pub fn changed_since(&self, old: &Self) -> (Vec<&str>, usize) {
        let (mut changed, mut made) = (Vec::new(), self.groups.unshared_with(&old.groups));
        if !Arc::ptr_eq(&self.builtin, &old.builtin) {
            made += self.builtin.len();
        }
        for (name, group) in self.groups.iter() {
            let before = old.group(name);
            if before.is_some_and(|before| Arc::ptr_eq(before, group)) {
                continue;
            }
            changed.push(name);
            let before = before.cloned().unwrap_or_default();
            made += group.versions.unshared_with(&before.versions);
            made += group.by_plural.unshared_with(&before.by_plural) + group.by_kind.unshared_with(&before.by_kind);
            for (name, version) in group.versions() {
                let before = before.versions.get(name).cloned().unwrap_or_default();
                made += version.by_plural.unshared_with(&before.by_plural);
            }
        }
        (changed, made)
    }
}

impl Group {
    /// Returns the versions, sorted by name.
    pub fn versions(&self) -> impl Iterator<Item = (&str, &Arc<VersionKinds>)> {
        self.versions.iter()
    }

    pub fn version(&self, name: &str) -> Option<&Arc<VersionKinds>> {
        self.versions.get(name)
    }

    /// Returns the versions, with the preferred version first.
    pub fn preferred(&self) -> Vec<(&str, &Arc<VersionKinds>)> {
        let mut versions: Vec<_> = self.versions().collect();
        versions.sort_by(|(a, _), (b, _)| compare_versions(a, b));
        versions
    }

    fn is_built_in(&self) -> bool {
        self.versions().any(|(_, version)| version.is_built_in)
    }

    fn custom(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.by_plural.iter().flat_map(|(_, kinds)| kinds.iter()).filter(|kind| self.is_custom(kind))
    }

    fn custom_of(&self, plural: &str) -> Vec<Arc<Kind>> {
        let kinds = self.by_plural.get(plural).into_iter().flat_map(|kinds| kinds.iter());
        kinds.filter(|kind| self.is_custom(kind)).cloned().collect()
    }

    fn is_custom(&self, kind: &Kind) -> bool {
        !self.versions.get(&kind.version).is_some_and(|version| version.is_built_in)
    }

    fn add(&mut self, kind: &Arc<Kind>, is_built_in: bool) {
        self.routing.get_or_insert_with(|| kind.strategy.routing());
        let mut version = self.versions.get(&kind.version).cloned().unwrap_or_default();
        let of_version = Arc::make_mut(&mut version);
        of_version.is_built_in |= is_built_in;
        of_version.by_plural.insert(&kind.plural, kind.clone());
        self.versions.insert(&kind.version, version);
        for (kinds, name) in [(&mut self.by_plural, &kind.plural), (&mut self.by_kind, &kind.kind)] {
            let known = kinds.get(name).into_iter().flat_map(|known| known.iter());
            let known = known.chain([kind]).cloned().collect();
            kinds.insert(name, known);
        }
    }

    fn remove(&mut self, kind: &Arc<Kind>) {
        if let Some(mut version) = self.versions.get(&kind.version).cloned() {
            Arc::make_mut(&mut version).by_plural.remove(&kind.plural);
            if version.by_plural.is_empty() {
                self.versions.remove(&kind.version);
            } else {
                self.versions.insert(&kind.version, version);
            }
        }
        for (kinds, name) in [(&mut self.by_plural, &kind.plural), (&mut self.by_kind, &kind.kind)] {
            let known = kinds.get(name).into_iter().flat_map(|known| known.iter());
            let left: Arc<[_]> = known.filter(|known| !Arc::ptr_eq(known, kind)).cloned().collect();
            if left.is_empty() {
                kinds.remove(name);
            } else {
                kinds.insert(name, left);
            }
        }
    }
}

impl VersionKinds {
    pub fn resource(&self, plural: &str) -> Option<&Arc<Kind>> {
        self.by_plural.get(plural)
    }

    /// Returns the kinds in this version, sorted by plural name.
    pub fn kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.by_plural.iter().map(|(_, kind)| kind)
    }
}

/// Compares version names in discovery order: stable versions, beta versions, alpha versions, and then other names in
/// alphabetical order. A version name with a higher number precedes a version name with a lower number.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Returns a sort key that consists of the stability, the major number and the minor number. The keys of preferred
/// versions sort first. Returns `None` if `version` does not have the form of a Kubernetes version.
fn rank(version: &str) -> Option<(u8, Reverse<u64>, Reverse<u64>)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(digits);
    let number = |text: &str| (!text.starts_with('0')).then(|| text.parse::<u64>().ok()).flatten();
    let major = number(major)?;
    let (stability, minor) = match rest {
        "" => return Some((0, Reverse(major), Reverse(0))),
        rest if rest.starts_with("beta") => (1, &rest[4..]),
        rest if rest.starts_with("alpha") => (2, &rest[5..]),
        _ => return None,
    };
    let plain = minor.bytes().all(|byte| byte.is_ascii_digit());
    Some((stability, Reverse(major), Reverse(number(minor).filter(|_| plain)?)))
}
