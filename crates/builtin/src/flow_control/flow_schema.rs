//! The `FlowSchema` kind in `flowcontrol.apiserver.k8s.io`.

use pintle_apimachinery::object::{condition, metadata};
use pintle_apimachinery::request::Subresource;
use pintle_apimachinery::validate::{FieldError, FieldErrors, NameRule};
use pintle_json::{Json, json};
use pintle_kinds::Strategy;
use pintle_kinds::check::Check;
use pintle_kinds::table::{Cell, ComputedCells};
use pintle_kinds::without_effect::{FLOW_CONTROL, object_warning};

pub(crate) struct FlowSchema;

impl Strategy for FlowSchema {
    fn without_effect(&self, object: &Json, _: &dyn Fn(&str, &str) -> bool) -> Vec<String> {
        // Warn about a flow schema without rules, because it matches no requests.
        if object.list("/spec/rules").next().is_some() { object_warning(object, FLOW_CONTROL) } else { Vec::new() }
    }

    fn defaults(&self, object: &mut Json) {
        const PRECEDENCE: i64 = 1000;
        let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
        if spec.integer("/matchingPrecedence").unwrap_or(0) == 0 {
            spec.set("matchingPrecedence", PRECEDENCE);
        }
        // The stored rules contain null, and an update without changes must not increment the generation.
        for rule in spec.items_mut("rules").flat_map(|rule| rule.items_mut("resourceRules")) {
            if rule["namespaces"].is_empty() {
                rule.set("namespaces", Json::Null);
            }
        }
    }

    fn validate_create(&self, object: &Json) -> FieldErrors {
        errors(object)
    }

    fn validate_update(&self, new: &Json, _: &Json, subresource: Subresource) -> FieldErrors {
        if subresource == Subresource::Status { super::status_errors(new) } else { errors(new) }
    }

    fn computed_cells(&self) -> ComputedCells {
        &[(
            "MissingPL",
            Cell::Computed(|schema| {
                condition(schema, "Dangling").map_or("?", |condition| condition.text("/status")).into()
            }),
        )]
    }
}

fn errors(object: &Json) -> FieldErrors {
    const MOST: i64 = 10_000;
    let spec = &object["spec"];
    let (name, level) = (metadata::name(object), spec.text("/priorityLevelConfiguration/name"));
    let precedence = spec.integer("/matchingPrecedence").unwrap_or(0);
    let precedence_is = |why: String| FieldError::invalid("matchingPrecedence", &precedence.into(), why);
    let method = spec.get("distinguisherMethod").filter(|method| !method.is_null());
    let known = method.is_none_or(|method| matches!(method.text("/type"), "ByNamespace" | "ByUser"));
    let check = Check::at(spec, "spec")
        .refuse(precedence <= 0, || precedence_is("must be a positive value".into()))
        .refuse(precedence > MOST, || precedence_is(format!("must not be greater than {MOST}")))
        .refuse(precedence == 1 && name != "exempt", || {
            precedence_is("only the schema named 'exempt' may have matchingPrecedence 1".into())
        })
        .refuse(!known, || {
            // As in kube-apiserver, the error contains the name of the Go field.
            let method = json!({"Type": method.map_or("", |method| method.text("/type"))});
            FieldError::unsupported("distinguisherMethod.type", &method, &["ByNamespace", "ByUser"])
        })
        .required_if(level.is_empty(), "priorityLevelConfiguration.name", "must reference a priority level")
        .name("priorityLevelConfiguration.name", NameRule::Subdomain)
        .each("rules", |rule, _| super::policy_rules::errors(rule));
    let is_other = fixed(name).is_some_and(|fixed| *spec != fixed);
    check.also(is_other.then(|| super::fixed_spec_error(name, spec, ""))).done()
}

fn fixed(name: &str) -> Option<Json> {
    let group = |name: &str| json!({"kind": "Group", "group": {"name": name}});
    let all = |subjects: Json| {
        let resources =
            json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]});
        let paths = json!({"verbs": ["*"], "nonResourceURLs": ["*"]});
        json!([{"subjects": subjects, "resourceRules": [resources], "nonResourceRules": [paths]}])
    };
    match name {
        "exempt" => Some(json!({
            "priorityLevelConfiguration": {"name": name},
            "matchingPrecedence": 1,
            "rules": all(json!([group("system:masters")])),
        })),
        "catch-all" => Some(json!({
            "priorityLevelConfiguration": {"name": name},
            "matchingPrecedence": 10_000,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": all(json!([group("system:unauthenticated"), group("system:authenticated")])),
        })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mandatory_schemas_cannot_be_changed() {
        for name in ["exempt", "catch-all"] {
            let mut object = json!({"metadata": {"name": name}, "spec": fixed(name)});
            assert_eq!(errors(&object), FieldErrors::default(), "{name}");
            object["spec"]["matchingPrecedence"] = 5.into();
            let messages: Vec<_> = errors(&object).iter().map(ToString::to_string).collect();
            let [only] = &messages[..] else { panic!("expected one error: {messages:?}") };
            assert!(only.ends_with(&format!("spec of '{name}' must equal the fixed value")), "{only}");
        }
    }

    #[test]
    fn schema_needs_a_level_and_non_empty_rules() {
        let check = |spec: Json, expected: &[&str]| {
            let mut object = json!({"metadata": {"name": "f"}, "spec": spec});
            FlowSchema.defaults(&mut object);
            let fields: Vec<_> = errors(&object).into_iter().map(|error| error.field).collect();
            assert_eq!(fields, expected, "{object}");
        };
        let level = json!({"name": "x"});
        check(json!({}), &["spec.priorityLevelConfiguration.name"]);
        check(json!({"priorityLevelConfiguration": level, "matchingPrecedence": 0}), &[]);
        for precedence in [-1, 1, 20_000] {
            let spec = json!({"priorityLevelConfiguration": level, "matchingPrecedence": precedence});
            check(spec, &["spec.matchingPrecedence"]);
        }
        let spec = json!({"priorityLevelConfiguration": level, "distinguisherMethod": {"type": "ByMood"}});
        check(spec, &["spec.distinguisherMethod.type"]);
        check(
            json!({"priorityLevelConfiguration": level, "rules": [{}]}),
            &["spec.rules[0].subjects", "spec.rules[0]"],
        );
    }
}
