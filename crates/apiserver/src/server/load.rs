//! Objects from files, and those that every cluster has.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pintle_meta::{FieldValidation, Reason};
use serde_json::{Value, json};

use super::LoadError;
use crate::failure::Outcome;
use crate::fieldmanager::Writer;
use crate::http::decode::{self, RawBody};
use crate::kinds::Place;
use crate::registry::Registry;
use crate::request::options::WriteOptions;
use crate::{background, schema};

const NAME: &str = "pintle-apiserver";

/// What is there from the start of a server that listens on `address`. The past begins after it.
pub(super) fn bootstrap(registry: &Arc<Registry>, address: SocketAddr) {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        if let Err(failure) = create(registry, namespace) {
            tracing::error!(%name, message = failure.status.message, "a namespace could not be made");
        }
    }
    for object in roles() {
        if let Err(failure) = create(registry, object) {
            tracing::error!(message = failure.status.message, "a role could not be made");
        }
    }
    background::put_kubernetes_right(registry, address);
    registry.db.compact(registry.db.revision());
}

/// The roles that every cluster with RBAC has: all for administrators, a look at discovery for everybody who is known, and
/// a sign of life for everybody else.
fn roles() -> Vec<Value> {
    let discovery = [
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/",
    ];
    let public = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    let everything = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]);
    let reviews = json!([
        {
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            "verbs": ["create"],
        },
        {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]},
    ]);
    let known = ["system:authenticated"].as_slice();
    let anybody = ["system:authenticated", "system:unauthenticated"].as_slice();
    let all = [
        ("cluster-admin", everything, [crate::request::user::MASTERS].as_slice()),
        ("system:basic-user", reviews, known),
        ("system:discovery", json!([{"nonResourceURLs": discovery, "verbs": ["get"]}]), known),
        ("system:public-info-viewer", json!([{"nonResourceURLs": public, "verbs": ["get"]}]), anybody),
    ];
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    let made = all.into_iter().flat_map(|(name, rules, groups)| {
        let subjects: Vec<_> =
            groups.iter().map(|name| json!({"kind": "Group", "apiGroup": group, "name": name})).collect();
        let role = json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
        let binding = json!({
            "apiVersion": version,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": subjects,
        });
        [role, binding]
    });
    made.collect()
}

/// Creates the objects of each manifest below a folder.
pub(super) fn dir(registry: &Arc<Registry>, dir: &Path) -> Result<usize, LoadError> {
    let mut files = Vec::new();
    find(dir, &mut files)?;
    files.sort();
    let mut count = 0;
    for path in files {
        let unreadable = |cause| LoadError::Unreadable { path: path.clone(), cause };
        let manifest = std::fs::read_to_string(&path).map_err(unreadable)?;
        count += text(registry, &manifest).map_err(|error| match error {
            LoadError::Refused { document, why, .. } => LoadError::Refused { path: Some(path.clone()), document, why },
            other => other,
        })?;
    }
    Ok(count)
}

/// Creates the objects of a text of one or more documents.
pub(super) fn text(registry: &Arc<Registry>, manifest: &str) -> Result<usize, LoadError> {
    let mut count = 0;
    for (number, document) in schema::yaml_documents(manifest).enumerate() {
        let refused = |why: String| LoadError::Refused { path: None, document: number + 1, why };
        let value = document.map_err(refused)?;
        let objects = match &value {
            Value::Null => Vec::new(),
            value if value["kind"].as_str() == Some("List") => value["items"].as_array().cloned().unwrap_or_default(),
            value => vec![value.clone()],
        };
        for object in objects {
            let what = format!(
                "{} {}",
                object["kind"].as_str().unwrap_or("an object without a kind"),
                object["metadata"]["name"].as_str().unwrap_or("without a name")
            );
            match create(registry, object) {
                Ok(()) => count += 1,
                Err(failure) if failure.status.reason == Some(Reason::AlreadyExists) => (),
                Err(failure) => return Err(refused(format!("{what}: {}", failure.status.message))),
            }
        }
    }
    Ok(count)
}

fn find(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), LoadError> {
    let unreadable = |cause| LoadError::Unreadable { path: dir.to_owned(), cause };
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json") {
            files.push(path);
        }
    }
    Ok(())
}

fn create(registry: &Arc<Registry>, object: Value) -> Outcome<()> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let api_version = text("apiVersion");
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let kinds = registry.kinds();
    let Some(kind) = kinds.kind(group, version, text("kind")) else {
        let message = format!("no kind {:?} is served in version {api_version:?}", text("kind"));
        return Err(crate::failure::Failure::bad_request(message));
    };
    let namespace = match object["metadata"]["namespace"].as_str() {
        _ if !kind.namespaced() => "",
        Some(namespace) => namespace,
        None => "default",
    };
    let place = Place::new(kind.clone(), namespace, "");
    let body = RawBody::json(object.to_string());
    let decoded = decode::object(kind, &body, FieldValidation::Strict)?;
    let options = WriteOptions::default();
    let manager = Writer::new(&options, NAME, registry.clock.now_text());
    registry.create(&place, decoded.value, &manager)?;
    Ok(())
}
