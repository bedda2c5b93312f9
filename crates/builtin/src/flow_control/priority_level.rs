//! The `PriorityLevelConfiguration` kind in `flowcontrol.apiserver.k8s.io`.

use pintle_apimachinery::object::metadata;
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::{Json, json};
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;
use pintle_kinds::without_effect::{FLOW_CONTROL, object_warning};

pub(crate) struct PriorityLevelConfiguration;

impl Strategy for PriorityLevelConfiguration {
    fn without_effect(&self, object: &Json, _: &dyn Fn(&str, &str) -> bool) -> Vec<String> {
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
        if subresource == Subresource::Status { super::status_errors(new) } else { errors(new) }
    }
}

const TYPES: &[&str] = &["Exempt", "Limited"];

fn share_errors(shares: Check<'_>) -> Check<'_> {
    let share = shares.object().integer("/nominalConcurrencyShares").unwrap_or(0);
    shares.invalid_if(share < 0, "nominalConcurrencyShares", &share.into(), "must be a non-negative integer")
}

fn lending_errors(shares: Check<'_>) -> Check<'_> {
    let percent = shares.object().integer("/lendablePercent").unwrap_or(0);
    let why = "must be between 0 and 100, inclusive";
    shares.invalid_if(!(0..=100).contains(&percent), "lendablePercent", &percent.into(), why)
}

fn limited_errors(limited: Check<'_>) -> Check<'_> {
    let borrowed = limited.object().integer("/borrowingLimitPercent").unwrap_or(0);
    let why = "if specified, must be a non-negative integer";
    let limited = share_errors(limited).child("limitResponse", |response| {
        let (kind, queued) = (response.object().text("/type"), response.object().has("/queuing"));
        let unknown = !matches!(kind, "Queue" | "Reject");
        let forbidden = "must be nil if limited.limitResponse.type is not Limited";
        let missing = "must not be empty if limited.limitResponse.type is Limited";
        let response = response
            .unsupported_if(unknown, "type", &kind.into(), &["Queue", "Reject"])
            .forbidden_if(kind == "Reject" && queued, "queuing", forbidden)
            .required_if(kind == "Queue" && !queued, "queuing", missing);
        if kind == "Queue" { response.inside("queuing", queuing_errors) } else { response }
    });
    lending_errors(limited).invalid_if(borrowed < 0, "borrowingLimitPercent", &borrowed.into(), why)
}

fn queuing_errors(queuing: Check<'_>) -> Check<'_> {
    const MOST_QUEUES: i64 = 10_000_000;
    const HASH_BITS: i64 = 60;
    const POSITIVE: &str = "must be positive";
    let number = |key: &str| queuing.object().integer(&format!("/{key}")).unwrap_or(0);
    let (length, queues, hand) = (number("queueLengthLimit"), number("queues"), number("handSize"));
    // Each of the `hand` draws consumes enough bits for a queue number.
    let bits = ((queues as f64).log2() * hand as f64).ceil() as i64;
    let hand_error = match () {
        () if hand <= 0 => Some(POSITIVE.to_owned()),
        () if hand > queues => Some(format!("should not be greater than queues ({queues})")),
        () if bits > HASH_BITS => Some(format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        )),
        () => None,
    };
    queuing
        .invalid_if(length <= 0, "queueLengthLimit", &length.into(), POSITIVE)
        .invalid_if(queues <= 0, "queues", &queues.into(), POSITIVE)
        .invalid_if(queues > MOST_QUEUES, "queues", &queues.into(), format!("must not be greater than {MOST_QUEUES}"))
        .invalid_if(hand_error.is_some(), "handSize", &hand.into(), hand_error.unwrap_or_default())
}

fn errors(object: &Json) -> FieldErrors {
    let spec = &object["spec"];
    let (name, kind) = (metadata::name(object), spec.text("/type"));
    let (exempt, limited) = (spec.has("/exempt"), spec.has("/limited"));
    let check = Check::at(spec, "spec")
        .refuse((name == "exempt") != (kind == "Exempt"), || {
            FieldError::invalid_text("type", kind, "must be 'Exempt' if and only if `name` is 'exempt'")
        })
        .forbidden_if(kind == "Exempt" && limited, "limited", "must be nil if the type is not Limited")
        .forbidden_if(kind == "Limited" && exempt, "exempt", "must be nil if the type is Limited")
        .required_if(kind == "Limited" && !limited, "limited", "must not be empty when type is Limited")
        .unsupported_if(!TYPES.contains(&kind), "type", &kind.into(), TYPES);
    let check = match kind {
        "Exempt" => check.inside("exempt", |exempt| lending_errors(share_errors(exempt))),
        "Limited" => check.inside("limited", limited_errors),
        _ => check,
    };
    let mut errors = check.done();
    match name {
        // In the priority level `exempt`, only the field `exempt` may change.
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
        assert_eq!(of("a", json!({"type": "Limited", "limited": {}})), ["spec.limited.limitResponse.type"]);
        assert_eq!(of("a", json!({"type": "Limited"})), ["spec.limited"]);
        assert_eq!(of("a", json!({"type": "Exempt"})), ["spec.type"]);
        let both = json!({"type": "Limited", "limited": limited, "exempt": {}});
        assert_eq!(of("exempt", both), ["spec.type", "spec.exempt", "spec"]);
        let other = json!({"type": "Limited", "limited": {"nominalConcurrencyShares": 50, "limitResponse": {"type": "Reject"}, "lendablePercent": 0}});
        assert_eq!(of("catch-all", other), ["spec"]);
    }
    #[test]
    fn limits_and_queues_are_validated() {
        let queuing = |queues: i64, hand: i64| json!({"type": "Queue", "queuing": {"queueLengthLimit": 5, "queues": queues, "handSize": hand}});
        for (key, value, expected) in [
            ("nominalConcurrencyShares", json!(-1), "nominalConcurrencyShares"),
            ("lendablePercent", json!(101), "lendablePercent"),
            ("borrowingLimitPercent", json!(-1), "borrowingLimitPercent"),
            ("limitResponse", json!({"type": "Drop"}), "limitResponse.type"),
            ("limitResponse", json!({"type": "Queue"}), "limitResponse.queuing"),
            ("limitResponse", json!({"type": "Reject", "queuing": {}}), "limitResponse.queuing"),
            ("limitResponse", queuing(16, 17), "limitResponse.queuing.handSize"),
            ("limitResponse", queuing(70_000, 4), "limitResponse.queuing.handSize"),
        ] {
            let mut limited = json!({"limitResponse": {"type": "Reject"}});
            limited[key] = value;
            let object = json!({"metadata": {"name": "a"}, "spec": {"type": "Limited", "limited": limited}});
            let found: Vec<_> = errors(&object).into_iter().map(|error| error.field).collect();
            assert_eq!(found, [format!("spec.limited.{expected}")], "{object}");
        }
    }
}
