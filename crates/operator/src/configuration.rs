//! The JSON configuration that a controller applies.

use pintle_controller::ReconcileError;
use pintle_meta::{ApiResource, DynamicObject, ObjectKey, OwnerReference, Resource, Scope};
use serde::Serialize;
use serde_json::{Map, Value};

const SERVER_FIELDS: [&str; 7] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "uid",
];

/// Returns the configuration for applying `child`, and the key of `child`. If `child` has no namespace, it gets the
/// owner's `namespace`. If `owner` is `None`, this function adds no owner reference.
pub(crate) fn of_child<T: Resource + Serialize>(
    child: &T,
    namespace: Option<&str>,
    owner: Option<&OwnerReference>,
) -> Result<(ObjectKey, Value), ReconcileError> {
    configure(&T::api_resource(), child, namespace, owner, &["name"])
}

/// Like [`of_child`], for a child of a resource that is only known at run time.
pub(crate) fn of_dynamic_child(
    resource: &ApiResource,
    child: &DynamicObject,
    namespace: Option<&str>,
    owner: &OwnerReference,
) -> Result<(ObjectKey, Value), ReconcileError> {
    configure(resource, child, namespace, Some(owner), &["name"])
}

/// Like [`of_child`], but returns the configuration for creating `child`, which may have a `generateName` instead of
/// a name. For a child with a `generateName`, the name in the key is the `generateName`.
pub(crate) fn of_new_child<T: Resource + Serialize>(
    child: &T,
    namespace: Option<&str>,
    owner: &OwnerReference,
) -> Result<(ObjectKey, Value), ReconcileError> {
    configure(&T::api_resource(), child, namespace, Some(owner), &["name", "generateName"])
}

/// Returns the configuration of `child`, and the key of `child`. `names` contains the names of metadata fields, and
/// the first non-empty field becomes the name in the key.
fn configure(
    resource: &ApiResource,
    child: &impl Serialize,
    namespace: Option<&str>,
    owner: Option<&OwnerReference>,
    names: &[&str],
) -> Result<(ObjectKey, Value), ReconcileError> {
    let kind = &resource.kind;
    let mut configuration = match serde_json::to_value(child) {
        Ok(Value::Object(members)) => members,
        Ok(_) => return Err(ReconcileError::terminal(format!("the type of {kind} does not serialize as an object"))),
        Err(error) => return Err(ReconcileError::terminal(format!("cannot serialize {kind}: {error}"))),
    };
    remove_nulls(&mut configuration);
    configuration.insert("apiVersion".into(), resource.group_version.to_string().into());
    configuration.insert("kind".into(), kind.as_str().into());
    let Some(Value::Object(metadata)) = configuration.get_mut("metadata") else {
        return Err(ReconcileError::terminal(format!("{kind} to apply has no metadata")));
    };
    SERVER_FIELDS.iter().for_each(|field| _ = metadata.remove(*field));
    let key = key_of(resource, metadata, namespace, names)?;
    if let Some(owner) = owner {
        check_owner(kind, &key, namespace, owner)?;
        add_owner(metadata, owner).map_err(|why| {
            ReconcileError::terminal(format!("{} {:?} cannot own {kind} {key:?}: {why}", owner.kind, owner.name))
        })?;
    }
    Ok((key, Value::Object(configuration)))
}

pub(crate) fn of_status<K: Resource>(key: &ObjectKey, status: &impl Serialize) -> Result<Value, ReconcileError> {
    let encoded = serde_json::to_value(status);
    let mut status = encoded
        .map_err(|error| ReconcileError::terminal(format!("cannot serialize the status of {}: {error}", K::KIND)))?;
    if let Value::Object(members) = &mut status {
        remove_nulls(members);
    }
    let mut metadata = Map::from_iter([("name".to_owned(), key.name().into())]);
    if let Some(namespace) = key.namespace() {
        metadata.insert("namespace".into(), namespace.into());
    }
    Ok(serde_json::json!({"apiVersion": K::API_VERSION, "kind": K::KIND, "metadata": metadata, "status": status}))
}

/// Removes null fields, which most types serialize for missing values. If a null were applied, the controller would
/// own the field.
fn remove_nulls(members: &mut Map<String, Value>) {
    members.retain(|_, value| !value.is_null());
    members.values_mut().for_each(remove_nulls_below);
}

fn remove_nulls_below(value: &mut Value) {
    match value {
        Value::Object(members) => remove_nulls(members),
        Value::Array(items) => items.iter_mut().for_each(remove_nulls_below),
        _ => {}
    }
}

