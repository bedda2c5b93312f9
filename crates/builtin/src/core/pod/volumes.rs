//! Validates a pod's volumes.

use std::collections::{HashMap, HashSet};

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, annotation_key_errors, name_errors};
use pintle_json::Json;
use pintle_kinds::check::Check;
use pintle_kinds::label_selector::label_errors;
use pintle_schema::quantity;

use super::{SpecOwner, file_path, projected, volume_plugins};
use crate::core::persistent_volume_claim;

/// The valid volumes of a pod, by name.
pub(super) type Volumes<'a> = HashMap<&'a str, &'a Json>;

const VOLUME_SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];
const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

pub(super) fn errors<'a>(spec: &'a Json, path: &str, owner: SpecOwner<'_>) -> (FieldErrors, Volumes<'a>) {
    let (mut errors, mut good) = (FieldErrors::default(), Volumes::new());
    let made: HashSet<String> = match owner {
        SpecOwner::Pod(pod) if !pod.is_empty() => {
            let own = spec.list("/volumes").filter(|volume| volume.has("/ephemeral"));
            own.map(|volume| format!("{pod}-{}", volume.text("/name"))).collect()
        }
        _ => HashSet::new(),
    };
    for (at, volume) in spec.list("/volumes").enumerate() {
        if errors.is_full() {
            break;
        }
        let path = format!("{path}.volumes[{at}]");
        let name = volume.text("/name");
        let of_volume = Check::at(volume, &path)
            .also(source(volume, &path, owner))
            .required_name("name", NameRule::Label)
            .duplicate_if(good.contains_key(name), "name", &name.into())
            .done();
        if of_volume.is_empty() {
            good.insert(name, volume);
        }
        errors.extend(of_volume);
        let claim = volume.text("/persistentVolumeClaim/claimName");
        if made.contains(claim) {
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            errors.push(FieldError::invalid_text(format!("{path}.persistentVolumeClaim.claimName"), claim, why));
        }
    }
    (errors, good)
}

fn source(volume: &Json, path: &str, owner: SpecOwner<'_>) -> FieldErrors {
    let mut sources = VOLUME_SOURCES.iter().filter(|source| volume.has(&format!("/{source}")));
    let Some(first) = sources.next() else {
        return FieldErrors::from([FieldError::required(path, "must specify a volume type")]);
    };
    let mut errors = of_source(volume, first, path, owner);
    for more in sources {
        // kube-apiserver's errors use other names for some volume fields.
        let field = match *more {
            "cephfs" => "cephFS",
            "downwardAPI" => "downwarAPI",
            other => other,
        };
        errors.push(FieldError::forbidden(format!("{path}.{field}"), "may not specify more than 1 volume type"));
    }
    errors
}

fn of_source(volume: &Json, source: &str, path: &str, owner: SpecOwner<'_>) -> FieldErrors {
    let object = &volume[source];
    let field = format!("{path}.{source}");
    let check = Check::at(object, &field);
    match source {
        "emptyDir" => {
            let limit = object.text("/sizeLimit");
            let negative = quantity::nanos(limit).is_some_and(|nanos| nanos < 0);
            let why = "SizeLimit field must be a valid resource quantity";
            check.forbidden_if(negative, "sizeLimit", why).done()
        }
        "hostPath" => host_path(object, &field),
        "gitRepo" => check
            .required("repository")
            .also(file_path::relative(object.text("/directory"), &format!("{field}.directory")))
            .done(),
        "secret" => {
            file_path::mode(check.required("secretName"), "defaultMode").also(projected::items(object, &field)).done()
        }
        "configMap" => {
            file_path::mode(check.required("name"), "defaultMode").also(projected::items(object, &field)).done()
        }
        "persistentVolumeClaim" => check.required("claimName").done(),
        "downwardAPI" => {
            // As in kube-apiserver, errors about items contain the path of the source, without an item
            // index.
            let items = object.list("/items").flat_map(|item| projected::downward_file(item, &field));
            file_path::mode(check, "defaultMode").also(items).done()
        }
        "projected" => file_path::mode(check, "defaultMode").also(projected::sources(object, &field)).done(),
        "ephemeral" => ephemeral(volume, path, owner),
        "image" => {
            let named = matches!(owner, SpecOwner::Template) || !object.text("/reference").is_empty();
            check
                .required_if(!named, "reference", "")
                .required_one_of("pullPolicy", &["Always", "IfNotPresent", "Never"])
                .done()
        }
        plugin => volume_plugins::of_volume(volume, plugin, path),
    }
}

pub(crate) fn host_path(object: &Json, field: &str) -> FieldErrors {
    let check = Check::at(object, field).required("path");
    match object.text("/path") {
        "" => check.done(),
        path => check.also(file_path::descending(path, &format!("{field}.path"))).known("type", HOST_PATH_TYPES).done(),
    }
}

pub(crate) fn template_metadata_errors(metadata: &Json, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    for (key, _) in metadata.members("/annotations") {
        let why = annotation_key_errors(key);
        errors.extend(why.iter().map(|why| FieldError::invalid_text(format!("{path}.annotations"), key, why)));
    }
    errors.extend(label_errors(metadata, "/labels", &format!("{path}.labels")));
    // As in kube-apiserver, the errors contain the names of the Go fields.
    let is_set = |key: &str| match &metadata[key] {
        Json::Null => false,
        Json::Number(number) => key != "generation" || number.as_i64() != Some(0),
        Json::String(text) => !text.is_empty(),
        _ => true,
    };
    let refused = NOT_IN_TEMPLATE.iter().filter(|key| is_set(key));
    let names = refused.map(|key| if *key == "uid" { "uID" } else { *key });
    errors.extend(names.map(|name| FieldError::forbidden(format!("{path}.{name}"), "cannot be set")));
    errors
}

const NOT_IN_TEMPLATE: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

fn ephemeral(volume: &Json, path: &str, owner: SpecOwner<'_>) -> FieldErrors {
    let field = format!("{path}.ephemeral");
    let Some(template) = volume.at("/ephemeral/volumeClaimTemplate").filter(|template| !template.is_null()) else {
        return FieldErrors::from([FieldError::required(format!("{field}.volumeClaimTemplate"), "")]);
    };
    let spec = format!("{field}.volumeClaimTemplate.spec");
    let mut errors = template_metadata_errors(&template["metadata"], &format!("{field}.volumeClaimTemplate.metadata"));
    errors.extend(persistent_volume_claim::spec_errors(&template["spec"], &spec));
    let name = volume.text("/name");
    if let (SpecOwner::Pod(pod), false) = (owner, name.is_empty()) {
        let claim = format!("{pod}-{name}");
        let why = if pod.is_empty() { Vec::new() } else { name_errors(NameRule::Subdomain, &claim, false) };
        errors.extend(
            why.iter().map(|why| {
                FieldError::invalid_text(format!("{path}.name"), name, format!("PVC name {claim:?}: {why}"))
            }),
        );
    }
    errors
}
