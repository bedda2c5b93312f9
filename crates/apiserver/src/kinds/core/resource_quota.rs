//! ResourceQuota.

use crate::kinds::check::Check;
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Context, Strategy};
use crate::object::text;
use crate::request::Part;
use crate::validate::{FieldFault, FieldFaults, qualified_name_faults};
use jiff::Timestamp;
use pintle_json::{Json, json};
use pintle_schema::quantity;
use std::collections::{BTreeSet, HashMap};

const MODES: &[&str] = &[
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

/// Resources that can be limited without being qualified.
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

/// Of these, what is counted.
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

/// What both requests and limits are counted of.
const REQUESTED: &[&str] = &["cpu", "memory", "storage", "ephemeral-storage"];

/// A quota whose requests may be more than its limits.
fn more_than_allowed(quota: &Json, resource: &str) -> Option<String> {
    let hard = quota.at("/spec/hard")?;
    let there = |key: &String| hard.get(key).is_some();
    let bare = matches!(resource, "cpu" | "memory").then(|| resource.to_owned());
    let requests = Some(format!("requests.{resource}")).filter(there).or(bare.filter(there))?;
    let limits = format!("limits.{resource}");
    let (request, limit) = (hard.text(&format!("/{requests}")), hard.get(&limits)?.as_str()?);
    let (request, limit) = (quantity::canonical(request)?, quantity::canonical(limit)?);
    let more = quantity::nanos(&request)? > quantity::nanos(&limit)?;
    more.then(|| format!("ResourceQuota {requests} ({request}) should be less than {limits} ({limit})"))
}

/// `v1` ResourceQuota.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn is_read_often(&self) -> bool {
        true
    }

    fn warnings(&self, object: &Json, old: Option<&Json>, _: Part) -> Vec<String> {
        match old {
            None => REQUESTED.iter().filter_map(|resource| more_than_allowed(object, resource)).collect(),
            Some(_) => Vec::new(),
        }
    }

    fn defaults(&self, object: &mut Json) {
        object.member("spec");
        object.member("status");
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        object.set("status", json!({}));
    }

    fn validate_create(&self, object: &Json) -> FieldFaults {
        let mut faults = amount_faults(object, "spec.hard");
        faults.extend(scope_faults(object));
        faults.extend(selector_faults(object));
        faults
    }

    fn validate_update(&self, new: &Json, old: &Json, part: Part) -> FieldFaults {
        if part != Part::Object {
            let mut faults = amount_faults(new, "status.hard");
            faults.extend(amount_faults(new, "status.used"));
            return faults;
        }
        let mut faults = self.validate_create(new);
        let scopes = |quota: &Json| quota.texts("/spec/scopes").map(str::to_owned).collect::<BTreeSet<_>>();
        if scopes(new) != scopes(old) {
            faults.push(FieldFault::invalid("spec.scopes", &new["spec"]["scopes"], "field is immutable"));
        }
        faults
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Request, Limit, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (resource, hard) in object.members("/status/hard") {
            let used = object.at("/status/used").and_then(|used| used.get(resource));
            let used = used.map_or_else(|| "0".into(), |used| text(Some(used)));
            let entry = format!("{resource}: {used}/{}", text(Some(hard)));
            if resource.starts_with("limits") { limits.push(entry) } else { requests.push(entry) }
        }
        vec![row.name(), requests.join(", ").into(), limits.join(", ").into(), row.age()]
    }
}

