//! Validates references to the fields and resources of a pod, for example in the downward API.

use pintle_apimachinery::validate::{FieldError, FieldErrors, annotation_key_errors, label_key_faults};
use pintle_json::Json;
use pintle_kinds::check::Check;
use pintle_schema::quantity;

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const DIVISORS: &[&str] = &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
/// The pod fields that the downward API can refer to. A path that is not in this list causes an error about an
/// unknown field label.
const LABELS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

pub(super) fn field(source: &Json, path: &str, fields: &[&str]) -> FieldErrors {
    let check = Check::at(source, path).required("apiVersion");
    if source.text("/apiVersion").is_empty() {
        return check.done();
    }
    let field = source.text("/fieldPath");
    let subscript = field
        .strip_suffix(']')
        .and_then(|field| field.split_once("['"))
        .and_then(|(path, key)| key.strip_suffix('\'').map(|key| (path, key)));
    let (name, key) = subscript.map_or((field, None), |(name, key)| (name, Some(key)));
    let known = if key.is_some() {
        name == "metadata.labels" || name == "metadata.annotations"
    } else {
        LABELS.contains(&name)
    };
    let version = source.text("/apiVersion");
    let check = check.required("fieldPath").refuse(!field.is_empty() && version != "v1", || {
        let why = format!("error converting fieldPath: unsupported pod version: {version}");
        FieldError::invalid_text("fieldPath", field, why)
    });
    if field.is_empty() || version != "v1" {
        return check.done();
    }
    let why = match key {
        Some(key) if name == "metadata.labels" => label_key_faults(key),
        Some(key) if name == "metadata.annotations" => annotation_key_errors(key),
        _ => Vec::new(),
    };
    let key = match name {
        "metadata.annotations" => key.map(str::to_lowercase).unwrap_or_default(),
        _ => key.unwrap_or_default().to_owned(),
    };
    check
        .also(why.iter().map(|why| FieldError::invalid_text(path, &key, why)))
        .refuse(!known, || {
            let why = format!("error converting fieldPath: field label not supported: {field}");
            FieldError::invalid_text("fieldPath", field, why)
        })
        .unsupported_if(known && subscript.is_none() && !fields.contains(&name), "fieldPath", &name.into(), fields)
        .done()
}

/// Validates a `resourceFieldRef`. In a volume, the reference must contain the name of the container.
pub(super) fn resource(source: &Json, path: &str, of_volume: bool) -> FieldErrors {
    let resource = source.text("/resource");
    let huge = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    let divisor = source.text("/divisor");
    let zero = quantity::nanos(divisor).is_none_or(|nanos| nanos == 0);
    let canonical = quantity::canonical(divisor).unwrap_or_default();
    let (units, of): (&[&str], _) = match resource.split_once('.').map_or("", |(_, name)| name) {
        "cpu" => (&["1m", "1"], "cpu"),
        "memory" => (DIVISORS, "memory"),
        "ephemeral-storage" => (DIVISORS, "local ephemeral storage"),
        _ if huge => (DIVISORS, "hugepages"),
        _ => (&[], ""),
    };
    let supported = if of == "cpu" { "1m and 1".to_owned() } else { DIVISORS.join(", ") };
    let check = Check::at(source, path);
    let check = match () {
        () if of_volume && source.text("/containerName").is_empty() => check.required("containerName"),
        () if huge => check,
        () => check.required_one_of("resource", RESOURCES),
    };
    check
        .refuse(!zero && !units.is_empty() && !units.contains(&canonical.as_str()), || {
            let why = format!("only divisor's values {supported} are supported with the {of} resource");
            FieldError::invalid_text("divisor", resource, why)
        })
        .done()
}
