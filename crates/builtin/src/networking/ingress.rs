//! The `Ingress` kind in `networking.k8s.io/v1`.

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::failure::Outcome;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, name_errors};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;
use pintle_kinds::table::{self, Cell, ComputedCells};
use pintle_meta::GroupResource;

use crate::core::pod::port_name_errors;
use crate::network_rules::load_balancer_status_errors;
use crate::{default_class, warnings};
use std::net::IpAddr;

const INGRESS_CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const DEFAULT_INGRESS_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";
const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];

pub(crate) struct Ingress;

impl Strategy for Ingress {
    fn warnings(&self, object: &Json, old: Option<&Json>, subresource: Subresource) -> Vec<String> {
        let annotated =
            warnings::is_annotated(object, INGRESS_CLASS_ANNOTATION) && !object.has("/spec/ingressClassName");
        match old {
            None if annotated => {
                vec![format!(
                    "annotation {INGRESS_CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"
                )]
            }
            Some(_) if subresource != Subresource::None => warnings::load_balancer(object),
            _ => Vec::new(),
        }
    }

    fn admit(&self, cluster: &dyn Cluster, object: &mut Json, old: Option<&Json>, _: Subresource) -> Outcome<()> {
        let is_open = old.is_none()
            && !object.has("/spec/ingressClassName")
            && !warnings::is_annotated(object, INGRESS_CLASS_ANNOTATION);
        let classes = GroupResource::new("networking.k8s.io", "ingressclasses");
        if is_open && let Some(class) = default_class(cluster, &classes, &[DEFAULT_INGRESS_CLASS]) {
            object["spec"].set("ingressClassName", class);
        }
        Ok(())
    }

    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        match subresource {
            Subresource::Status => load_balancer_status_errors(new, old),
            _ => self.validate_create(new),
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let empty = object.list("/spec/rules").next().is_none() && !object.has("/spec/defaultBackend");
        Check::of(object)
            .invalid_if(empty, "spec", &Json::Null, "either `defaultBackend` or `rules` must be specified")
            .inside("spec.defaultBackend", backend)
            .each("spec.rules", |rule, _| {
                let empty = rule.object().has("/http") && rule.object().list("/http/paths").next().is_none();
                let rule = rule.required_if(empty, "http.paths", "");
                let name = rule.object().text("/host");
                let rule = rule.refuse(name.parse::<IpAddr>().is_ok(), || {
                    FieldError::invalid_text("host", name, "must be a DNS name, not an IP address")
                });
                let rule = if name.is_empty() { rule } else { host(rule, "host", name) };
                rule.each("http.paths", |path, _| {
                    let (text, kind) = (path.object().text("/path"), path.object().get("pathType"));
                    let exact = kind.is_some_and(|kind| kind == "Exact" || kind == "Prefix");
                    let known = kind.and_then(Json::as_str).is_some_and(|kind| PATH_TYPES.contains(&kind));
                    let relative = !text.starts_with('/') && (exact || !text.is_empty());
                    if kind.is_none_or(Json::is_null) {
                        return path.required_if(true, "pathType", "pathType must be specified");
                    }
                    let path = path.known("pathType", PATH_TYPES).refuse(known && relative, || {
                        FieldError::invalid_text("path", text, "must be an absolute path")
                    });
                    let path = if exact { path_errors(path) } else { path };
                    path.child("backend", backend)
                })
            })
            .each("spec.tls", |tls, _| {
                let hosts = tls.object().texts("/hosts").enumerate();
                let tls = hosts.fold(tls, |tls, (at, name)| host(tls, &format!("hosts[{at}]"), name));
                tls.name("secretName", NameRule::Subdomain)
            })
            .also(class_errors(object))
            .done()
    }

