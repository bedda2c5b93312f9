//! Helpers for write requests, which read the body, check its media type and create the writer.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use pintle_apimachinery::failure::{Failure, Outcome};
use pintle_apimachinery::request::Verb;
use pintle_apimachinery::request::options::WriteOptions;
use pintle_apimachinery::request::path::ResourcePath;
use pintle_authz::Attributes;
use pintle_json::Json;
use pintle_kinds::writer::Writer;
use pintle_kinds::{Kind, Origin, RequestTarget, Routing, decode};
use pintle_meta::{Reason, StatusDetails};

use super::body::{self, RequestBody};
use super::call::Call;
use super::encode::Reply;
use super::negotiate;
use crate::registry::{Registry, Written};

pub(super) async fn read_object(
    registry: &Registry,
    call: &mut Call,
    request_body: RequestBody,
    kind: &Kind,
) -> Outcome<decode::RawBody> {
    let media = decode::media(call.head.header(CONTENT_TYPE)).ok_or_else(|| unsupported(kind, false))?;
    if !kind.has_protobuf() && media == decode::BodyMedia::Protobuf {
        // For a body without a kind, kube-apiserver responds only if `fieldValidation` is `Ignore`. For other values of
        // `fieldValidation`, kube-apiserver fails without a response, so this server chooses the status 415.
        return Err(match call.head.query.text("fieldValidation") {
            "Ignore" => Failure::bad_request(format!(
                "{0} in version {1:?} cannot be handled as a {0}: Object 'Kind' is missing in 'object has no kind field '",
                kind.kind, kind.version
            )),
            _ => unsupported(kind, false),
        });
    }
    Ok(decode::RawBody::new(body::read(registry, call, request_body).await?, media))
}

/// Decodes the body of a request. Takes the body by value, so that a parsed YAML body is dropped before webhooks are
/// called.
pub(super) fn decoded(
    call: &mut Call,
    kind: &Arc<Kind>,
    body: decode::RawBody,
    options: &WriteOptions,
) -> Outcome<Json> {
    let decoded = decode::object(kind, &body, options.field_validation)?;
    call.warnings.extend(decoded.warnings);
    let version = decoded.value.text("/apiVersion");
    pintle_schema::check_version(version, &kind.api_version())
        .map_err(|error| Failure::bad_request(error.to_string()))?;
    Ok(decoded.value)
}

pub(super) fn written_reply(kind: Arc<Kind>, written: Written, format: negotiate::ResponseFormat) -> Reply {
    let code = if written.created { 201 } else { 200 };
    Reply::Object { code, kind, object: written.object, format }
}

/// Returns a 415 failure for an unsupported media type. If the resource has a separate route for each method, the error
/// message for a patch does not list the accepted media types.
pub(super) fn unsupported(kind: &Kind, patch: bool) -> Failure {
    if patch && kind.strategy.routing() == Routing::PerMethod {
        return Failure::new(415, Reason::UnsupportedMediaType, "415: Unsupported Media Type")
            .with(StatusDetails::default());
    }
    let types = if patch {
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    } else {
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    };
    let message = format!("the body of the request was in an unknown format - accepted media types include: {types}");
    Failure::new(415, Reason::UnsupportedMediaType, message)
}

/// Returns the `Writer` of a request: the field manager, and whether the requester may create an object.
pub(super) fn manager<'a>(
    registry: &Registry,
    call: &Call,
    target: &RequestTarget,
    options: &'a WriteOptions,
) -> Writer<'a> {
    let manager =
        Writer::new(options, call.head.user_agent(), registry.clock.now_text()).with_requester(call.requester.clone());
    let path = ResourcePath {
        group: target.kind.group.clone(),
        version: target.kind.version.clone(),
        namespace: target.namespace.clone(),
        resource: target.kind.plural.clone(),
        name: target.name.clone(),
        ..ResourcePath::default()
    };
    let create = Attributes::Resource { verb: Verb::Create.name(), path: &path, name: &target.name };
    let manager =
        manager.with_create_permission(pintle_authz::authorize(registry.rbac(), &call.requester.user, &create));
    if target.kind.origin() == Origin::BuiltIn {
        return manager;
    }
    let kinds = registry.kinds();
    manager.with_served_versions(kinds.versions_of(&target.kind.stored_as).cloned().collect())
}

pub(super) fn patch_kind(call: &Call, kind: &Kind) -> Outcome<decode::PatchKind> {
    let media = call.head.header(CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    decode::PatchKind::of(media, kind).ok_or_else(|| unsupported(kind, true))
}
