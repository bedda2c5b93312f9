//! Looks up resources by name or kind. This module does no I/O.

use pintle_meta::{ApiResource, GroupVersionKind, GroupVersionResource};

use super::{DiscoveredResource, Known, MappingError};

pub(super) enum Wanted<'a> {
    /// A name in any form that kubectl accepts, such as `po`, `pods` or `deployments.apps`.
    Name(&'a str),
    Kind(&'a GroupVersionKind),
    Resource(&'a GroupVersionResource),
}

impl Known {
    pub(super) fn find(&self, wanted: &Wanted<'_>) -> Result<ApiResource, MappingError> {
        match wanted {
            Wanted::Name(name) => self.named(name),
            Wanted::Kind(kind) => self.one(&kind.to_string(), |entry| {
                let own = &entry.resource;
                own.kind == kind.kind
                    && own.group_version.group == kind.group
                    && (kind.version.is_empty() || own.group_version.version == kind.version)
            }),
            Wanted::Resource(resource) => self.one(&resource.to_string(), |entry| {
                let own = &entry.resource;
                own.plural == resource.resource
                    && own.group_version.group == resource.group
                    && (resource.version.is_empty() || own.group_version.version == resource.version)
            }),
        }
    }

    /// Tries all interpretations of `name` in the order of their precedence.
    fn named(&self, name: &str) -> Result<ApiResource, MappingError> {
        let lower = name.to_lowercase();
        let (own, place) = lower.split_once('.').map_or((lower.as_str(), None), |(own, place)| (own, Some(place)));
        let names: [fn(&DiscoveredResource, &str) -> bool; 2] = [is_called, has_short_name];
        let places: &[fn(&DiscoveredResource, &str) -> bool] = match place {
            None => &[|_, _| true],
            Some(_) => &[is_group, is_version_and_group, begins_group],
        };
        for is_named in names {
            for is_there in places {
                let fits =
                    |entry: &DiscoveredResource| is_named(entry, own) && is_there(entry, place.unwrap_or_default());
                match self.one(name, fits) {
                    Err(MappingError::NoMatch { .. }) => {}
                    found => return found,
                }
            }
        }
        self.one(name, |_| false)
    }

    /// Returns the only resource that `fits` accepts, in the server's preferred version, where the core group takes
    /// precedence.
    fn one(&self, name: &str, fits: impl Fn(&DiscoveredResource) -> bool) -> Result<ApiResource, MappingError> {
        let mut candidates: Vec<&ApiResource> = Vec::new();
        for entry in self.resources.iter().filter(|entry| fits(entry)) {
            // The server lists the preferred version first, so keep only the first version of each resource.
            if !candidates.iter().any(|other| other.group_resource() == entry.resource.group_resource()) {
                candidates.push(&entry.resource);
            }
        }
        if candidates.len() > 1 && candidates.iter().any(|candidate| candidate.group_version.group.is_empty()) {
            candidates.retain(|candidate| candidate.group_version.group.is_empty());
        }
        match &candidates[..] {
            [] => Err(MappingError::NoMatch { name: name.into(), missing: self.missing.clone() }),
            [only] => Ok((*only).clone()),
            several => {
                let candidates = several.iter().map(|candidate| (*candidate).clone()).collect();
                Err(MappingError::Ambiguous { name: name.into(), candidates })
            }
        }
    }
}

fn is_called(entry: &DiscoveredResource, name: &str) -> bool {
    let DiscoveredResource { resource, singular, .. } = entry;
    // Old servers do not send the singular names of built-in kinds.
    !name.is_empty() && (resource.plural == name || singular == name || resource.kind.to_lowercase() == name)
}

fn has_short_name(entry: &DiscoveredResource, name: &str) -> bool {
    entry.short_names.iter().any(|short| short == name)
}

fn is_group(entry: &DiscoveredResource, place: &str) -> bool {
    entry.resource.group_version.group == place
}

/// Returns `true` if `place` matches the version and the group of the resource. `place` has the form `v1.apps`, or `v1`
/// for the core group.
fn is_version_and_group(entry: &DiscoveredResource, place: &str) -> bool {
    let own = &entry.resource.group_version;
    let (version, group) = place.split_once('.').unwrap_or((place, ""));
    own.version == version && own.group == group
}

fn begins_group(entry: &DiscoveredResource, place: &str) -> bool {
    entry.resource.group_version.group.starts_with(place)
}

#[cfg(test)]
mod tests {
    use pintle_meta::{GroupVersion, Scope};
    use tokio::time::Instant;

    use super::*;

    fn known() -> Known {
        let entry = |api_version: &str, kind: &str, plural: &str, short: &str| DiscoveredResource {
            resource: ApiResource::new(api_version, kind, plural, Scope::Namespaced),
            singular: kind.to_lowercase(),
            short_names: short.split_terminator(' ').map(Into::into).collect(),
            categories: Vec::new(),
            verbs: Vec::new(),
            subresources: Vec::new(),
        };
        let resources = vec![
            entry("v1", "Pod", "pods", "po"),
            entry("v1", "Event", "events", "ev"),
            entry("v1", "Service", "services", "svc"),
            entry("apps/v1", "Deployment", "deployments", "deploy"),
            entry("events.k8s.io/v1", "Event", "events", "ev"),
            entry("metrics.k8s.io/v1beta1", "PodMetrics", "pods", ""),
            entry("a.example.com/v2", "Widget", "widgets", "w"),
            entry("a.example.com/v1", "Widget", "widgets", "w"),
            entry("a.example.com/v1", "Old", "olds", ""),
            entry("b.example.com/v1", "Widget", "widgets", "w pods"),
            entry("ksvc.dev/v1", "Service", "services", "ksvc"),
        ];
        Known { resources, missing: vec![GroupVersion::new("down.dev", "v1")], asked: Instant::now(), turn: 1 }
    }

    #[test]
    fn name_is_resolved_as_by_kubectl() {
        let known = known();
        for (name, expected) in [
            ("pods", "v1/pods"),
            ("pod", "v1/pods"),
            ("Pod", "v1/pods"),
            ("po", "v1/pods"),
            ("podmetrics", "metrics.k8s.io/v1beta1/pods"),
            ("pods.metrics.k8s.io", "metrics.k8s.io/v1beta1/pods"),
            ("pods.metrics", "metrics.k8s.io/v1beta1/pods"),
            ("pods.v1", "v1/pods"),
            ("pods.v1beta1.metrics.k8s.io", "metrics.k8s.io/v1beta1/pods"),
            ("deploy", "apps/v1/deployments"),
            ("deploy.apps", "apps/v1/deployments"),
            ("Deployment.v1.apps", "apps/v1/deployments"),
            ("events", "v1/events"),
            ("ev", "v1/events"),
            ("events.events.k8s.io", "events.k8s.io/v1/events"),
            ("services", "v1/services"),
            ("ksvc", "ksvc.dev/v1/services"),
            ("widgets.a.example.com", "a.example.com/v2/widgets"),
            ("w.b", "b.example.com/v1/widgets"),
            ("widgets.v1.a.example.com", "a.example.com/v1/widgets"),
            ("olds", "a.example.com/v1/olds"),
            ("events.", "v1/events"),
        ] {
            let found = known.find(&Wanted::Name(name)).map(|resource| resource.gvr().to_string());
            assert_eq!(found.as_deref().map_err(ToString::to_string), Ok(expected), "{name}");
        }
    }

    #[test]
    fn ambiguous_or_unknown_name_returns_a_typed_error() {
        let known = known();
        for name in ["widgets", "Widget", "w", "widget"] {
            let error = known.find(&Wanted::Name(name)).unwrap_err();
            let MappingError::Ambiguous { candidates, .. } = &error else { panic!("{name}: {error}") };
            assert_eq!(candidates.len(), 2, "{error}");
            assert!(error.to_string().contains("widgets.a.example.com, widgets.b.example.com"), "{error}");
        }
        for name in ["gadgets", "pods.v2", "pods.apps", "", ".", "pods..", "widgets.v3.a.example.com"] {
            let error = known.find(&Wanted::Name(name)).unwrap_err();
            assert!(matches!(error, MappingError::NoMatch { .. }), "{name}: {error}");
            assert!(error.to_string().contains("down.dev/v1 did not answer"), "{error}");
        }
    }

    #[test]
    fn kind_and_resource_lookups_respect_the_group() {
        let known = known();
        let kind = |group: &str, version: &str, kind: &str| {
            known.find(&Wanted::Kind(&GroupVersionKind::new(group, version, kind))).map(|found| found.gvr().to_string())
        };
        assert_eq!(kind("", "v1", "Pod").unwrap(), "v1/pods");
        assert_eq!(kind("a.example.com", "", "Widget").unwrap(), "a.example.com/v2/widgets");
        assert_eq!(kind("a.example.com", "v1", "Widget").unwrap(), "a.example.com/v1/widgets");
        assert!(matches!(kind("a.example.com", "v9", "Widget"), Err(MappingError::NoMatch { .. })));
        assert!(matches!(kind("", "v1", "Deployment"), Err(MappingError::NoMatch { .. })));
        let resource = |group: &str, version: &str, plural: &str| {
            known.find(&Wanted::Resource(&GroupVersionResource::new(group, version, plural))).map(|found| found.kind)
        };
        assert_eq!(resource("events.k8s.io", "", "events").unwrap(), "Event");
        assert!(matches!(resource("", "v1", "widgets"), Err(MappingError::NoMatch { .. })));
    }
}