fn amount_faults(object: &Json, path: &str) -> FieldFaults {
    let mut faults = FieldFaults::default();
    for (resource, amount) in object.members(&format!("/{}", path.replace('.', "/"))) {
        let field = format!("{path}[{resource}]");
        let amount = amount.as_str().unwrap_or_default();
        let odd = qualified_name_faults(resource);
        let known = STANDARD.contains(&resource.as_str()) || resource.contains("hugepages-");
        faults.extend(odd.iter().map(|why| FieldFault::invalid_text(field.as_str(), resource, why)));
        if !known && !resource.contains('/') {
            let general = odd.is_empty().then_some("must be a standard resource type or fully qualified");
            for why in general.into_iter().chain(["must be a standard resource for quota"]) {
                faults.push(FieldFault::invalid_text(field.as_str(), resource, why));
            }
        }
        let nanos = quantity::nanos(amount).unwrap_or(0);
        if nanos < 0 {
            faults.push(FieldFault::invalid_text(field.as_str(), amount, "must be greater than or equal to 0"));
        }
        if COUNTED.contains(&resource.as_str()) && nanos % 1_000_000_000 != 0 {
            faults.push(FieldFault::invalid_text(field, amount, "must be an integer"));
        }
    }
    faults
}

/// Whether a scope says anything of how much there is of a resource.
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

/// What of a quota each scope cannot bound; those that nobody knows bound everything.
fn out_of_scope(object: &Json) -> HashMap<&'static str, usize> {
    let standard: Vec<_> = object.members("/spec/hard").filter(|(name, _)| STANDARD.contains(&name.as_str())).collect();
    let count = |scope: &&'static str| standard.iter().filter(|(name, _)| !applies(scope, name)).count();
    MODES.iter().map(|scope| (*scope, count(scope))).collect()
}

fn conflicts(scopes: &[&str]) -> usize {
    let pairs = [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")];
    pairs.iter().filter(|(one, other)| scopes.contains(one) && scopes.contains(other)).count()
}

fn scope_faults(object: &Json) -> FieldFaults {
    let scopes: Vec<&str> = object.texts("/spec/scopes").collect();
    let value = &object["spec"]["scopes"];
    let fault = |why: &str| FieldFault::invalid("spec.scopes", value, why);
    let mut faults = FieldFaults::default();
    let outside = out_of_scope(object);
    for scope in &scopes {
        faults.extend((!MODES.contains(scope)).then(|| fault("unsupported scope")));
        faults.extend(
            (0..outside.get(scope).copied().unwrap_or(0)).map(|_| fault("unsupported scope applied to resource")),
        );
    }
    faults.extend((0..conflicts(&scopes)).map(|_| fault("conflicting scopes")));
    faults
}

/// Told without the index of the expression.
fn selector_faults(object: &Json) -> FieldFaults {
    const PATH: &str = "spec.scopeSelector.matchExpressions";
    const EXISTS: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                          ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
    let mut faults = FieldFaults::default();
    let (mut scopes, counts) = (Vec::new(), out_of_scope(object));
    for expression in object.list("/spec/scopeSelector/matchExpressions") {
        let (scope, operator) = (expression.text("/scopeName"), expression.text("/operator"));
        let some = expression.list("/values").next().is_some();
        let selector = &object["spec"]["scopeSelector"];
        let outside = (0..counts.get(scope).copied().unwrap_or(0))
            .map(|_| FieldFault::invalid(PATH, selector, "unsupported scope applied to resource"));
        let by_presence = matches!(
            scope,
            "BestEffort" | "NotBestEffort" | "Terminating" | "NotTerminating" | "CrossNamespacePodAffinity"
        );
        let check = Check::at(expression, PATH)
            .refuse(!MODES.contains(&scope), || FieldFault::invalid_text("scopeName", scope, "unsupported scope"))
            .also(outside)
            .refuse(by_presence && operator != "Exists", || FieldFault::invalid_text("operator", operator, EXISTS));
        let check = match operator {
            "In" | "NotIn" => check.refuse(!some, || {
                FieldFault::required(
                    "values",
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
                )
            }),
            "Exists" | "DoesNotExist" => check.refuse(some, || {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                FieldFault::invalid("values", &expression["values"], why)
            }),
            other => {
                check.refuse(true, || FieldFault::invalid_text("operator", other, "not a valid selector operator"))
            }
        };
        faults.extend(check.done());
        scopes.push(scope);
    }
    let value = &object["spec"]["scopes"];
    faults.extend((0..conflicts(&scopes)).map(|_| FieldFault::invalid("spec.scopes", value, "conflicting scopes")));
    faults
}
