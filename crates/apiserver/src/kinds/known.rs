//! All kinds that are served.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{GroupResource, Kind, Routing, Strategy};

/// All kinds that are served, in the order of discovery.
///
/// A reader keeps one state of them while definitions come and go. What is looked for is found by its name, however many there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds {
    builtin: Vec<Arc<Kind>>,
    /// The versions of each custom resource.
    custom: BTreeMap<GroupResource, Vec<Arc<Kind>>>,
    groups: HashMap<String, Group>,
}

/// The kinds of one group by their names, those that are built in first.
#[derive(Clone, Debug, Default)]
struct Group {
    by_plural: HashMap<String, Vec<Arc<Kind>>>,
    by_kind: HashMap<String, Vec<Arc<Kind>>>,
}

impl Kinds {
    /// Of those that are built in.
    pub(super) fn of(builtin: Vec<Arc<Kind>>) -> Self {
        let mut kinds = Self::default();
        builtin.iter().for_each(|kind| kinds.add(kind));
        Self { builtin, ..kinds }
    }

    /// The same, where a kind has rules that are not of this module.
    pub(crate) fn ruled(self, group: &str, kind: &str, strategy: &Arc<dyn Strategy>) -> Self {
        let mut builtin = self.builtin;
        let meant = builtin.iter_mut().filter(|known| known.group == group && known.kind == kind);
        meant.for_each(|kind| *kind = Arc::new(Kind { strategy: strategy.clone(), ..Kind::clone(kind) }));
        Self::of(builtin)
    }

    /// The kind behind a path.
    pub(crate) fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.groups.get(group)?.by_plural.get(plural)?.iter().find(|kind| kind.version == version)
    }

    /// The kind that an object calls itself.
    pub(crate) fn kind(&self, group: &str, version: &str, name: &str) -> Option<&Arc<Kind>> {
        self.groups.get(group)?.by_kind.get(name)?.iter().find(|kind| kind.version == version)
    }

    /// A kind in its preferred version; of a built-in kind, none that a definition has added.
    pub(crate) fn group_kind(&self, group: &str, name: &str) -> Option<&Arc<Kind>> {
        let order = |kind: &Arc<Kind>, best: &Arc<Kind>| {
            kind.origin().cmp(&best.origin()).then_with(|| compare_versions(&kind.version, &best.version))
        };
        let of_kind = self.groups.get(group)?.by_kind.get(name)?.iter();
        of_kind.reduce(|best, kind| if order(kind, best).is_lt() { kind } else { best })
    }

    /// A set of stored objects, as its preferred version shows it.
    pub(crate) fn store(&self, store: &GroupResource) -> Option<&Arc<Kind>> {
        self.versions_of(store).next()
    }

    /// A set of stored objects, as each version of its own group shows it.
    pub(crate) fn versions_of(&self, store: &GroupResource) -> impl Iterator<Item = &Arc<Kind>> {
        // What stands before the plural says whether a definition has made it.
        let plural = store.resource.rsplit('/').next().unwrap_or_default();
        let known = self.groups.get(&store.group).and_then(|group| group.by_plural.get(plural));
        known.into_iter().flatten().filter(move |kind| kind.store == *store)
    }

    /// All kinds: the built-in ones, then the custom ones by group.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.builtin.iter().chain(self.custom.values().flatten())
    }

    /// The groups in the order of discovery, each with its versions, the preferred one first.
    pub(crate) fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        let mut places = HashMap::new();
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for kind in self.kinds() {
            let at = *places.entry(kind.group.as_str()).or_insert_with(|| {
                groups.push((&kind.group, Vec::new()));
                groups.len() - 1
            });
            let versions = &mut groups[at].1;
            if !versions.contains(&kind.version.as_str()) {
                versions.push(&kind.version);
            }
        }
        for (_, versions) in &mut groups {
            versions.sort_by(|a, b| compare_versions(a, b));
        }
        groups
    }

    /// How a group is routed, if it is served.
    pub(crate) fn routing(&self, group: &str) -> Option<Routing> {
        let built_in = self.builtin.iter().find(|kind| kind.group == group);
        let kind = built_in.or_else(|| self.groups.get(group)?.by_plural.values().flatten().next())?;
        Some(kind.strategy.routing())
    }

    /// The kinds of one group and version, by plural.
    pub(crate) fn version(&self, group: &str, version: &str) -> Vec<&Arc<Kind>> {
        let of_group = self.groups.get(group).into_iter().flat_map(|group| group.by_plural.values().flatten());
        let mut kinds: Vec<_> = of_group.filter(|kind| kind.version == version).collect();
        kinds.sort_by_key(|kind| &kind.plural);
        kinds
    }

    /// Whether a version of a group is built in. Nothing that a definition adds to it is served: its paths are taken.
    pub(crate) fn is_built_in(&self, group: &str, version: &str) -> bool {
        self.builtin.iter().any(|kind| kind.group == group && kind.version == version)
    }

    /// Puts the versions of one custom resource in place of those of the same group and plural; none removes it. Versions that are
    /// built in stay as they are.
    pub(crate) fn replace_custom(&mut self, resource: &GroupResource, kinds: Vec<Kind>) {
        for gone in self.custom.remove(resource).into_iter().flatten() {
            self.remove(&gone);
        }
        let added: Vec<_> = kinds.into_iter().filter(|kind| !self.is_built_in(&kind.group, &kind.version)).collect();
        let added: Vec<_> = added.into_iter().map(Arc::new).collect();
        if !added.is_empty() {
            added.iter().for_each(|kind| self.add(kind));
            self.custom.insert(resource.clone(), added);
        }
    }

    fn add(&mut self, kind: &Arc<Kind>) {
        let group = self.groups.entry(kind.group.clone()).or_default();
        group.by_plural.entry(kind.plural.clone()).or_default().push(kind.clone());
        group.by_kind.entry(kind.kind.clone()).or_default().push(kind.clone());
    }

    fn remove(&mut self, kind: &Arc<Kind>) {
        let Some(group) = self.groups.get_mut(&kind.group) else { return };
        for (kinds, name) in [(&mut group.by_plural, &kind.plural), (&mut group.by_kind, &kind.kind)] {
            if let Some(known) = kinds.get_mut(name) {
                known.retain(|known| !Arc::ptr_eq(known, kind));
                if known.is_empty() {
                    kinds.remove(name);
                }
            }
        }
        if group.by_plural.is_empty() {
            self.groups.remove(&kind.group);
        }
    }
}

