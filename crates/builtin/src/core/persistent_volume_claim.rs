//! The core `PersistentVolumeClaim` kind.

use pintle_apimachinery::cluster::{Cluster, Context};
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::object::{metadata, text};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule};
use pintle_json::{Json, json};
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;
use pintle_kinds::label_selector::selector_errors;
use pintle_kinds::table::{Cell, ComputedCells};
use pintle_meta::GroupResource;
use pintle_schema::quantity;

use super::{BETA_CLASS, add_finalizer, default_phase, mode_errors};
use crate::resource_quantities::{basic_amount_error, quantity_errors, resource_key_errors};
use crate::{default_class, warnings};
use jiff::Timestamp;

pub(crate) struct PersistentVolumeClaim;

const DEFAULT_STORAGE_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const SIZE: &str = "/spec/resources/requests/storage";

impl Strategy for PersistentVolumeClaim {
    fn warnings(&self, object: &Json, _: Option<&Json>, subresource: Subresource) -> Vec<String> {
        if subresource != Subresource::None {
            return Vec::new();
        }
        let mut found = Vec::new();
        if warnings::is_annotated(object, BETA_CLASS) {
            let why = "deprecated since v1.8; use \"storageClassName\" attribute instead";
            found.push(format!("metadata.annotations[{BETA_CLASS}]: {why}"));
        }
        found.extend(warnings::claim(&object["spec"], "spec"));
        found
    }

    fn defaults(&self, object: &mut Json) {
        if let Some(spec) = object.member("spec") {
            claim_spec(spec);
        }
        default_phase(object);
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        object.set("status", json!({"phase": "Pending"}));
        align_sources(object, &Json::Null);
    }

    fn prepare_for_update(&self, _: &Context<'_>, new: &mut Json, old: &Json, subresource: Subresource) {
        if subresource == Subresource::None {
            align_sources(new, old);
        }
    }

    fn stores_defaults_late(&self, _: &Json) -> bool {
        // kube-apiserver stores a new claim without a phase, and adds the phase when it reads the claim.
        true
    }

    fn admit(&self, cluster: &dyn Cluster, object: &mut Json, old: Option<&Json>, _: Subresource) -> Outcome<()> {
        if old.is_none() {
            add_finalizer(object, "kubernetes.io/pvc-protection");
            if class(object).is_none()
                && let Some(default) = default_class(cluster, &storage_classes(), &DEFAULT_STORAGE_CLASS)
            {
                object["spec"].set("storageClassName", default);
            }
        }
        Ok(())
    }

    fn validate_admitted(
        &self,
        cluster: &dyn Cluster,
        object: &Json,
        old: Option<&Json>,
        subresource: Subresource,
    ) -> Outcome<()> {
        match old {
            Some(old) if subresource == Subresource::None => check_growth(cluster, object, old),
            _ => Ok(()),
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        spec_errors(&object["spec"], "spec")
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        if subresource != Subresource::None {
            return status_errors(new);
        }
        let mut errors = self.validate_create(new);
        let fixed = |object: &Json| {
            let mut spec = object["spec"].clone();
            for key in ["storageClassName", "volumeName"] {
                if !old.has(&format!("/spec/{key}")) {
                    spec.unset(key);
                }
            }
            if new.text("/status/phase") == "Bound"
                && let Some(requests) = spec.at_mut("/resources/requests")
            {
                requests.unset("storage");
            }
            spec
        };
        let why =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.forbidden_if(fixed(new) != fixed(old), "spec", why);
        let present = amount(old, "/status/capacity/storage").unwrap_or(0);
        let (size, before) = (amount(new, SIZE).unwrap_or(0), amount(old, SIZE).unwrap_or(0));
        let why = "field can not be less than status.capacity";
        errors.forbidden_if(size < before && size <= present, "spec.resources.requests.storage", why);
        let mode = new.text("/spec/volumeMode");
        errors.invalid_text_if(mode != old.text("/spec/volumeMode"), "volumeMode", mode, "field is immutable");
        errors
    }

    fn read_kinds(&self, _: Subresource) -> &'static [(&'static str, &'static str)] {
        &[("", "LimitRange")]
    }

    fn computed_cells(&self) -> ComputedCells {
        &[("Capacity", Cell::Computed(capacity)), ("Access Modes", Cell::Timed(bound_access_modes))]
    }
}

fn capacity(claim: &Json) -> Json {
    match claim.text("/spec/volumeName") {
        "" => "".into(),
        // As in kube-apiserver, a missing capacity is shown as zero.
        _ => text(Some(claim.at("/status/capacity/storage").unwrap_or(&"0".into()))).into(),
    }
}

fn bound_access_modes(claim: &Json, now: Timestamp) -> Json {
    match claim.text("/spec/volumeName") {
        "" => "".into(),
        _ => Cell::AccessModes("/status/accessModes").of(claim, now),
    }
}

pub(crate) fn claim_spec(spec: &mut Json) {
    spec.set_default("resources", json!({}));
    spec.set_default("volumeMode", "Filesystem");
}

