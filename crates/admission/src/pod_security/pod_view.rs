//! Reads the parts of a pod that the Pod Security Standards restrict.

use std::collections::BTreeSet;

use pintle_json::Json;

pub(super) struct PodView<'a> {
    pub(super) whole: &'a Json,
}

impl<'a> PodView<'a> {
    pub(super) fn new(whole: &'a Json) -> Self {
        Self { whole }
    }

    pub(super) fn volumes(&self) -> impl Iterator<Item = &'a Json> + use<'a> {
        self.whole.list("/spec/volumes")
    }

    /// Returns all containers in the order in which violation messages list them.
    fn containers(&self) -> impl Iterator<Item = &'a Json> + use<'a> {
        let lists = ["/spec/initContainers", "/spec/containers", "/spec/ephemeralContainers"];
        let whole = self.whole;
        lists.into_iter().flat_map(move |pointer| whole.list(pointer))
    }

    pub(super) fn container_names(&self, mut matches: impl FnMut(&Json) -> bool) -> Vec<&'a str> {
        self.containers().filter(|container| matches(container)).map(|container| container.text("/name")).collect()
    }

    /// Lists the pod and containers whose security contexts satisfy `matches`, for a violation message. Omits a pod or
    /// container without a security context.
    pub(super) fn describe_matching(&self, mut matches: impl FnMut(&Json) -> bool) -> Vec<String> {
        let mut has_it = |object: &Json, pointer: &str| object.at(pointer).is_some_and(&mut matches);
        let pod = has_it(self.whole, "/spec/securityContext").then(|| "pod".to_owned());
        let containers = self.container_names(|container| has_it(container, "/securityContext"));
        pod.into_iter().chain(named("container", &containers)).collect()
    }

    /// Describes the pod and the containers with a profile other than `RuntimeDefault` or `Localhost`. Adds the types
    /// of these profiles to `types`.
    pub(super) fn describe_restricted_profiles(&self, member: &str, types: &mut BTreeSet<String>) -> Vec<String> {
        self.describe_matching(|context| {
            let Some(profile) = context.get(member).filter(|profile| !profile.is_null()) else { return false };
            let of_type = profile.text("/type");
            let is_bad = !is_good_profile(of_type);
            if is_bad {
                types.insert(of_type.to_owned());
            }
            is_bad
        })
    }

    pub(super) fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let annotations = self.whole["metadata"]["annotations"].as_object();
        annotations.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }

    pub(super) fn is_for_windows(&self) -> bool {
        self.whole.text("/spec/os/name") == "windows"
    }

    pub(super) fn runs_in_user_namespace(&self) -> bool {
        self.whole.at("/spec/hostUsers") == Some(&Json::Bool(false))
    }
}

pub(super) fn is_good_profile(of_type: &str) -> bool {
    matches!(of_type, "RuntimeDefault" | "Localhost")
}

pub(super) fn sets(container: &Json, pointer: &str) -> bool {
    container.get("securityContext").is_some_and(|context| context.has(pointer))
}

/// Formats container names as `container "a"` or `containers "a", "b"`. Returns `None` if there are no names.
pub(super) fn named(what: &str, names: &[&str]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{} {}", plural(what, names.len()), quoted(names)))
}

pub(super) fn plural(what: &str, count: usize) -> String {
    if count == 1 { what.to_owned() } else { format!("{what}s") }
}

pub(super) fn uses(count: usize) -> &'static str {
    if count == 1 { "uses" } else { "use" }
}

pub(super) fn quoted<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    texts.into_iter().map(|text| format!("\"{}\"", text.as_ref())).collect::<Vec<_>>().join(", ")
}
