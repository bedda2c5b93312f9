//! Validates volume plugins in pod volumes and PersistentVolumes.

use std::sync::LazyLock;

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::Json;
use pintle_kinds::check::Check;
use regex::Regex;

static QUALIFIED: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"iqn\.\d{4}-\d{2}\.([[:alnum:]\-.]+)(:[^,;*&$|\s]+)$").ok());
const PARTITION: &str = "must be between 1 and 255, inclusive";
const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";

fn required_fields(plugin: &str) -> &'static [&'static str] {
    match plugin {
        "nfs" => &["server", "path"],
        "glusterfs" => &["endpoints", "path"],
        "rbd" => &["monitors", "image"],
        "cephfs" => &["monitors"],
        "cinder" | "portworxVolume" | "awsElasticBlockStore" => &["volumeID"],
        "flexVolume" => &["driver"],
        "azureFile" => &["secretName", "shareName"],
        "azureDisk" => &["diskName", "diskURI"],
        "vsphereVolume" => &["volumePath"],
        "photonPersistentDisk" => &["pdID"],
        "scaleIO" => &["gateway", "system", "volumeName"],
        "gcePersistentDisk" => &["pdName"],
        "storageos" => &["volumeName"],
        "iscsi" => &["targetPortal", "iqn"],
        _ => &[],
    }
}

pub(super) fn of_volume(volume: &Json, plugin: &str, path: &str) -> FieldErrors {
    let object = &volume[plugin];
    let mut errors = errors(object, plugin, path, false);
    if plugin == "iscsi" && object.has("/initiatorName") {
        let name = volume.text("/name");
        if name.len() + 1 + object.text("/targetPortal").len() > 64 {
            let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
            errors.push(FieldError::invalid_text(format!("{path}.name"), name, why));
        }
    }
    errors
}

/// Validates a volume plugin's source. `path` is the path of the parent field. `persists` is true for the source of a
/// PersistentVolume.
pub(crate) fn errors(object: &Json, plugin: &str, path: &str, persists: bool) -> FieldErrors {
    // kube-apiserver's errors about GCE disks contain a different field name.
    let field = format!("{path}.{}", if plugin == "gcePersistentDisk" { "persistentDisk" } else { plugin });
    let check = required_fields(plugin).iter().fold(Check::at(object, &field), |check, member| check.required(member));
    let text = |member: &str| object.text(&format!("/{member}"));
    let check = match plugin {
        "nfs" => check.refuse(!text("path").starts_with('/'), || {
            FieldError::invalid_text("path", text("path"), "must be an absolute path")
        }),
        "gcePersistentDisk" | "awsElasticBlockStore" => check.within("partition", 0, 255, PARTITION),
        "iscsi" => iscsi(object, check, persists),
        "fc" => fibre_channel(object, check),
        "flocker" => check
            .refuse(text("datasetName").is_empty() && text("datasetUUID").is_empty(), || {
                FieldError::required("", "one of datasetName and datasetUUID is required")
            })
            .refuse(!text("datasetName").is_empty() && !text("datasetUUID").is_empty(), || {
                FieldError::invalid_text(
                    "",
                    "resource",
                    "datasetName and datasetUUID can not be specified simultaneously",
                )
            })
            .refuse(text("datasetName").contains('/'), || {
                FieldError::invalid_text("datasetName", text("datasetName"), "must not contain '/'")
            }),
        "quobyte" => quobyte(object, check),
        "flexVolume" => object.members("/options").fold(check, |check, (key, _)| {
            let namespace =
                format!(".{}", key.split_once('/').map_or(key.as_str(), |(namespace, _)| namespace).to_lowercase());
            let reserved = namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io");
            check.refuse(reserved, || {
                let why = "kubernetes.io and k8s.io namespaces are reserved";
                FieldError::invalid_text(format!("options[{key}]"), key, why)
            })
        }),
        "azureDisk" => azure_disk(object, check),
        "glusterfs" if persists => match object.get("endpointsNamespace").and_then(Json::as_str) {
            Some("") => check.refuse(true, || {
                let why = "if the endpointnamespace is set, it must be a valid namespace name";
                FieldError::invalid_text("endpointsNamespace", "", why)
            }),
            _ => check.name("endpointsNamespace", NameRule::Label),
        },
        "azureFile" if persists => {
            check.required_if(object.get("secretNamespace").and_then(Json::as_str) == Some(""), "secretNamespace", "")
        }
        "cinder" => secret(object, check, persists),
        "storageos" => {
            let check = check.name("volumeName", NameRule::Label).name("volumeNamespace", NameRule::Label);
            secret(object, check, persists)
        }
        "csi" if !persists => csi(object, check),
        _ => check,
    };
    check.done()
}

