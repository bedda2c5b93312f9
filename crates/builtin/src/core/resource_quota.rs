//! The core `ResourceQuota` kind.

use crate::resource_quantities::is_extended;
use pintle_apimachinery::object::text;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, qualified_name_faults};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;
use pintle_kinds::table::{Cell, ComputedCells};
use pintle_schema::quantity;
use std::collections::{BTreeSet, HashMap};

const SCOPES: &[&str] = &[
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

const STANDARD: &[&str] = &[
    "configmaps",
    "count",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];

const COUNTED: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// The resources with separate quotas for requests and limits.
const REQUESTED: &[&str] = &["cpu", "memory", "storage", "ephemeral-storage"];

fn requests_above_limits(quota: &Json, resource: &str) -> Option<String> {
    let hard = quota.at("/spec/hard")?;
    let is_limited = |key: &String| hard.get(key).is_some();
    let bare = matches!(resource, "cpu" | "memory").then(|| resource.to_owned());
    let requests = Some(format!("requests.{resource}")).filter(is_limited).or(bare.filter(is_limited))?;
    let limits = format!("limits.{resource}");
    let (request, limit) = (hard.text(&format!("/{requests}")), hard.get(&limits)?.as_str()?);
    let (request, limit) = (quantity::canonical(request)?, quantity::canonical(limit)?);
    let more = quantity::nanos(&request)? > quantity::nanos(&limit)?;
    more.then(|| format!("ResourceQuota {requests} ({request}) should be less than {limits} ({limit})"))
}

pub(crate) struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn warnings(&self, object: &Json, old: Option<&Json>, _: Subresource) -> Vec<String> {
        match old {
            None => REQUESTED.iter().filter_map(|resource| requests_above_limits(object, resource)).collect(),
            Some(_) => Vec::new(),
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        amount_errors(object, "spec.hard").and(scope_errors(object)).and(selector_errors(object))
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        if subresource != Subresource::None {
            let mut errors = amount_errors(new, "status.hard");
            errors.extend(amount_errors(new, "status.used"));
            return errors;
        }
        let mut errors = self.validate_create(new);
        let scopes = |quota: &Json| quota.texts("/spec/scopes").map(str::to_owned).collect::<BTreeSet<_>>();
        if scopes(new) != scopes(old) {
            errors.push(FieldError::invalid("spec.scopes", &new["spec"]["scopes"], "field is immutable"));
        }
        errors
    }

    fn computed_cells(&self) -> ComputedCells {
        &[
            ("Request", Cell::Computed(|quota| used_amounts(quota, |resource| !resource.starts_with("limits")))),
            ("Limit", Cell::Computed(|quota| used_amounts(quota, |resource| resource.starts_with("limits")))),
        ]
    }
}

fn used_amounts(quota: &Json, shown: impl Fn(&str) -> bool) -> Json {
    let hard = quota.members("/status/hard").filter(|(resource, _)| shown(resource));
    let amounts = hard.map(|(resource, hard)| {
        let used = quota.at("/status/used").and_then(|used| used.get(resource));
        let used = used.map_or_else(|| "0".into(), |used| text(Some(used)));
        format!("{resource}: {used}/{}", text(Some(hard)))
    });
    amounts.collect::<Vec<_>>().join(", ").into()
}

fn amount_errors(object: &Json, path: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    for (resource, amount) in object.members(&format!("/{}", path.replace('.', "/"))) {
        let field = format!("{path}[{resource}]");
        let amount = amount.as_str().unwrap_or_default();
        let odd = qualified_name_faults(resource);
        let known = STANDARD.contains(&resource.as_str()) || resource.contains("hugepages-");
        errors.extend(odd.iter().map(|why| FieldError::invalid_text(field.as_str(), resource, why)));
        if !known && !resource.contains('/') {
            let general = odd.is_empty().then_some("must be a standard resource type or fully qualified");
            for why in general.into_iter().chain(["must be a standard resource for quota"]) {
                errors.push(FieldError::invalid_text(field.as_str(), resource, why));
            }
        }
        let nanos = quantity::nanos(amount).unwrap_or(0);
        errors.invalid_text_if(nanos < 0, &field, amount, "must be greater than or equal to 0");
        if (COUNTED.contains(&resource.as_str()) || is_extended(resource)) && nanos % 1_000_000_000 != 0 {
            errors.push(FieldError::invalid_text(field, amount, "must be an integer"));
        }
    }
    errors
}

fn applies(scope: &str, resource: &str) -> bool {
    let of_claims = ["persistentvolumeclaims", "requests.storage", "storage"];
    let of_pods = resource == "pods"
        || ["cpu", "memory", "ephemeral-storage"].iter().any(|name| {
            [name.to_string(), format!("requests.{name}"), format!("limits.{name}")].iter().any(|full| full == resource)
        });
    match scope {
        "BestEffort" => resource == "pods",
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => of_pods,
        "VolumeAttributesClass" => of_claims.contains(&resource),
        _ => true,
    }
}

/// Returns the number of errors per scope. A scope restricts which standard resources a quota may limit, and each other
/// resource causes an error.
fn out_of_scope(object: &Json) -> HashMap<&'static str, usize> {
    let standard: Vec<_> = object.members("/spec/hard").filter(|(name, _)| STANDARD.contains(&name.as_str())).collect();
    let count = |scope: &&'static str| standard.iter().filter(|(name, _)| !applies(scope, name)).count();
    SCOPES.iter().map(|scope| (*scope, count(scope))).collect()
}

