//! The state of a run, which the checks compare with the states of other runs.

use std::collections::{BTreeMap, HashMap};

use pintle_apiserver::{ApiServer, ServerSnapshot};
use pintle_meta::GroupResource;
use serde_json::Value;

use crate::fields::{differences, hide_secrets, normalize, replace, short};

const SHOWN: usize = 20;

/// The state of a run: all objects on the server and the world outside of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    /// The objects by resource and key. Objects with the same `generateName` share a key, because generated names
    /// differ in each run.
    objects: BTreeMap<String, Vec<Value>>,
    world: Value,
}

/// A field that differs in each run, such as a generated password.
#[derive(Clone, Debug)]
pub(crate) struct IgnoredField {
    pub(crate) resource: GroupResource,
    /// The JSON pointer to the field.
    pub(crate) pointer: String,
}

impl IgnoredField {
    /// Replaces the value of the field, so that only its presence is compared.
    fn mask(&self, group_resource: &str, object: &mut Value) {
        if let Some(value) = object.pointer_mut(&self.pointer)
            && group_resource == self.resource.to_string()
        {
            *value = "[ignored]".into();
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Baseline(ServerSnapshot);

impl Baseline {
    pub(crate) fn of(server: &ApiServer) -> Self {
        Self(server.snapshot())
    }
}

struct Stored {
    /// The plural name and the API group, such as `websites.example.com`.
    group_resource: String,
    resource: String,
    key: String,
    object: Value,
}

impl State {
    pub(crate) fn of(server: &ApiServer, baseline: &Baseline, mut world: Value, ignored: &[IgnoredField]) -> Self {
        normalize(&mut world);
        let text = server.snapshot().since(&baseline.0).to_text();
        let stored: Vec<Stored> = text.lines().skip(1).filter_map(parse).collect();
        let names: HashMap<String, String> = stored.iter().flat_map(stable_names).collect();
        let mut objects = BTreeMap::<String, Vec<Value>>::new();
        for Stored { group_resource, resource, key, mut object } in stored {
            let is_generated = object.pointer("/metadata/generateName").is_some();
            hide_secrets(&resource, &mut object);
            ignored.iter().for_each(|field| field.mask(&group_resource, &mut object));
            normalize(&mut object);
            replace(&mut object, &|text| names.get(text).cloned());
            mask_unknown_owners(&mut object);
            sort_conditions(&mut object);
            let key = if is_generated { names.get(last(&key)).cloned().unwrap_or(key) } else { key };
            objects.entry(format!("{resource} {key}")).or_default().push(object);
        }
        for objects in objects.values_mut() {
            objects.sort_by_key(Value::to_string);
        }
        Self { objects, world }
    }

    pub(crate) fn differences(&self, expected: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut keys: Vec<_> = expected.objects.keys().chain(self.objects.keys()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let object_in = |state: &Self| state.objects.get(key).cloned().unwrap_or_default();
            let (wanted, present) = (object_in(expected), object_in(self));
            match (wanted.as_slice(), present.as_slice()) {
                ([wanted], [present]) => {
                    found.extend(
                        differences(Some(wanted), Some(present)).into_iter().map(|field| format!("{key}{field}")),
                    );
                }
                ([], [_]) => found.push(format!("{key}: exists, and must not exist")),
                ([], [_, ..]) => found.push(format!("{key}: exists {} times, and must not exist", present.len())),
                ([_, ..], []) => found.push(format!("{key}: does not exist")),
                _ if wanted.len() != present.len() => {
                    found.push(format!("{key}: exists {} times instead of {}", present.len(), wanted.len()));
                }
                _ if wanted != present => found.push(format!("{key}: the objects differ")),
                _ => {}
            }
        }
        if self.world != expected.world {
            found.push(format!("the world: {} -> {}", short(&expected.world), short(&self.world)));
        }
        let rest = found.len().saturating_sub(SHOWN);
        found.truncate(SHOWN);
        if rest > 0 {
            found.push(format!("and {rest} more"));
        }
        found
    }
}

/// Parses a line of a snapshot. Returns `None` for Leases and Events, because they are not part of the state.
fn parse(line: &str) -> Option<Stored> {
    let mut line: Value = serde_json::from_str(line).ok()?;
    // For custom resources, the name has the prefix `custom/`, which distinguishes a custom resource named `leases`.
    let resource = line["resource"].as_str()?;
    let group_resource = last(resource).to_owned();
    let resource = resource.split('.').next().unwrap_or_default().to_owned();
    if ["leases", "events"].contains(&resource.as_str()) {
        return None;
    }
    let key = line["key"].as_str()?.to_owned();
    Some(Stored { group_resource, resource, key, object: line["object"].take() })
}

/// Returns the uid and the generated name of an object, each with its replacement, because they differ in each run.
fn stable_names(stored: &Stored) -> Vec<(String, String)> {
    let text = |name: &str| stored.object["metadata"][name].as_str().map(str::to_owned);
    let generated = text("generateName").map(|prefix| format!("{prefix}[generated]"));
    let name = generated.clone().or_else(|| text("name")).unwrap_or_default();
    let uid = text("uid").map(|uid| (uid, format!("[uid of {} {name}]", stored.resource)));
    uid.into_iter().chain(text("name").zip(generated)).collect()
}

/// Masks the uids of owners that do not exist, because they are random.
fn mask_unknown_owners(object: &mut Value) {
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    for uid in owners.into_iter().flatten().filter_map(|owner| owner.get_mut("uid")) {
        if uid.as_str().is_some_and(|uid| !uid.starts_with('[')) {
            *uid = "[uid of no object]".into();
        }
    }
}

/// Sorts the conditions by type, because their order depends on which controller writes first.
fn sort_conditions(object: &mut Value) {
    if let Some(conditions) = object.pointer_mut("/status/conditions").and_then(Value::as_array_mut) {
        conditions.sort_by_key(|condition| condition["type"].to_string());
    }
}

fn last(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use pintle_apiserver::ApiServerConfig;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn order_of_conditions_is_no_difference() {
        let state = async |types: &[&str]| {
            let conditions: Vec<_> = types.iter().map(|name| json!({"type": name, "status": "True"})).collect();
            let status = json!({"conditions": conditions});
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status});
            let server = ApiServer::start(ApiServerConfig::default()).await.unwrap();
            let baseline = Baseline::of(&server);
            server.load(&node.to_string()).unwrap();
            State::of(&server, &baseline, Value::Null, &[])
        };
        let expected = state(&["Ready", "Backed"]).await;
        assert_eq!(state(&["Backed", "Ready"]).await.differences(&expected), Vec::<String>::new());
        assert_ne!(state(&["Ready"]).await.differences(&expected), Vec::<String>::new());
    }
}
