//! A pod as the security standards look at it.

use std::collections::BTreeSet;

use pintle_json::Json;

/// A pod, or the template of one.
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

    /// All containers, in the order in which they are told.
    fn containers(&self) -> impl Iterator<Item = &'a Json> + use<'a> {
        let lists = ["/spec/initContainers", "/spec/containers", "/spec/ephemeralContainers"];
        let whole = self.whole;
        lists.into_iter().flat_map(move |pointer| whole.list(pointer))
    }

    /// The names of the containers that are meant.
    pub(super) fn those(&self, mut is_meant: impl FnMut(&Json) -> bool) -> Vec<&'a str> {
        self.containers().filter(|container| is_meant(container)).map(|container| container.text("/name")).collect()
    }

    /// Who has a security context that is meant, the pod or containers; none if nobody has. One that is left out is not asked about.
    pub(super) fn setters(&self, mut is_meant: impl FnMut(&Json) -> bool) -> Vec<String> {
        let mut has_it = |object: &Json, pointer: &str| object.at(pointer).is_some_and(&mut is_meant);
        let pod = has_it(self.whole, "/spec/securityContext").then(|| "pod".to_owned());
        let containers = self.those(|container| has_it(container, "/securityContext"));
        pod.into_iter().chain(named("container", &containers)).collect()
    }

    /// Who names a profile of another type than a container runtime's own or the node's; the types go to `types`.
    pub(super) fn setters_of_profile(&self, member: &str, types: &mut BTreeSet<String>) -> Vec<String> {
        self.setters(|context| {
            let Some(profile) = context.get(member).filter(|profile| !profile.is_null()) else { return false };
            let of_type = profile.text("/type");
            let is_bad = !is_good_profile(of_type);
            if is_bad {
                types.insert(of_type.to_owned());
            }
            is_bad
        })
    }

    /// The annotations, in their order.
    pub(super) fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let annotations = self.whole["metadata"]["annotations"].as_object();
        annotations.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }

    pub(super) fn is_for_windows(&self) -> bool {
        self.whole.text("/spec/os/name") == "windows"
    }

    /// Whether root in it is somebody else on the node.
    pub(super) fn has_own_users(&self) -> bool {
        self.whole.at("/spec/hostUsers") == Some(&Json::Bool(false))
    }
}

pub(super) fn is_good_profile(of_type: &str) -> bool {
    matches!(of_type, "RuntimeDefault" | "Localhost")
}

/// Whether there is a security context with something at a pointer in it.
pub(super) fn sets(container: &Json, pointer: &str) -> bool {
    container.get("securityContext").is_some_and(|context| context.has(pointer))
}

/// `container "a"` or `containers "a", "b"`; none of no names.
pub(super) fn named(what: &str, names: &[&str]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{} {}", plural(what, names.len()), quoted(names)))
}

pub(super) fn plural(what: &str, count: usize) -> String {
    if count == 1 { what.to_owned() } else { format!("{what}s") }
}

pub(super) fn uses(count: usize) -> &'static str {
    if count == 1 { "uses" } else { "use" }
}

/// `"a", "b"`.
pub(super) fn quoted<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    texts.into_iter().map(|text| format!("\"{}\"", text.as_ref())).collect::<Vec<_>>().join(", ")
}
