//! Replaces values that the server assigns, such as addresses, ports and ages. The session has already replaced names,
//! uids, times and resourceVersions.

use crate::case::Step;
use crate::json::Json;

/// Replaces the values that the server assigns in all responses. Also sorts the causes in the error for a rejected
/// custom resource, because a real server returns them in random order.
pub(super) fn normalise(steps: &mut [Step], is_custom_resource: bool) {
    for step in steps {
        step.answer = step.answer.as_ref().map(|answer| normalised(answer, "", is_custom_resource));
    }
}

/// Sorts the resources in discovery documents, and shortens OpenAPI documents. Removes the ETag, the path descriptions
/// and the types that all definitions share from OpenAPI documents.
pub(super) fn without_shared(steps: &mut [Step]) {
    for step in steps.iter_mut() {
        let is_openapi = step.path.as_ref().is_some_and(|path| path.starts_with("/openapi/"));
        step.answer = step.answer.as_ref().map(|answer| {
            if is_openapi { without_shared_members(answer, false) } else { with_sorted_resources(answer) }
        });
    }
}

/// Sorts the resources of a discovery document by name, because a real server lists custom resources in random order.
fn with_sorted_resources(json: &Json) -> Json {
    let Json::Object(members) = json else { return json.clone() };
    let sorted = members.iter().map(|(name, member)| match member {
        Json::Array(items) if name == "resources" => {
            let mut items = items.clone();
            items.sort_by_key(|item| item.member("name").map(Json::plain));
            (name.clone(), Json::Array(items))
        }
        _ => (name.clone(), with_sorted_resources(member)),
    });
    Json::Object(sorted.collect())
}

fn without_shared_members(json: &Json, in_paths: bool) -> Json {
    match json {
        Json::Object(members) => {
            let is_shared =
                |name: &str| name.starts_with("io.k8s.") || name == "etag" || in_paths && name == "description";
            let kept = members.iter().filter(|(name, _)| !is_shared(name));
            Json::Object(
                kept.map(|(name, member)| (name.clone(), without_shared_members(member, in_paths || name == "paths")))
                    .collect(),
            )
        }
        Json::Array(items) => Json::Array(items.iter().map(|item| without_shared_members(item, in_paths)).collect()),
        other => other.clone(),
    }
}

fn normalised(json: &Json, key: &str, is_custom_resource: bool) -> Json {
    match json {
        Json::Object(members) => {
            let is_dropped = |name: &str| match name {
                "message" => is_custom_resource && json.at("/details/causes").is_some(),
                // Ignore the descriptions of table columns, because they come from the API documentation.
                "description" => key == "columnDefinitions",
                _ => false,
            };
            let kept = members.iter().filter(|(name, _)| !is_dropped(name));
            Json::Object(
                kept.map(|(name, member)| (name.clone(), normalised(member, name, is_custom_resource))).collect(),
            )
        }
        Json::Array(items) => {
            let mut items: Vec<Json> = items.iter().map(|item| normalised(item, key, is_custom_resource)).collect();
            if key == "causes" && is_custom_resource {
                items.sort_by_key(ToString::to_string);
            }
            Json::Array(items)
        }
        Json::Number(_) if matches!(key, "nodePort" | "healthCheckNodePort") => "<port>".into(),
        Json::Text(text) if matches!(key, "clusterIP" | "clusterIPs") && is_address(text) => "<address>".into(),
        Json::Text(text) if key == "cells" => Json::Text(masked_cell(text)),
        other => other.clone(),
    }
}

/// Returns `true` if the text is an IP address in the Service address range.
fn is_address(text: &str) -> bool {
    text.strip_prefix("10.0.0.").is_some_and(|last| last.parse::<u8>().is_ok())
}

