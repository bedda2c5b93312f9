//! APIServices: each version of a group that definitions serve has one, and each says whether it is available.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pintle_json::{Json, json};
use tokio::time::Instant;

use super::{Controller, all, options};
use crate::crd;
use crate::failure::Failure;
use crate::kinds::{Kind, Place};
use crate::registry::Writer;
use crate::registry::{Registry, Wish};
use crate::request::Part;
use crate::request::options::DeleteOptions;
use crate::store::{Change, Key, Range, Stored, key};

const GROUP: &str = "apiregistration.k8s.io";
const RESOURCE: &str = "apiservices.apiregistration.k8s.io";
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const SERVICES: &str = "services";
const SLICES: &str = "endpointslices.discovery.k8s.io";
const MANAGER: &str = "kube-apiserver";
/// Those that come and go with definitions are labelled so, `true`; what a server makes at its start is `onstart`.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Looks after them.
#[derive(Debug, Default)]
pub(super) struct ApiServices {
    /// Whether one of them stands for a Service: then what becomes of Services counts.
    has_remote: bool,
    /// What each definition serves, by its key, and the revision at which it was read.
    known: HashMap<Key, (u64, Vec<GroupVersion>)>,
}

/// A group and a version of it.
type GroupVersion = (String, String);

impl Controller for ApiServices {
    const OF: Option<&'static [&'static str]> = Some(&[RESOURCE, DEFINITIONS, SERVICES, SLICES]);

    fn observe(&mut self, change: &Change) -> bool {
        self.has_remote || ![SERVICES, SLICES].contains(&&*change.resource)
    }

    async fn work(&mut self, registry: &Arc<Registry>, _: u64) -> Option<Instant> {
        // Those of another cluster are for that to look after.
        if registry.db.is_mirror() {
            return None;
        }
        let kinds = registry.kinds();
        let kind = kinds.group_kind(GROUP, "APIService")?;
        let served = self.served(registry);
        let name = |(group, version): &GroupVersion| format!("{version}.{group}");
        for served in served.iter().filter(|served| registry.db.get(RESOURCE, &name(served)).is_none()) {
            told(&name(served), create(registry, kind, served));
        }
        let served: BTreeSet<_> = served.iter().map(name).collect();
        self.has_remote = false;
        for (name, stored) in all(registry, RESOURCE) {
            if stored.labels().value(AUTOMANAGED) == Some("true") && !served.contains(&*name) {
                let gone = registry.delete(&Place::new(kind.clone(), "", &name), &DeleteOptions::default());
                told(&name, gone.map(drop));
                continue;
            }
            let object = stored.only(&["spec.service", "status"]);
            let service = object.at("/spec/service").filter(|service| !service.is_null());
            self.has_remote |= service.is_some();
            if service.is_some() || object.list("/status/conditions").next().is_none() {
                told(&name, say(registry, kind, &name, &object, &Available::of(registry, service)));
            }
        }
        None
    }
}

impl ApiServices {
    /// The versions that definitions serve, in an order that is the same in each run. Only definitions that have changed are read.
    fn served(&mut self, registry: &Registry) -> BTreeSet<GroupVersion> {
        let mut known = std::mem::take(&mut self.known);
        for (key, stored) in all(registry, DEFINITIONS) {
            let kept = known.remove(&key).filter(|(at, _)| *at == stored.revision());
            self.known.insert(key, kept.unwrap_or_else(|| (stored.revision(), versions(&stored))));
        }
        self.known.values().flat_map(|(_, versions)| versions).cloned().collect()
    }
}

/// What a definition serves.
fn versions(definition: &Stored) -> Vec<GroupVersion> {
    let definition = definition.decode();
    if !crd::is_established(&definition) {
        return Vec::new();
    }
    let served = definition.list("/spec/versions").filter(|version| version["served"] == true);
    let group = definition.text("/spec/group");
    served.map(|version| (group.to_owned(), version.text("/name").to_owned())).collect()
}

fn create(registry: &Registry, kind: &Arc<Kind>, (group, version): &GroupVersion) -> Result<(), Failure> {
    let object = json!({
        "metadata": {"name": format!("{version}.{group}"), "labels": {AUTOMANAGED: "true"}},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 100},
    });
    let options = options();
    let by = Writer::new(&options, MANAGER, registry.clock.now_text());
    registry.create(&Place::new(kind.clone(), "", ""), object, &by).map(drop)
}

/// Whether requests for a version can be served, and why.
struct Available {
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Available {
    /// Of a version that is served by a Service, or else by this server.
    fn of(registry: &Registry, service: Option<&Json>) -> Self {
        let Some(service) = service else {
            let message = "Local APIServices are always available".into();
            return Self { status: "True", reason: "Local", message };
        };
        let (namespace, name) = (service.text("/namespace"), service.text("/name"));
        let port = service.integer("/port").unwrap_or(443);
        let not = |reason, message| Self { status: "False", reason, message };
        let place = format!("service/{name} in {namespace:?}");
        let Some(found) = registry.db.get(SERVICES, &key(namespace, name)) else {
            return not("ServiceNotFound", format!("{place} is not present"));
        };
        let found = found.only(&["spec.type", "spec.ports"]);
        if found.text("/spec/type") == "ClusterIP" {
            if !found.list("/spec/ports").any(|known| known.integer("/port") == Some(port)) {
                return not("ServicePortError", format!("{place} is not listening on port {port}"));
            }
            let mut slices = registry.db.objects_of(SLICES, &Range::namespace(Some(namespace)));
            if !slices.any(|(_, slice)| slice.labels().value("kubernetes.io/service-name") == Some(name)) {
                return not("EndpointsNotFound", format!("cannot find endpointslices for {place}"));
            }
        }
        let why = "failing or missing response: this server passes no requests on to others".into();
        not("FailedDiscoveryCheck", why)
    }
}

/// Writes whether one is available, unless it says so.
fn say(
    registry: &Arc<Registry>,
    kind: &Arc<Kind>,
    name: &str,
    object: &Json,
    available: &Available,
) -> Result<(), Failure> {
    let now = registry.clock.now_text();
    let Available { status, reason, message } = available;
    let set = |object: &mut Json| crd::set_condition(object, "Available", status, reason, message, &now);
    if !set(&mut object.clone()) {
        return Ok(());
    }
    let make = |live: Option<&Json>| {
        let mut new = live.cloned().unwrap_or_default();
        set(&mut new);
        Ok(new)
    };
    let options = options();
    let by = Writer::new(&options, MANAGER, now.clone());
    let place = Place { part: Part::Status, ..Place::new(kind.clone(), "", name) };
    registry.update(&place, &Wish::Patch(&make), &by).map(drop)
}

fn told(name: &str, done: Result<(), Failure>) {
    if let Err(failure) = done {
        tracing::debug!(%name, message = failure.status.message, "an APIService could not be written");
    }
}
