//! Tests of `CrdChecker`, which checks custom resources without a server.

use pintle_apiserver::{CrdChecker, check_manifests};
use pintle_json::{Json, json};
use serde::Serialize;

fn checker(spec: Json) -> CrdChecker {
    CrdChecker::new(definition("sites", "Site", spec)).expect("a valid definition")
}

fn definition(plural: &str, kind: &str, spec: Json) -> Json {
    let schema = json!({"type": "object", "properties": {
        "spec": spec,
        "status": {"type": "object", "properties": {"phase": {"type": "string", "maxLength": 9}},
            "x-kubernetes-validations": [{"rule": "self.phase >= oldSelf.phase", "message": "phases never go back"}]},
    }});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": [version]},
    })
}

fn spec() -> Json {
    json!({
        "type": "object",
        "properties": {
            "domain": {"type": "string", "maxLength": 63},
            "replicas": {"type": "integer", "default": 2, "maximum": 20},
        },
        "x-kubernetes-validations": [
            {"rule": "self.domain == oldSelf.domain", "message": "the domain is immutable"},
            {"rule": "self.replicas != 7", "messageExpression": "'not ' + self.domain + ' with 7'"},
        ],
    })
}

#[test]
fn created_object_has_defaults_and_metadata() {
    let created = checker(spec()).create("spec: {domain: a}").expect("a valid object").object;
    assert_eq!(created["spec"], serde_json::json!({"domain": "a", "replicas": 2}));
    assert_eq!((&created["kind"], &created["apiVersion"]), (&"Site".into(), &"example.com/v1".into()));
    assert_eq!(created["metadata"]["name"], "sample");
}

#[test]
fn rejections_have_the_texts_of_the_server() {
    let crd = checker(spec());
    crd.assert_rejects(
        "metadata: {name: a}\nspec: {domain: a, replicas: 7}",
        "Site.example.com \"a\" is invalid: spec: Invalid value: not a with 7",
    );
    crd.assert_rejects("spec: {domian: a}", "strict decoding error: unknown field \"spec.domian\"");
    crd.assert_rejects(
        "spec: {domain: 3}",
        "spec.domain: Invalid value: \"integer\": spec.domain in body must be of type string",
    );
    crd.assert_rejects("metadata: {name: A_b}\nspec: {}", "metadata.name: Invalid value: \"A_b\"");
    let causes = crd.create("spec: {replicas: 21}").unwrap_err();
    let causes = &causes.status().details.as_ref().expect("details").causes;
    assert_eq!(causes[0].field, "spec.replicas");
}

#[test]
fn values_of_types_are_manifests() {
    #[derive(Clone, Serialize)]
    struct Site {
        spec: std::collections::BTreeMap<&'static str, &'static str>,
    }
    let site = |domain| Site { spec: [("domain", domain)].into() };
    let crd = checker(spec());
    crd.assert_accepts(site("a"));
    crd.assert_accepts_update(site("a"), site("a"));
    crd.assert_rejects_update(site("a"), site("b"), "the domain is immutable");
}

#[test]
fn repeated_key_of_a_yaml_manifest_is_rejected() {
    let manifest = "apiVersion: example.com/v1\nkind: Site\nmetadata: {name: a}\nspec: {domain: a, domain: b}";
    checker(spec()).assert_rejects(manifest, "already set in map");
}

#[test]
fn updates_leave_nothing_behind() {
    let crd = checker(spec());
    let named =
        |domain: &str| format!("metadata: {{name: a, finalizers: [example.com/a]}}\nspec: {{domain: {domain}}}");
    for _ in 0..2 {
        crd.assert_rejects_update(named("a"), named("b"), "immutable");
        crd.assert_accepts(named("c"));
    }
}