    fn computed_cells(&self) -> ComputedCells {
        &[
            ("Hosts", Cell::Computed(hosts)),
            ("Address", Cell::Computed(|ingress| table::ingress_addresses(ingress).into())),
            (
                "Ports",
                Cell::Computed(|ingress| {
                    if ingress.list("/spec/tls").next().is_some() { "80, 443" } else { "80" }.into()
                }),
            ),
        ]
    }
}

fn hosts(ingress: &Json) -> Json {
    let hosts = ingress.list("/spec/rules").map(|rule| rule.text("/host")).filter(|host| !host.is_empty());
    let hosts: Vec<String> = hosts.map(Into::into).collect();
    if hosts.is_empty() { "*".into() } else { table::first_few(hosts).into() }
}

fn class_errors(object: &Json) -> FieldErrors {
    let class = object.at("/spec/ingressClassName").and_then(Json::as_str);
    let why = class.map(|class| name_errors(NameRule::Subdomain, class, false)).unwrap_or_default();
    let class = class.unwrap_or_default();
    why.iter().map(|why| FieldError::invalid_text("spec.ingressClassName", class, why)).collect()
}

/// Validates a backend, which refers to a Service port or to an object of any kind.
fn backend(check: Check<'_>) -> Check<'_> {
    let object = check.object();
    match (object.has("/resource"), object.has("/service")) {
        (true, true) => check.invalid_text_if(true, "", "", "cannot set both resource and service backends"),
        (false, false) => check.invalid_text_if(true, "", "", "resource or service backend is required"),
        (true, false) => check.inside("resource", reference),
        (false, true) => {
            let (name, number) =
                (object.text("/service/port/name"), object.integer("/service/port/number").unwrap_or(0));
            let check = check.required_name("service.name", NameRule::Label);
            match (name.is_empty(), number == 0) {
                (false, false) => check.invalid_text_if(true, "", "", "cannot set both port name & port number"),
                (true, true) => check.required_if(true, "", "port name or number is required"),
                (true, false) => {
                    check.within("service.port.number", 1, 65535, "must be between 1 and 65535, inclusive")
                }
                (false, true) => port_name_errors(name)
                    .iter()
                    .fold(check, |check, why| check.invalid_text_if(true, "service.port.name", name, why)),
            }
        }
    }
}

pub(super) fn reference(check: Check<'_>) -> Check<'_> {
    let group = check.object().get("apiGroup").and_then(Json::as_str);
    let why = group.map(|group| name_errors(NameRule::Subdomain, group, false)).unwrap_or_default();
    let check =
        why.iter().fold(check, |check, why| check.invalid_text_if(true, "apiGroup", group.unwrap_or_default(), why));
    check.required_name("kind", NameRule::PathSegment).required_name("name", NameRule::PathSegment)
}

fn host<'a>(check: Check<'a>, field: &str, host: &'a str) -> Check<'a> {
    let why = if host.contains('*') { wildcard_errors(host) } else { name_errors(NameRule::Subdomain, host, false) };
    why.iter().fold(check, |check, why| check.invalid_text_if(true, field, host, why))
}

fn wildcard_errors(host: &str) -> Vec<String> {
    const FORM: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of \
                        lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. \
                        '*.example.com', regex used for validation is \
                        '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let below = host.strip_prefix("*.");
    let good = below.is_some_and(|below| name_errors(NameRule::ShortSubdomain(usize::MAX), below, false).is_empty());
    if good && host.len() <= 253 { Vec::new() } else { vec![FORM.to_owned()] }
}

/// Validates a path of type Exact or Prefix.
fn path_errors(path: Check<'_>) -> Check<'_> {
    let text = path.object().text("/path");
    let path = ["//", "/./", "/../", "%2f", "%2F"].iter().fold(path, |path, subresource| {
        path.refuse(text.contains(subresource), || {
            FieldError::invalid_text("path", text, format!("must not contain '{subresource}'"))
        })
    });
    ["/..", "/."].iter().fold(path, |path, end| {
        path.invalid_text_if(text.ends_with(end), "path", text, format_args!("cannot end with '{end}'"))
    })
}
