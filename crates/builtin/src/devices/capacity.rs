//! Validates the capacities of devices, and the policies for requests of a part of a capacity.

use std::collections::HashSet;

use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;
use pintle_schema::quantity::{self, Quantity};

const MAX_VALUES: usize = 10;

/// Validates a capacity. Only a capacity of a device that can be allocated several times may have a policy.
pub(super) fn capacity_errors(capacity: &Json, path: &str, is_shared: bool) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let Some(policy) = capacity.get("requestPolicy").filter(|policy| !policy.is_null()) else { return errors };
    let path = format!("{path}.requestPolicy");
    if !is_shared {
        errors.push(FieldError::forbidden(path, "allowMultipleAllocations must be true"));
        return errors;
    }
    let has_values = policy.list("/validValues").next().is_some();
    let field = match (has_values, policy.has("/validRange")) {
        (true, true) => {
            let why = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
            errors.push(FieldError::forbidden(path, why));
            return errors;
        }
        (true, false) => "validValues",
        (false, true) => "validRange",
        (false, false) => return errors,
    };
    match policy.get("default").and_then(Json::as_str) {
        None => {
            errors.push(FieldError::required(format!("{path}.default"), &format!("required when {field} is defined")))
        }
        Some(default) => {
            let capacity = capacity.text("/value");
            let policy = Policy { rules: &policy[field], path: format!("{path}.{field}"), default, capacity };
            if has_values { policy.check_values(&mut errors) } else { policy.check_range(&mut errors) }
        }
    }
    errors
}

/// The rules for the amounts that a request can ask for.
struct Policy<'a> {
    rules: &'a Json,
    path: String,
    default: &'a str,
    capacity: &'a str,
}

impl Policy<'_> {
    fn check_values(&self, errors: &mut FieldErrors) {
        let values: Vec<&str> = self.rules.as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        let field = |at: usize| format!("{}[{at}]", self.path);
        for (at, pair) in values.windows(2).enumerate().filter(|(_, pair)| is_less(pair[1], pair[0])) {
            let why = "values must be sorted in ascending order";
            errors.add(|| FieldError::invalid_text(field(at + 1), pair[1], why));
        }
        if values.len() > MAX_VALUES {
            errors.push(FieldError::too_many(self.path.as_str(), values.len(), MAX_VALUES));
        } else {
            for (at, value) in values.iter().enumerate() {
                let why = format!("option is larger than capacity value: {}", self.capacity);
                errors.invalid_text_if(is_less(self.capacity, value), field(at), value, why);
            }
            // As in kube-apiserver, amounts are duplicates if they round up to the same integer.
            let mut seen = HashSet::new();
            for (at, whole) in values.iter().map(|value| parsed(value).whole()).enumerate() {
                errors.duplicate_if(!seen.insert(whole), field(at), &whole.to_string().into());
            }
        }
        let is_default = |value: &&str| quantity::nanos(value) == quantity::nanos(self.default);
        let is_valid = values.len() <= MAX_VALUES && values.iter().any(is_default);
        let why = "default value is not valid according to the requestPolicy";
        errors.invalid_text_if(!is_valid, self.path.as_str(), self.default, why);
    }

    fn check_range(&self, errors: &mut FieldErrors) {
        let Self { rules, path, default, capacity } = self;
        let part = |key: &str| rules.get(key).and_then(Json::as_str);
        let [min_field, max_field, step_field] = ["min", "max", "step"].map(|key| format!("{path}.{key}"));
        let Some(min) = part("min") else {
            return errors.push(FieldError::required(min_field, "required when validRange is defined"));
        };
        let too_large = |what: &str| format!("{what} is larger than capacity value: {capacity}");
        errors.invalid_text_if(is_less(capacity, min), min_field.as_str(), min, too_large("min"));
        let why = format!("default is less than min: {min}");
        errors.invalid_text_if(is_less(default, min), min_field.as_str(), default, why);
        let max = part("max");
        if let Some(max) = max {
            let why = format!("min is larger than max: {max}");
            errors.invalid_text_if(is_less(max, min), max_field.as_str(), min, why);
            errors.invalid_text_if(is_less(capacity, max), max_field.as_str(), max, too_large("max"));
            let why = format!("default is more than max: {max}");
            errors.invalid_text_if(is_less(max, default), max_field.as_str(), default, why);
        }
        let Some(step) = part("step") else { return };
        let (first, width) = (parsed(min), parsed(step));
        let next = first.plus(width);
        let is_over = next.nanos() > parsed(capacity).nanos();
        errors.invalid_text_if(is_over, step_field.as_str(), step, too_large(&format!("one step {next}")));
        // As in kube-apiserver, all amounts are rounded up to integers. A step of 0 makes kube-apiserver panic.
        for value in [Some(*default), max].into_iter().flatten() {
            let distance = parsed(value).whole() - first.whole();
            let is_multiple = distance.checked_rem(width.whole()).is_none_or(|rest| rest == 0);
            let why = format!("value is not a multiple of a given step ({step}) from ({min})");
            errors.invalid_text_if(!is_multiple, step_field.as_str(), value, why);
        }
    }
}

fn parsed(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or(Quantity::ZERO)
}

fn is_less(one: &str, other: &str) -> bool {
    quantity::nanos(one) < quantity::nanos(other)
}
