//! Validates resource quantities.

use pintle_apimachinery::validate::{FieldError, FieldErrors, qualified_name_faults};
use pintle_schema::quantity;

const WHOLE_UNIT: i128 = 1_000_000_000;

/// The resources whose quantities must be integers.
const WHOLE: &[&str] = &[
    "pods",
    "quotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

pub(super) fn quantity_errors(field: &str, name: &str, amount: &str) -> FieldErrors {
    let nanos = quantity::nanos(amount).unwrap_or(0);
    let mut errors = FieldErrors::default();
    errors.invalid_text_if(nanos < 0, field, amount, "must be greater than or equal to 0");
    if (WHOLE.contains(&name) || is_extended(name)) && nanos % WHOLE_UNIT != 0 {
        errors.push(FieldError::invalid_text(field, amount, "must be an integer"));
    }
    errors
}

pub(super) fn basic_amount_error(field: &str, amount: &str) -> Option<FieldError> {
    let nanos = quantity::nanos(amount)?;
    // As in Go, first round a fractional quantity away from zero.
    let whole = i64::try_from(nanos.div_euclid(WHOLE_UNIT)).unwrap_or(i64::MIN);
    (whole < 0).then(|| FieldError::invalid(field, &whole.into(), "must be a valid resource quantity"))
}

/// Reports a huge page quantity that is not a multiple of the page size in the resource name.
pub(super) fn page_error(field: &str, name: &str, amount: &str) -> Option<FieldError> {
    let page = name.strip_prefix("hugepages-")?;
    let page = quantity::nanos(page).filter(|page| *page > 0 && page % WHOLE_UNIT == 0);
    let fits = page.is_some_and(|page| quantity::nanos(amount).unwrap_or(0) % page == 0);
    let why = format!("{amount} is not positive integer multiple of {name}");
    (!fits).then(|| FieldError::invalid_text(field, amount, why))
}

/// Validates a resource name in the status of a claim. The name must be `storage` or have a domain outside of
/// Kubernetes.
pub(super) fn resource_key_errors(field: &str, name: &str) -> FieldErrors {
    let why = qualified_name_faults(name);
    if why.is_empty() && is_native(name) && name != "storage" {
        FieldErrors::from([FieldError::unsupported(field, &name.into(), &["storage"])])
    } else {
        why.iter().map(|why| FieldError::invalid_text(field, name, why)).collect()
    }
}

pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(super) fn is_extended(name: &str) -> bool {
    let as_quota = format!("requests.{name}");
    !is_native(name) && !name.starts_with("requests.") && qualified_name_faults(&as_quota).is_empty()
}