/// Masks a table cell that contains an address, an age, or ports such as `80:30123/TCP`.
fn masked_cell(text: &str) -> String {
    let is_age = text.strip_suffix('s').is_some_and(|number| number.parse::<u32>().is_ok());
    if is_address(text) {
        return "<address>".to_owned();
    }
    if is_age {
        return "<age>".to_owned();
    }
    let masked_port = |part: &str| match part.split_once(':').zip(part.split_once('/')) {
        Some(((port, _), (_, protocol))) if port.parse::<u16>().is_ok() => format!("{port}:<port>/{protocol}"),
        _ => part.to_owned(),
    };
    text.split(',').map(masked_port).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(answer: &str, custom: bool, expected: &str) {
        let json = |text: &str| -> Json { serde_json::from_str(text).expect("JSON") };
        let mut steps = [Step { answer: Some(json(answer)), ..Step::default() }];
        normalise(&mut steps, custom);
        assert_eq!(steps[0].answer, Some(json(expected)), "{answer}");
    }

    #[test]
    fn only_chosen_addresses_and_ports_are_masked() {
        check(
            r#"{"clusterIP":"10.0.0.7","clusterIPs":["10.0.0.7"],"ports":[{"nodePort":30123,"port":80}]}"#,
            false,
            r#"{"clusterIP":"<address>","clusterIPs":["<address>"],"ports":[{"nodePort":"<port>","port":80}]}"#,
        );
        check(r#"{"clusterIP":"None","podIP":"10.0.0.7"}"#, false, r#"{"clusterIP":"None","podIP":"10.0.0.7"}"#);
    }

    #[test]
    fn table_cells_lose_ages_addresses_and_node_ports() {
        check(
            r#"{"cells":["a","10.0.0.9","12s","80:31000/TCP,443/TCP",3]}"#,
            false,
            r#"{"cells":["a","<address>","<age>","80:<port>/TCP,443/TCP",3]}"#,
        );
        check(r#"{"cells":["a/b:c","<none>"]}"#, false, r#"{"cells":["a/b:c","<none>"]}"#);
    }

    #[test]
    fn openapi_documents_lose_shared_types_and_path_descriptions() {
        let answer = r#"{"headers":{"etag":"x"},"body":{"paths":{"/a":{"description":"x"}},"components":{"schemas":{
            "io.k8s.Status":{},"com.example.A":{"description":"y"}}}}}"#;
        let expected = r#"{"headers":{},"body":{"paths":{"/a":{}},"components":{"schemas":{
            "com.example.A":{"description":"y"}}}}}"#;
        let json = |text: &str| -> Json { serde_json::from_str(text).expect("JSON") };
        for (path, expected) in [("/openapi/v3/apis/g/v1", expected), ("/apis/g/v1", answer)] {
            let mut steps = [Step { path: Some(path.to_owned()), answer: Some(json(answer)), ..Step::default() }];
            without_shared(&mut steps);
            assert_eq!(steps[0].answer, Some(json(expected)), "{path}");
        }
    }

    #[test]
    fn column_descriptions_are_removed() {
        check(
            r#"{"columnDefinitions":[{"name":"Name","description":"x"}],"description":"y"}"#,
            false,
            r#"{"columnDefinitions":[{"name":"Name"}],"description":"y"}"#,
        );
    }

    #[test]
    fn discovery_resources_are_sorted_by_name() {
        let answer: Json = serde_json::from_str(r#"{"resources":[{"name":"b"},{"name":"a"}]}"#).expect("JSON");
        let mut steps = [Step { path: Some("/apis/g/v1".into()), answer: Some(answer), ..Step::default() }];
        without_shared(&mut steps);
        let first = steps[0].answer.as_ref().and_then(|answer| answer.at("/resources/0/name"));
        assert_eq!(first, Some(&"a".into()));
    }

    #[test]
    fn causes_are_sorted_only_for_custom_resources() {
        let answer = r#"{"message":"m","details":{"causes":[{"field":"b"},{"field":"a"}]}}"#;
        check(answer, true, r#"{"details":{"causes":[{"field":"a"},{"field":"b"}]}}"#);
        check(answer, false, answer);
    }
}
