//! The `PriorityLevelConfiguration` kind in `flowcontrol.apiserver.k8s.io`.

use pintle_apimachinery::cluster::Cluster;
use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::{Json, json};
use pintle_kinds::check::Check;
use pintle_kinds::without_effect::{FLOW_CONTROL, object_warning};
use pintle_kinds::{Kinds, Strategy};

pub(crate) struct PriorityLevelConfiguration;

impl Strategy for PriorityLevelConfiguration {
    fn without_effect(&self, object: &Json, _: &Kinds, _: &dyn Cluster) -> Vec<String> {
        object_warning(object, FLOW_CONTROL)
    }

    fn defaults(&self, object: &mut Json) {
        if let Some(queuing) = object.at_mut("/spec/limited/limitResponse/queuing") {
            for (key, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
                if queuing.integer(&format!("/{key}")).unwrap_or(0) == 0 {
                    queuing.set(key, value);
                }
            }
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        errors(object)
    }

    fn validate_update(&self, new: &Json, _: &Json, subresource: Subresource) -> FieldErrors {
        if subresource == Subresource::Status { FieldErrors::default() } else { errors(new) }
    }
}

fn errors(object: &Json) -> FieldErrors {
    let spec = &object["spec"];
    let (name, kind) = (metadata::name(object), spec.text("/type"));
    let (exempt, limited) = (spec.has("/exempt"), spec.has("/limited"));
    let mut errors = Check::at(spec, "spec")
        .refuse((name == "exempt") != (kind == "Exempt"), || {
            FieldError::invalid_text("type", kind, "must be 'Exempt' if and only if `name` is 'exempt'")
        })
        .forbidden_if(kind == "Exempt" && limited, "limited", "must be nil if the type is not Limited")
        .forbidden_if(kind == "Limited" && exempt, "exempt", "must be nil if the type is Limited")
        .required_if(kind == "Limited" && !limited, "limited", "must not be empty")
        .done();
    match name {
        // The priority level `exempt` may change only its field `exempt`.
        "exempt" if kind != "Exempt" || limited => {
            errors.push(super::fixed_spec_error(name, spec, " except the 'spec.exempt' field"));
        }
        "catch-all"
            if *spec
                != json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}, "lendablePercent": 0}}) =>
        {
            errors.push(super::fixed_spec_error(name, spec, ""));
        }
        _ => {}
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exempt_type_is_reserved_and_mandatory_levels_are_fixed() {
        let limited = json!({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}, "lendablePercent": 0});
        let of = |name: &str, spec: Json| {
            let errors = errors(&json!({"metadata": {"name": name}, "spec": spec}));
            errors.into_iter().map(|error| error.field).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(of("exempt", json!({"type": "Exempt", "exempt": {"lendablePercent": 7}})), none);
        assert_eq!(of("catch-all", json!({"type": "Limited", "limited": limited})), none);
        assert_eq!(of("a", json!({"type": "Limited", "limited": {}})), none);
        assert_eq!(of("a", json!({"type": "Limited"})), ["spec.limited"]);
        assert_eq!(of("a", json!({"type": "Exempt"})), ["spec.type"]);
        let both = json!({"type": "Limited", "limited": limited, "exempt": {}});
        assert_eq!(of("exempt", both), ["spec.type", "spec.exempt", "spec"]);
        let other = json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 50, "limitResponse": {"type": "Reject"}, "lendablePercent": 0}});
        assert_eq!(of("catch-all", other), ["spec"]);
    }
}
