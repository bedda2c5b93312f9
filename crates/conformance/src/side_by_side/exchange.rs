//! Sends the requests for each document.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::manifests::Manifest;
use super::resources::Resource;
use crate::case::{Step, StepHeaders};
use crate::json::Json;
use crate::session::{Server, Session};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

/// Sends the requests for a document to a server, and returns the steps with the responses. Stops if the server rejects
/// the create request.
///
/// # Errors
///
/// Returns an error if the server does not respond to a request.
pub(super) async fn exchange(
    server: &Arc<Server>,
    id: &str,
    manifest: &Manifest,
    resource: &Resource,
) -> anyhow::Result<Vec<Step>> {
    let mut exchanges = Exchanges { session: Session::new(server, id), done: Vec::new() };
    exchanges.all(manifest, resource).await?;
    Ok(exchanges.masked())
}

/// Sends GET requests and returns the steps with the responses.
///
/// # Errors
///
/// Returns an error if the server does not respond to a request.
pub(super) async fn look(server: &Arc<Server>, paths: &[String]) -> anyhow::Result<Vec<Step>> {
    let mut exchanges = Exchanges { session: Session::new(server, "qqqqqq"), done: Vec::new() };
    for path in paths {
        exchanges.send(step("look", "GET", path)).await?;
    }
    Ok(exchanges.masked())
}

struct Exchanges<'a> {
    session: Session<'a>,
    done: Vec<Step>,
}

impl Exchanges<'_> {
    async fn all(&mut self, manifest: &Manifest, resource: &Resource) -> anyhow::Result<()> {
        self.session.save("rv", &Json::Null);
        let body = in_own_namespace(&manifest.body, resource.namespaced);
        let space = if resource.namespaced { "/namespaces/${ns}" } else { "" };
        let collection = format!("{}{space}/{}", resource.root, resource.name);
        if resource.namespaced {
            let namespace = from(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "${ns}"}}));
            let step = with_body("make the namespace", "POST", "/api/v1/namespaces", &namespace);
            self.session.step(&step).await?;
        }
        let strict = format!("{collection}?dryRun=All&fieldValidation=Strict");
        self.send(with_body("dry-run create", "POST", &strict, &body)).await?;
        let created = self.send(with_body("create", "POST", &collection, &body)).await?;
        if created && resource.stored && !manifest.is_definition() {
            let name = manifest.text("/metadata/name");
            let name = if name.is_empty() { "${name}" } else { name };
            let body = set(&body, &["metadata", "name"], name.into());
            self.stored(&collection, name, &body, resource.has_status).await?;
        }
        Ok(())
    }

    /// Sends the requests for an existing object, such as updates and the deletion.
    async fn stored(&mut self, collection: &str, name: &str, body: &Json, has_status: bool) -> anyhow::Result<()> {
        let object = format!("{collection}/{name}");
        self.send(step("get", "GET", &object)).await?;
        self.send(accepting("table", &object)).await?;
        let apply = format!("{object}?fieldManager=applier&force=true");
        for note in ["apply", "apply again"] {
            self.send(typed(with_body(note, "PATCH", &apply, body), APPLY)).await?;
        }
        let label = from(&json!({"metadata": {"labels": {"compared": "yes"}}}));
        self.send(typed(with_body("merge patch", "PATCH", &object, &label), MERGE)).await?;
        let current = set(body, &["metadata", "resourceVersion"], "${rv}".into());
        let put = set(&current, &["metadata", "annotations", "compared"], "put".into());
        self.send(with_body("put", "PUT", &object, &put)).await?;
        if has_status {
            let status = format!("{object}/status");
            self.send(step("get status", "GET", &status)).await?;
            self.send(with_body("put status", "PUT", &status, &with_status(&current))).await?;
        }
        let list = format!("{collection}?fieldSelector=metadata.name%3D{name}");
        self.send(step("list", "GET", &list)).await?;
        self.send(accepting("list as table", &list)).await?;
        self.send(step("delete", "DELETE", &format!("{object}?propagationPolicy=Background"))).await?;
        self.send(step("get deleted", "GET", &object)).await?;
        Ok(())
    }

    /// Sends a request, stores the response, and saves the name and resourceVersion of the object. Returns `true` if
    /// the server accepted the request.
    async fn send(&mut self, step: Step) -> anyhow::Result<bool> {
        let done = self.session.step(&step).await?;
        let answer = done.answer.as_ref();
        let status = answer.and_then(|answer| answer.member("status")).map(Json::plain).unwrap_or_default();
        let succeeded = status.starts_with('2');
        let dry = done.note.as_deref() == Some("dry-run create");
        let answer_value = |pointer: &str| answer.and_then(|answer| answer.at(pointer)).filter(|_| succeeded);
        if let Some(revision) = answer_value("/body/metadata/resourceVersion").filter(|revision| revision.is_digits()) {
            self.session.save("rv", revision);
        }
        if let (Some(_), Some(name)) =
            (answer_value("/body/metadata/generateName"), answer_value("/body/metadata/name"))
        {
            self.session.save(if dry { "dry-name" } else { "name" }, name);
        }
        self.done.push(done);
        Ok(succeeded)
    }

    fn masked(mut self) -> Vec<Step> {
        self.done.iter_mut().for_each(|step| self.session.mask(step));
        self.done
    }
}