pub(crate) fn spec_errors(spec: &Json, path: &str) -> FieldErrors {
    let field = format!("{path}.resources[storage]");
    let amount = spec.at("/resources/requests/storage").and_then(Json::as_str);
    let none = spec.list("/accessModes").next().is_none();
    let (source, reference) = (&spec["dataSource"], &spec["dataSourceRef"]);
    let same = ["apiGroup", "kind", "name"].iter().all(|key| source.get(key) == reference.get(key));
    let elsewhere = !reference.text("/namespace").is_empty();
    let both = source.is_object() && reference.is_object();
    let why = if elsewhere {
        "may not be specified when dataSourceRef.namespace is specified"
    } else {
        "must match dataSourceRef"
    };
    let check = Check::at(spec, path)
        .required_if(none, "accessModes", "at least 1 access mode is required")
        .also(selector_errors(&spec["selector"], &format!("{path}.selector")))
        .also(mode_errors(spec, path));
    let check = match amount {
        None => check.also([FieldError::required(field, "")]),
        Some(amount) => check.also(
            quantity::nanos(amount)
                .filter(|nanos| *nanos <= 0)
                .map(|_| FieldError::invalid_text(field, amount, "must be greater than zero")),
        ),
    };
    check
        .name("storageClassName", NameRule::Subdomain)
        .known("volumeMode", &["Block", "Filesystem"])
        .inside("dataSource", source_errors)
        .inside("dataSourceRef", |reference| source_errors(reference).name("namespace", NameRule::Label))
        .refuse(both && (elsewhere || !same), || FieldError::invalid_text("", &format!("{path}.dataSource"), why))
        .name("volumeAttributesClassName", NameRule::Subdomain)
        .done()
}

fn source_errors(source: Check<'_>) -> Check<'_> {
    let object = source.object();
    let (group, kind) = (object.text("/apiGroup"), object.text("/kind"));
    source
        .required("name")
        .required("kind")
        .refuse(group.is_empty() && kind != "PersistentVolumeClaim", || {
            let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            FieldError::invalid_text("", kind, why)
        })
        .name("apiGroup", NameRule::Subdomain)
}

/// Synchronizes `dataSource` and `dataSourceRef`. Keeps a `dataSource` only if its kind is a claim or a snapshot.
fn align_sources(claim: &mut Json, old: &Json) {
    let has_spec_field = |object: &Json, key: &str| object.has(&format!("/spec/{key}"));
    let in_use = has_spec_field(old, "dataSource") || has_spec_field(old, "dataSourceRef");
    let source = claim.at("/spec/dataSource").cloned().unwrap_or_default();
    let known = match source.text("/apiGroup") {
        "" => source.text("/kind") == "PersistentVolumeClaim",
        group => group == "snapshot.storage.k8s.io" && source.text("/kind") == "VolumeSnapshot",
    };
    let reference = claim.at("/spec/dataSourceRef").cloned().unwrap_or_default();
    let Some(spec) = claim.get_mut("spec") else { return };
    let elsewhere = !reference.text("/namespace").is_empty();
    if elsewhere && !has_spec_field(old, "dataSourceRef") {
        spec.unset("dataSourceRef");
    }
    let reference = if elsewhere { Json::Null } else { reference };
    match (source.is_null(), reference.is_null()) {
        (false, true) if !known && !in_use && !elsewhere => spec.unset("dataSource"),
        (false, true) if !elsewhere => spec.set("dataSourceRef", source),
        (true, false) => spec.set("dataSource", reference),
        _ => {}
    }
}

fn storage_classes() -> GroupResource {
    GroupResource::new("storage.k8s.io", "storageclasses")
}

fn class(claim: &Json) -> Option<&str> {
    let annotated = claim.at("/metadata/annotations").and_then(|annotations| annotations.get(BETA_CLASS));
    annotated.or_else(|| claim.at("/spec/storageClassName")).and_then(Json::as_str)
}

fn amount(claim: &Json, path: &str) -> Option<i128> {
    quantity::nanos(claim.at(path)?.as_str()?)
}

/// Returns an error if the update increases the requested size but the storage class does not allow volume expansion.
fn check_growth(cluster: &dyn Cluster, new: &Json, old: &Json) -> Outcome<()> {
    if amount(new, SIZE) <= amount(old, SIZE) {
        return Ok(());
    }
    let class = class(new).filter(|name| !name.is_empty() && class(old) == Some(name));
    let class = class.and_then(|name| cluster.object(&storage_classes(), "", name));
    if class.is_some_and(|class| class["allowVolumeExpansion"] == true) {
        return Ok(());
    }
    let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
    Err(Failure::forbidden(&GroupResource::new("", "persistentvolumeclaims"), metadata::name(new), why))
}

fn status_errors(claim: &Json) -> FieldErrors {
    const ALLOCATED: &str = "status.allocatedResources";
    const STATUSES: &str = "status.allocatedResourceStatuses";
    const KNOWN: &[&str] = &[
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending",
    ];
    let mut errors = FieldErrors::default();
    for (name, amount) in claim.members("/status/capacity") {
        let amount = amount.as_str().unwrap_or_default();
        errors.extend(basic_amount_error(&format!("status.capacity[{name}]"), amount));
    }
    for (name, status) in claim.members("/status/allocatedResourceStatuses") {
        errors.extend(resource_key_errors(STATUSES, name));
        if !status.as_str().is_some_and(|status| KNOWN.contains(&status)) {
            errors.push(FieldError::unsupported(STATUSES, &Json::from(name.as_str()), KNOWN));
        }
    }
    for (name, amount) in claim.members("/status/allocatedResources") {
        let (field, amount) = (format!("{ALLOCATED}[{name}]"), amount.as_str().unwrap_or_default());
        let of_key = resource_key_errors(ALLOCATED, name);
        match basic_amount_error(&field, amount) {
            _ if !of_key.is_empty() => errors.extend(of_key),
            Some(error) => errors.push(error),
            None => errors.extend(quantity_errors(&field, "storage", amount)),
        }
    }
    errors
}