#[test]
fn status_transition_sees_the_old_status() {
    let crd = checker(spec());
    let phase = |phase: &str| format!("spec: {{domain: a}}\nstatus: {{phase: {phase}}}");
    let updated = crd.update_status(phase("a"), phase("b")).expect("a valid update").object;
    assert_eq!(updated["status"]["phase"], "b");
    let error = crd.update_status(phase("b"), phase("a")).unwrap_err().to_string();
    assert!(error.contains("phases never go back"), "{error}");
    crd.assert_accepts_update(phase("b"), "spec: {domain: a}");
}

#[test]
fn invalid_definition_is_rejected_with_its_cause() {
    let rule = json!([{"rule": "self.domian == 'a'"}]);
    let mut spec = spec();
    spec.set("x-kubernetes-validations", rule);
    let error = CrdChecker::new(definition("sites", "Site", spec)).unwrap_err().to_string();
    assert!(error.contains("undefined field 'domian'"), "{error}");
    let error = CrdChecker::new("kind: Site").unwrap_err().to_string();
    assert_eq!(error, "Site without a name is not a CustomResourceDefinition");
    let error = CrdChecker::new("- 1").unwrap_err().to_string();
    assert_eq!(error, "cannot read the manifest: it is not an object");
}

#[test]
fn definition_with_a_taken_kind_is_rejected() {
    let mut crd = checker(spec());
    let error = crd.add(definition("places", "Site", spec())).unwrap_err().to_string();
    assert!(error.starts_with("the definition places.example.com is not served: "), "{error}");
    assert!(error.contains("is already in use"), "{error}");
}

#[test]
fn replaced_definition_applies_to_later_checks() {
    let mut crd = checker(spec());
    crd.assert_rejects("spec: {replicas: 21}", "less than or equal to 20");
    crd.add(definition("sites", "Site", json!({"type": "object", "properties": {"replicas": {"type": "integer"}}})))
        .unwrap();
    crd.assert_accepts("spec: {replicas: 21}");
}

#[test]
fn rules_have_estimated_costs() {
    let crd = checker(spec());
    let rules: Vec<_> = crd.rules().collect();
    let fields: Vec<_> = rules.iter().map(|rule| rule.field.rsplit_once("openAPIV3Schema.").unwrap().1).collect();
    let rule = |at: usize, member: &str| format!("properties[spec].x-kubernetes-validations[{at}].{member}");
    let of_status = "properties[status].x-kubernetes-validations[0].rule".to_owned();
    assert_eq!(fields, [&rule(0, "rule"), &rule(1, "rule"), &rule(1, "messageExpression"), &of_status]);
    assert!(rules.iter().all(|rule| (1..1000).contains(&rule.cost)), "{rules:?}");
}

#[test]
fn update_to_another_kind_is_rejected() {
    let mut crd = checker(spec());
    crd.add(definition("places", "Place", spec())).unwrap();
    let old = "{apiVersion: example.com/v1, kind: Site, spec: {domain: a}}";
    let error = crd.update(old, "spec: {domain: a}").unwrap_err().to_string();
    assert_eq!(error, "a Site cannot be updated to a Place");
}

#[test]
#[should_panic(expected = "the object is accepted, but must be rejected with")]
fn assertion_fails_if_the_object_is_accepted() {
    checker(spec()).assert_rejects("spec: {domain: a}", "immutable");
}

#[test]
#[should_panic(expected = "the error has another text than")]
fn assertion_fails_if_the_message_differs() {
    checker(spec()).assert_rejects("spec: {replicas: 21}", "immutable");
}

#[test]
fn rejected_replacement_keeps_the_old_definition() {
    let mut crd = checker(spec());
    let mut broken = definition("sites", "Site", spec());
    broken.set("spec", json!({"group": "example.com"}));
    crd.add(broken).unwrap_err();
    crd.assert_accepts("spec: {domain: a}");
    crd.assert_rejects("spec: {replicas: 21}", "less than or equal to 20");
}

#[test]
fn namespace_of_a_check_is_removed() {
    let crd = checker(spec());
    let in_namespace = "metadata: {namespace: team-a}\nspec: {domain: a}";
    crd.assert_accepts(in_namespace);
    crd.assert_accepts_update(in_namespace, in_namespace);
    crd.assert_accepts("{apiVersion: v1, kind: Namespace, metadata: {name: team-a}}");
}