/// Sets the namespace of a namespaced document to the variable `${ns}`. Escapes texts such as `${x}`, because a
/// document contains no variables.
fn in_own_namespace(body: &Json, namespaced: bool) -> Json {
    let body = escaped(body);
    if namespaced { set(&body, &["metadata", "namespace"], "${ns}".into()) } else { body }
}

fn escaped(value: &Json) -> Json {
    let text = |text: &str| text.replace("${", "${dollar}{");
    match value {
        Json::Text(plain) => Json::Text(text(plain)),
        Json::Array(items) => Json::Array(items.iter().map(escaped).collect()),
        Json::Object(members) => Json::Object(members.iter().map(|(key, value)| (text(key), escaped(value))).collect()),
        other => other.clone(),
    }
}

fn with_status(body: &Json) -> Json {
    if body.member("status").is_some() {
        return body.clone();
    }
    let condition = json!({"type": "Compared", "status": "True", "reason": "Compared", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    set(body, &["status"], from(&json!({"conditions": [condition]})))
}

/// Returns a copy of `body` in which `value` replaces the value at `path`, a list of member names. Values on the path
/// that are not objects are replaced with objects.
fn set(body: &Json, path: &[&str], value: Json) -> Json {
    let [first, rest @ ..] = path else { return value };
    let mut members = body.members().cloned().unwrap_or_default();
    let inner = set(members.get(*first).unwrap_or(&Json::Null), rest, value);
    members.insert((*first).to_owned(), inner);
    Json::Object(members)
}

fn from(value: &serde_json::Value) -> Json {
    serde_json::from_value(value.clone()).unwrap_or(Json::Null)
}

fn step(note: &str, method: &str, path: &str) -> Step {
    Step { what: method.to_owned(), path: Some(path.to_owned()), note: Some(note.to_owned()), ..Step::default() }
}

fn with_body(note: &str, method: &str, path: &str, body: &Json) -> Step {
    Step { body: Some(body.clone()), ..step(note, method, path) }
}

fn accepting(note: &str, path: &str) -> Step {
    Step {
        headers: Some(StepHeaders::Sent(BTreeMap::from([("Accept".to_owned(), Some(TABLE.to_owned()))]))),
        ..step(note, "GET", path)
    }
}

fn typed(step: Step, kind: &str) -> Step {
    Step {
        headers: Some(StepHeaders::Sent(BTreeMap::from([("Content-Type".to_owned(), Some(kind.to_owned()))]))),
        ..step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_moves_to_its_own_namespace_and_keeps_dollars() {
        let body = from(&json!({"metadata": {"name": "a", "namespace": "b"}, "spec": ["${x}", "$y"]}));
        let sent = from(&json!({"metadata": {"name": "a", "namespace": "${ns}"}, "spec": ["${dollar}{x}", "$y"]}));
        assert_eq!(in_own_namespace(&body, true), sent);
        assert_eq!(in_own_namespace(&body, false).at("/metadata/namespace"), Some(&"b".into()));
    }

    #[test]
    fn set_replaces_and_adds_members() {
        let body = from(&json!({"a": {"b": 1}, "n": null}));
        assert_eq!(set(&body, &["a", "b"], "x".into()), from(&json!({"a": {"b": "x"}, "n": null})));
        assert_eq!(set(&body, &["n", "c"], "x".into()), from(&json!({"a": {"b": 1}, "n": {"c": "x"}})));
    }

    #[test]
    fn status_of_the_document_is_kept() {
        let own = from(&json!({"status": {"phase": "Ready"}}));
        assert_eq!(with_status(&own), own);
        assert!(with_status(&from(&json!({}))).at("/status/conditions/0/type").is_some());
    }
}
