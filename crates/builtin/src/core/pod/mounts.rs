//! Validates a container's volume mounts and volume devices.

use std::collections::{HashMap, HashSet};

use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::check::Check;

use super::file_path;
use super::volumes::Volumes;

pub(super) fn errors(container: &Json, path: &str, volumes: &Volumes<'_>) -> FieldErrors {
    mounts(container, path, volumes).and(devices(container, path, volumes))
}

fn paths_by_name<'a>(container: &'a Json, list: &str, place: &str) -> HashMap<&'a str, &'a str> {
    container.list(list).map(|item| (item.text("/name"), item.text(place))).collect()
}

fn mounts(container: &Json, path: &str, volumes: &Volumes<'_>) -> FieldErrors {
    let devices = paths_by_name(container, "/volumeDevices", "/devicePath");
    let device_paths: HashSet<&str> = devices.values().copied().collect();
    let list = format!("{path}.volumeMounts");
    let mut seen = HashSet::new();
    let duplicates: Vec<bool> =
        container.list("/volumeMounts").map(|mount| !seen.insert(mount.text("/mountPath"))).collect();
    let all = Check::at(container, path).each("volumeMounts", |mount, at| {
        let object = mount.object();
        let (name, place) = (object.text("/name"), object.text("/mountPath"));
        let (sub, expression) = (object.text("/subPath"), object.text("/subPathExpr"));
        mount
            .required("name")
            .not_found_if(!volumes.contains_key(name), "name", name)
            .required("mountPath")
            .invalid_text_if(duplicates[at], "mountPath", place, "must be unique")
            .invalid_text_if(devices.contains_key(name), "name", name, "must not already exist in volumeDevices")
            .refuse(device_paths.contains(place), || {
                FieldError::invalid_text("mountPath", place, "must not already exist as a path in volumeDevices")
            })
            .also(file_path::relative(sub, &format!("{list}.subPath")))
            .refuse(!expression.is_empty() && !sub.is_empty(), || {
                let why = "subPathExpr and subPath are mutually exclusive";
                FieldError::invalid_text("subPathExpr", expression, why)
            })
            .also(file_path::relative(expression, &format!("{list}.subPathExpr")))
            .also(propagation(container, object, &list))
    });
    all.done()
}

/// Validates mount propagation and recursive read-only mounts. As in kube-apiserver, the error paths for mount
/// propagation do not contain the list index.
fn propagation(container: &Json, mount: &Json, list: &str) -> FieldErrors {
    let privileged = container.is_true("/securityContext/privileged");
    let both = mount.text("/mountPropagation") == "Bidirectional" && !privileged;
    let check = Check::at(mount, list)
        .known("mountPropagation", &["Bidirectional", "HostToContainer", "None"])
        .refuse(both, || {
            let why = "Bidirectional mount propagation is available only to privileged containers";
            FieldError::forbidden("mountPropagation", why)
        })
        .known("recursiveReadOnly", &["Disabled", "Enabled", "IfPossible"]);
    if !matches!(mount.text("/recursiveReadOnly"), "Enabled" | "IfPossible") {
        return check.done();
    }
    check
        .forbidden_if(!mount.is_true("/readOnly"), "recursiveReadOnly", "may only be specified when readOnly is true")
        .refuse(mount.get("mountPropagation").is_some_and(|way| !way.is_null() && way != "None"), || {
            let why = "may only be specified when mountPropagation is None or not specified";
            FieldError::forbidden("recursiveReadOnly", why)
        })
        .done()
}

fn devices(container: &Json, path: &str, volumes: &Volumes<'_>) -> FieldErrors {
    let mounts = paths_by_name(container, "/volumeMounts", "/mountPath");
    let mount_paths: HashSet<&str> = mounts.values().copied().collect();
    let (mut errors, mut names, mut seen) = (FieldErrors::default(), HashSet::new(), HashSet::new());
    for (at, device) in container.list("/volumeDevices").enumerate() {
        let (name, place) = (device.text("/name"), device.text("/devicePath"));
        let volume = volumes.get(name);
        let of_claim = |volume: &&Json| volume.has("/persistentVolumeClaim") || volume.has("/ephemeral");
        let upwards = !file_path::descending(place, "").is_empty();
        let check = Check::at(device, &format!("{path}.volumeDevices[{at}]"))
            .required("name")
            .invalid_text_if(names.contains(name), "name", name, "must be unique")
            .refuse(volume.is_some_and(|volume| !of_claim(volume)), || {
                let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                FieldError::invalid_text("name", name, why)
            })
            .not_found_if(volume.is_none(), "name", name)
            .required("devicePath")
            .invalid_text_if(seen.contains(place), "devicePath", place, "must be unique")
            .invalid_text_if(upwards, "devicePath", place, "can not contain backsteps ('..')")
            .invalid_text_if(mounts.contains_key(name), "name", name, "must not already exist in volumeMounts")
            .refuse(mount_paths.contains(place), || {
                FieldError::invalid_text("devicePath", place, "must not already exist as a path in volumeMounts")
            });
        if !upwards {
            seen.insert(place);
        }
        if !name.is_empty() {
            names.insert(name);
        }
        errors.extend(check.done());
    }
    errors
}