/// Returns the key of an object. Sets the namespace to `namespace` if the object's metadata has no namespace.
fn key_of(
    resource: &ApiResource,
    metadata: &mut Map<String, Value>,
    namespace: Option<&str>,
    names: &[&str],
) -> Result<ObjectKey, ReconcileError> {
    let kind = &resource.kind;
    let text = |metadata: &Map<String, Value>, name: &str| {
        metadata.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let name = names.iter().map(|member| text(metadata, member)).find(|name| !name.is_empty());
    let name =
        name.ok_or_else(|| ReconcileError::terminal(format!("{kind} to apply has no name; set `metadata.name`")))?;
    if resource.scope == Scope::Cluster {
        metadata.remove("namespace");
        return Ok(ObjectKey::cluster(&name));
    }
    let mut own = text(metadata, "namespace");
    if own.is_empty() {
        let default = namespace.ok_or_else(|| {
            let why = "it has no namespace, and its owner is cluster-scoped; set `metadata.namespace`";
            ReconcileError::terminal(format!("cannot apply {kind} {name:?}: {why}"))
        })?;
        own = default.to_owned();
        metadata.insert("namespace".into(), default.into());
    }
    Ok(ObjectKey::new(&own, &name))
}

/// Checks that a child is in its owner's namespace, if the owner has one. The garbage collector deletes a child whose
/// owner is in another namespace.
fn check_owner(
    kind: &str,
    key: &ObjectKey,
    namespace: Option<&str>,
    owner: &OwnerReference,
) -> Result<(), ReconcileError> {
    if namespace.is_none() || key.namespace() == namespace {
        return Ok(());
    }
    let (owner, child) = (format!("{} {:?}", owner.kind, owner.name), format!("{kind} {key:?}"));
    let why = "an owner must be cluster-scoped or in the namespace of the child";
    Err(ReconcileError::terminal(format!("{owner} cannot own {child}: {why}; use `apply_unowned` and a finalizer")))
}

/// Adds the reference to the owner. Returns an error if another owner controls the child, because API servers reject a
/// child with two controllers.
fn add_owner(metadata: &mut Map<String, Value>, owner: &OwnerReference) -> Result<(), String> {
    let mut encoded = serde_json::to_value(owner).map_err(|error| error.to_string())?;
    let owners = metadata.entry("ownerReferences").or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(owners) = owners else { return Ok(()) };
    let mut others = owners.iter().filter(|present| present["uid"] != owner.uid);
    if let Some(other) = others.find(|other| owner.controller == Some(true) && other["controller"] == true) {
        return Err(format!("{} {} already controls it", other["kind"].as_str().unwrap_or_default(), other["name"]));
    }
    if owners.iter().any(|present| present["uid"] == owner.uid && present["controller"] == true) {
        return Ok(());
    }
    match owners.iter_mut().find(|present| present["uid"] == owner.uid) {
        None => owners.push(encoded),
        // Without the field, the child would have no controller.
        Some(present) => {
            if let Some(blocks) = present.get("blockOwnerDeletion").filter(|blocks| blocks.is_boolean()) {
                encoded["blockOwnerDeletion"] = blocks.clone();
            }
            *present = encoded;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pintle_meta::ObjectMeta;
    use serde_json::json;

    use super::*;

    #[derive(Serialize)]
    struct ConfigMap {
        metadata: ObjectMeta,
        data: Option<Value>,
    }
    pintle_meta::resource!(ConfigMap, "v1", "ConfigMap", "configmaps", Namespaced);

    #[derive(Serialize)]
    struct Namespace {
        metadata: ObjectMeta,
    }
    pintle_meta::resource!(Namespace, "v1", "Namespace", "namespaces", Cluster);

    fn owner() -> OwnerReference {
        OwnerReference { kind: "Website".into(), name: "blog".into(), uid: "u".into(), ..OwnerReference::default() }
    }

    fn map(namespace: &str, name: &str) -> ConfigMap {
        let metadata =
            ObjectMeta { uid: "old".into(), resource_version: "7".into(), ..ObjectMeta::new(namespace, name) };
        ConfigMap { metadata, data: None }
    }

    #[test]
    fn child_gets_kind_namespace_and_owner() {
        let (key, configuration) = of_child(&map("", "web"), Some("team-a"), Some(&owner())).unwrap();
        assert_eq!(key, ObjectKey::new("team-a", "web"));
        let owner = json!({"apiVersion": "", "kind": "Website", "name": "blog", "uid": "u"});
        let metadata = json!({"name": "web", "namespace": "team-a", "ownerReferences": [owner]});
        assert_eq!(configuration, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}));
    }

    #[test]
    fn plain_reference_to_the_owner_is_replaced() {
        let controller = OwnerReference { controller: Some(true), ..owner() };
        let other = OwnerReference { uid: "other".into(), ..owner() };
        let mut child = map("", "web");
        for plain in [None, Some(false)].map(|controller| OwnerReference { controller, ..owner() }) {
            child.metadata.owner_references = vec![plain, other.clone()];
            let (_, configuration) = of_child(&child, Some("team-a"), Some(&controller)).unwrap();
            assert_eq!(configuration["metadata"]["ownerReferences"], json!([controller, other]));
        }
        child.metadata.owner_references = vec![owner(), controller.clone()];
        let (_, configuration) = of_child(&child, Some("team-a"), Some(&controller)).unwrap();
        assert_eq!(configuration["metadata"]["ownerReferences"], json!([owner(), controller]), "it has one controller");
    }

    #[test]
    fn plain_reference_keeps_an_explicit_block_owner_deletion() {
        let controller = OwnerReference { controller: Some(true), block_owner_deletion: Some(true), ..owner() };
        let mut child = map("", "web");
        for (own, expected) in [(Some(false), false), (Some(true), true), (None, true)] {
            child.metadata.owner_references = vec![OwnerReference { block_owner_deletion: own, ..owner() }];
            let (_, configuration) = of_child(&child, Some("team-a"), Some(&controller)).unwrap();
            let expected = OwnerReference { block_owner_deletion: Some(expected), ..controller.clone() };
            assert_eq!(configuration["metadata"]["ownerReferences"], json!([expected]));
        }
    }

    /// The server would reject the child on each attempt.
    #[test]
    fn second_controller_of_a_child_is_a_terminal_error() {
        let controller = OwnerReference { controller: Some(true), ..owner() };
        let mut other = OwnerReference { uid: "other".into(), ..controller.clone() };
        other.name = "shop".into();
        let mut child = map("", "web");
        for own in [vec![], vec![owner()], vec![controller.clone()]] {
            child.metadata.owner_references = [own, vec![other.clone()]].concat();
            let error = of_child(&child, Some("team-a"), Some(&controller)).unwrap_err();
            assert!(error.is_terminal() && error.to_string().contains("\"shop\" already controls"), "{error}");
        }
        // The owner does not become the controller.
        child.metadata.owner_references = vec![other];
        assert!(of_child(&child, Some("team-a"), Some(&owner())).is_ok());
    }

    #[test]
    fn only_a_new_child_can_have_a_generated_name() {
        let metadata = ObjectMeta { generate_name: "job-".into(), ..ObjectMeta::new("", "") };
        let child = ConfigMap { metadata, data: None };
        let (key, configuration) = of_new_child(&child, Some("team-a"), &owner()).unwrap();
        assert_eq!(key, ObjectKey::new("team-a", "job-"));
        assert_eq!(configuration["metadata"]["generateName"], "job-");
        assert!(of_child(&child, Some("team-a"), Some(&owner())).unwrap_err().to_string().contains("has no name"));
    }

    #[test]
    fn nulls_are_removed_at_every_depth() {
        let child = ConfigMap { data: Some(json!({"a": null, "b": [{"c": null, "d": 1}]})), ..map("ns", "web") };
        let (_, configuration) = of_child(&child, None, None).unwrap();
        assert_eq!(configuration["data"], json!({"b": [{"d": 1}]}));
    }

    #[test]
    fn impossible_children_are_terminal_errors() {
        let namespace = Namespace { metadata: ObjectMeta::new("", "team-b") };
        for (error, expected) in [
            (of_child(&map("", ""), Some("ns"), None).unwrap_err(), "has no name"),
            (of_child(&map("", "web"), None, None).unwrap_err(), "its owner is cluster-scoped"),
            (of_child(&map("other", "web"), Some("ns"), Some(&owner())).unwrap_err(), "use `apply_unowned`"),
            (of_child(&namespace, Some("ns"), Some(&owner())).unwrap_err(), "use `apply_unowned`"),
        ] {
            assert!(error.is_terminal() && error.to_string().contains(expected), "{error}");
        }
        assert!(of_child(&namespace, Some("ns"), None).is_ok());
        assert!(of_child(&map("any", "web"), None, Some(&owner())).is_ok(), "a cluster-scoped owner");
    }
}
