//! Defaults and validates a Service's IP families. The cluster supports only IPv4, like a kube-apiserver with a single
//! IPv4 range.

use std::collections::HashSet;
use std::net::IpAddr;

use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::{Json, json};

use crate::network_rules::ip_errors;

const CLUSTER_FAMILY: &str = "IPv4";
const FAMILIES: &[&str] = &["IPv4", "IPv6"];
const FAMILY_POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];
const CLUSTER_IPS: &str = "spec.clusterIPs";
const FAMILY_POLICY: &str = "spec.ipFamilyPolicy";

/// Sets the defaults of `ipFamilyPolicy` and `ipFamilies`. Returns errors about contradictory fields and unsupported
/// IP families. The server rejects a Service with such an error before validation, so the response contains no
/// validation errors.
pub(super) fn complete(object: &mut Json, old: Option<&Json>) -> FieldErrors {
    if object.text("/spec/type") == "ExternalName" || old.is_some_and(|old| is_unchanged_preference(object, old)) {
        return FieldErrors::default();
    }
    let is_headless = object.text("/spec/clusterIP") == "None" && object["spec"]["selector"].is_empty();
    if let Some(spec) = object.member("spec").filter(|spec| spec["ipFamilyPolicy"].is_null()) {
        let before = old.map(|old| old["spec"]["ipFamilyPolicy"].clone()).filter(|before| !before.is_null());
        let policy = before.unwrap_or_else(|| if is_headless { "RequireDualStack" } else { "SingleStack" }.into());
        spec.set("ipFamilyPolicy", policy);
    }
    let errors = errors(object);
    if !errors.is_empty() {
        return errors;
    }
    let errors = match old {
        Some(old) => release_secondary(object, old),
        None => FieldErrors::default(),
    };
    let errors: FieldErrors = errors.into_iter().chain(too_many_for_one(object)).chain(infer(object)).collect();
    if !errors.is_empty() {
        return errors;
    }
    let prefers_two = object.text("/spec/ipFamilyPolicy") != "SingleStack";
    let Some(spec) = object.member("spec") else { return errors };
    if is_headless {
        let mut families: Vec<String> = spec.texts("/ipFamilies").map(Into::into).collect();
        if families.is_empty() {
            families.push(CLUSTER_FAMILY.into());
        }
        if families.len() == 1 && prefers_two {
            let other = FAMILIES.iter().find(|family| **family != families[0]);
            families.extend(other.map(|family| (*family).to_owned()));
        }
        spec.set("ipFamilies", families);
        return errors;
    }
    let errors = not_configured(spec);
    if errors.is_empty() && spec["ipFamilies"].is_empty() {
        spec.set("ipFamilies", json!([CLUSTER_FAMILY]));
    }
    errors
}

/// Returns `true` if the policy is PreferDualStack before and after the update, and the type, addresses and families
/// stay unchanged.
fn is_unchanged_preference(object: &Json, old: &Json) -> bool {
    let is_unchanged = |key: &str| object["spec"][key] == old["spec"][key];
    let prefers = |service: &Json| service.text("/spec/ipFamilyPolicy") == "PreferDualStack";
    is_unchanged("type")
        && prefers(object)
        && prefers(old)
        && is_unchanged("clusterIP")
        && is_unchanged("clusterIPs")
        && is_unchanged("ipFamilies")
}

/// Removes the secondary address and family if the policy changes to SingleStack. For policies other than SingleStack,
/// returns an error if the update removes an address or a family.
fn release_secondary(object: &mut Json, old: &Json) -> FieldErrors {
    let policy = object.text("/spec/ipFamilyPolicy").to_owned();
    let mut errors = FieldErrors::default();
    let Some(spec) = object.member("spec") else { return errors };
    for (key, what) in [("clusterIPs", "secondary cluster IP"), ("ipFamilies", "secondary IP family")] {
        let count = |spec: &Json| spec[key].as_array().map_or(0, Vec::len);
        let (before, now) = (count(&old["spec"]), count(spec));
        if policy == "SingleStack" {
            if now > 1 && spec[key] == old["spec"][key] {
                let first = spec[key][0].clone();
                spec.set(key, json!([first]));
            }
        } else if now > 0 && now < before {
            let why = format!("must be 'SingleStack' to release the {what}");
            errors.push(FieldError::invalid_text(FAMILY_POLICY, &policy, why));
        }
    }
    errors
}

fn too_many_for_one(object: &Json) -> FieldErrors {
    let policy = object.text("/spec/ipFamilyPolicy");
    let both = [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")].into_iter();
    let two =
        both.filter(|(key, _)| policy == "SingleStack" && object["spec"][*key].as_array().map_or(0, Vec::len) == 2);
    two.map(|(_, what)| {
        let why = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
        FieldError::invalid_text(FAMILY_POLICY, policy, why)
    })
    .collect()
}

/// Derives missing IP families from the addresses. Returns errors for addresses of IP families that the cluster does
/// not support.
fn infer(object: &mut Json) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let all = object["spec"]["clusterIPs"].clone();
    let mut families: Vec<String> = object.texts("/spec/ipFamilies").map(Into::into).collect();
    for (at, address) in all.texts("").enumerate().take_while(|(_, address)| *address != "None") {
        if at < families.len() {
            continue;
        }
        match family_of(address) {
            Some(CLUSTER_FAMILY) => families.push(CLUSTER_FAMILY.into()),
            Some(family) => {
                // Each error contains all addresses, so format only errors that are added.
                errors.add(|| {
                    let why = format!("{family} is not configured on this cluster");
                    FieldError::invalid(format!("{CLUSTER_IPS}[{at}]"), &all, why)
                });
            }
            None => {}
        }
    }
    if let Some(spec) = object.member("spec").filter(|_| !families.is_empty()) {
        spec.set("ipFamilies", families);
    }
    errors
}

