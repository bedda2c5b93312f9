//! Values that are an integer or a percentage such as `25%`.

use pintle_apimachinery::validate::{FieldError, FieldErrors};
use pintle_json::Json;

/// Reports a field whose value is a negative number or an invalid percentage.
pub(super) fn share_errors(object: &Json, field: &str) -> Option<FieldError> {
    let value = share(object, field)?;
    let why = match value {
        Json::Number(_) if value.as_i64().is_some_and(|number| number < 0) => "must be greater than or equal to 0",
        Json::String(_) if percent(value).is_none() => {
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for \
             validation is '[0-9]+%')"
        }
        _ => return None,
    };
    Some(FieldError::invalid(field, value, why))
}

pub(super) fn above_100_percent(object: &Json, field: &str) -> Option<FieldError> {
    let value = share(object, field)?;
    (percent(value)? > 100).then(|| FieldError::invalid(field, value, "must not be greater than 100%"))
}

pub(super) fn bounded_share_errors(object: &Json, field: &str) -> FieldErrors {
    share_errors(object, field).into_iter().chain(above_100_percent(object, field)).collect()
}

/// Returns `true` if the value is zero or absent. A string that is not a number or a percentage is treated as zero.
pub(super) fn is_zero(object: &Json, field: &str) -> bool {
    share(object, field).is_none_or(|value| match value {
        Json::String(text) => percent(value).or_else(|| text.parse().ok()).unwrap_or(0) == 0,
        value => value.as_i64() == Some(0),
    })
}

fn share<'a>(object: &'a Json, field: &str) -> Option<&'a Json> {
    object.at(&format!("/{}", field.replace('.', "/"))).filter(|value| !value.is_null())
}

/// Parses a percentage. A number that does not fit into Go's `int` becomes the maximum `int`.
fn percent(value: &Json) -> Option<i64> {
    let digits = value.as_str()?.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    #[test]
    fn integers_and_percentages_are_validated() {
        for (share, wrong, too_much, zero) in [
            (json!(0), false, false, true),
            (json!(1), false, false, false),
            (json!(-1), true, false, false),
            (json!("0%"), false, false, true),
            (json!("100%"), false, false, false),
            (json!("101%"), false, true, false),
            (json!("99999999999999999999%"), false, true, false),
            (json!("x"), true, false, true),
            (json!("%"), true, false, true),
            (json!("5"), true, false, false),
            (json!("+5%"), true, false, true),
        ] {
            let object = json!({"a": share});
            let found = (
                share_errors(&object, "a").is_some(),
                above_100_percent(&object, "a").is_some(),
                is_zero(&object, "a"),
            );
            assert_eq!(found, (wrong, too_much, zero), "{share}");
        }
    }
}
