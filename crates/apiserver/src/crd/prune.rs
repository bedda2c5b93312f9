//! Removes the fields of a custom resource that its schema does not know.

use pintle_json::{Json, Map};

use super::at::At;
use super::structural::{Additional, Structural};
use pintle_store::{METADATA, OBJECT};

const OWNER: &[&str] = &["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
const MANAGED: &[&str] = &["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];

/// Takes what the schema does not know from a custom resource; answers the paths of what went, as far as they are told: of its
/// own metadata first, of embedded ones last, each sorted.
pub(crate) fn prune(schema: &Structural, object: &mut Json) -> Vec<String> {
    let mut gone = Gone::default();
    resource(schema, object, At::Start(""), &mut gone);
    gone.paths.iter_mut().for_each(|paths| paths.sort());
    gone.paths.concat()
}

/// The paths of what went, by where it stood. Each may be as long as the object.
#[derive(Default)]
struct Gone {
    paths: [Vec<String>; 3],
    told: usize,
}

/// Where something stood, in the order in which it is told.
#[derive(Clone, Copy)]
enum Stood {
    Metadata,
    Object,
    EmbeddedMetadata,
}

/// So many bytes of paths are told.
const MOST_PATHS_TOLD: usize = 4 << 20;

impl Gone {
    fn tell(&mut self, stood: Stood, path: At<'_>) {
        if self.told < MOST_PATHS_TOLD {
            let path = String::from(path);
            self.told += size_of::<String>() + path.len();
            self.paths[stood as usize].push(path);
        }
    }
}

/// Takes what the schema does not know from a part of a resource.
pub(crate) fn prune_value(schema: &Structural, value: &mut Json) {
    self::value(schema, value, At::Start(""), &mut Gone::default());
}

/// Takes what no metadata has from that of the objects in a value.
pub(crate) fn prune_embedded(schema: &Structural, value: &mut Json) {
    match value {
        Json::Object(members) => {
            if schema.embedded
                && let Some(Json::Object(metadata)) = members.get_mut("metadata")
            {
                prune_metadata(metadata, Stood::EmbeddedMetadata, At::Start(""), &mut Gone::default());
            }
            for (key, member) in members.iter_mut() {
                if let Some(schema) = schema.member(key) {
                    prune_embedded(schema, member);
                }
            }
        }
        Json::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter_mut().for_each(|item| prune_embedded(schema, item));
            }
        }
        _ => {}
    }
}

/// The same for all defaults of a schema, so that none of it comes into an object by them.
pub(super) fn prune_defaults(schema: &mut Structural) {
    if let Some(mut default) = schema.default.take() {
        prune_embedded(schema, &mut default);
        schema.default = Some(default);
    }
    if let Some(of_metadata) = schema.properties.get_mut("metadata").filter(|_| schema.embedded) {
        of_metadata.keep_defaults(|name| METADATA.contains(&name));
        if let Some(Json::Object(metadata)) = &mut of_metadata.default {
            prune_metadata(metadata, Stood::EmbeddedMetadata, At::Start(""), &mut Gone::default());
        }
    }
    let additional = match &mut schema.additional {
        Some(Additional::Schema(schema)) => Some(&mut **schema),
        _ => None,
    };
    schema.properties.values_mut().chain(schema.items.as_deref_mut()).chain(additional).for_each(prune_defaults);
}

/// Whether [`prune`] would take anything away.
pub(crate) fn is_pruned(schema: &Structural, object: &Json) -> bool {
    resource_is_pruned(schema, object)
}

fn resource(schema: &Structural, object: &mut Json, path: At<'_>, gone: &mut Gone) {
    let Some(members) = object.as_object_mut() else { return };
    if let Some(Json::Object(metadata)) = members.get_mut("metadata") {
        prune_metadata(metadata, Stood::Metadata, path.member("metadata"), gone);
    }
    prune_members(schema, members, path, gone, true);
}

fn prune_metadata(metadata: &mut Map, stood: Stood, path: At<'_>, gone: &mut Gone) {
    keep(metadata, &METADATA, stood, path, gone);
    for (key, known) in [("ownerReferences", OWNER), ("managedFields", MANAGED)] {
        let Some(Json::Array(items)) = metadata.get_mut(key) else { continue };
        for (at, item) in items.iter_mut().enumerate() {
            if let Json::Object(item) = item {
                keep(item, known, stood, path.member(key).item(at), gone);
            }
        }
    }
}

fn keep(members: &mut Map, known: &[&str], stood: Stood, path: At<'_>, gone: &mut Gone) {
    members.retain(|key, _| {
        let stays = known.contains(&key.as_str());
        if !stays {
            gone.tell(stood, path.member(key));
        }
        stays
    });
}

fn value(schema: &Structural, value: &mut Json, path: At<'_>, gone: &mut Gone) {
    match value {
        Json::Object(members) if schema.embedded => {
            if let Some(Json::Object(metadata)) = members.get_mut("metadata") {
                prune_metadata(metadata, Stood::EmbeddedMetadata, path.member("metadata"), gone);
            }
            prune_members(schema, members, path, gone, true);
        }
        Json::Object(members) => prune_members(schema, members, path, gone, false),
        Json::Array(items) => {
            if let Some(schema) = &schema.items {
                for (at, item) in items.iter_mut().enumerate() {
                    self::value(schema, item, path.item(at), gone);
                }
            } else if !schema.preserve_unknown {
                // Without a schema of the items nothing in them is known.
                let nothing = Structural::default();
                for (at, item) in items.iter_mut().enumerate() {
                    self::value(&nothing, item, path.item(at), gone);
                }
            }
        }
        _ => {}
    }
}

fn prune_members(schema: &Structural, members: &mut Map, path: At<'_>, gone: &mut Gone, is_resource: bool) {
    members.retain(|key, member| {
        if is_resource && OBJECT.contains(&key.as_str()) {
            return true;
        }
        match schema.member(key) {
            Some(schema) => value(schema, member, path.member(key), gone),
            None if schema.preserve_unknown || schema.knows(key) => {}
            None => {
                gone.tell(Stood::Object, path.member(key));
                return false;
            }
        }
        true
    });
}

fn resource_is_pruned(schema: &Structural, object: &Json) -> bool {
    let Some(members) = object.as_object() else { return true };
    metadata_is_pruned(members) && members_are_pruned(schema, members, true)
}

fn metadata_is_pruned(members: &Map) -> bool {
    let metadata = members["metadata"].as_object();
    metadata.is_none_or(|metadata| metadata.keys().all(|key| METADATA.contains(&key.as_str())))
}

fn members_are_pruned(schema: &Structural, members: &Map, is_resource: bool) -> bool {
    members.iter().all(|(key, member)| match schema.member(key) {
        _ if is_resource && OBJECT.contains(&key.as_str()) => true,
        Some(schema) => value_is_pruned(schema, member),
        None => schema.preserve_unknown || schema.knows(key),
    })
}

fn value_is_pruned(schema: &Structural, value: &Json) -> bool {
    match value {
        Json::Object(members) if schema.embedded => {
            metadata_is_pruned(members) && members_are_pruned(schema, members, true)
        }
        Json::Object(members) => members_are_pruned(schema, members, false),
        Json::Array(items) => match &schema.items {
            Some(schema) => items.iter().all(|item| value_is_pruned(schema, item)),
            None => {
                let nothing = Structural::default();
                schema.preserve_unknown || items.iter().all(|item| value_is_pruned(&nothing, item))
            }
        },
        _ => true,
    }
}