/// Orders versions as discovery does: stable before beta before alpha, the higher number first, what is no version last, by name.
pub(crate) fn compare_versions(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability, then major and minor numbers, the best smallest.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::effort::is_linear;

    fn widgets(group: &str, kind: &str) -> Kind {
        Kind { plural: "widgets".into(), ..Kind::of_bodies(group, "v1", kind) }
    }

    #[test]
    fn each_custom_resource_comes_and_goes_at_its_own_cost() {
        let come_and_go = |count: usize| {
            let mut kinds = Kinds::builtin();
            let resource = |at: usize| GroupResource::new(format!("g{at}.com"), "widgets");
            for at in (0..count).map(resource) {
                kinds.replace_custom(&at, vec![widgets(&at.group, "Widget")]);
                assert!(kinds.resource(&at.group, "v1", "widgets").is_some());
            }
            (0..count).map(resource).for_each(|at| kinds.replace_custom(&at, Vec::new()));
        };
        assert!(is_linear(200, come_and_go));
    }

    #[test]
    fn what_is_replaced_is_found_by_none_of_its_names() {
        let (mut kinds, before) = (Kinds::builtin(), Kinds::builtin().kinds().count());
        let resource = GroupResource::new("a.com", "widgets");
        kinds.replace_custom(&resource, vec![widgets("a.com", "Old")]);
        kinds.replace_custom(&resource, vec![widgets("a.com", "New")]);
        assert!(kinds.kind("a.com", "v1", "Old").is_none() && kinds.group_kind("a.com", "New").is_some());
        assert_eq!((kinds.kinds().count(), kinds.version("a.com", "v1").len()), (before + 1, 1));
        kinds.replace_custom(&resource, Vec::new());
        assert!(kinds.resource("a.com", "v1", "widgets").is_none() && kinds.routing("a.com").is_none());
        assert_eq!(kinds.kinds().count(), before);
    }
}
