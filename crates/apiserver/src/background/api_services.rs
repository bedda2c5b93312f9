//! Creates an APIService for each group version that a CustomResourceDefinition
//! serves, and maintains the `Available` condition of all APIServices.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pintle_apimachinery::failure::Failure;
use pintle_apimachinery::object::{key, set_condition};
use pintle_apimachinery::request::options::DeleteOptions;
use pintle_apimachinery::request::user::User;
use pintle_apimachinery::request::{Requester, Subresource};
use pintle_builtin::api_service::RESOURCE;
use pintle_json::{Json, json};
use pintle_kinds::writer::{OWN_MANAGER, Writer};
use pintle_kinds::{Kind, RequestTarget};
use pintle_storage::{Change, Key, Range, Stored};
use tokio::time::Instant;

use super::{Controller, all, options};
use crate::registry::{Registry, UpdateSource};

const REGISTRATION_GROUP: &str = "apiregistration.k8s.io";
const SERVICES: &str = "services";
const SLICES: &str = "endpointslices.discovery.k8s.io";
/// The label of managed APIServices. The label has the value `true` in the APIService of a custom resource, and
/// `onstart` in a built-in APIService.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

const SERVICE_OUTLINE: &[&str] = &["metadata", "spec.service", "status"];

/// Maintains APIServices, whose names consist of a version and a group, such as `v1.example.com`. A change triggers a
/// reconcile of the affected APIServices only.
#[derive(Debug, Default)]
pub(super) struct ApiServices {
    definitions: BTreeSet<Key>,
    due: BTreeSet<String>,
    known: HashMap<Key, Vec<String>>,
    served: HashMap<String, usize>,
    /// The APIServices that refer to a Service. A change to a Service triggers a reconcile of only these APIServices.
    remote: BTreeSet<String>,
}

impl Controller for ApiServices {
    const RESOURCES: Option<&'static [&'static str]> =
        Some(&[RESOURCE, pintle_apiextensions::DEFINITIONS, SERVICES, SLICES]);

    fn observe(&mut self, change: &Change) -> bool {
        match &**change.resource() {
            pintle_apiextensions::DEFINITIONS => drop(self.definitions.insert(change.key.clone())),
            RESOURCE => drop(self.due.insert(change.key.to_string())),
            _ => self.due.extend(self.remote.iter().cloned()),
        }
        !self.definitions.is_empty() || !self.due.is_empty()
    }

    fn resync(&mut self, registry: &Registry) {
        self.definitions.extend(self.known.keys().cloned());
        self.definitions.extend(all(registry, pintle_apiextensions::DEFINITIONS).map(|(key, _)| key));
        self.due.extend(all(registry, RESOURCE).map(|(key, _)| key.to_string()));
    }

    async fn work(&mut self, registry: &Arc<Registry>, _: u64) -> Option<Instant> {
        let (definitions, mut due) = (std::mem::take(&mut self.definitions), std::mem::take(&mut self.due));
        // In a plan, the upstream cluster maintains its own APIServices.
        if registry.db.is_mirror() {
            return None;
        }
        let kinds = registry.kinds();
        let kind = kinds.group_kind(REGISTRATION_GROUP, "APIService")?;
        for key in definitions {
            let new = registry
                .db
                .get(pintle_apiextensions::DEFINITIONS, &key)
                .map(|stored| versions(&stored))
                .unwrap_or_default();
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
        due.iter().for_each(|name| self.reconcile(registry, kind, name));
        None
    }
}

impl ApiServices {
    fn reconcile(&mut self, registry: &Arc<Registry>, kind: &Arc<Kind>, name: &str) {
        let is_served = self.served.contains_key(name);
        self.remote.remove(name);
        if is_served && registry.db.get(RESOURCE, name).is_none() {
            log_failure(name, create(registry, kind, name));
        }
        let Some(stored) = registry.db.get(RESOURCE, name) else { return };
        if stored.labels().value(AUTOMANAGED) == Some("true") && !is_served {
            let by = Requester::new(User::server());
            let gone = registry.delete(&RequestTarget::new(kind.clone(), "", name), &DeleteOptions::default(), &by);
            return log_failure(name, gone.map(drop));
        }
        let object = stored.only(SERVICE_OUTLINE);
        let service = object.at("/spec/service").filter(|service| !service.is_null());
        if service.is_some() {
            self.remote.insert(name.to_owned());
        }
        log_failure(name, update_condition(registry, kind, name, &object, &Available::of(registry, service)));
    }
}

fn versions(definition: &Stored) -> Vec<String> {
    let definition = definition.decode();
    if !pintle_apiextensions::is_established(&definition) {
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

struct Available {
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Available {
    /// Determines the availability of a group version. If `service` is `None`, this server serves the group version.
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
        let why = "failing or missing response: this server does not proxy requests to other servers".into();
        not("FailedDiscoveryCheck", why)
    }
}

/// Updates the `Available` condition if it is outdated. If the APIService has changed since it was read, the write
/// fails, and that change triggers another reconcile.
fn update_condition(
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

fn log_failure(name: &str, done: Result<(), Failure>) {
    if let Err(failure) = done {
        tracing::debug!(%name, error = failure.status.message, "cannot write an APIService");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ApiServerConfig;

    #[test]
    fn stale_api_service_gets_no_condition() {
        let registry = Arc::new(Registry::new(ApiServerConfig::default(), None));
        let kinds = registry.kinds();
        let (kind, name) = (kinds.group_kind(REGISTRATION_GROUP, "APIService").expect("a built-in kind"), "v1.e.com");
        create(&registry, kind, name).expect("absent");
        let read = || registry.db.get(RESOURCE, name).expect("an existing object").only(SERVICE_OUTLINE);
        let old = read();
        let (options, target) = (options(), RequestTarget::new(kind.clone(), "", name));
        let by = Writer::new(&options, OWN_MANAGER, registry.clock.now_text());
        let make = |live: Option<&Json>| {
            let mut new = live.cloned().unwrap_or_default();
            new["spec"].set("service", json!({"namespace": "default", "name": "s"}));
            Ok(new)
        };
        registry.update(&target, &UpdateSource::Patch(&make), &by).expect("a valid object");
        let available = Available::of(&registry, Some(&json!({"namespace": "default", "name": "s"})));
        let update = |object: &Json| update_condition(&registry, kind, name, object, &available);
        assert!(update(&old).is_err(), "it refers to a Service now");
        assert!(update(&read()).is_ok());
        assert_eq!(read()["status"]["conditions"][0]["reason"], "ServiceNotFound");
    }
}
