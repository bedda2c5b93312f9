//! The `APIService` kind in `apiregistration.k8s.io/v1`.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::object::condition;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::{Json, json};
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;
use pintle_kinds::table::{Cell, ComputedCells};
use pintle_store::Stored;

/// The store name of APIServices.
pub const RESOURCE: &str = "apiservices.apiregistration.k8s.io";

/// Returns the `service`, `group` and `version` of an APIService that delegates its requests to a Service. Returns
/// `None` for a local APIService.
pub fn delegated_spec(stored: &Stored) -> Option<Json> {
    let mut object = stored.only(&["spec.service", "spec.group", "spec.version"]);
    object.has("/spec/service").then(|| object["spec"].take())
}

pub(crate) struct ApiService;

impl Strategy for ApiService {
    /// Marks a new local APIService as available.
    fn prepare_for_create(&self, context: &Context<'_>, object: &mut Json) {
        if !object.has("/spec/service") {
            let available = json!({
                "type": "Available", "status": "True", "lastTransitionTime": context.time(),
                "reason": "Local", "message": "Local APIServices are always available",
            });
            object.set("status", json!({"conditions": [available]}));
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        errors(object)
    }

    fn validate_update(&self, new: &Json, _: &Json, subresource: Subresource) -> FieldErrors {
        if subresource == Subresource::Status { status_errors(new) } else { errors(new) }
    }

    fn computed_cells(&self) -> ComputedCells {
        &[("Service", Cell::Computed(service)), ("Available", Cell::Computed(available))]
    }
}

fn service(object: &Json) -> Json {
    if !object.has("/spec/service") {
        return "Local".into();
    }
    format!("{}/{}", object.text("/spec/service/namespace"), object.text("/spec/service/name")).into()
}

fn available(object: &Json) -> Json {
    let Some(available) = condition(object, "Available") else { return "Unknown".into() };
    match available.text("/status") {
        "True" => "True".into(),
        status => format!("{status} ({})", available.text("/reason")).into(),
    }
}

fn status_errors(object: &Json) -> FieldErrors {
    const KNOWN: &[&str] = &["True", "False", "Unknown"];
    let wrong = object.list("/status/conditions").enumerate().filter(|(_, one)| !KNOWN.contains(&one.text("/status")));
    wrong
        .map(|(at, one)| {
            let value = one.text("/status").into();
            FieldError::unsupported(format!("status.conditions[{at}].status"), &value, KNOWN)
        })
        .collect()
}

fn errors(object: &Json) -> FieldErrors {
    let spec = &object["spec"];
    let (group, version) = (spec.text("/group"), spec.text("/version"));
    let wanted = format!("{version}.{group}");
    let number = |field: &str| spec.integer(&format!("/{field}")).unwrap_or(0);
    let (has_bundle, insecure) = (!spec.text("/caBundle").is_empty(), spec["insecureSkipTLSVerify"] == true);
    let is_insecure = |why: &str| FieldError::invalid("spec.insecureSkipTLSVerify", &true.into(), why);
    let mut check = Check::of(object);
    for field in ["generateName", "name"] {
        let name = object.text(&format!("/metadata/{field}"));
        let is_wrong = !name.is_empty() && name != wanted && name_errors(NameRule::PathSegment, name, false).is_empty();
        let why = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        check = check.invalid_text_if(is_wrong, format!("metadata.{field}"), name, why);
    }
    check = check
        .refuse(group.is_empty() && version != "v1", || {
            FieldError::required("spec.group", "only v1 may have an empty group and it better be legacy kube")
        })
        .name("spec.group", NameRule::Subdomain);
    for why in name_errors(NameRule::Rfc1035Label, version, false) {
        check = check.invalid_text_if(true, "spec.version", version, why);
    }
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let number = number(field);
        check = check.refuse(!(1..=most).contains(&number), || {
            let why = format!("must be positive and less than {most}");
            FieldError::invalid(format!("spec.{field}"), &number.into(), why)
        });
    }
    if !spec.has("/service") {
        return check
            .refuse(has_bundle, || {
                let shown = format!("{} bytes", spec.text("/caBundle").len() / 4 * 3);
                FieldError::invalid_text("spec.caBundle", &shown, "local APIServices may not have a caBundle")
            })
            .refuse(insecure, || is_insecure("local APIServices may not have insecureSkipTLSVerify"))
            .done();
    }
    let port = spec.integer("/service/port").unwrap_or(0);
    check
        .required("spec.service.namespace")
        .required("spec.service.name")
        .refuse(!(1..=65535).contains(&port), || {
            let why = "port is not valid: must be between 1 and 65535, inclusive";
            FieldError::invalid("spec.service.port", &port.into(), why)
        })
        .refuse(insecure && has_bundle, || is_insecure("may not be true if caBundle is present"))
        .done()
}
