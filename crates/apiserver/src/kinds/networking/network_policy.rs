//! NetworkPolicy.

use super::PROTOCOLS;
use crate::kinds::check::Check;
use crate::kinds::networking::is_cidr;
use crate::kinds::table::{self, Column, Row};
use crate::kinds::{Strategy, warnings};
use crate::object::{default, has, is_empty, items, list, member, text_at};
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
            for (at, rule) in list(object, &format!("/spec/{rules}")).enumerate() {
                for (nth, peer) in list(rule, &format!("/{peers}")).enumerate() {
                    let path = format!("spec.{rules}[{at}].{peers}[{nth}].ipBlock");
                    found.extend(warnings::block(text_at(peer, "/ipBlock/cidr"), &format!("{path}.cidr")));
                    found.extend(warnings::blocks(peer, "/ipBlock/except", &format!("{path}.except")));
                }
            }
        }
        found
    }

    fn defaults(&self, object: &mut Json) {
        let Some(spec) = member(object, "spec") else { return };
        member(spec, "podSelector");
        for key in ["ingress", "egress"] {
            for rule in items(spec, key) {
                items(rule, "ports").for_each(|port| default(port, "protocol", "TCP"));
            }
        }
        if spec.get("policyTypes").is_none_or(is_empty) {
            let egress = list(spec, "/egress").next().is_some();
            let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            crate::object::set(spec, "policyTypes", types);
        }
    }

    fn validate_create(&self, object: &Json) -> FieldFaults {
        let selector = object.at("/spec/podSelector").unwrap_or(&Json::Null);
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
    let number = port.object().get("port").and_then(Json::as_i64);
    let wrong = number.is_some_and(|number| !(1..=65535).contains(&number));
    let why = "must be between 1 and 65535, inclusive";
    port.one_of("protocol", PROTOCOLS).refuse(wrong, || FieldFault::invalid("port", &number.unwrap_or(0).into(), why))
}

fn peer_faults(peer: Check<'_>) -> Check<'_> {
    let nobody = is_empty(peer.object());
    let range = text_at(peer.object(), "/ipBlock/cidr");
    let block = has(peer.object(), "/ipBlock");
    peer.refuse(nobody, || FieldFault::required("", "must specify a peer"))
        .refuse(block && range.is_empty(), || FieldFault::required("ipBlock.cidr", ""))
        .refuse(!range.is_empty() && !is_cidr(range), || {
            let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            FieldFault::invalid_text("ipBlock.cidr", range, why)
        })
}
