//! Ingress.

use crate::failure::Outcome;
use crate::kinds::check::Check;
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Context, GroupResource, Strategy, default_class, warnings};
use crate::request::Part;
use crate::validate::{FieldFault, FieldFaults, NameRule};
use jiff::Timestamp;
use pintle_json::{Json, json};
use std::net::IpAddr;

/// Names the class in an old way.
const INGRESS_CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
/// Makes an IngressClass the default.
const DEFAULT_INGRESS_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";
const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];

/// `networking.k8s.io/v1` Ingress.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct Ingress;

impl Strategy for Ingress {
    fn warnings(&self, object: &Json, old: Option<&Json>, part: Part) -> Vec<String> {
        let annotated =
            warnings::is_annotated(object, INGRESS_CLASS_ANNOTATION) && !object.has("/spec/ingressClassName");
        match old {
            None if annotated => {
                vec![format!(
                    "annotation {INGRESS_CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"
                )]
            }
            Some(_) if part != Part::Object => warnings::load_balancer(object),
            _ => Vec::new(),
        }
    }

    fn defaults(&self, object: &mut Json) {
        object.member("spec");
        if let Some(status) = object.member("status") {
            status.member("loadBalancer");
        }
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        object.set("status", json!({"loadBalancer": {}}));
    }

    fn admit(&self, context: &Context<'_>, object: &mut Json, old: Option<&Json>, _: Part) -> Outcome<()> {
        let is_open = old.is_none()
            && !object.has("/spec/ingressClassName")
            && !warnings::is_annotated(object, INGRESS_CLASS_ANNOTATION);
        let classes = GroupResource::new("networking.k8s.io", "ingressclasses");
        if is_open && let Some(class) = default_class(context.cluster, &classes, &[DEFAULT_INGRESS_CLASS]) {
            object["spec"].set("ingressClassName", class);
        }
        Ok(())
    }

    fn validate_update(&self, new: &Json, _: &Json, part: Part) -> FieldFaults {
        if part != Part::Object { FieldFaults::default() } else { self.validate_create(new) }
    }

    fn validate_create(&self, object: &Json) -> FieldFaults {
        let empty = object.list("/spec/rules").next().is_none() && !object.has("/spec/defaultBackend");
        Check::of(object)
            .refuse(empty, || {
                FieldFault::invalid("spec", &Json::Null, "either `defaultBackend` or `rules` must be specified")
            })
            .inside("spec.defaultBackend", backend)
            .each("spec.rules", |rule, _| {
                let empty = rule.object().has("/http") && rule.object().list("/http/paths").next().is_none();
                let rule = rule.refuse(empty, || FieldFault::required("http.paths", ""));
                let host = rule.object().text("/host").to_owned();
                let rule = rule.refuse(host.parse::<IpAddr>().is_ok(), || {
                    FieldFault::invalid_text("host", &host, "must be a DNS name, not an IP address")
                });
                rule.name("host", NameRule::Subdomain).each("http.paths", |path, _| {
                    let text = path.object().text("/path");
                    let exact = path.object().text("/pathType") != "ImplementationSpecific";
                    let relative = !text.starts_with('/') && (exact || !text.is_empty());
                    let known = PATH_TYPES.contains(&path.object().text("/pathType"));
                    path.required_because("pathType", "pathType must be specified")
                        .one_of("pathType", PATH_TYPES)
                        .refuse(known && relative, || {
                            FieldFault::invalid_text("path", text, "must be an absolute path")
                        })
                        .inside("backend", backend)
                })
            })
            .done()
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Class, Hosts, Address, Ports, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        let class = match object.text("/spec/ingressClassName") {
            "" => row.text_or("/metadata/annotations/kubernetes.io~1ingress.class", "<none>"),
            class => class.into(),
        };
        let hosts = object.list("/spec/rules").map(|rule| rule.text("/host")).filter(|host| !host.is_empty());
        let hosts: Vec<String> = hosts.map(Into::into).collect();
        let hosts = if hosts.is_empty() { "*".into() } else { table::some(hosts) };
        let ports = if object.list("/spec/tls").next().is_some() { "80, 443" } else { "80" };
        let addresses = table::ingress_addresses(object);
        vec![row.name(), class, hosts.into(), addresses.into(), ports.into(), row.age()]
    }
}

fn backend(check: Check<'_>) -> Check<'_> {
    let object = check.object();
    let neither = !object.has("/service") && !object.has("/resource");
    let portless = object.has("/service")
        && object.text("/service/port/name").is_empty()
        && object.integer("/service/port/number").unwrap_or(0) == 0;
    let why = if neither { "service or resource backend is required" } else { "port name or number is required" };
    check.refuse(neither || portless, || FieldFault::required("", why))
}
