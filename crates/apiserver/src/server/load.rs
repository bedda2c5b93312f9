//! Creates the objects of the manifests in the server's configuration.

use std::path::Path;
use std::sync::Arc;

use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::Requester;
use pintle_apimachinery::request::options::WriteOptions;
use pintle_apimachinery::request::user::User;
use pintle_apimachinery::request::webhook_calls::WebhookCalls;
use pintle_json::Json;
use pintle_kinds::RequestTarget;
use pintle_kinds::decode::{self, RawBody};
use pintle_kinds::writer::Writer;
use pintle_meta::{FieldValidation, Reason};
use pintle_schema as schema;

use super::{LoadError, manifests};
use crate::registry::Registry;

const LOADER: &str = "pintle-apiserver";

pub(super) fn path(registry: &Arc<Registry>, path: &Path) -> Result<usize, LoadError> {
    let mut count = 0;
    for path in manifests::files(path)? {
        let unreadable = |cause| LoadError::Unreadable { path: path.clone(), cause };
        let manifest = std::fs::read(&path).map_err(unreadable)?;
        let invalid = |why| unreadable(std::io::Error::new(std::io::ErrorKind::InvalidData, why));
        let manifest = schema::yaml_text(&manifest).map_err(invalid)?;
        count += text(registry, &manifest).map_err(|error| match error {
            LoadError::Refused { document, why, .. } => LoadError::Refused { path: Some(path.clone()), document, why },
            other => other,
        })?;
    }
    Ok(count)
}

pub(super) fn text(registry: &Arc<Registry>, manifest: &str) -> Result<usize, LoadError> {
    let mut count = 0;
    for (number, objects) in (1..).zip(manifests::documents_of(manifest)) {
        let refused = |why: String| LoadError::Refused { path: None, document: number, why };
        let objects = objects.map_err(refused)?;
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

fn create(registry: &Arc<Registry>, object: Json) -> Outcome<()> {
    let text = |name: &str| object[name].text("");
    let api_version = text("apiVersion");
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let kinds = registry.kinds();
    let Some(kind) = kinds.kind(group, version, text("kind")) else {
        let message = format!("no kind {:?} is served in version {api_version:?}", text("kind"));
        return Err(Failure::bad_request(message));
    };
    let namespace = match object["metadata"]["namespace"].as_str() {
        _ if !kind.is_namespaced() => "",
        Some(namespace) => namespace,
        None => "default",
    };
    let target = RequestTarget::new(kind.clone(), namespace, "");
    let body = RawBody::json(object.to_string());
    let decoded = decode::object(kind, &body, FieldValidation::Strict)?;
    let calls = WebhookCalls::default();
    if let Some(strategy) = kind.strategy.with_conversions(&calls) {
        strategy.to_stored(decoded.value.clone());
    }
    if calls.has_missing() {
        // Loading manifests does not call webhooks, because it must not wait for other servers.
        return Err(Failure::bad_request(format!(
            "a webhook must convert objects of {api_version}: load the object in the storage version of its \
             definition, or create it with a request"
        )));
    }
    let options = WriteOptions::default();
    let manager =
        Writer::new(&options, LOADER, registry.clock.now_text()).with_requester(Requester::new(User::admin()));
    registry.create(&target, decoded.value, &manager)?;
    Ok(())
}
