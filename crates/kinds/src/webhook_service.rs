//! Validates webhook client configurations, each of which contains a URL or a Service.

use std::collections::HashSet;

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::Json;

/// Validates the URL or Service in a webhook's client configuration.
pub fn client_errors(client: &Json, path: &str) -> FieldErrors {
    match (client.has("/url"), client.has("/service")) {
        (true, false) => url_errors(client.text("/url"), &format!("{path}.url")),
        (false, true) => service_errors(&client["service"], &format!("{path}.service")),
        _ => FieldErrors::from([FieldError::required(path, "exactly one of url or service is required")]),
    }
}

/// Validates the names of review versions, which must be unique labels.
pub fn review_version_errors<'a>(versions: impl Iterator<Item = &'a str>, field: &str) -> FieldErrors {
    let (mut errors, mut seen) = (FieldErrors::default(), HashSet::new());
    for (at, version) in versions.enumerate() {
        let at = format!("{field}[{at}]");
        if !seen.insert(version) {
            errors.push(FieldError::invalid_text(at, version, "duplicate version"));
            continue;
        }
        let why = name_errors(NameRule::Rfc1035Label, version, false);
        errors.extend(why.iter().map(|why| FieldError::invalid_text(at.as_str(), version, why)));
    }
    errors
}

/// Returns `true` if kube-apiserver can send reviews of this version.
pub fn is_supported_review_version(version: &str) -> bool {
    matches!(version, "v1" | "v1beta1")
}

/// Returns the error for a list of review versions without a supported version.
pub fn unsupported_review_versions(versions: &Json, field: String) -> FieldError {
    FieldError::invalid(field, versions, "must include at least one of v1, v1beta1")
}

const FORM: &str = "; desired format: https://host[/path]";

/// Validates a webhook's URL.
pub fn url_errors(url: &str, field: &str) -> FieldErrors {
    let (before, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (before, query) = before.split_once('?').unwrap_or((before, ""));
    let (scheme, rest) = scheme(before);
    let authority = rest.strip_prefix("//").map_or("", |rest| rest.split('/').next().unwrap_or_default());
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut errors = FieldErrors::default();
    let mut refuse = |holds: bool, value: &str, why: String| {
        errors.invalid_text_if(holds, field, value, why);
    };
    refuse(scheme != "https", scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    refuse(host.is_empty(), host, format!("host must be specified{FORM}"));
    refuse(authority.contains('@'), user, "user information is not permitted in the URL".into());
    refuse(!fragment.is_empty(), fragment, "fragments are not permitted in the URL".into());
    refuse(!query.is_empty(), query, "query parameters are not permitted in the URL".into());
    errors
}

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

/// Validates a webhook's Service.
pub fn service_errors(service: &Json, field: &str) -> FieldErrors {
    let mut errors = FieldErrors::default();
    // As in kube-apiserver, the fields `name` and `namespace` are swapped in these errors.
    for (missing, reported) in [("/namespace", "name"), ("/name", "namespace")] {
        errors.required_if(service.text(missing).is_empty(), format!("{field}.{reported}"), "");
    }
    let port = service.integer("/port").unwrap_or(0);
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{field}.port"), &port.into(), why));
    }
    let path = service.text("/path");
    errors
        .extend(path_errors(path).into_iter().map(|why| FieldError::invalid_text(format!("{field}.path"), path, why)));
    errors
}

fn path_errors(path: &str) -> Vec<String> {
    if matches!(path, "" | "/") {
        return Vec::new();
    }
    if path == "//" {
        return vec!["segment[0] may not be empty".into()];
    }
    let mut errors = Vec::new();
    if !path.starts_with('/') {
        errors.push("must start with a '/'".into());
    }
    // As in kube-apiserver, the first character of the path is always removed, even if it is not a
    // slash.
    let rest: String = path.chars().skip(1).collect();
    for (at, step) in rest.strip_suffix('/').unwrap_or(&rest).split('/').enumerate() {
        if step.is_empty() {
            errors.push(format!("segment[{at}] may not be empty"));
            continue;
        }
        let why = name_errors(NameRule::Subdomain, step, false);
        errors.extend(why.iter().map(|why| format!("segment[{at}]: {why}")));
    }
    errors
}