pub(crate) fn driver_errors(name: &str, field: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
        return errors;
    }
    if name.len() > 63 {
        errors.push(FieldError::too_long(field, 63));
    }
    let why = name_errors(NameRule::Subdomain, &name.to_lowercase(), false);
    errors.extend(why.iter().map(|why| FieldError::invalid_text(field, name, why)));
    errors
}

fn secret<'a>(object: &'a Json, check: Check<'a>, persists: bool) -> Check<'a> {
    match (object.has("/secretRef"), persists) {
        (false, _) => check,
        (true, false) => check.required("secretRef.name"),
        (true, true) => check.required("secretRef.name").required("secretRef.namespace"),
    }
}

fn csi<'a>(object: &'a Json, check: Check<'a>) -> Check<'a> {
    let field = check.path("driver");
    let check = check.also(driver_errors(object.text("/driver"), &field));
    match object.text("/nodePublishSecretRef/name") {
        _ if !object.has("/nodePublishSecretRef") => check,
        "" => check.required("nodePublishSecretRef.name"),
        name => name_errors(NameRule::Subdomain, name, false)
            .iter()
            .fold(check, |check, why| check.invalid_text_if(true, "name", name, why)),
    }
}

/// Returns the reason why a string is not an iSCSI node name.
fn node_name(name: &str) -> Option<&'static str> {
    let of_digits = |rest: Option<&str>, digits: usize| {
        // Skip the separator, which can be any character, as in kube-apiserver.
        let rest = rest.map(|rest| rest.chars().skip(1).collect::<String>());
        rest.is_some_and(|rest| rest.len() == digits && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    };
    let good = match name.get(..3) {
        Some("iqn") => QUALIFIED.as_ref().is_none_or(|form| form.is_match(name)),
        Some("eui") => of_digits(name.strip_prefix("eui"), 16),
        Some("naa") => of_digits(name.strip_prefix("naa"), 32),
        _ => return Some("must be valid format starting with iqn, eui, or naa"),
    };
    (!good).then_some("must be valid format")
}

fn iscsi<'a>(object: &'a Json, check: Check<'a>, persists: bool) -> Check<'a> {
    let name = object.text("/iqn");
    let odd = if name.is_empty() { None } else { node_name(name) };
    let initiator = object.get("initiatorName").and_then(Json::as_str);
    let odd_initiator = initiator.and_then(node_name);
    let signs_in = object.is_true("/chapAuthDiscovery") || object.is_true("/chapAuthSession");
    let secret = object.has("/secretRef");
    check
        .invalid_text_if(odd.is_some(), "iqn", name, odd.unwrap_or_default())
        .within("lun", 0, 255, "must be between 0 and 255, inclusive")
        .required_if(signs_in && !secret, "secretRef", "")
        .required_if(persists && secret && object.text("/secretRef/name").is_empty(), "secretRef.name", "")
        .refuse(odd_initiator.is_some(), || {
            FieldError::invalid_text("initiatorname", initiator.unwrap_or_default(), odd_initiator.unwrap_or_default())
        })
}

fn fibre_channel<'a>(object: &'a Json, check: Check<'a>) -> Check<'a> {
    let some = |list: &str| object.list(list).next().is_some();
    let (names, ids) = (some("/targetWWNs"), some("/wwids"));
    let check = check
        .required_if(!names && !ids, "targetWWNs", "must specify either targetWWNs or wwids, but not both")
        .refuse(names && ids, || {
            let why = "targetWWNs and wwids can not be specified simultaneously";
            FieldError::invalid("targetWWNs", &object["targetWWNs"], why)
        })
        .required_if(names && !object.has("/lun"), "lun", "lun is required if targetWWNs is specified");
    if names { check.within("lun", 0, 255, "must be between 0 and 255, inclusive") } else { check }
}

fn quobyte<'a>(object: &'a Json, check: Check<'a>) -> Check<'a> {
    let (registry, tenant) = (object.text("/registry"), object.text("/tenant"));
    let is_pair =
        |pair: &str| pair.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
    let check = match () {
        () if registry.is_empty() => check.required_because("registry", PAIRS),
        () if tenant.len() >= 65 => check.refuse(true, || {
            FieldError::required("tenant", "must be a UUID and may not exceed a length of 64 characters")
        }),
        () => registry
            .split(',')
            .filter(|pair| !is_pair(pair))
            .fold(check, |check, _| check.invalid_text_if(true, "registry", registry, PAIRS)),
    };
    check.required("volume")
}

fn azure_disk<'a>(object: &'a Json, check: Check<'a>) -> Check<'a> {
    let (kind, uri) = (object.get("kind").and_then(Json::as_str), object.text("/diskURI"));
    let check = check
        .known("cachingMode", &["None", "ReadOnly", "ReadWrite"])
        .known("kind", &["Dedicated", "Managed", "Shared"]);
    let (begins, form) = match kind {
        None => return check,
        Some("Managed") => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        Some(_) => ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"),
    };
    check.unsupported_if(!uri.starts_with(begins), "diskURI", &uri.into(), &[form])
}