fn not_configured(spec: &Json) -> FieldErrors {
    let policy = spec.text("/ipFamilyPolicy");
    let dual = (policy == "RequireDualStack").then(|| {
        let why = "this cluster is not configured for dual-stack services";
        FieldError::invalid_text(FAMILY_POLICY, policy, why)
    });
    let others = spec.texts("/ipFamilies").enumerate().filter(|(_, family)| *family != CLUSTER_FAMILY);
    let others = others.map(|(at, family)| {
        FieldError::invalid_text(format!("spec.ipFamilies[{at}]"), family, "not configured on this cluster")
    });
    dual.into_iter().chain(others).collect()
}

fn family_of(address: &str) -> Option<&'static str> {
    let address: IpAddr = address.parse().ok()?;
    Some(if address.is_ipv4() { "IPv4" } else { "IPv6" })
}

pub(super) fn errors(object: &Json) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let first = object.text("/spec/clusterIP");
    let value = &object["spec"]["clusterIPs"];
    let mut all: Vec<&str> =
        object.list("/spec/clusterIPs").map(|address| address.as_str().unwrap_or_default()).collect();
    if all.is_empty() && !first.is_empty() {
        all.push(first);
    }
    let wrong = |why: &str| FieldError::invalid(CLUSTER_IPS, value, why);
    match all.first() {
        None => {}
        Some(_) if first.is_empty() => errors.push(wrong("must be empty when `clusterIP` is not specified")),
        Some(listed) if *listed != first => errors.push(wrong("first value must match `clusterIP`")),
        Some(_) => {}
    }
    let families: Vec<&str> = object.texts("/spec/ipFamilies").collect();
    let mut seen = HashSet::new();
    for (at, family) in families.iter().enumerate() {
        let field = format!("spec.ipFamilies[{at}]");
        if !FAMILIES.contains(family) {
            errors.push(FieldError::unsupported(field.as_str(), &(*family).into(), FAMILIES));
        }
        errors.duplicate_if(!seen.insert(*family), field, &(*family).into());
    }
    if let Some(policy) = object.at("/spec/ipFamilyPolicy").filter(|policy| !policy.is_null())
        && !policy.as_str().is_some_and(|policy| FAMILY_POLICIES.contains(&policy))
    {
        errors.push(FieldError::unsupported(FAMILY_POLICY, policy, FAMILY_POLICIES));
    }
    let is_headless = all.first() == Some(&"None");
    if is_headless && all.len() > 1 {
        errors.push(wrong("'None' must be the first and only value"));
    }
    let read: Vec<_> = all.iter().map(|address| family_of(address)).collect();
    let checked = all.iter().enumerate().filter(|(at, _)| *at > 0 || !is_headless);
    let bad: Vec<_> = checked.filter_map(|(at, address)| ip_errors(address, &format!("{CLUSTER_IPS}[{at}]"))).collect();
    let is_bad = !bad.is_empty();
    errors.extend(bad);
    if all.len() > 2 {
        errors.push(wrong("may only hold up to 2 values"));
    }
    if is_bad || is_headless && all.len() > 1 {
        return errors;
    }
    if all.len() > 1 && !(read.contains(&Some("IPv4")) && read.contains(&Some("IPv6"))) {
        errors.push(wrong("may specify no more than one IP for each IP family"));
    }
    for (at, (family, address)) in families.iter().zip(&all).enumerate().filter(|_| !is_headless) {
        if FAMILIES.contains(family) && family_of(address) != Some(*family) {
            let why = format!("expected an {family} value as indicated by `ipFamilies[{at}]`");
            errors.push(FieldError::invalid_text(format!("{CLUSTER_IPS}[{at}]"), address, why));
        }
    }
    errors
}

pub(super) fn changes(new: &Json, old: &Json) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if [new, old].iter().any(|service| service.text("/spec/type") == "ExternalName") {
        return errors;
    }
    let is_headless = |service: &Json| service.at("/spec/clusterIPs/0").and_then(Json::as_str) == Some("None");
    let (was_headless, is_headless) = (is_headless(old), is_headless(new));
    let parts = [
        ("clusterIPs", "clusterIP", was_headless && is_headless),
        ("ipFamilies", "ipFamily", was_headless || is_headless),
    ];
    for (key, one, may_change) in parts {
        if may_change {
            continue;
        }
        let (was, is): (Vec<_>, Vec<_>) =
            (old.list(&format!("/spec/{key}")).collect(), new.list(&format!("/spec/{key}")).collect());
        let fixed =
            |at: usize| FieldError::invalid(format!("spec.{key}[{at}]"), &new["spec"][key], "may not change once set");
        if was.len() == is.len() {
            let other = was.iter().zip(&is).enumerate().filter(|(_, (was, is))| was != is);
            // As in kube-apiserver, the error about changed families always has the index 0.
            errors.extend(other.map(|(at, _)| fixed(if key == "ipFamilies" { 0 } else { at })));
            continue;
        }
        if is.is_empty() {
            let why = format!("primary {one} can not be unset");
            errors.push(FieldError::invalid(format!("spec.{key}[0]"), &json!(is), why));
        } else if !was.is_empty() && was[0] != is[0] {
            errors.push(fixed(0));
        }
        if was.len() > is.len() && is.len() == 1 && new.text("/spec/ipFamilyPolicy") != "SingleStack" {
            let why = format!("must be set to 'SingleStack' when releasing the secondary {one}");
            errors.push(FieldError::invalid(FAMILY_POLICY, &new["spec"]["ipFamilyPolicy"], why));
        }
    }
    errors
}
