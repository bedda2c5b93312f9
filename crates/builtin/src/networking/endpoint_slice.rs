//! The `EndpointSlice` kind in `discovery.k8s.io`.

use pintle_apimachinery::cluster::Context;
use pintle_apimachinery::object::{differ_outside, duplicates};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule, label_value_faults, name_errors};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::{Check, immutable};
use pintle_kinds::table::{self, Cell, ComputedCells};

use crate::network_rules::{PROTOCOLS, domain_errors, ip_errors, is_own_address, special_address, strict_ip_errors};
use crate::warnings;

const CONTROLLERS: &[&str] = &["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

pub(crate) struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn warnings(&self, object: &Json, old: Option<&Json>, _: Subresource) -> Vec<String> {
        let mut found = Vec::new();
        if old.is_none() && object.text("/addressType") == "FQDN" {
            found.push("spec.addressType: FQDN endpoints are deprecated".into());
        }
        let labels = object.at("/metadata/labels");
        let controller = labels.and_then(|labels| labels.get("endpointslice.kubernetes.io/managed-by"));
        // Kubernetes' own controllers write addresses in canonical form, so their EndpointSlices cause no warnings.
        if controller.is_some_and(|by| CONTROLLERS.iter().any(|controller| by == controller)) {
            return found;
        }
        for (at, endpoint) in object.list("/endpoints").enumerate() {
            found.extend(warnings::ips(endpoint, "/addresses", &format!("endpoints[{at}].addresses")));
        }
        found
    }

    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Json) {
        // Remove the topology, because only the removed version v1beta1 supports it.
        object.items_mut("endpoints").for_each(|endpoint| endpoint.unset("deprecatedTopology"));
    }

    fn prepare_for_update(&self, context: &Context<'_>, new: &mut Json, old: &Json, _: Subresource) {
        if new.get("endpoints") != old.get("endpoints") {
            self.prepare_for_create(context, new);
        }
    }

    fn changes_generation(&self, new: &Json, old: &Json) -> bool {
        let labels = |object: &Json| object.at("/metadata/labels").filter(|labels| !labels.is_empty()).cloned();
        let part = |object: &Json, key: &str| object.get(key).filter(|part| !part.is_empty()).cloned();
        ["endpoints", "ports"].iter().any(|key| part(new, key) != part(old, key))
            || differ_outside(new, old, &["apiVersion", "kind", "metadata", "endpoints", "ports"])
            || labels(new) != labels(old)
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        port_errors(object).into_iter().chain(endpoint_errors(object)).collect()
    }

    /// Validates the endpoints only if the update changes them.
    fn validate_update(&self, new: &Json, old: &Json, _: Subresource) -> FieldErrors {
        let mut errors = port_errors(new);
        if new["endpoints"] != old["endpoints"] {
            errors.extend(endpoint_errors(new));
        }
        errors.extend(immutable(new, old, &["addressType"]));
        errors
    }

    fn computed_cells(&self) -> ComputedCells {
        &[("Ports", Cell::Computed(ports)), ("Endpoints", Cell::Computed(addresses))]
    }
}

fn ports(slice: &Json) -> Json {
    let ports = slice.list("/ports").map(|port| match (port.text("/name"), port.integer("/port")) {
        (_, Some(number)) => number.to_string(),
        ("", None) => "*".into(),
        (name, None) => name.into(),
    });
    few_or_unset(ports.collect())
}

fn addresses(slice: &Json) -> Json {
    let addresses = slice.list("/endpoints").flat_map(|endpoint| endpoint.texts("/addresses"));
    few_or_unset(addresses.map(Into::into).collect())
}

fn few_or_unset(texts: Vec<String>) -> Json {
    if texts.is_empty() { "<unset>".into() } else { table::first_few(texts).into() }
}

const MAX_ENDPOINTS: usize = 1_000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_HINTS: usize = 8;

fn port_errors(object: &Json) -> FieldErrors {
    let check = Check::of(object).required("addressType").one_of("addressType", &["FQDN", "IPv4", "IPv6"]);
    let names: Vec<&str> = object.list("/ports").map(|port| port.text("/name")).collect();
    if names.len() > MAX_PORTS {
        return check.also([FieldError::too_many("ports", names.len(), MAX_PORTS)]).done();
    }
    let duplicates = duplicates(names.iter());
    let check = check.each("ports", |port, at| {
        port.name("name", NameRule::Label)
            .duplicate_if(duplicates[at], "name", &names[at].into())
            .known("protocol", PROTOCOLS)
            .inside("appProtocol", |protocol| protocol.whole_is_qualified())
    });
    check.done()
}

fn endpoint_errors(object: &Json) -> FieldErrors {
    let count = object.list("/endpoints").count();
    if count > MAX_ENDPOINTS {
        return FieldErrors::from([FieldError::too_many("endpoints", count, MAX_ENDPOINTS)]);
    }
    let kind = object.text("/addressType");
    let check = Check::of(object).each("endpoints", |endpoint, at| {
        let value = endpoint.object();
        let count = value.list("/addresses").count();
        let path = format!("endpoints[{at}].addresses");
        let others = value.texts("/addresses").enumerate().filter(|(_, address)| !is_own_address(object, address));
        endpoint
            .required_because("addresses", "must contain at least 1 address")
            .refuse(count > MAX_ADDRESSES, || FieldError::too_many("addresses", count, MAX_ADDRESSES))
            .also(others.flat_map(|(nth, address)| address_errors(kind, address, &path, nth)))
            .inside("nodeName", |name| name.whole_is(NameRule::Subdomain))
            .inside("hostname", |name| name.whole_is(NameRule::Label))
            .inside("hints", |hints| {
                let many = hints.object().list("/forZones").count() > MAX_HINTS;
                let hints = hint_errors(hints, "forZones");
                if many { hints } else { hint_errors(hints, "forNodes") }
            })
    });
    check.done()
}

fn hint_errors<'a>(hints: Check<'a>, list: &str) -> Check<'a> {
    let object = hints.object();
    let count = object.list(&format!("/{list}")).count();
    if count > MAX_HINTS {
        return hints.refuse(true, || FieldError::too_many(list, count, MAX_HINTS));
    }
    let duplicates = duplicates(object.list(&format!("/{list}")).map(|hint| hint.text("/name")));
    hints.each(list, |hint, at| {
        let name = hint.object().text("/name");
        let why = match list {
            "forNodes" => name_errors(NameRule::Subdomain, name, false),
            _ => label_value_faults(name),
        };
        let hint = hint.duplicate_if(duplicates[at], "name", &name.into());
        why.iter().fold(hint, |hint, why| hint.invalid_text_if(true, "name", name, why))
    })
}

fn address_errors(kind: &str, address: &str, path: &str, at: usize) -> FieldErrors {
    let field = format!("{path}[{at}]");
    let mut errors = FieldErrors::default();
    match kind {
        "IPv4" => errors.extend(ip_errors(address, &field)),
        "IPv6" => errors.extend(strict_ip_errors(address, &field)),
        "FQDN" => return domain_errors(address, &field).into_iter().collect(),
        _ => return errors,
    }
    if errors.is_empty() {
        if address.contains(':') != (kind == "IPv6") {
            errors.push(FieldError::invalid_text(path, address, format!("must be an {kind} address")));
        }
        errors.extend(special_address(address, &field));
    }
    errors
}
