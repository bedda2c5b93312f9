//! NetworkPolicy.

use crate::kinds::check::Check;
use crate::kinds::network_rules::{PROTOCOLS, is_cidr};
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Strategy, warnings};
use crate::request::Part;
use crate::validate::{FieldFault, FieldFaults};
use jiff::Timestamp;
use pintle_json::{Json, json};

/// `networking.k8s.io/v1` NetworkPolicy.
#[derive(Clone, Copy, Debug)]
pub(in crate::kinds) struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn warnings(&self, object: &Json, _: Option<&Json>, _: Part) -> Vec<String> {
        let mut found = Vec::new();
        for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
            for (at, rule) in object.list(&format!("/spec/{rules}")).enumerate() {
                for (nth, peer) in rule.list(&format!("/{peers}")).enumerate() {
                    let path = format!("spec.{rules}[{at}].{peers}[{nth}].ipBlock");
                    found.extend(warnings::block(peer.text("/ipBlock/cidr"), &format!("{path}.cidr")));
                    found.extend(warnings::blocks(peer, "/ipBlock/except", &format!("{path}.except")));
                }
            }
        }
        found
    }

    fn defaults(&self, object: &mut Json) {
        let Some(spec) = object.member("spec") else { return };
        spec.member("podSelector");
        for key in ["ingress", "egress"] {
            for rule in spec.items_mut(key) {
                rule.items_mut("ports").for_each(|port| port.set_default("protocol", "TCP"));
            }
        }
        if spec.get("policyTypes").is_none_or(Json::is_empty) {
            let egress = spec.list("/egress").next().is_some();
            let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            spec.set("policyTypes", types);
        }
    }

    fn validate_create(&self, object: &Json) -> FieldFaults {
        let selector = &object["spec"]["podSelector"];
        Check::of(object)
            .also(crate::kinds::apps::selector_faults(selector, "spec.podSelector"))
            .each("spec.ingress", |rule, _| {
                rule.each("ports", |port, _| port_faults(port)).each("from", |peer, _| peer_faults(peer))
            })
            .each("spec.egress", |rule, _| {
                rule.each("ports", |port, _| port_faults(port)).each("to", |peer, _| peer_faults(peer))
            })
            .each("spec.policyTypes", |kind, _| {
                let value = kind.object();
                let known = ["Ingress", "Egress"];
                let wrong = !value.as_str().is_some_and(|text| known.contains(&text));
                kind.refuse(wrong, || FieldFault::unsupported("", value, &known))
            })
            .done()
    }

    fn columns(&self) -> Option<Vec<Column>> {
        table::columns("Name, Pod-Selector, Age")
    }

    fn cells(&self, object: &Json, now: Timestamp) -> Vec<Json> {
        let row = Row::new(object, now);
        vec![row.name(), table::selector(object.at("/spec/podSelector")).into(), row.age()]
    }
}

fn port_faults(port: Check<'_>) -> Check<'_> {
    let number = port.object().integer("/port");
    let wrong = number.is_some_and(|number| !(1..=65535).contains(&number));
    let why = "must be between 1 and 65535, inclusive";
    port.one_of("protocol", PROTOCOLS).refuse(wrong, || FieldFault::invalid("port", &number.unwrap_or(0).into(), why))
}

fn peer_faults(peer: Check<'_>) -> Check<'_> {
    let nobody = peer.object().is_empty();
    let range = peer.object().text("/ipBlock/cidr");
    let block = peer.object().has("/ipBlock");
    peer.refuse(nobody, || FieldFault::required("", "must specify a peer"))
        .refuse(block && range.is_empty(), || FieldFault::required("ipBlock.cidr", ""))
        .refuse(!range.is_empty() && !is_cidr(range), || {
            let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            FieldFault::invalid_text("ipBlock.cidr", range, why)
        })
}
