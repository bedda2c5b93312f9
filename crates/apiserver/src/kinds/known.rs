//! All kinds that are served.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use super::{GroupResource, Kind, Origin, Routing, Strategy, builtin};

/// All kinds that are served, in the order of discovery.
///
/// Cheap to clone, so that a reader keeps one state while definitions come and go.
#[derive(Clone, Debug)]
pub(crate) struct Kinds {
    kinds: Vec<Arc<Kind>>,
}

impl Kinds {
    /// The built-in kinds alone.
    pub(crate) fn builtin() -> Self {
        Self { kinds: builtin::kinds(false).map(Arc::new).collect() }
    }

    /// The built-in kinds of a server with coordinated leader election.
    pub(crate) fn coordinated() -> Self {
        Self { kinds: builtin::kinds(true).map(Arc::new).collect() }
    }

    /// The same, where a kind has rules that are not of this module.
    pub(crate) fn ruled(mut self, group: &str, kind: &str, strategy: &Arc<dyn Strategy>) -> Self {
        let meant = self.kinds.iter_mut().filter(|known| known.group == group && known.kind == kind);
        meant.for_each(|kind| Arc::make_mut(kind).strategy = strategy.clone());
        self
    }

    /// The kind behind a path.
    pub(crate) fn resource(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.kinds.iter().find(|kind| kind.plural == plural && kind.version == version && kind.group == group)
    }

    /// The kind that an object calls itself.
    pub(crate) fn kind(&self, group: &str, version: &str, name: &str) -> Option<&Arc<Kind>> {
        self.kinds.iter().find(|kind| kind.kind == name && kind.version == version && kind.group == group)
    }

    /// A kind in its preferred version; of a built-in kind, none that a definition has added.
    pub(crate) fn group_kind(&self, group: &str, name: &str) -> Option<&Arc<Kind>> {
        let of_kind = self.kinds.iter().filter(|kind| kind.kind == name && kind.group == group);
        let order = |kind: &Arc<Kind>, best: &Arc<Kind>| {
            kind.origin().cmp(&best.origin()).then_with(|| compare_versions(&kind.version, &best.version))
        };
        of_kind.reduce(|best, kind| if order(kind, best).is_lt() { kind } else { best })
    }

    /// A set of stored objects, as its preferred version shows it.
    pub(crate) fn store(&self, store: &GroupResource) -> Option<&Arc<Kind>> {
        self.kinds.iter().find(|kind| kind.store == *store && kind.group == store.group)
    }

    /// All kinds: the built-in ones, then the custom ones by group.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.iter()
    }

    /// The groups in the order of discovery, each with its versions, the preferred one first.
    pub(crate) fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for kind in &self.kinds {
            let at = groups.iter().position(|(group, _)| *group == kind.group).unwrap_or_else(|| {
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
        let mut kinds = self.kinds.iter().filter(|kind| kind.group == group);
        kinds.next().map(|kind| kind.strategy.routing())
    }

    /// The kinds of one group and version, by plural.
    pub(crate) fn version(&self, group: &str, version: &str) -> Vec<&Arc<Kind>> {
        let mut kinds: Vec<_> =
            self.kinds.iter().filter(|kind| kind.group == group && kind.version == version).collect();
        kinds.sort_by_key(|kind| &kind.plural);
        kinds
    }

    /// Whether a version of a group is built in. Nothing that a definition adds to it is served: its paths are taken.
    pub(crate) fn is_built_in(&self, group: &str, version: &str) -> bool {
        self.kinds.iter().any(|kind| kind.origin() == Origin::BuiltIn && kind.group == group && kind.version == version)
    }

    /// Puts the versions of one custom resource in place of those of the same group and plural; none removes it. Versions that are
    /// built in stay as they are.
    pub(crate) fn replace_custom(&mut self, resource: &GroupResource, kinds: Vec<Kind>) {
        let is_it = |kind: &Kind| kind.group == resource.group && kind.plural == resource.resource;
        self.kinds.retain(|kind| kind.origin() == Origin::BuiltIn || !is_it(kind));
        let added: Vec<_> = kinds.into_iter().filter(|kind| !self.is_built_in(&kind.group, &kind.version)).collect();
        self.kinds.extend(added.into_iter().map(Arc::new));
        self.kinds.sort_by(|a, b| match (a.origin(), b.origin()) {
            (Origin::Custom, Origin::Custom) => (&a.group, &a.plural).cmp(&(&b.group, &b.plural)),
            (a, b) => a.cmp(&b),
        });
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
