//! The `NetworkPolicy` kind in `networking.k8s.io/v1`.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::{Json, json};
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;
use pintle_kinds::label_selector::selector_errors;

use crate::core::pod::port_name_errors;
use crate::network_rules::{cidr_errors, is_cidr};
use crate::warnings;
use std::net::IpAddr;

pub(crate) struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn warnings(&self, object: &Json, _: Option<&Json>, _: Subresource) -> Vec<String> {
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
        if let Some(spec) = object.member("spec")
            && spec.get("policyTypes").is_none_or(Json::is_empty)
        {
            let egress = spec.list("/egress").next().is_some();
            let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            spec.set("policyTypes", types);
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        let selector = &object["spec"]["podSelector"];
        let types = object["spec"]["policyTypes"].as_array().map(Vec::as_slice).unwrap_or_default();
        Check::of(object)
            .also(pintle_kinds::label_selector::selector_errors(selector, "spec.podSelector"))
            .each("spec.ingress", |rule, _| {
                rule.each("ports", |port, _| port_errors(port)).each("from", |peer, _| peer_errors(peer))
            })
            .each("spec.egress", |rule, _| {
                rule.each("ports", |port, _| port_errors(port)).each("to", |peer, _| peer_errors(peer))
            })
            .refuse(types.len() > 2, || {
                FieldError::invalid("spec.policyTypes", &types.into(), "may not specify more than two policyTypes")
            })
            .each(if types.len() > 2 { "" } else { "spec.policyTypes" }, |kind, _| {
                let value = kind.object();
                let known = ["Ingress", "Egress"];
                let wrong = !value.as_str().is_some_and(|text| known.contains(&text));
                kind.unsupported_if(wrong, "", value, &known)
            })
            .done()
    }
}

fn port_errors(port: Check<'_>) -> Check<'_> {
    const RANGE: &str = "must be between 1 and 65535, inclusive";
    let object = port.object();
    let (first, last) = (object.get("port").filter(|port| !port.is_null()), object.integer("/endPort"));
    let port = port.known("protocol", &["TCP", "UDP", "SCTP"]);
    let value = last.unwrap_or(0).into();
    match first.map(|first| (first.as_str(), first.as_i64().unwrap_or(0))) {
        None => port.invalid_if(last.is_some(), "endPort", &value, "may not be specified when `port` is not specified"),
        Some((None, first)) => port
            .within("port", 1, 65535, RANGE)
            .refuse(last.is_some_and(|last| last < first), || {
                FieldError::invalid("endPort", &first.into(), "must be greater than or equal to `port`")
            })
            .within("endPort", 1, 65535, RANGE),
        Some((Some(name), _)) => {
            let port = port.refuse(last.is_some(), || {
                FieldError::invalid("endPort", &value, "may not be specified when `port` is non-numeric")
            });
            port_name_errors(name).iter().fold(port, |port, why| port.invalid_text_if(true, "port", name, why))
        }
    }
}

fn peer_errors(peer: Check<'_>) -> Check<'_> {
    let object = peer.object();
    let has_field = |key: &str| object.has(&format!("/{key}"));
    let selects = has_field("podSelector") || has_field("namespaceSelector");
    let peer = ["podSelector", "namespaceSelector"].iter().fold(peer, |peer, key| {
        let path = peer.path(key);
        peer.also(selector_errors(&object[*key], &path))
    });
    peer.inside("ipBlock", block_errors)
        .required_if(!selects && !has_field("ipBlock"), "", "must specify a peer")
        .forbidden_if(selects && has_field("ipBlock"), "", "may not specify both ipBlock and another peer")
}

fn block_errors(block: Check<'_>) -> Check<'_> {
    let object = block.object();
    let range = object.text("/cidr");
    let path = block.path("cidr");
    let block = block.required("cidr").also(cidr_errors(range, &path).filter(|_| !range.is_empty()));
    if !is_cidr(range) {
        return block;
    }
    object.texts("/except").enumerate().fold(block, |block, (at, except)| {
        let field = format!("except[{at}]");
        let odd = !is_cidr(except);
        let error = cidr_errors(except, &block.path(&field));
        block.also(error).refuse(!odd && !lies_within(except, range), || {
            FieldError::invalid_text(field.as_str(), except, "must be a strict subset of `cidr`")
        })
    })
}

/// Returns `true` if the CIDR block `inner` is a strict subset of `outer`.
fn lies_within(inner: &str, outer: &str) -> bool {
    let read = |range: &str| {
        let (address, length) = range.split_once('/')?;
        let bits = match address.parse::<IpAddr>().ok()? {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 4),
            IpAddr::V6(address) => (address.to_bits(), 6),
        };
        Some((bits, length.parse::<u32>().ok()?))
    };
    let (Some(((inner, family), longer)), Some(((outer, other), length))) = (read(inner), read(outer)) else {
        return false;
    };
    let differs = (inner ^ outer).checked_shr(128 - length.min(128)).unwrap_or(0) != 0;
    family == other && longer > length && !differs
}