#[test]
fn rules_need_an_object_with_a_name() {
    let site =
        json!({"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": ""}, "spec": {"replicas": 7}});
    let error = checker(spec()).create(site).unwrap_err().to_string();
    assert!(error.contains("metadata.name: Required value: name or generateName is required"), "{error}");
    assert!(error.contains("<nil>: Invalid value: null: some validation rules were not checked"), "{error}");
    assert!(!error.contains("with 7"), "{error}");
}

#[test]
fn conversion_webhook_of_a_definition_is_validated() {
    let converted = |client: Json, versions: &[&str]| {
        let mut definition = definition("sites", "Site", spec());
        let webhook = json!({"clientConfig": client, "conversionReviewVersions": versions});
        definition["spec"].set("conversion", json!({"strategy": "Webhook", "webhook": webhook}));
        CrdChecker::new(definition).map(|_| ()).map_err(|error| error.to_string())
    };
    let url = || json!({"url": "https://example.com/convert"});
    let message = |outcome: Result<(), String>| outcome.unwrap_err();
    converted(url(), &["v1"]).unwrap();
    assert!(message(converted(url(), &["v2"])).ends_with(
        "spec.conversion.conversionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1"
    ));
    assert!(
        message(converted(url(), &["v1", "v1"]))
            .ends_with("conversionReviewVersions[1]: Invalid value: \"v1\": duplicate version")
    );
    assert!(
        message(converted(json!({}), &["v1"])).ends_with(
            "spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required"
        )
    );
    assert!(message(converted(json!({"url": "http://a"}), &["v1"])).contains("'https' is the only allowed URL scheme"));
}

/// Returns a checker for a definition with a conversion webhook. The storage version v1 has the field `spec.domain`,
/// and v2 has the immutable field `spec.host`.
fn converted() -> CrdChecker {
    let rule = json!({"rule": "self == oldSelf", "message": "the host is immutable"});
    let host = json!({"type": "string", "x-kubernetes-validations": [rule]});
    let mut new = definition("sites", "Site", json!({"type": "object", "properties": {"host": host}}));
    let mut new = new["spec"]["versions"][0].take();
    new.set("name", "v2");
    new.set("storage", false);
    let mut definition = definition("sites", "Site", spec());
    let old = definition["spec"]["versions"][0].take();
    definition["spec"].set("versions", json!([old, new]));
    let webhook = json!({"clientConfig": {"url": "https://example.com/convert"}, "conversionReviewVersions": ["v1"]});
    definition["spec"].set("conversion", json!({"strategy": "Webhook", "webhook": webhook}));
    CrdChecker::new(definition).expect("a valid definition")
}

#[test]
fn object_with_conversion_webhook_is_checked_in_its_version() {
    let crd = converted();
    let site = |host: &str| json!({"apiVersion": "example.com/v2", "kind": "Site", "spec": {"host": host}});
    let with_phase = |phase: &str| {
        let mut site = site("a");
        site.set("status", json!({"phase": phase}));
        site
    };
    assert_eq!(crd.create(site("a")).expect("a valid object").object["spec"]["host"], "a");
    crd.assert_accepts_update(site("a"), site("a"));
    crd.assert_rejects_update(site("a"), site("b"), "the host is immutable");
    let updated = crd.update_status(with_phase("a"), with_phase("b")).expect("a valid update").object;
    assert_eq!((&updated["spec"]["host"], &updated["status"]["phase"]), (&"a".into(), &"b".into()));
    let error = crd.update_status(with_phase("b"), with_phase("a")).unwrap_err().to_string();
    assert!(error.contains("phases never go back"), "{error}");
}

