//! The core `Endpoints` kind.

use std::net::IpAddr;

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;
use pintle_kinds::table::{self, Cell, ComputedCells};

use crate::network_rules::{ip_errors, is_own_address, special_address};
use crate::warnings;

pub(crate) struct Endpoints;

impl Strategy for Endpoints {
    fn deprecation(&self) -> Option<&str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    fn warnings(&self, object: &Json, _: Option<&Json>, _: Subresource) -> Vec<String> {
        let labels = object.at("/metadata/labels");
        let controller = labels.and_then(|labels| labels.get("endpoints.kubernetes.io/managed-by"));
        if controller.is_some_and(|controller| controller == "endpoint-controller") {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (at, subset) in object.list("/subsets").enumerate() {
            for key in ["addresses", "notReadyAddresses"] {
                for (nth, address) in subset.list(&format!("/{key}")).enumerate() {
                    found.extend(warnings::ip(address.text("/ip"), &format!("subsets[{at}].{key}[{nth}].ip")));
                }
            }
        }
        found
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        Check::of(object)
            .each("subsets", |subset, _| {
                let both = ["/addresses", "/notReadyAddresses"];
                let none = both.iter().all(|pointer| subset.object().list(pointer).next().is_none());
                let why = "must specify `addresses` or `notReadyAddresses`";
                let subset = subset.required_if(none, "", why);
                let several = subset.object().list("/ports").count() > 1;
                let subset = subset.each("addresses", |address, _| address_errors(object, address));
                subset.each("notReadyAddresses", |address, _| address_errors(object, address)).each(
                    "ports",
                    |port, _| {
                        let number = port.object().integer("/port").unwrap_or(0);
                        let nameless = port.object().text("/name").is_empty();
                        port.required_if(several && nameless, "name", "")
                            .name("name", NameRule::Label)
                            .refuse(!(1..=65535).contains(&number), || {
                                FieldError::invalid("port", &number.into(), "must be between 1 and 65535, inclusive")
                            })
                            .one_of("protocol", &["SCTP", "TCP", "UDP"])
                            .inside("appProtocol", |protocol| protocol.whole_is_qualified())
                    },
                )
            })
            .done()
    }

    fn computed_cells(&self) -> ComputedCells {
        &[("Endpoints", Cell::Computed(endpoints))]
    }
}

fn endpoints(object: &Json) -> Json {
    let mut texts = Vec::new();
    for subset in object.list("/subsets") {
        let ports: Vec<_> = subset.list("/ports").map(|port| port.integer("/port").unwrap_or(0)).collect();
        for ip in subset.list("/addresses").map(|address| address.text("/ip")) {
            if ports.is_empty() {
                texts.push(ip.to_owned());
            }
            texts.extend(ports.iter().map(|port| format!("{ip}:{port}")));
        }
    }
    table::first_few(texts).into()
}

fn address_errors<'a>(endpoints: &Json, address: Check<'a>) -> Check<'a> {
    let ip = address.object().text("/ip");
    let error = ip_errors(ip, "ip");
    let wrong = ip.parse::<IpAddr>().is_err();
    let special = special_address(ip, "ip").filter(|_| !is_own_address(endpoints, ip));
    address
        .refuse(error.is_some(), || error.unwrap_or_else(|| FieldError::required("ip", "")))
        .name("hostname", NameRule::Label)
        .inside("nodeName", |name| name.whole_is(NameRule::Subdomain))
        .invalid_text_if(wrong, "ip", ip, "must be a valid IP address")
        .refuse(special.is_some(), || special.unwrap_or_else(|| FieldError::required("ip", "")))
}
