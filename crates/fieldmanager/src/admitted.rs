//! Checks the `managedFields` of objects after mutating admission.

use pintle_json::Json;

use super::managers::Managers;

/// If `managedFields` is malformed after mutating admission, restores the entries from `before` the admission, and
/// returns the text of the warning about the malformed entries.
pub fn restore_malformed(object: &mut Json, before: Option<Json>) -> Option<String> {
    let fault = object.list("/metadata/managedFields").enumerate().find_map(|(at, entry)| fault(at, entry))?;
    let metadata = object.member("metadata")?;
    match before {
        Some(before) => metadata.set("managedFields", before),
        None => metadata.unset("managedFields"),
    }
    Some(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating \
         admission controller; please fix your requests: {fault}"
    ))
}

fn fault(at: usize, entry: &Json) -> Option<String> {
    let text = |name: &str| entry[name].as_str().unwrap_or_default();
    if !matches!(text("operation"), "Apply" | "Update") {
        return Some("operation must be `Apply` or `Update`".into());
    }
    if text("apiVersion").is_empty() {
        return Some("apiVersion must not be empty".into());
    }
    match text("fieldsType") {
        "FieldsV1" => {}
        "" => return Some(format!("missing fieldsType in managed fields entry {at}")),
        other => return Some(format!("invalid fieldsType {other:?} in managed fields entry {at}")),
    }
    let is_malformed = Managers::of_entries(&Json::Array(vec![entry.clone()])).is_none();
    is_malformed.then(|| "error decoding versioned set".into())
}

#[cfg(test)]
mod tests {
    use pintle_json::json;

    use super::*;

    #[test]
    fn malformed_entries_are_replaced_by_earlier_entries() {
        // The expected messages are from kube-apiserver 1.36.1.
        let entry = |operation: &str, version: &str, kind: &str, fields: Json| json!([{"manager": "m", "operation": operation, "apiVersion": version, "fieldsType": kind, "fieldsV1": fields}]);
        let before = entry("Update", "v1", "FieldsV1", json!({"f:data": {}}));
        for (after, expected) in [
            (json!([{"manager": "x"}]), Some("operation must be `Apply` or `Update`")),
            (entry("Other", "v1", "FieldsV1", json!({})), Some("operation must be `Apply` or `Update`")),
            (entry("Update", "", "FieldsV1", json!({})), Some("apiVersion must not be empty")),
            (entry("Apply", "v1", "", json!({})), Some("missing fieldsType in managed fields entry 0")),
            (entry("Apply", "v1", "V2", json!({})), Some("invalid fieldsType \"V2\" in managed fields entry 0")),
            (entry("Apply", "v1", "FieldsV1", json!({"f:x": 3})), Some("error decoding versioned set")),
            (entry("Apply", "v1", "FieldsV1", json!({"nonsense": {}})), Some("error decoding versioned set")),
            (entry("Apply", "v1", "FieldsV1", json!({"g:x": {}})), None),
            (entry("Apply", "v1", "FieldsV1", json!({"f:x": {}})), None),
        ] {
            let mut object = json!({"metadata": {"managedFields": after}});
            let warning = restore_malformed(&mut object, Some(before.clone()));
            let why = warning.as_deref().and_then(|text| text.split_once("please fix your requests: "));
            assert_eq!(why.map(|(_, why)| why), expected);
            let kept = if expected.is_some() { &before } else { &after };
            assert_eq!(&object["metadata"]["managedFields"], kept);
        }
    }
}
