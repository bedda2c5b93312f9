//! APIServices: each version of a group that definitions serve has one, and each says whether it is available.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pintle_json::{Json, json};
use tokio::time::Instant;

use super::{Controller, all, options};
use crate::crd;
use crate::failure::Failure;
use crate::kinds::api_service::RESOURCE;
use crate::kinds::{Kind, RequestTarget};
use crate::object::set_condition;
use crate::registry::{OWN_MANAGER, Registry, UpdateSource, Writer};
use crate::request::options::DeleteOptions;
use crate::request::user::User;
use crate::request::{Requester, Subresource};
use crate::store::{Change, Key, Range, Stored, key};

const REGISTRATION_GROUP: &str = "apiregistration.k8s.io";
const SERVICES: &str = "services";
const SLICES: &str = "endpointslices.discovery.k8s.io";
/// Those that come and go with definitions are labelled so, `true`; what a server makes at its start is `onstart`.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// What is looked at of one.
const SERVICE_OUTLINE: &[&str] = &["metadata", "spec.service", "status"];

/// Looks after them. They are called by their version and group, `v1.example.com`, and only those are looked at that a change is about.
#[derive(Debug, Default)]
pub(super) struct ApiServices {
    /// The definitions that have changed.
    definitions: BTreeSet<Key>,
    /// What is to be looked at.
    due: BTreeSet<String>,
    /// What each definition serves, by its key.
    known: HashMap<Key, Vec<String>>,
    /// What definitions serve, and how many of them.
    served: HashMap<String, usize>,
    /// Those that stand for a Service: what becomes of Services counts for them.
    remote: BTreeSet<String>,
}

impl Controller for ApiServices {
    const OF: Option<&'static [&'static str]> = Some(&[RESOURCE, crd::DEFINITIONS, SERVICES, SLICES]);

    fn observe(&mut self, change: &Change) -> bool {
        match &**change.resource() {
            crd::DEFINITIONS => drop(self.definitions.insert(change.key.clone())),
            RESOURCE => drop(self.due.insert(change.key.to_string())),
            _ => self.due.extend(self.remote.iter().cloned()),
        }
        !self.definitions.is_empty() || !self.due.is_empty()
    }

    fn look_anew(&mut self, registry: &Registry) {
        self.definitions.extend(self.known.keys().cloned());
        self.definitions.extend(all(registry, crd::DEFINITIONS).map(|(key, _)| key));
        self.due.extend(all(registry, RESOURCE).map(|(key, _)| key.to_string()));
    }

    async fn work(&mut self, registry: &Arc<Registry>, _: u64) -> Option<Instant> {
        let (definitions, mut due) = (std::mem::take(&mut self.definitions), std::mem::take(&mut self.due));
        // Those of another cluster are for that to look after.
        if registry.db.is_mirror() {
            return None;
        }
        let kinds = registry.kinds();
        let kind = kinds.group_kind(REGISTRATION_GROUP, "APIService")?;
        for key in definitions {
            let new = registry.db.get(crd::DEFINITIONS, &key).map(|stored| versions(&stored)).unwrap_or_default();
            let old = self.known.remove(&key).unwrap_or_default();
            new.iter().for_each(|name| *self.served.entry(name.clone()).or_default() += 1);
            for name in &old {
                let left = self.served.get_mut(name).map_or(0, |count| {
                    *count -= 1;
                    *count
                });
                if left == 0 {
                    self.served.remove(name);
                }
            }
            due.extend(old.into_iter().chain(new.iter().cloned()));
            if !new.is_empty() {
                self.known.insert(key, new);
            }
        }
        due.iter().for_each(|name| self.look_at(registry, kind, name));
        None
    }
}

impl ApiServices {
    fn look_at(&mut self, registry: &Arc<Registry>, kind: &Arc<Kind>, name: &str) {
        let is_served = self.served.contains_key(name);
        self.remote.remove(name);
        if is_served && registry.db.get(RESOURCE, name).is_none() {
            told(name, create(registry, kind, name));
        }
        let Some(stored) = registry.db.get(RESOURCE, name) else { return };
        if stored.labels().value(AUTOMANAGED) == Some("true") && !is_served {
            let by = Requester::new(User::server());
            let gone = registry.delete(&RequestTarget::new(kind.clone(), "", name), &DeleteOptions::default(), &by);
            return told(name, gone.map(drop));
        }
        let object = stored.only(SERVICE_OUTLINE);
        let service = object.at("/spec/service").filter(|service| !service.is_null());
        if service.is_some() {
            self.remote.insert(name.to_owned());
        }
        told(name, say(registry, kind, name, &object, &Available::of(registry, service)));
    }
}

