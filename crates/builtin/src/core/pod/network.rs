//! Validates the host ports, DNS settings and host names of a pod.

use std::collections::HashSet;

use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::Json;
use pintle_kinds::check::Check;

use crate::network_rules::ip_errors;

const UNDERSCORED: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must \
                           start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                           '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";

/// Reports host ports that are used more than once. Different init containers may use the same host port, because they
/// do not run at the same time.
pub(super) fn host_ports(spec: &Json, key: &str, path: &str) -> FieldErrors {
    let (mut errors, mut taken) = (FieldErrors::default(), HashSet::new());
    let containers = spec.list(&format!("/{key}")).enumerate().filter(|_| key != "ephemeralContainers");
    for (at, container) in containers {
        if key == "initContainers" {
            taken.clear();
        }
        for (port_at, port) in container.list("/ports").enumerate() {
            let number = port.integer("/hostPort").unwrap_or(0);
            let place = format!("{}/{}/{number}", port.text("/protocol"), port.text("/hostIP"));
            if number != 0 && !taken.insert(place.clone()) {
                let field = format!("{path}.{key}[{at}].ports[{port_at}].hostPort");
                errors.push(FieldError::duplicate(field, &place.into()));
            }
        }
    }
    errors
}

/// If the pod uses host networking, validates that container ports equal host ports. In a pod template, the host port
/// may be absent.
pub(super) fn host_network_ports(spec: &Json, path: &str, required: bool) -> FieldErrors {
    let mut errors = FieldErrors::default();
    for (at, container) in spec.list("/containers").enumerate().filter(|_| spec.is_true("/hostNetwork")) {
        for (port_at, port) in container.list("/ports").enumerate() {
            let port_number = |member: &str| port.integer(member).unwrap_or(0);
            let (inner, outer) = (port_number("/containerPort"), port_number("/hostPort"));
            if outer != inner && (required || outer != 0) {
                let field = format!("{path}.containers[{at}].ports[{port_at}].hostPort");
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(field, &outer.into(), why));
            }
        }
    }
    errors
}

pub(super) fn resolution(spec: &Json, path: &str) -> FieldErrors {
    let field = format!("{path}.dnsConfig");
    let config = &spec["dnsConfig"];
    let own = spec.text("/dnsPolicy") == "None";
    if own && config.is_null() {
        let why = "must provide `dnsConfig` when `dnsPolicy` is None";
        return FieldErrors::from([FieldError::required(field, why)]);
    }
    let servers = config.list("/nameservers");
    if own && servers.len() == 0 {
        let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        return FieldErrors::from([FieldError::required(format!("{field}.nameservers"), why)]);
    }
    let searches: Vec<&str> = config.texts("/searches").collect();
    let length = searches.iter().map(|search| search.len() + 1).sum::<usize>().saturating_sub(1);
    let addresses = config.texts("/nameservers").enumerate();
    Check::at(config, &field)
        .invalid_if(servers.len() > 3, "nameservers", &config["nameservers"], "must not have more than 3 nameservers")
        .also(addresses.flat_map(|(at, address)| ip_errors(address, &format!("{field}.nameservers[{at}]"))))
        .invalid_if(searches.len() > 32, "searches", &config["searches"], "must not have more than 32 search paths")
        .refuse(length > 2048, || {
            let why = "must not have more than 2048 characters (including spaces) in the search list";
            FieldError::invalid("searches", &config["searches"], why)
        })
        .also(
            searches
                .iter()
                .enumerate()
                .flat_map(|(at, search)| search_errors(search, &format!("{field}.searches[{at}]"))),
        )
        .each("options", |option, _| {
            let nameless = option.object().text("/name").is_empty();
            option.required_if(nameless, "", "must not be empty")
        })
        .done()
}

fn search_errors(search: &str, field: &str) -> FieldErrors {
    let name = search.strip_suffix('.').unwrap_or(search);
    if search == "." {
        return FieldErrors::default();
    }
    let label = |part: &str| {
        let plain = part.strip_prefix('_').unwrap_or(part);
        let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let bytes = plain.as_bytes();
        let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
    };
    let mut errors = FieldErrors::default();
    errors.invalid_text_if(name.len() > 253, field, name, "must be no more than 253 characters");
    errors.invalid_text_if(!name.split('.').all(label), field, name, UNDERSCORED);
    errors
}

pub(super) fn hostname_override(spec: &Json, path: &str) -> FieldErrors {
    const FIELD: &str = "hostnameOverride";
    let Some(name) = spec.get(FIELD).and_then(Json::as_str) else { return FieldErrors::default() };
    let why = name_errors(NameRule::Subdomain, name, false);
    Check::at(spec, path)
        .forbidden_if(spec.is_true("/setHostnameAsFQDN"), FIELD, "may not be specified when setHostnameAsFQDN is true")
        .forbidden_if(spec.is_true("/hostNetwork"), FIELD, "may not be specified when hostNetwork is true")
        .refuse(name.len() > 64, || FieldError::too_long(FIELD, 64))
        .also(why.iter().map(|why| FieldError::invalid_text(format!("{path}.{FIELD}"), name, why)))
        .done()
}

pub(super) fn host_aliases(spec: &Json, path: &str) -> FieldErrors {
    let all = Check::at(spec, path).each("hostAliases", |alias, at| {
        let object = alias.object();
        let path = format!("{path}.hostAliases[{at}]");
        let names = object.texts("/hostnames").enumerate().flat_map(|(at, name)| {
            let field = format!("{path}.hostnames[{at}]");
            let why = name_errors(NameRule::Subdomain, name, false);
            why.into_iter().map(move |why| FieldError::invalid_text(field.as_str(), name, why))
        });
        let names: FieldErrors = names.collect();
        alias.also(ip_errors(object.text("/ip"), &format!("{path}.ip"))).also(names)
    });
    all.done()
}