#[test]
fn update_that_needs_a_conversion_webhook_is_an_error() {
    let old = json!({"apiVersion": "example.com/v1", "kind": "Site", "spec": {"domain": "a"}});
    let new = json!({"apiVersion": "example.com/v2", "kind": "Site", "spec": {"host": "a"}});
    let rejection = converted().update(old, new).unwrap_err();
    assert!(!rejection.is_from_server());
    let expected =
        "a webhook must convert objects of example.com/v1 to example.com/v2: use the same version for both objects";
    assert_eq!(rejection.to_string(), expected);
}

#[test]
fn replacement_that_is_not_served_keeps_the_old_definition() {
    let mut crd = checker(spec());
    crd.add(definition("places", "Place", spec())).unwrap();
    crd.add(definition("sites", "Place", spec())).unwrap_err();
    for kind in ["Site", "Place"] {
        crd.assert_accepts(json!({"apiVersion": "example.com/v1", "kind": kind, "spec": {"domain": "a"}}));
    }
}

#[test]
fn rules_of_a_replaced_definition_are_dropped() {
    let mut crd = checker(spec());
    let before = crd.rules().count();
    crd.add(definition("sites", "Site", spec())).unwrap();
    assert_eq!(crd.rules().count(), before);
}

#[test]
fn manifest_with_two_documents_is_rejected() {
    let error = checker(spec()).create("spec: {domain: a}\n---\nspec: {domain: 5}").unwrap_err();
    assert_eq!(error.to_string(), "cannot read the manifest: it has more than one document");
    checker(spec()).assert_accepts("spec: {domain: a}\n---\n");
}

#[test]
fn values_of_a_map_with_any_values_are_pruned() {
    let crd = checker(json!({"type": "object", "additionalProperties": true}));
    crd.assert_rejects("spec: {a: {b: 1}}", "unknown field \"spec.a.b\"");
    crd.assert_accepts("spec: {a: 1}");
}

#[test]
fn default_of_a_map_value_is_not_checked() {
    let value = json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 1, "default": "long"}}});
    checker(json!({"type": "object", "additionalProperties": value})).assert_accepts("spec: {}");
}

#[test]
fn null_of_a_field_without_a_type_is_dropped() {
    let crd = checker(json!({"type": "object", "properties": {"p": {"x-kubernetes-preserve-unknown-fields": true}}}));
    assert_eq!(crd.create("spec: {p: null}").unwrap().object["spec"], serde_json::json!({}));
}

#[test]
fn long_pattern_of_an_object_is_refused() {
    let rule = json!([{"rule": "self.a.matches(self.p)"}]);
    let text = |length: usize| json!({"type": "string", "maxLength": length});
    let crd = checker(
        json!({"type": "object", "properties": {"a": text(20), "p": text(1_000_000)}, "x-kubernetes-validations": rule}),
    );
    let error = crd.create(json!({"spec": {"a": "abc", "p": r"(?i)\PL".repeat(4_000)}})).unwrap_err().to_string();
    assert!(error.contains("cost limit exceeded"), "{error}");
}

#[cfg(unix)]
#[test]
fn folder_with_links_to_itself_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("crd.json"), definition("sites", "Site", spec()).to_string()).unwrap();
    for name in ["a", "b"] {
        std::os::unix::fs::symlink(folder.path(), folder.path().join(name)).unwrap();
    }
    assert_eq!(check_manifests(&[folder.path()]).unwrap().len(), 1);
}

#[test]
fn file_without_a_kind_or_a_name_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("a.json", &definition("sites", "Site", spec()).to_string());
    write("b.yaml", "spec: {domain: a}\n---\n{apiVersion: example.com/v1, kind: Site, spec: {domain: a}}");
    let checked = check_manifests(&[folder.path()]).unwrap();
    let rejections: Vec<_> = checked.iter().map(|one| one.rejection.as_ref().map(ToString::to_string)).collect();
    let [None, Some(kind), Some(name)] = &rejections[..] else { panic!("{rejections:?}") };
    assert_eq!(kind, "no kind \"\" is served in version \"\"; is its definition missing?");
    assert!(name.contains("metadata.name: Required value: name or generateName is required"), "{name}");
}