/// What a definition serves.
fn versions(definition: &Stored) -> Vec<String> {
    let definition = definition.decode();
    if !crd::is_established(&definition) {
        return Vec::new();
    }
    let served = definition.list("/spec/versions").filter(|version| version["served"] == true);
    let group = definition.text("/spec/group");
    served.map(|version| format!("{}.{group}", version.text("/name"))).collect()
}

fn create(registry: &Registry, kind: &Arc<Kind>, name: &str) -> Result<(), Failure> {
    let (version, group) = name.split_once('.').unwrap_or((name, ""));
    let object = json!({
        "metadata": {"name": name, "labels": {AUTOMANAGED: "true"}},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 100},
    });
    let options = options();
    let by = Writer::new(&options, OWN_MANAGER, registry.clock.now_text());
    registry.create(&RequestTarget::new(kind.clone(), "", ""), object, &by).map(drop)
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
        let target = format!("service/{name} in {namespace:?}");
        let Some(found) = registry.db.get(SERVICES, &key(namespace, name)) else {
            return not("ServiceNotFound", format!("{target} is not present"));
        };
        let found = found.only(&["spec.type", "spec.ports"]);
        if found.text("/spec/type") == "ClusterIP" {
            if !found.list("/spec/ports").any(|known| known.integer("/port") == Some(port)) {
                return not("ServicePortError", format!("{target} is not listening on port {port}"));
            }
            let mut slices = registry.db.objects_of(SLICES, &Range::namespace(Some(namespace)));
            if !slices.any(|(_, slice)| slice.labels().value("kubernetes.io/service-name") == Some(name)) {
                return not("EndpointsNotFound", format!("cannot find endpointslices for {target}"));
            }
        }
        let why = "failing or missing response: this server passes no requests on to others".into();
        not("FailedDiscoveryCheck", why)
    }
}

/// Writes whether one is available, unless it says so, or has changed since it was read: it is looked at again for that.
fn say(
    registry: &Arc<Registry>,
    kind: &Arc<Kind>,
    name: &str,
    object: &Json,
    available: &Available,
) -> Result<(), Failure> {
    let now = registry.clock.now_text();
    let Available { status, reason, message } = available;
    let condition = json!({"type": "Available", "status": status, "reason": reason, "message": message});
    let set = |object: &mut Json| set_condition(object, condition.clone(), &now);
    if !set(&mut object.clone()) {
        return Ok(());
    }
    let make = |live: Option<&Json>| {
        let mut new = live.cloned().unwrap_or_default();
        let version = "/metadata/resourceVersion";
        if new.text(version) != object.text(version) {
            return Err(Failure::modified(&kind.resource(), name));
        }
        set(&mut new);
        Ok(new)
    };
    let options = options();
    let by = Writer::new(&options, OWN_MANAGER, now.clone());
    let target = RequestTarget { subresource: Subresource::Status, ..RequestTarget::new(kind.clone(), "", name) };
    registry.update(&target, &UpdateSource::Patch(&make), &by).map(drop)
}

fn told(name: &str, done: Result<(), Failure>) {
    if let Err(failure) = done {
        tracing::debug!(%name, message = failure.status.message, "an APIService could not be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ApiServerConfig;

    #[test]
    fn an_api_service_is_said_to_be_available_only_as_it_was_read() {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let kinds = registry.kinds();
        let (kind, name) = (kinds.group_kind(REGISTRATION_GROUP, "APIService").expect("it is built in"), "v1.e.com");
        create(&registry, kind, name).expect("absent");
        let read = || registry.db.get(RESOURCE, name).expect("it is there").only(SERVICE_OUTLINE);
        let old = read();
        let (options, target) = (options(), RequestTarget::new(kind.clone(), "", name));
        let by = Writer::new(&options, OWN_MANAGER, registry.clock.now_text());
        let make = |live: Option<&Json>| {
            let mut new = live.cloned().unwrap_or_default();
            new["spec"].set("service", json!({"namespace": "default", "name": "s"}));
            Ok(new)
        };
        registry.update(&target, &UpdateSource::Patch(&make), &by).expect("it is valid");
        let said = |object: &Json| say(&registry, kind, name, object, &Available::of(&registry, None));
        assert!(said(&old).is_err(), "a Service stands for it by now");
        assert!(said(&read()).is_ok());
        assert_eq!(read()["status"]["conditions"][0]["reason"], "Local");
    }
}
