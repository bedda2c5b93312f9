//! Where a webhook is: a URL, or a Service.

use crate::validate::{FieldFault, FieldFaults, NameRule, name_faults};
use pintle_json::Json;

const FORM: &str = "; desired format: https://host[/path]";

/// The faults of the URL of a webhook.
pub(super) fn url_faults(url: &str, field: &str) -> FieldFaults {
    let (before, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (before, query) = before.split_once('?').unwrap_or((before, ""));
    let (scheme, rest) = scheme(before);
    let authority = rest.strip_prefix("//").map_or("", |rest| rest.split('/').next().unwrap_or_default());
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut faults = FieldFaults::default();
    let mut refuse = |holds: bool, value: &str, why: String| {
        if holds {
            faults.push(FieldFault::invalid_text(field, value, why));
        }
    };
    refuse(scheme != "https", scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    refuse(host.is_empty(), host, format!("host must be specified{FORM}"));
    refuse(authority.contains('@'), user, "user information is not permitted in the URL".into());
    refuse(!fragment.is_empty(), fragment, "fragments are not permitted in the URL".into());
    refuse(!query.is_empty(), query, "query parameters are not permitted in the URL".into());
    faults
}

/// The scheme of a URL, and what comes after its colon.
fn scheme(url: &str) -> (&str, &str) {
    let is_of_scheme = |char: char| char.is_ascii_alphanumeric() || "+-.".contains(char);
    match url.split_once(':') {
        Some((scheme, rest))
            if scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.chars().all(is_of_scheme) =>
        {
            (scheme, rest)
        }
        _ => ("", url),
    }
}

/// The faults of the Service of a webhook.
pub(super) fn service_faults(service: &Json, field: &str) -> FieldFaults {
    let mut faults = FieldFaults::default();
    // Real servers take one for the other.
    for (missing, told) in [("/namespace", "name"), ("/name", "namespace")] {
        if service.text(missing).is_empty() {
            faults.push(FieldFault::required(format!("{field}.{told}"), ""));
        }
    }
    let port = service.integer("/port").unwrap_or(0);
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        faults.push(FieldFault::invalid(format!("{field}.port"), &port.into(), why));
    }
    let path = service.text("/path");
    faults
        .extend(path_faults(path).into_iter().map(|why| FieldFault::invalid_text(format!("{field}.path"), path, why)));
    faults
}

fn path_faults(path: &str) -> Vec<String> {
    if matches!(path, "" | "/") {
        return Vec::new();
    }
    if path == "//" {
        return vec!["segment[0] may not be empty".into()];
    }
    let mut faults = Vec::new();
    if !path.starts_with('/') {
        faults.push("must start with a '/'".into());
    }
    // A real server cuts the first byte off, whatever it is.
    let rest: String = path.chars().skip(1).collect();
    for (at, step) in rest.strip_suffix('/').unwrap_or(&rest).split('/').enumerate() {
        if step.is_empty() {
            faults.push(format!("segment[{at}] may not be empty"));
            continue;
        }
        let why = name_faults(NameRule::Subdomain, step, false);
        faults.extend(why.iter().map(|why| format!("segment[{at}]: {why}")));
    }
    faults
}