fn conflicts(scopes: &[&str]) -> usize {
    let pairs = [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")];
    pairs.iter().filter(|(one, other)| scopes.contains(one) && scopes.contains(other)).count()
}

fn scope_errors(object: &Json) -> FieldErrors {
    let scopes: Vec<&str> = object.texts("/spec/scopes").collect();
    let value = &object["spec"]["scopes"];
    let error = |why: &str| FieldError::invalid("spec.scopes", value, why);
    let mut errors = FieldErrors::default();
    let outside = out_of_scope(object);
    for scope in &scopes {
        // Each error contains all scopes, so format only errors that are added.
        if !SCOPES.contains(scope) {
            errors.add(|| error("unsupported scope"));
        }
        for _ in 0..outside.get(scope).copied().unwrap_or(0) {
            errors.add(|| error("unsupported scope applied to resource"));
        }
    }
    errors.extend((0..conflicts(&scopes)).map(|_| error("conflicting scopes")));
    errors
}

/// Validates the scope selector. As in kube-apiserver, error paths of the scope selector do not contain the index of
/// the expression.
fn selector_errors(object: &Json) -> FieldErrors {
    const PATH: &str = "spec.scopeSelector.matchExpressions";
    const EXISTS: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                          ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
    let mut errors = FieldErrors::default();
    let (mut scopes, counts) = (Vec::new(), out_of_scope(object));
    for expression in object.list("/spec/scopeSelector/matchExpressions") {
        // Stop when no error can be added, because formatting an error with the whole selector is expensive.
        if errors.is_full() {
            break;
        }
        let (scope, operator) = (expression.text("/scopeName"), expression.text("/operator"));
        let some = expression.list("/values").next().is_some();
        let selector = &object["spec"]["scopeSelector"];
        let outside = (0..counts.get(scope).copied().unwrap_or(0))
            .map(|_| FieldError::invalid(PATH, selector, "unsupported scope applied to resource"));
        let by_presence = matches!(
            scope,
            "BestEffort" | "NotBestEffort" | "Terminating" | "NotTerminating" | "CrossNamespacePodAffinity"
        );
        let check = Check::at(expression, PATH)
            .invalid_text_if(!SCOPES.contains(&scope), "scopeName", scope, "unsupported scope")
            .also(outside)
            .invalid_text_if(by_presence && operator != "Exists", "operator", operator, EXISTS);
        let check = match operator {
            "In" | "NotIn" => check.refuse(!some, || {
                FieldError::required(
                    "values",
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
                )
            }),
            "Exists" | "DoesNotExist" => check.refuse(some, || {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                FieldError::invalid("values", &expression["values"], why)
            }),
            other => check.invalid_text_if(true, "operator", other, "not a valid selector operator"),
        };
        errors.extend(check.done());
        scopes.push(scope);
    }
    let value = &object["spec"]["scopes"];
    errors.extend((0..conflicts(&scopes)).map(|_| FieldError::invalid("spec.scopes", value, "conflicting scopes")));
    errors
}
