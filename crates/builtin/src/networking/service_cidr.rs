//! The `ServiceCIDR` kind in `networking.k8s.io`.

use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_kinds::Strategy;
use pintle_kinds::without_effect::{SERVICE_RANGES, object_warning};

use crate::network_rules::strict_cidr_errors;

const CIDRS: &str = "spec.cidrs";

pub(crate) struct ServiceCidr;

impl Strategy for ServiceCidr {
    fn validate_create(&self, object: &Json) -> FieldErrors {
        let ranges: Vec<&str> = texts(object);
        match ranges.len() {
            0 => return FieldErrors::from([FieldError::required(CIDRS, "at least one CIDR required")]),
            1 | 2 => {}
            _ => {
                return FieldErrors::from([FieldError::invalid(
                    CIDRS,
                    &object["spec"],
                    "may only hold up to 2 values",
                )]);
            }
        }
        let each = ranges.iter().enumerate();
        let mut errors: FieldErrors =
            each.filter_map(|(at, range)| strict_cidr_errors(range, &format!("{CIDRS}[{at}]"))).collect();
        let families: Vec<_> = ranges.iter().filter_map(|range| is_ipv4(range)).collect();
        if let [first, second] = families[..]
            && first == second
        {
            let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
            errors.push(FieldError::invalid(CIDRS, &object["spec"]["cidrs"], why));
        }
        errors
    }

    /// Allows an update to add a second range, and rejects all other changes.
    fn validate_update(&self, new: &Json, old: &Json, subresource: Subresource) -> FieldErrors {
        const WHY: &str = "field is immutable";
        let (is, was) = (texts(new), texts(old));
        let changed = |at: usize| FieldError::invalid_text(format!("{CIDRS}[{at}]"), is[at], WHY);
        match (was.len(), is.len()) {
            _ if subresource == Subresource::Status => FieldErrors::default(),
            (before, now) if before == now => (0..now).filter(|at| was[*at] != is[*at]).map(changed).collect(),
            (1, 2) => {
                let first = (was[0] != is[0]).then(|| changed(0));
                first.into_iter().chain(self.validate_create(new)).collect()
            }
            _ => FieldErrors::from([FieldError::invalid(CIDRS, &new["spec"]["cidrs"], WHY)]),
        }
    }

    fn without_effect(&self, object: &Json, _: &dyn Fn(&str, &str) -> bool) -> Vec<String> {
        object_warning(object, SERVICE_RANGES)
    }
}

fn texts(object: &Json) -> Vec<&str> {
    object.list("/spec/cidrs").map(|range| range.as_str().unwrap_or_default()).collect()
}

fn is_ipv4(range: &str) -> Option<bool> {
    let address: std::net::IpAddr = range.split_once('/')?.0.parse().ok()?;
    Some(address.is_ipv4())
}
